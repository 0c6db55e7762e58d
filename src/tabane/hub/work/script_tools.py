"""The tools of a gateway as the functions of scripts. Imported with the first script, or its signatures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from msgspec import Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find
from tabane.catalog.operations.tool_operations import Learned, Perform
from tabane.catalog.tools.tool import Tool
from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox
from tabane.code.script_run import ScriptSource, ToolNames, module_name
from tabane.code.scripts import Scripts
from tabane.code.signatures import ScriptTool, signatures_text
from tabane.code.table import OPEN
from tabane.errors import HubError
from tabane.extras import extra_command
from tabane.hub.context import HubContext
from tabane.hub.work.script_cage import CagedWorkers
from tabane.messages import say
from tabane.operations import Caller
from tabane.wire import json
from tabane.wire.json import InvalidJson

_OPEN_PARAMS = {
    "type": "object",
    "properties": {"handle": {"type": "string"}, "select": {"type": "string"}},
    "required": ["handle"],
    "additionalProperties": False,
}

MANY = 500
"""Tools above which their names are made in a thread."""


class ScriptTools:
    """The tools of a gateway as functions. Their names are made again when the catalog has changed."""

    def __init__(self, gateway: Gateway, perform: Perform, learned: Learned) -> None:
        self._gateway, self._perform, self._learned = gateway, perform, learned
        self._names: ToolNames | None = None
        self._version, self._own = -1, tuple[Tool, ...]()
        self._known: dict[str, tuple[Tool, ScriptTool]] = {}

    def open_scripts(self, context: HubContext) -> Scripts:
        """Return what runs scripts, as the settings say. Raises HubError if the sandbox is not installed."""
        if find_spec("pydantic_monty") is None:
            raise HubError(
                say("Scripts need a package that is not installed. Run: {command}",
                    command=extra_command("code"))
            )  # fmt: skip

        def limits() -> ScriptLimits:
            settings = context.settings
            return ScriptLimits(
                settings.script_seconds,
                settings.script_memory,
                settings.script_output,
                settings.script_calls,
                settings.script_parallel,
                workers=settings.script_workers,
            )

        def sandbox(limits: ScriptLimits) -> MontySandbox:
            return MontySandbox(limits, program=CagedWorkers(context.home, os.environ).program)

        return Scripts(self, limits, lambda: context.settings.script_timeout, sandbox)

    async def call(self, caller: Caller, name: str, arguments: dict[str, Any]) -> Raw:
        """Call a tool for a script, and return its result. Raises TabaneError."""
        return await self._perform(caller, name, arguments)

    async def used(self, caller: Caller, source: ScriptSource) -> list[ScriptTool]:
        """Return the tools that a script may use, without those that its caller may not find."""
        catalog = self._gateway.catalog
        if any(source.uses(module_name(name)) and not catalog.has(name) for name in self._gateway.servers):
            await self._gateway.lookup.wait_listed(caller)
        names = await self._current()
        found = (self._function(names, each.name) for each in names.used(source) if each.name != OPEN)
        tools = [function for tool, function in found if _callable(caller, tool)]
        return [*tools, _open_result()] if source.uses(OPEN) else tools

    async def signatures(self, caller: Caller, public: Sequence[str]) -> str:
        """Return tools as typed functions: their imports, then their signatures."""
        names = await self._current()
        found = [self._function(names, name) for name in public if name in names.by_name]
        return signatures_text(
            [self._typed(caller, tool, function) for tool, function in found if _callable(caller, tool)]
        )

    def _typed(self, caller: Caller, tool: Tool | None, function: ScriptTool) -> ScriptTool:
        """Return a tool with the type of its results, if that was learned and is not declared."""
        found = self._learned(caller, tool) if tool is not None and function.result is None else None
        if found is None:
            return function
        return structs.replace(function, result=found.schema, learned=found.results)

    async def _current(self) -> ToolNames:
        catalog = self._gateway.catalog
        version, own = catalog.version, catalog.own
        if self._names is None or version != self._version or own is not self._own:
            tools = [(each.server, each.shown_name, each.alias) for each in (*own, *catalog.tools)]
            tools.append(("", OPEN, OPEN))  # so that no server has this name
            made = await asyncio.to_thread(ToolNames, tools) if len(tools) > MANY else ToolNames(tools)
            self._names, self._version, self._own = made, version, own
            self._known.clear()
        return self._names

    def _function(self, names: ToolNames, public: str) -> tuple[Tool | None, ScriptTool]:
        tool = self._gateway.catalog.find(public)
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
