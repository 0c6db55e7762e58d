"""Blocks of a section: texts, tables, figures with goals, comparisons, plots.

Each block is plain data, kept as JSON, and shows itself as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from benchmarks.sections.figure import RATIO, Better, Figure
from msgspec import Struct

PLOTS = "plots"
"""The folder of the pictures, beside the page."""


class Text(Struct, frozen=True, tag="text"):
    """Markdown as it is."""

    text: str

    def __str__(self) -> str:
        return self.text


class Table(Struct, frozen=True, tag="table"):
    """Cells of text. The first column is aligned left, the others right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.head))]
        rule = ("-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:]))
        return "\n".join(f"| {' | '.join(_aligned(line, widths))} |" for line in (lines[0], rule, *lines[1:]))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [
        first.ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)),
    ]


class Goals(Struct, frozen=True, tag="goals"):
    """Figures with their goals."""

    figures: tuple[Figure, ...]

    def __str__(self) -> str:
        rows = tuple((each.name, each.shown, each.shown_goal, each.verdict) for each in self.figures)
        return str(Table(("", "measured", "goal", ""), rows))


class Row(Struct, frozen=True, omit_defaults=True):
    """One figure of every column of a comparison; None where a column has none.

    ``with_ratios``: each peer's value is shown with how many times ours it is. ``recalls`` says for searches
    that may miss something what share they found.
    """

    name: str
    values: tuple[float | None, ...]
    digits: int = 2
    unit: str = ""
    better: Better = Better.LESS
    with_ratios: bool = True
    recalls: tuple[float | None, ...] = ()

    def cells(self) -> tuple[str, ...]:
        ours, *peers = self.values
        return (self.name, self._cell(ours, None), *(self._cell(each, ours) for each in peers))

    def _cell(self, value: float | None, ours: float | None) -> str:
        if value is None:
            return "–"
        shown = f"{value:,.{self.digits}f}{self.unit}"
        return f"{shown} ({value / ours:.1f} {RATIO})" if ours and self.with_ratios else shown


class Versus(Struct, frozen=True):
    """Our value beside that of a peer, in one row of a comparison. ``recall`` is the peer's."""

    row: Row
    peer: str
    ours: float
    value: float
    recall: float | None

    @property
    def loss(self) -> float:
        """How many times worse ours is than the peer's: above 1 if the peer is better."""
        return self.row.better.loss(self.ours, self.value)


class Comparison(Struct, frozen=True, tag="comparison", omit_defaults=True):
    """Figures of ours, the first column, beside those of peers. ``title`` tells two of a section apart."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    title: str = ""

    def __str__(self) -> str:
        return str(Table(("", *self.columns), tuple(row.cells() for row in self.rows)))

    def against_peers(self) -> Iterator[Versus]:
        """Yield each figure of ours that some column also has."""
        for row in self.rows:
            ours, *values = row.values
            for peer, value, recall in zip(self.columns[1:], values, self._recalls(row), strict=True):
                if ours and value:
                    yield Versus(row, peer, ours, value, recall)

    def _recalls(self, row: Row) -> tuple[float | None, ...]:
        return row.recalls[1:] or (None,) * (len(self.columns) - 1)

    def ratios(self) -> Iterator[Figure]:
        """Yield ours as a multiple of each column's, in the direction of the row."""
        for one in self.against_peers():
            name = ": ".join(part for part in (self.title, one.row.name, f"against {one.peer}") if part)
            yield Figure(name, one.ours / one.value, f" {RATIO}", 3, better=one.row.better)


class Mark(StrEnum):
    """How a plot shows its series."""

    BARS = "bars"
    POINTS = "points"
    LINES = "lines"


class Axis(Struct, frozen=True, omit_defaults=True):
    """The label with its unit. ``logarithmic`` axes show decades."""

    label: str
    logarithmic: bool = False


class Series(Struct, frozen=True, omit_defaults=True):
    """Values of one contestant. ``is_ours`` chooses among our colors. ``x`` are names for bars."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    is_ours: bool = False


class Plot(Struct, frozen=True, tag="plot"):
    """A picture of some series; ``name`` is its file's without the suffix. ``about`` is the text for who
    cannot see it."""

    name: str
    title: str
    about: str
    mark: Mark
    x: Axis
    y: Axis
    series: tuple[Series, ...]

    @property
    def path(self) -> str:
        """Relative to the page."""
        return f"{PLOTS}/{self.name}.svg"

    def __str__(self) -> str:
        return f"![{self.about}]({self.path})"


Block: TypeAlias = Text | Table | Goals | Comparison | Plot


def as_blocks(parts: Iterable[Block | str]) -> tuple[Block, ...]:
    """Return blocks, with Markdown given as strings as texts."""
    return tuple(Text(part) if isinstance(part, str) else part for part in parts)
