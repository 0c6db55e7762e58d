"""Tools that are always listed or hidden: changes of ``pin``, ``deny`` and ``allow`` in the servers file."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import ListHiddenTools, ToolVisibility
from tabane.catalog.tool_rows import tokens
from tabane.catalog.tools.catalog import allowed, pinned, pinned_by
from tabane.catalog.tools.tool import OWN, Tool, original_name, read_tool
from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.servers.editing import ReloadableServersFile, Table, edit_servers
from tabane.servers.server import Server

_SPECIAL = re.compile(r"[*?[]")


class ConfiguredTool(NamedTuple):
    """A tool of a server: its public name, and the server's own name for it."""

    alias: str
    server: Server
    name: str
    tool: Tool


class ToolVisibilityOperations:
    """Pins and hides tools, and lists those that are hidden."""

    def __init__(self, gateway: Gateway, file: ReloadableServersFile) -> None:
        self._gateway, self._file = gateway, file

    async def set(self, caller: Caller, params: ToolVisibility) -> dict[str, Any]:
        """Change the servers file and put it in force. Return whether the tool is pinned and hidden now.

        Raises UnknownName, BadArguments for a tool of the hub itself, and ConfigurationError if a pattern of
        several tools decides, or if the file cannot be changed.
        """
        tool = await self._configured(caller, params.name)
        edit = _Edit(tool, params.pinned, params.hidden)
        if params.pinned is not None or params.hidden is not None:
            await asyncio.to_thread(edit_servers, self._file.path, edit.change)
            problem = self._file.reload()
            if problem is not None:
                raise ConfigurationError(problem)
        server = self._gateway.server(tool.server.name)
        return {
            "name": tool.alias,
            "server": server.name,
            "pinned": pinned(server, tool.tool),
            "hidden": not allowed(server, tool.name),
        }

    async def hidden(self, caller: Caller, params: ListHiddenTools) -> dict[str, Any]:
        """Return the tools that servers list and their configuration hides, at most ``limit`` of them."""
        names = [self._gateway.server(params.server).name] if params.server else list(self._gateway.servers)
        found = list(self._hidden(names))
        return {"results": [_row(tool) for tool in found[: params.limit]], "total": len(found)}

    def _hidden(self, names: Iterable[str]) -> Iterator[Tool]:
        for name in names:
            server, listing = self._gateway.servers[name], self._gateway.listing(name)
            if server.disabled or listing is None or not (server.deny or server.allow or server.overrides):
                continue
            for definition in listing.lists.get("tools", ()):
                original = original_name(bytes(definition))
                if original is not None and not allowed(server, original):
                    alias = self._alias(server, original)
                    if (tool := read_tool(bytes(definition), server, alias)) is not None:
                        yield tool

    def _alias(self, server: Server, original: str) -> str:
        """Return the public name of a tool that may never have got one."""
        known = self._gateway.catalogue.aliases.alias_of(server.name, server.namespace, original)
        return known or f"{server.name}__{original}"

    async def _configured(self, caller: Caller, name: str) -> ConfiguredTool:
        for tool in self._hidden(list(self._gateway.servers)):
            if tool.alias == name:
                return ConfiguredTool(tool.alias, self._gateway.servers[tool.server], tool.name, tool)
        tool = await self._gateway.find(caller, name)
        if tool.server == OWN:
            raise BadArguments(
                say(
                    "{name!n} is a tool of Tabane itself. Only tools of servers can be pinned or hidden.",
                    name=name,
                ),
                "name",
            )
        return ConfiguredTool(tool.alias, self._gateway.server(tool.server), tool.name, tool)


class _Edit(NamedTuple):
    """The change of one server's definition."""

    tool: ConfiguredTool
    pinned: bool | None
    hidden: bool | None

    def change(self, servers: Table) -> Message:
        """Change the object of servers in place. Raises ConfigurationError."""
        name = self.tool.server.name
        definition = servers.get(name)
        if not isinstance(definition, dict):
            raise ConfigurationError(say("There is no server {name!n}.", name=name))
        if self.pinned is not None:
            self._pin(definition, self.pinned)
        if self.hidden is not None:
            self._hide(definition, self.hidden)
        lists = {key: definition[key] for key in ("pin", "allow", "deny", "overrides") if key in definition}
        value = json.dumps(lists, ensure_ascii=False)
        return say("set these keys of the server {name!n}: {value}", name=name, value=value)

    def _pin(self, definition: Table, wanted: bool) -> None:
        if wanted and pinned_by(_texts(definition, "pin"), self.tool.tool) is None:
            _add(definition, "pin", self.tool.name)
        elif not wanted:
            self._remove(definition, "pin")

    def _hide(self, definition: Table, wanted: bool) -> None:
        if wanted:
            if not _matches(_texts(definition, "deny"), self.tool.name):
                _add(definition, "deny", self.tool.name)
            return
        self._remove(definition, "deny")
        self._show_overridden(definition)
        allow = _texts(definition, "allow")
        if "allow" in definition and not _matches(allow, self.tool.name):
            _add(definition, "allow", self.tool.name)

    def _show_overridden(self, definition: Table) -> None:
        overrides = definition.get("overrides")
        override = overrides.get(self.tool.name) if isinstance(overrides, dict) else None
        if isinstance(override, dict):
            override.pop("hidden", None)

    def _remove(self, definition: Table, key: str) -> None:
        """Remove the tool from a list. Raises ConfigurationError if a pattern there still names it."""
        name = self.tool.name
        left = [text for text in _texts(definition, key) if text not in (name, _pattern(name))]
        about = pinned_by(left, self.tool.tool) if key == "pin" else None
        if (pattern := about or next((each for each in left if fnmatchcase(name, each)), None)) is not None:
            raise ConfigurationError(
                say(
                    'The pattern "{pattern}" in "{key}" of the server {server!n} names {tool} and '
                    "maybe other tools. Change it in the servers file.",
                    pattern=pattern,
                    key=key,
                    server=self.tool.server.name,
                    tool=self.tool.name,
                )
            )
        if left:
            definition[key] = left
        else:
            definition.pop(key, None)


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.alias,
        "server": tool.server,
        "description": tool.description[:_MOST_DESCRIPTION],
        "pinned": False,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "tokens": tokens(tool.definition),
    }


_MOST_DESCRIPTION = 300


def _add(definition: Table, key: str, name: str) -> None:
    definition[key] = [*_texts(definition, key), _pattern(name)]


def _texts(definition: Table, key: str) -> list[str]:
    """Return a list of the definition. Raises ConfigurationError if it is none of texts."""
    value = definition.get(key, [])
    if key == "pin" and isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigurationError(say('"{key}" must be {allowed}.', key=key, allowed=say("a list of texts")))
    return value


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _pattern(name: str) -> str:
    """Return the pattern that matches this name alone."""
    return _SPECIAL.sub(lambda found: f"[{found[0]}]", name)
