"""Edits of JSON text that preserve every other character, including comments and layout; pure.

A member is added or removed in the text itself, without parsing and writing the rest: numbers, escapes,
repeated keys and line endings are preserved. New text has the layout of the object around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tabane.servers.commented_json import JsonMember, blank_comments, read_document

_LINE_REST = re.compile(r"(?:[ \t]|//[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/)*(?=[\r\n]|\Z)")
_BLANK = " \t"


class NotAnObject(ValueError):
    """The value at ``key`` must be an object to hold the rest of the path, and is not."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnsafeJsonEdit(ValueError):
    """The changed text would not have the intended value; it must not be written."""


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the member at ``path`` set to ``value``. Missing objects on the path are added.

    An empty text counts as an empty object. Raises JsonSyntaxError, NotAnObject and UnsafeJsonEdit.
    """
    source = _JsonText(text if text.strip() else "{}\n")
    place = source.root
    for depth, key in enumerate(path):
        found = place.last(key)
        rest = path[depth + 1 :]
        if found is None:
            return _checked(source.added(place, key, _nested(rest, value)), path, value)
        if not rest or found.value is None:
            return _checked(source.replaced(place, found, _nested(rest, value)), path, value)
        place = source.inner(place, found)
    return text


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at ``path``, also if repeated; unchanged if it has none.

    The object that contained it stays, even if empty. Raises as :func:`with_member`.
    """
    while text.strip():
        source = _JsonText(text)
        place = source.root
        for key in path[:-1]:
            found = place.last(key)
            if found is None or found.value is None:
                return text
            place = source.inner(place, found)
        found = place.last(path[-1])
        if found is None:
            break
        text = source.removed(place, place.members.index(found))
        read_document(text)
    return text


def has_comments(text: str, path: Sequence[str]) -> bool:
    """Return whether the value at ``path`` contains a comment; False if there is no value."""
    source = _JsonText(text)
    place = source.root
    for depth, key in enumerate(path, 1):
        found = place.last(key)
        if found is None:
            return False
        if depth == len(path):
            return source.has_comments(found)
        if not isinstance(found.value, dict):
            return False
        place = source.inner(place, found)
    return False


class _ObjectSpan(Struct, frozen=True):
    """An object in a text: the positions of its brackets, and the layout of its members.

    ``margin`` is the white space before each member, None if they follow one another on a line;
    ``outer`` is that of the line with the closing bracket.
    """

    open: int
    close: int
    members: tuple[JsonMember, ...]
    margin: str | None
    outer: str

    def last(self, key: str) -> JsonMember | None:
        """Return the member of that key that counts: the last, if there are several."""
        return next((member for member in reversed(self.members) if member.key == key), None)


class _JsonText:
    """A text, and the state for editing it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._document = read_document(text)
        self._bare = blank_comments(text) if self._document.commented else text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        if not isinstance(self._document.value, dict):
            raise NotAnObject("")
        strict = self._document.text
        begin, end = len(strict) - len(strict.lstrip()), len(strict.rstrip())
        members = self._document.members(begin)
        first = self._margin_before(members[0].begin) if members else "  "
        self._unit = first or "  "
        self.root = _ObjectSpan(begin, end - 1, members, first, "")

    def inner(self, place: _ObjectSpan, member: JsonMember) -> _ObjectSpan:
        """Return the object that is the value of ``member``. Raises NotAnObject."""
        if not isinstance(member.value, dict):
            raise NotAnObject(member.key)
        members = self._document.members(member.start)
        outer = place.margin or ""
        if members:
            margin = self._margin_before(members[-1].begin)
        else:
            margin = None if place.margin is None else outer + self._unit
        return _ObjectSpan(member.start, member.end - 1, members, margin, outer)

    def has_comments(self, member: JsonMember) -> bool:
        return self.text[member.start : member.end] != self._bare[member.start : member.end]

    def added(self, place: _ObjectSpan, key: str, value: Any) -> str:
        written = f"{json.dumps(key, ensure_ascii=not _encodes(key))}: {self._formatted(value, place.margin)}"
        if not place.members:
            before, after = "", ""
            if place.margin is not None:
                before = self._newline + place.margin
                inside = self.text[place.open + 1 : place.close]
                after = "" if "\n" in inside else self._newline + place.outer
            at = place.open + 1
            return self.text[:at] + before + written + after + self.text[at:]
        last = place.members[-1]
        comma = self._comma_behind(last.end)
        behind = last.end if comma is None else comma + 1
        glue = " " if place.margin is None else self._newline + place.margin
        at = behind
        if place.margin is not None and (rest := _LINE_REST.match(self.text, behind)):
            at = rest.end()  # after the comments on the same line, if nothing else follows there
        grown = self.text[:at] + glue + written + ("" if comma is None else ",") + self.text[at:]
        return grown[: last.end] + "," + grown[last.end :] if comma is None else grown

    def replaced(self, place: _ObjectSpan, member: JsonMember, value: Any) -> str:
        if member.value == value:
            return self.text
        return self.text[: member.start] + self._formatted(value, place.margin) + self.text[member.end :]

    def removed(self, place: _ObjectSpan, index: int) -> str:
        member = place.members[index]
        comma = self._comma_behind(member.end)
        cuts: list[tuple[int, int]] = []
        end = member.end
        if comma is not None:
            if self.text[end:comma].strip(_BLANK):
                cuts.append((comma, comma + 1))
            else:
                end = comma + 1
        elif index:
            before = self._bare.index(",", place.members[index - 1].end, member.begin)
            cuts.append((before, before + 1))
        lead = self._lead(member.begin, end, index, member is place.members[-1])
        if lead == member.begin and comma is not None:
            end += len(self.text[end:]) - len(self.text[end:].lstrip(_BLANK))
        text = self.text
        for begin, stop in sorted([*cuts, (lead, end)], reverse=True):
            text = text[:begin] + text[stop:]
        close = place.close - len(self.text) + len(text)
        nothing = not text[place.open + 1 : close].strip()
        return text[: place.open + 1] + text[close:] if nothing else text

    def _lead(self, begin: int, end: int, index: int, last: bool) -> int:
        """Return the start of the white space before a member that belongs to it."""
        start = len(self.text[:begin].rstrip(_BLANK))
        alone = self.text[end:].lstrip(_BLANK)[:1] in ("", "\r", "\n")
        before = self.text[len(self._bare[:start].rstrip()) : start]
        if self.text[start - 1 : start] != "\n":
            return start if index else begin
        # If something follows on this line, keep the line break: a comment before it would swallow that.
        if alone or (last and "//" not in before):
            return len(self.text[: start - 1].removesuffix("\r"))
        return begin

    def _comma_behind(self, position: int) -> int | None:
        rest = self._bare[position:]
        at = len(rest) - len(rest.lstrip())
        return position + at if rest[at : at + 1] == "," else None

    def _margin_before(self, position: int) -> str | None:
        start = len(self.text[:position].rstrip(_BLANK))
        return self.text[start:position] if self.text[start - 1 : start] == "\n" else None

    def _formatted(self, value: Any, margin: str | None) -> str:
        plain = not _encodes(json.dumps(value, ensure_ascii=False))
        if margin is None:
            return json.dumps(value, ensure_ascii=plain)
        written = json.dumps(value, ensure_ascii=plain, indent=self._unit)
        return written.replace("\n", self._newline + margin)


def _checked(text: str, path: Sequence[str], value: Any) -> str:
    found = read_document(text).value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if found != value:
        raise UnsafeJsonEdit("/".join(path))
    return text


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _encodes(text: str) -> bool:
    """Return whether the text can be written as UTF-8: half of a surrogate pair can only be escaped."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
