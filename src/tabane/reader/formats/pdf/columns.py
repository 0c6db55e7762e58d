"""The columns of running text on a page, which the page's stream goes through one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from tabane.reader.formats.pdf.characters import PdfWord

_LINES = 8  # of a column
_WIDTH = 0.33  # of the text: the usual line of a column
_CHANGES = 0.1  # of the lines: tables go from one column to the other in each row

Span = tuple[float, float]


def text_columns(words: Sequence[PdfWord]) -> list[list[PdfWord]]:
    """Return the words of two columns and of the lines over both; all words if there are no columns."""
    spans = _spans(words)
    gutter = _gutter(list(spans.values()))
    if gutter is None:
        return [list(words)]
    parts: tuple[list[PdfWord], list[PdfWord], list[PdfWord]] = ([], [], [])
    for word in words:
        parts[_side(spans[word.line], gutter)].append(word)
    return [part for part in parts if part]


def _spans(words: Sequence[PdfWord]) -> dict[int, Span]:
    """Return the range from left to right of each line of the stream."""
    found: dict[int, Span] = {}
    for word in words:
        left, right = found.get(word.line, (word.left, word.right))
        found[word.line] = (min(left, word.left), max(right, word.right))
    return found


def _side(span: Span, gutter: float) -> int:
    """Return 0 for a line on the left, 1 for one on the right, 2 for one over both."""
    left, right = span
    return 0 if right <= gutter else 1 if left >= gutter else 2


def _gutter(spans: Sequence[Span]) -> float | None:
    if len(spans) < 2 * _LINES:
        return None
    first, last = min(left for left, _ in spans), max(right for _, right in spans)
    wide = last - first
    middle = (first + last) / 2
    on_left = [span for span in spans if span[1] <= middle + wide * 0.03]
    on_right = [span for span in spans if span[0] >= middle - wide * 0.03]
    if min(len(on_left), len(on_right)) < _LINES:
        return None
    if any(median(right - left for left, right in side) < wide * _WIDTH for side in (on_left, on_right)):
        return None
    gutter = (max(right for _, right in on_left) + min(left for left, _ in on_right)) / 2
    sides = [_side(span, gutter) for span in spans]
    changes = sum(1 for one, other in pairwise(side for side in sides if side < 2) if one != other)
    return gutter if changes <= max(3, _CHANGES * len(spans)) else None
