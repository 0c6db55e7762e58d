"""One run of a script: each call of a tool is checked and made, and its result goes back into the script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Raw, Struct

from tabane.code.failure_hints import AWAIT, hint, missing_function, shows_coroutine
from tabane.code.limits import ScriptLimits
from tabane.code.sandbox import (
    Finished,
    Judge,
    Modules,
    Raised,
    SandboxSession,
    ScriptFailed,
    Settled,
    Stop,
    ToolCalled,
    Waiting,
)
from tabane.code.signatures import ScriptTool, WrongArguments
from tabane.code.snapshots import AskedCall, HeldCall, PausedRun
from tabane.code.source_checks import ScriptSource
from tabane.text.nearest_names import nearest
from tabane.wire import json

_MOST_NAMED = 20

_LONGEST_FAILURE = 8_000
"""Characters of the text of a failure."""

NO_VALUE = Raw(b"null")
"""The result of a script that has none."""

_SHORT = 4_000
"""Bytes of a result that may be the text of a call that was not awaited."""


class Asking(NamedTuple):
    """A call that was not sent: a person has to approve it first. ``text`` says so."""

    approval: str
    text: str


Perform = Callable[[ScriptTool, dict[str, Any]], Awaitable[Settled | Asking]]
"""Calls a tool with arguments. What it raises is no failure of the tool, and ends the script."""

Progress = Callable[[int, str], None]
"""Called at the end of each call with the number of ended calls, and the name of the tool."""


class ScriptEnd(Struct, frozen=True):
    """How a script ended. ``failure`` is empty if it has come to its end. ``calls`` counts those of tools."""

    value: Raw
    printed: str
    calls: int
    failure: str = ""


def modules_of(tools: Sequence[ScriptTool]) -> Modules:
    """Return the names of the tools of a script by module: it can import nothing else."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        found.setdefault(tool.module, []).append(tool.function)
    return found


class ScriptRun:
    """Runs one script in a session. ``tools`` are all that it can call.

    Calls are made when the script waits for one of them: then all that it has begun run in parallel. So a
    call that nothing waits for is not made, and the script fails. If all that it waits for are calls that a
    person has to approve first, it pauses: then its whole state is a value, and the session can be left.
    """

    def __init__(
        self,
        session: SandboxSession,
        tools: Sequence[ScriptTool],
        limits: ScriptLimits,
        perform: Perform,
        progress: Progress = lambda ended, tool: None,
    ) -> None:
        self._session, self._limits = session, limits
        self._tools = {tool.path: tool for tool in tools}
        self._perform, self._progress = perform, progress
        self._turns = asyncio.Semaphore(limits.parallel)
        self._held: dict[int, tuple[ScriptTool, dict[str, Any], tuple[int, int]]] = {}
        self._running: dict[int, asyncio.Task[Settled | AskedCall]] = {}
        self._asked: list[AskedCall] = []
        self._accepted = self._made = self._over = 0
        self._clock: asyncio.Timeout | None = None
        self._stops, self._left = 0, 0.0
        self._judge: Judge = lambda call: None

    async def run(
        self, source: ScriptSource, inputs: Mapping[str, Any], seconds: float
    ) -> ScriptEnd | PausedRun:
        """Run a script, and return how it ended, or where it pauses. It is stopped after ``seconds``.

        If this is cancelled, so are the calls of the script.
        """
        return await self._within(source, seconds, self._started(source, inputs))

    async def go_on(
        self, source: ScriptSource, paused: PausedRun, undecided: Container[str] = ()
    ) -> ScriptEnd | PausedRun:
        """Go on with a script, as :meth:`run` does. Its calls that were asked about are tried again.

        A call that is still not approved fails now, and is not tried if its approval is ``undecided``.
        """
        self._accepted, self._made, self._over = paused.accepted, paused.made, paused.over
        return await self._within(source, paused.left, self._restored(source, paused, undecided))

    async def _within(
        self, source: ScriptSource, seconds: float, begun: Coroutine[Any, Any, Stop]
    ) -> ScriptEnd | PausedRun:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds) as self._clock:
                stop = await self._to_end(await begun)
                if stop is None:
                    left = (self._clock.when() or loop.time()) - loop.time()
                    return await self._paused(max(left, 0.001))
            self._check_awaited(source, stop.value)
            if stop.unfit:
                return self._failed(stop.unfit)
        except TimeoutError:
            return self._failed(
                f"the script did not end within {seconds:g} s (timeout). Its calls may have taken effect."
            )
        except ScriptFailed as failure:
            advice = self._near(failure.text) or hint(failure.text)
            return self._failed(f"{failure.text}\n{advice}" if advice else failure.text)
        finally:
            self._clock = None
            await self._stop_calls()
        return ScriptEnd(stop.value, self._session.printed, self._made)

    def stop_clock(self) -> Callable[[], None]:
        """Do not count the time until the returned function is called: a person is asked."""
        clock, loop = self._clock, asyncio.get_running_loop()
        if clock is not None and not self._stops:
            self._left = (clock.when() or loop.time()) - loop.time()
            clock.reschedule(None)
        self._stops += 1
        open_stops = [None]

        def start() -> None:
            if not open_stops:
                return
            open_stops.clear()
            self._stops -= 1
            if self._clock is not None and not self._stops and not self._clock.expired():
                self._clock.reschedule(loop.time() + self._left)

        return start

    def _near(self, error: str) -> str:
        """Return a hint for a name that a module of tools does not have; empty for any other error."""
        if (found := missing_function(error)) is None:
            return ""
        module, name = found
        known = [tool.function for tool in self._tools.values() if tool.module == module]
        near = nearest(name, known) or known[:_MOST_NAMED]
        return f"{module} has: {', '.join(near)}" + ("" if len(near) == len(known) else ", …")

    def _failed(self, text: str) -> ScriptEnd:
        if len(text) > _LONGEST_FAILURE:
            half = _LONGEST_FAILURE // 2
            text = f"{text[:half]}\n…\n{text[-half:]}"
        return ScriptEnd(NO_VALUE, self._session.printed, self._made, text)

    async def _started(self, source: ScriptSource, inputs: Mapping[str, Any]) -> Stop:
        if source.unawaited is not None:
            name, line = source.unawaited
            raise ScriptFailed(f"line {line}: {name} is an async function. Write: await {name}(…)")
        self._judge = partial(self._judged, source)
        return await self._session.start(source.code, inputs, self._judge)

    async def _to_end(self, stop: Stop) -> Finished | None:
        """Return the end of the script; None if it pauses."""
        while not isinstance(stop, Finished):
            later = await self._waited(stop)
            if later is None:
                return None
            stop = later
        return stop

    # -- pauses --------------------------------------------------------------------------------------

    async def _paused(self, left: float) -> PausedRun:
        held = tuple(
            HeldCall(id, tool.path, json.encode(arguments), place)
            for id, (tool, arguments, place) in self._held.items()
        )
        try:
            state = await self._session.dump()
        except ScriptFailed as failure:
            first = self._asked[0].path
            raise ScriptFailed(
                f"the script cannot wait for the approval of {first}: {failure.text}"
            ) from None
        return PausedRun(
            state, self._session.printed, held, tuple(self._asked), self._accepted,
            self._made, self._over, left,
        )  # fmt: skip

    async def _restored(self, source: ScriptSource, paused: PausedRun, undecided: Container[str]) -> Stop:
        self._judge = partial(self._judged, source)
        stop = await self._session.restore(paused.state, paused.printed, self._judge)
        for held in paused.held:
            self._held[held.id] = (self._known(held.path), json.decode(held.arguments), held.place)
        for asked in paused.asked:
            self._running[asked.id] = asyncio.ensure_future(
                self._again(asked, given_up=asked.approval in undecided)
            )
        return stop

    def _known(self, path: str) -> ScriptTool:
        """Return a tool that the script has called. Raises ScriptFailed if there is no such tool any more."""
        if path not in self._tools:
            raise ScriptFailed(f"{path} is gone: it was there when the script began.")
        return self._tools[path]

    async def _again(self, asked: AskedCall, *, given_up: bool) -> Settled:
        """Try a call again that was asked about. It was never sent."""
        if given_up:
            return Raised("PermissionError", asked.text)
        result = await self._make(asked.id, self._known(asked.path), json.decode(asked.arguments))
        return Raised("PermissionError", result.text) if isinstance(result, AskedCall) else result

    # -- calls ---------------------------------------------------------------------------------------

    def _judged(self, source: ScriptSource, call: ToolCalled) -> Raised | None:
        """Accept a call, or return an exception for the script.

        Raises ScriptFailed at the limit of calls.
        """
        if call.place in source.used_at_once and not call.awaited:
            missing = AWAIT.format(call=f"{call.function}(…)")
            return Raised("TypeError", f"{_line_of(source, call.place)}: {missing}")
        tool = self._tools[call.function]
        try:
            if call.unfit:
                raise WrongArguments(f"{tool.path}: {call.unfit}")
            arguments = tool.arguments(call.given, call.named)
        except WrongArguments as wrong:
            return Raised("TypeError", str(wrong))
        if self._accepted >= self._limits.calls:
            raise ScriptFailed(
                f"the script made {self._limits.calls} calls, which is the limit (setting script_calls)."
            )
        self._accepted += 1
        self._held[call.id] = (tool, arguments, call.place)
        return None

    async def _waited(self, stop: Waiting) -> Stop | None:
        """Make all calls that were accepted, and give the script the results of those that have ended.

        Return None if the script waits only for calls that a person has to approve.
        """
        if len(stop.ids) == 1 and not self._running and (id := stop.ids[0]) in self._held:
            return await self._settled({id: await self._make(id, *self._taken(id))})  # the usual case
        for id in stop.ids:
            if id in self._held:
                self._running[id] = asyncio.ensure_future(self._make(id, *self._taken(id)))
        while waited := {id: self._running[id] for id in stop.ids if id in self._running}:
            await asyncio.wait(waited.values(), return_when=asyncio.FIRST_COMPLETED)
            ended = {id: self._running.pop(id).result() for id, task in waited.items() if task.done()}
            if (later := await self._settled(ended)) is not None:
                return later
        if not {asked.id for asked in self._asked}.issuperset(stop.ids):
            raise ScriptFailed("the script waits for a call whose result it did not want before.")
        if self._running:  # sent, and nothing waits for them any more
            await asyncio.wait(self._running.values())
        return None

    async def _settled(self, ended: Mapping[int, Settled | AskedCall]) -> Stop | None:
        """Give results to the script; those of calls that were not sent are put aside."""
        self._asked += [result for result in ended.values() if isinstance(result, AskedCall)]
        results = {id: result for id, result in ended.items() if not isinstance(result, AskedCall)}
        return await self._session.settle(results, self._judge) if results else None

    def _taken(self, id: int) -> tuple[ScriptTool, dict[str, Any]]:
        tool, arguments, _ = self._held.pop(id)
        self._made += 1
        return tool, arguments

    async def _make(self, id: int, tool: ScriptTool, arguments: dict[str, Any]) -> Settled | AskedCall:
        async with self._turns:
            result = await self._perform(tool, arguments)
        if isinstance(result, Asking):
            return AskedCall(id, tool.path, json.encode(arguments), *result)
        self._over += 1
        self._progress(self._over, tool.name)
        return result

    async def _stop_calls(self) -> None:
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    # -- the end -------------------------------------------------------------------------------------

    def _check_awaited(self, source: ScriptSource, value: Raw) -> None:
        """Raise ScriptFailed if the script has not awaited a call: it would have an empty result."""
        if self._held:
            tool, _, place = next(iter(self._held.values()))
            raise ScriptFailed(
                f"{_line_of(source, place)}: {tool.path} was not called, because nothing awaits the call. "
                f"{AWAIT.format(call=f'{tool.path}(…)')}"
            )
        shown = (json.text(value) or "") if len(value) < _SHORT else ""
        if shows_coroutine(shown) or shows_coroutine(self._session.printed):
            raise ScriptFailed("the script used an async function without await. Write: await function(…)")


def _line_of(source: ScriptSource, place: tuple[int, int]) -> str:
    before = source.code.encode("utf-8", "surrogatepass")[: max(place[0], 0)]
    return f"line {before.count(bytes([10])) + 1}"
