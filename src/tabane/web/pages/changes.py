"""Changes: definitions of servers that a person accepts or rejects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.errors import BadArguments, Conflict, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
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

RULES: Mapping[str, Message] = {
    "orders": say("Its text gives orders to the assistant."),
    "exfiltration": say("Its text asks the assistant for secrets, or for what you wrote."),
    "shadowing": say("Its text tells the assistant how to use the tools of others."),
    "hidden-text": say("Its text hides something from you that the assistant reads."),
    "lookalike": say("Its name imitates the tool of another server."),
}
"""Kinds of findings in plain words."""

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


async def waiting(request: PageRequest, limit: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the definitions that wait, those that are held back first, for ``changes/brief.html``.

    Include the template with the definition as ``change``, and ``stay`` if its buttons leave the page as it
    is. There are none if nobody may see them.
    """
    rows = await request.rows("list_definition_changes", limit=limit)
    return [_change_context(row) for row in rows if row["change"] != "rejected"]


async def change_of_tool(request: PageRequest, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the definition that waits of the tool that a call names (public name and server)."""
    if not row["server"] or not request.may("list_definition_changes"):
        return None
    name = row["tool"].removeprefix(f"{row['server']}__")
    try:
        found = await request.rows("list_definition_changes", server=row["server"], limit=MOST_LISTED)
    except TabaneError:
        return None  # the server is gone
    fitting = (each for each in found if each["kind"] == "tool" and each["name"] == name and each["current"])
    return next((_change_context(each) for each in fitting), None)


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
    form = await request.form()
    given = _definition_key(form)
    server = given.pop("server")
    try:
        done = await request.call(operation, server=server, definitions=[given])
    except (Conflict, UnknownName) as error:
        return Notice(error.message, kind="error", events=("definitions",))
    messages = {
        "accepted": say("The definition was accepted."),
        "rejected": say("The definition was rejected. It is held back."),
    }
    if form.get("stay") == "true":
        return Notice(messages[done["status"]], events=("definitions",))
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
        "heading": _heading(row),
        "label": label,
        "color": color,
        "page": f"/changes/-/one?{urlencode(which)}",
        "server_page": server_url(row["server"]),
        "findings": [_finding_context(finding) for finding in row["findings"]],
        "severe": any(finding["severity"] == "high" for finding in row["findings"]),
    }


def _heading(row: Mapping[str, Any]) -> Message:
    """Return what happened, in words."""
    fields = {
        "kind": KINDS.get(row["kind"], Message(row["kind"])),
        "name": visible_text(row["name"], LONGEST_NAME),
        "server": row["server"],
    }
    if not row["name"]:
        fields.pop("name")
        if row["change"] == "added":
            return say("{server!n} has new instructions", **fields)
        return say("{server!n} changed its instructions", **fields)
    if row["change"] == "added":
        return say("{kind} {name} of {server!n} is new", **fields)
    if row["change"] == "suspicious":
        return say("{kind} {name} of {server!n} looks like an attack", **fields)
    if row["change"] == "rejected":
        return say("{kind} {name} of {server!n} was rejected", **fields)
    return say("{kind} {name} of {server!n} has changed", **fields)


def _finding_context(finding: Mapping[str, Any]) -> dict[str, Any]:
    label, color = SEVERITIES.get(finding["severity"], (Message(finding["severity"]), ""))
    texts = {name: shown_controls(printable(finding[name])) for name in ("message", "excerpt", "rule")}
    words = RULES.get(finding["rule"]) or say("{text}", text=texts["message"])
    return {**texts, "label": label, "color": color, "words": words}


ROUTES = (
    PageRoute("/changes", change_list),
    PageRoute("/changes/-/count", count_changes),
    PageRoute("/changes/-/one", one_change),
    PageRoute("/changes/-/accept", accept, "POST"),
    PageRoute("/changes/-/reject", reject, "POST"),
)
