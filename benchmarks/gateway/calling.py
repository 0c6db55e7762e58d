"""What a call costs by each way: milliseconds one after the other, calls a second side by side, CPU."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median, quantiles

from benchmarks.gateway.client import PATIENCE, Client, Failed, Json
from benchmarks.gateway.home import Running
from benchmarks.gateway.other_gateways import OtherGateway
from benchmarks.gateway.processes import on_one_core, own_cpu
from benchmarks.gateway.ways import BRIDGE, BY_NAME, DIRECT, EXPECTED, PLAIN, STANDALONE, THROUGH

WIDTHS = (16, 64)
"""How many calls are under way at the same time."""

WARM = 50


@dataclass
class Calls:
    """What one way gave, round by round: milliseconds of each call, and calls a second by width.

    ``cpu`` is by width (1 is one after the other) the milliseconds of CPU that a call costs the
    processes that are no upstream's. It is called ``fewer`` times less often than the others.
    """

    way: str
    kind: str
    running: Running
    params: Json
    fewer: int = 1
    ms: list[list[float]] = field(default_factory=list)
    rates: dict[int, list[float]] = field(default_factory=lambda: {width: [] for width in (1, *WIDTHS)})
    cpu: dict[int, list[float]] = field(default_factory=lambda: {width: [] for width in (1, *WIDTHS)})

    @property
    def p50(self) -> float:
        return median(one for calls in self.ms for one in calls)

    @property
    def p95(self) -> float:
        return quantiles((one for calls in self.ms for one in calls), n=20)[-1]

    def slower(self, other: Calls) -> float:
        """How many times the p50 of the other this one's is: the median over the rounds."""
        return median(median(own) / median(its) for own, its in zip(self.ms, other.ms, strict=True))

    def rate(self, width: int) -> float:
        return median(self.rates[width])

    def share(self, width: int, other: Calls) -> float:
        """What part of the other's calls a second this one does: the median over the rounds."""
        rounds = zip(self.rates[width], other.rates[width], strict=True)
        return median(own / its for own, its in rounds)

    def cpu_ms(self, width: int) -> float:
        return mean(self.cpu[width])


async def calls(
    ways: dict[str, Running],
    rounds: int,
    count: int,
    widths: Sequence[int] = WIDTHS,
    others: Sequence[tuple[OtherGateway, Running]] = (),
) -> list[Calls]:
    """All ways in turns, round by round, so that what else the machine does falls on each alike.

    Other gateways come after ours.
    """
    taken = [
        Calls(DIRECT, "its own name", ways[DIRECT], PLAIN),
        Calls(STANDALONE, "call_tool", ways[STANDALONE], THROUGH),
        Calls(STANDALONE, "its own name", ways[STANDALONE], BY_NAME),
        Calls(BRIDGE, "call_tool", ways[BRIDGE], THROUGH),
        Calls(BRIDGE, "its own name", ways[BRIDGE], BY_NAME),
        *(Calls(other.name, "", running, other.params, other.fewer) for other, running in others),
    ]
    await in_turns(taken, rounds, count, widths)
    return taken


async def in_turns(taken: Sequence[Calls], rounds: int, count: int, widths: Sequence[int] = WIDTHS) -> None:
    """Measure several ways round by round; each is the first of a round in turn."""
    for one in taken:
        await _one_by_one(one.running.client, one.params, WARM // one.fewer)
    for number in range(rounds):
        first = number % len(taken)
        for one in (*taken[first:], *taken[:first]):
            async with asyncio.timeout(PATIENCE):
                await _round(one, count, widths)


async def calls_on_one_core(ways: dict[str, Running], rounds: int, count: int) -> list[Calls]:
    """Calls one after the other with client, hub and upstreams on the same core; none where that cannot be.

    Left to itself the scheduler puts two processes that talk now on one core, now on two, which takes
    twice the time; so ratios of one run differ from those of the next. Here nothing is left to it.
    """
    everyone = [os.getpid(), *(pid for running in ways.values() for pid in running.processes)]
    try:
        with on_one_core(everyone):
            return await calls(ways, rounds, count, ())
    except NotImplementedError:
        return []


async def _round(one: Calls, count: int, widths: Sequence[int]) -> None:
    client, params, count = one.running.client, one.params, max(count // one.fewer, 1)
    own = one.running.processes
    began, cpu = time.perf_counter(), own_cpu(own)
    one.ms.append(await _one_by_one(client, params, count))
    _note(one, 1, count, time.perf_counter() - began, own_cpu(own) - cpu)
    for width in widths:
        began, cpu = time.perf_counter(), own_cpu(own)
        await side_by_side(client, params, width, count * 5)
        _note(one, width, count * 5, time.perf_counter() - began, own_cpu(own) - cpu)


def _note(one: Calls, width: int, count: int, seconds: float, cpu: float) -> None:
    one.rates[width].append(count / seconds)
    one.cpu[width].append(cpu / count * 1e3)


async def _one_by_one(client: Client, params: Json, count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        text = await client.call(params)
        found.append((time.perf_counter() - began) * 1e3)
        _check(text)
    return found


async def side_by_side(client: Client, params: Json, width: int, count: int) -> None:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            _check(await client.call(params))

    await asyncio.gather(*(worker() for _ in range(width)))


def _check(text: str) -> None:
    if EXPECTED not in text:
        raise Failed(f"not what was asked for: {text}")
