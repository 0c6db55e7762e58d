"""Time of questions, and memory of parked calls: python -m benchmarks.questions [--calls 400] [--write]

Client → bridge → hub → pipe → a server of the standard library, which asks one question in each call. The
client answers at once. Servers and clients of both eras take turns in each round. A parked call waits in the
hub for the answer of a client of 2026-07-28 to a server of the handshake era.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from benchmarks.hub import HubProcess
from benchmarks.questions.asker import VERSIONS
from benchmarks.questions.client import ANSWER, CAPABILITIES, AnsweringClient
from benchmarks.report import Goal, goals, machine, publish, table
from tests.conftest import ROOT
from tests.harness.running_hub import Json, SocketClient, running_hub

ERAS = tuple(VERSIONS)
ROUNDS = 5
WARM = 16
"""Calls that are parked before memory is measured."""
PARKED = 240
"""Calls that are parked then: a hub parks at most 256."""
GOAL = 2.0
"""KB of a parked call."""
ASKING = {
    "name": "legacy__ask",
    "arguments": {"text": "hi"},
    "_meta": {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES},
}
"""Parameters of a call that is parked."""


def servers() -> dict[str, Any]:
    command = ["-m", "benchmarks.questions.asker"]
    return {
        era: {
            "command": sys.executable,
            "args": [*command, era],
            "cwd": str(ROOT),
            "share": "hub",
        }
        for era in ERAS
    }


@dataclass
class Pair:
    """A client and a server of these eras: seconds of a call without and with a question, by round."""

    client: str
    server: str
    plain: list[float] = field(default_factory=list)
    asking: list[float] = field(default_factory=list)

    @property
    def question(self) -> float:
        """Seconds that a question adds to a call."""
        return statistics.median(a - b for a, b in zip(self.asking, self.plain, strict=True))

    def row(self, pairs: Mapping[tuple[str, str], Pair]) -> tuple[str, ...]:
        figures = (statistics.median(self.plain), statistics.median(self.asking), self.question)
        written = (f"{1e6 * each:,.0f}" for each in figures)
        return VERSIONS[self.client], VERSIONS[self.server], *written, f"{self.ratio(pairs):.2f} ×"

    def ratio(self, pairs: Mapping[tuple[str, str], Pair]) -> float:
        """Return how many times a call takes that a client makes of a server of its own era."""
        same = pairs[self.client, self.client].asking
        return statistics.median(a / b for a, b in zip(self.asking, same, strict=True))


async def times(hub: HubProcess, calls: int) -> dict[tuple[str, str], Pair]:
    clients = {era: await AnsweringClient.connect(hub.environment, era) for era in ERAS}
    pairs = {(client, server): Pair(client, server) for client in ERAS for server in ERAS}
    try:
        for number in range(ROUNDS + 1):
            for pair in pairs.values():
                client = clients[pair.client]
                plain = await each(client, f"{pair.server}__echo", calls)
                asking = await each(client, f"{pair.server}__ask", calls)
                if number:  # the first round only warms up
                    pair.plain.append(plain)
                    pair.asking.append(asking)
    finally:
        for client in clients.values():
            await client.close()
    return pairs


async def each(client: AnsweringClient, name: str, calls: int) -> float:
    """Return the seconds of one call."""
    begun = time.perf_counter()
    for _ in range(calls):
        await client.call(name)
    return (time.perf_counter() - begun) / calls


async def resident(hub: HubProcess) -> float:
    """Return the bytes of resident memory that a parked call adds to a hub."""
    client = await AnsweringClient.connect(hub.environment, "modern")
    process = psutil.Process(hub.pid)
    try:
        await client.park("legacy__ask", WARM)
        before = process.memory_info().rss
        await client.park("legacy__ask", PARKED)
        after = process.memory_info().rss
    finally:
        await client.close()
    return (after - before) / PARKED


async def allocated() -> float:
    """Return the bytes that a parked call keeps allocated in a hub in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        async with running_hub(Path(folder), servers()) as here:
            line = await here.connect("2026-07-28", mode="full")
            parked = await park(line, WARM)
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            parked_then = await park(line, PARKED)
            known = size(parked_then)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            for result in parked + parked_then:
                answers = dict.fromkeys(result["inputRequests"], ANSWER)
                state = {"inputResponses": answers, "requestState": result["requestState"]}
                await line.result("tools/call", {**ASKING, **state})
            return (after - before - known) / PARKED


async def park(line: SocketClient, count: int) -> list[Json]:
    """Make so many calls that ask, and answer none of them. Return what each returned."""
    found = [await line.result("tools/call", ASKING) for _ in range(count)]
    assert all(result["resultType"] == "input_required" for result in found), found
    return found


def size(value: Any) -> int:
    """Return the bytes of a value of JSON, with what is in it."""
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(size(key) + size(part) for key, part in value.items())
    if isinstance(value, list):
        return sys.getsizeof(value) + sum(map(size, value))
    return sys.getsizeof(value)


def measured(calls: int) -> tuple[dict[tuple[str, str], Pair], float]:
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "hub", TABANE_START_SERVERS="at_start")
        hub.configure(servers())
        hub.start()
        try:
            memory = asyncio.run(resident(hub))
            return asyncio.run(times(hub, calls)), memory
        finally:
            hub.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=400)
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    pairs, memory = measured(given.calls)
    kept = asyncio.run(allocated())
    crossing = [pair for pair in pairs.values() if pair.client != pair.server]
    page = [
        "## Questions of servers",
        machine("python -m benchmarks.questions"),
        goals(
            [
                Goal("a parked call, resident memory, KB", memory / 1000, GOAL, "", 2, limit_digits=0),
                Goal("a parked call, allocated, KB", kept / 1000, GOAL, "", 2, limit_digits=0),
            ]
        ),
        "One call after the other, over a bridge. The server asks one question, which the client answers at "
        "once. The ratio is to a server of the client's era. Medians of "
        f"{ROUNDS} rounds.",
        table(
            ("client", "server", "call, µs", "call that asks, µs", "its question, µs", "ratio"),
            (pair.row(pairs) for pair in pairs.values()),
        ),
        "The slowest pair of two eras takes "
        f"{max(pair.ratio(pairs) for pair in crossing):.2f} times as long as one era.",
    ]
    publish("questions", page, write=given.write)


if __name__ == "__main__":
    main()
