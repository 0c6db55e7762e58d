"""A hub that starts children and waits to be killed, for tests of what remains of it.

    [sys.executable, HUB, COUNT, ARGUMENT …]

Starts ``child.py ARGUMENT …`` COUNT times through Processes, lets each answer a ping, prints a line of
JSON {"keeper": pid, "children": [pid …]}, and lives on.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tabane.upstreams.processes.processes import ChildProcesses  # noqa: E402
from tests.harness.child_processes import CHILD, answering  # noqa: E402


async def main(count: int, arguments: list[str]) -> None:
    processes = ChildProcesses()
    command = [sys.executable, CHILD, *arguments]
    children = [await processes.spawn(command, {}) for _ in range(count)]
    for child in children:
        await answering(child)
    print(json.dumps({"keeper": processes.keeper_pid, "children": [c.pid for c in children]}), flush=True)
    await asyncio.Event().wait()


asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
