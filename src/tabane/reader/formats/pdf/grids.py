"""Grids of rules on a page: the cells that horizontal and vertical rules enclose."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tabane.reader.formats.pdf.geometry import PdfBox, centers, merged_spans

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
        return PdfBox(self.columns[0], self.rows[-1], self.columns[-1], self.rows[0])

    def is_divided(self, column: float, y: float) -> bool:
        """Return whether there is a vertical rule at a column, at a height."""
        return _covers(self.upright, column, y)

    def is_underlined(self, row: float, x: float) -> bool:
        """Return whether there is a horizontal rule at a row, at a distance from the left."""
        return _covers(self.level, row, x)


def _covers(spans: Spans, place: float, at: float) -> bool:
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
    found = [_grid(level, upright, members) for members in groups.members()]
    grids = [grid for grid in found if grid is not None]
    return sorted(grids, key=lambda grid: grid.box.width * grid.box.height)


def _merged(rules: list[PdfBox], *, upright: bool) -> list[PdfBox]:
    """Return rules of one direction; those on one line that meet are one."""
    lines: dict[float, list[tuple[float, float]]] = defaultdict(list)
    places = [(rule.left + rule.right) / 2 if upright else (rule.bottom + rule.top) / 2 for rule in rules]
    groups = centers(places, 1.0)
    for rule, place in zip(rules, places, strict=True):
        line = _nearest(groups, place)
        lines[line].append((rule.bottom, rule.top) if upright else (rule.left, rule.right))
    return [
        PdfBox(line, low, line, high) if upright else PdfBox(low, line, high, line)
        for line, spans in lines.items()
        for low, high in merged_spans(spans, _ROOM)
    ]


def _nearest(places: list[float], value: float) -> float:
    at = bisect_left(places, value)
    return min(places[max(0, at - 1) : at + 1], key=lambda place: abs(place - value))


class _Groups:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def _root(self, one: int) -> int:
        while self._parents[one] != one:
            self._parents[one] = self._parents[self._parents[one]]
            one = self._parents[one]
        return one

    def join(self, one: int, other: int) -> None:
        self._parents[self._root(one)] = self._root(other)

    def members(self) -> list[list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for one in range(len(self._parents)):
            found[self._root(one)].append(one)
        return list(found.values())


def _grid(level: Sequence[PdfBox], upright: Sequence[PdfBox], members: Sequence[int]) -> RuleGrid | None:
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
        _spans(columns, [(rule.left, rule.bottom, rule.top) for rule in down]),
        _spans(rows, [(rule.top, rule.left, rule.right) for rule in across]),
    )


def _spans(places: list[float], found: list[tuple[float, float, float]]) -> Spans:
    spans: Spans = defaultdict(list)
    for place, low, high in found:
        spans[_nearest(places, place)].append((low, high))
    return spans
