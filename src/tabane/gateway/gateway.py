"""The gateway: every upstream server behind one catalogue, and the way to call its tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from msgspec import Raw

from tabane.errors import TabaneError, UnknownName, UpstreamError, UpstreamUnavailable
from tabane.gateway.catalogs import ServerCatalogs
from tabane.gateway.offers.prompts import Prompt
from tabane.gateway.offers.resource_uris import addressed
from tabane.gateway.offers.resources import ResourceSource
from tabane.gateway.offers.watches import OnUpdated, ResourceWatches
from tabane.gateway.processes.stderr import ServerLogFile
from tabane.gateway.servers.server import Server, Share
from tabane.gateway.tools.catalog import ToolCatalogPlan
from tabane.gateway.tools.disclosure import nearest
from tabane.gateway.tools.index import ToolHits, ToolQuery
from tabane.gateway.tools.listings import ServerListing
from tabane.gateway.tools.tool import Tool
from tabane.gateway.tools.validation import ArgumentValidator
from tabane.gateway.upstreams.handshake import Peer
from tabane.gateway.upstreams.instances import Instances
from tabane.gateway.upstreams.lists import LISTS
from tabane.gateway.upstreams.upstream import Connect, Upstream, UpstreamLimits, UpstreamState
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.wire.era import Era

log = logging.getLogger(__name__)

QUESTIONS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
"""What a server asks its client, and nobody can answer for all clients together."""

_EACH = {"roots": "set of folders", "client": "client"}

HOLDS = 60.0
"""Seconds for which a list may be kept where no server says less; they announce changes besides."""

STARTS = 16
"""Servers that are being started at the same time."""

FEW = 100
"""Number of tools up to which a list is read on the event loop."""

RESOURCES = ("resources", "templates")
"""The lists of which resources come."""


class UnlistedServers(NamedTuple):
    """Servers whose tools are not known: those that are starting, and why others failed."""

    starting: tuple[str, ...] = ()
    failed: Mapping[str, Message] = {}


class Gateway:
    """Upstream servers, their tools, and calls to them.

    ``on_changed`` is called with the kind (tools, prompts, resources) of which a client could now see
    others; ``on_log`` with a server's name and the parameters of a log message of it that belongs to no call.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        folder: Path,
        logs: Path,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        limits: UpstreamLimits,
        *,
        reserved: frozenset[str],
        validator: ArgumentValidator | None = None,
        list_wait: float = 2.0,
        health_interval: float = 60.0,
        on_changed: Callable[[str], None] = lambda kind: None,
        on_log: Callable[[str, Raw], None] = lambda server, params: None,
        obstacle: Callable[[Server], Message | None] = lambda server: None,
    ) -> None:
        self.servers = {server.name: server for server in servers}
        self.validator = validator or ArgumentValidator()
        self._loop, self._connect, self.limits = loop, connect, limits
        self._logs = logs
        self.list_wait, self.health_interval = list_wait, health_interval
        self.health_timeout = 10.0
        self._on_changed, self._on_log, self._obstacle = on_changed, on_log, obstacle
        self._starts = asyncio.Semaphore(STARTS)
        self._catalogues = ServerCatalogs(folder, loop, reserved)
        self.catalogue = self._catalogues.tools
        self.prompts = self._catalogues.prompts
        self.resources = self._catalogues.resources
        self._watches = ResourceWatches(self.instance_for, self._spawn)
        self._instances = Instances(loop, self._make, limits)
        self._learned: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._health: asyncio.TimerHandle | None = None

    # -- life ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take what was listed before from disk: from here on the catalogue answers."""
        self._learned = self._catalogues.learned()
        self._catalogues.open(self._enabled())
        self._health = self._loop.call_later(self.health_interval, self._check_health)

    def apply(self, servers: Sequence[Server]) -> None:
        """Take another configuration. What did not change is not touched; calls in flight finish.

        Where only policy changed (tags, allow, timeout …) the process goes on. One that has to be
        another is started anew at once where the old one ran, and its old tools stay until it listed.
        """
        old, self.servers = self.servers, {server.name: server for server in servers}
        versions = self._catalogues.versions
        for name in old.keys() - self.servers.keys():
            self._withdraw(name)
        for name, server in self.servers.items():
            if server != old.get(name):
                self._change(server, old.get(name))
                self._watches.moved(name)
        self.catalogue.forget_lists()
        for kind, version in self._catalogues.versions.items():
            if version != versions[kind]:
                self._on_changed(kind)

    def use_limits(self, limits: UpstreamLimits) -> None:
        """Be that patient from now on, with running instances too."""
        self.limits = self._instances.limits = limits
        for instance in self._instances:
            instance.limits = limits

    def start_all(self) -> None:
        """Begin to start every enabled server, together; failures show in their state."""
        for server in self._enabled():
            self._spawn(self._started(server))

    async def close(self) -> None:
        """End every upstream and close the files. Bounded by the upstreams' stop times."""
        if self._health:
            self._health.cancel()
        for task in list(self._tasks):
            task.cancel()
        await self._instances.close()
        await self.validator.close()
        await self._catalogues.close()

    def leave(self, session: str) -> None:
        """A client is gone."""
        self._watches.leave(session)
        self._instances.leave(session)

    # -- tools -----------------------------------------------------------------------------------

    async def find(self, caller: Caller, name: str) -> Tool:
        """The tool of that name; waits for its server where that has never listed.

        Raises UnknownName with the three nearest names.
        """
        tool = self.catalogue.find(name)
        if tool is None:
            await self._wait_owners("tools", caller, name)
            tool = self.catalogue.find(name)
        if tool is None:
            self._check_disabled(name)
            raise self.unknown(name)
        return tool

    def unknown(self, name: str) -> UnknownName:
        """The error for a name that is no tool's, with the nearest names."""
        near = tuple(nearest(self.catalogue.names, name))
        if near:
            message = say("Unknown tool: {name}. Did you mean {near}?", name=name, near=", ".join(near))
        else:
            message = say("Unknown tool: {name}. Find tools with search_tools.", name=name)
        return UnknownName(message, near)

    def route(self, caller: Caller, tool: Tool) -> Upstream:
        """The instance that serves this caller's calls of the tool. Raises TabaneError where none can."""
        if tool.server not in self.servers:
            raise self.unknown(tool.alias)
        return self.instance_for(caller, tool.server)

    def instance_for(self, caller: Caller, server: str) -> Upstream:
        """The instance of a server that serves this caller. Raises TabaneError where none can."""
        configured = self.server(server)
        if configured.disabled:
            raise UpstreamUnavailable(configured.disabled)
        return self._instances.get(self.shared(configured), caller)

    def goes_by_roots(self, server: str | None = None) -> bool:
        """Whether the client's folders decide which instance of that server, or of any, serves it."""
        names = self.servers if server is None else [server] if server in self.servers else []
        return any(self.shared(self.servers[name]).share == "roots" for name in names)

    async def search(self, query: ToolQuery) -> ToolHits:
        """Ranked tools for a query. CPU work is done in the catalogue's thread."""
        return await self._catalogues.search(query)

    async def wait_listed(self, caller: Caller) -> UnlistedServers:
        """Wait, at most two seconds, for servers that never listed; return those still missing."""
        await self._within(self.list_wait, [self._listed_by(s, caller) for s in self._unlisted()])
        failed: dict[str, Message] = {}
        for server in self._unlisted():
            why = next(filter(None, (each.trouble for each in self.instances(server.name))), None)
            if why is not None:
                failed[server.name] = why
        return UnlistedServers(tuple(s.name for s in self._unlisted() if s.name not in failed), failed)

    def remember(self, listing: ServerListing) -> None:
        """Remember the listing that a server gave during its trial, so that it need not start again."""
        if listing.server not in self.servers:
            self._catalogues.remember(listing)

    def provide(self, tools: Iterable[Tool], unlisted: Iterable[Tool] = ()) -> None:
        """Offer the hub's own tools among those of servers. Before it is opened."""
        self._catalogues.provide(tools, unlisted)

    def pinned(self) -> bytes:
        return self.catalogue.pinned(self._enabled())

    # -- prompts and resources -------------------------------------------------------------------

    async def fresh(self, kind: str, caller: Caller) -> None:
        """Bring the lists of that kind (tools, prompts, resources) up to date, as far as may be waited for.

        Servers that never listed are waited for. Running ones that do not announce changes are asked again
        where their list is older than they say it holds, or than five seconds. What an idle one listed
        last counts: a list starts nothing that is known.
        """
        names = _lists_of(kind)
        waits = [self._listed_by(s, caller, name) for name in names for s in self._unlisted(name)]
        for server in self._enabled():
            running = [instance for instance in self._instances.of(server.name) if instance.connection]
            waits += [running[0].fresh(name) for name in names if running and running[0].is_stale(name)]
        await self._within(self.list_wait, waits)

    def holds(self, kind: str) -> float:
        """The seconds for which a client may keep lists of that kind: the least that a server gives."""
        names = _lists_of(kind)
        given = [instance.holds(name) for instance in self._instances for name in names]
        return min((seconds for seconds in given if seconds is not None), default=HOLDS)

    async def find_prompt(self, caller: Caller, name: str) -> Prompt:
        """The prompt of that name; waits for its server where that has never listed.

        Raises UnknownName with the three nearest names.
        """
        prompt = self.prompts.find(name)
        if prompt is None:
            await self._wait_owners("prompts", caller, name)
            prompt = self.prompts.find(name)
        if prompt is None:
            self._check_disabled(name)
            near = tuple(nearest(self.prompts.names, name))
            if near:
                message = say("Unknown prompt: {name}. Did you mean {near}?", name=name, near=", ".join(near))
            else:
                message = say("Unknown prompt: {name}.", name=name)
            raise UnknownName(message, near)
        return prompt

    async def sources(self, caller: Caller, uri: str) -> tuple[ResourceSource, ...]:
        """Where a resource, or a template, is to be asked for, the likeliest server first; eight at most.

        Where nothing that is listed speaks for a server, those that never listed are waited for, and
        then every server that reads resources may know the URI. ``shown`` is the URI as it is given here.
        """
        at = addressed(uri)
        if at is not None:
            return (ResourceSource(*at, uri),) if at[0] in self.servers else ()
        if known := self.resources.known(uri):
            return known
        waits = [self._listed_by(s, caller, name) for name in RESOURCES for s in self._unlisted(name)]
        await self._within(self.limits.start_timeout, waits, lambda: bool(self.resources.known(uri)))
        return self.resources.find(uri)

    async def watch(
        self, session: str, caller: Caller, source: ResourceSource, on_updated: OnUpdated
    ) -> None:
        """Tell ``on_updated`` of each change of a resource, with the URI shown and the parameters to tell.

        ``session`` names whoever :meth:`unwatch` and :meth:`leave` are called for; the same resource
        again is watched once, for the ``on_updated`` given last. It goes on over restarts of the server.
        Raises TabaneError where the server does not run or refuses, or where too many are watched.
        """
        await self._watches.watch(session, caller, source, on_updated)

    def unwatch(self, session: str, uri: str) -> None:
        """Watch a resource no more; ``uri`` as it was shown."""
        self._watches.unwatch(session, uri)

    # -- servers ---------------------------------------------------------------------------------

    def server(self, name: str) -> Server:
        """The configured server of that name. Raises UnknownName with the nearest."""
        server = self.servers.get(name)
        if server is None:
            near = tuple(nearest(list(self.servers), name))
            raise UnknownName(
                say(
                    "Unknown server: {name}. Configured: {names}",
                    name=name,
                    names=", ".join(near or self.servers),
                ),
                near,
            )
        return server

    def shared(self, server: Server) -> Server:
        """The server, shared as it has to be: as the file says, else as its questions have shown."""
        learned = self._learned.get((server.name, server.fingerprint))
        if learned is None or server.share_given or server.share != "hub":
            return server
        return replace(server, share=cast("Share", learned))

    def instance(self, name: str) -> Upstream:
        """The instance that is shared by all, made where there is none yet."""
        return self._instances.get(self.server(name))

    def instances(self, name: str) -> list[Upstream]:
        """The instances of a server that exist now."""
        return list(self._instances.of(name))

    def listing(self, name: str) -> ServerListing | None:
        return self._catalogues.listing(name)

    def log_lines(self, name: str, count: int) -> list[str]:
        """The last lines that a server wrote to stderr, read from its log. Blocks on the file."""
        return ServerLogFile(self._logs, name).last(count)

    async def stop(self, name: str) -> None:
        """Stop every instance of a server; it stays stopped until it is started by hand."""
        instances = self.instances(name) or [self.instance(name)]
        await asyncio.gather(*(instance.stop() for instance in instances))

    async def start(self, name: str) -> Upstream:
        """Start a server by hand and wait until it has listed its tools. Raises UpstreamError."""
        server = self.server(name)
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        instance = self.instance(name)
        await instance.start()
        await instance.listed()
        return instance

    async def check_health(self) -> dict[str, bool]:
        """Check at once whether every running instance answers; wait for those that are starting.

        A server that is not running counts as healthy unless it cannot be started (see :meth:`obstacles`). A
        server that is disabled or stopped is left out.
        """
        names = [server.name for server in self._enabled()]
        found = dict(zip(names, await asyncio.gather(*map(self._healthy, names)), strict=True))
        kept_off = await self.obstacles()
        return {name: well and name not in kept_off for name, well in found.items() if well is not None}

    async def obstacles(self) -> dict[str, Message]:
        """Return why servers that are not running cannot be started, as far as files show.

        Servers that already failed are left out.
        """
        idle = [server for server in self._enabled() if not self.tried(server.name)]
        found = await asyncio.to_thread(lambda: [(server.name, self._obstacle(server)) for server in idle])
        return {name: why for name, why in found if why is not None}

    def tried(self, name: str) -> bool:
        """Return whether the server is running, or the result of its last start is known."""
        return any(instance.state is not UpstreamState.IDLE for instance in self.instances(name))

    def _withdraw(self, name: str) -> None:
        self._instances.retire(name)
        self._catalogues.remove(name)

    def _change(self, server: Server, before: Server | None) -> None:
        if server.disabled:
            self._withdraw(server.name)
            return
        ran = any(instance.connection for instance in self.instances(server.name))
        same = before is not None and not before.disabled and server.runs_like(before)
        if same:
            for instance in self.instances(server.name):
                instance.server = instance.server.with_policy_of(server)
        else:
            self._instances.retire(server.name)
        listing = self._catalogues.listing(server.name)
        if listing is not None and listing.fingerprint == server.fingerprint:
            self._catalogues.put(server, listing)
        elif not ran:
            self._catalogues.remove(server.name)
        # One that ran goes on running, and one whose tools are not known is asked for them.
        if not server.needs_folder and not same and (ran or not self.catalogue.has(server.name)):
            self._spawn(self._started(server))

    # -- inside ----------------------------------------------------------------------------------

    def _enabled(self) -> list[Server]:
        return [server for server in self.servers.values() if not server.disabled]

    def _unlisted(self, name: str = "tools") -> list[Server]:
        """Servers whose list of that name is not known."""
        return [server for server in self._enabled() if not self._catalogues.has(server.name, name)]

    def _make(self, server: Server) -> Upstream:
        listing = self._catalogues.listing(server.name)
        return Upstream(
            server,
            self._loop,
            self._connect,
            self.limits,
            lambda peer, name, items: self._take(server, peer, name, items),
            self._starts,
            listing.era if listing else None,
            lambda method: self._asked(server, method),
            lambda params: self._on_log(server.name, params),
        )

    def _take(
        self, server: Server, peer: Peer, name: str, items: list[Raw]
    ) -> Coroutine[None, None, None] | None:
        """Take the list ``name`` of an instance. Many tools are read in a thread."""
        if name == "tools" and len(items) > FEW:
            return self._take_many(server, peer, items)
        self._taken(server, peer, name, items)
        return None

    async def _take_many(self, server: Server, peer: Peer, items: list[Raw]) -> None:
        configured = self.servers.get(server.name)
        plan = await self._catalogues.plan(configured, items) if configured else None
        # Another configuration may be active by now. Then these tools are not its listing.
        fits = plan is not None and configured is self.servers.get(server.name) and self.catalogue.fits(plan)
        self._taken(server, peer, "tools", items, plan if fits else None)

    def _taken(
        self, server: Server, peer: Peer, name: str, items: list[Raw], plan: ToolCatalogPlan | None = None
    ) -> None:
        configured = self.servers.get(server.name)
        if configured is None:
            return
        if self._catalogues.take(configured, server.fingerprint, peer, name, items, plan):
            self._on_changed("resources" if name == "templates" else name)

    def _asked(self, server: Server, method: str) -> None:
        """A server put a question to its client: from now on it runs for those who can be meant by it."""
        share = "roots" if method == "roots/list" else "client"
        configured = self.servers.get(server.name)
        if configured is None or configured.share_given or method not in QUESTIONS:
            return
        if server.share == "client" or self.shared(configured).share in (share, "client"):
            return
        self._learned[server.name, server.fingerprint] = share
        log.warning(
            '%s asked its client for %s, so it runs once for each %s from now on. "share" in the servers '
            "file decides otherwise.", server.name, method, _EACH[share],
        )  # fmt: skip
        self._catalogues.learn(server.name, server.fingerprint, share)
        self._spawn(self._let_go_of_shared(server.name))

    async def _let_go_of_shared(self, name: str) -> None:
        # It goes on until it has listed its tools, since somebody may wait for those.
        with contextlib.suppress(TabaneError):
            instance = self._instances.get(self.server(name))
            for each in LISTS:
                await instance.listed(each)
        self._instances.retire(name, shared_only=True)
        self._watches.moved(name)

    async def _wait_owners(self, kind: str, caller: Caller, name: str) -> None:
        """Wait for servers that never listed, where the tool or prompt of that name may be theirs."""
        owners = [s for s in self._unlisted(kind) if not s.namespace or _may_own(s, name)]
        await self._within(self.limits.start_timeout, [self._listed_by(s, caller, kind) for s in owners])

    def _check_disabled(self, name: str) -> None:
        for server in self.servers.values():
            if server.disabled and _may_own(server, name):
                raise UpstreamUnavailable(server.disabled)

    async def _within(
        self,
        seconds: float,
        works: Sequence[Coroutine[None, None, None]],
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait that long at most, or until it is enough; what is not done by then goes on."""
        waiting = {self._spawn(work) for work in works}
        end = self._loop.time() + seconds
        while waiting and not enough() and (left := end - self._loop.time()) > 0:
            _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def _listed_by(self, server: Server, caller: Caller | None, name: str = "tools") -> None:
        try:
            await self._instances.get(self.shared(server), caller).listed(name)
        except TabaneError as error:
            log.debug("%s: %s", server.name, error)

    async def _started(self, server: Server) -> None:
        await self._listed_by(server, None)

    async def _healthy(self, name: str) -> bool | None:
        stopped, idle = UpstreamState.STOPPED, UpstreamState.IDLE
        instances = [instance for instance in self.instances(name) if instance.state is not stopped]
        if not instances:
            return None if self.instances(name) else True
        starting = [instance for instance in instances if instance.state is UpstreamState.STARTING]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.health_timeout):
                await asyncio.gather(*(each.ensure() for each in starting), return_exceptions=True)
        instances = [instance for instance in instances if instance.state is not idle]
        results = await asyncio.gather(*(instance.check(self.health_timeout) for instance in instances))
        return all(results)

    def _check_health(self) -> None:
        self._health = self._loop.call_later(self.health_interval, self._check_health)
        self._instances.expire()
        self._spawn(self._look_after())

    async def _look_after(self) -> None:
        running = [instance for instance in self._instances if instance.connection]
        await asyncio.gather(*(instance.look_after(self.health_timeout) for instance in running))

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _lists_of(kind: str) -> tuple[str, ...]:
    return RESOURCES if kind == "resources" else (kind,)


def _may_own(server: Server, name: str) -> bool:
    return any(name.startswith(start) for start in (server.namespace + "__", server.name + "."))


__all__ = ["Era", "Gateway", "UpstreamError"]
