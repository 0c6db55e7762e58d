"""Time and CPU from nothing to the first answer, and to the first result of a tool."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from benchmarks.gateway.client import Json
from benchmarks.gateway.home import GatewayHub, Running, all_kinds
from benchmarks.gateway.processes import family, own_cpu
from benchmarks.gateway.ways import (
    BRIDGE,
    DIRECT,
    PLAIN,
    STANDALONE,
    THROUGH,
    daemon,
    directly,
    standalone,
)

NEW = "standalone, new home"
LIBRARIES = "asyncio, msgspec, sqlite3"
"""Modules whose import is the yardstick for the CPU to the first answer: it takes less than any hub."""

Open = Callable[[], Awaitable[Running]]


@dataclass(frozen=True)
class Start:
    """Milliseconds and CPU seconds from before the process is started.

    CPU is that of the client's process, of its keeper, and of the hub where that is another process.
    """

    answer_ms: float
    answer_cpu: float
    result_ms: float
    result_cpu: float


async def starts(folder: Path, rounds: int) -> dict[str, Start]:
    """The medians by way, which take turns. Every home but that of :data:`NEW` has been used before."""
    used = GatewayHub(folder / "used", all_kinds())
    found: dict[str, list[Start]] = {}
    async with daemon(folder / "daemon") as (home, hub):
        for number in range(rounds + 1):
            new = GatewayHub(folder / f"new-{number}", all_kinds())
            turns: dict[str, tuple[Open, Json, int | None]] = {
                DIRECT: (directly, PLAIN, None),
                STANDALONE: (lambda: standalone(used), THROUGH, None),
                NEW: (lambda new=new: standalone(new), THROUGH, None),  # type: ignore[misc]
                BRIDGE: (lambda: _bridge(home, hub), THROUGH, hub),
            }
            for way, turn in turns.items():
                found.setdefault(way, []).append(await _start(*turn))
    # The first round starts servers and fills caches.
    return {way: _medians(several[1:]) for way, several in found.items()}


async def standalone_start(home: GatewayHub) -> Start:
    """Return one start of a hub in the process of its client."""
    return await _start(lambda: standalone(home), THROUGH, None)


async def _bridge(home: GatewayHub, hub: int) -> Running:
    return Running(await home.client(), "bridge", hub)


async def _start(open_one: Open, params: Json, hub: int | None) -> Start:
    before = own_cpu(family(hub, "hub")) if hub else 0.0
    running = await open_one()
    began = running.client.began
    try:
        await running.client.initialize()
        answer_ms, answer_cpu = (time.perf_counter() - began) * 1e3, own_cpu(running.processes)
        await running.client.call(params)
        result_ms, result_cpu = (time.perf_counter() - began) * 1e3, own_cpu(running.processes)
    finally:
        await running.client.close()
    return Start(answer_ms, answer_cpu - before, result_ms, result_cpu - before)


async def libraries_cpu(rounds: int) -> float:
    """Return the median CPU seconds of a process that only imports what any hub in Python needs."""
    return median([await asyncio.to_thread(_imported) for _ in range(rounds + 1)][1:])


def _imported() -> float:
    command = [sys.executable, "-c", f"import {LIBRARIES}"]
    process = os.posix_spawn(sys.executable, command, os.environ)
    _, status, used = os.wait4(process, 0)
    assert not status, command
    return used.ru_utime + used.ru_stime


def _medians(several: list[Start]) -> Start:
    return Start(*(median(values) for values in zip(*map(astuple, several), strict=True)))
