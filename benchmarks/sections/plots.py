"""Plots of comparisons: one bar for each contestant, ours in our color."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.plots.scales import value_label
from benchmarks.sections.blocks import Axis, Comparison, Mark, Plot, Row, Series

_MOST_SAID = 24


def bars(
    name: str,
    title: str,
    label: str,
    values: Mapping[str, Mapping[str, float | None]],
    ours: Sequence[str],
    *,
    logarithmic: bool = False,
) -> Plot:
    """Return bars of ``values``, which are by series and by name; ``ours`` are series of ours.

    ``label`` names the axis, with its unit.
    """
    series = tuple(
        Series(each, tuple(found), tuple(found.values()), is_ours=each in ours)
        for each, found in values.items()
    )
    about = f"{title}, {label}. {_values(series)}"
    return Plot(name, title, about, Mark.BARS, Axis(label, logarithmic), Axis(""), series)


def row_bars(
    name: str, title: str, label: str, of: Comparison, rows: Sequence[Row], *, logarithmic: bool = False
) -> Plot:
    """Return bars of some rows of a comparison."""
    values = {
        column: {row.name: row.values[place] for row in rows if row.values[place] is not None}
        for place, column in enumerate(of.columns)
    }
    shown = {column: found for column, found in values.items() if found}
    return bars(name, title, label, shown, of.columns[:1], logarithmic=logarithmic)


def curves(
    name: str, title: str, x: Axis, y: Axis, series: Sequence[Series], *, mark: Mark = Mark.LINES
) -> Plot:
    """Return lines, or points."""
    about = f"{title}: {y.label} by {x.label}. {_values(series)}"
    return Plot(name, title, about, mark, x, y, tuple(series))


def _values(several: Sequence[Series]) -> str:
    """Return the values for who cannot see a plot, or where they are if these are too many to listen to."""
    if sum(len(series.y) for series in several) > _MOST_SAID:
        return "The values are in the table beside it."
    return "; ".join(f"{each.name}: {_said(each)}" for each in several) + "."


def _said(series: Series) -> str:
    pairs = zip(series.x, series.y, strict=True)
    return ", ".join(
        f"{x if isinstance(x, str) else f'{x:.4g}'} {value_label(value)}"
        for x, value in pairs
        if value is not None
    )
