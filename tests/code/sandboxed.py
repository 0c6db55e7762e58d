"""Scripts in a real sandbox, over tools that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from msgspec import Raw

from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox, MontySession
from tabane.code.sandbox import PausedRun, Raised, Returned, Settled
from tabane.code.script_run import Asking, ScriptEnd, ScriptRun, modules_of, read_source
from tabane.code.signatures import ScriptTool
from tabane.wire import json
from tests.harness.patience import LONG

OBJECT: dict[str, Any] = {"type": "object", "properties": {"q": {}}, "additionalProperties": False}

TOOLS = (
    ScriptTool("github", "search", "github__search", "Search.", OBJECT),
    ScriptTool("github", "fail", "github__fail", "Fail.", OBJECT),
    ScriptTool("notes", "search", "notes__search", "Search.", OBJECT),
    ScriptTool("", "read_page", "read_page", "Read a page.", OBJECT),
)

Answer = Callable[[ScriptTool, dict[str, Any]], Awaitable[Settled | Asking]]


async def echo(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
    """Answer with what was asked; tools named ``fail`` fail."""
    if tool.function == "fail":
        return Raised("RuntimeError", f"{tool.name} says no")
    return returned({"tool": tool.name, **arguments})


def returned(value: Any) -> Returned:
    """Return what a tool returns whose result is a value."""
    return Returned(Raw(json.encode({"structuredContent": {"result": value}})), wrapped=True)


class TrialEnd(NamedTuple):
    """How a script ended, with its value as an object."""

    value: Any
    printed: str
    calls: int
    failure: str


class ScriptTrial:
    """Runs scripts in one sandbox. ``calls`` are those that reached a tool, ``seen`` the last session, and
    ``paused`` where scripts paused."""

    def __init__(self, sandbox: MontySandbox) -> None:
        self._sandbox = sandbox
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.seen: MontySession | None = None
        self.paused: list[PausedRun] = []

    async def run(self, code: str, *, answer: Answer = echo, **options: Any) -> TrialEnd:
        """Run a script to its end. If it pauses, it goes on at once. Its value is decoded."""
        end = await self._begun(code, answer, **options)
        while isinstance(end, PausedRun):
            self.paused.append(end)
            end = await self.go_on(end, answer=answer)
        return TrialEnd(json.decode(end.value), end.printed, end.calls, end.failure)

    async def pause(self, code: str, *, answer: Answer, **options: Any) -> PausedRun:
        """Run a script to its first pause."""
        end = await self._begun(code, answer, **options)
        assert isinstance(end, PausedRun), end
        return end

    async def _begun(
        self,
        code: str,
        answer: Answer,
        limits: ScriptLimits | None = None,
        seconds: float = LONG,
        inputs: dict[str, Any] | None = None,
    ) -> ScriptEnd | PausedRun:
        self._source, self._limits = read_source(code), limits or ScriptLimits()
        async with self._session(answer) as run:
            return await run.run(self._source, inputs or {}, seconds)

    async def go_on(self, paused: PausedRun, *, answer: Answer) -> ScriptEnd | PausedRun:
        """Go on with the script that was begun last."""
        async with self._session(answer) as run:
            return await run.go_on(self._source, paused)

    @asynccontextmanager
    async def _session(self, answer: Answer) -> AsyncIterator[ScriptRun]:
        async def perform(tool: ScriptTool, arguments: dict[str, Any]) -> Settled | Asking:
            self.calls.append((tool.name, arguments))
            return await answer(tool, arguments)

        async with self._sandbox.session(modules_of(TOOLS), self._limits) as session:
            self.seen = session
            yield ScriptRun(session, TOOLS, self._limits, perform)


@asynccontextmanager
async def script_trial(limits: ScriptLimits | None = None) -> AsyncIterator[ScriptTrial]:
    """Open a sandbox of one worker."""
    sandbox = MontySandbox(limits or ScriptLimits(workers=1))
    try:
        yield ScriptTrial(sandbox)
    finally:
        await sandbox.close()


def ran(code: str, **options: Any) -> tuple[TrialEnd, list[tuple[str, dict[str, Any]]]]:
    """Run one script, and return how it ended with the calls that reached a tool."""

    async def inside() -> tuple[TrialEnd, list[tuple[str, dict[str, Any]]]]:
        async with script_trial() as found:
            end = await found.run(code, **options)
            return end, found.calls

    return asyncio.run(inside())
