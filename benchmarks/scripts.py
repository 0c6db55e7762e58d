"""Costs of a script: python -m benchmarks.scripts [--write]

A hub in this process and one server over stdio. A script is run with a sandbox that has run others before.
The same call is made in a script and without one, through the same door.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from benchmarks.report import Goal, goals, machine, publish
from tests.harness.running_hub import RunningHub, child, running_hub

from tabane.code.table import RUN
from tabane.operations import Caller, Face

COMMAND = "python -m benchmarks.scripts"
LOCAL = Caller("local", Face.RPC, "program")
ROUNDS = 40
CALLS = 100
"""Calls of one round."""

MIB = 1 << 20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder) / "hub"))
    page = [
        "## Scripts",
        machine(COMMAND),
        goals(
            [
                Goal("start of a script, warm", found["start"], 1, " ms", digits=2),
                Goal("a call in a script above the same call without one", found["above"], 100, " µs"),
                Goal("memory of both processes of a script (PSS)", found["memory"], 40, " MiB", digits=1),
            ]
        ),
        f"A call without a script takes {found['direct']:.0f} µs. Figures are medians of {ROUNDS} rounds of "
        f"{CALLS} calls. No worker runs before the first script.",
    ]
    publish("scripts", page, write="--write" in sys.argv)


async def measured(folder: Path) -> dict[str, float]:
    async with running_hub(folder, {"up": child()}, script_calls=CALLS) as here:
        assert workers() == []
        await script(here, "from tools import up\nawait up.echo(n=1)")
        starts = [await script(here, "1 + 1") for _ in range(ROUNDS)]
        direct, inner = [], []
        for _ in range(ROUNDS):
            direct.append(await calls(here) / CALLS)
            code = f"from tools import up\nfor n in range({CALLS}):\n    await up.echo(n=n)"
            inner.append((await script(here, code) - statistics.median(starts)) / CALLS)
        alone = statistics.median(direct)
        return {
            "start": statistics.median(starts) * 1e3,
            "direct": alone * 1e6,
            "above": (statistics.median(inner) - alone) * 1e6,
            "memory": sum(worker.memory_full_info().pss for worker in workers()) / MIB,
        }


async def script(here: RunningHub, code: str) -> float:
    """Run a script. Return the seconds."""
    body, started = json.dumps({"code": code}).encode(), time.perf_counter()
    report = await here.hub.door.invoke(LOCAL, RUN, body)
    assert not report.error, report.error
    return time.perf_counter() - started


async def calls(here: RunningHub) -> float:
    """Make calls one after another, as the script does. Return the seconds."""
    bodies = [json.dumps({"name": "up__echo", "arguments": {"n": n}}).encode() for n in range(CALLS)]
    started = time.perf_counter()
    for body in bodies:
        await here.hub.door.invoke(LOCAL, "call_tool", body)
    return time.perf_counter() - started


def workers() -> list[psutil.Process]:
    """Return the processes of the sandbox: the interpreter, and the one that works with it."""
    found = [each for each in psutil.Process().children() if "tabane.code.script_host" in each.cmdline()]
    return [*found, *(child for each in found for child in each.children())]


if __name__ == "__main__":
    main()
