"""Positions to cut a long text, so that its parts are readable; pure.

A text is cut after a line, else after a word or a Japanese sentence or clause, else between two characters
that are not one to a reader.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_WORDS = (" ", "\t", "\u3000", "。", "！", "？", "、", "，")
_MOST_JOINED = 32
_MOST_HALVES = 4_096
_EXTENDING = (
    ("\u1160", "\u11ff"),
    ("\u200c", "\u200d"),
    ("\uff9e", "\uff9f"),
    ("\U0001f3fb", "\U0001f3ff"),
    ("\U000e0020", "\U000e007f"),
)


def cut_at(text: str, start: int, end: int, lines: Sequence[str] = ("\n",)) -> int:
    """Return where the part that begins at ``start`` ends: at most at ``end``, and always behind ``start``.

    ``lines`` are the marks at which a line ends.
    """
    # A border in the first quarter would make a part that is hardly worth asking for.
    for begin in (start + (end - start) // 4, start):
        for borders in (lines, _WORDS):
            place = max(_after_last(text, border, begin, end) for border in borders)
            if place > start:
                return place if borders is lines else between_characters(text, start, place)
    return between_characters(text, start, end)


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning up to the end of a word and ``…``: at most ``most`` characters."""
    if len(text) <= most:
        return text
    end = between_characters(text, 0, most - 1)
    blank = text.rfind(" ", 0, end)
    # Japanese has no blanks to cut at; nor is one far back any use.
    return text[: blank if blank > most * 2 // 3 else end].rstrip(" ,;:、") + "…"


def between_characters(text: str, start: int, at: int) -> int:
    """Return the last place up to ``at`` that does not cut what a reader sees as one character.

    A character of more than 32 code points is cut all the same.
    """
    for back in range(min(at, len(text)), max(start, at - _MOST_JOINED), -1):
        if back == len(text) or not _joined(text, start, back):
            return back
    return at


def _after_last(text: str, border: str, begin: int, end: int) -> int:
    place = text.rfind(border, begin, end)
    return place + len(border) if place >= 0 else -1


def _joined(text: str, start: int, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if _is_flag_half(before) and _is_flag_half(after):
        count = 0
        while at - count > start and count < _MOST_HALVES and _is_flag_half(text[at - count - 1]):
            count += 1
        return count % 2 == 1
    if before == "\u200d" or (before, after) == ("\r", "\n") or unicodedata.category(after)[0] == "M":
        return True
    return any(first <= after <= last for first, last in _EXTENDING)


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
