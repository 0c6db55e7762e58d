"""Definitions of servers to review: the list, one difference, and the decision about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.errors import BadArguments, Conflict, UnknownName
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.servers import server_url
from tabane.web.pages.tool_results import printable

MOST_LISTED = 100
"""Definitions that the list shows."""

MOST_LINES = 3_000
"""Lines of a difference that are shown."""

LONGEST_NAME = 300

WHICH = ("server", "kind", "digest")
"""What names a definition. Its own name may have characters that no address has."""

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
    rows = [_shown(row) for row in found["results"]]
    context = {"changes": rows, "more": found["total"] - len(rows), "server": server, "held": found["held"]}
    return WholePage("changes/list.html", say("Changes"), context)


async def count(request: PageRequest) -> Fragment:
    """Return the number of definitions that wait, for the navigation."""
    found = await request.call("list_definition_changes", limit=MOST_LISTED)
    rejected = sum(row["change"] == "rejected" for row in found["results"])
    return Fragment("changes/count.html", {"count": found["total"] - rejected})


async def one_change(request: PageRequest) -> WholePage:
    """Show how one definition differs from the one that was accepted."""
    try:
        found = await request.call("show_definition_change", **_which(request.query))
    except (UnknownName, BadArguments):
        return WholePage("changes/gone.html", say("Changed definition"))
    lines = found.pop("diff")
    context = {
        "change": _shown(found),
        "lines": [_line(line) for line in lines[:MOST_LINES]],
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
    given = _which(await request.form())
    server = given.pop("server")
    try:
        done = await request.call(operation, server=server, definitions=[given])
    except (Conflict, UnknownName) as error:
        return Notice(error.message, kind="error", events=("definitions",))
    said = {
        "accepted": say("The definition was accepted."),
        "rejected": say("The definition was rejected. It is held back."),
    }
    return Redirect("/changes", said[done["status"]])


def _which(given: Mapping[str, str]) -> dict[str, Any]:
    return {name: given.get(name, "") for name in WHICH}


def _line(line: Mapping[str, str]) -> DiffRow:
    return DiffRow(line["mark"], _ESCAPES.split(printable(line["text"])))


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change for the templates: what the server says is untrusted, and nothing in it is hidden."""
    which = {name: row[name] for name in WHICH}
    label, color = CHANGES.get(row["change"], (Message(row["change"]), ""))
    name = row["name"]
    short = name[:LONGEST_NAME] + ("…" if len(name) > LONGEST_NAME else "")
    return {
        **row,
        "which": which,
        "shown_name": shown_controls(printable(short)),
        "kind_label": KINDS.get(row["kind"], Message(row["kind"])),
        "label": label,
        "color": color,
        "page": f"/changes/-/one?{urlencode(which)}",
        "server_page": server_url(row["server"]),
        "findings": [_finding(finding) for finding in row["findings"]],
    }


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    label, color = SEVERITIES.get(finding["severity"], (Message(finding["severity"]), ""))
    texts = {name: shown_controls(printable(finding[name])) for name in ("message", "excerpt", "rule")}
    return {**texts, "label": label, "color": color}


ROUTES = (
    PageRoute("/changes", change_list),
    PageRoute("/changes/-/count", count),
    PageRoute("/changes/-/one", one_change),
    PageRoute("/changes/-/accept", accept, "POST"),
    PageRoute("/changes/-/reject", reject, "POST"),
)
