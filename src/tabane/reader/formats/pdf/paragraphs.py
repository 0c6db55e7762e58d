"""Paragraphs, headings, items and listings of lines, as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tabane.reader.formats.pdf.joining import continued, without_hyphens
from tabane.reader.formats.pdf.lines import PdfLine
from tabane.reader.formats.text import fence
from tabane.reader.markdown import escaping

_HEADING = 1.15  # times the letters of the text
_LEVELS = 4
_BULLET = re.compile(r"^(?:[•◦▪‣●○■□–·∙]|[-*] |\(?\d{1,3}[.)] )\s*")
_CAPTION = re.compile(r"(?:Figure|Fig\.|Table|図|表|写真)\s*\d{1,3}(?!\d)")
_SENTENCE = re.compile(r"[.,;:。、,.]\Z")
_LEADERS = re.compile(r"(?:\s?\.){5,}")  # of a table of contents
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class HeadingStyles:
    """Which text is a heading: levels by size, and ``bold``, the level of bold lines; 0 if they are none."""

    usual: float
    sizes: dict[float, int]
    bold: int

    def level(self, lines: Sequence[PdfLine]) -> int:
        """Return the level of lines as a heading; 0 if they are none."""
        first = lines[0]
        if not first.upright:
            return 0
        if level := self.sizes.get(first.size):
            return level
        if not self.bold or len(lines) > 2 or first.size < self.usual * 0.95 or first.wide:
            return 0
        text = " ".join(line.text for line in lines)
        said = len(text) <= 120 and not _SENTENCE.search(text) and _WORD.search(text)
        return self.bold if said and all(line.bold for line in lines) and not _CAPTION.match(text) else 0


def heading_styles(lines: Sequence[PdfLine]) -> HeadingStyles:
    """Return the styles of headings in a document. A style that much of the text has is not of a heading."""
    lengths: Counter[float] = Counter()
    bold = 0
    for line in lines:
        lengths[line.size] += len(line.text)
        bold += len(line.text) if line.bold else 0
    usual = lengths.most_common(1)[0][0] if lengths else 0.0
    whole = sum(lengths.values())
    sizes = [size for size in lengths if size >= usual * _HEADING and lengths[size] < max(whole * 0.2, 200)]
    found: dict[float, int] = {}
    level = 0
    last = 0.0
    for size in sorted(sizes, reverse=True):
        if not last or size < last * 0.93:
            level, last = level + 1, size
        found[size] = min(level, _LEVELS)
    return HeadingStyles(usual, found, min(level + 1, _LEVELS) if 0 < bold < whole * 0.25 else 0)


def largest_heading(lines: Sequence[PdfLine]) -> str | None:
    """Return the largest text of the first page, if it is clearly larger than the rest."""
    usual = heading_styles(lines).usual
    written = [line for line in lines if line.upright and _WORD.search(line.text)]
    largest = max(written, key=lambda line: line.size, default=None)
    if largest is None or largest.size < usual * _HEADING:
        return None
    at = written.index(largest)
    text = largest.text
    for line in written[at + 1 : at + 4]:
        if abs(line.size - largest.size) > 0.6:
            break
        text = continued(text, line.text)
    return without_hyphens(text)[:300]


def blocks(lines: Sequence[PdfLine], styles: HeadingStyles) -> Iterator[tuple[int, str]]:
    """Yield Markdown with the number of its first word: each block is of lines that belong together."""
    edges = _ColumnEdges(lines)
    leading = _leading(lines)
    group: list[PdfLine] = []
    for line in lines:
        if group and not _belongs(group, line, leading, edges):
            yield group[0].first, _block(group, edges, styles)
            group = []
        group.append(line)
    if group:
        yield group[0].first, _block(group, edges, styles)


def _leading(lines: Sequence[PdfLine]) -> float:
    """Return the usual distance from a line to the next, in heights of a line."""
    gaps = [
        (one.top - two.top) / one.size
        for one, two in pairwise(lines)
        if one.size and abs(one.size - two.size) < 0.6 and 0 < one.top - two.top < one.size * 2.5
    ]
    return median(gaps) if gaps else 1.2


class _ColumnEdges:
    """The edges of the text around a line: of lines that begin at about the same place."""

    def __init__(self, lines: Iterable[PdfLine]) -> None:
        self._edges: dict[int, tuple[float, float]] = {}
        for line in lines:
            key = int(line.left // 40)
            for near in (key - 1, key, key + 1):
                left, right = self._edges.get(near, (line.left, line.right))
                self._edges[near] = (min(left, line.left), max(right, line.right))

    def is_full(self, line: PdfLine) -> bool:
        """Return whether a line ends at the same edge as its neighbors, so that its text goes on."""
        left, right = self._edges[int(line.left // 40)]
        return line.right >= right - (right - left) * 0.18


def _belongs(group: Sequence[PdfLine], line: PdfLine, leading: float, edges: _ColumnEdges) -> bool:
    """Return whether a line is right below the one before, in the same font."""
    before = group[-1]
    if abs(before.size - line.size) > 0.6 or bool(before.wide) != bool(line.wide):
        return False
    if before.upright != line.upright or not before.upright:
        return before.upright == line.upright
    if _LEADERS.search(before.text):
        return False
    if not line.wide and (_BULLET.match(line.text) or _CAPTION.match(line.text)):
        return False
    if (
        before.bold != line.bold
        and all(one.bold == before.bold for one in group)
        and not edges.is_full(before)
    ):
        return False
    room = 2.6 if line.wide else 1.25
    return 0 < before.top - line.top <= max(before.size, 1.0) * leading * room


def _block(group: Sequence[PdfLine], edges: _ColumnEdges, styles: HeadingStyles) -> str:
    level = styles.level(group)
    if all(line.wide for line in group) and (len(group) > 1 or not level):
        return _listing(group)
    pieces = [group[0].text]
    for before, line in pairwise(group):
        if level or edges.is_full(before):
            pieces[-1] = continued(pieces[-1], line.text)
        else:
            pieces.append(line.text)
    text = escaping.inline(_LEADERS.sub(" …", without_hyphens("  \n".join(pieces))))
    if level and len(text) <= 200 and _WORD.search(text):
        return f"{'#' * level} {escaping.heading(text)}"
    if bullet := _BULLET.match(text):
        mark = bullet[0].strip()
        mark = mark if mark[0].isdigit() and mark[-1] == "." else "-"
        return f"{mark} {text[bullet.end() :]}".replace("\n", "\n" + " " * (len(mark) + 1))
    return escaping.lines(text)


def _listing(group: Sequence[PdfLine]) -> str:
    """Return lines of code, with their indentation."""
    edge = min(line.left for line in group)
    code: list[str] = []
    for nth, line in enumerate(group):
        if nth and group[nth - 1].top - line.top > line.size * 1.9:
            code.append("")
        code.append(" " * min(200, round((line.left - edge) / line.wide)) + line.text)
    return fence("\n".join(code), "")
