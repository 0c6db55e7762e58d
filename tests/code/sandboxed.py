"""Scripts in a real sandbox, over tools that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tabane.code.limits import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox, MontySession
from tabane.code.sandbox import Raised, Returned, Settled
from tabane.code.script_run import ScriptEnd, ScriptRun, modules_of
from tabane.code.signatures import ScriptTool
from tabane.code.source_checks import read_source
from tests.harness.patience import LONG

OBJECT: dict[str, Any] = {"type": "object", "properties": {"q": {}}, "additionalProperties": False}

TOOLS = (
    ScriptTool("github", "search", "github__search", "Search.", OBJECT),
    ScriptTool("github", "fail", "github__fail", "Fail.", OBJECT),
    ScriptTool("notes", "search", "notes__search", "Search.", OBJECT),
    ScriptTool("", "read_page", "read_page", "Read a page.", OBJECT),
)

Answer = Callable[[ScriptTool, dict[str, Any]], Awaitable[Settled]]


async def echo(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
    """Answer with what was asked; tools named ``fail`` fail."""
    if tool.function == "fail":
        return Raised("RuntimeError", f"{tool.name} says no")
    return Returned({"tool": tool.name, **arguments})


class ScriptTrial:
    """Runs scripts in one sandbox. ``calls`` are those that reached a tool, ``seen`` the last session."""

    def __init__(self, sandbox: MontySandbox) -> None:
        self._sandbox = sandbox
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.seen: MontySession | None = None
        self.current: ScriptRun | None = None

    async def run(
        self,
        code: str,
        *,
        answer: Answer = echo,
        limits: ScriptLimits | None = None,
        seconds: float = LONG,
        inputs: dict[str, Any] | None = None,
    ) -> ScriptEnd:
        async def perform(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            self.calls.append((tool.name, arguments))
            return await answer(tool, arguments)

        source, limits = read_source(code), limits or ScriptLimits()
        async with self._sandbox.session(modules_of(TOOLS), limits) as session:
            self.seen = session
            self.current = run = ScriptRun(session, TOOLS, limits, perform)
            return await run.run(source, inputs or {}, seconds)


@asynccontextmanager
async def trial(limits: ScriptLimits | None = None) -> AsyncIterator[ScriptTrial]:
    """Open a sandbox of one worker."""
    sandbox = MontySandbox(limits or ScriptLimits(workers=1))
    try:
        yield ScriptTrial(sandbox)
    finally:
        await sandbox.close()


def tried(work: Callable[[ScriptTrial], Coroutine[Any, Any, None]]) -> None:
    """Do work with a sandbox, in an event loop of its own."""

    async def inside() -> None:
        async with trial() as found:
            await work(found)

    asyncio.run(inside())


def ran(code: str, **options: Any) -> tuple[ScriptEnd, list[tuple[str, dict[str, Any]]]]:
    """Run one script, and return how it ended with the calls that reached a tool."""

    async def inside() -> tuple[ScriptEnd, list[tuple[str, dict[str, Any]]]]:
        async with trial() as found:
            end = await found.run(code, **options)
            return end, found.calls

    return asyncio.run(inside())
