"""What a change of one server costs the calls to 49 others: their p99 with it against theirs without.

Run by itself: ``python -m benchmarks.gateway.reloading``.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from benchmarks.gateway.client import Client
from benchmarks.gateway.home import GatewayHub, upstream
from benchmarks.gateway.wares import KINDS
from benchmarks.gateway.ways import ARGUMENTS, PLAIN

SERVERS = 50
ROUNDS = 10
SECONDS = 4.0
"""Of calls in a phase; a change is looked for each second, and the server it is of starts meanwhile."""


async def main() -> None:
    with TemporaryDirectory() as folder:
        home = GatewayHub(
            Path(folder) / "many", {f"s{n:02}": upstream(next(iter(KINDS))) for n in range(SERVERS)}
        )
        client = await home.client("--standalone")
        await client.initialize()
        names = [f"s{n:02}__{PLAIN['name']}" for n in range(SERVERS)]
        for name in names:
            await _call(client, name)
        quiet, changed = [], []
        for number in range(ROUNDS):
            quiet.append(await _phase(client, names[1:]))
            _change(home, number)
            changed.append(await _phase(client, names[1:]))
        ratios = [after / before for before, after in zip(quiet, changed, strict=True)]
        print(f"{SERVERS} servers, {ROUNDS} rounds of {SECONDS:g} s each; p99 of calls to the others:")
        print(f"  no change {median(quiet) * 1e3:.3f} ms, one server changed {median(changed) * 1e3:.3f} ms")
        print(f"  ratio {median(ratios):.2f} (median of the rounds; {min(ratios):.2f} to {max(ratios):.2f})")
        await client.close()


async def _phase(client: Client, names: list[str]) -> float:
    """The p99, in seconds, of calls that go to the servers in turn."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for name in names:
            begun = time.perf_counter()
            await _call(client, name)
            times.append(time.perf_counter() - begun)
    return quantiles(times, n=100)[98]


async def _call(client: Client, name: str) -> None:
    await client.call({"name": "call_tool", "arguments": {"name": name, "arguments": ARGUMENTS}})


def _change(home: GatewayHub, number: int) -> None:
    file = Path(home.environment["TABANE_SERVERS"])
    configured = json.loads(file.read_text())
    configured["mcpServers"]["s00"]["env"] = {"CHANGE": str(number)}
    file.write_text(json.dumps(configured))


if __name__ == "__main__":
    asyncio.run(main())
