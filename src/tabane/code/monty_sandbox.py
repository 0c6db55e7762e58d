"""The sandbox on pydantic-monty: a pool of worker processes, and a session in one of them.

The interpreter has no files, no network and no environment of its own: it stops, and asks. This session
refuses all of that. Work with a worker is done by threads of the library, so the event loop only waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import pydantic_monty as monty

from tabane.code.limits import ScriptLimits
from tabane.code.sandbox import (
    Finished,
    Modules,
    Raised,
    Returned,
    ScriptFailed,
    Settled,
    Stop,
    ToolCalled,
    Waiting,
)

if TYPE_CHECKING:
    from pydantic_monty import AsyncMontySession, AsyncSnapshot, ExternalSettledResult, ResourceLimits

GRACE = 1.0
"""Seconds after a limit of time until the worker is killed: some work cannot be interrupted."""

SCRIPTS_OF_A_WORKER = 200
"""Scripts after which a worker is replaced, so that what it has gathered is given back."""

LONGEST_SLEEP = 60.0

_ROOT = "tools."
_SLEEPS = ("system.sleep", "system.async_sleep")


class MontySandbox:
    """Worker processes, which are started with the first script. ``limits`` has the number of workers."""

    def __init__(self, limits: ScriptLimits) -> None:
        self._workers = limits.workers
        self._opening: asyncio.Task[monty.AsyncMonty] | None = None
        self._free = asyncio.Semaphore(limits.workers)

    @contextlib.asynccontextmanager
    async def session(self, modules: Modules, limits: ScriptLimits) -> AsyncIterator[MontySession]:
        try:
            await asyncio.wait_for(self._free.acquire(), limits.patience)
        except TimeoutError:
            raise ScriptFailed(
                f"{self._workers} scripts are running, which is the limit (setting script_workers). Run it "
                "again when one of them has ended."
            ) from None
        try:
            pool = await self._opened()
            printed = monty.CollectString(limits.output)
            async with pool.checkout(
                limits=_resources(limits),
                external_modules={"tools": lambda: _module(modules)},
                script_name="script.py",
            ) as session:
                yield MontySession(session, printed, limits)
        finally:
            self._free.release()

    async def _opened(self) -> monty.AsyncMonty:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(self._opening)
        except OSError as error:
            self._opening = None
            raise ScriptFailed(f"the sandbox cannot start: {error}") from None

    async def _open(self) -> monty.AsyncMonty:
        pool = monty.AsyncMonty(
            min_processes=0,
            max_processes=self._workers,
            max_checkouts_per_worker=SCRIPTS_OF_A_WORKER,
            feed_duration_limit_grace=GRACE,
            turn_duration_limit_grace=GRACE,
        )
        await pool.__aenter__()
        return pool

    async def close(self) -> None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            pool = await opening
            await pool.__aexit__(None, None, None)


class MontySession:
    """A script in one worker."""

    def __init__(
        self, session: AsyncMontySession, printed: monty.CollectString, limits: ScriptLimits
    ) -> None:
        self._session, self._printed, self._limits = session, printed, limits
        self._at: monty.AsyncFunctionSnapshot | monty.AsyncFutureSnapshot | None = None

    @property
    def printed(self) -> str:
        return self._printed.output

    @property
    def worker(self) -> int | None:
        """Return the id of the process; None while it computes."""
        return self._session.worker_pid

    async def start(self, code: str, inputs: Mapping[str, Any]) -> Stop:
        with self._errors():
            snapshot = await self._session.feed_start(code, inputs=dict(inputs), print_callback=self._printed)
            return await self._until_stop(snapshot)

    async def accept(self) -> Stop:
        with self._errors():
            return await self._until_stop(await self._call().resume({"future": ...}))

    async def refuse(self, error: Raised) -> Stop:
        with self._errors():
            return await self._until_stop(await self._call().resume(_settled(error)))

    async def settle(self, results: Mapping[int, Settled]) -> Stop:
        at = self._at
        assert isinstance(at, monty.AsyncFutureSnapshot)
        given = {id: _settled(result) for id, result in results.items()}
        with self._errors():
            return await self._until_stop(await at.resume(given))

    def _call(self) -> monty.AsyncFunctionSnapshot:
        assert isinstance(self._at, monty.AsyncFunctionSnapshot)
        return self._at

    async def _until_stop(self, snapshot: AsyncSnapshot) -> Stop:
        """Answer what is no call of a tool, and return where the script stops."""
        while True:
            if isinstance(snapshot, monty.MontyComplete):
                return Finished(await asyncio.to_thread(getattr, snapshot, "output"))
            if isinstance(snapshot, monty.AsyncFutureSnapshot):
                self._at = snapshot
                return Waiting(tuple(snapshot.pending_call_ids))
            if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
                snapshot = await snapshot.resume()
            elif snapshot.is_os_function:
                snapshot = await _refused_or_imported(snapshot)
            else:
                self._at = snapshot
                return _called(snapshot)

    @contextlib.contextmanager
    def _errors(self) -> Any:
        """Raise ScriptFailed for each error of the library."""
        try:
            yield
        except monty.MontyCrashedError as error:
            raise ScriptFailed(self._crash(error)) from None
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            raise ScriptFailed(self._explained(error)) from None
        except monty.MontyError as error:
            raise ScriptFailed(str(error)) from None

    def _crash(self, error: monty.MontyCrashedError) -> str:
        if error.timed_out:
            return f"the script computed longer than {self._limits.seconds:g} s (setting script_seconds)."
        return "the process of the script ended unexpectedly. Calls that it made may have taken effect."

    def _explained(self, error: monty.MontyRuntimeError | monty.MontySyntaxError) -> str:
        limits, text = self._limits, str(error)
        if text.endswith(f"> {limits.output} bytes"):
            return f"the script printed more than {limits.output >> 10} KiB (setting script_output)."
        if "time limit exceeded" in text:
            return f"the script computed longer than {limits.seconds:g} s (setting script_seconds)."
        if text.startswith("MemoryError: memory limit exceeded"):
            return f"the script needs more memory than {limits.memory >> 20} MiB (setting script_memory)."
        return error.display()


def _resources(limits: ScriptLimits) -> ResourceLimits:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_turn_duration_secs": limits.seconds,
        "max_memory": limits.memory,
        "max_recursion_depth": limits.recursion,
        # A call stops the script twice: when it is made, and when its result is needed. Imports stop it too.
        "max_suspensions": 3 * limits.calls + 1_000,
    }


async def _module(modules: Modules) -> monty.ExternalModule:
    """Return the module ``tools``. Its functions are names: this side sees each call, and makes it."""
    attributes: dict[str, Any] = dict.fromkeys(modules.get("", ()), _function)
    for module, names in modules.items():
        if module:
            attributes[module] = monty.ExternalModule(dict.fromkeys(names, _function))
    return monty.ExternalModule(attributes)


def _function(*given: Any, **named: Any) -> None:
    """Stand for a tool. The session answers its calls, so this is never called."""
    raise AssertionError


async def _refused_or_imported(snapshot: monty.AsyncFunctionSnapshot) -> AsyncSnapshot:
    """Answer a call of the operating system: modules are imported, sleeps are slept, all else is refused."""
    name = str(snapshot.function_name)
    if name == "import":
        return await snapshot.resume_auto()
    if name in _SLEEPS:
        await asyncio.sleep(min(float(snapshot.args[0]), LONGEST_SLEEP))
        return await snapshot.resume({"return_value": None})
    return await snapshot.resume_not_handled()


def _called(snapshot: monty.AsyncFunctionSnapshot) -> ToolCalled:
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
