"""Instructions and lists of tools for an assistant, by mode. Lists are kept as bytes.

The list of mode *search* costs tokens in every conversation. So it leaves out parameters that are seldom
used, which ``describe_tools`` and mode *full* show. It is fixed by settings, not by data: the disclosure
tools, then the pinned tools. It is the same for every client and over time, which also keeps clients' prompt
caches valid.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import visible_tools
from tabane.catalog.tools.catalog import definition_for
from tabane.catalog.tools.tool import OWN, Tool, read_tool
from tabane.code.table import RUN
from tabane.hub.clients.server_access import view_of
from tabane.operations import Access, Face, Operation, OperationTable, input_schema
from tabane.search.snippets import one_line
from tabane.servers.server import Server
from tabane.settings import Mode
from tabane.text.cutting import shortened
from tabane.wire import json

_SEARCHING = ("search_tools", "describe_tools", "call_tool", "call_readonly_tool", "read_more")

DISCLOSING = (*_SEARCHING, RUN)
"""Tools that find, describe and call the others."""

LISTED = (*_SEARCHING, "search_everything", "read_url_content", "put_document")
"""The tools of mode search, in order."""

SCRIPTING = ("search_tools", RUN, "read_more")
"""The tools of mode code, in order. The last one is listed with all its parameters."""

_SEARCH_IN_SCRIPTS = (
    "Find tools of all the user's MCP servers by task, before you say you cannot do it, as functions "
    "for run_script."
)

FIXED: frozenset[Mode] = frozenset({"search", "code"})
"""The modes whose list of tools is fixed by settings."""

MOST_LISTS = 32
"""Lists of restricted identities that are kept."""

MOST_NAMED = 6
"""Servers that the instructions name: more do not help to decide whether to search."""

_ABOUT = 60
"""Characters of a server's description in the instructions."""


_INSTRUCTIONS: dict[Mode, str] = {
    "search": "Search before saying that you cannot: search_tools finds the user's MCP tools (server__tool); "
    "for several steps send queries. Then describe_tools, then call_tool.",
    "light": "Look here before saying that you cannot: these are the user's MCP tools (server__tool), with "
    "their descriptions cut. Read one with describe_tools before you call it.",
    "full": "Look here before saying that you cannot: these are the user's MCP tools (server__tool).",
    "code": "Search before saying that you cannot: search_tools finds the user's MCP tools, as async "
    "functions of Python; for several steps send queries. Then call them in run_script: from tools "
    "import server; await server.tool(…).",
}

_OWN = {
    "search_everything": "The user's posts, documents and pages: search_everything",
    "put_document": "remember something: put_document",
    "read_url_content": "open a link: read_url_content",
}
"""When to use the most important of the hub's own tools, as the instructions say it."""


class Disclosure:
    """Lists and instructions, made from the table of operations and the catalog."""

    def __init__(self, table: OperationTable, gateway: Gateway) -> None:
        self._table, self._gateway = table, gateway
        self._lists: dict[tuple[Hashable, ...], tuple[Access, bytes]] = {}

    # Each list is made at its first use: the schemas of all operations cost as much as fifty modules.

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        return {each.name: each for each in self._table.with_face(Face.MCP) if not each.alias_of}

    @cached_property
    def _definitions(self) -> Mapping[str, bytes]:
        return {name: json.encode(definition(each)) for name, each in self._operations.items()}

    @cached_property
    def _search_definitions(self) -> Mapping[str, bytes]:
        """The definitions in mode search, by name."""
        return {name: self._brief_definition(name) for name in LISTED if name in self._operations}

    @cached_property
    def _code_definitions(self) -> Mapping[str, bytes]:
        """The definitions in mode code, by name."""
        operations = self._operations
        found = {name: self._brief_definition(name) for name in SCRIPTING[:-1] if name in operations}
        last = SCRIPTING[-1]
        if (searching := operations.get("search_tools")) is not None:
            scripted = structs.replace(searching, description=_SEARCH_IN_SCRIPTS)
            found["search_tools"] = json.encode(definition(scripted, brief=True))
        if last in operations:
            found[last] = json.encode(definition(operations[last]))
        return {name: found.get(name, b"") for name in SCRIPTING}

    def _brief_definition(self, name: str) -> bytes:
        return json.encode(definition(self._operations[name], brief=True))

    def built_in(self, name: str, access: Access) -> bytes | None:
        """Return the definition of a built-in tool; None if there is none of that name for this access."""
        return self._definitions[name] if self._may_call(name, access) else None

    def _may_call(self, name: str, access: Access) -> bool:
        """Return whether there is a built-in tool of that name for this access."""
        found = self._operations.get(name)
        return found is not None and access.allows(found.target)

    def instructions(self, mode: Mode, access: Access) -> str:
        """Return the instructions for a model: when and how to find tools, and which servers have them.

        A client may show only the first 512 characters. What comes last are names of servers.
        """
        shown = {name: how for name, how in _OWN.items() if mode != "code"}  # which calls them as functions
        own = [how for name, how in shown.items() if access.everything or self._may_call(name, access)]
        own_tools = f" {'; '.join(own)}." if own else ""
        return f"{_INSTRUCTIONS[mode]}{own_tools}{self._name_servers(access)}"

    def _name_servers(self, access: Access) -> str:
        """Name a few servers for a model, first those that a person described."""
        seen = [each for each in self._gateway.servers.values() if self._gateway.sees(access, each)]
        servers = sorted((each for each in seen if not each.disabled), key=lambda each: not each.description)
        if not servers:
            return ""
        named = ", ".join(_introduce_server(server) for server in servers[:MOST_NAMED])
        more = f" and {len(servers) - MOST_NAMED} more" if len(servers) > MOST_NAMED else ""
        return f" Servers: {named}{more}."

    def list_is_ready(self, mode: Mode, access: Access) -> bool:
        """Return whether the list of that mode has the tools of every visible server that is enabled."""
        return not any(
            mode != "code"
            and (server.pin or mode != "search")
            and not server.disabled
            and not self._gateway.catalog.has(server.name)
            and self._gateway.sees(access, server)
            for server in self._gateway.servers.values()
        )

    def tool_list(self, mode: Mode, access: Access, *, apps: bool = False, legacy: bool = False) -> bytes:
        """Return the definitions of a whole list, joined by commas.

        ``apps``: with the tools that only apps may call, for a client that shows apps. ``legacy``: as clients
        up to 2025-11-25 read them.
        """
        if access.everything:
            return b",".join(part for part in self._list_parts(mode, apps, legacy) if part)
        # The version of the catalog counts listings; pinned tools also depend on the servers file.
        pinned = hash(self._gateway.pinned(apps=apps)) if mode == "search" else 0
        version = self._gateway.catalog.version
        key = (mode, apps, legacy, access.holder, view_of(access), access.revision, version, pinned)
        if key not in self._lists:
            if len(self._lists) >= MOST_LISTS:
                self._lists.clear()
            inside = b",".join(
                definition for _, definition in self._visible_tools(mode, access, apps, legacy)
            )
            # The access is kept beside its list, since the id of one that has ended may be that of another.
            self._lists[key] = (access, inside)
        return self._lists[key][1]

    def full_size(self, access: Access) -> int:
        """Return the bytes of the definitions of all tools that this access may call."""
        catalog = self._gateway.catalog
        tools = visible_tools(access, (*catalog.own, *catalog.tools))
        return sum(len(tool.definition) for tool in tools)

    def tool_count(self, mode: Mode) -> int:
        """Return the largest number of tools that the list can have."""
        return len(self._operations) + (0 if mode in FIXED else self._gateway.catalog.count)

    def tool_items(
        self, mode: Mode, access: Access, *, apps: bool = False, legacy: bool = False
    ) -> list[tuple[str, bytes]]:
        """Return the tools of the list: name and definition of each."""
        if mode in FIXED:
            # Short by design: one page, even with pinned tools.
            return [("", self.tool_list(mode, access, apps=apps, legacy=legacy))]
        return self._visible_tools(mode, access, apps, legacy)

    def _visible_tools(self, mode: Mode, access: Access, apps: bool, legacy: bool) -> list[tuple[str, bytes]]:
        """Return name and definition of each tool of the list that this access may call."""
        from tabane.catalog.tools.disclosure import light_definition

        catalog, shown = self._gateway.catalog, definition_for(legacy=legacy)
        if mode in FIXED:
            definitions = self._code_definitions if mode == "code" else self._search_definitions
            listed = [
                (name, definitions[name])
                for name in (SCRIPTING if mode == "code" else LISTED)
                if name in definitions and self._may_call(name, access)
            ]
            if mode == "code":
                return listed
            pinned = visible_tools(access, self._gateway.pinned_tools())
            return listed + [(tool.alias, shown(tool)) for tool in pinned if apps or tool.app.for_model]
        found = visible_tools(access, (*catalog.own, *catalog.tools))
        tools = [tool for tool in found if apps or tool.app.for_model]
        if mode == "full":
            return [(tool.alias, shown(tool)) for tool in tools]
        reading = [("describe_tools", self._definitions["describe_tools"])]
        return reading + [(tool.alias, light_definition(tool)) for tool in tools]

    def _list_parts(self, mode: Mode, apps: bool, legacy: bool) -> list[bytes]:
        if mode == "code":
            return list(self._code_definitions.values())
        if mode == "search":
            return [
                *self._search_definitions.values(),
                self._gateway.pinned(apps=apps, legacy=legacy),
            ]
        if mode == "light":
            return [self._definitions["describe_tools"], self._gateway.catalog.light(apps=apps)]
        return [self._gateway.catalog.full(apps=apps, legacy=legacy)]


def _introduce_server(server: Server) -> str:
    about = shortened(one_line(server.description), _ABOUT).rstrip(".")
    return f"{server.name} ({about})" if about else server.name


def own_names(table: OperationTable) -> list[str]:
    """Return the names of :func:`own_tools`, without making the tools."""
    named = (each.name for each in table.with_face(Face.MCP) if not each.alias_of)
    return [name for name in named if name not in DISCLOSING]


def own_tools(table: OperationTable) -> list[Tool]:
    """Return the hub's operations that are found like tools of servers: all but the disclosure tools."""
    return _tools(each for each in table.with_face(Face.MCP) if not each.alias_of)


def old_names(table: OperationTable) -> list[Tool]:
    """Return operations that are old names of tools: they can be called and described, but are not listed."""
    return _tools(each for each in table.with_face(Face.MCP) if each.alias_of)


def _tools(operations: Iterable[Operation]) -> list[Tool]:
    server = Server(OWN)
    found = (
        (read_tool(json.encode(definition(operation)), server, operation.name), operation.target)
        for operation in operations
        if operation.name not in DISCLOSING
    )
    return [structs.replace(tool, target=target) for tool, target in found if tool is not None]


def definition(operation: Operation, *, brief: bool = False) -> dict[str, object]:
    """Return an operation as a tool of MCP. ``brief``: without the parameters that are seldom used."""
    shown: dict[str, object] = {
        "name": operation.name,
        "title": operation.label or operation.name.replace("_", " ").capitalize(),
        "description": operation.description,
        "inputSchema": _for_models(input_schema(operation.params), _UNLISTED if brief else _UNSHOWN),
    }
    annotations = {"readOnlyHint": True} if operation.read_only else {}
    if annotations or operation.annotations:
        shown["annotations"] = {**annotations, **operation.annotations}
    return shown


_SILENT = frozenset({"minLength", "maxLength", "minItems", "maxItems", "seldom"})
_UNSHOWN = frozenset({"programs"})
_UNLISTED = frozenset({"programs", "seldom"})
_FAR = 10
"""A limit so many times the default, or so small a part of it, is not reached by accident."""

_ENDLESS = 1_000_000


def _for_models(schema: dict[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    """Return the schema without what a model does not need: the list costs tokens in every conversation.

    Left out are parameters with one of these marks, limits that nobody reaches by accident, defaults that are
    the same as nothing, and that no other parameter is accepted. The door checks all of it and says so.
    """
    properties = {
        name: _schema_part(part) for name, part in schema["properties"].items() if left_out.isdisjoint(part)
    }
    return {key: value for key, value in schema.items() if key != "additionalProperties"} | {
        "properties": properties
    }


def _schema_part(part: dict[str, Any]) -> dict[str, Any]:
    usual = part.get("default")
    most, least = _ENDLESS, 1.0
    if isinstance(usual, int) and not isinstance(usual, bool):
        most, least = usual * _FAR, max(usual / _FAR, least)
    return {
        key: value
        for key, value in part.items()
        if key not in _SILENT
        and not (key == "default" and (value is False or value == {}))
        and not (key == "maximum" and value >= most)
        and not (key == "minimum" and value <= least)
    }
