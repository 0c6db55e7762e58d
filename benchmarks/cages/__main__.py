"""Measure what a cage adds to the start of a server: with each mechanism, and without, in turns.

A start is measured from the request until the program, ``cat``, has returned the first line. ``--write`` puts
the table into the performance page.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import machine, publish
from benchmarks.report import table as report_table

from tabane.guard.cages.cage import CageMechanisms, find_mechanisms
from tabane.guard.cages.cages import CagedStart, Cages
from tabane.hub.servers.configuration import PROXY
from tabane.servers.server import Server
from tabane.servers.server_keys import SandboxProfile, sandbox
from tabane.upstreams.processes.processes import ChildProcesses

ENV = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
GOAL = 30.0
"""Milliseconds that a cage may add."""


def ways(home: Path) -> dict[str, tuple[Cages, SandboxProfile] | None]:
    """Return what is compared: a name, and the cage; None for no cage."""
    found = find_mechanisms(os.environ)
    alone = replace(found, bubblewrap="")
    both = {"bubblewrap and seccomp": found, "Landlock and seccomp": alone}
    profiles = {"": _profile("files"), ", limited to hosts": _profile({"network": ["example.com"]})}
    caged = {
        f"{name}{more}": (Cages(home, [], ENV, PROXY, mechanisms), profile)
        for name, mechanisms in both.items()
        for more, profile in profiles.items()
        if _usable(mechanisms, name)
    }
    return {"no cage": None, **caged}


def _usable(mechanisms: CageMechanisms, name: str) -> bool:
    return bool(mechanisms.bubblewrap) if name.startswith("bubblewrap") else mechanisms.landlock >= 3


def _profile(value: Any) -> SandboxProfile:
    profile = sandbox(value)
    assert profile is not None
    return profile


async def start(processes: ChildProcesses, way: tuple[Cages, SandboxProfile] | None) -> float:
    """Return the milliseconds of one start."""
    began = time.perf_counter()
    built = None if way is None else await asyncio.to_thread(_built, *way)
    argv, env, orders = _command(built)
    child = await processes.spawn(argv, env, None, orders)
    os.write(child.stdin_fd, b"x\n")
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(child.stdout_fd, ready.set)
    await ready.wait()
    took = (time.perf_counter() - began) * 1e3
    loop.remove_reader(child.stdout_fd)
    assert os.read(child.stdout_fd, 10) == b"x\n"
    os.close(child.stdin_fd)
    await child.gone
    os.close(child.stdout_fd)
    os.close(child.stderr_fd)
    if way is not None and built is not None:
        way[0].remove(built.groups)
    return took


def _built(cages: Cages, profile: SandboxProfile) -> CagedStart:
    server = cages.dressed(Server(name="cat", command="/bin/cat", sandbox=profile))
    return cages.build(server, profile, {**ENV, **server.env})


def _command(built: CagedStart | None) -> tuple[tuple[str, ...], Mapping[str, str], Mapping[str, Any] | None]:
    return (("/bin/cat",), ENV, None) if built is None else (built.argv, built.env, built.orders)


async def measure(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each start, by way; one of each in turn."""
    with tempfile.TemporaryDirectory(prefix="tabane-cages-") as folder:
        processes, compared = ChildProcesses(), ways(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in compared}
        try:
            for way in compared.values():
                await start(processes, way)
            for _ in range(rounds):
                for name, way in compared.items():
                    times[name].append(await start(processes, way))
        finally:
            await processes.close()
        return times


def table(times: dict[str, list[float]]) -> str:
    rows = []
    plain = times["no cage"]
    for name, taken in times.items():
        added = statistics.median(each - other for each, other in zip(taken, plain, strict=True))
        more = "" if name == "no cage" else f"{added:.1f}"
        rows.append((name, f"{min(taken):.1f}", f"{statistics.median(taken):.1f}", more))
    return report_table(("start, ms", "least", "median", "added (median of pairs)"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    times = asyncio.run(measure(given.rounds))
    about = (
        f"{machine('python -m benchmarks.cages')} Starts in turns, {given.rounds} of each. "
        f"A cage may add {GOAL:.0f} ms. With a list of hosts, the proxy starts beside the server, "
        "which does not wait for it."
    )
    publish("cages", ["## Sandboxes", about, table(times)], write=given.write)


if __name__ == "__main__":
    main()
