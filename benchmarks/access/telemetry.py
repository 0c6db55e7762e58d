"""Cost of counting and tracing for a call: python -m benchmarks.access.telemetry

The first table is time on the event loop for each call. The second one is whole calls of one client through
a hub to a server on a pipe, without and with tracing, in turn. The collector is in the same process.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.report import machine, table
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from tests.harness.running_hub import SocketClient, child, running_hub
from tests.harness.trace_collector import trace_collector

from tabane.hub.telemetry.metering import CallCounters
from tabane.hub.telemetry.prometheus import call_families, exposition
from tabane.hub.telemetry.spans import SpanTracing
from tabane.operations import Caller, CallTarget, Face

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TARGET = CallTarget("github__get_issue", "github")
CALLER = Caller("local", Face.MCP, "1")
REPEATS, NUMBER, CALLS, ROUNDS = 7, 50_000, 2000, 5


class NoExporter(SpanExporter):
    """Accepts spans and sends them nowhere."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def main() -> None:
    print(machine("python -m benchmarks.access.telemetry"))
    print(table(("on the event loop", "µs a call"), on_the_loop()))
    print(table(("page of 2,000 tools", "ms"), page()))
    print(table(("calls of one client in a row", "calls/s", "p50"), asyncio.run(through_a_hub())))


def on_the_loop() -> list[tuple[str, str]]:
    counters = CallCounters()
    for number in range(500):
        counters.count(CallTarget(f"github__{number}", "github"), "local", "ok", 0.01, 100, 0)
    tracing = traced(TracerProvider(shutdown_on_exit=False))
    unsampled = traced(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    export = traced(TracerProvider(shutdown_on_exit=False), BatchSpanProcessor(NoExporter()))
    ways: list[tuple[str, Callable[[], object]]] = [
        ("count", lambda: counters.count(TARGET, "local", "ok", 0.0123, 512, 0)),
        ("span, new trace", lambda: tracing.begin(CALLER, TARGET).end("ok", 512)),
        ("span, trace of the client", lambda: tracing.begin(CALLER, TARGET, PARENT).end("ok", 512)),
        ("span, with the queue of the export", lambda: export.begin(CALLER, TARGET, PARENT).end("ok", 512)),
        ("span, not sampled", lambda: unsampled.begin(CALLER, TARGET).end("ok", 512)),
    ]
    return [(name, f"{per_call(way):.2f}") for name, way in ways]


def traced(provider: TracerProvider, processor: SpanProcessor | None = None) -> SpanTracing:
    return SpanTracing(provider, processor or SpanProcessor(), NoExporter())


def per_call(way: Callable[[], object]) -> float:
    """Return microseconds, the least of several runs."""
    return min(timeit.repeat(way, number=NUMBER, repeat=REPEATS)) / NUMBER * 1e6


def page() -> list[tuple[str, str]]:
    counters = CallCounters()
    for number in range(2000):
        target = CallTarget(f"server-{number % 100}__tool_{number}", f"server-{number % 100}")
        counters.count(target, f"key:{number % 500}", "ok", 0.01, 100, 0)
    begun = time.perf_counter()
    frozen = counters.frozen()
    read = time.perf_counter()
    exposition(call_families(frozen.read(), True))
    done = time.perf_counter()
    return [
        ("copied, on the event loop", f"{(read - begun) * 1000:.2f}"),
        ("written, in a thread", f"{(done - read) * 1000:.2f}"),
    ]


async def through_a_hub() -> list[tuple[str, str, str]]:
    """Measure in turn, so that the load of the machine is the same for both."""
    times: dict[str, list[float]] = {"without tracing": [], "with tracing": []}
    with trace_collector() as collector, tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            lines: dict[str, SocketClient] = {}
            for name, endpoint in (("without tracing", ""), ("with tracing", collector.url)):
                home = Path(folder) / name.replace(" ", "-")
                servers = {"one": child()}
                hub = await stack.enter_async_context(running_hub(home, servers, otel_endpoint=endpoint))
                lines[name] = await hub.connect()
                await calls(lines[name], 100)
            for _ in range(ROUNDS):
                for name, line in lines.items():
                    times[name] += await calls(line, CALLS)
    return [
        (name, f"{len(found) / sum(found):,.0f}", f"{statistics.median(found) * 1e6:,.0f} µs")
        for name, found in times.items()
    ]


async def calls(line: SocketClient, count: int) -> list[float]:
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        await line.call("one__echo", text="hi")
        found.append(time.perf_counter() - begun)
    return found


if __name__ == "__main__":
    main()
