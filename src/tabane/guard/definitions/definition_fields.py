"""Definitions as their fields: what changed in each, and where the evidence of a finding is. Pure.

In the texts, nothing is hidden: characters that nobody sees are escapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tabane.guard.definitions.definition import visible
from tabane.guard.scanner.findings import passage_of
from tabane.wire.json import InvalidJson, decode

MOST_FIELDS = 60
"""Fields that are shown. What follows is only counted."""

LONGEST_TEXT = 6_000
MOST_DEPTH = 40


class EvidenceMark(NamedTuple):
    """The span of an excerpt in the new text of a field. ``finding`` is the number of its finding."""

    finding: int
    start: int
    end: int


class FieldChange(NamedTuple):
    """A field with its text in the definition that is trusted, and in the new one; None if it is not there.

    ``path`` are the names that lead to it. ``cut`` is the number of characters that are left out of the new
    text.
    """

    path: tuple[str, ...]
    before: str | None
    after: str | None
    cut: int = 0
    marks: tuple[EvidenceMark, ...] = ()


class ChangedFields(NamedTuple):
    """The fields that differ, those with evidence first; and how many more there are."""

    fields: tuple[FieldChange, ...]
    more: int


def changed_fields(old: bytes | None, new: bytes, excerpts: Sequence[str] = ()) -> ChangedFields:
    """Return the fields in which definitions differ, and those that hold one of the excerpts."""
    before, after = ({} if old is None else _texts(old)), _texts(new)
    found: list[FieldChange] = []
    for path in {**after, **before}:
        text, was = after.get(path), before.get(path)
        marks = tuple(
            EvidenceMark(number, *place)
            for number, excerpt in enumerate(excerpts)
            if text is not None and (place := passage_of(excerpt, text[:LONGEST_TEXT])) is not None
        )
        if text == was and not marks:
            continue
        cut = 0 if text is None else max(0, len(text) - LONGEST_TEXT)
        found.append(FieldChange(path, _cut(was), _cut(text), cut, marks))
    found.sort(key=lambda each: not each.marks)  # stable: otherwise in the order of the definition
    return ChangedFields(tuple(found[:MOST_FIELDS]), max(0, len(found) - MOST_FIELDS))


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_TEXT]


def _texts(definition: bytes) -> Mapping[tuple[str, ...], str]:
    """Return the texts of a definition by path, in its order. What is no JSON is one text."""
    try:
        value = decode(definition)
    except InvalidJson:
        value = definition.decode("utf-8", "backslashreplace")
    found: dict[tuple[str, ...], str] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict) and part and len(path) < MOST_DEPTH:
            waiting += [((*path, str(name)), each) for name, each in reversed(part.items())]
        elif (
            isinstance(part, list)
            and len(path) < MOST_DEPTH
            and any(isinstance(e, dict | list) for e in part)
        ):
            waiting += [((*path, str(at)), each) for at, each in reversed(list(enumerate(part, 1)))]
        else:
            shown_path = tuple(visible(name) for name in path)
            found[shown_path] = "\n".join(map(visible, _written(part).split("\n")))
    return found


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return repr(value)
