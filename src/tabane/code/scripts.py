"""The operation run_script: one script in the sandbox, over the tools of its caller."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Raw, Struct, structs

from tabane.code.limits import ScriptLimits
from tabane.code.parameters import RunScript
from tabane.code.sandbox import Raised, Returned, Sandbox, ScriptFailed, Settled
from tabane.code.script_run import ScriptEnd, ScriptRun, modules_of
from tabane.code.script_values import NoJson, as_json
from tabane.code.signatures import ScriptTool
from tabane.code.source_checks import LONGEST_AT_ONCE, ScriptSource, read_source
from tabane.code.tool_values import ToolFailed, takes_long, tool_value, without_surrogates
from tabane.errors import (
    BadArguments,
    CallerError,
    Forbidden,
    RateLimited,
    TabaneError,
    UpstreamTimeout,
)
from tabane.messages import say
from tabane.operations import Caller
from tabane.wire import json


def script_id() -> str:
    """Return a new id of a script, for the audit log."""
    return os.urandom(6).hex()


class ScriptReport(Struct, frozen=True):
    """How a script ended. ``value`` is the result, ``output`` what it printed, ``error`` why it failed.

    ``script`` is its id in the audit log, ``calls`` the number of calls of tools, ``ms`` its duration.
    """

    script: str
    value: Any
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

    def runs(self, script: str, run: ScriptRun) -> AbstractContextManager[None]:
        """Note that a script runs, until the end of the block."""
        ...


class Scripts:
    """Runs scripts. ``sandbox`` makes the sandbox, with the first script; ``limits`` are those in force."""

    def __init__(
        self,
        tools: CallableTools,
        limits: Callable[[], ScriptLimits],
        timeout: Callable[[], float],
        sandbox: Callable[[ScriptLimits], Sandbox],
    ) -> None:
        self._tools, self._limits, self._timeout = tools, limits, timeout
        self._make = sandbox
        self._sandbox: Sandbox | None = None

    async def run(self, caller: Caller, params: RunScript, watch: ScriptWatch) -> ScriptReport:
        """Run a script, and report how it ended. Raises BadArguments for names that are no variables."""
        _check_names(params.inputs)
        inputs = without_surrogates(params.inputs)
        caller = structs.replace(caller, script=caller.script or script_id())
        began, limits = time.perf_counter(), self._limits()
        try:
            end = await self._in_sandbox(caller, structs.replace(params, inputs=inputs), limits, watch)
        except ScriptFailed as failure:
            end = ScriptEnd(None, "", 0, failure.text)
        value, error = await asyncio.to_thread(_value_of, end, limits.output)
        ms = round((time.perf_counter() - began) * 1000, 1)
        return ScriptReport(caller.script, value, end.printed, end.calls, ms, error)

    async def close(self) -> None:
        """End the processes of the sandbox."""
        if self._sandbox is not None:
            await self._sandbox.close()

    async def _in_sandbox(
        self, caller: Caller, params: RunScript, limits: ScriptLimits, watch: ScriptWatch
    ) -> ScriptEnd:
        source = await _read(params.code)
        tools = await self._tools.used(caller, source)

        async def perform(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            return await self._perform(caller, tool, arguments)

        if self._sandbox is None:
            self._sandbox = self._make(limits)
        async with self._sandbox.session(modules_of(tools), limits) as session:
            run = ScriptRun(session, tools, limits, perform, watch.progressed)
            with watch.runs(caller.script, run):
                return await run.run(source, params.inputs, params.timeout or self._timeout())

    async def _perform(self, caller: Caller, tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
        """Call a tool. What it answers, and why it could not be called, is for the script."""
        try:
            result = await self._tools.call(caller, tool.name, arguments)
        except TabaneError as error:
            if isinstance(error, RateLimited):
                await asyncio.sleep(error.pause)  # the caller ignores that it is over its limits
            return Raised(_kind(error), error.text(caller.lang))
        try:
            if takes_long(result):
                return Returned(await asyncio.to_thread(tool_value, result, wrapped=tool.wrapped))
            return Returned(tool_value(result, wrapped=tool.wrapped))
        except ToolFailed as error:
            return Raised("RuntimeError", str(error))


async def _read(code: str) -> ScriptSource:
    if len(code) > LONGEST_AT_ONCE:
        return await asyncio.to_thread(read_source, code)
    return read_source(code)


def _kind(error: TabaneError) -> str:
    """Return the exception of Python that a script can catch."""
    if isinstance(error, Forbidden):
        return "PermissionError"
    if isinstance(error, UpstreamTimeout):
        return "TimeoutError"
    return "ValueError" if isinstance(error, CallerError) else "RuntimeError"


def _value_of(end: ScriptEnd, most: int) -> tuple[Any, str]:
    """Return the result of a script in types of JSON, and why it failed."""
    try:
        value = as_json(end.value)
    except NoJson as error:
        return None, str(error)
    size = len(json.encode(value))
    if size > most:
        return None, (
            f"the result has {size >> 10} KiB, but at most {most >> 10} KiB (setting script_output) are "
            "returned. Select what you need in the script."
        )
    return value, end.failure


def _check_names(inputs: Mapping[str, Any]) -> None:
    for name in inputs:
        if not name.isidentifier():
            raise BadArguments(say("inputs: {name} is not the name of a variable.", name=name), "inputs")
