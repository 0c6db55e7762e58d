"""Measure what a standalone hub costs before it is of use. ``python -m benchmarks.starts.first_answer``.

The CPU time to its first answer and to the first result of a tool is compared, in turns, with that of a bare
Python that imports asyncio, msgspec and sqlite3: no hub in Python can need less. The hub's time includes that
of its keeper. Then come the memory of a hub with four servers after a thousand calls, and the number of
modules that it had imported at its first answer.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.gateway.home import GatewayHub, all_kinds
from benchmarks.gateway.processes import own_cpu
from benchmarks.gateway.starting import Start, standalone_start
from benchmarks.gateway.weighing import Weight, weight_standalone
from tests.harness.forwarding_hub import imported_modules

BARE = "import asyncio, msgspec, sqlite3"
"""What a hub in Python cannot do without."""


def bare_cpu() -> float:
    """Return the seconds of CPU of a Python that imports :data:`BARE`, until it has printed a line."""
    program = f"{BARE}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = own_cpu({process.pid: "bare"})
        process.communicate(b"\n")
    return used


async def turns(folder: Path, rounds: int) -> tuple[list[float], list[Start]]:
    """Return the CPU of the bare Python and the starts of a hub whose home has been used before."""
    home = GatewayHub(folder, all_kinds())
    await standalone_start(home)  # fills the catalog, and compiles what is imported
    bare, starts = [], []
    for _ in range(rounds):
        bare.append(await asyncio.to_thread(bare_cpu))
        starts.append(await standalone_start(home))
    return bare, starts


def report(bare: Sequence[float], starts: Sequence[Start], weight: Weight, modules: int) -> None:
    """Print the medians, and the ratio to the bare Python."""
    least = median(bare)
    print(f"{BARE}: {least * 1e3:.0f} ms of CPU")
    for name, several in (
        ("first answer", [start.answer_cpu for start in starts]),
        ("first result", [start.result_cpu for start in starts]),
    ):
        used = median(several)
        print(f"standalone, {name}: {used * 1e3:.0f} ms of CPU, {used / least:.2f} × as much")
    print(f"modules of Tabane imported at the first answer: {modules}")
    parts = ", ".join(f"{part} {mb:.1f}" for part, mb in weight.busy.items() if part != "upstream")
    print(f"memory with four servers after a thousand calls, MB: {parts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tabane-") as folder:
        bare, starts = asyncio.run(turns(Path(folder) / "starts", options.rounds))
        weight = asyncio.run(weight_standalone(Path(folder)))
        modules = imported_modules(Path(folder) / "modules")
    report(bare, starts, weight, sum(name.split(".")[0] == "tabane" for name in modules))


if __name__ == "__main__":
    main()
