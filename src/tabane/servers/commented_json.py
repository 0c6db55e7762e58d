"""JSON with comments and trailing commas, with the line of every member.

Comments and trailing commas are replaced by spaces, so that every offset stays the same. The rest is read
strictly by the standard library. (Libraries for JSON with comments either give no column, or their import
takes longer than this whole file takes to run.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct

from tabane.messages import Message, say

_STRING = r'"(?:[^"\\\r\n]|\\.)*"'
_TOKENS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/|/\*", re.DOTALL)
_COMMAS = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])")
_VISIBLE = re.compile(r"[^\r\n]")
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class JsonSyntaxError(ValueError):
    """Text that is not JSON. ``line`` and ``column`` count from 1; ``expected`` is what belongs there."""

    def __init__(self, text: str, position: int, expected: Message) -> None:
        super().__init__(expected)
        self.line = _line(text, position)
        self.column = position - text.rfind("\n", 0, position)
        self.expected = expected


class JsonMember(Struct, frozen=True):
    """One ``"key": value`` of an object: its line, and the offset at which the value begins.

    ``begin`` is the offset of the key, ``end`` the one behind the value.
    """

    key: str
    value: Any
    line: int
    start: int
    begin: int = 0
    end: int = 0


class JsonDocument(Struct, frozen=True):
    """A file that was read: its value, and access to the lines of its parts.

    ``commented`` says whether it has comments, which a rewritten file would lose.
    """

    value: Any
    text: str
    commented: bool

    def members(self, start: int = 0) -> tuple[JsonMember, ...]:
        """Return the members of the object at that offset, in the file's order, doubled keys included.

        Empty if the value at that offset is not an object.
        """
        return tuple(_members(self.text, start))


def read_document(text: str) -> JsonDocument:
    """Read JSON that may have comments and trailing commas. Raises :class:`JsonSyntaxError`."""
    with suppress(ValueError, RecursionError):  # most files have neither, and some have many megabytes
        return JsonDocument(_DECODER.decode(text), text, commented=False)
    blanked = blank_comments(text)
    strict = blank_trailing_commas(blanked)
    try:
        value = _DECODER.decode(strict)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(
            text, error.pos, _expected(error.msg, strict[error.pos : error.pos + 1])
        ) from None
    except RecursionError:
        raise JsonSyntaxError(text, 0, say("it is nested too deeply")) from None
    except ValueError:
        raise JsonSyntaxError(text, 0, say("a number in it is too long")) from None
    return JsonDocument(value, strict, commented=blanked != text)


def blank_comments(text: str) -> str:
    """Return the text with spaces in place of comments: same length, same line breaks.

    Raises :class:`JsonSyntaxError` at a comment that does not end.
    """

    def blanked(token: re.Match[str]) -> str:
        found = token.group()
        if found.startswith('"'):
            return found
        if found == "/*":
            raise JsonSyntaxError(text, token.start(), say("this comment has no closing */"))
        return _VISIBLE.sub(" ", found)

    return _TOKENS.sub(blanked, text)


def blank_trailing_commas(text: str) -> str:
    """Return the text with a space for each comma between an element and a closing bracket.

    A comma with nothing before it, as in ``[,]``, is an error and remains one.
    """

    def blanked(token: re.Match[str]) -> str:
        return (
            " " if token.group() == "," and _last_before(text, token.start()) not in "[{,:" else token.group()
        )

    return _COMMAS.sub(blanked, text)


def _last_before(text: str, position: int) -> str:
    """Return the last character before ``position`` that is no white space; a bracket at the start."""
    while position > 0:
        position -= 1
        if text[position] not in " \t\r\n":
            return text[position]
    return "["


def _members(text: str, start: int) -> Iterator[JsonMember]:
    """Walk an object of text that is known to be strict JSON."""
    position = _skip(text, start)
    if text[position : position + 1] != "{":
        return
    line, counted = _line(text, start), start
    position = _skip(text, position + 1)
    while text[position] == '"':
        begin = position
        line, counted = line + text.count("\n", counted, begin), begin
        key, position = _DECODER.raw_decode(text, begin)
        value_at = _skip(text, _skip(text, position) + 1)
        value, position = _DECODER.raw_decode(text, value_at)
        yield JsonMember(key, value, line, value_at, begin, position)
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _expected(detail: str, found: str) -> Message:
    if detail not in _EXPECTED:
        return say("expected valid JSON ({detail})", detail=detail)
    what = _EXPECTED[detail]
    if not detail.startswith(("Expecting", "Extra")):
        return what
    # Only one character is shown: the next word in a servers file may be a secret.
    if not found:
        return say("{expected}, but the text ends", expected=what)
    shown = found if found.isascii() and found.isprintable() else f"U+{ord(found):04X}"
    return say("{expected}, but found {found}", expected=what, found=shown)


_EXPECTED = {
    "Expecting value": say("expected a value"),
    "Expecting property name enclosed in double quotes": say('expected a name in double quotes or "}"'),
    "Expecting ':' delimiter": say('expected ":" after the name'),
    "Expecting ',' delimiter": say('expected "," or a closing bracket'),
    "Unterminated string starting at": say("expected a closing quote for this text"),
    "Invalid control character at": say("expected a closing quote before the end of the line"),
    "Invalid \\escape": say('expected "\\\\" for a backslash'),
    "Invalid \\escape: ": say('expected "\\\\" for a backslash'),
    "Invalid \\uXXXX escape": say('expected four digits after "\\u"'),
    "Extra data": say("expected the end of the file"),
}
