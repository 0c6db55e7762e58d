"""Where a long text may be cut so that each part reads well; pure.

A text is UTF-8. It is cut after a line, else after a space or an ideographic full stop, else between two
characters that are not one to a reader. JSON is cut between the elements of its outermost array or object,
or of their children where one is too long; the parts put together are always the text itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import msgspec

from tabane.wire import json

DEEPEST = 32
"""Levels of nesting between whose elements a JSON text is cut."""

_LINES = (b"\n",)
_LINES_IN_JSON = (b"\n", b"\\n")
_WORDS = (b" ", "。".encode())
_MOST_JOINED = 32
_MOST_HALVES = 4_096
_LONGEST_KEY = 40

Label = int | bytes
"""Where one stands in an array (an index) or an object (a key, as it is written)."""


class TextPosition(NamedTuple):
    """Where reading stands: an offset in bytes and, in JSON, the labels of what is open there.

    ``inside`` is True within a string.
    """

    at: int = 0
    levels: tuple[Label, ...] = ()
    inside: bool = False


def is_json(text: bytes) -> bool:
    """Whether a text is one JSON array or object."""
    if text.lstrip(b" \t\r\n")[:1] not in (b"[", b"{"):
        return False
    try:
        _any_json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def next_break(text: bytes, place: TextPosition, limit: int, *, of_json: bool) -> TextPosition:
    """Where the part that begins at ``place`` ends: at most ``limit`` bytes further, and always further."""
    end = place.at + limit
    if end >= len(text):
        return TextPosition(len(text))
    return _in_json(text, place, end) if of_json else TextPosition(_in_text(text, place.at, end))


def path(text: bytes, place: TextPosition) -> str:
    """What a place in JSON is called, such as ``results[120].name``; empty at the outermost level."""
    levels = place.levels
    before = text[max(0, place.at - 64) : place.at].rstrip()[-1:]
    if levels and isinstance(levels[-1], bytes) and before == b"," and not place.inside:
        following = _key.match(text, place.at, place.at + 8 * _LONGEST_KEY)
        levels = (*levels[:-1], following[1] if following else b"")
    return "".join(map(_named, levels)).removeprefix(".")


# -- plain text --------------------------------------------------------------------------------------


def _in_text(text: bytes, start: int, end: int, lines: tuple[bytes, ...] = _LINES) -> int:
    # A border in the first quarter would make a part that is hardly worth asking for.
    for begin in (start + (end - start) // 4, start):
        for borders in (lines, _WORDS):
            found = max(_after_last(text, border, begin, end) for border in borders)
            if found > start:
                return found if borders is lines else _between_characters(text, start, found)
    return _between_characters(text, start, end)


def _after_last(text: bytes, border: bytes, begin: int, end: int) -> int:
    found = text.rfind(border, begin, end)
    return found + len(border) if found >= 0 else -1


def _between_characters(text: bytes, start: int, at: int) -> int:
    """The last place up to ``at`` that does not cut what a reader sees as one character."""
    while at > start and text[at] & 0xC0 == 0x80:
        at -= 1
    back = at
    for _ in range(_MOST_JOINED):
        if back <= start:
            break
        if not _joined(text, start, back):
            return back
        back = _previous(text, back)
    return at


def _joined(text: bytes, start: int, at: int) -> bool:
    before, after = _character(text, _previous(text, at)), _character(text, at)
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves(text, start, at) % 2 == 1
    return before == "\u200d" or (before, after) == ("\r", "\n") or _extends(after)


def _extends(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, joiners, skin tones, jamo, dakuten."""
    return unicodedata.category(character)[0] == "M" or any(
        first <= character <= last for first, last in _EXTENDING
    )


_EXTENDING = (
    ("\u1160", "\u11ff"),
    ("\u200c", "\u200d"),
    ("\uff9e", "\uff9f"),
    ("\U0001f3fb", "\U0001f3ff"),
    ("\U000e0020", "\U000e007f"),
)


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves(text: bytes, start: int, at: int) -> int:
    """How many halves of flags stand before a place, up to the begin of the part, which cuts none."""
    count = 0
    while at > start and count < _MOST_HALVES and _is_flag_half(_character(text, _previous(text, at))):
        at = _previous(text, at)
        count += 1
    return count


def _character(text: bytes, at: int) -> str:
    first = text[at]
    length = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return text[at : at + length].decode("utf-8", "surrogatepass")


def _previous(text: bytes, at: int) -> int:
    at -= 1
    while at > 0 and text[at] & 0xC0 == 0x80:
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
    """The last border between elements at each depth up to ``end``, and what is open there."""
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
    """The last place up to ``at`` that does not cut ``\\n``, ``\\u3042`` or a pair of surrogates."""
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


def _named(label: Label) -> str:
    if isinstance(label, int):
        return f"[{label}]"
    name = json.text(label) or "…"
    return "." + (name if len(name) <= _LONGEST_KEY else name[:_LONGEST_KEY] + "…")
