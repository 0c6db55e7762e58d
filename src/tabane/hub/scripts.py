"""Scripts of a hub: the tools that they call, who follows them, and what their calls may change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, structs

from tabane.code.parameters import RunScript
from tabane.code.table import code_table
from tabane.errors import HubError
from tabane.extras import extra_command
from tabane.gateway.gateway import Gateway
from tabane.gateway.tools.tool import Tool
from tabane.gateway.visibility import may_find
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Operation
from tabane.operations.guarding import CallVerdict
from tabane.settings import Settings
from tabane.wire import json
from tabane.wire.json import InvalidJson

if TYPE_CHECKING:
    from tabane.code.limits import ScriptLimits
    from tabane.code.sandbox import Sandbox
    from tabane.code.script_run import ScriptRun
    from tabane.code.scripts import ScriptReport, Scripts
    from tabane.code.signatures import ScriptTool
    from tabane.code.source_checks import ScriptSource
    from tabane.code.tool_names import ToolNames

RULE = "script"

OPEN = "open_result"
"""The function that opens a kept result by its handle."""

_OPEN_PARAMS = {
    "type": "object",
    "properties": {"handle": {"type": "string"}, "select": {"type": "string"}},
    "required": ["handle"],
    "additionalProperties": False,
}

MANY = 500
"""Tools above which their names are made in a thread."""

Perform = Callable[[Caller, str, dict[str, Any]], Awaitable[Raw]]
"""Calls one tool through the door, and returns its result. Raises TabaneError."""


class ScriptClient(Protocol):
    """The request of a client that runs a script."""

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, the ``ended``-th of the script."""
        ...

    async def ask(self, approval: str) -> bool:
        """Ask the client's user for an approval, and return when somebody has decided.

        Return False if the client cannot ask its user in the middle of a request.
        """
        ...


class RunningScript:
    """A script, and the request that runs it; None if nobody follows it."""

    def __init__(self, owner: HubScripts, client: ScriptClient | None) -> None:
        self._owner, self._client = owner, client
        self._run: ScriptRun | None = None

    def progressed(self, ended: int, tool: str) -> None:
        if self._client is not None:
            self._client.progressed(ended, tool)

    @contextmanager
    def runs(self, script: str, run: ScriptRun) -> Iterator[None]:
        self._run = run
        self._owner.running[script] = self
        try:
            yield
        finally:
            del self._owner.running[script]

    async def approved(self, approval: str, wait: Callable[[], Awaitable[object]]) -> None:
        """Ask the user of the client about a call; ``wait`` if that is not possible.

        The time of the script stands still meanwhile.
        """
        assert self._run is not None
        with self._run.paused():
            if self._client is None or not await self._client.ask(approval):
                await wait()


class HubScripts:
    """Runs scripts over the tools of a gateway. The sandbox is imported with the first script."""

    def __init__(self, gateway: Gateway, perform: Perform, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._tools = ScriptTools(gateway, perform)
        self._scripts: Scripts | None = None
        self._clients: dict[str, ScriptClient] = {}
        self.running: dict[str, RunningScript] = {}
        self._origins: dict[str, dict[CallTarget, None]] = {}

    def table(self) -> list[Operation]:
        return code_table(self.run)

    async def run(self, caller: Caller, params: RunScript) -> ScriptReport:
        """Run a script for a caller. Raises HubError if the sandbox is not installed."""
        client = self._clients.get(caller.script)
        return await self._loaded().run(caller, params, RunningScript(self, client))

    @contextmanager
    def followed(self, caller: Caller, client: ScriptClient) -> Iterator[Caller]:
        """Have the script of a request followed by its client. Give the caller for it."""
        from tabane.code.scripts import script_id

        script = script_id()
        self._clients[script], self._origins[script] = client, {}
        try:
            yield structs.replace(caller, script=script)
        finally:
            del self._clients[script], self._origins[script]

    def note_read(self, caller: Caller, target: CallTarget) -> None:
        """Note that a script has read from a tool."""
        if (origins := self._origins.get(caller.script)) is not None:
            origins[target] = None

    def origins(self, caller: Caller) -> tuple[CallTarget, ...]:
        """Return the tools from which a script has read, while its client follows it."""
        return tuple(self._origins.get(caller.script, ()))

    async def signatures(self, caller: Caller, names: Sequence[str]) -> str:
        """Return tools as typed functions: their imports, then their signatures."""
        return await self._tools.signatures(caller, names)

    async def close(self) -> None:
        if self._scripts is not None:
            await self._scripts.close()

    def _loaded(self) -> Scripts:
        if self._scripts is None:
            if find_spec("pydantic_monty") is None:
                raise HubError(
                    say("Scripts need a package that is not installed. Run: {command}",
                        command=extra_command("code"))
                )  # fmt: skip
            from tabane.code.scripts import Scripts

            self._scripts = Scripts(
                self._tools, self._limits, lambda: self._settings().script_timeout, _sandbox
            )
        return self._scripts

    def _limits(self) -> ScriptLimits:
        from tabane.code.limits import ScriptLimits

        settings = self._settings()
        return ScriptLimits(
            settings.script_seconds,
            settings.script_memory,
            settings.script_output,
            settings.script_calls,
            settings.script_parallel,
            workers=settings.script_workers,
        )


def _sandbox(limits: ScriptLimits) -> Sandbox:
    from tabane.code.monty_sandbox import MontySandbox

    return MontySandbox(limits)


class ScriptTools:
    """The tools of a gateway as functions. Their names are made again when the catalog has changed."""

    def __init__(self, gateway: Gateway, perform: Perform) -> None:
        self._gateway, self._perform = gateway, perform
        self._names: ToolNames | None = None
        self._version, self._own = -1, tuple[Tool, ...]()
        self._known: dict[str, tuple[Tool, ScriptTool]] = {}

    async def call(self, caller: Caller, name: str, arguments: dict[str, Any]) -> Raw:
        return await self._perform(caller, name, arguments)

    async def used(self, caller: Caller, source: ScriptSource) -> list[ScriptTool]:
        """Return the tools that a script may use, without those that its caller may not find."""
        from tabane.code.identifiers import identifier

        catalogue = self._gateway.catalogue
        if any(
            source.uses(identifier(name, "server")) and not catalogue.has(name)
            for name in self._gateway.servers
        ):
            await self._gateway.wait_listed(caller)
        names = await self._current()
        found = (self._function(names, each.name) for each in names.used(source) if each.name != OPEN)
        tools = [function for tool, function in found if _callable(caller, tool)]
        return [*tools, _open_result()] if source.uses(OPEN) else tools

    async def signatures(self, caller: Caller, public: Sequence[str]) -> str:
        from tabane.code.signatures import signatures_text

        names = await self._current()
        found = [self._function(names, name) for name in public if name in names.by_name]
        return signatures_text([function for tool, function in found if _callable(caller, tool)])

    async def _current(self) -> ToolNames:
        from tabane.code.tool_names import ToolNames

        catalogue = self._gateway.catalogue
        version, own = catalogue.version, catalogue.own
        if self._names is None or version != self._version or own is not self._own:
            tools = [(each.server, each.shown_name, each.alias) for each in (*own, *catalogue.tools)]
            tools.append(("", OPEN, OPEN))  # so that no server has this name
            made = await asyncio.to_thread(ToolNames, tools) if len(tools) > MANY else ToolNames(tools)
            self._names, self._version, self._own = made, version, own
            self._known.clear()
        return self._names

    def _function(self, names: ToolNames, public: str) -> tuple[Tool | None, ScriptTool]:
        from tabane.code.signatures import ScriptTool

        tool = self._gateway.catalogue.find(public)
        known = self._known.get(public)
        if known is not None and known[0] is tool:
            return known
        named = names.by_name[public]
        if tool is None:
            return None, ScriptTool(named.module, named.function, public)
        made = ScriptTool(
            named.module, named.function, public, tool.description, tool.schema, _result(tool),
            tool.target.changes,
        )  # fmt: skip
        self._known[public] = (tool, made)
        return tool, made


def _open_result() -> ScriptTool:
    from tabane.code.signatures import ScriptTool

    about = "Return a kept result as a value, or what a JMESPath selects of it."
    return ScriptTool("", OPEN, OPEN, about, _OPEN_PARAMS)


def _callable(caller: Caller, tool: Tool | None) -> bool:
    return tool is not None and tool.app.for_model and may_find(caller, tool.target)


def _result(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of the results of a tool; None if it declares none that can be read."""
    try:
        found = json.decode(json.fields(tool.definition).get("outputSchema", Raw(b"null")))
    except InvalidJson:
        return None
    return found if isinstance(found, dict) else None


class ScriptRule:
    """Asks for a person before a script changes something, as ``script_writes`` says.

    A host that lets its user confirm each call of a tool shows the code of a script, not its calls.
    """

    def __init__(self, writes: str) -> None:
        self._refuses = writes == "refuse"

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        if not caller.script or not target.changes or target.kind not in ("tool", "operation"):
            return None
        reason = say("A script calls it, and it is not marked read-only (setting script_writes).")
        return CallVerdict("refuse" if self._refuses else "ask", RULE, reason)

    def answered(self, caller: Caller, target: CallTarget) -> None:
        return None
