"""Tables of a page: within grids of rules, and where words are aligned in columns without rules.

A grid is made of the cells that horizontal and vertical rules enclose. Columns of running text, which the
page's stream goes through one after the other, are not tables.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median

from tabane.reader.formats.pdf.page_objects import PageDrawing, PdfBox, PdfWord, centers, merged_spans
from tabane.reader.formats.pdf.paragraphs import WIDE, by_height, joined, without_hyphens

_LINES = 8  # of a column
_WIDTH = 0.33  # of the text: the usual line of a column
_CHANGES = 0.1  # of the lines: tables go from one column to the other in each row

Span = tuple[float, float]


def text_columns(words: Sequence[PdfWord]) -> list[list[PdfWord]]:
    """Return the words of two columns and of the lines over both; all words if there are no columns."""
    spans: dict[int, Span] = {}
    for word in words:
        left, right = spans.get(word.line, (word.left, word.right))
        spans[word.line] = (min(left, word.left), max(right, word.right))
    gutter = _column_gutter(list(spans.values()))
    if gutter is None:
        return [list(words)]
    parts: tuple[list[PdfWord], list[PdfWord], list[PdfWord]] = ([], [], [])
    for word in words:
        parts[_side_of_gutter(spans[word.line], gutter)].append(word)
    return [part for part in parts if part]


def _side_of_gutter(span: Span, gutter: float) -> int:
    """Return 0 for a line on the left, 1 for one on the right, 2 for one over both."""
    left, right = span
    return 0 if right <= gutter else 1 if left >= gutter else 2


def _column_gutter(spans: Sequence[Span]) -> float | None:
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
    sides = [_side_of_gutter(span, gutter) for span in spans]
    changes = sum(1 for one, other in pairwise(side for side in sides if side < 2) if one != other)
    return gutter if changes <= max(3, _CHANGES * len(spans)) else None


_ROOM = 2.5  # points between the ends of rules that meet
_MOST = 4000  # rules of a page
_CROSSINGS = 100_000

Spans = dict[float, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class RuleGrid:
    """Rules that meet: the places of their columns from the left and of their rows from the top.

    ``upright`` and ``level`` have, for each place, the ranges where a rule is.
    """

    columns: list[float]
    rows: list[float]
    upright: Spans
    level: Spans

    @property
    def box(self) -> PdfBox:
        """Box around the outermost rules."""
        return PdfBox(self.columns[0], self.rows[-1], self.columns[-1], self.rows[0])

    def is_divided(self, column: float, y: float) -> bool:
        """Return whether there is a vertical rule at a column, at a height."""
        return _is_covered(self.upright, column, y)

    def is_underlined(self, row: float, x: float) -> bool:
        """Return whether there is a horizontal rule at a row, at a distance from the left."""
        return _is_covered(self.level, row, x)


def _is_covered(spans: Spans, place: float, at: float) -> bool:
    return any(low - 1 <= at <= high + 1 for low, high in spans.get(place, ()))


def level_rules(rules: Sequence[PdfBox]) -> list[PdfBox]:
    """Return horizontal rules from the top; pieces of one are one."""
    return sorted(_merged([rule for rule in rules if rule.width > rule.height], upright=False),
                  key=lambda rule: -rule.top)  # fmt: skip


def rule_grids(rules: Sequence[PdfBox]) -> list[RuleGrid]:
    """Return groups of rules that meet each other, the smallest first. None if there are too many rules."""
    if len(rules) > _MOST * 5:
        return []
    level = level_rules(rules)
    upright = _merged([rule for rule in rules if rule.height >= rule.width], upright=True)
    if not (level and upright) or len(level) + len(upright) > _MOST:
        return []
    groups = _Groups(len(level) + len(upright))
    upright.sort(key=lambda rule: rule.left)
    lefts = [rule.left for rule in upright]
    crossings = 0
    for nth, rule in enumerate(level):
        at = bisect_left(lefts, rule.left - _ROOM - 3)
        while at < len(upright) and lefts[at] <= rule.right + _ROOM:
            other = upright[at]
            crossings += 1
            if other.bottom - _ROOM <= rule.top and rule.bottom <= other.top + _ROOM:
                groups.join(nth, len(level) + at)
            at += 1
        if crossings > _CROSSINGS:
            return []
    candidates = [_grid_of_rules(level, upright, members) for members in groups.members()]
    grids = [grid for grid in candidates if grid is not None]
    return sorted(grids, key=lambda grid: grid.box.width * grid.box.height)


def _merged(rules: list[PdfBox], *, upright: bool) -> list[PdfBox]:
    """Return rules of one direction; those on one line that meet are one."""
    lines: dict[float, list[tuple[float, float]]] = defaultdict(list)
    places = [(rule.left + rule.right) / 2 if upright else (rule.bottom + rule.top) / 2 for rule in rules]
    groups = centers(places, 1.0)
    for rule, place in zip(rules, places, strict=True):
        line = _nearest_place(groups, place)
        lines[line].append((rule.bottom, rule.top) if upright else (rule.left, rule.right))
    return [
        PdfBox(line, low, line, high) if upright else PdfBox(low, line, high, line)
        for line, spans in lines.items()
        for low, high in merged_spans(spans, _ROOM)
    ]


def _nearest_place(places: list[float], value: float) -> float:
    at = bisect_left(places, value)
    return min(places[max(0, at - 1) : at + 1], key=lambda place: abs(place - value))


class _Groups:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def _root_of(self, one: int) -> int:
        while self._parents[one] != one:
            self._parents[one] = self._parents[self._parents[one]]
            one = self._parents[one]
        return one

    def join(self, one: int, other: int) -> None:
        self._parents[self._root_of(one)] = self._root_of(other)

    def members(self) -> list[list[int]]:
        groups: dict[int, list[int]] = defaultdict(list)
        for one in range(len(self._parents)):
            groups[self._root_of(one)].append(one)
        return list(groups.values())


def _grid_of_rules(
    level: Sequence[PdfBox], upright: Sequence[PdfBox], members: Sequence[int]
) -> RuleGrid | None:
    across = [level[nth] for nth in members if nth < len(level)]
    down = [upright[nth - len(level)] for nth in members if nth >= len(level)]
    if len(across) < 2 or not down:
        return None
    columns = centers(
        [rule.left for rule in down] + [edge for rule in across for edge in (rule.left, rule.right)], _ROOM
    )
    rows = centers([rule.top for rule in across], _ROOM)
    if len(columns) < 2 or len(rows) < 2:
        return None
    return RuleGrid(
        columns,
        rows[::-1],
        _cell_spans(columns, [(rule.left, rule.bottom, rule.top) for rule in down]),
        _cell_spans(rows, [(rule.top, rule.left, rule.right) for rule in across]),
    )


def _cell_spans(places: list[float], rules: list[tuple[float, float, float]]) -> Spans:
    spans: Spans = defaultdict(list)
    for place, low, high in rules:
        spans[_nearest_place(places, place)].append((low, high))
    return spans


_GAP = 0.85  # times the size of the font, between words of different columns
_BETWEEN = 0.15  # times the size of the font, between text objects, where each line of a text is one object
_MOST_WORDS = 20_000  # of a page whose tables are looked for
_MOST_COLUMNS = 60
_MOST_CUTS = 300  # in a run of lines
_SHARE, _NARROW_SHARE = 0.33, 0.42  # of lines, which have words on both sides of a gap between columns
_TYPED = 0.7  # of the letters of a listing
_LONG_WORD = 10  # characters: words are not cut where lines are drawn at once
_PROSE = 24  # letters of a line of running text in a column
_LEADER = re.compile(r"(?:[.·…‥]\s?){4}")
_MARK = re.compile(r"(?:[•◦▪‣●○■□☐☑–·∙*-]|\(?\w{1,3}[.):]|\[[\w+]{1,12}\])\Z")
_FORMULA = re.compile(r"\(\d{1,3}(?:\.\d{1,3})?[a-z]?\)\Z")  # the number of one
_SECTION = re.compile(r"(?:[A-Z]|[IVX]{1,5}|\d{1,2}(?:\.\d{1,3}){0,3})\.?(?:\s|\Z)")
_TITLE = re.compile(r"(?:Table|Tab\.|Figure|Fig\.|表|図)\s*[\dIVX]{1,4}|.{3,80}[::]\Z", re.I)
_NUMBER = re.compile(r"\d{1,4}\Z")

Row = list[PdfWord]
Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class PdfTable:
    """A table: its rows of text, the place of its columns, and the numbers of its words."""

    rows: Rows
    edges: tuple[float, ...]
    box: PdfBox
    words: frozenset[int]


def page_tables(
    words: Sequence[PdfWord], drawing: PageDrawing, before: PdfTable | None = None
) -> list[PdfTable]:
    """Return the tables of a page. ``words`` are in the order of the page's stream.

    ``before`` is the last table of the page before: one with the same head may be short.
    """
    upright = [(nth, word) for nth, word in enumerate(words) if word.style.upright and word.size > 0]
    if not 4 <= len(upright) <= _MOST_WORDS:
        return []
    page = _PageTables(upright, drawing, before.rows[0] if before else [])
    return [*page.ruled(), *page.aligned()]


class _PageTables:
    """The words of a page that are in no table yet."""

    def __init__(self, words: list[tuple[int, PdfWord]], drawing: PageDrawing, head: list[str]) -> None:
        self._words = words
        self._head = head
        self._grids = rule_grids(drawing.rules)
        self._level = level_rules(drawing.rules) if len(drawing.rules) < 20_000 else []
        edges = [
            edge
            for area in drawing.areas[:5000]
            if not area.image and 6 < area.box.height < 200 and area.box.width > 6
            for edge in (area.box.bottom, area.box.top)
        ]
        self._bands = centers(edges, 1.5)

    def ruled(self) -> Iterator[PdfTable]:
        """Yield tables within grids of rules."""
        for grid in self._grids[:200]:
            inside = [
                (nth, word) for nth, word in self._words if grid.box.holds(word.center, word.middle, 1.0)
            ]
            if len(inside) < 3:
                continue
            rows, edges = self._of_grid(grid, [word for _, word in inside])
            if _is_table(rows):
                numbers = frozenset(nth for nth, _ in inside)
                self._words = [(nth, word) for nth, word in self._words if nth not in numbers]
                yield PdfTable(rows, edges, grid.box, numbers)

    def _of_grid(self, grid: RuleGrid, words: list[PdfWord]) -> tuple[Rows, tuple[float, ...]]:
        if len(grid.columns) > _MOST_COLUMNS or len(grid.rows) > 2000:
            return [], ()
        if len(grid.columns) > 2 and len(grid.rows) > 2:
            cells = _Cells(grid, words)
            if not cells.are_coarse():
                return cells.rows(), tuple(grid.columns)
        lines = by_height(words)
        inner = grid.columns[1:-1] if len(grid.columns) > 2 else _free_corridors(lines)
        if not inner or not _is_rowwise(words, inner, lines):
            return [], ()
        bands = [y for y in self._bands if grid.box.bottom - 1 <= y <= grid.box.top + 1]
        return _text_rows(words, inner, grid.rows, bands), tuple(inner)

    def aligned(self) -> Iterator[PdfTable]:
        """Yield tables whose columns are seen by their words alone."""
        numbers = {id(word): nth for nth, word in self._words}
        words = [word for _, word in self._words]
        between = _BETWEEN if _draws_whole_lines(by_height(words)) else None
        for part in text_columns(words):
            lines = by_height(part)
            runs = (
                run
                for first, last in _table_runs(lines, between)
                for run in _stacked_parts(lines[first:last], between)
            )
            for run in runs:
                ordered = sorted((word for line in run for word in line), key=lambda word: numbers[id(word)])
                table = self._aligned_rows(run, ordered, between)
                if table is not None:
                    rows, inner = table
                    own = frozenset(numbers[id(word)] for word in ordered)
                    box = PdfBox(
                        min(word.left for word in ordered),
                        min(word.bottom for word in ordered),
                        max(word.right for word in ordered),
                        max(word.top for word in ordered),
                    )
                    yield PdfTable(rows, tuple(inner), box, own)

    def _aligned_rows(
        self, lines: list[Row], words: list[PdfWord], between: float | None
    ) -> tuple[Rows, list[float]] | None:
        inner = _free_corridors(lines, between, share=True)
        if not inner or len(inner) >= _MOST_COLUMNS:
            return None
        if sum(len(word.text) for word in words if word.style.typed) >= _TYPED * sum(
            len(word.text) for word in words
        ):
            return None
        if not _is_rowwise(words, inner, lines):
            return None
        top, bottom = max(word.top for word in words), min(word.bottom for word in words)
        left, right = min(word.left for word in words), max(word.right for word in words)
        level = [
            rule.top
            for rule in self._level
            if bottom - 3 <= rule.top <= top + 3
            and min(right, rule.right) - max(left, rule.left) > 0.5 * (right - left)
        ]  # fmt: skip
        rows = _text_rows(words, inner, level, [y for y in self._bands if bottom - 6 <= y <= top + 6])
        least = 2 if len(level) > 1 or (rows and rows[0] == self._head) else 3
        if not _is_table(rows) or len(rows) < least or _is_list(rows):
            return None
        if not level and _is_prose(rows):
            return None
        return rows, inner


# Grids


class _Cells:
    """The cells of a grid, and the words in them; cells without a rule between them are one."""

    def __init__(self, grid: RuleGrid, words: Sequence[PdfWord]) -> None:
        self._grid = grid
        self._wide, self._high = len(grid.columns) - 1, len(grid.rows) - 1
        self._heads = self._merged()
        self._words: dict[tuple[int, int], Row] = defaultdict(list)
        downwards = [-y for y in grid.rows]
        for word in words:
            column = min(max(bisect_right(grid.columns, word.center) - 1, 0), self._wide - 1)
            row = min(max(bisect_right(downwards, -word.middle) - 1, 0), self._high - 1)
            self._words[self._heads[row][column]].append(word)

    def _merged(self) -> list[list[tuple[int, int]]]:
        """Return for each place the first place of its cell."""
        grid = self._grid
        heads = [[(row, column) for column in range(self._wide)] for row in range(self._high)]
        for row in range(self._high):
            y = (grid.rows[row] + grid.rows[row + 1]) / 2
            for column in range(self._wide):
                x = (grid.columns[column] + grid.columns[column + 1]) / 2
                if column and not grid.is_divided(grid.columns[column], y):
                    heads[row][column] = heads[row][column - 1]
                elif row and not grid.is_underlined(grid.rows[row], x):
                    heads[row][column] = heads[row - 1][column]
        return heads

    def are_coarse(self) -> bool:
        """Return whether few rules divide rows, and cells have many lines: the text shows the rows."""
        if self._high > 3:
            return False
        lines = [len(by_height(words)) for words in self._words.values()]
        tall = [count for count in lines if count >= 3]
        return len(tall) >= 2 and len(tall) * 2 >= self._wide and max(tall) - min(tall) <= 1

    def rows(self) -> Rows:
        texts = [
            [
                # Line by line; the order of the stream is kept within a line.
                joined(list(chain.from_iterable(by_height(self._words[row, column]))))
                if self._heads[row][column] == (row, column)
                else ""
                for column in range(self._wide)
            ]
            for row in range(self._high)
        ]
        return _without_empty(texts)


def _without_empty(rows: Rows) -> Rows:
    """Return rows and columns that have text."""
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    kept = [column for column in range(len(rows[0])) if any(row[column] for row in rows)]
    return [[row[column] for column in kept] for row in rows]


def _is_table(rows: Rows) -> bool:
    """Return whether rows have the shape of a table: two by two at least, and enough of it is filled."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    filled = sum(1 for row in rows for cell in row if cell)
    several = sum(1 for row in rows if sum(map(bool, row)) > 1)
    return filled >= 3 and filled * 10 >= len(rows) * len(rows[0]) * 3 and several * 3 >= len(rows)


# Text


def _line_segments(line: Row, gap: float = _GAP, between: float | None = None) -> list[tuple[float, float]]:
    """Return the ranges of a line's words; those with less than a gap between them are one.

    ``between``: the least gap between words of different text objects, if that is another.
    """
    segments: list[tuple[float, float]] = []
    address = 0
    for word in line:
        least = gap if between is None or word.style.address == address else between
        if segments and word.left - segments[-1][1] < least * word.size:
            segments[-1] = (segments[-1][0], max(segments[-1][1], word.right))
        else:
            segments.append((word.left, word.right))
        address = word.style.address
    return segments


def _draws_whole_lines(lines: Sequence[Row]) -> bool:
    """Return whether the words of a text are mostly one object, so that another object is another cell."""
    same = other = 0
    for line in lines:
        same += sum(1 for word in line if len(word.text) > _LONG_WORD)
        for before, word in pairwise(line):
            if word.left - before.right < 0.35 * word.size:
                same += before.style.address == word.style.address
                other += before.style.address != word.style.address
    return same >= 4 and same > other


def _table_runs(lines: list[Row], between: float | None) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines: two or more have several segments, the others could belong to those."""
    several = [_has_columns(line, between) for line in lines]
    at = 0
    while at < len(lines):
        if not several[at]:
            at += 1
            continue
        last = at
        end = at + 1
        left, right = lines[at][0].left, max(word.right for word in lines[at])
        while end < len(lines):
            line = lines[end]
            size, above = line[0].size, lines[end - 1][0].size
            if lines[end - 1][0].middle - line[0].middle > 3.2 * max(size, above):
                break
            if not 0.82 < size / max(above, 0.1) < 1.22:
                break  # a heading
            if several[end]:
                last = end
                left, right = min(left, line[0].left), max(right, max(word.right for word in line))
            elif not _is_within(line, left, right):
                below = lines[end + 1] if end + 1 < len(lines) and several[end + 1] else None
                if below is None or end > at + 2 or not _has_head(below, line, left, right):
                    break  # no name of a group of rows, below a head without a first cell
                left = line[0].left
            end += 1
        while last + 1 < end and _goes_on(lines[last], lines[last + 1]):
            last += 1
        if last - at >= 1:
            yield at, last + 1
        at = max(last + 1, at + 1)


def _has_columns(line: Row, between: float | None) -> bool:
    """Return whether a line has several segments, and is no item of a list or of a table of contents."""
    count = len(_line_segments(line, _GAP, between))
    if count < 2 or (count == 2 and _MARK.match(line[0].text)):
        return False
    return not _LEADER.search(" ".join(word.text for word in line))


def _is_within(line: Row, left: float, right: float) -> bool:
    """Return whether a line with one segment can be a part of a cell."""
    wide = max(word.right for word in line) - line[0].left
    return wide < 0.62 * (right - left) and line[0].left >= left - 3


def _has_head(row: Row, line: Row, left: float, right: float) -> bool:
    """Return whether a row begins near a line that is left of the head, and ends below the head."""
    near = line[0].middle - row[0].middle < 3.2 * row[0].size
    begins = abs(row[0].left - line[0].left) < 3 * row[0].size and row[0].left < left
    return near and begins and abs(max(word.right for word in row) - right) < row[0].size


def _stacked_parts(lines: Sequence[Row], between: float | None) -> Iterator[list[Row]]:
    """Yield the parts of lines that are tables of their own: below a title, or with other columns.

    A title, a line with one piece of text before such a part, is no part of it.
    """
    several = [_has_columns(line, between) for line in lines]
    heights = [sum(word.middle for word in line) / len(line) for line in lines]
    pitches = [one - other for one, other in pairwise(heights)]
    usual = median(pitches) if pitches else 0.0
    cuts = [
        nth
        for nth in range(1, len(lines))
        if not several[nth] or pitches[nth - 1] > 1.3 * usual
    ]  # fmt: skip
    start = 0
    for at, cut in enumerate(cuts[:_MOST_CUTS]):
        if cut <= start:
            continue
        begin = next((nth for nth in range(cut, len(lines)) if several[nth]), None)
        if begin is None:
            break
        end = next((nth for nth in cuts[at + 1 :] if nth > begin), len(lines))
        titled = begin > cut and _TITLE.match(" ".join(word.text for word in lines[begin - 1]))
        if sum(several[start:cut]) > 1 and (
            titled or _have_other_columns(lines[start:cut], lines[begin:end], between)
        ):
            yield list(lines[start:cut])
            start = begin
    yield list(lines[start:])


def _have_other_columns(above: Sequence[Row], below: Sequence[Row], between: float | None) -> bool:
    """Return whether two groups of rows have no common column but the first."""
    if len(below) < 2:
        return False
    upper, lower = (
        [_line_segments(line, _GAP, between) for line in lines if _has_columns(line, between)]
        for lines in (above, below)
    )
    if not upper or len(lower) < 2:
        return False
    columns = [merged_spans([span for line in rows for span in line[1:]], 0.0) for rows in (upper, lower)]
    return not any(one[0] < other[1] and other[0] < one[1] for one in columns[0] for other in columns[1])


def _goes_on(above: Row, line: Row) -> bool:
    """Return whether a line below a table is the rest of a cell in its last row."""
    near = above[0].middle - line[0].middle < 1.3 * line[0].size
    return near and line[0].left > above[0].left + 3 and abs(above[0].size - line[0].size) < 0.6


def _free_corridors(
    lines: Sequence[Row], between: float | None = None, *, share: bool = False
) -> list[float]:
    """Return the middles of the ranges in which no line, or nearly none, has a word.

    With ``share`` a part of the lines must have words on both sides: the larger, the narrower the range.
    """
    if not lines:
        return []
    sizes = sorted(word.size for line in lines for word in line)
    size = sizes[len(sizes) // 2]
    least = size * (0.8 if len(lines) < 4 else 0.48 if between is None or len(lines) < 6 else 0.23)
    inside = 0.35 if between is None else 0.6
    segments = [_line_segments(line, inside, between) for line in lines]
    events = sorted(event for line in segments for left, right in line for event in ((left, 1), (right, -1)))
    allowed = len(lines) // 10 if len(lines) > 5 else 1 if len(lines) > 3 else 0
    middles: list[float] = []
    depth = 0
    free: list[tuple[int, float, float]] = []  # the depth of a range and its ends, one after the other
    for nth, (x, step) in enumerate(events[:-1]):
        depth += step
        if depth <= allowed:
            free.append((depth, x, events[nth + 1][0]))
        elif free:
            wide = free[-1][2] - free[0][1]
            part = 0.0 if not share else _SHARE if wide >= _GAP * size else _NARROW_SHARE
            # The widest range that the fewest lines cross.
            _, low, high = min(free, key=lambda each: (each[0], each[1] - each[2]))
            if wide >= least and (
                _is_between(segments, free[0][1], free[-1][2], part)
                or (high - low >= _GAP * size and _is_between(segments, low, high, part))
            ):
                middles.append((low + high) / 2)
            free = []
    return middles


def _is_between(lines: Sequence[list[tuple[float, float]]], left: float, right: float, share: float) -> bool:
    """Return whether words are on both sides of a range in enough lines: it is no margin."""
    both = crossed = 0
    for segments in lines:
        before = any(high <= left + 0.5 for _, high in segments)
        behind = any(low >= right - 0.5 for low, _ in segments)
        both += before and behind
        crossed += any(low < left - 0.5 and high > right + 0.5 for low, high in segments)
    return both >= max(2, crossed * 2, share * len(lines))


def _is_rowwise(words: Sequence[PdfWord], inner: list[float], lines: Sequence[Row]) -> bool:
    """Return whether the page's stream goes through the columns row by row, as it does in tables.

    Columns of running text come one after the other, and their lines are long.
    """
    columns = [bisect_right(inner, word.center) for word in words]
    changes = sum(1 for one, other in pairwise(columns) if one != other)
    count = len(inner) + 1
    if changes < max(count - 1, min(len(lines), 6) * 0.5 * (count - 1)) and changes <= 2 * count:
        return False
    if count == 2:
        longest = [sum(len(word.text) + 1 for word in line) for line in lines]
        full = sum(1 for length in longest if length > 70)
        latin = not WIDE.search("".join(word.text for word in words[:50]))
        return not (latin and full * 2 > len(lines) and changes <= len(lines) * 0.3)
    return True


def _text_rows(
    words: Sequence[PdfWord], inner: list[float], rules: Sequence[float], areas: Sequence[float]
) -> Rows:
    """Return rows of cells. ``words`` are in the order of the stream: the lines of a cell follow each other.

    ``rules`` and ``areas``: heights of rules, and of edges of areas. Both are between rows, and rules can be
    between all rows.
    """
    lines = by_height(words)
    places = {id(word): nth for nth, line in enumerate(lines) for word in line}
    heights = [sum(word.middle for word in line) / len(line) for line in lines]
    below = _joined_lines(words, inner, places, heights)
    between = sorted((*rules, *areas))
    bands = [bisect_right(between, height) for height in heights]
    ruled = sorted(rules)
    full = len(rules) >= 2 and _are_rows([bisect_right(ruled, height) for height in heights], below)
    pitches = sorted(one - other for one, other in pairwise(heights))
    pitch = pitches[len(pitches) // 2] if pitches else 0.0
    rows: list[list[Row]] = []
    for nth, line in enumerate(lines):
        columns = _word_columns(line, inner)
        same = nth > 0 and bands[nth] == bands[nth - 1] and (full or nth in below)
        if nth and not same and heights[nth - 1] - heights[nth] < 0.7 * pitch:
            same = not any(rows[-1][column] for column in columns)  # a cell that is centered in its height
        if not same:
            rows.append([[] for _ in range(len(inner) + 1)])
        for column, word in zip(columns, line, strict=True):
            rows[-1][column].append(word)
    return _without_empty([[without_hyphens(joined(cell)) for cell in row] for row in rows])


def _word_columns(line: Row, inner: list[float]) -> list[int]:
    """Return the column of each word of a line; pieces of a word are in one."""
    columns: list[int] = []
    for nth, word in enumerate(line):
        goes_on = nth > 0 and word.glued and abs(word.left - line[nth - 1].right) < 0.2 * word.size
        columns.append(columns[-1] if goes_on else bisect_right(inner, word.center))
    return columns


def _joined_lines(
    words: Sequence[PdfWord], inner: list[float], places: dict[int, int], heights: list[float]
) -> set[int]:
    """Return the numbers of lines that go on in a cell of the line above."""
    joined_lines: set[int] = set()
    long = 0
    columns: list[set[int]] = [set() for _ in heights]
    for word in words:
        columns[places[id(word)]].add(bisect_right(inner, word.center))
    for before, word in pairwise(words):
        one, other = places[id(before)], places[id(word)]
        if other <= one or bisect_right(inner, before.center) != bisect_right(inner, word.center):
            continue
        if one > 0 and columns[one] == {0} and len(columns[other]) > 1:
            continue  # the name of a group of rows
        if before.middle - word.middle < 1.5 * max(before.size, word.size):
            joined_lines.update(range(one + 1, other + 1))
            long += 1
    columnwise = long > 0.8 * (len(heights) - 1) * (len(inner) + 1) > 3
    return set() if columnwise else joined_lines


def _are_rows(bands: list[int], below: set[int]) -> bool:
    """Return whether the edges divide every row, not the head from the rest alone."""
    sizes: dict[int, int] = defaultdict(int)
    for nth, band in enumerate(bands):
        if nth not in below:
            sizes[band] += 1
    single = sum(1 for count in sizes.values() if count <= 1)
    return len(sizes) >= 3 and single * 4 >= len(sizes) * 3 and max(sizes.values(), default=0) <= 3


def _is_prose(rows: Rows) -> bool:
    """Return whether rows are lines of running text in columns: long, and going on in the next."""
    columns = list(zip(*rows, strict=True))
    if len(columns) > 3:
        return False
    for column in columns:
        cells = [cell for cell in column if cell]
        length = sum(len(cell) + len(WIDE.findall(cell)) for cell in cells)
        if not cells or length < _PROSE * len(cells):
            return False
        on = sum(1 for cell in cells[1:] if cell[0].islower() or WIDE.match(cell))
        if on * 2 < len(cells) - 1:
            return False
    return True


def _is_list(rows: Rows) -> bool:
    """Return whether rows are items with their marks or numbers, or lines of a table of contents."""
    if _is_contents(rows):
        return True
    if len(rows[0]) != 2:
        return False
    firsts = [row[0] for row in rows if row[0]]
    if len(firsts) * 10 < len(rows) * 4 and not rows[0][0]:
        return True  # lines of text, beside some of which another text is
    if sum(1 for row in rows if not row[1] or _FORMULA.match(row[1])) * 10 >= len(rows) * 9:
        return True
    if sum(1 for cell in firsts if _MARK.match(cell)) * 10 >= len(firsts) * 7:
        return True
    counts = [int(cell) for cell in firsts if _NUMBER.match(cell)]
    if len(counts) < 3 or not _NUMBER.match(firsts[0]):
        return False
    rising = sum(1 for one, other in pairwise(counts) if other == one + 1)
    return len(counts) * 10 >= len(firsts) * 7 and rising * 10 >= (len(counts) - 1) * 8


def _is_contents(rows: Rows) -> bool:
    """Return whether rows end in the numbers of pages, and begin with those of sections if they are few."""
    numbers = [int(row[-1]) for row in rows if _NUMBER.match(row[-1])]
    if len(numbers) != len(rows) or numbers != sorted(numbers):
        return False
    if len(rows[0]) == 2 and len(rows) > 3:
        return True
    sections = sum(1 for row in rows if not row[0] or _SECTION.match(row[0]))
    return len(rows[0]) <= 4 and len(rows) >= 3 and sections * 10 >= len(rows) * 9
