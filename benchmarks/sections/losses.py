"""Where a peer or a goal is better than what was measured of ours; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.sections.blocks import Row, Table
from benchmarks.sections.section import Section

LEAST = 1.05
"""A peer that is better by less than this factor is no loss: runs differ by as much."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A figure of ours that something else is better than, by ``factor``."""

    section: Section
    what: str
    ours: str
    other: str
    who: str
    factor: float


def losses(sections: Iterable[Section]) -> list[Loss]:
    """Return all losses by section, the worst of a section first."""
    found: list[Loss] = []
    for section in sections:
        found += sorted([*_goals(section), *_peers(section)], key=lambda loss: -loss.factor)
    return found


def _goals(section: Section) -> Iterator[Loss]:
    for figure in section.goals():
        if figure.goal is not None and not figure.is_met:
            factor = figure.better.loss(figure.value, figure.goal)
            yield Loss(section, figure.name, figure.shown, figure.shown_goal, "the goal", factor)


def _peers(section: Section) -> Iterator[Loss]:
    """Yield the best peer of each row that is better than ours."""
    for comparison in section.comparisons():
        better: dict[Row, list[Loss]] = {}
        for one in comparison.against_peers():
            if one.loss < LEAST:
                continue
            what = f"{comparison.title}: {one.row.name}" if comparison.title else one.row.name
            who = one.peer if one.recall is None else f"{one.peer}, recall {one.recall:.4f}"
            ours, other = (f"{value:,.{one.row.digits}f}{one.row.unit}" for value in (one.ours, one.value))
            better.setdefault(one.row, []).append(Loss(section, what, ours, other, who, one.loss))
        yield from (max(several, key=lambda loss: loss.factor) for several in better.values())


def losses_table(found: Iterable[Loss]) -> Table:
    rows = tuple(
        (
            f"{linked(loss.section)}: {loss.what}",
            loss.ours,
            loss.other,
            loss.who,
            f"{loss.factor:.2f} ×",
        )
        for loss in found
    )
    return Table(("", "Tabane", "better", "who", "by"), rows)


def linked(section: Section) -> str:
    """Return a link to a section of the page."""
    return f"[{section.title}](#{anchor(section.title)})"


def anchor(title: str) -> str:
    """Return the anchor that a Markdown page gives a heading."""
    kept = (each for each in title.lower().replace(" ", "-") if each.isalnum() or each in "-_")
    return "".join(kept)
