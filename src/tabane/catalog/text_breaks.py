"""Positions at which to cut a long result so that each part reads well; pure.

A text is UTF-8, and cut as :mod:`tabane.text.cutting` does. JSON is cut between the elements of its outermost
array or object, or of their children if one is too long. The parts together are always the text itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from tabane.text.cutting import cut_at
from tabane.wire import json

DEEPEST = 32
"""Levels of nesting at which a JSON text may be cut between elements."""

_LINES_IN_JSON = ("\n", "\\n")
_LONGEST_KEY = 40

Label = int | bytes
"""A position in an array (an index) or an object (a key, as it is written)."""


class TextPosition(NamedTuple):
    """A position in a text: an offset in bytes and, in JSON, the labels of what is open there.

    ``inside`` is True within a string.
    """

    at: int = 0
    levels: tuple[Label, ...] = ()
    inside: bool = False


def is_json(text: bytes) -> bool:
    """Return whether a text is one JSON array or object."""
    if text.lstrip(b" \t\r\n")[:1] not in (b"[", b"{"):
        return False
    try:
        _any_json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def next_break(text: bytes, place: TextPosition, limit: int, *, of_json: bool) -> TextPosition:
    """Return the end of the part that begins at ``place``: at least 1, at most ``limit`` bytes further."""
    end = place.at + limit
    if end >= len(text):
        return TextPosition(len(text))
    return _in_json(text, place, end) if of_json else TextPosition(_in_text(text, place.at, end))


def path(text: bytes, place: TextPosition) -> str:
    """Return the label of a place in JSON, such as ``results[120].name``; empty at the outermost level."""
    levels = place.levels
    before = text[max(0, place.at - 64) : place.at].rstrip()[-1:]
    if levels and isinstance(levels[-1], bytes) and before == b"," and not place.inside:
        following = _key.match(text, place.at, place.at + 8 * _LONGEST_KEY)
        levels = (*levels[:-1], following[1] if following else b"")
    return "".join(map(_label_text, levels)).removeprefix(".")


# -- plain text --------------------------------------------------------------------------------------


def _in_text(text: bytes, start: int, end: int, lines: tuple[str, ...] = ("\n",)) -> int:
    after = end = _letter_at(text, end)
    while after < len(text) and (after == end or text[after] & 0xC0 == 0x80):
        after += 1
    part = text[start:after].decode("utf-8", "surrogatepass")
    cut = cut_at(part, 0, len(part) - 1, lines)
    return start + len(part[:cut].encode("utf-8", "surrogatepass"))


def _letter_at(text: bytes, at: int) -> int:
    """Return the start of the character at a position."""
    while text[at] & 0xC0 == 0x80:
        at -= 1
    return at


# -- JSON --------------------------------------------------------------------------------------------

_any_json = msgspec.json.Decoder(msgspec.Raw)
_INSIDE = rb'(?:[^"\\]++|\\.|\\\Z)*+'
_token = re.compile(rb'"' + _INSIDE + rb'("|\Z)|[\[\]{},:]', re.S)
_rest = re.compile(_INSIDE + rb'("|\Z)', re.S)
_key = re.compile(rb"\s*+(\"" + _INSIDE + rb"\")\s*+:", re.S)
_space = re.compile(rb"[ \t\r\n]*+")


def _in_json(text: bytes, place: TextPosition, end: int) -> TextPosition:
    borders, _ = _walk(text, place, end)
    quarter = place.at + (end - place.at) // 4
    for depth in sorted(borders):
        if borders[depth].at >= quarter:
            return _past_space(text, borders[depth], end)
    at = _outside_escape(text, place.at, _in_text(text, place.at, end, _LINES_IN_JSON))
    if at < quarter and borders:
        return _past_space(text, max(borders.values()), end)
    return _walk(text, place, at)[1]


def _walk(text: bytes, place: TextPosition, end: int) -> tuple[dict[int, TextPosition], TextPosition]:
    """Return the last border between elements at each depth up to ``end``, and what is open there."""
    borders: dict[int, TextPosition] = {}
    levels, at, inside, word = list(place.levels), place.at, place.inside, b""
    if inside and (rest := _rest.match(text, at, end)):
        at, inside = rest.end(), not rest[1]
    for match in _token.finditer(text, at, end):
        token = match[0]
        if token[:1] == b'"':
            word, inside = token, not match[1]
        elif token in b"[{":
            levels.append(0 if token == b"[" else b"")
        elif not levels:
            break
        elif token == b":":
            levels[-1] = word
        elif token != b",":
            levels.pop()
        else:
            label = levels[-1]
            levels[-1] = label + 1 if isinstance(label, int) else label
            if len(levels) <= DEEPEST:
                borders[len(levels)] = TextPosition(match.end(), tuple(levels))
    return borders, TextPosition(end, tuple(levels), inside)


def _past_space(text: bytes, place: TextPosition, end: int) -> TextPosition:
    space = _space.match(text, place.at, end)
    return place._replace(at=space.end() if space else place.at)


def _outside_escape(text: bytes, start: int, at: int) -> int:
    """Return the last offset up to ``at`` that does not cut ``\\n``, ``\\u3042`` or a pair of surrogates."""
    backslash = text.rfind(b"\\", max(start, at - 6), at)
    if backslash < 0:
        return at
    run = backslash
    while run > start and text[run - 1 : run] == b"\\":
        run -= 1
    if (backslash - run) % 2:
        return at
    length = 6 if text[backslash + 1 : backslash + 2] == b"u" else 2
    if backslash + length > at and backslash > start:
        at = backslash
        backslash -= 6
    low = _low_surrogate.match(text, at)
    return backslash if low and backslash > start and _high_surrogate.match(text, backslash) else at


_high_surrogate = re.compile(rb"\\u[dD][89abAB]")
_low_surrogate = re.compile(rb"\\u[dD][c-fC-F]")


def _label_text(label: Label) -> str:
    if isinstance(label, int):
        return f"[{label}]"
    name = json.text(label) or "…"
    return "." + (name if len(name) <= _LONGEST_KEY else name[:_LONGEST_KEY] + "…")
