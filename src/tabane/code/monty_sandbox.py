"""The sandbox on pydantic-monty: a pool of worker processes, and a session in one of them.

The interpreter has no files, no network and no environment of its own: it stops, and asks. This session
refuses all of that. A thread for each running script works with its worker, so the event loop only waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic_monty as monty
from pydantic_monty._binary import find_monty_binary

from tabane.cancellation import run_to_end
from tabane.code.limits import ScriptLimits
from tabane.code.sandbox import (
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
from tabane.code.step_thread import StepThread

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult, ResourceLimits, SyncSnapshot

GRACE = 1.0
"""Seconds after a limit of time until the worker is killed: some work cannot be interrupted."""

SCRIPTS_OF_A_WORKER = 200
"""Scripts after which a worker is replaced, so that what it has gathered is given back."""

LONGEST_SLEEP = 60.0

IDLE = 300.0
"""Seconds without a script after which all workers end."""

T = TypeVar("T")

Program = Callable[[str, int], str]
"""Returns the program that is started as a worker: given the interpreter, and the memory of a script. Blocks.
Raises OSError."""

_ROOT, _FILE = "tools.", '"<python-input-0>"'
_SLEEPS = ("system.sleep", "system.async_sleep")


class MontySandbox:
    """Worker processes, which are started with the first script. ``limits`` has the number of workers.

    ``program`` can start the interpreter in a cage.
    """

    version = monty.__version__

    def __init__(
        self,
        limits: ScriptLimits,
        idle: float = IDLE,
        program: Program = lambda interpreter, memory: interpreter,
    ) -> None:
        self._workers, self._idle, self._program = limits.workers, idle, program
        self._running = 0
        self._end: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._pool: monty.Monty | None = None
        self._opening = asyncio.Lock()
        self._free = asyncio.Semaphore(limits.workers)
        self._threads: list[StepThread] = []
        self._all: list[StepThread] = []
        self._sessions: set[MontySession] = set()

    @contextlib.asynccontextmanager
    async def session(self, modules: Modules, limits: ScriptLimits) -> AsyncIterator[MontySession]:
        await self._turn(limits)
        self._begun()
        try:
            thread = self._threads.pop() if self._threads else self._new_thread()
            try:
                async with self._checked_out(thread, modules, limits) as session:
                    yield session
            finally:
                self._threads.append(thread)  # it leaves the session before it does anything else
        finally:
            self._free.release()
            self._ended()

    def _new_thread(self) -> StepThread:
        self._all.append(StepThread("script"))
        return self._all[-1]

    def _begun(self) -> None:
        self._running += 1
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _ended(self) -> None:
        """End the processes after a while in which no script runs."""
        self._running -= 1
        if not self._running:
            self._end = asyncio.get_running_loop().call_later(self._idle, self._end_idle)

    def _end_idle(self) -> None:
        self._end = None
        self._ending = asyncio.ensure_future(self._close_pool(idle=True))

    async def _turn(self, limits: ScriptLimits) -> None:
        """Wait until fewer scripts than allowed are running. Raises ScriptFailed."""
        try:
            await asyncio.wait_for(self._free.acquire(), limits.patience)
        except TimeoutError:
            raise ScriptFailed(
                f"{self._workers} scripts are running, which is the limit (setting script_workers). Run it "
                "again when one of them has ended."
            ) from None

    @contextlib.asynccontextmanager
    async def _checked_out(
        self, thread: StepThread, modules: Modules, limits: ScriptLimits
    ) -> AsyncIterator[MontySession]:
        pool = await self._opened(thread, limits)
        checked_out = pool.checkout(
            limits=_resources(limits),
            external_modules={"tools": lambda: _module(modules)},
        )
        session = MontySession(checked_out, thread, limits)
        self._sessions.add(session)
        try:
            yield session
        except BaseException:
            session.stop()
            await run_to_end(thread.do(session.leave))
            raise
        else:
            thread.do(session.leave)  # before its next step: nobody waits for it
        finally:
            self._sessions.discard(session)

    async def _opened(self, thread: StepThread, limits: ScriptLimits) -> monty.Monty:
        async with self._opening:
            if self._pool is None:
                self._pool = await run_to_end(thread.do(partial(self._open, limits.memory)))
            return self._pool

    def _open(self, memory: int) -> monty.Monty:
        try:
            program = self._program(find_monty_binary(), memory)
        except OSError as error:
            raise ScriptFailed(f"the sandbox cannot start: {error}") from None
        pool = monty.Monty(
            binary_path=program,
            min_processes=0,
            max_processes=self._workers,
            max_checkouts_per_worker=SCRIPTS_OF_A_WORKER,
            feed_duration_limit_grace=GRACE,
            turn_duration_limit_grace=GRACE,
        )
        return _enter(pool)

    async def _close_pool(self, *, idle: bool) -> None:
        """End the processes; if they are to be ``idle``, only if no script has begun meanwhile."""
        async with self._opening:
            if self._pool is None or (idle and self._running):
                return
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.__exit__, None, None, None)

    async def close(self) -> None:
        """End the workers, and wait for the threads. Scripts that still run fail.

        An interpreter of Python that ends while a thread is inside the library ends with SIGABRT.
        """
        if self._end is not None:
            self._end.cancel()
        if self._ending is not None:
            await self._ending
        for session in self._sessions:
            session.stop()
        threads, self._all, self._threads = self._all, [], []
        for thread in threads:
            thread.end()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await self._close_pool(idle=False)


def _enter(block: AbstractContextManager[T]) -> T:
    """Enter the block of a pool or session. Raises ScriptFailed if its process cannot be started."""
    try:
        return block.__enter__()
    except (OSError, RuntimeError, monty.MontyError) as error:
        raise ScriptFailed(f"the sandbox cannot start: {error}") from None


class MontySession:
    """A script in one worker. Everything that waits for the worker is done in a thread."""

    def __init__(self, session: monty.MontySession, thread: StepThread, limits: ScriptLimits) -> None:
        self._session, self._thread, self._limits = session, thread, limits
        self._before, self._most = "", limits.output
        self._printed = monty.CollectString(self._most)
        self._entered, self.worker = False, session.worker_pid
        self._judge: Judge = lambda call: None
        self._at: monty.FutureSnapshot | None = None
        self._busy, self._stopped = False, threading.Event()

    @property
    def printed(self) -> str:
        return self._before + self._printed.output

    async def start(self, code: str, inputs: Mapping[str, Any], judge: Judge) -> Stop:
        self._judge = judge
        return await self._step(
            lambda: self._session.feed_start(code, inputs=dict(inputs), print_callback=self._printed)
        )

    async def settle(self, results: Mapping[int, Settled]) -> Stop:
        at = self._at
        assert at is not None
        given = {id: _settled(result) for id, result in results.items()}
        return await self._step(lambda: at.resume(given))

    async def dump(self) -> bytes:
        at = self._at
        assert at is not None

        def dumped() -> bytes:
            with self._errors():
                return at.dump()

        return await self._thread.do(dumped)

    async def restore(self, state: bytes, printed: str, judge: Judge) -> Stop:
        self._judge, self._before = judge, printed
        self._most = max(self._limits.output - len(printed.encode()), 0)
        self._printed = monty.CollectString(self._most)
        return await self._step(lambda: self._session.load_snapshot(state, print_callback=self._printed))

    def stop(self) -> None:
        """End what the worker does now, by killing it."""
        self._stopped.set()
        if self._busy and self.worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.worker, signal.SIGKILL)

    def leave(self) -> None:
        """Give the worker back. Call this in the thread, after all steps."""
        if self._entered:
            with contextlib.suppress(monty.MontyError):
                self._session.__exit__(None, None, None)

    async def _step(self, begin: Callable[[], SyncSnapshot]) -> Stop:
        return await self._thread.do(partial(self._until_stop, begin))

    # -- in the thread -------------------------------------------------------------------------------

    def _until_stop(self, begin: Callable[[], SyncSnapshot]) -> Stop:
        """Answer what needs no waiting, and return where the script stops."""
        self._busy = True
        try:
            with self._errors():
                self._enter()
                snapshot = begin()
                while not isinstance(snapshot, monty.FutureSnapshot | monty.MontyComplete):
                    snapshot = self._answered(snapshot)
                if isinstance(snapshot, monty.MontyComplete):
                    return Finished(snapshot.output)
                self._at = snapshot
                return Waiting(tuple(snapshot.pending_call_ids))
        finally:
            self._busy = False

    def _enter(self) -> None:
        """Check a worker out, with the first step: that saves a turn of the thread."""
        if not self._entered:
            _enter(self._session)
            self._entered, self.worker = True, self._session.worker_pid
        if self._stopped.is_set():
            raise ScriptFailed("the script was stopped.")

    def _answered(self, snapshot: monty.FunctionSnapshot | monty.NameLookupSnapshot) -> SyncSnapshot:
        if isinstance(snapshot, monty.NameLookupSnapshot):
            return snapshot.resume()
        if snapshot.is_os_function:
            return self._refused_or_imported(snapshot)
        refused = self._judge(_called(snapshot))
        return snapshot.resume({"future": ...} if refused is None else _settled(refused))

    def _refused_or_imported(self, snapshot: monty.FunctionSnapshot) -> SyncSnapshot:
        """Answer a call of the system: modules are imported, sleeps are slept, all else is refused."""
        name = str(snapshot.function_name)
        if name == "import":
            return snapshot.resume_auto()
        if name in _SLEEPS:
            self._stopped.wait(min(max(float(snapshot.args[0]), 0.0), LONGEST_SLEEP))
            return snapshot.resume({"return_value": None})
        return snapshot.resume_not_handled()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise ScriptFailed for each error of the library."""
        try:
            yield
        except monty.MontyCrashedError as error:
            raise ScriptFailed(self._crash(error)) from None
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            raise ScriptFailed(self._explained(error)) from None
        except (monty.MontyError, TypeError, ValueError, OverflowError) as error:
            raise ScriptFailed(f"a value cannot be passed to the script, or from it: {error}") from None

    def _crash(self, error: monty.MontyCrashedError) -> str:
        if error.timed_out:
            return f"the script computed longer than {self._limits.seconds:g} s (setting script_seconds)."
        return "the process of the script ended unexpectedly. Calls that it made may have taken effect."

    def _explained(self, error: monty.MontyRuntimeError | monty.MontySyntaxError) -> str:
        limits, text = self._limits, str(error)
        if text.endswith(f"> {self._most} bytes"):
            return f"the script printed more than {limits.output >> 10} KiB (setting script_output)."
        if "time limit exceeded" in text:
            return f"the script computed longer than {limits.seconds:g} s (setting script_seconds)."
        if text.startswith(
            ("MemoryError: memory limit exceeded", "MemoryError: the worker exceeded its memory")
        ):
            return f"the script needs more memory than {limits.memory >> 20} MiB (setting script_memory)."
        return error.display().replace(_FILE, '"script.py"')


def _resources(limits: ScriptLimits) -> ResourceLimits:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_turn_duration_secs": limits.seconds,
        "max_memory": limits.memory,
        "max_recursion_depth": limits.recursion,
        # A call stops the script twice: when it is made, and when its result is needed. Imports stop it too.
        "max_suspensions": 3 * limits.calls + 1_000,
    }


def _module(modules: Modules) -> monty.ExternalModule:
    """Return the module ``tools``. Its functions are names: this side sees each call, and makes it."""
    attributes: dict[str, Any] = dict.fromkeys(modules.get("", ()), _function)
    for module, names in modules.items():
        if module:
            attributes[module] = monty.ExternalModule(dict.fromkeys(names, _function))
    return monty.ExternalModule(attributes)


def _function(*given: Any, **named: Any) -> None:
    """Stand for a tool. The session answers its calls, so this is never called."""
    raise AssertionError


def _called(snapshot: monty.FunctionSnapshot) -> ToolCalled:
    place = snapshot.position
    return ToolCalled(
        snapshot.call_id,
        str(snapshot.function_name).removeprefix(_ROOT),
        snapshot.args,
        snapshot.kwargs,
        (place.start, place.end) if place.filename != "<string>" else (-1, -1),
        snapshot.allow_eager_await,
    )


def _settled(result: Settled) -> ExternalSettledResult:
    if isinstance(result, Returned):
        return {"return_value": result.value}
    kind: Any = result.kind
    return {"exc_type": kind, "message": result.text}
