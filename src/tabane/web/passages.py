"""Passages of Markdown as plain text, with the marks of found words at their new places; pure.

A passage is a part of a text, so it may begin or end inside of a link, a table or a fence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_RULES: Sequence[tuple[str, str]] = (
    (r"<!--.*?(?:-->|\Z)", ""),
    (r"^[ \t]*(?:```|~~~)[^\n]*(?:\n|\Z)", ""),
    (
        r"^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t]*:?-{3,}:?[ \t]*)*\|?[ \t]*(?:\n|\Z)",
        "",
    ),
    (r"^[ \t]*#{1,6}[ \t]+", ""),
    (r"^[ \t]*(?:>[ \t]?)+", ""),
    (r"^[ \t]*[-*+][ \t]+(?:\[[ xX]\][ \t]+)?", "• "),
    (r"^[ \t]*(?:\|[ \t]*)+|(?:[ \t]*\|)+[ \t]*$", ""),
    (r"(?:[ \t]+\|)+[ \t]+", " · "),
    (r"!?\[(?=[^\]\n]*\]\()", ""),
    (r"\]\([^)\s]*(?:\)|\Z)", ""),
    (r"</?[a-zA-Z][^<>\n]{0,200}>", ""),
    (r"`+", ""),
    (r"\*\*|~~", ""),
    (r"(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])", ""),
)
"""Marks of Markdown, and what is shown for them. The first that fits at a place counts."""

_MARK = re.compile("|".join(f"({pattern})" for pattern, _ in _RULES), re.MULTILINE | re.DOTALL)
_SHOWN = tuple(shown for _, shown in _RULES)


def plain_passage(text: str, marks: Sequence[Sequence[int]] = ()) -> tuple[str, list[tuple[int, int]]]:
    """Return a passage without the marks of Markdown, and the spans of found words in it."""
    pieces: list[str] = []
    places: list[int] = []  # of each character of the text
    size = at = 0
    for found in _MARK.finditer(text):
        if found.start() == found.end():
            continue
        places += range(size, size + found.start() - at)
        size += found.start() - at
        shown = _SHOWN[(found.lastindex or 1) - 1]
        pieces += (text[at : found.start()], shown)
        places += [size] * (found.end() - found.start())
        size += len(shown)
        at = found.end()
    places += range(size, size + len(text) - at + 1)
    pieces.append(text[at:])
    moved = [(places[start], places[end]) for start, end in marks]
    return "".join(pieces), [(start, end) for start, end in moved if start < end]
