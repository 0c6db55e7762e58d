"""Calls through a hub beside bare forwarders, which do the least that a gateway in Python has to do.

python -m benchmarks.gateway.yardsticks --rounds 6 --calls 200
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateway.calling import Calls, in_turns
from benchmarks.gateway.client import Client
from benchmarks.gateway.home import Running, upstream
from benchmarks.gateway.ways import BRIDGE, BY_NAME, DIRECT, PLAIN, STANDALONE, THROUGH, three_ways

FORWARDER = str(Path(__file__).parent / "forwarder.py")
LOOPS = ("asyncio", "epoll")
WIDTH = 16


async def forwarder(loop: str) -> Running:
    """Return a client behind a bare forwarder before one synthetic server."""
    command = [sys.executable, FORWARDER, loop, *upstream("files")]
    running = Running(await Client.start(command, {}), "hub")
    await running.client.initialize()
    return running


async def compared(folder: Path, rounds: int, count: int) -> list[Calls]:
    """Measure all ways in turns: directly, through each forwarder, and through the hub."""
    async with three_ways(folder) as ways:
        bare = {loop: await forwarder(loop) for loop in LOOPS}
        try:
            taken = [
                Calls(DIRECT, "its own name", ways[DIRECT], PLAIN),
                *(Calls(f"bare forwarder, {loop}", "its own name", bare[loop], BY_NAME) for loop in LOOPS),
                *(
                    Calls(way, kind, ways[way], params)
                    for way in (STANDALONE, BRIDGE)
                    for kind, params in (("its own name", BY_NAME), ("call_tool", THROUGH))
                ),
            ]
            await in_turns(taken, rounds, count, (WIDTH,))
        finally:
            for each in bare.values():
                await each.client.close()
    return taken


def table(taken: Sequence[Calls]) -> str:
    """Return the figures as a table of Markdown."""
    direct = taken[0]
    lines = [
        f"| | p50 | × direct | CPU a call | {WIDTH} at once | CPU a call |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {one.way}, {one.kind} | {one.p50 * 1e3:.0f} µs | {one.slower(direct):.2f} "
        f"| {one.cpu_ms(1) * 1e3:.0f} µs | {one.rate(WIDTH):,.0f}/s | {one.cpu_ms(WIDTH) * 1e3:.0f} µs |"
        for one in taken
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.yardsticks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="rounds of calls, in turns (6)")
    parser.add_argument("--calls", type=int, default=200, help="calls one after the other in a round (200)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
        print(table(asyncio.run(compared(Path(folder), options.rounds, options.calls))))


if __name__ == "__main__":
    main(sys.argv[1:])
