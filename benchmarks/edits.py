"""Calls right after a command that changes a file of the hub: python -m benchmarks.edits [--write]

An assistant calls a tool as soon as the command has ended: after disable, enable, override, sandbox, add,
remove, import, secrets set, projects trust and forget. A call that meets the old state is counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.report import Goal, goals, machine, publish
from benchmarks.sections.blocks import Block
from tests.harness.edits import EditedHub, edited_hub
from tests.harness.home import Home

CALLS = 200


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, edited_hub(Home(Path(folder))) as edited:
        started = time.perf_counter()
        measure(edited)
        seconds = (time.perf_counter() - started) / edited.calls
    old = Counter(edited.stale)
    parts: list[Block | str] = [
        "## Calls after an edit",
        machine("python -m benchmarks.edits"),
        goals([Goal(f"calls of {edited.calls} that met the state before the edit", len(edited.stale), 0)]),
        f"A command with its call takes {seconds * 1000:,.0f} ms.",
        *(f"- {what}: {count}" for what, count in old.items()),
    ]
    publish("edits", parts, write="--write" in sys.argv)


def measure(edited: EditedHub) -> None:
    while edited.calls < CALLS:
        edited.round()


if __name__ == "__main__":
    main()
