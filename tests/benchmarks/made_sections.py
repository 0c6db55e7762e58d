"""Sections made for tests."""

from __future__ import annotations

from benchmarks.sections.blocks import Axis, Block, Comparison, Goals, Mark, Plot, Row, Series
from benchmarks.sections.figure import Better, Figure
from benchmarks.sections.section import Section


def section(name: str, *blocks: Block, title: str = "") -> Section:
    return Section(name, title or name.capitalize(), "2026-11-27", (0.1, 0.2), blocks)


def ratio(name: str, value: float, goal: float | None = None, better: Better = Better.LESS) -> Figure:
    return Figure(name, value, " ×", 2, goal, better)


def goals(*figures: Figure) -> Goals:
    return Goals(figures)


TIMES = Comparison(
    ("tabane", "numpy", "graph"),
    (
        Row("top 10", (4.0, 16.0, 2.0), unit=" ms", recalls=(1.0, 1.0, 0.9)),
        Row("hybrid", (8.0, None, None), unit=" ms"),
        Row("rows a second", (5000.0, None, 10_000.0), 0, better=Better.MORE, with_ratios=False),
    ),
    "20,000 × 384",
)

BARS = Plot(
    "calls",
    "Calls",
    "Calls, × direct. hub 2.4; other 60",
    Mark.BARS,
    Axis("× direct", logarithmic=True),
    Axis(""),
    (Series("hub", ("p50", "p95"), (2.4, 3.1), is_ours=True), Series("other", ("p50", "p95"), (60.0, None))),
)

POINTS = Plot(
    "recall",
    "Time & recall",
    "Points <of> engines",
    Mark.POINTS,
    Axis("recall@10"),
    Axis("ms", logarithmic=True),
    (Series("tabane", (1.0,), (4.0,), is_ours=True), Series("graph", (0.9,), (2.0,))),
)

LINES = Plot(
    "widths",
    "Calls a second",
    "Lines of calls",
    Mark.LINES,
    Axis("at once"),
    Axis("calls/s"),
    (
        Series("hub", (1, 16, 64), (4000, 21_000, 32_000), is_ours=True),
        Series("rust", (1, 16), (3000, 13_000)),
    ),
)
