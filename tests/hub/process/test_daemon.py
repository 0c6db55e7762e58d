"""A hub in this process: the jobs of programs at its socket, and its end when nobody uses it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tabane import __version__
from tabane.hub.local import lock as locks
from tabane.hub.local.handshake import Hello
from tabane.hub.process.daemon import LaunchOrigin, prepare_home
from tabane.hub.process.logs import HubLogs
from tabane.settings import load_settings
from tests.harness.hub_with_jobs import Working
from tests.harness.patience import until
from tests.harness.running_hub import loop_turns

IDLE = 30 * 60.0
"""Seconds without use after which a hub that a bridge started ends."""


class MovedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves on."""

    moved = 0.0

    def time(self) -> float:
        return super().time() + self.moved


class NoLogs:
    """Logs that are written nowhere."""

    def hide(self, secrets: object) -> None: ...

    def set_level(self, level: str) -> None: ...

    def sum_up(self) -> None: ...


@pytest.fixture
def loop() -> Iterator[MovedLoop]:
    """A loop for a hub; the handlers of signals that the hub sets are taken back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    loop = MovedLoop()
    yield loop
    for number, handler in before.items():
        signal.signal(number, handler)


class Program:
    """A program at the socket of a hub."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, **params: object) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._writer.write(json.dumps(message).encode() + b"\n")
        return json.loads(await self._reader.readline())["result"]

    def leave(self) -> None:
        self._writer.close()


class WorkingHub:
    """A hub whose jobs count until their gate opens."""

    def __init__(self, daemon: Working, gate: Path) -> None:
        self.daemon, self.gate = daemon, gate
        self.served = asyncio.ensure_future(daemon.serve())

    async def program(self) -> Program:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.daemon.take(theirs.detach(), Hello(__version__, "rpc", client="importer", pid=41))
        return Program(*await asyncio.open_connection(sock=ours))

    async def begin(self, program: Program) -> str:
        job = str((await program.ask("count", gate=str(self.gate)))["job"])
        await until(lambda: self.state(job)["done"] > 0, "the job works")
        return job

    def state(self, job: str) -> dict[str, Any]:
        return self.daemon.hub.jobs.get(job).state("en")

    async def finish(self) -> None:
        """Let the jobs go on that still run, and wait until they are over."""
        gate = os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)
        os.write(gate, b"end")
        await until(lambda: not self.daemon.hub.jobs.running, "the jobs are over")
        os.close(gate)


@asynccontextmanager
async def working(home: Path, started_by: str) -> AsyncIterator[WorkingHub]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TABANE_HOME": str(home),
        "TABANE_MODEL": "none",
    }
    # Without the watchdog, which would end this process.
    settings = load_settings({"http": False, "stuck_after": 0, "idle_end": IDLE / 60}, environment)
    prepare_home(settings)
    lock = locks.acquire(str(home / "hub.lock"))
    assert lock is not None
    daemon = Working(settings, environment, lock, LaunchOrigin(started_by, []), cast("HubLogs", NoLogs()))
    daemon.open()
    os.mkfifo(home / "gate")
    here = WorkingHub(daemon, home / "gate")
    try:
        yield here
    finally:
        daemon.end("stop")
        await here.served


@pytest.mark.parametrize("detached", [False, True])
def test_a_job_ends_with_the_program_that_began_it_unless_it_is_detached(
    loop: MovedLoop, tmp_path: Path, detached: bool
) -> None:
    async def scene() -> None:
        async with working(tmp_path, locks.HAND) as here:
            program, other = await here.program(), await here.program()
            job = await here.begin(program)
            if detached:
                await program.ask("detach_job", job=job)
            owner = {"client": "importer", "pid": 41, "detached": detached}
            assert (await other.ask("follow_job", job=job, wait=0))["owner"] == owner
            other.leave()
            await loop_turns()
            assert here.state(job)["status"] == "running"
            program.leave()
            await loop_turns()
            await here.finish()
            assert here.state(job)["status"] == ("done" if detached else "cancelled")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scene())


@pytest.mark.parametrize(("started_by", "ends"), [(locks.BRIDGE, True), (locks.HAND, False)])
def test_a_hub_that_a_bridge_started_ends_when_it_was_not_used_for_long(
    loop: MovedLoop, tmp_path: Path, started_by: str, ends: bool
) -> None:
    async def scene() -> None:
        async with working(tmp_path, started_by) as here:

            async def has_ended(after: float) -> bool:
                loop.moved += after
                await loop_turns()
                return bool(here.daemon.report()["status"] == "stopping")

            program = await here.program()
            assert not await has_ended(after=2 * IDLE), "a program is connected"
            job = await here.begin(program)
            await program.ask("detach_job", job=job)
            program.leave()
            await loop_turns()
            for _ in range(3):
                assert not await has_ended(after=2 * IDLE), "a job runs"
            assert not await has_ended(after=0.5 * IDLE)
            await here.finish()
            assert not await has_ended(after=0.9 * IDLE), "the time counts from the end of the job"
            assert await has_ended(after=0.2 * IDLE) is ends
            assert not ends or await here.served == "idle"

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scene())
