"""Child processes of a hub in a test: start them, read from them, wait for them, count them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane.upstreams.processes import process_table
from tabane.upstreams.processes.processes import ChildProcess, ChildProcesses
from tests.harness.patience import LONG

CHILD = str(Path(__file__).parents[1] / "harness" / "servers" / "child.py")
HUB = str(Path(__file__).parents[1] / "harness" / "servers" / "hub_of_children.py")
PATH = {"PATH": os.environ["PATH"]}
SOON = LONG
"""Seconds after which something that should have happened has not."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="missing: Linux (/proc, subreaper, pidfd)")


class _Kept(ChildProcesses):
    """Processes that remember their children, so that a test need not close what it does not use."""

    def __init__(self, timeout: float) -> None:
        super().__init__(log_fd=2, timeout=timeout)
        self.children: list[ChildProcess] = []

    async def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        cage: Mapping[str, Any] | None = None,
    ) -> ChildProcess:
        child = await super().spawn(argv, env, cwd, cage)
        self.children.append(child)
        return child


@asynccontextmanager
async def keeping(timeout: float = SOON) -> AsyncIterator[ChildProcesses]:
    """Processes that are closed at the end, and their children's pipes, whatever the test did."""
    processes = _Kept(timeout)
    try:
        yield processes
    finally:
        await processes.close(0.1)
        for child in processes.children:
            let_go(child)


async def misbehaving(
    processes: ChildProcesses, *arguments: str, env: dict[str, str] | None = None
) -> ChildProcess:
    """A child.py with those arguments that has answered, so that all it does at start is done."""
    child = await processes.spawn([sys.executable, CHILD, *arguments], env or {})
    await answering(child)
    return child


async def answering(child: ChildProcess) -> None:
    os.write(child.stdin_fd, b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}\n')
    await heard(child.stdout_fd)


async def heard(fd: int) -> bytes:
    """What can be read from a non-blocking descriptor, once something can."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), SOON)
    finally:
        loop.remove_reader(fd)
    return os.read(fd, 1 << 16)


async def everything(fd: int) -> bytes:
    """What is read from a non-blocking descriptor until its end."""
    parts = []
    while part := await heard(fd):
        parts.append(part)
    return b"".join(parts)


def end_input(child: ChildProcess) -> None:
    if child.stdin_fd >= 0:
        os.close(child.stdin_fd)
        child.stdin_fd = -1


def let_go(child: ChildProcess) -> None:
    """Close the hub's ends of its pipes, those that are open."""
    end_input(child)
    for fd in {child.stdout_fd, child.stderr_fd} - {-1}:
        os.close(fd)
    child.stdout_fd = child.stderr_fd = -1


def noted(path: Path) -> dict[str, list[int]]:
    """The pids in a file of child.py --pids, by their kind."""
    found: dict[str, list[int]] = {}
    for line in path.read_text().splitlines():
        kind, pid = line.split()
        found.setdefault(kind, []).append(int(pid))
    return found


def in_process_table(pid: int) -> bool:
    """Whether the process is in the table, be it as a zombie."""
    return pid in process_table.processes()


def running(pid: int) -> bool:
    process = process_table.processes().get(pid)
    return process is not None and not process.zombie


def ended(pids: Iterable[int], seconds: float = SOON) -> bool:
    """Wait until all of these processes, whose parent need not be us, have ended. Whether they have."""
    poll, left = select.poll(), set()
    for pid in pids:
        try:
            left.add(fd := os.pidfd_open(pid))
        except ProcessLookupError:
            continue
        poll.register(fd, select.POLLIN)
    until = time.monotonic() + seconds
    while left and (rest := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(rest * 1000):
            poll.unregister(fd)
            os.close(fd)
            left.discard(fd)
    for fd in left:
        os.close(fd)
    return not left


def zombies(besides: Collection[int] = ()) -> list[int]:
    """Return children of this process that have ended and that nobody has reaped.

    ``besides`` were there before: orphans of earlier tests, which a hub in this process has adopted.
    """
    table = process_table.processes().values()
    return [p.pid for p in table if p.zombie and p.parent == os.getpid() and p.pid not in besides]


def commands_of_children() -> Iterator[tuple[psutil.Process, list[str]]]:
    """Yield the running children of this process, and the command of each."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ends now, or is a zombie
            yield child, child.cmdline()


def descriptors(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
