"""Running headers, footers and page numbers: lines that repeat at the same place of many pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tabane.reader.formats.pdf.lines import PdfLine

_MARGIN = 0.13  # of the height of a page
_LEAST = 3  # pages
_SHARE = 0.4
_NUMBER = re.compile(r"\d+|\b[ivxlc]{1,6}\b")
_LONGEST = 200


class PageLines(NamedTuple):
    """The lines of a page, and its height. ``more``: it has other content."""

    lines: Sequence[PdfLine]
    height: float
    more: bool


def running_lines(pages: Sequence[PageLines]) -> set[tuple[int, int]]:
    """Return the page and the line of each running header, footer and page number.

    A page that would be empty without them keeps its lines.
    """
    places: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for page, one in enumerate(pages):
        for nth, text, y in _in_margins(one.lines, one.height):
            for place in (int(y // 4), int(y // 4) + 1):  # lines at the edge of a step meet in the next
                places[text, place].add((page, nth))
    found: set[tuple[int, int]] = set()
    for members in places.values():
        count = len({page for page, _ in members})
        if count >= max(_LEAST, len(pages) * _SHARE):
            found |= members
    kept = {nth for nth, page in enumerate(pages) if page.more or _has_more(nth, len(page.lines), found)}
    return {(page, nth) for page, nth in found if page in kept}


def _in_margins(lines: Sequence[PdfLine], height: float) -> Iterator[tuple[int, str, float]]:
    for nth, line in enumerate(lines):
        if height * _MARGIN < line.top < height * (1 - _MARGIN) or len(line.text) > _LONGEST:
            continue
        yield nth, _NUMBER.sub("#", line.text), line.top


def _has_more(page: int, count: int, found: set[tuple[int, int]]) -> bool:
    return any((page, nth) not in found for nth in range(count))
