"""Plots of the gateway, and its comparison with other gateways; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.gateway.calling import WIDTHS, Calls
from benchmarks.gateway.figures import Figures
from benchmarks.gateway.other_gateways import OtherFigures
from benchmarks.gateway.ways import BRIDGE, DIRECT, STANDALONE
from benchmarks.sections.blocks import Axis, Comparison, Plot, Row, Series
from benchmarks.sections.figure import Better
from benchmarks.sections.plots import bars, curves

OURS, OTHERS = "tabane", "other gateways"


def _named(one: Calls) -> str:
    return f"{one.way}, {one.kind}" if one.kind else one.way


def _is_ours(one: Calls) -> bool:
    return one.way in (STANDALONE, BRIDGE)


def calls_plot(figures: Figures) -> Plot:
    """Return the median call as a multiple of a direct one, by way."""
    called = figures.calls[1:]
    one_core = {_named(one): one.slower(figures.one_core[0]) for one in figures.one_core[1:]}
    values = {
        OURS: {_named(one): one.slower(figures.direct) for one in called if _is_ours(one)},
        f"{OURS}, all on one core": one_core,
        OTHERS: {_named(one): one.slower(figures.direct) for one in called if not _is_ours(one)},
    }
    return bars(
        "gateway-calls",
        "One call after the other, against direct calls",
        "p50, × direct (less is better)",
        {name: found for name, found in values.items() if found},
        (OURS, f"{OURS}, all on one core"),
        logarithmic=True,
    )


def rates_plot(figures: Figures) -> Plot:
    """Return calls a second by how many are under way."""
    widths = (1, *WIDTHS)
    shown = [one for one in figures.calls if one.kind != "its own name" or one is figures.direct]
    return curves(
        "gateway-rates",
        "Calls a second, side by side",
        Axis("calls under way", logarithmic=True),
        Axis("calls/s (more is better)", logarithmic=True),
        [
            Series(one.way, tuple(map(float, widths)), tuple(map(one.rate, widths)), is_ours=_is_ours(one))
            for one in shown
        ],
    )


def starts_plot(figures: Figures) -> Plot:
    """Return milliseconds to the first answer, and those of CPU."""
    ours = {way: start for way, start in figures.starts.items() if way != DIRECT}
    others = figures.others
    return bars(
        "gateway-starts",
        "From the start of the process to the first answer",
        "ms (less is better)",
        {
            "tabane, time": {way: start.answer_ms for way, start in ours.items()},
            "tabane, CPU": {way: start.answer_cpu * 1e3 for way, start in ours.items()},
            "others, time": {name: one.answer_ms for name, one in others.items()},
            "others, CPU": {name: one.answer_cpu * 1e3 for name, one in others.items()},
        },
        ("tabane, time", "tabane, CPU"),
        logarithmic=True,
    )


def memory_plot(figures: Figures) -> Plot:
    """Return resident memory without the servers: alone, and after a thousand calls."""
    weights = {STANDALONE: figures.standalone, BRIDGE: figures.daemon}
    return bars(
        "gateway-memory",
        "Memory without the servers",
        "MB, resident (less is better)",
        {
            "tabane, no server connected": {way: _own(each.alone) for way, each in weights.items()},
            "tabane, 4 servers": {way: _own(each.busy) for way, each in weights.items()},
            "others, after the first answer": {name: one.alone for name, one in figures.others.items()},
            "others, 4 servers": {name: one.busy for name, one in figures.others.items()},
        },
        ("tabane, no server connected", "tabane, 4 servers"),
    )


def _own(parts: dict[str, float]) -> float:
    return sum(mb for part, mb in parts.items() if part != "upstream")


def beside_others(figures: Figures) -> Comparison:
    """Return standalone beside the others: calls, starts, memory, tokens of the list."""
    called = [
        figures.calls_of(STANDALONE, "call_tool"),
        *(one for one in figures.calls if one.way in figures.others),
    ]
    others = [figures.others[one.way] for one in called[1:]]
    start, weight = figures.starts[STANDALONE], figures.standalone

    def row(name: str, ours: float, value: Callable[[OtherFigures], float]) -> Row:
        return Row(name, (ours, *map(value, others)), 0)

    rows = (
        Row("call p50, × direct", tuple(one.slower(figures.direct) for one in called), 2),
        *_rates(called),
        Row("CPU of a call, µs", tuple(one.cpu_ms(1) * 1e3 for one in called), 0),
        row("first answer, ms", start.answer_ms, lambda one: one.answer_ms),
        row("CPU to the first answer, ms", start.answer_cpu * 1e3, lambda one: one.answer_cpu * 1e3),
        row("memory after the first answer, MB", _own(weight.alone), lambda one: one.alone),
        row("memory, 4 servers, 1,000 calls, MB", _own(weight.busy), lambda one: one.busy),
        row("tokens of the list", figures.sizes.lists["search"].best, lambda one: one.listed.best),
    )
    return Comparison((OURS, *(one.way for one in called[1:])), rows)


def _rates(called: list[Calls]) -> Iterator[Row]:
    for width in (1, *WIDTHS):
        rates = tuple(one.rate(width) for one in called)
        yield Row(f"calls a second, {width} at once", rates, 0, better=Better.MORE)
