"""All of HTTP: python -m benchmarks.http [--write] puts it into docs/performance.md."""

from __future__ import annotations

import resource
import statistics
import sys

from benchmarks.http.calls import rates
from benchmarks.http.idle import WAYS, measure
from benchmarks.http.through import CLIENTS, Comparison, through
from benchmarks.report import Goal, goals, machine, publish, table

ROUNDS, CALLS, IDLE = 7, 4000, 1000


def main(arguments: list[str]) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    publish("http", page(), write="--write" in arguments)


def page() -> list[str]:
    compared = through(ROUNDS)
    kilobytes = {way.__name__: measure(way, IDLE) for way in WAYS}
    one, many = compared
    reached = [
        Goal(
            "call p50, HTTP to HTTP, against direct",
            statistics.median(one.ratios),
            4,
            " ×",
            1,
            limit_digits=0,
        ),
        Goal(f"calls a second, {CLIENTS} at once", many.rate(1), 1500, least=True),
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
        "## The gateway, over HTTP",
        machine("python -m benchmarks.http"),
        goals(reached),
        "Client → HTTP → hub → HTTP → server, in turn with client → HTTP → server; 2026-07-28:",
        table(("", "p50", "calls/s", "× direct", "least to most"), compared_rows),
        "Client → HTTP → hub → pipe → server:",
        table(("", "p50", "p99", "calls/s"), forwarded),
        f"Memory of the hub for each of {IDLE:,} idle clients:",
        table(("", "KB"), idle),
    ]


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
