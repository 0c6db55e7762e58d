"""Catalog of all tools of all upstreams under their public names, and the lists for clients.

It is built from listings, and updated when servers list again. Lists for clients are built once and kept as
bytes. The rules ``allow``, ``pin`` and ``confirm`` of a server name its tools by patterns.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from msgspec import Raw, structs

from tabane.catalog.tools.aliases import AliasMap
from tabane.catalog.tools.app_metadata import with_own_page
from tabane.catalog.tools.definition_repair import RepairReport, legacy_definition
from tabane.catalog.tools.overridden_tool import read_overridden, shown_names
from tabane.catalog.tools.tool import Tool, by_key, read_tool
from tabane.messages import Message, say
from tabane.operations import Caller, CallTarget
from tabane.operations.door import CallVerdict
from tabane.servers.server import Server
from tabane.wire.json import fields, join, quote

_ToolMaker = Callable[[], Iterable[Tool]]

PIN_UI = "ui"
"""Pattern of ``pin`` for all tools with a page. A tool of this name is pinned by it as well."""


class ToolCatalogPlan(NamedTuple):
    """The tools of a server as they will be listed, with the names given before and by it."""

    server: str
    before: AliasMap
    aliases: AliasMap
    tools: tuple[Tool, ...]
    report: RepairReport


class ToolCatalog:
    """Tools by alias. ``version`` changes whenever what a client could see has changed."""

    def __init__(self, aliases: AliasMap) -> None:
        self.aliases = aliases
        self.version = 0
        self._own_tools: _ToolMaker = tuple
        self._unlisted_tools: _ToolMaker = tuple
        self._by_server: dict[str, tuple[Tool, ...]] = {}
        self._by_alias: dict[str, Tool] = {}
        self._held: dict[str, tuple[Tool, ...]] = {}
        self._reports: dict[str, RepairReport] = {}
        self._lists: dict[tuple[str, bool, Callable[[Tool], bytes]], bytes] = {}
        self._pages: dict[str, frozenset[str]] | None = None
        self._app_tools: dict[str, list[Tool]] | None = None

    def put(
        self,
        server: Server,
        definitions: Iterable[Raw],
        digests: Mapping[str, bytes] = {},
        held: Collection[str] = (),
    ) -> bool:
        """Store what a server listed, without what its configuration hides; return whether anything changed.

        An invalid definition, or one with a repeated name, is left out and logged. ``digests`` are those of
        the definitions by name. Those whose names are ``held`` are not offered.
        """
        return self.adopt(self.plan(server, definitions, digests), held)

    def plan(
        self, server: Server, definitions: Iterable[Raw], digests: Mapping[str, bytes] = {}
    ) -> ToolCatalogPlan:
        """Plan what :meth:`put` would take, without a change. May run in a thread before :meth:`adopt`."""
        report = RepairReport("tools/list")
        named = by_key(server.name, "tool", definitions, report, sys.maxsize)
        named = {name: definition for name, definition in named.items() if allowed(server, name)}
        before = self.aliases
        shown = shown_names(server, named)
        aliases = before.with_names(server.name, server.namespace, shown.values())
        return ToolCatalogPlan(
            server.name, before, aliases, tuple(_read_tools(server, aliases, named, shown, digests)), report
        )

    def fits(self, plan: ToolCatalogPlan) -> bool:
        """Return whether no name was assigned since the plan was made."""
        return plan.before is self.aliases

    def adopt(self, plan: ToolCatalogPlan, held: Collection[str] = ()) -> bool:
        """Adopt a plan, which must fit; return whether anything changed. ``held`` are not offered."""
        self.aliases = plan.aliases
        self._reports[plan.server] = plan.report
        self._held.pop(plan.server, None)
        if not held:
            return self._set(plan.server, plan.tools)
        self._held[plan.server] = tuple(tool for tool in plan.tools if tool.name in held)
        return self._set(plan.server, tuple(tool for tool in plan.tools if tool.name not in held))

    def provide(self, tools: _ToolMaker, unlisted: _ToolMaker = tuple) -> None:
        """Take what makes the hub's own tools. Their names are reserved, so no server has them.

        Tools that are ``unlisted`` are found only by their exact names, if no server has a tool of that
        name. Both are made at their first use: most calls are of tools of servers.
        """
        self._own_tools, self._unlisted_tools = tools, unlisted

    @cached_property
    def own(self) -> tuple[Tool, ...]:
        """The hub's own tools."""
        return tuple(self._own_tools())

    @cached_property
    def _own(self) -> Mapping[str, Tool]:
        return {tool.alias: tool for tool in self.own}

    @cached_property
    def _unlisted(self) -> Mapping[str, Tool]:
        return {tool.alias: tool for tool in self._unlisted_tools()}

    def remove(self, server: str) -> bool:
        """Remove the tools of a server. Its aliases stay reserved."""
        self._held.pop(server, None)
        self._reports.pop(server, None)
        return self._set(server, None)

    def repairs(self, server: str) -> list[Message]:
        """Return what was repaired and left out of the tools of a server."""
        return self._reports[server].messages() if server in self._reports else []

    def held(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of a server that are held back."""
        return self._held.get(server, ())

    def find_held(self, name: str) -> Tool | None:
        """Return the tool of that name, as :meth:`find` understands it, that is held back."""
        if not self._held:
            return None
        names = (name, self.aliases.resolve(name))
        return next((tool for tools in self._held.values() for tool in tools if tool.alias in names), None)

    def get(self, alias: str) -> Tool | None:
        """Return the tool with exactly that public name; None if there is none."""
        return self._by_alias.get(alias) or self._own.get(alias)

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name: an alias, or ``server.tool`` or ``server__tool`` with its name."""
        tool = self._by_alias.get(name) or self._own.get(name)
        if tool is None:
            tool = self._by_alias.get(self.aliases.resolve(name) or "")
        return tool or self._unlisted.get(name)

    def of_server(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of a server, as it lists them."""
        return self._by_server.get(server, ())

    def for_models(self, server: str) -> list[Tool]:
        """Return the tools of a server without those that only its app may call."""
        return [tool for tool in self.of_server(server) if tool.app.for_model]

    def with_page(self, uri: str | None = None) -> tuple[str, ...]:
        """Return the servers that have a tool with that page, or with any."""
        return tuple(
            server for server, pages in self._paged().items() if (uri in pages if uri is not None else pages)
        )

    def for_apps(self, name: str) -> list[Tool]:
        """Return the tools that the apps of servers call by that name, which is their servers' own."""
        if self._app_tools is None:
            self._app_tools = {}
            for server in self.with_page():
                for tool in self.of_server(server):
                    if tool.app.for_app:
                        self._app_tools.setdefault(tool.name, []).append(tool)
        return self._app_tools.get(name, [])

    def _paged(self) -> Mapping[str, frozenset[str]]:
        if self._pages is None:
            pages = {
                server: frozenset(tool.app.page for tool in tools if tool.app.page)
                for server, tools in self._by_server.items()
            }
            self._pages = {server: found for server, found in pages.items() if found}
        return self._pages

    def has(self, server: str) -> bool:
        """Return whether the tools of that server are known."""
        return server in self._by_server

    @property
    def count(self) -> int:
        """Return how many tools the servers have."""
        return len(self._by_alias)

    @property
    def names(self) -> list[str]:
        """Return all names that can be called, including those of the hub's own tools."""
        return [*self._own, *self._by_alias]

    @property
    def tools(self) -> list[Tool]:
        """Return the tools of all servers, by server and then as these list them."""
        return [tool for tools in self._by_server.values() for tool in tools]

    def full(self, *, apps: bool = False, legacy: bool = False) -> bytes:
        """Return the complete definitions, the hub's own first, joined by commas: the inside of a list.

        ``apps``: with the tools that only the apps of their servers may call. ``legacy``: as clients up to
        2025-11-25 read them.
        """
        return self._list("full", (*self.own, *self.tools), definition_for(legacy=legacy), apps)

    def light(self, *, apps: bool = False) -> bytes:
        """Return each tool as its name and first sentence, joined by commas."""
        from tabane.catalog.tools.disclosure import light_definition

        return self._list("light", (*self.own, *self.tools), light_definition, apps)

    def pinned(self, servers: Sequence[Server], *, apps: bool = False, legacy: bool = False) -> bytes:
        """Return the complete definitions of the tools that are always listed, joined by commas."""
        return self._list("pinned", self.pinned_tools(servers), definition_for(legacy=legacy), apps)

    def pinned_tools(self, servers: Sequence[Server]) -> Iterator[Tool]:
        """Yield the tools that are always listed."""
        for server in servers:
            yield from (tool for tool in self.of_server(server.name) if pinned(server, tool))

    def forget_lists(self) -> None:
        """Build the lists again on next use: the pinned tools may have changed."""
        self._lists.clear()

    def _list(self, kind: str, tools: Iterable[Tool], shown: Callable[[Tool], bytes], apps: bool) -> bytes:
        kept = (kind, apps and bool(self.with_page()), shown)
        if kept not in self._lists:
            self._lists[kept] = b",".join(shown(tool) for tool in tools if apps or tool.app.for_model)
        return self._lists[kept]

    def _set(self, server: str, tools: tuple[Tool, ...] | None) -> bool:
        before = self._by_server.get(server)
        if before == tools:
            return False
        for tool in before or ():
            self._by_alias.pop(tool.alias, None)
        if tools is None:
            self._by_server.pop(server, None)
        else:
            self._by_server[server] = tools
            # Servers in order of name: a list must not depend on which server started first.
            self._by_server = dict(sorted(self._by_server.items()))
        for tool in tools or ():
            self._by_alias[tool.alias] = tool
        self._lists.clear()
        self._pages = self._app_tools = None
        self.version += 1
        return True


def _read_tools(
    server: Server,
    aliases: AliasMap,
    named: Mapping[str, Raw],
    shown: Mapping[str, str],
    digests: Mapping[str, bytes],
) -> Iterator[Tool]:
    overrides = {override.tool: override for override in server.overrides}
    for name, definition in named.items():
        alias = aliases.alias_of(server.name, server.namespace, shown[name])
        if not alias:
            continue
        digest = digests.get(name, b"").hex()
        if name in overrides:
            found = read_overridden(bytes(definition), server, alias, overrides[name], shown[name])
            tool = structs.replace(found.tool, digest=digest) if found else None
        else:
            tool = read_tool(bytes(definition), server, alias, digest)
        if tool is not None:
            yield tool


def definition_for(*, legacy: bool) -> Callable[[Tool], bytes]:
    """Return what makes the definition of a tool for clients of an era."""
    return _legacy_definition if legacy else attrgetter("definition")


def _legacy_definition(tool: Tool) -> bytes:
    return legacy_definition(tool.definition)


def allowed(server: Server, name: str) -> bool:
    """Return whether a tool may be seen and called: ``allow`` and ``deny`` are globs, and deny wins.

    A tool that an override hides may not.
    """
    if any(fnmatchcase(name, glob) for glob in server.deny):
        return False
    if any(override.hidden and override.tool == name for override in server.overrides):
        return False
    return not server.allow or any(fnmatchcase(name, glob) for glob in server.allow)


def pinned(server: Server, tool: Tool) -> bool:
    """Return whether a tool is always listed."""
    return pinned_by(server.pin, tool) is not None


def pinned_by(patterns: Iterable[str], tool: Tool) -> str | None:
    """Return which of the patterns of ``pin`` is about a tool; None if none is.

    They are globs on the server's own names. The word ``ui`` stands for the tools with a page, since hosts
    show a page only for a tool that they have in their list, and for those that only an app may call, since
    hosts may look them up there.
    """
    in_ui = bool(tool.app.page) or not tool.app.for_model
    found = (each for each in patterns if (each == PIN_UI and in_ui) or fnmatchcase(tool.name, each))
    return next(found, None)


MOST_SERVERS = 64
"""Servers whose names are kept; each needs one entry for each tool."""


class OwnNames:
    """The tools of a catalog under their servers' own names. They are read again when the catalog changes."""

    def __init__(self, catalog: ToolCatalog) -> None:
        self._catalog = catalog
        self._version = -1
        self._tools: dict[str, dict[str, Tool]] = {}

    def of(self, server: str) -> dict[str, Tool]:
        """Return the tools of a server by name, in its order."""
        if self._version != self._catalog.version or len(self._tools) >= MOST_SERVERS:
            self._tools, self._version = {}, self._catalog.version
        if server not in self._tools:
            self._tools[server] = {tool.shown_name: tool for tool in self._catalog.of_server(server)}
        return self._tools[server]

    def find(self, server: str, name: str) -> Tool | None:
        """Return the tool of that server and name; None if there is none, or it is hidden.

        A tool that the user renamed is found by both names: the page of an app knows only the server's.
        """
        tools = self.of(server)
        return tools.get(name) or next((tool for tool in tools.values() if tool.name == name), None)


def own_definition(tool: Tool) -> bytes:
    """Return the definition of a tool with the name that its server or the user gave it, and its own page."""
    return join({**with_own_page(fields(tool.definition)), "name": Raw(quote(tool.shown_name))})


RULE = "confirm"

MOST_REMEMBERED = 4096
"""Tools of which it is remembered whether a pattern matches; beyond it, the memory begins again."""


class ConfirmRule:
    """Asks for a person before calls of tools that ``confirm`` of their server names.

    A pattern matches the server's own name of a tool, the one that an override gives it, or the public one:
    a tool that is renamed does not get past it. ``find`` returns a tool by its public name.
    """

    def __init__(self, servers: Iterable[Server], find: Callable[[str], Tool | None]) -> None:
        self._find = find
        self._known: dict[str, tuple[Tool | None, bool]] = {}
        self._matches = {
            server.name: re.compile("|".join(map(translate, server.confirm))).match
            for server in servers
            if server.confirm
        }

    def __bool__(self) -> bool:
        """Return whether there is a tool that the rule may be about."""
        return bool(self._matches)

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return that a person has to confirm a call; None if the rule is not about it."""
        matches = self._matches.get(target.server)
        if matches is None or target.kind != "tool":
            return None
        tool = self._find(target.name)
        known = self._known.get(target.name)
        if known is None or known[0] is not tool:
            names = target.names if tool is None else (tool.name, tool.shown_name, *target.names)
            matched = any(matches(name) for name in names)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[target.name] = (tool, matched)
        if not known[1]:
            return None
        reason = say("{server!n} wants each call of this tool to be confirmed.", server=target.server)
        return CallVerdict("ask", RULE, reason)
