"""Lookup of tools, prompts and resources by name. It waits for servers that have never listed theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tabane.errors import TabaneError, UnknownName, UpstreamUnavailable
from tabane.gateway.catalogs import ServerCatalogs
from tabane.gateway.offers.prompts import Prompt
from tabane.gateway.offers.resource_uris import addressed
from tabane.gateway.offers.resources import ResourceSource
from tabane.gateway.servers.server import Server
from tabane.gateway.tools.aliases import may_belong
from tabane.gateway.tools.tool import Tool
from tabane.gateway.upstreams.start_download import DOWNLOAD_WAIT
from tabane.gateway.upstreams.upstream import Upstream
from tabane.gateway.upstreams.upstream_limits import UpstreamLimits
from tabane.gateway.visibility import may_find, prompt_target, resource_target, sees, visible_names
from tabane.messages import Message, say
from tabane.operations import Caller, CallTarget
from tabane.text.nearest_names import nearest_qualified

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at whether waiting is still of use."""

RESOURCES = ("resources", "templates")
"""The lists that resources come from."""


class UnlistedServers(NamedTuple):
    """Servers whose tools are not known: those that are starting, and why others failed."""

    starting: tuple[str, ...] = ()
    failed: Mapping[str, Message] = {}


class ServerInstances(Protocol):
    """The configured servers by name, and their instances. Times are in seconds."""

    servers: dict[str, Server]
    limits: UpstreamLimits
    list_wait: float

    def enabled(self) -> list[Server]: ...

    def instances(self, name: str) -> list[Upstream]: ...

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

    async def find(self, caller: Caller, name: str) -> Tool:
        """Return the tool of that name; wait for its server if that has never listed its tools.

        Raises UnknownName with the three nearest names.
        """
        tools = self._catalogs.tools
        tool = tools.find(name)
        if tool is None:
            await self._wait_owners("tools", caller, name)
            tool = tools.find(name)
        if tool is None or not may_find(caller, tool.target):
            self._check_disabled(caller, name)
            self._check_unlisted(caller, name)
            raise self.unknown(caller, name)
        return tool

    def unknown(self, caller: Caller, name: str) -> UnknownName:
        """Return the error for a name that no tool has, with the nearest names that the caller may find."""
        near = nearest_qualified(name, visible_names(caller.access, self._catalogs.tools))
        if near:
            message = say(
                "Unknown tool: {name}. Did you mean {near}? If not, find it with search_tools.",
                name=name,
                near=", ".join(near),
            )
        else:
            message = say("Unknown tool: {name}. Find tools with search_tools.", name=name)
        return UnknownName(message, near)

    async def find_prompt(self, caller: Caller, name: str) -> Prompt:
        """Return the prompt of that name; wait for its server if that has never listed its prompts.

        Raises UnknownName with the three nearest names.
        """
        prompts = self._catalogs.prompts
        prompt = prompts.find(name)
        if prompt is None:
            await self._wait_owners("prompts", caller, name)
            prompt = prompts.find(name)
        if prompt is None or not may_find(caller, prompt_target(prompt)):
            self._check_disabled(caller, name)
            near = nearest_qualified(name, self._prompts_of(caller))
            if near:
                message = say("Unknown prompt: {name}. Did you mean {near}?", name=name, near=", ".join(near))
            else:
                message = say("Unknown prompt: {name}.", name=name)
            raise UnknownName(message, near)
        return prompt

    def _prompts_of(self, caller: Caller) -> list[str]:
        prompts = self._catalogs.prompts
        found = ((name, prompts.find(name)) for name in prompts.names)
        return [name for name, prompt in found if prompt and may_find(caller, prompt_target(prompt))]

    async def sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers to ask for a resource or a template, as :meth:`_sources` does.

        Only those from which the caller may read the resource.
        """
        found = await self._sources(caller, uri)
        if caller.access.everything:
            return found
        return tuple(each for each in found if may_find(caller, resource_target(each.server, each.uri)))

    async def _sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Return the servers to ask for a resource or a template, the likeliest first; eight at most.

        If nothing that is listed indicates a server, wait for those that never listed. After that, any server
        that reads resources may know the URI. ``shown`` is the URI as it is given here.
        """
        at = addressed(uri)
        if at is not None:
            return (ResourceSource(*at, uri),) if at[0] in self._servers.servers else ()
        resources = self._catalogs.resources
        if found := resources.known(uri):
            return found
        waits = [
            self.listed_by(server, caller, name)
            for name in RESOURCES
            for server in self._unlisted_for(caller, name)
        ]
        await self._within(self._servers.limits.start_timeout, waits, lambda: bool(resources.known(uri)))
        return resources.find(uri)

    async def wait_listed(self, caller: Caller) -> UnlistedServers:
        """Wait, at most ``list_wait`` seconds, for servers that never listed; return those still missing.

        Only servers that the caller may see.
        """
        waits = [self.listed_by(server, caller) for server in self._unlisted_for(caller)]
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

        def download() -> bool:
            """Return whether all that is still waited for is a download, which may take minutes."""
            missing = [server for server in owners if not self._catalogs.has(server.name, kind)]
            return self._loop.time() - begun > DOWNLOAD_WAIT and all(
                any(each.download for each in self._servers.instances(server.name)) for server in missing
            )

        await self._within(self._servers.limits.start_timeout, waits, download)

    def _check_disabled(self, caller: Caller, name: str) -> None:
        for server in self._servers.servers.values():
            if server.disabled and _may_own(server, name) and sees(caller.access, server):
                raise UpstreamUnavailable(server.disabled)

    def _check_unlisted(self, caller: Caller, name: str) -> None:
        for server in self._unlisted():
            if _may_own(server, name) and sees(caller.access, server):
                for instance in self._servers.instances(server.name):
                    if (error := instance.still_downloading or instance.awaited_login) is not None:
                        raise error

    async def _within(
        self,
        seconds: float,
        works: Sequence[Coroutine[None, None, None]],
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait at most that many seconds, or until there is enough. Unfinished work continues."""
        waiting = {self._servers.spawn(work) for work in works}
        end = self._loop.time() + seconds
        while waiting and not enough() and (left := end - self._loop.time()) > 0:
            _, waiting = await asyncio.wait(
                waiting, timeout=min(left, LOOK), return_when=asyncio.FIRST_COMPLETED
            )


def lists_of(kind: str) -> tuple[str, ...]:
    """Return the names of the lists of a kind (tools, prompts, resources)."""
    return RESOURCES if kind == "resources" else (kind,)


def _may_own(server: Server, name: str) -> bool:
    return may_belong(name, server.name, server.namespace)
