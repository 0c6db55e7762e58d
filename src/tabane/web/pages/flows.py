"""The flow policy: what assistants have read, and which calls a person is asked about because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


SOURCES: Mapping[str, Message] = {
    "pages": say("web pages"),
    "posts": say("your posts"),
    "documents": say("your documents"),
    "docs": say("the manual"),
    "hub": say("Tabane"),
    "admin": say("Tabane"),
    "\u2026": say("other sources"),
}
"""What was read, if it is no server: Tabane's own sources, as trails and pairs name them."""


@dataclass
class LabeledServer:
    """The labels of a server's tools. ``labels`` has each label once, with all of its origins."""

    name: str
    url: str
    tools: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, dict[str, Message]] = field(default_factory=dict)


async def flows(request: PageRequest) -> WholePage:
    """Show the trails of clients, the allowed pairs, and the labels of tools by server."""
    found = await request.call("list_flow_labels", limit=MOST_TOOLS)
    context = {
        **await _trails_context(request),
        "servers": labeled_servers(found["results"]),
        "more_tools": found["more"],
        "meanings": LABELS,
    }
    return WholePage("flows/flows.html", say("Flow policy"), context)


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
    return Notice(say("{pair} is no longer allowed.", pair=pair), events=("flows",))


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
        "trails": [
            {
                **row,
                "who": names.get(row["holder"], row["holder"]),
                "shown_client": visible_text(row["client"], LONGEST_CLIENT),
                "shown_cwd": visible_text(row["cwd"], LONGEST_CLIENT),
                "read": [(label, list(row[label].items())) for label in row["labels"]],
                "of_all": not row["holder"],
            }
            for row in found["results"][:MOST_TRAILS]
        ],
        "more_trails": len(found["results"]) - MOST_TRAILS,
        "pairs": [{"holder": h, "who": names.get(h, h), "pair": pair} for h, pair in allowed[:MOST_PAIRS]],
        "more_pairs": len(allowed) - MOST_PAIRS,
        "colors": {name: label.color for name, label in LABELS.items()},
    }


def labeled_servers(rows: Sequence[Mapping[str, Any]]) -> list[LabeledServer]:
    """Return the tools by server, with the labels that some tool of it has. Tabane itself is the last."""
    found: dict[str, LabeledServer] = {}
    for row in rows:
        name = row["server"]
        server = found.setdefault(name, LabeledServer(name, server_url(name) if name else ""))
        labels = [
            {
                "name": each["label"],
                "color": LABELS[each["label"]].color,
                "origin": _origin_label(each["from"]),
            }
            for each in row["labels"]
        ]
        server.tools.append({**row, "labels": labels, "if_given": row.get("if_given", [])})
        for each in row["labels"]:
            origins = server.labels.setdefault(each["label"], {})
            origins[each["from"]] = _origin_label(each["from"])
    for server in found.values():
        server.labels = {label: server.labels[label] for label in LABELS if label in server.labels}
    return sorted(found.values(), key=lambda server: (not server.name, server.name))


def source_words(source: str) -> Message:
    """Return the words for what a trail or a pair names: a server, or what it is of Tabane's own."""
    return SOURCES.get(source) or say("{name!n}", name=visible_text(source, LONGEST_CLIENT))


def pair_words(pair: str) -> Message:
    """Return what is allowed by a pair such as ``pages>mail``."""
    source, _, sink = pair.partition(">")
    return say(
        "After {source} was read, calls of {sink} are made without asking.",
        sink=source_words(sink),
        source=source_words(source),
    )


def _origin_label(name: str) -> Message:
    return ORIGINS.get(name, Message(name))


ROUTES = (
    PageRoute("/flows", flows),
    PageRoute("/flows/-/trails", trails),
    PageRoute("/flows/-/forget", forget, "POST"),
    PageRoute("/flows/-/forget-all", forget_all, "POST"),
    PageRoute("/flows/-/disallow", disallow, "POST"),
)
