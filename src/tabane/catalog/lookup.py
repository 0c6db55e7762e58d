"""Lookup of tools, prompts and resources by name. It waits for servers that have never listed theirs.

A caller finds what it may call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tabane.catalog.catalogs import ServerCatalogs
from tabane.catalog.offers.prompts import Prompt
from tabane.catalog.offers.resources import MOST_SOURCES, ResourceSource, addressed, template_address
from tabane.catalog.tools.aliases import may_belong
from tabane.catalog.tools.app_metadata import kept_scheme
from tabane.catalog.tools.catalog import OwnNames
from tabane.catalog.tools.catalog import pinned as is_pinned
from tabane.catalog.tools.tool import Tool
from tabane.errors import CallerError, TabaneError, UnknownName, UpstreamUnavailable
from tabane.guard.definitions.definition import Kind
from tabane.messages import Message, say
from tabane.operations import Access, Caller, CallTarget, Face
from tabane.servers.server import Server
from tabane.text.nearest_names import nearest, nearest_qualified
from tabane.upstreams.connection import DOWNLOAD_WAIT, UpstreamContext
from tabane.wire.era import SKILLS

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream

START_LOGIN = CallTarget("start_login", source="admin", kind="operation")
"""Stands for the beginning of a login at a server, which is the business of the hub's user."""


class NamedTools(Protocol):
    """Tools by their public names."""

    @property
    def names(self) -> list[str]:
        """Return all public names."""
        ...

    def get(self, alias: str) -> Tool | None:
        """Return the tool with that public name; None if there is none."""
        ...


def prompt_target(prompt: Prompt) -> CallTarget:
    """Return a prompt as what a caller wants to call."""
    return CallTarget(prompt.alias, prompt.server, kind="prompt", changes=False, others=prompt.others)


def resource_target(server: str, uri: str) -> CallTarget:
    """Return a resource as what a caller wants to read. ``uri`` is its server's own."""
    return CallTarget(f"{server}__{uri}", server, kind="resource", changes=False)


def method_target(server: str, method: str) -> CallTarget:
    """Return a method that the hub does not know as what a caller wants to call."""
    return CallTarget(f"{server}__{method}", server, kind="method")


def may_find(caller: Caller, target: CallTarget) -> bool:
    """Return whether the caller may find what it could call."""
    return caller.access.everything or caller.access.allows(target)


def sees(access: Access, server: Server, tools: Iterable[Tool] = ()) -> bool:
    """Return whether a server may be shown. ``tools`` are those that are known of it."""
    return (
        access.everything
        or access.sees_server(server.name)
        or (bool(server.namespace) and access.sees_server(server.namespace))
        or any(access.allows(tool.target) for tool in tools)
    )


def visible_tools(access: Access, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that may be called."""
    return [tool for tool in tools if access.everything or access.allows(tool.target)]


def visible_names(access: Access, tools: NamedTools) -> list[str]:
    """Return the public names of the tools that may be called."""
    if access.everything:
        return tools.names
    return [name for name in tools.names if (tool := tools.get(name)) and access.allows(tool.target)]


log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at whether waiting is still of use."""

_MOST_NAMED = 8

RESOURCES = ("resources", "templates")
"""The lists that resources come from."""


class UnlistedServers(NamedTuple):
    """Servers whose tools are not known: those that are starting, and why others failed."""

    starting: tuple[str, ...] = ()
    failed: Mapping[str, Message] = {}


class ServerInstances(Protocol):
    """The configured servers by name, and their instances. Times are in seconds."""

    servers: dict[str, Server]
    context: UpstreamContext
    list_wait: float

    def enabled(self) -> list[Server]:
        """Return the servers that may be started."""
        ...

    def instances(self, name: str) -> list[Upstream]:
        """Return the instances of a server that exist now."""
        ...

    def instance_of(self, server: Server, caller: Caller | None) -> Upstream:
        """Return the instance that serves the caller. Raises TabaneError if none can."""
        ...

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something in the background until the gateway is closed."""
        ...


class CatalogLookup:
    """Finds what servers offer. Waiting is limited; unfinished listings continue in the background."""

    def __init__(
        self, servers: ServerInstances, catalogs: ServerCatalogs, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._servers, self._catalogs, self._loop = servers, catalogs, loop
        self._own = OwnNames(catalogs.tools)

    async def find(self, caller: Caller, name: str) -> Tool:
        """Return the tool of that name; wait for its server if that has never listed its tools.

        On a connection to one server, the name is the server's own. Raises UnknownName with the three nearest
        names.
        """
        if caller.server:
            return await self._find_own(caller, name)
        tools = self._catalogs.tools
        tool = tools.find(name)
        if tool is None:
            await self._wait_owners("tools", caller, name)
            tool = tools.find(name)
        if tool is None or not may_find(caller, tool.target):
            self._check_held(caller, tools.find_held(name))
            self._check_disabled(caller, name)
            for server in self._unlisted():
                if _may_own(server, name) and sees(caller.access, server):
                    for instance in self._servers.instances(server.name):
                        if (error := instance.still_downloading or instance.awaited_login) is not None:
                            raise error
                        if (trouble := instance.trouble) is not None:
                            raise UpstreamUnavailable(trouble)
            raise self.unknown(caller, name)
        return tool

    async def own_tools(self, caller: Caller) -> list[Tool]:
        """Return the tools of the server that the caller's connection is for; wait for its first listing."""
        await self.own_listed(caller, "tools")
        return [tool for tool in self._own.of(caller.server).values() if may_find(caller, tool.target)]

    async def own_listed(self, caller: Caller, kind: str) -> None:
        """Wait until the server that the caller's connection is for has listed."""
        server = self._servers.servers.get(caller.server)
        if server is None or server.disabled:
            return
        names = [name for name in lists_of(kind) if not self._catalogs.has(server.name, name)]
        waits = [self.listed_by(server, caller, name) for name in names]
        await self._within(self._servers.context.limits.start_timeout, waits)

    def own_tool(self, caller: Caller, name: str) -> Tool | None:
        """Return a tool of the server that the caller's connection is for, if it is known."""
        tool = self._own.find(caller.server, name)
        return tool if tool is not None and may_find(caller, tool.target) else None

    async def _find_own(self, caller: Caller, name: str) -> Tool:
        await self.own_listed(caller, "tools")
        tool = self.own_tool(caller, name)
        if tool is None:
            held = (
                each
                for each in self._catalogs.tools.held(caller.server)
                if name in (each.name, each.shown_name)
            )
            self._check_held(caller, next(held, None))
            self._check_own(caller)
            near = nearest(name, [each.name for each in await self.own_tools(caller)])
            if near:
                message = say(
                    "{server!n} has no tool {name}. Did you mean {near}?",
                    server=caller.server,
                    name=name,
                    near=", ".join(near),
                )
            else:
                message = say("{server!n} has no tool {name}.", server=caller.server, name=name)
            raise UnknownName(message, near)
        return tool

    def _check_held(self, caller: Caller, tool: Tool | None) -> None:
        """Raise DefinitionHeld if the caller could call a tool, were it not held back."""
        if tool is not None and may_find(caller, tool.target):
            self._check_refused(tool.server, "tool", tool.name)

    def _check_refused(self, server: str, kind: Kind, name: str) -> None:
        refusal = self._catalogs.refusal(server, kind, name)
        if refusal is not None:
            raise refusal

    def _check_own(self, caller: Caller) -> None:
        """Raise UpstreamUnavailable if the server of a connection is disabled, or is still downloaded."""
        server = self._servers.servers.get(caller.server)
        if server is not None and server.disabled:
            raise UpstreamUnavailable(server.disabled)
        for instance in self._servers.instances(caller.server):
            if (error := instance.still_downloading) is not None:
                raise error

    async def _find_own_prompt(self, caller: Caller, name: str) -> Prompt:
        await self.own_listed(caller, "prompts")
        prompts = self._catalogs.prompts.of_server(caller.server)
        mine = {each.name: each for each in prompts if may_find(caller, prompt_target(each))}
        if name not in mine:
            if may_find(caller, CallTarget(name, caller.server, kind="prompt", changes=False)):
                self._check_refused(caller.server, "prompt", name)
            self._check_own(caller)
            near = nearest(name, mine)
            if near:
                message = say(
                    "{server!n} has no prompt {name}. Did you mean {near}?",
                    server=caller.server,
                    name=name,
                    near=", ".join(near),
                )
            else:
                message = say("{server!n} has no prompt {name}.", server=caller.server, name=name)
            raise UnknownName(message, near)
        return mine[name]

    def unknown(self, caller: Caller, name: str) -> UnknownName:
        """Return the error for a name that no tool has, with the nearest names that the caller may find."""
        near = nearest_qualified(name, visible_names(caller.access, self._catalogs.tools))
        search = "search_tools" if caller.face is Face.MCP else "tabane tools search"
        if near:
            message = say(
                "Unknown tool: {name}. Did you mean {near}? If not, find it with {search}.",
                name=name,
                near=", ".join(near),
                search=search,
            )
        else:
            message = say("Unknown tool: {name}. Find tools with {search}.", name=name, search=search)
        return UnknownName(message, near)

    async def find_prompt(self, caller: Caller, name: str) -> Prompt:
        """Return the prompt of that name; wait for its server if that has never listed its prompts.

        Raises UnknownName with the three nearest names.
        """
        if caller.server:
            return await self._find_own_prompt(caller, name)
        prompts = self._catalogs.prompts
        prompt = prompts.find(name)
        if prompt is None:
            await self._wait_owners("prompts", caller, name)
            prompt = prompts.find(name)
        if prompt is None or not may_find(caller, prompt_target(prompt)):
            self._check_held_prompt(caller, name)
            self._check_disabled(caller, name)
            named = ((each, prompts.find(each)) for each in prompts.names)
            allowed = [each for each, other in named if other and may_find(caller, prompt_target(other))]
            near = nearest_qualified(name, allowed)
            if near:
                message = say("Unknown prompt: {name}. Did you mean {near}?", name=name, near=", ".join(near))
            else:
                message = say("Unknown prompt: {name}.", name=name)
            raise UnknownName(message, near)
        return prompt

    def _check_held_prompt(self, caller: Caller, name: str) -> None:
        aliases = self._catalogs.prompts.aliases
        entry = aliases.entries.get(name) or aliases.entries.get(aliases.resolve(name) or "")
        if entry is not None:
            server, own, _ = entry
            target = CallTarget(name, server, kind="prompt", changes=False)
            if may_find(caller, target):
                self._check_refused(server, "prompt", own)

    async def sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers to ask for a resource or a template, as :meth:`_sources` does.

        Only those from which the caller may read the resource. Raises CallerError for a URI with a kept
        scheme that several servers have: nothing says which of them is meant.
        """

        found = await self._sources(caller, uri)
        if not caller.access.everything:
            found = tuple(each for each in found if may_find(caller, resource_target(each.server, each.uri)))
        for each in found:
            self._check_refused(each.server, "resource", each.uri)
            self._check_skills(each)
        if kept_scheme(uri):
            _check_one(found, uri)
        return found

    async def _sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers to ask for a resource or a template, the likeliest first; eight at most.

        If nothing that is listed indicates a server, wait for those that never listed. After that, any server
        that reads resources may know the URI. ``shown`` is the URI as it is given here.
        """

        at = addressed(uri)
        if caller.server:
            own = at[1] if at is not None and at[0] == caller.server else uri
            return (ResourceSource(caller.server, own, uri),)
        if at is not None:
            return (ResourceSource(*at, uri),) if at[0] in self._servers.servers else ()
        if kept_scheme(uri):
            return await self._sources_of_kept(caller, uri)
        resources = self._catalogs.resources
        if found := resources.known(uri):
            return found
        waits = [
            self.listed_by(server, caller, name)
            for name in RESOURCES
            for server in self._unlisted_for(caller, name)
        ]
        async for _ in self._looks(self._servers.context.limits.start_timeout, waits):
            if resources.known(uri):
                break
        return resources.find(uri)

    def _check_skills(self, source: ResourceSource) -> None:
        """Raise DefinitionHeld for a file of a skill that is held back."""
        for uri in self._catalogs.held_skills(source.server):
            if source.uri == uri or source.uri.startswith(uri.rpartition("/")[0] + "/"):
                self._check_refused(source.server, "skill", uri)

    async def skill_sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers to ask for a skill or one of its folders.

        An address names its server. A server's own URI belongs to the server that lists it. If there is none,
        every server with skills may have it, since a skill need not be listed. Raises CallerError if these
        are several: nothing says which of them is meant.
        """
        at = addressed(uri)
        if at is not None:
            found = [ResourceSource(*at, uri)] if at[0] in self._servers.servers else []
        else:
            await self.refresh("skills", caller)
            await self._catalogs.skills.read()
            below = f"{uri}/"
            skills = self._catalogs.skills.items()
            owners = [each.server for each in skills if each.uri == uri or each.uri.startswith(below)]
            enabled = (server.name for server in self._servers.enabled())
            listings = ((name, self._catalogs.listing(name)) for name in enabled)
            others = [name for name, listing in listings if listing is not None and listing.has(SKILLS)]
            found = [ResourceSource(server, uri, uri) for server in dict.fromkeys(owners or others)]
        allowed = tuple(each for each in found if may_find(caller, resource_target(each.server, each.uri)))
        for each in allowed:
            self._check_skills(each)
        _check_one(allowed, uri)
        return allowed

    async def _sources_of_kept(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers that may mean a URI whose scheme is kept, as an app spells its own pages.

        These are the servers that list it, or whose tools name it as their page. If there are none, those
        that have anything of this scheme, since it need not be listed.
        """
        waits = [
            self.listed_by(server, caller, name)
            for name in ("tools", *RESOURCES)
            for server in self._unlisted_for(caller, name)
        ]
        await self._within(self._servers.list_wait, waits)
        found = self._catalogs.claimants(uri) or self._catalogs.of_scheme(uri)
        return tuple(ResourceSource(server, uri, uri) for server in found[:MOST_SOURCES])

    def find_for_app(self, caller: Caller, name: str, *, pinned: bool = False) -> Tool | None:
        """Return the tool that an app calls by its server's own name; None if no server with pages has it.

        A host passes on the calls of an app as they are, and does not say which app makes them. ``pinned``:
        the host knows only pinned tools, so only servers whose pages it may have shown count. Raises
        CallerError if several servers have such a tool.
        """
        found = [
            tool
            for tool in self._catalogs.tools.for_apps(name)
            if may_find(caller, tool.target) and (not pinned or self._has_pinned_page(tool.server))
        ]
        if len(found) > 1:
            raise CallerError(
                say(
                    "Several servers have a tool {name}. Call one of these: {names}",
                    name=name,
                    names=", ".join(tool.alias for tool in found[:_MOST_NAMED]),
                )
            )
        return found[0] if found else None

    def _has_pinned_page(self, name: str) -> bool:
        server, tools = self._servers.servers.get(name), self._catalogs.tools.of_server(name)
        return server is not None and any(tool.app.page and is_pinned(server, tool) for tool in tools)

    async def wait_listed(self, caller: Caller) -> UnlistedServers:
        """Wait, at most ``list_wait`` seconds, for servers that never listed; return those still missing.

        Only servers that the caller may see.
        """
        waits = [self.listed_by(server, caller) for server in self._unlisted_for(caller)]
        if not waits:
            return UnlistedServers()
        await self._within(self._servers.list_wait, waits)
        failed: dict[str, Message] = {}
        for server in self._unlisted_for(caller):
            instances = self._servers.instances(server.name)
            why = next(filter(None, (each.trouble for each in instances)), None)
            if why is not None:
                failed[server.name] = why
        missing = self._unlisted_for(caller)
        return UnlistedServers(tuple(s.name for s in missing if s.name not in failed), failed)

    def _unlisted_for(self, caller: Caller, name: str = "tools") -> list[Server]:
        """Return the servers that the caller may see, and whose list of that name is not known."""
        return [server for server in self._unlisted(name) if sees(caller.access, server)]

    async def refresh(self, kind: str, caller: Caller) -> None:
        """Bring the lists of that kind (tools, prompts, resources) up to date, within the time to wait.

        Wait for servers that never listed. A running server that does not announce changes is asked again if
        its list is older than the server allows, or than five seconds. For a server that is not running, its
        last listing counts: a list does not start a known server.
        """
        names = lists_of(kind)
        waits = [
            self.listed_by(server, caller, name)
            for name in names
            for server in self._unlisted_for(caller, name)
        ]
        for server in filter(partial(sees, caller.access), self._servers.enabled()):
            running = [each.offers for each in self._servers.instances(server.name) if each.connection]
            waits += [running[0].fresh(name) for name in names if running and running[0].is_stale(name)]
        await self._within(self._servers.list_wait, waits)

    async def listed_by(self, server: Server, caller: Caller | None, name: str = "tools") -> None:
        """Wait until the instance for that caller has listed. Failures are logged."""
        try:
            await self._servers.instance_of(server, caller).listed(name)
        except TabaneError as error:
            log.debug("%s: %s", server.name, error)

    def _unlisted(self, name: str = "tools") -> list[Server]:
        """Return the servers whose list of that name is not known."""
        return [server for server in self._servers.enabled() if not self._catalogs.has(server.name, name)]

    async def _wait_owners(self, kind: str, caller: Caller, name: str) -> None:
        """Wait for servers that never listed, if the tool or prompt of that name may be theirs."""

        # A server that the caller may not see is not started by a guess of its name.
        owners = [
            server
            for server in self._unlisted(kind)
            if (not server.namespace or _may_own(server, name))
            and (
                sees(caller.access, server)
                or may_find(caller, CallTarget(name, server.name, kind="prompt", changes=False))
            )
        ]
        waits = [self.listed_by(s, caller, kind) for s in owners]
        begun = self._loop.time()
        async for _ in self._looks(self._servers.context.limits.start_timeout, waits):
            missing = [server for server in owners if not self._catalogs.has(server.name, kind)]
            if self._loop.time() - begun > DOWNLOAD_WAIT and all(
                any(each.download for each in self._servers.instances(server.name)) for server in missing
            ):
                break  # downloads may take minutes

    def _check_disabled(self, caller: Caller, name: str) -> None:
        for server in self._servers.servers.values():
            if server.disabled and _may_own(server, name) and sees(caller.access, server):
                raise UpstreamUnavailable(server.disabled)

    async def _within(self, seconds: float, works: Sequence[Coroutine[None, None, None]]) -> None:
        """Wait at most that many seconds. Unfinished work continues."""
        async for _ in self._looks(seconds, works):
            pass

    async def _looks(
        self, seconds: float, works: Sequence[Coroutine[None, None, None]]
    ) -> AsyncIterator[None]:
        """Yield whenever it is time to look whether waiting is still of use. Unfinished work continues."""
        waiting = {self._servers.spawn(work) for work in works}
        end = self._loop.time() + seconds
        while waiting and (left := end - self._loop.time()) > 0:
            yield
            _, waiting = await asyncio.wait(
                waiting, timeout=min(left, LOOK), return_when=asyncio.FIRST_COMPLETED
            )


def _check_one(found: Sequence[ResourceSource], uri: str) -> None:
    """Raise CallerError if several servers may be meant."""
    if len(found) > 1:
        addresses = ", ".join(template_address(each.server, each.uri) for each in found[:MOST_SOURCES])
        raise CallerError(
            say(
                "Several servers have {uri}. Use one of these addresses: {addresses}",
                uri=uri,
                addresses=addresses,
            )
        )


def lists_of(kind: str) -> tuple[str, ...]:
    """Return the names of the lists of a kind (tools, prompts, resources)."""
    return RESOURCES if kind == "resources" else (kind,)


def _may_own(server: Server, name: str) -> bool:
    return may_belong(name, server.name, server.namespace)
