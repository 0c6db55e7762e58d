"""All of HTTP: python -m benchmarks.http [--write] puts it into the performance page."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
from collections.abc import Sequence

from benchmarks.http.calls import rates
from benchmarks.http.idle import WAYS, measure
from benchmarks.http.through import CLIENTS, Comparison, through
from benchmarks.report import Goal, goals, machine, publish, table
from benchmarks.sections.blocks import Axis, Block, Plot, Series
from benchmarks.sections.plots import curves

TITLE = "## The gateway, over HTTP"
ROUNDS, CALLS, IDLE = 7, 4000, 1000
SHORT = 3  # rounds


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--short", action="store_true", help="measure the ratios only")
    options = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parts = short_page() if options.short else page()
    publish("http", parts, write=options.write)


def short_page() -> list[Block | str]:
    """Return the ratios of calls alone, for ``make bench-check``."""
    return [TITLE, machine("python -m benchmarks.http --short"), goals(call_goals(*through(SHORT)))]


def call_goals(one: Comparison, many: Comparison) -> list[Goal]:
    return [
        Goal(
            "call p50, HTTP to HTTP, against direct",
            statistics.median(one.ratios), 3, " ×", 2, limit_digits=0,
        ),
        Goal(f"the same, {CLIENTS} at once", statistics.median(many.ratios), None, " ×", 2),
        Goal(f"calls a second, {CLIENTS} at once", many.rate(1), 5000, least=True),
    ]  # fmt: skip


def page() -> list[Block | str]:
    compared = through(ROUNDS)
    kilobytes = {way.__name__: measure(way, IDLE) for way in WAYS}
    reached = [
        *call_goals(*compared),
        Goal("an idle client", kilobytes["session"], 10, " KB", 1, limit_digits=0),
        Goal("an idle client that listens", kilobytes["listening"], 25, " KB", 1, limit_digits=0),
    ]
    compared_rows = [row for comparison in compared for row in _rows(comparison)]
    forwarded = [
        (f"{rate.version}, {rate.clients} at once", us(rate.p50), us(rate.p99), f"{rate.rate:,.0f}")
        for rate in rates(CALLS)
    ]
    idle = [((way.__doc__ or "").rstrip("."), f"{kilobytes[way.__name__]:.1f}") for way in WAYS]
    return [
        TITLE,
        machine("python -m benchmarks.http"),
        goals(reached),
        "Client → HTTP → hub → HTTP → server, in turn with client → HTTP → server; 2026-07-28:",
        table(("", "p50", "calls/s", "× direct", "least to most"), compared_rows),
        calls_plot(compared),
        "Client → HTTP → hub → pipe → server:",
        table(("", "p50", "p99", "calls/s"), forwarded),
        f"Memory of the hub for each of {IDLE:,} idle clients:",
        table(("", "KB"), idle),
    ]


def calls_plot(compared: Sequence[Comparison]) -> Plot:
    """Return calls a second, direct and through the hub."""
    clients = tuple(float(one.clients) for one in compared)
    return curves(
        "http-rates",
        "Calls a second over HTTP, direct and through the hub",
        Axis("clients at once", logarithmic=True),
        Axis("calls/s (more is better)"),
        [
            Series("direct", clients, tuple(one.rate(0) for one in compared)),
            Series("tabane, HTTP to HTTP", clients, tuple(one.rate(1) for one in compared), is_ours=True),
        ],
    )


def _rows(one: Comparison) -> list[tuple[str, ...]]:
    low, high = one.ratios[0], one.ratios[-1]
    clients = f"{one.clients} at once"
    return [
        (f"direct, {clients}", us(one.p50(0)), f"{one.rate(0):,.0f}", "1", ""),
        (f"through the hub, {clients}", us(one.p50(1)), f"{one.rate(1):,.0f}",
         f"{statistics.median(one.ratios):.2f}", f"{low:.2f} to {high:.2f}"),
    ]  # fmt: skip


def us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


if __name__ == "__main__":
    main(sys.argv[1:])
