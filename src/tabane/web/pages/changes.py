"""Changes: definitions of servers that a person accepts or rejects."""

from __future__ import annotations

import asyncio
import difflib
import itertools
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

MOST_WORDS = 1_500
"""Words of a text up to which those that changed are marked, and not the whole text."""

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
    """Show the definitions that wait: what looks like an attack first, then those that are held back."""
    server = request.query.get("server", "")
    found = await request.call("list_definition_changes", server=server or None, limit=MOST_LISTED)
    rows = _worst_first(found["results"])
    context = {"changes": rows, "more": found["total"] - len(rows), "server": server, "held": found["held"]}
    return WholePage("changes/list.html", say("Changes"), context)


async def waiting(request: PageRequest, limit: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the definitions that wait, what looks like an attack first, for ``changes/brief.html``.

    Include the template with the definition as ``change``, and ``stay`` if its buttons leave the page as it
    is. There are none if nobody may see them.
    """
    rows = await request.rows("list_definition_changes", limit=limit)
    return _worst_first([row for row in rows if row["change"] != "rejected"])


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
    """Show how one definition differs from the one that was accepted, as an assistant would read it."""
    try:
        found = await request.call("show_definition_change", **_definition_key(request.query))
    except (UnknownName, BadArguments):
        return WholePage("changes/gone.html", say("Changed definition"))
    lines, fields = found.pop("diff"), found.pop("fields")
    context = {
        "change": _change_context(found),
        "fields": await asyncio.to_thread(list, map(_shown_field, fields)),
        "more_fields": found["more_fields"],
        "marked": sorted({mark["finding"] for field in fields for mark in field["marks"]}),
        "lines": [
            DiffRow(line["mark"], _ESCAPES.split(printable(line["text"]))) for line in lines[:MOST_LINES]
        ],
        "more": max(0, len(lines) - MOST_LINES),
    }
    return WholePage("changes/change.html", say("Changed definition"), context)


class DiffPart(NamedTuple):
    """A part of a text. ``mark``: added, removed, or nothing; ``finding``: its number if it is evidence.

    ``first``: the evidence begins here. ``unseen``: the escape of a character that nobody sees.
    """

    text: str
    mark: str = ""
    finding: int = -1
    first: bool = False
    unseen: bool = False


class ShownChange(NamedTuple):
    """A field of a definition with its texts in parts. ``path`` is its place; ``label`` says it in words."""

    label: Message
    path: str
    before: Sequence[DiffPart]
    after: Sequence[DiffPart]
    state: str
    cut: int


def _shown_field(field: Mapping[str, Any]) -> ShownChange:
    before, after = (printable(field[name] or "") for name in ("before", "after"))
    state = "new" if field["before"] is None else "gone" if field["after"] is None else "changed"
    removed, added = _word_changes(before, after) if state == "changed" else ((), ())
    if before == after:
        state = "same"
    return ShownChange(
        _path_words(field["path"]),
        visible_text(".".join(field["path"]), LONGEST_NAME),
        _parts(before, removed, "removed", ()),
        _parts(after, added, "added", field["marks"]),
        state,
        field["cut"],
    )


_WORD = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_Spans = Sequence[tuple[int, int]]


def _word_changes(before: str, after: str) -> tuple[_Spans, _Spans]:
    """Return the spans of words that are only in the one text, and only in the other."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if len(old) > MOST_WORDS or len(new) > MOST_WORDS:
        return [(0, len(before))], [(0, len(after))]
    removed, added = [], []
    at_old = list(itertools.accumulate(map(len, old), initial=0))
    at_new = list(itertools.accumulate(map(len, new), initial=0))
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed.append((at_old[i1], at_old[i2]))
            added.append((at_new[j1], at_new[j2]))
    return removed, added


def _parts(text: str, changed: _Spans, mark: str, evidence: Sequence[Mapping[str, int]]) -> list[DiffPart]:
    """Return a text in parts, each of which is of one kind."""
    unseen = [found.span() for found in _ESCAPES.finditer(text)]
    edges = {0, len(text)}
    edges.update(edge for span in (*changed, *unseen) for edge in span)
    edges.update(edge for each in evidence for edge in (each["start"], each["end"]))
    parts, begun = list[DiffPart](), set[int]()
    for start, end in itertools.pairwise(sorted(edge for edge in edges if edge <= len(text))):
        finding = next((e["finding"] for e in evidence if e["start"] <= start and end <= e["end"]), -1)
        changes = any(a <= start and end <= b for a, b in changed)
        hidden = any(a <= start and end <= b for a, b in unseen)
        first = finding >= 0 and finding not in begun
        begun.add(finding)
        parts.append(DiffPart(text[start:end], mark if changes else "", finding, first, hidden))
    return parts


_FIELDS: Mapping[str, Message] = {
    "name": say("Name"),
    "title": say("Title"),
    "description": say("Description"),
    "uri": say("Address"),
    "uriTemplate": say("Address"),
    "mimeType": say("Type"),
    "": say("Text"),
}


def _path_words(path: Sequence[str]) -> Message:
    """Return what a field of a definition is, in words."""
    match list(path):
        case []:
            return _FIELDS[""]
        case [name] if name in _FIELDS:
            return _FIELDS[name]
        case ["inputSchema", "properties", name, *rest]:
            what = _FIELDS.get(rest[0]) if len(rest) == 1 else None
            shown = visible_text(name, LONGEST_NAME)
            if what is not None:
                return say("Parameter {name}: {what}", name=shown, what=what)
            return say(
                "Parameter {name}: {what}", name=shown, what=visible_text(".".join(rest), LONGEST_NAME)
            )
        case ["annotations", *rest]:
            return say("What the server promises: {name}", name=visible_text(".".join(rest), LONGEST_NAME))
    return say("{text}", text=visible_text(".".join(path), LONGEST_NAME))


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


def _worst_first(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted(map(_change_context, rows), key=lambda change: not change["severe"])


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
    specific = finding["rule"] not in ("orders", "exfiltration") and finding["rule"] in RULES
    return {**texts, "label": label, "color": color, "words": words, "specific": specific}


ROUTES = (
    PageRoute("/changes", change_list),
    PageRoute("/changes/-/count", count_changes),
    PageRoute("/changes/-/one", one_change),
    PageRoute("/changes/-/accept", accept, "POST"),
    PageRoute("/changes/-/reject", reject, "POST"),
)
