"""CPU time of the hubs of a group for each request.

    python -m benchmarks.hubs [--requests COUNT] [--rounds COUNT] [--write]

The same requests go through the same balancer to one hub, to two hubs that know nothing of each other, and to
two hubs of a group. A process that has less to do works with colder caches, so a group is compared with the
two others. Clients of 2026-07-28 need no session. In sessions of older clients, half of the requests come to
a hub that passes them on. Only the hubs' own processes are counted; short rounds alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiohttp import ClientSession
from benchmarks.report import Goal, goals, machine, publish, table
from tests.e2e.faults.test_rolling_restart import Load
from tests.e2e.protocol.conformance.servers import hub_over
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import postgres_server
from tests.harness.round_robin import RoundRobin
from tests.harness.running_hub import child

from tabane.hub.local.lock import read_holder

CLIENTS = 2


@dataclass
class Side:
    """One hub, or two: the URL of the balancer, and the processes of the hubs."""

    name: str
    url: str
    hubs: list[psutil.Process]

    def cpu(self) -> float:
        return sum(hub.cpu_times().user + hub.cpu_times().system for hub in self.hubs)


async def side(stack: AsyncExitStack, folder: Path, name: str, count: int, engine: str) -> Side:
    """Start the hubs of one side behind a balancer."""
    urls, hubs = [], []
    for number in range(count):
        place, port = folder / f"{name}-{number}", reserved_port(stack)
        place.mkdir()
        address = f"http://127.0.0.1:{port}"
        variables = {"TABANE_MODEL": "none", "TABANE_DRAIN_NOTICE": "0"}
        if engine:
            variables |= {"TABANE_ENGINE": engine, "TABANE_ADVERTISE": address}
        await stack.enter_async_context(hub_over(place, child(), b"echo", port, **variables))
        holder = read_holder(str(place / "home" / "hub.lock"))
        assert holder is not None
        hubs.append(psutil.Process(holder.pid))
        urls.append(address)
    balancer = await stack.enter_async_context(RoundRobin(urls).serving())
    await until(lambda: len(balancer.healthy) == count, "the hubs take requests")
    return Side(name, f"{balancer.url}/mcp/full", hubs)


async def measured(side: Side, legacy: bool, requests: int) -> float:
    """Return the CPU time of the hubs for one request, in microseconds of user and system time."""
    async with ClientSession() as client:
        load = Load(side.url, client)
        ones = [await load.session() if legacy else load.modern for _ in range(CLIENTS)]
        await asyncio.gather(*(repeated(one, 4) for one in ones))
        before, answered = side.cpu(), load.answered
        await asyncio.gather(*(repeated(one, requests // CLIENTS) for one in ones))
        assert not load.lost, load.lost[:3]
        return (side.cpu() - before) / (load.answered - answered) * 1e6


async def repeated(one: Callable[[], Awaitable[None]], count: int) -> None:
    for _ in range(count):
        await one()


Medians = dict[str, float]
"""Microseconds of CPU for a request, by side."""


async def main(requests: int, rounds: int, *, write: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="tabane-hubs-") as folder, postgres_server() as server:
        async with AsyncExitStack() as stack:
            place = Path(folder)
            one = await side(stack, place, "one hub", 1, "")
            apart = await side(stack, place, "two hubs apart", 2, "")
            group = await side(stack, place, "two hubs of a group", 2, server.url())
            modern = await compared((one, apart, group), False, requests, rounds)
            legacy = await compared((one, group), True, requests, rounds)
    publish("hubs", page(modern, legacy), write=write)


async def compared(sides: tuple[Side, ...], legacy: bool, requests: int, rounds: int) -> Medians:
    """Measure the sides in turn, and return the median of each."""
    found: dict[str, list[float]] = {each.name: [] for each in sides}
    for number in range(rounds + 1):
        for each in sides:
            spent = await measured(each, legacy, requests)
            if number:  # the first one warms up
                found[each.name].append(spent)
    return {name: statistics.median(values) for name, values in found.items()}


def page(modern: Medians, legacy: Medians) -> list[str]:
    """Return the section of docs/performance.md."""
    group = "two hubs of a group"
    rows = [
        (f"{what}, {name}", f"{spent:.0f}", f"{medians[group] / spent:.2f}")
        for what, medians in (("no session (2026-07-28)", modern), ("sessions (2025-11-25)", legacy))
        for name, spent in medians.items()
    ]
    return [
        "## A group of hubs",
        machine("python -m benchmarks.hubs"),
        "CPU time of the hubs for a call through a load balancer that sends each request to the next hub. In "
        "sessions, half of the requests with two hubs come to the one that passes them on.",
        table(("", "µs of CPU for a request", "group, as a multiple"), rows),
        goals(
            [
                Goal("no session: a group against one hub", modern[group] / modern["one hub"], 1.15, " ×", 2),
                Goal(
                    "no session: a group against two hubs",
                    modern[group] / modern["two hubs apart"],
                    1.15,
                    " ×",
                    2,
                ),
                Goal("sessions: a group against one hub", legacy[group] / legacy["one hub"], 1.15, " ×", 2),
            ]
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.hubs")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.requests, options.rounds, write=options.write)))
