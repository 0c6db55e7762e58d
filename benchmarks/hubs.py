"""CPU time of the hubs of a group for each request.

    python -m benchmarks.hubs [--requests COUNT] [--rounds COUNT] [--write]

The same requests go through the same balancer to one hub, to two hubs that know nothing of each other, and to
groups of two to four hubs. Each hub has the same number of clients: a process with less to do needs more for
each request. Clients of 2026-07-28 need no session. In sessions of older clients, a balancer that does not
know them sends half of the requests or more to a hub that passes them on. CPU time is that of the hubs'
processes, and short rounds alternate. Requests a second are those of this machine, where the clients and the
balancer need as much as the hubs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiohttp import ClientSession, TCPConnector
from benchmarks.report import Goal, goals, machine, publish, table
from tests.e2e.faults.test_rolling_restart import Load
from tests.e2e.protocol.conformance.servers import hub_over
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import postgres_server
from tests.harness.round_robin import RoundRobin
from tests.harness.running_hub import child

from tabane.hub.local.lock import read_holder

CLIENTS = 16  # of each hub


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


@dataclass(frozen=True)
class Cost:
    """``cpu``: microseconds of the hubs for a request, user and system. ``rate``: requests a second."""

    cpu: float
    rate: float


async def measured(side: Side, legacy: bool, requests: int) -> Cost:
    """Send so many requests to each hub of a side."""
    clients = CLIENTS * len(side.hubs)
    async with ClientSession(connector=TCPConnector(limit=clients)) as client:
        load = Load(side.url, client)
        ones = [await load.session() if legacy else load.modern for _ in range(clients)]
        await asyncio.gather(*(repeated(one, 4) for one in ones))
        before, answered, began = side.cpu(), load.answered, time.perf_counter()
        await asyncio.gather(*(repeated(one, requests // CLIENTS) for one in ones))
        assert not load.lost, load.lost[:3]
        done = load.answered - answered
        return Cost((side.cpu() - before) / done * 1e6, done / (time.perf_counter() - began))


async def repeated(one: Callable[[], Awaitable[None]], count: int) -> None:
    for _ in range(count):
        await one()


Medians = dict[str, Cost]
"""By side."""

ONE, APART, GROUP = "one hub", "two hubs apart", "two hubs of a group"


async def main(requests: int, rounds: int, *, write: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="tabane-hubs-") as folder, postgres_server() as server:
        async with AsyncExitStack() as stack:
            place = Path(folder)
            one = await side(stack, place, ONE, 1, "")
            apart = await side(stack, place, APART, 2, "")
            group = await side(stack, place, GROUP, 2, server.url())
            larger = [
                await side(stack, place, f"{name} hubs of a group", count, server.url(name))
                for count, name in ((3, "three"), (4, "four"))
            ]
            modern = await compared((one, apart, group, *larger), False, requests, rounds)
            legacy = await compared((one, group), True, requests, rounds)
    publish("hubs", page(modern, legacy), write=write)


async def compared(sides: tuple[Side, ...], legacy: bool, requests: int, rounds: int) -> Medians:
    """Measure the sides in turn, and return the median of each."""
    found: dict[str, list[Cost]] = {each.name: [] for each in sides}
    for number in range(rounds + 1):
        for each in sides:
            spent = await measured(each, legacy, requests)
            if number:  # the first one warms up
                found[each.name].append(spent)
    return {
        name: Cost(
            statistics.median(each.cpu for each in costs), statistics.median(each.rate for each in costs)
        )
        for name, costs in found.items()
    }


def page(modern: Medians, legacy: Medians) -> list[str]:
    """Return the section of the performance page."""
    rows = [
        (f"{what}, {name}", f"{cost.cpu:.0f}", f"{cost.cpu / medians[ONE].cpu:.2f}", f"{cost.rate:.0f}")
        for what, medians in (("no session (2026-07-28)", modern), ("sessions (2025-11-25)", legacy))
        for name, cost in medians.items()
    ]
    return [
        "## A group of hubs",
        machine("python -m benchmarks.hubs"),
        "CPU time of the hubs for a call through a load balancer that sends each request to the next hub, "
        f"with {CLIENTS} clients for each hub. In sessions, half of the requests with two hubs come to the "
        "one that passes them on. Clients and balancer run on the same cores.",
        table(("", "µs of CPU for a request", "as a multiple", "requests a second here"), rows),
        goals(
            [
                _goal("no session: a group of two against one hub", modern[GROUP], modern[ONE]),
                _goal("no session: a group of two against two hubs apart", modern[GROUP], modern[APART]),
                _goal("sessions: a group of two against one hub", legacy[GROUP], legacy[ONE]),
            ]
        ),
    ]


def _goal(what: str, group: Cost, other: Cost) -> Goal:
    return Goal(what, group.cpu / other.cpu, 1.15, " ×", 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.hubs")
    parser.add_argument("--requests", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.requests, options.rounds, write=options.write)))
