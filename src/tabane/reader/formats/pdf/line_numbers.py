"""Line numbers of manuscripts, laws and patents: a column of rising numbers in a margin, beside running text.

They are no content: an assistant would read them within sentences, and as the first column of a table. Bare
numbers in a column of a table stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tabane.reader.formats.pdf.page_objects import PdfWord
from tabane.reader.formats.pdf.paragraphs import WIDE, by_height

_NUMBER = re.compile(r"\d{1,4}\Z")
_STEPS = (1, 2, 5, 10)
_LEAST = 6  # numbers of a page, if each line has one
_FEW = 3  # if each fifth has one
_ALIGNED = 2.0  # points
_SHARE = 0.85  # of the numbers that follow each other
_LONG = 22  # letters of a piece of running text
_GAP = 1.3  # times the size of the font: a wider one is between columns
_MARGINS = 8  # of a document
_MOST = 20_000  # words of a page


class NumberedMargin(NamedTuple):
    """A margin with line numbers: the place of their edge, and which edge it is (0 left, 1 center, 2 right)."""

    place: float
    edge: int

    def holds(self, word: PdfWord) -> bool:
        """Return whether a word is aligned with this margin."""
        return abs(_edges(word)[self.edge] - self.place) <= _ALIGNED


def _edges(word: PdfWord) -> tuple[float, float, float]:
    return word.left, word.center, word.right


class LineNumbers:
    """The numbered margins of a document. They are learned page by page."""

    def __init__(self) -> None:
        self._margins: list[NumberedMargin] = []

    def learn(self, words: Sequence[PdfWord]) -> None:
        """Learn the margins of a page with line numbers beside its running text."""
        if len(words) > _MOST or len(self._margins) >= _MARGINS:
            return
        numbers = list(_bare_numbers(words))
        if len(numbers) < _FEW:
            return
        columns = list(_number_columns([words[nth] for nth in numbers]))
        if not columns:
            return
        inside = {id(word) for _, column in columns for word in column}
        body = [word for word in words if id(word) not in inside]
        for margin, column in columns:
            known = any(
                other.edge == margin.edge and abs(other.place - margin.place) < 1 for other in self._margins
            )
            if not known and _numbers_lines(column, body):
                self._margins.append(margin)

    def without(self, words: list[PdfWord]) -> list[PdfWord]:
        """Return the words of a page without its line numbers."""
        if not self._margins or len(words) > _MOST:
            return words
        numbers = [
            nth for nth in _bare_numbers(words) if any(margin.holds(words[nth]) for margin in self._margins)
        ]
        if not numbers:
            return words
        alone = _Neighbors(words, numbers)
        candidates = {nth for nth in numbers if not alone.has_before(words[nth])}
        return [word for nth, word in enumerate(words) if nth not in candidates]


class _Neighbors:
    """Words of a page by their height, without its bare numbers."""

    def __init__(self, words: Sequence[PdfWord], numbers: Sequence[int]) -> None:
        own = set(numbers)
        self._words = sorted(
            (word for nth, word in enumerate(words) if nth not in own), key=lambda word: word.middle
        )
        self._heights = [word.middle for word in self._words]

    def has_before(self, number: PdfWord) -> bool:
        """Return whether a word is right before a number, which then is part of a sentence."""
        room = 0.5 * max(number.size, 8.0)
        low = bisect_left(self._heights, number.middle - room)
        high = bisect_right(self._heights, number.middle + room)
        return any(
            -2 < number.left - word.right < 0.7 * word.size
            for word in self._words[low : min(high, low + 300)]
        )


def _bare_numbers(words: Sequence[PdfWord]) -> Iterator[int]:
    """Yield words of digits alone, which belong to no larger word."""
    for nth, word in enumerate(words):
        if word.glued or not word.style.upright or not _NUMBER.match(word.text):
            continue
        if nth + 1 == len(words) or not words[nth + 1].glued:
            yield nth


def _number_columns(numbers: Sequence[PdfWord]) -> Iterator[tuple[NumberedMargin, list[PdfWord]]]:
    """Yield columns of aligned numbers that rise by a constant step from the top, the longest first."""
    found: list[tuple[NumberedMargin, list[PdfWord]]] = []
    for edge in (2, 0, 1):
        ordered = sorted(numbers, key=lambda word: _edges(word)[edge])
        group: list[PdfWord] = []
        for word in [*ordered, None]:
            if word is not None and (not group or _edges(word)[edge] - _edges(group[0])[edge] <= _ALIGNED):
                group.append(word)
                continue
            if len(group) >= _FEW and _step_of(group):
                place = median(_edges(one)[edge] for one in group)
                found.append((NumberedMargin(place, edge), sorted(group, key=lambda one: -one.middle)))
            group = [word] if word is not None else []
    taken: set[int] = set()
    for margin, column in sorted(found, key=lambda one: -len(one[1])):
        if not any(id(word) in taken for word in column):
            taken.update(map(id, column))
            yield margin, column


def _step_of(column: Sequence[PdfWord]) -> int:
    """Return by how much nearly all numbers rise from the top, 0 if they do not."""
    values = [int(word.text) for word in sorted(column, key=lambda word: -word.middle)]
    steps = Counter(other - one for one, other in pairwise(values))
    step, count = steps.most_common(1)[0]
    least = _LEAST if step == 1 else _FEW
    if step not in _STEPS or len(values) < least or count < _SHARE * (len(values) - 1):
        return 0
    if step > 1 and sum(1 for value in values if value % step == 0) < _SHARE * len(values):
        return 0
    return step


def _numbers_lines(column: Sequence[PdfWord], body: Sequence[PdfWord]) -> bool:
    """Return whether a column of numbers counts lines: at equal distances, beside running text."""
    top, bottom = column[0].top + 2, column[-1].bottom - 2
    left, right = min(word.left for word in column), max(word.right for word in column)
    beside = [word for word in body if bottom <= word.middle <= top]
    if any(word.left < right + 1 and left - 1 < word.right for word in beside):
        across = sum(1 for word in beside if word.left < right + 1 and left - 1 < word.right)
        if across > len(column) * 0.15:
            return False
    rows = by_height(beside)
    if len(rows) < len(column) * 0.6:
        return False
    pitches = [one.middle - other.middle for one, other in pairwise(column)]
    usual = median(pitches)
    even = sum(1 for pitch in pitches if abs(pitch - usual) <= 0.3 * usual)
    step = _step_of(column)
    if step == 1:
        if len(column) < 0.45 * len(rows):
            return False
    elif even < 0.7 * len(pitches) or len(rows) < len(column) * min(step, 4) * 0.6:
        return False
    return _is_running_text(rows)


def _is_running_text(rows: Sequence[Sequence[PdfWord]]) -> bool:
    """Return whether rows are lines of sentences: long pieces that go on from row to row."""
    long = whole = low = begins = short_ends = 0
    for row in rows:
        pieces: list[list[PdfWord]] = []
        for word in row:
            if pieces and word.left - pieces[-1][-1].right <= _GAP * max(word.size, 1.0):
                pieces[-1].append(word)
            else:
                pieces.append([word])
        lengths = [
            sum(len(word.text) + len(WIDE.findall(word.text)) + 1 for word in piece) for piece in pieces
        ]
        whole += sum(lengths)
        long += sum(length for length in lengths if length >= _LONG)
        short_ends += len(lengths) > 1 and lengths[-1] < _LONG / 2
        for piece, length in zip(pieces, lengths, strict=True):
            if length >= _LONG:
                begins += 1
                low += bool(piece[0].text[:1].islower() or WIDE.match(piece[0].text))
    return long >= 0.7 * whole > 0 and low >= 0.3 * begins > 0 and short_ends <= 0.4 * len(rows)
