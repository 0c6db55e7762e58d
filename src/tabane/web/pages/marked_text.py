"""Texts of posts and hits as parts for a template: marked words, and links; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_LINKS = 100
"""Links of one text. Later ones are plain text."""

# A URL ends at the first character that is not ASCII, because Japanese text follows without a space.
_LINK = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_CLOSING = re.compile(r"[.,;:!?'\")\]}>]+$")


class TextPart(NamedTuple):
    """A part of a text. ``url`` is the address of a link; empty if the part is no link."""

    text: str
    marked: bool = False
    url: str = ""


def text_parts(text: str, marks: Sequence[Sequence[int]] = (), *, links: bool = True) -> list[TextPart]:
    """Return the text in parts, in order. ``marks`` are spans that do not overlap, in order."""
    found: list[TextPart] = []
    at = 0
    for start, end, url in _links(text) if links else ():
        found += _marked(text, at, start, marks, "")
        found += _marked(text, start, end, marks, url)
        at = end
    return [*found, *_marked(text, at, len(text), marks, "")]


def _links(text: str) -> Iterator[tuple[int, int, str]]:
    for number, found in enumerate(_LINK.finditer(text)):
        if number == MOST_LINKS:
            return
        url = _CLOSING.sub("", found.group())
        if len(url) > len("https://"):
            yield found.start(), found.start() + len(url), url


def _marked(text: str, start: int, end: int, marks: Sequence[Sequence[int]], url: str) -> Iterator[TextPart]:
    at = start
    for first, last in marks:
        first, last = max(first, at), min(last, end)
        if first < last:
            if at < first:
                yield TextPart(text[at:first], False, url)
            yield TextPart(text[first:last], True, url)
            at = last
    if at < end:
        yield TextPart(text[at:end], False, url)


def cut(text: str, marks: Sequence[Sequence[int]], most: int) -> tuple[str, list[list[int]], bool]:
    """Return the beginning of a text, its marks, and whether it was cut."""
    if len(text) <= most:
        return text, [list(mark) for mark in marks], False
    return text[:most], [[start, min(end, most)] for start, end in marks if start < most], True
