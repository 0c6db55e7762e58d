"""Calls of others while one key floods the hub: python -m benchmarks.access.fairness [--rounds 5]

The local user and a second key call a server that answers at once, over HTTP and over stdio. Meanwhile a
third key ignores its limits, in each of several ways. Quiet and flood take turns in one run, and each flood
is compared with the quiet just before it. The calls that the key is allowed at once (the burst of its tier)
are a part of its first seconds, which are shown apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.access.flood import WAYS
from benchmarks.http.calls import ECHO
from benchmarks.hub import HubProcess
from benchmarks.neighbors.neighbor import Bridged, Posting, measure
from benchmarks.report import Goal, goals, machine, publish, table

SECONDS = 3.0
GOAL = 1.5
TIER = "authenticated"

SETTINGS = "[tiers.measured]\nburst = 1000000\nrate = 100000\n"
"""The key that is measured calls more often than any tier allows by default."""

CALLERS = ("local user, stdio", "local user, HTTP", "another key, HTTP")


@dataclass(frozen=True)
class Fairness:
    """One way to flood: for each caller the p99 (seconds), round by round.

    ``burst`` is of the first seconds of a flood, ``flood`` of those after them.
    """

    way: str
    quiet: dict[str, list[float]]
    burst: dict[str, list[float]]
    flood: dict[str, list[float]]

    def ratio(self, caller: str, measured: dict[str, list[float]]) -> float:
        """Return the median ratio of all rounds to the quiet before them."""
        pairs = zip(self.quiet[caller], measured[caller], strict=True)
        return statistics.median(after / before for before, after in pairs)

    def row(self, caller: str) -> tuple[str, ...]:
        times = (statistics.median(each[caller]) for each in (self.quiet, self.burst, self.flood))
        ratios = (f"{self.ratio(caller, each):.2f} ×" for each in (self.burst, self.flood))
        return WAYS[self.way][0], caller, *map(ms, times), *ratios


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def created(hub: HubProcess, name: str, tier: str) -> str:
    """Return a new key of that tier, which may call every tool."""
    answer = json.loads(hub.tabane("keys", "create", name, "--allow", "*", "--tier", tier, "--json"))
    return str(answer["secret"])


async def run(hub: HubProcess, ways: list[str], rounds: int) -> list[Fairness]:
    flooding, other = created(hub, "flood", TIER), created(hub, "other", "measured")
    callers: dict[str, Any] = {
        CALLERS[0]: await Bridged.connect(hub.environment),
        CALLERS[1]: await Posting.connect(hub.url, hub.token),
        CALLERS[2]: await Posting.connect(hub.url, other),
    }
    await p99(callers)
    found = []
    for way in ways:
        one = Fairness(way, *({name: [] for name in callers} for _ in range(3)))
        for _ in range(rounds):
            _add(one.quiet, await p99(callers))
            with flooded(way, hub.url, flooding):
                _add(one.burst, await p99(callers))
                _add(one.flood, await p99(callers))
        found.append(one)
    callers[CALLERS[0]].process.kill()
    return found


def _add(to: dict[str, list[float]], measured: dict[str, float]) -> None:
    for name, seconds in measured.items():
        to[name].append(seconds)


async def p99(callers: dict[str, Any]) -> dict[str, float]:
    """Let all of them call at the same time; the 99th percentile of each."""
    latencies = await asyncio.gather(*(measure([caller], SECONDS) for caller in callers.values()))
    return {name: latency.p99 for name, latency in zip(callers, latencies, strict=True)}


@contextmanager
def flooded(way: str, url: str, key: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.access.flood", way, url, key])
    try:
        yield
        assert process.poll() is None, "the flood has ended"
    finally:
        process.kill()
        process.wait()


def fairness(ways: list[str], rounds: int) -> list[Fairness]:
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "hub")
        child = Path(folder) / "echo.py"
        child.write_text(ECHO)
        server = {"command": sys.executable, "args": [str(child)]}
        hub.configure({"echo": server, "good": server})
        settings = Path(folder) / "hub" / "config" / "tabane" / "tabane.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        settings.chmod(0o600)
        hub.start()
        try:
            return asyncio.run(run(hub, ways, rounds))
        finally:
            hub.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--way", action="append", choices=list(WAYS))
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    found = fairness(given.way or list(WAYS), given.rounds)
    worst = max(one.ratio(caller, one.flood) for one in found for caller in CALLERS)
    rows = [one.row(caller) for one in found for caller in CALLERS]
    page = [
        "## Fairness between callers",
        machine("python -m benchmarks.access.fairness"),
        goals([Goal("p99 of others while a key floods, the worst", worst, GOAL, " ×", 2, limit_digits=1)]),
        table(
            ("flood of one key", "caller", "p99 quiet, ms", "burst, ms", "flood, ms", "burst", "flood"), rows
        ),
    ]
    publish("access", page, write=given.write)


if __name__ == "__main__":
    main()
