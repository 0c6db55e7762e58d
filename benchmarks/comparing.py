"""Ratios of a run beside those that are committed: what became worse, and by how much; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.sections.blocks import Table
from benchmarks.sections.figure import Figure
from benchmarks.sections.section import Section

WORST = 1.3
"""A ratio that is so many times worse fails. Two runs of the same code differ by less."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A ratio as it is committed, and as it was measured now. One of the two may be None."""

    section: str
    name: str
    committed: Figure | None
    now: Figure | None

    @property
    def factor(self) -> float | None:
        """How many times worse it is now: below 1 if it is better. None if one of both is missing."""
        if self.committed is None or self.now is None:
            return None
        return self.now.better.loss(self.now.value, self.committed.value)

    @property
    def is_worse(self) -> bool:
        return self.factor is not None and self.factor > WORST

    @property
    def verdict(self) -> str:
        if self.committed is None:
            return "new"
        if self.now is None:
            return "not measured"
        return "worse" if self.is_worse else "as before"


def compared(committed: Mapping[str, Section], now: Mapping[str, Section]) -> list[Compared]:
    """Return the ratios of all sections of ``now``, each beside the committed one of the same name."""
    return [one for name, section in now.items() for one in _of_section(committed.get(name), section)]


def _of_section(committed: Section | None, now: Section) -> Iterator[Compared]:
    before = {} if committed is None else {figure.name: figure for figure in committed.ratios()}
    found = {figure.name: figure for figure in now.ratios()}
    for name in dict.fromkeys((*before, *found)):
        yield Compared(now.name, name, before.get(name), found.get(name))


def better_of(first: Iterable[Compared], second: Iterable[Compared]) -> list[Compared]:
    """Return the better of two runs for each ratio: noise only makes one worse.

    ``second`` may have some of the ratios of ``first``.
    """
    again = {(one.section, one.name): one for one in second}
    return [_better(one, again.get((one.section, one.name))) for one in first]


def _better(first: Compared, second: Compared | None) -> Compared:
    if second is None or second.factor is None:
        return first
    return second if first.factor is None or second.factor < first.factor else first


def comparison_table(several: Iterable[Compared]) -> str:
    """Return the table of ratios: committed, now, and the factor by which it is worse. The worst come first.

    Ratios that were not measured now are left out.
    """
    shown = [one for one in several if one.now is not None]
    shown.sort(key=lambda one: -(one.factor or 0.0))
    rows = tuple(
        (f"{one.section}: {one.name}", _value(one.committed), _value(one.now), _factor(one), one.verdict)
        for one in shown
    )
    return str(Table(("ratio", "committed", "now", "factor", ""), rows))


def _value(figure: Figure | None) -> str:
    return "–" if figure is None else f"{figure.value:.2f} ×"


def _factor(one: Compared) -> str:
    return "–" if one.factor is None else f"{one.factor:.2f}"
