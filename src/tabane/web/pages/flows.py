"""The flow policy: what assistants have read, and which calls a person is asked about because of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabane.guard.approvals.letter import pair_words, source_words
from tabane.messages import Message, say
from tabane.web.flow_labels import LABELS, ORIGINS
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, WholePage
from tabane.web.pages.servers import server_url
from tabane.web.pages.tools import visible_text

MOST_TOOLS = 1_000
"""Tools whose labels are shown."""

MOST_TRAILS = 100
MOST_PAIRS = 200
MOST_KEYS = 10_000
LONGEST_CLIENT = 200
"""Characters of a client's name or folder that are shown."""


POLICIES: Mapping[str, tuple[Message, Message]] = {
    "ask": (
        say("Ask me"),
        say(
            "You are asked before a call that sends data away once an assistant has read private data and "
            "texts of strangers, and before a call that cannot be undone once it has read texts of "
            "strangers, if such a text may have named whom it reaches or what it changes."
        ),
    ),
    "strict": (
        say("Refuse"),
        say(
            "Such a call is refused, unless you or a source of your own named whom it reaches, or you have "
            "allowed it below."
        ),
    ),
    "off": (say("Off"), say("Nothing is noted, and you are not asked because of what was read.")),
}
"""Policies: the name of each, and what it does."""


@dataclass
class LabeledServer:
    """The labels of a server's tools. ``labels`` has for each label how many of them have it."""

    name: str
    page: str
    tools: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


async def flows(request: PageRequest) -> WholePage:
    """Show the policy, the trails of clients, the allowed pairs, and the labels of tools by server."""
    wanted = request.query.get("server")
    found, context = await asyncio.gather(
        request.call("list_flow_labels", limit=MOST_TOOLS), _trails_context(request)
    )
    servers = labeled_servers(found["results"])
    context |= {
        "servers": servers,
        "opened": next((server for server in servers if server.name == wanted), None),
        "more_tools": found["more"],
        "meanings": LABELS,
    }
    return WholePage("flows/flows.html", say("Flow policy"), context)


async def change_policy(request: PageRequest) -> PageAnswer:
    """Switch the policy off, or choose another one."""
    wanted = (await request.form()).get("policy", "")
    done = await request.call("change_setting", name="flow_policy", value=wanted)
    events = ("flows", "settings")
    if done["setting"]["value"] != wanted:  # the environment or an option of the hub says otherwise
        return Notice(say("The setting flow_policy is set elsewhere, and stays as it is."), "error", events)
    return Notice(POLICIES[wanted][1], events=events)


async def trails(request: PageRequest) -> Fragment:
    """Return the trails and pairs, which change while clients work."""
    return Fragment("flows/trails.html", await _trails_context(request))


async def forget(request: PageRequest) -> PageAnswer:
    """Forget what one client has read in one folder."""
    given = await request.form()
    which = {name: given.get(name, "") for name in ("holder", "client", "cwd")}
    return _forgotten_notice(await request.call("forget_flow_trails", **which))


async def forget_all(request: PageRequest) -> PageAnswer:
    """Forget what all clients have read."""
    return _forgotten_notice(await request.call("forget_flow_trails"))


async def disallow(request: PageRequest) -> PageAnswer:
    """Take an allowed pair back."""
    given = await request.form()
    pair = given.get("pair", "")
    found = await request.call("disallow_flow", pair=pair, holder=given.get("holder", ""))
    if not found["changed"]:
        return Notice(say("{pair} was not allowed.", pair=pair), events=("flows",))
    return Notice(say("You are asked again about {pair}.", pair=pair), events=("flows",))


def _forgotten_notice(found: Mapping[str, Any]) -> Notice:
    count = found["forgotten"]
    message = say("{count} {count:client|clients} forgotten.", count=count)
    return Notice(message if count else say("There was nothing to forget."), events=("flows",))


async def _trails_context(request: PageRequest) -> dict[str, Any]:
    found = await request.call("list_flow_trails")
    allowed = [(holder, pair) for holder, pairs in found["allowed"].items() for pair in pairs]
    holders = {row["holder"] for row in found["results"]} | set(found["allowed"])
    names: dict[str, str] = {}
    if any(holder.startswith("key:") for holder in holders):
        keys = await request.rows("keys_list", revoked=True, limit=MOST_KEYS)
        names = {f"key:{key['id']}": key["name"] for key in keys}
    return {
        "policy": found["policy"],
        "policies": POLICIES,
        "trails": [
            _trail_context(row, names.get(row["holder"], row["holder"]), found["policy"])
            for row in found["results"][:MOST_TRAILS]
        ],
        "more_trails": len(found["results"]) - MOST_TRAILS,
        "pairs": [
            {"holder": holder, "who": names.get(holder, holder), "pair": pair, "words": pair_words(pair)}
            for holder, pair in allowed[:MOST_PAIRS]
        ],
        "more_pairs": len(allowed) - MOST_PAIRS,
    }


def _trail_context(row: Mapping[str, Any], who: str, policy: str) -> dict[str, Any]:
    """Return what one client has read, and what follows from it."""
    return {
        **row,
        "who": who,
        "shown_client": visible_text(row["client"], LONGEST_CLIENT),
        "shown_cwd": visible_text(row["cwd"].removeprefix("file://"), LONGEST_CLIENT),
        "read": [
            (LABELS[label], [(source_words(source), tool) for source, tool in row[label].items()])
            for label in ("untrusted", "private")
            if label in row["labels"]
        ],
        "passed_words": [pair_words(pair) for pair in row["passed"]],
        "follows": _consequence(row["labels"], policy),
        "of_all": not row["holder"],
    }


def _consequence(labels: Sequence[str], policy: str) -> Message:
    """Return what the policy does with the next calls of who has read something with these labels."""
    if "untrusted" not in labels:
        return say("It read nothing of strangers, so you are not asked about its calls.")
    if policy == "strict":
        return say("Its calls that send data away or cannot be undone are refused.")
    if "private" in labels:
        return say(
            "You are asked before it sends data to somebody, or does what cannot be undone, as texts of "
            "strangers say."
        )
    return say("You are asked before it does what cannot be undone as texts of strangers say.")


def labeled_servers(rows: Sequence[Mapping[str, Any]]) -> list[LabeledServer]:
    """Return the tools by server, with how many of them have each label. Tabane itself is the last."""
    found: dict[str, LabeledServer] = {}
    for row in rows:
        name = row["server"]
        server = found.setdefault(name, LabeledServer(name, server_url(name) if name else ""))
        labels = [
            (LABELS[each["label"]], ORIGINS.get(each["from"], Message(each["from"])))
            for each in row["labels"]
        ]
        server.tools.append({**row, "labels": labels, "if_given": row.get("if_given", [])})
        for each in row["labels"]:
            server.labels[each["label"]] = server.labels.get(each["label"], 0) + 1
    return sorted(found.values(), key=lambda server: (not server.name, server.name))


ROUTES = (
    PageRoute("/flows", flows),
    PageRoute("/flows/-/trails", trails),
    PageRoute("/flows/-/policy", change_policy, "POST"),
    PageRoute("/flows/-/forget", forget, "POST"),
    PageRoute("/flows/-/forget-all", forget_all, "POST"),
    PageRoute("/flows/-/disallow", disallow, "POST"),
)
