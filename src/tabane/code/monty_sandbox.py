"""The sandbox on pydantic-monty: processes of scripts, and a session in one of them.

Each script has a process of ours (:mod:`tabane.code.script_host`), which talks to the interpreter, a process
in a cage. The hub sends and gets messages of limited size. It never has a value of a script as an object, and
no thread of the hub works for a script: whatever a script does, the hub can kill its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from msgspec import DecodeError, Raw, ValidationError, msgpack

from tabane.cancellation import run_to_end
from tabane.code.host_messages import (
    Begin,
    Dump,
    HostAnswer,
    HostCalled,
    HostDumped,
    HostFailed,
    HostFinished,
    HostRequest,
    HostWaiting,
    Judged,
    Leave,
    ScriptLimits,
    SentResult,
    Settle,
    decode_answer,
    decode_greeting,
    encode,
)
from tabane.code.sandbox import (
    LARGEST,
    Finished,
    Judge,
    Modules,
    Returned,
    ScriptFailed,
    Settled,
    Stop,
    ToolCalled,
    Waiting,
)
from tabane.errors import WorkerUnavailable
from tabane.wire import json
from tabane.workers.frames import AnswerKind, WorkerRefusal
from tabane.workers.worker import Program, Worker, WorkerSilent, environment, module

IDLE = 300.0
"""Seconds without a script after which all processes end."""

BASE_MEMORY = 1 << 30
"""Bytes of address space of the process of a script, beside what the values of the script need in it."""

_VALUE_COPIES = 8  # of the memory of a script, in objects of Python and as JSON

InterpreterProgram = Callable[[str, int], str]
"""Returns the program that is started as a worker: given the interpreter, and the memory of a script. Blocks.
Raises OSError."""


class MontySandbox:
    """Processes of scripts, which are started with the first script. ``limits`` has their number.

    ``program`` can start the interpreter in a cage.
    """

    version = importlib.metadata.version("pydantic-monty")

    def __init__(
        self,
        limits: ScriptLimits,
        idle: float = IDLE,
        program: InterpreterProgram = lambda interpreter, memory: interpreter,
    ) -> None:
        self._workers, self._idle, self._program = limits.workers, idle, program
        self._free = asyncio.Semaphore(limits.workers)
        self._resting: list[ScriptProcess] = []
        self._all: set[ScriptProcess] = set()
        self._writing = asyncio.Lock()
        self._running = 0
        self._end: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def session(self, modules: Modules, limits: ScriptLimits) -> AsyncIterator[MontySession]:
        """Return a session for one script. If it is left early, its process is killed.

        Raises ScriptFailed if no process is free in time.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), limits.patience)
        except TimeoutError:
            raise ScriptFailed(
                f"{self._workers} scripts are running, which is the limit (setting script_workers). Run it "
                "again when one of them has ended."
            ) from None
        self._running += 1
        if self._end is not None:
            self._end.cancel()
            self._end = None
        process: ScriptProcess | None = None
        try:
            process = await self._ready_process(limits)
            yield MontySession(process, modules, limits)
        finally:
            if process is not None and process.busy:
                process.worker.kill()
            leaving = self._spawn_task(self._leave_process(process))
            if process is not None and not process.busy:
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """End the processes. Scripts that still run fail."""
        self._closed = True
        if self._end is not None:
            self._end.cancel()
        for process in list(self._all):
            if process not in self._resting:
                process.worker.kill()
            self._spawn_task(self._retire_process(process))
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _ready_process(self, limits: ScriptLimits) -> ScriptProcess:
        """Return a process without a script. Raises ScriptFailed if none can be started."""
        while self._resting or self._leaving:
            if not self._resting:  # one that forgets its script is ready sooner than a new one
                await asyncio.wait(self._leaving, return_when=asyncio.FIRST_COMPLETED)
                continue
            process = self._resting.pop()
            if process.worker.usable:
                return process
            self._spawn_task(self._retire_process(process))
        if self._closed:
            raise ScriptFailed("the hub is stopping.")
        memory = BASE_MEMORY + _VALUE_COPIES * limits.memory
        process = ScriptProcess(memory)
        self._all.add(process)
        try:
            interpreter = await process.start()
            async with self._writing:
                written = asyncio.to_thread(self._program, interpreter, limits.memory)
                process.program = await run_to_end(written)
        except OSError as error:
            self._spawn_task(self._retire_process(process))
            raise ScriptFailed(f"the sandbox cannot start: {error}") from None
        except BaseException:
            self._spawn_task(self._retire_process(process))
            raise
        return process

    async def _leave_process(self, process: ScriptProcess | None) -> None:
        """Let a process forget its script, and give its place to the next script."""
        try:
            if process is not None:
                with contextlib.suppress(ScriptFailed):
                    if not process.busy:
                        await process.ask(Leave())
                if process.worker.usable and not process.busy and not process.broken and not self._closed:
                    self._resting.append(process)
                else:
                    await self._retire_process(process)
        finally:
            self._running -= 1
            self._free.release()
            if not self._running and not self._closed:
                self._end = asyncio.get_running_loop().call_later(self._idle, self._end_resting)

    def _end_resting(self) -> None:
        self._end = None
        for process in self._resting:
            self._spawn_task(self._retire_process(process))
        self._resting.clear()

    async def _retire_process(self, process: ScriptProcess) -> None:
        self._all.discard(process)
        await process.worker.end()

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class ScriptProcess:
    """A process for one script at a time. ``busy``: it owes an answer. ``broken``: it is not used again."""

    def __init__(self, memory: int) -> None:
        command = module("tabane.code.script_host")
        self.worker = Worker(Program(command, environment(os.environ), memory))
        self.program = ""
        self.busy = self.broken = False

    async def start(self) -> str:
        """Start the process. Return the path of the interpreter. Raises ScriptFailed."""
        try:
            await self.worker.start()
            self.worker.send(b"")
            greeting = await self.worker.receive()
        except WorkerUnavailable as error:
            raise ScriptFailed(f"the sandbox cannot start: {error.text('en')}") from None
        except WorkerSilent:
            raise ScriptFailed("the sandbox cannot start: its process ended.") from None
        if greeting.kind is AnswerKind.REFUSED:
            raise ScriptFailed(f"the sandbox cannot start: {_refusal_reason(greeting.body)}")
        return decode_greeting(greeting.body).interpreter

    async def ask(
        self, request: HostRequest, printed: Callable[[bytes], None] = lambda text: None
    ) -> HostAnswer:
        """Return the answer to a request. Raises ScriptFailed."""
        self.busy = True
        try:
            self.worker.send(encode(request))
            answer = await self.worker.receive()
            while answer.kind is AnswerKind.PROGRESS:
                printed(answer.body)
                answer = await self.worker.receive()
            found: HostAnswer | None = None
            if answer.kind is not AnswerKind.REFUSED:
                found = decode_answer(answer.body)
        except WorkerSilent:
            await self.worker.end()
            if self.worker.status == -signal.SIGPROF:
                why = "a value of the script takes too long to be passed on. Pass on less of it."
            else:
                why = (
                    "the process of the script ended unexpectedly. Calls that it made may have taken effect."
                )
            raise ScriptFailed(why) from None
        except (ValueError, DecodeError, ValidationError) as error:
            raise ScriptFailed(f"a value cannot be passed to the script, or from it: {error}") from None
        self.busy = False
        if found is None:
            found = HostFailed(
                f"an internal error while the script ran: {_refusal_reason(answer.body)}", broken=True
            )
        if isinstance(found, HostFailed):
            self.broken = self.broken or found.broken
            raise ScriptFailed(found.text)
        return found


def _refusal_reason(refusal: bytes) -> str:
    return msgpack.decode(refusal, type=WorkerRefusal).reason


class MontySession:
    """A script in one process. Methods return where it stops next, and raise ScriptFailed."""

    def __init__(self, process: ScriptProcess, modules: Modules, limits: ScriptLimits) -> None:
        self._process, self._modules, self._limits = process, modules, limits
        self._printed: list[bytes] = []
        self.worker = process.worker.pid
        """The id of the process."""

    @property
    def printed(self) -> str:
        """Return what the script has printed."""
        whole = b"".join(self._printed)
        self._printed[:] = [whole]
        return whole.decode("utf-8", "replace")

    async def start(self, code: str, inputs: Mapping[str, Any], judge: Judge) -> Stop:
        """Start a script. ``inputs`` are its first variables."""
        try:
            written = json.encode(inputs)
        except (RecursionError, ValueError) as error:
            raise ScriptFailed(f"inputs cannot be passed to the script: {error}") from None
        begin = self._begin_request(self._limits.output)
        return await self._until_stop(begin(code=code, inputs=written), judge)

    async def settle(self, results: Mapping[int, Settled], judge: Judge) -> Stop:
        """Give the results of calls that the script waits for."""
        return await self._until_stop(
            Settle({id: _sent_result(result) for id, result in results.items()}), judge
        )

    async def dump(self) -> bytes:
        """Return the state of a script that waits for calls. Another session can go on with it."""
        dumped = await self._process.ask(Dump(LARGEST))
        assert isinstance(dumped, HostDumped)
        return dumped.state

    async def restore(self, state: bytes, printed: str, judge: Judge) -> Stop:
        """Put a script where it was, instead of starting one. ``printed`` is what it had printed."""
        self._printed = [printed.encode()]
        begin = self._begin_request(max(self._limits.output - len(self._printed[0]), 0))
        return await self._until_stop(begin(state=state), judge)

    def _begin_request(self, output: int) -> partial[Begin]:
        return partial(Begin, self._process.program, self._modules, self._limits, output)

    async def _until_stop(self, request: HostRequest, judge: Judge) -> Stop:
        """Judge each call that the script makes, and return where it stops."""
        while True:
            answer = await self._process.ask(request, self._printed.append)
            if isinstance(answer, HostWaiting):
                return Waiting(answer.ids)
            if isinstance(answer, HostFinished):
                return Finished(Raw(answer.value), answer.unfit)
            assert isinstance(answer, HostCalled)
            given, named = json.decode(answer.arguments) if answer.arguments else ([], {})
            call = ToolCalled(
                answer.id, answer.function, given, named, answer.unfit, answer.place, answer.awaited
            )
            refused = judge(call)
            request = Judged(None if refused is None else _sent_result(refused))


def _sent_result(result: Settled) -> SentResult:
    if isinstance(result, Returned):
        return SentResult(result=bytes(result.result), wrapped=result.wrapped)
    return SentResult(result.kind, result.text)
