"""The hub's end of one worker: a child process that takes requests and sends answers.

:class:`RestartPolicy` pauses between the starts of a program that fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from tabane.errors import WorkerEnded, WorkerSpent, WorkerUnavailable, upgraded
from tabane.messages import say
from tabane.workers.frames import ANSWER, AnswerKind, answer_head, request

LOWER = 5
"""Nice value added for slow work: it gets a third of the CPU time of a process that competes with it."""

_ENDING = 5.0  # seconds a process has to end after its pipe was closed
_PIECE = 1 << 16
_SPENT = frozenset((-signal.SIGPROF, -signal.SIGXCPU))

_KNOWN = frozenset({
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
})  # fmt: skip


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker, without keys and tokens."""
    known = {name: value for name, value in environ.items() if name in _KNOWN}
    return {**known, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def module(name: str) -> tuple[str, ...]:
    """Return the command that runs a module of Tabane as a worker."""
    return (sys.executable, "-I", "-m", name)


class Program(Struct, frozen=True):
    """The program of a worker.

    ``memory`` is the bytes of address space it may have (Linux), 0 for any; mapped libraries count too, even
    if they are not used. ``errors`` is the descriptor that its stderr goes to, None for nowhere. ``start``
    is the seconds in which it has to be ready.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    memory: int = 0
    errors: int | None = None
    start: float = 60.0


class WorkerAnswer(NamedTuple):
    """One answer. ``number`` is that of its request."""

    number: int
    kind: AnswerKind
    body: bytes


class Worker:
    """One process. It is no longer ``usable`` after it failed, ended, or said that it is about to end."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._child: asyncio.subprocess.Process | None = None
        self._last = False
        self.is_fresh = True
        """Whether it has answered no request yet."""

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        child = self._child
        return child.pid if child is not None and child.returncode is None else None

    @property
    def status(self) -> int | None:
        """The exit status: None while it runs, negative if a signal ended it."""
        return self._child.returncode if self._child is not None else None

    @property
    def usable(self) -> bool:
        """Whether it takes requests. It may have ended since its last answer."""
        child = self._child
        if child is None or child.returncode is not None or self._last:
            return False
        return child.stdout is not None and not child.stdout.at_eof()

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises WorkerUnavailable; then nothing runs."""
        program = self._program
        try:
            self._child = await asyncio.create_subprocess_exec(
                *program.command,
                str(program.memory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL if program.errors is None else program.errors,
                env=program.environ,
                limit=1 << 20,
            )
            async with asyncio.timeout(program.start):
                await self.receive()
        except (OSError, TimeoutError, WorkerSilent) as error:
            await self.end(kill=True)
            if (old := upgraded()) is not None:
                raise WorkerUnavailable(old.message) from None
            reason = f"{type(error).__name__}: {error}" if isinstance(error, OSError) else "it did not begin"
            raise WorkerUnavailable(
                say("A worker process cannot be started: {reason}", reason=reason)
            ) from None
        except BaseException:
            await asyncio.shield(self.end(kill=True))
            raise

    def send(self, body: bytes, *, seconds: float = 0.0, number: int = 0, urgent: bool = False) -> None:
        """Send a request; what the process does not read at once is kept in memory. Returns at once.

        Raises ValueError for a body that is too long. Nobody reads what is sent to a process that has ended.
        """
        assert self._child is not None
        assert self._child.stdin is not None
        head = request(len(body), seconds, number=number, urgent=urgent)
        with contextlib.suppress(ConnectionError):
            if len(body) < _PIECE:
                self._child.stdin.write(head + body)
            else:
                self._child.stdin.write(head)
                self._child.stdin.write(body)

    async def receive(self) -> WorkerAnswer:
        """Return the next answer. Raises WorkerSilent if the process ended or sent no valid frame."""
        assert self._child is not None
        assert self._child.stdout is not None
        try:
            length, number, kind = answer_head(await self._child.stdout.readexactly(ANSWER.size))
            body = await self._child.stdout.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise WorkerSilent from error
        self._last = kind is AnswerKind.LAST
        return WorkerAnswer(number, kind, body)

    async def ask(self, body: bytes, *, seconds: float, deadline: float) -> bytes:
        """Return the answer to a request, while no other is in work.

        ``seconds`` is its CPU time, ``deadline`` its time by the clock. Raises WorkerSpent beyond either,
        WorkerEnded if the process ended for another reason, and ValueError for a body that is too long.
        After any of these, or if the caller gives up, end the worker.
        """
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            async with asyncio.timeout(deadline):
                self.send(body, seconds=seconds)
                await self._child.stdin.drain()
                answer = (await self.receive()).body
                self.is_fresh = False
                return answer
        except TimeoutError:
            raise WorkerSpent(
                say("The work did not finish within {seconds:g} {seconds:second|seconds}.", seconds=deadline)
            ) from None
        except (WorkerSilent, ConnectionError):
            await self.end()
            if self._child.returncode not in _SPENT:
                raise WorkerEnded(say("The worker process ended.")) from None
            raise WorkerSpent(
                say(
                    "The work took more than {seconds:g} {seconds:second|seconds} of CPU time.",
                    seconds=seconds,
                )
            ) from None

    async def end(self, *, kill: bool = False) -> None:
        """End the process: close its requests, or kill it; it is also killed if it does not end."""
        child = self._child
        if child is None:
            return
        if kill:
            self.kill()
        if child.stdin is not None:
            child.stdin.close()
        try:
            async with asyncio.timeout(_ENDING):
                await _wait_for_end(child)
        except TimeoutError:
            self.kill()
            await _wait_for_end(child)

    @property
    def seconds(self) -> float:
        """The CPU time that the process has used, 0 after its end; the clock's where Linux is not."""
        if sys.platform != "linux":
            return time.monotonic()
        try:
            return time.clock_gettime(_cpu_clock(self.pid)) if self.pid is not None else 0.0
        except OSError:
            return 0.0

    def lower_priority(self) -> None:
        """Let the other processes of the machine, and the hub, go first."""
        if self.pid is not None:
            with contextlib.suppress(OSError):
                low = min(os.getpriority(os.PRIO_PROCESS, 0) + LOWER, 19)
                os.setpriority(os.PRIO_PROCESS, self.pid, low)

    def kill(self) -> None:
        """Kill the process if it runs."""
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()


def _cpu_clock(pid: int) -> int:
    """Return the id of the clock of a process's CPU time, as clock_getcpuclockid does on Linux.

    CPUCLOCK_SCHED, 2, in the low bits and the complement of the id above them (linux/posix-timers.h).
    """
    return ~pid << 3 | 2


async def _wait_for_end(child: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process.

    What is left of an answer that nobody wants is read: unread, it keeps the end from being noticed.
    """
    # Another reader is one that ends the process as well.
    with contextlib.suppress(ConnectionError, RuntimeError):
        while child.stdout is not None and await child.stdout.read(_PIECE):
            pass
    await child.wait()


class WorkerSilent(Exception):
    """The process sent nothing, or no valid frame."""


STARTS = 3
"""Processes that may fail in a row before the requests that wait for one fail."""

_PAUSE = 0.1  # seconds after the first failed start, doubled by each that follows
_LONGEST_PAUSE = 30.0
_PATIENCE = 1.0  # seconds of that pause that a request waits for; if more remain, it fails at once


class RestartPolicy:
    """The recent failures of a program. Use it on one event loop only."""

    def __init__(self) -> None:
        self.failures = 0
        self._not_before = 0.0

    def failed(self) -> None:
        """Note that a process failed before it was of any use."""
        self._not_before = loop_time() + min(_PAUSE * 2**self.failures, _LONGEST_PAUSE)
        self.failures += 1

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures, self._not_before = 0, 0.0

    async def pause(self) -> None:
        """Wait until the next start. Raises WorkerUnavailable if that takes too long."""
        wait = self._not_before - loop_time()
        if wait > _PATIENCE:
            raise WorkerUnavailable(
                say(
                    "A worker process cannot be started. Tabane tries again in {seconds:.0f} s.", seconds=wait
                )
            )
        if wait > 0:
            await asyncio.sleep(wait)


def loop_time() -> float:
    """Return the seconds of the clock of the running event loop."""
    return asyncio.get_running_loop().time()
