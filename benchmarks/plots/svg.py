"""The picture of a plot: bars, lines or points; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.plots.elements import WIDTH, bar, color_class, document, line, mark, path, text
from benchmarks.plots.scales import Scale, scale_of, tick_label, value_label
from benchmarks.sections.blocks import Mark, Plot, Series

_TOP, _LEFT, _RIGHT, _BOTTOM = 48, 78, 24, 48
_PLOT = 270
"""Pixels of the height of lines and points."""

_LINE = 20
_BAR, _GAP = 16, 12
_LETTER = 6.9
"""Pixels of a letter of the names beside bars, at most."""


def picture(plot: Plot) -> str:
    """Return the SVG of a plot. Raises ValueError if there is nothing to draw."""
    if not any(value is not None for series in plot.series for value in series.y):
        raise ValueError(f"the plot {plot.name} has no values")
    if plot.mark is Mark.BARS:
        return _bars(plot)
    return _points(plot)


def colors(plot: Plot) -> dict[str, str]:
    """Return the class of each series by name: ours and the peers count apart."""
    found: dict[str, str] = {}
    counts = {True: 0, False: 0}
    for series in plot.series:
        found[series.name] = color_class(counts[series.is_ours], is_ours=series.is_ours)
        counts[series.is_ours] += 1
    return found


def _legend(plot: Plot, kinds: Mapping[str, str], y: float) -> tuple[list[str], float]:
    """Return the legend, from ``y`` down, and how many pixels it takes."""
    parts: list[str] = []
    x, top = 20.0, y
    for series in plot.series:
        wide = 24 + 7.3 * len(series.name)
        if x + wide > WIDTH - 10:
            x, y = 20.0, y + _LINE
        parts += [
            mark(x + 6, y - 4, kinds[series.name], is_ours=series.is_ours),
            text(x + 17, y, series.name),
        ]
        x += wide + 14
    return parts, y - top + _LINE


# -- bars ----------------------------------------------------------------------------------------------


def _bars(plot: Plot) -> str:
    kinds = colors(plot)
    legend, taken = _legend(plot, kinds, _TOP) if len(plot.series) > 1 else ([], 0.0)
    top = _TOP + taken
    names = list(dict.fromkeys(str(name) for series in plot.series for name in series.x))
    left = 20 + _LETTER * max(map(len, names))
    rows = [(name, list(_of(plot, name))) for name in names]
    height = sum(len(several) * _BAR + _GAP for _, several in rows)
    values = [value for _, several in rows for _, value in several]
    scale = scale_of(
        [*values, *([] if plot.x.logarithmic else [0.0])],
        left, WIDTH - 90, logarithmic=plot.x.logarithmic, zero=True,
    )  # fmt: skip
    parts = [*legend, *_upright(scale, plot.x.label, top, height)]
    y = top + _GAP / 2
    for name, several in rows:
        parts.append(text(left - 8, y + len(several) * _BAR / 2 + 4, name, "n", "end"))
        for series, value in several:
            parts.append(bar(left, y + 1, scale.at(value) - left, _BAR - 2, kinds[series.name]))
            parts.append(text(scale.at(value) + 6, y + _BAR - 4, value_label(value), "n"))
            y += _BAR
        y += _GAP
    parts.append(text(20, top - 6, plot.y.label, "n"))
    return document(top + height + _BOTTOM, plot.title, plot.about, parts)


def _of(plot: Plot, name: str) -> Iterator[tuple[Series, float]]:
    """Yield the values of a name, by series."""
    for series in plot.series:
        for x, value in zip(series.x, series.y, strict=True):
            if x == name and value is not None:
                yield series, value


def _upright(scale: Scale, label: str, top: float, height: float) -> Iterator[str]:
    """Yield the horizontal axis at the bottom, with lines upwards."""
    for tick in scale.ticks():
        x = scale.at(tick)
        yield line(x, top, x, top + height, "g")
        yield text(x, top + height + 16, tick_label(tick), "n", "middle")
    yield line(scale.start, top, scale.start, top + height, "a")
    yield text((scale.start + scale.end) / 2, top + height + 36, label, "n", "middle")


# -- lines and points ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    series: Series
    x: float
    y: float


def _points(plot: Plot) -> str:
    kinds = colors(plot)
    legend, taken = _legend(plot, kinds, _TOP)
    top = _TOP + taken
    known = [
        _Place(series, float(x), y)
        for series in plot.series
        for x, y in zip(series.x, series.y, strict=True)
        if y is not None
    ]
    across = scale_of(
        [each.x for each in known], _LEFT, WIDTH - _RIGHT, logarithmic=plot.x.logarithmic, zero=False
    )
    upward = scale_of(
        [each.y for each in known],
        top + _PLOT,
        top,
        logarithmic=plot.y.logarithmic,
        zero=plot.mark is Mark.LINES,
    )
    own = sorted({each.x for each in known}) if plot.mark is Mark.LINES else across.ticks()
    parts = [*legend, *_axes(plot, across, upward, own, top)]
    for series in plot.series:
        places = [(across.at(each.x), upward.at(each.y)) for each in known if each.series is series]
        kind = kinds[series.name]
        if plot.mark is Mark.LINES:
            parts.append(path(places, kind, dashed=not series.is_ours))
        parts += [mark(x, y, kind, is_ours=series.is_ours) for x, y in places]
    return document(top + _PLOT + _BOTTOM, plot.title, plot.about, parts)


def _axes(plot: Plot, across: Scale, upward: Scale, ticks: list[float], top: float) -> Iterator[str]:
    bottom = top + _PLOT
    for tick in upward.ticks():
        y = upward.at(tick)
        yield line(across.start, y, across.end, y, "g")
        yield text(across.start - 8, y + 4, tick_label(tick), "n", "end")
    for tick in ticks:
        x = across.at(tick)
        yield line(x, bottom, x, bottom + 5, "a")
        yield text(x, bottom + 19, tick_label(tick), "n", "middle")
    yield line(across.start, bottom, across.end, bottom, "a")
    yield line(across.start, top, across.start, bottom, "a")
    yield text((across.start + across.end) / 2, bottom + 38, plot.x.label, "n", "middle")
    yield text(18, (top + bottom) / 2, plot.y.label, "n", "middle", turned=True)
