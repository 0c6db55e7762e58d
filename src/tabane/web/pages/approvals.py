"""Pages where a person decides: calls to approve, changed definitions, and rules of data flows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.errors import BadArguments, Conflict, Forbidden, RateLimited, UnknownName
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.flow_labels import LABELS, ORIGINS
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.servers import server_url
from tabane.web.pages.tools import printable, visible_text

MOST_LISTED = 100
"""Definitions that the list shows."""

MOST_LINES = 3_000
"""Lines of a difference that are shown."""

LONGEST_NAME = 300

WHICH = ("server", "kind", "digest")
"""Fields that identify a definition. Its own name may have characters that no address has."""

KINDS: Mapping[str, Message] = {
    "tool": say("Tool"),
    "prompt": say("Prompt"),
    "resource": say("Resource"),
    "template": say("Resource template"),
    "skill": say("Skill"),
    "instructions": say("Instructions"),
}

CHANGES: Mapping[str, tuple[Message, str]] = {
    "added": (say("New"), "warn"),
    "changed": (say("Changed"), "warn"),
    "suspicious": (say("Suspicious"), "bad"),
    "rejected": (say("Rejected"), ""),
}

SEVERITIES: Mapping[str, tuple[Message, str]] = {
    "high": (say("severe"), "bad"),
    "medium": (say("medium"), "warn"),
    "low": (say("minor"), ""),
}

_ESCAPES = re.compile(r"((?:\\u[0-9a-f]{4})+)")


class DiffRow(NamedTuple):
    """A line of a difference in parts. Each second part is an escape of characters that nobody sees."""

    mark: str
    parts: Sequence[str]


async def change_list(request: PageRequest) -> WholePage:
    """Show the definitions that wait, those that are held back first."""
    server = request.query.get("server", "")
    found = await request.call("list_definition_changes", server=server or None, limit=MOST_LISTED)
    rows = [_change_context(row) for row in found["results"]]
    context = {"changes": rows, "more": found["total"] - len(rows), "server": server, "held": found["held"]}
    return WholePage("changes/list.html", say("Changes"), context)


async def count_changes(request: PageRequest) -> Fragment:
    """Return the number of definitions that wait, for the navigation."""
    found = await request.call("list_definition_changes", limit=MOST_LISTED)
    rejected = sum(row["change"] == "rejected" for row in found["results"])
    return Fragment("changes/count.html", {"count": found["total"] - rejected})


async def one_change(request: PageRequest) -> WholePage:
    """Show how one definition differs from the one that was accepted."""
    try:
        found = await request.call("show_definition_change", **_definition_key(request.query))
    except (UnknownName, BadArguments):
        return WholePage("changes/gone.html", say("Changed definition"))
    lines = found.pop("diff")
    context = {
        "change": _change_context(found),
        "lines": [
            DiffRow(line["mark"], _ESCAPES.split(printable(line["text"]))) for line in lines[:MOST_LINES]
        ],
        "more": max(0, len(lines) - MOST_LINES),
    }
    return WholePage("changes/change.html", say("Changed definition"), context)


async def accept(request: PageRequest) -> PageAnswer:
    """Accept the definition that the page shows, by its hash."""
    return await _decide(request, "accept_definitions")


async def reject(request: PageRequest) -> PageAnswer:
    """Reject the definition that the page shows."""
    return await _decide(request, "reject_definitions")


async def _decide(request: PageRequest, operation: str) -> PageAnswer:
    given = _definition_key(await request.form())
    server = given.pop("server")
    try:
        done = await request.call(operation, server=server, definitions=[given])
    except (Conflict, UnknownName) as error:
        return Notice(error.message, kind="error", events=("definitions",))
    messages = {
        "accepted": say("The definition was accepted."),
        "rejected": say("The definition was rejected. It is held back."),
    }
    return Redirect("/changes", messages[done["status"]])


def _definition_key(given: Mapping[str, str]) -> dict[str, Any]:
    return {name: given.get(name, "") for name in WHICH}


def _change_context(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change for the templates: what the server says is untrusted, and nothing in it is hidden."""
    which = {name: row[name] for name in WHICH}
    label, color = CHANGES.get(row["change"], (Message(row["change"]), ""))
    return {
        **row,
        "which": which,
        "shown_name": visible_text(row["name"], LONGEST_NAME),
        "kind_label": KINDS.get(row["kind"], Message(row["kind"])),
        "label": label,
        "color": color,
        "page": f"/changes/-/one?{urlencode(which)}",
        "server_page": server_url(row["server"]),
        "findings": [_finding_context(finding) for finding in row["findings"]],
    }


def _finding_context(finding: Mapping[str, Any]) -> dict[str, Any]:
    label, color = SEVERITIES.get(finding["severity"], (Message(finding["severity"]), ""))
    texts = {name: shown_controls(printable(finding[name])) for name in ("message", "excerpt", "rule")}
    return {**texts, "label": label, "color": color}


LONGEST_ARGUMENTS = 8_000
"""Characters of arguments that are shown."""


async def approvals(request: PageRequest) -> WholePage:
    """Show the calls that wait, the oldest first, and approvals that are not used yet."""
    rows = []
    for row in await _list_approvals(request):
        arguments = str(row["arguments"])
        cut = len(arguments) > LONGEST_ARGUMENTS or row["arguments_size"]
        # The assistant wrote the arguments, so nothing in them is hidden.
        shown = shown_controls(printable(arguments[:LONGEST_ARGUMENTS]))
        rows.append({**row, "arguments": shown, "cut": cut, "url": f"/approvals/{row['id']}"})
    state = await request.call("passphrase_state")
    context = {
        "open": [row for row in rows if row["state"] == "open"],
        "approved": [row for row in rows if row["state"] == "approved"],
        "locked": not state["unlocked"],
        "problem": "",
    }
    return WholePage("approvals/list.html", say("Approvals"), context)


async def count(request: PageRequest) -> Fragment:
    """Return the number of calls that wait, for the navigation."""
    waiting = [row for row in await _list_approvals(request) if row["state"] == "open"]
    return Fragment("approvals/count.html", {"count": len(waiting)})


async def approve(request: PageRequest) -> PageAnswer:
    """Approve a call, once; with the pairs of it also for later calls, if the form says so."""
    remember = (await request.form()).get("remember") == "true"
    try:
        row = await request.call("approve_call", id=request.path("approval"), remember=remember)
    except UnknownName as error:
        return Redirect("/approvals", error.message)
    return Redirect("/approvals", say("The call of {tool} is approved, once.", tool=row["tool"]))


async def refuse(request: PageRequest) -> PageAnswer:
    """Refuse a call, or take an approval back that was not used."""
    try:
        row = await request.call("refuse_call", id=request.path("approval"))
    except UnknownName as error:
        return Redirect("/approvals", error.message)
    return Redirect("/approvals", say("The call of {tool} is refused.", tool=row["tool"]))


async def unlock(request: PageRequest) -> PageAnswer:
    """Take the passphrase."""
    given = (await request.form()).get("passphrase", "")
    try:
        await request.call("unlock", passphrase=given)
    except (Forbidden, RateLimited) as error:
        return Fragment("approvals/unlock.html", {"problem": error.text(request.lang)}, 422)
    return Redirect("/approvals", say("The page is unlocked for five minutes."))


async def _list_approvals(request: PageRequest) -> Sequence[dict[str, Any]]:
    found = await request.call("list_approvals")
    return sorted(found["results"], key=lambda row: float(row["asked"]))


_ONE = "/approvals/{approval}"


MOST_TOOLS = 1_000
"""Tools whose labels are shown."""

MOST_TRAILS = 100
MOST_PAIRS = 200
MOST_KEYS = 10_000
LONGEST_CLIENT = 200
"""Characters of a client's name or folder that are shown."""


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
        "colors": {name: color for name, (_, color) in LABELS.items()},
    }


def labeled_servers(rows: Sequence[Mapping[str, Any]]) -> list[LabeledServer]:
    """Return the tools by server, with the labels that some tool of it has. Tabane itself is the last."""
    found: dict[str, LabeledServer] = {}
    for row in rows:
        name = row["server"]
        server = found.setdefault(name, LabeledServer(name, server_url(name) if name else ""))
        labels = [
            {"name": each["label"], "color": LABELS[each["label"]][1], "origin": _origin_label(each["from"])}
            for each in row["labels"]
        ]
        server.tools.append({**row, "labels": labels, "if_given": row.get("if_given", [])})
        for each in row["labels"]:
            origins = server.labels.setdefault(each["label"], {})
            origins[each["from"]] = _origin_label(each["from"])
    for server in found.values():
        server.labels = {label: server.labels[label] for label in LABELS if label in server.labels}
    return sorted(found.values(), key=lambda server: (not server.name, server.name))


def _origin_label(name: str) -> Message:
    return ORIGINS.get(name, Message(name))


ROUTES = (
    PageRoute("/changes", change_list),
    PageRoute("/changes/-/count", count_changes),
    PageRoute("/changes/-/one", one_change),
    PageRoute("/changes/-/accept", accept, "POST"),
    PageRoute("/changes/-/reject", reject, "POST"),
    PageRoute("/approvals", approvals),
    PageRoute("/approvals/-/count", count),
    PageRoute("/approvals/-/unlock", unlock, "POST"),
    PageRoute(f"{_ONE}/approve", approve, "POST"),
    PageRoute(f"{_ONE}/refuse", refuse, "POST"),
    PageRoute("/flows", flows),
    PageRoute("/flows/-/trails", trails),
    PageRoute("/flows/-/forget", forget, "POST"),
    PageRoute("/flows/-/forget-all", forget_all, "POST"),
    PageRoute("/flows/-/disallow", disallow, "POST"),
)
