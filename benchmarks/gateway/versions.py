"""Compare two checkouts of Tabane in one run: python -m benchmarks.gateway.versions CHECKOUT [--write]

Hubs of the other checkout and of this one run at the same time and are called in turns, so that both meet the
same load of the machine. Each checkout has its own environment in ``.venv`` (make env).
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.gateway.calling import _one_by_one, side_by_side
from benchmarks.gateway.client import Client
from benchmarks.gateway.home import GatewayHub, Running, all_kinds
from benchmarks.gateway.processes import own_cpu
from benchmarks.gateway.ways import BY_NAME, THROUGH
from benchmarks.report import machine, publish, table

COMMAND = "python -m benchmarks.gateway.versions"
HERE = Path(__file__).parents[2]
CALLS = ((1, 150), (16, 800), (64, 800))
"""Calls at the same time, and calls of a round."""

KINDS = ("standalone", "bridge and hub")
NAMES = {"by its name": BY_NAME, "call_tool": THROUGH}


class Round(NamedTuple):
    """Figures of one round of calls: calls a second, and CPU of the hub's processes for one in µs."""

    rate: float
    cpu: float


class CheckoutHub(GatewayHub):
    """A hub of a checkout. ``audit`` is that setting."""

    def __init__(self, folder: Path, checkout: Path, audit: str) -> None:
        super().__init__(folder, all_kinds())
        self._python = str(checkout / ".venv" / "bin" / "python")
        self.environment["TABANE_AUDIT"] = audit

    def tabane(self, *arguments: str) -> str:
        command = [self._python, "-m", "tabane", *arguments]
        return subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    async def client(self, *flags: str) -> Client:
        return await Client.start([self._python, "-m", "tabane", "mcp", *flags], self.environment)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout, with its environment")
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of calls, in turns (9)")
    given = parser.parse_args(arguments)
    other = given.checkout.resolve()
    version = _version(other)
    rows = asyncio.run(_compared(other, given.rounds))
    publish(
        "versions",
        [
            f"## Before and after: {version} and {_version(HERE)}",
            machine(f"{COMMAND} CHECKOUT"),
            table(["", "CPU before", "CPU now", "calls/s", "without audit: CPU", "calls/s"], rows),
            f"Hubs of {version} and of this version run at the same time and are called in turns, for "
            f"{given.rounds} rounds. CPU is that of hub, bridge and keeper for one call, the median of the "
            "rounds. calls/s is the median of the ratios to the earlier version in the same round.",
        ],
        write=given.write,
    )


def _version(checkout: Path) -> str:
    python = str(checkout / ".venv" / "bin" / "python")
    code = "import tabane; print(tabane.__version__)"
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


async def _compared(other: Path, rounds: int) -> list[list[str]]:
    checkouts = {"before": (other, "on"), "now": (HERE, "on"), "off": (HERE, "off")}
    with tempfile.TemporaryDirectory(prefix="versions") as folder:
        ways: dict[tuple[str, str], Running] = {}
        hubs = []
        for name, (checkout, audit) in checkouts.items():
            homes = [Path(folder) / f"{name}-{number}" for number in range(2)]
            alone, hub = (CheckoutHub(home, checkout, audit) for home in homes)
            await asyncio.to_thread(hub.start)
            hubs.append(hub)
            ways[name, KINDS[0]] = Running(await alone.client("--standalone"), "hub")
            ways[name, KINDS[1]] = Running(await hub.client(), "bridge", hub.pid)
        for way in ways.values():
            await way.client.initialize()
            await _one_by_one(way.client, BY_NAME, 100)
            await _one_by_one(way.client, THROUGH, 50)
        found = await _rounds(ways, list(checkouts), rounds)
        for way in ways.values():
            await way.client.close()
        for hub in hubs:
            await asyncio.to_thread(hub.stop)
    return [_row(key, found) for key in dict.fromkeys(key[:3] for key in found)]


async def _rounds(
    ways: dict[tuple[str, str], Running], order: list[str], rounds: int
) -> dict[tuple[str, str, int, str], list[Round]]:
    found: dict[tuple[str, str, int, str], list[Round]] = {}
    for number in range(rounds):
        for kind in KINDS:
            for called in NAMES:
                for width, count in CALLS:
                    for name in order if number % 2 else order[::-1]:
                        taken = await _round(ways[name, kind], called, width, count)
                        found.setdefault((kind, called, width, name), []).append(taken)
    return found


async def _round(way: Running, called: str, width: int, count: int) -> Round:
    cpu, began = own_cpu(way.processes), time.perf_counter()
    if width == 1:
        await _one_by_one(way.client, NAMES[called], count)
    else:
        await side_by_side(way.client, NAMES[called], width, count)
    seconds = time.perf_counter() - began
    return Round(count / seconds, (own_cpu(way.processes) - cpu) / count * 1e6)


def _row(key: tuple[str, str, int], found: dict[tuple[str, str, int, str], list[Round]]) -> list[str]:
    kind, called, width = key
    rounds = {name: found[kind, called, width, name] for name in ("before", "now", "off")}
    cpu = {name: f"{median(each.cpu for each in taken):.0f} µs" for name, taken in rounds.items()}
    ratio = {
        name: f"{median(a.rate / b.rate for a, b in zip(taken, rounds['before'], strict=True)):.2f} ×"
        for name, taken in rounds.items()
    }
    return [
        f"{kind}, {called}, {width} at once",
        *(cpu["before"], cpu["now"], ratio["now"], cpu["off"], ratio["off"]),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
