"""The operation run_script: one script in the sandbox, over the tools of its caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct

from tabane import __version__
from tabane.code.host_messages import ScriptLimits
from tabane.code.sandbox import (
    LIFE,
    PausedRun,
    Raised,
    Returned,
    ScriptFailed,
    ScriptSnapshot,
    Settled,
    SnapshotRefused,
)
from tabane.code.script_run import (
    LONGEST_AT_ONCE,
    NO_VALUE,
    Asking,
    ScriptEnd,
    ScriptRun,
    ScriptSource,
    modules_of,
    read_source,
)
from tabane.code.signatures import ScriptTool
from tabane.code.table import RunScript
from tabane.errors import (
    ApprovalRequired,
    BadArguments,
    CallerError,
    Forbidden,
    RateLimited,
    TabaneError,
    UpstreamTimeout,
)
from tabane.messages import Lang, say
from tabane.operations import Caller
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.code.monty_sandbox import MontySandbox


class ScriptReport(Struct, frozen=True):
    """How a script ended. ``value`` is the result as JSON, ``output`` what it printed.

    ``error`` is why it failed, ``script`` its id in the audit log, ``calls`` the number of calls of tools,
    ``ms`` its duration.
    """

    script: str
    value: Raw
    output: str
    calls: int
    ms: float
    error: str = ""


class CallableTools(Protocol):
    """The tools that scripts can call."""

    async def used(self, caller: Caller, source: ScriptSource) -> Sequence[ScriptTool]:
        """Return the tools that a script may use and its caller may call."""
        ...

    async def call(self, caller: Caller, name: str, arguments: dict[str, Any]) -> Raw:
        """Call a tool through the door, and return its result. Raises TabaneError."""
        ...


class ScriptWatch(Protocol):
    """Whoever follows a running script."""

    def progressed(self, ended: int, tool: str) -> None:
        """Note that a call has ended, the ``ended``-th of the script."""
        ...

    def runs(self, run: ScriptRun) -> None:
        """Note that the script runs, or goes on, as this run."""
        ...

    async def undecided(self, snapshot: ScriptSnapshot) -> frozenset[str]:
        """Return the approvals of a script about which nobody has decided yet."""
        ...

    async def decided(self, snapshot: ScriptSnapshot, versions: str) -> frozenset[str]:
        """Wait for a person, and return the approvals of a script about which nobody has decided.

        Raises SnapshotRefused if the script cannot be paused, or any other error to leave it paused:
        then :meth:`Scripts.resume` goes on with it.
        """
        ...


class Scripts:
    """Runs scripts. ``sandbox`` makes the sandbox, with the first script; ``limits`` are those in force."""

    def __init__(
        self,
        tools: CallableTools,
        limits: Callable[[], ScriptLimits],
        timeout: Callable[[], float],
        sandbox: Callable[[ScriptLimits], MontySandbox],
    ) -> None:
        self._tools, self._limits, self._timeout = tools, limits, timeout
        self._make = sandbox
        self._sandbox: MontySandbox | None = None

    @property
    def versions(self) -> str:
        """The versions that a snapshot is bound to."""
        return f"tabane {__version__}, interpreter {self._open_sandbox().version}"

    async def run(self, caller: Caller, params: RunScript, watch: ScriptWatch) -> ScriptReport:
        """Run a script, and report how it ended. Raises BadArguments for names that are no variables.

        ``caller`` has the id of the script.
        """
        for name in params.inputs:
            if not name.isidentifier():
                raise BadArguments(say("inputs: {name} is not the name of a variable.", name=name), "inputs")
        began = time.time()
        try:
            source = await _read_script(params.code)
            seconds = params.timeout or self._timeout()
            end = await self._run_in_sandbox(
                caller, source, watch, lambda run: run.run(source, params.inputs, seconds)
            )
        except ScriptFailed as failure:
            return self._report_end(caller, ScriptEnd(NO_VALUE, "", 0, failure.text), began)
        return await self._run_to_end(caller, source, end, began, watch)

    async def resume(self, caller: Caller, snapshot: ScriptSnapshot, watch: ScriptWatch) -> ScriptReport:
        """Go on with a paused script, and report how it ended. ``caller`` is whoever has begun it."""
        source, undecided = await _read_script(snapshot.code), await watch.undecided(snapshot)
        end = await self._resume_run(caller, source, snapshot.run, watch, undecided)
        return await self._run_to_end(caller, source, end, snapshot.began, watch)

    async def close(self) -> None:
        """End the processes of the sandbox."""
        if self._sandbox is not None:
            await self._sandbox.close()

    async def _run_to_end(
        self,
        caller: Caller,
        source: ScriptSource,
        end: ScriptEnd | PausedRun,
        began: float,
        watch: ScriptWatch,
    ) -> ScriptReport:
        while isinstance(end, PausedRun):
            paused = end
            expires = time.time() + LIFE
            holder = caller.access.holder
            snapshot = ScriptSnapshot(caller.script, holder, source.code, paused, began, expires)
            try:
                undecided = await watch.decided(snapshot, self.versions)
            except SnapshotRefused as refused:
                why = f"the script cannot wait for the approval of {paused.asked[0].path}: {refused}"
                end = ScriptEnd(NO_VALUE, paused.printed, paused.made, why)
            else:
                end = await self._resume_run(caller, source, paused, watch, undecided)
        return self._report_end(caller, end, began)

    async def _resume_run(
        self,
        caller: Caller,
        source: ScriptSource,
        paused: PausedRun,
        watch: ScriptWatch,
        undecided: frozenset[str],
    ) -> ScriptEnd | PausedRun:
        try:
            return await self._run_in_sandbox(
                caller, source, watch, lambda run: run.go_on(source, paused, undecided)
            )
        except ScriptFailed as failure:
            return ScriptEnd(NO_VALUE, paused.printed, paused.made, failure.text)

    def _report_end(self, caller: Caller, end: ScriptEnd, began: float) -> ScriptReport:
        ms = round(max(time.time() - began, 0.0) * 1000, 1)
        return ScriptReport(caller.script, end.value, end.printed, end.calls, ms, end.failure)

    def _open_sandbox(self) -> MontySandbox:
        if self._sandbox is None:
            self._sandbox = self._make(self._limits())
        return self._sandbox

    async def _run_in_sandbox(
        self,
        caller: Caller,
        source: ScriptSource,
        watch: ScriptWatch,
        work: Callable[[ScriptRun], Awaitable[ScriptEnd | PausedRun]],
    ) -> ScriptEnd | PausedRun:
        tools, limits = await self._tools.used(caller, source), self._limits()

        async def perform(tool: ScriptTool, arguments: dict[str, Any]) -> Settled | Asking:
            return await self._perform_call(caller, tool, arguments)

        async with self._open_sandbox().session(modules_of(tools), limits) as session:
            run = ScriptRun(session, tools, limits, perform, watch.progressed)
            watch.runs(run)
            return await work(run)

    async def _perform_call(
        self, caller: Caller, tool: ScriptTool, arguments: dict[str, Any]
    ) -> Settled | Asking:
        """Call a tool. What it answers, and why it could not be called, is for the script."""
        try:
            result = await self._tools.call(caller, tool.name, arguments)
        except ApprovalRequired as error:
            return Asking(error.approval, error.text(caller.lang))
        except TabaneError as error:
            if isinstance(error, RateLimited):
                await asyncio.sleep(error.pause)  # the caller ignores that it is over its limits
            return Raised(_exception_name(error), error.text(caller.lang))
        if len(result) > (most := self._limits().memory):
            return Raised(
                "RuntimeError",
                f"the result of {tool.path} has {len(result) >> 20} MiB, but the script has {most >> 20} MiB "
                "(setting script_memory). Ask the tool for less.",
            )
        return Returned(result, tool.wrapped)


async def _read_script(code: str) -> ScriptSource:
    if len(code) > LONGEST_AT_ONCE:
        return await asyncio.to_thread(read_source, code)
    return read_source(code)


def _exception_name(error: TabaneError) -> str:
    """Return the exception of Python that a script can catch."""
    if isinstance(error, Forbidden):
        return "PermissionError"
    if isinstance(error, UpstreamTimeout):
        return "TimeoutError"
    return "ValueError" if isinstance(error, CallerError) else "RuntimeError"


NOTHING = "(no result: end the script with an expression, or print)"


def report_text(report: ScriptReport, lang: Lang) -> str:
    """Return a report for a model: what was printed, then the result or the error."""
    text = json.text(report.value)
    result = report.error or (bytes(report.value).decode() if text is None else text)
    if not report.error and bytes(report.value) == b"null":
        result = "" if report.output else NOTHING
    return "\n".join(part for part in (report.output.rstrip("\n"), result) if part)
