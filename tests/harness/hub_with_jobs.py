"""A hub with a job of the tests' own, as a process: `python working.py hand|bridge`.

`count` tells half of its way, then waits until something is written to the FIFO ``gate``: `fail` makes it
fail, anything else lets it end. `count_in_turn` does the same, one at a time. `block` holds the event loop
and never comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
from pathlib import Path

from msgspec import Struct

from tabane.errors import StoreFull
from tabane.hub.local import lock as locks
from tabane.hub.process.daemon import Daemon, LaunchOrigin, open_logs, prepare_home
from tabane.hub.process.watchdog import end_within
from tabane.messages import say
from tabane.operations import Caller, Door, Face, Operation, OperationTable, Privilege, Progress
from tabane.operations.job_turns import Turn
from tabane.settings import load_settings


class Count(Struct, frozen=True, forbid_unknown_fields=True):
    gate: str
    to: int = 200


async def count(caller: Caller, params: Count, progress: Progress) -> dict[str, int]:
    progress.tell(params.to // 2, params.to)
    if b"fail" in await through(params.gate):
        raise StoreFull(say("Nothing was found."))
    progress.tell(params.to, params.to)
    return {"counted": params.to}


class Counting:
    """Counts, one job after the other."""

    def __init__(self) -> None:
        self._turn = Turn()

    async def count(self, caller: Caller, params: Count, progress: Progress) -> dict[str, int]:
        async with self._turn.taken(progress):
            return await count(caller, params, progress)


async def through(gate: str) -> bytes:
    """What is written to the FIFO, once something is."""
    loop, written = asyncio.get_running_loop(), asyncio.Event()
    # For writing as well: a FIFO that nobody has open to write is always at its end.
    fd = os.open(gate, os.O_RDWR | os.O_NONBLOCK)
    loop.add_reader(fd, written.set)
    try:
        await written.wait()
        return os.read(fd, 100)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def counting() -> list[Operation]:
    handlers = {"count": count, "count_in_turn": Counting().count}
    return [
        Operation(
            name,
            "Count.",
            Count,
            handler,
            frozenset({Face.RPC}),
            Privilege.READ,
            kind="job",
            title=lambda params: say("count to {to}", to=params.to),
        )
        for name, handler in handlers.items()
    ]


class Block(Struct, frozen=True, forbid_unknown_fields=True):
    way: str


BLOCKED = "blocked"
"""File in the home of the hub, which a thread makes just before it blocks."""


def block_thread(way: str) -> None:
    """Wait forever, or hold the interpreter."""
    (Path.home() / BLOCKED).touch()
    if "held" in way:
        re.fullmatch("(a|a)*b", "a" * 100)
    else:
        threading.Event().wait()


async def block(caller: Caller, params: Block) -> dict[str, int]:
    """Block the event loop: by waiting, computing, or a regular expression that holds the interpreter.

    The two ways of a thread leave the loop: one waits forever, one holds the interpreter.
    """
    if "thread" in params.way:
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, loop.run_in_executor, None, block_thread, params.way)
        return {}
    if params.way == "waiting":
        read_end, write_end = os.pipe()
        os.read(read_end, 1)
        os.close(write_end)
    while params.way == "computing":
        pass
    re.fullmatch("(a|a)*b", "a" * 100)
    return {}


BLOCKING = Operation("block", "Block.", Block, block, frozenset({Face.RPC}), Privilege.READ)


class Working(Daemon):
    """The hub of the product, with two more operations."""

    def open(self, umask: int | None = None) -> None:
        super().open(umask)
        self._door = Door(OperationTable([*self._door.table, *counting(), BLOCKING]), self.hub.jobs)
        if self.http:
            self.http.rpc = self._door


async def serve(started_by: str) -> None:
    settings = load_settings({}, os.environ)
    prepare_home(settings)
    lock = locks.acquire(str(settings.home / "hub.lock"))
    assert lock is not None
    with contextlib.closing(open_logs(settings, aloud=False)) as logs:
        hub = Working(settings, os.environ, lock, LaunchOrigin(started_by, []), logs)
        hub.open()
        print("open", flush=True)
        await hub.serve(end_within)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
