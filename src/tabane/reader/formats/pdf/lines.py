"""Lines of text from words, in the order in which they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tabane.reader.formats.pdf.characters import PdfWord
from tabane.reader.formats.pdf.joining import joined

_GUTTER = 0.9  # heights of a line between two columns
_LINES = 5  # that have text on both sides, so that it is in columns
_LONG = 15  # characters of such a text


class PdfLine(NamedTuple):
    """A line of text and its position, in points; ``wide``: the width of a letter, if all have the same.

    ``first`` is the number of its first word in the stream of the page.
    """

    text: str
    size: float
    top: float
    left: float
    right: float
    wide: float
    bold: bool
    upright: bool
    first: int


def page_lines(words: Iterable[tuple[int, PdfWord]]) -> list[PdfLine]:
    """Return lines of numbered words, which are in the order of the stream."""
    groups = list(_groups(words))
    gutter = _gutter(groups)
    if gutter is not None:
        groups = list(_by_column(groups, gutter))
    return [_line(group) for group in groups]


Group = list[tuple[int, PdfWord]]


def _groups(words: Iterable[tuple[int, PdfWord]]) -> Iterator[Group]:
    group: Group = []
    for nth, word in words:
        if group and not _is_same(group[-1][1], word):
            yield group
            group = []
        group.append((nth, word))
    if group:
        yield group


def _is_same(before: PdfWord, word: PdfWord) -> bool:
    if before.line != word.line or before.style.upright != word.style.upright:
        return False
    # PDFium goes on with the same line after a hyphen
    return not word.style.upright or abs(before.middle - word.middle) < max(before.size, word.size) * 0.7


def _line(group: Group) -> PdfLine:
    words = [word for _, word in group]
    sizes: Counter[float] = Counter()
    for word in words:
        sizes[word.size] += len(word.text)
    size = sizes.most_common(1)[0][0]
    first = words[0]
    typed = first.style.typed and all(word.style.typed for word in words)
    wide = (first.right - first.left) / len(first.text) if typed else 0.0
    return PdfLine(
        _spaced(words, wide) if wide > 0 else joined(words),
        size,
        max((word.top for word in words if word.size == size), default=first.top),
        first.left,
        words[-1].right,
        wide,
        all(word.style.bold for word in words),
        first.style.upright,
        group[0][0],
    )


def _spaced(words: Sequence[PdfWord], wide: float) -> str:
    """Return a line of code, with as many spaces between its words as have room there."""
    text = words[0].text
    for before, word in pairwise(words):
        gap = 0 if word.glued else min(200, max(1, round((word.left - before.right) / wide)))
        text += " " * gap + word.text
    return text


# Columns


def _gaps(group: Group) -> Iterator[tuple[float, float]]:
    for (_, before), (_, word) in pairwise(group):
        if word.left - before.right > _GUTTER * word.size and not word.style.typed:
            yield before.right, word.left


def _gutter(groups: Sequence[Group]) -> float | None:
    """Return the middle of the page if lines go over two columns: their text must be put in order."""
    gaps = [(gap, group) for group in groups for gap in list(_gaps(group))[:3]]
    if len(gaps) < _LINES:
        return None
    middle = median((low + high) / 2 for (low, high), _ in gaps)
    through = [group for (low, high), group in gaps if low <= middle <= high]
    if len(through) < _LINES or len(through) < 0.6 * len(gaps):
        return None
    sides = [sum(len(w.text) for _, w in group if (w.center < middle) == before)
             for group in through for before in (True, False)]  # fmt: skip
    return middle if median(sides) >= _LONG else None


def _by_column(groups: Sequence[Group], gutter: float) -> Iterator[Group]:
    """Yield lines column by column; a line that crosses the gutter is between what is above and below."""
    left: list[Group] = []
    right: list[Group] = []
    for group in groups:
        halves = [
            [(n, w) for n, w in group if w.center < gutter],
            [(n, w) for n, w in group if w.center >= gutter],
        ]
        crosses = any(w.left < gutter < w.right for _, w in group) or (
            halves[0] and halves[1] and not any(low <= gutter <= high for low, high in _gaps(group))
        )
        if crosses:
            yield from left
            yield from right
            left, right = [], []
            yield group
            continue
        for half, side in zip(halves, (left, right), strict=True):
            if half:
                side.append(half)
    yield from left
    yield from right
