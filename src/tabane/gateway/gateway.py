"""The gateway: every upstream server behind one catalogue, and the way to call its tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Raw

from tabane.errors import TabaneError, UnknownName, UpstreamError, UpstreamUnavailable
from tabane.gateway.processes.stderr import LogFile
from tabane.gateway.servers.server import Server, Share
from tabane.gateway.tools.catalogue import Catalogue
from tabane.gateway.tools.disclosure import nearest
from tabane.gateway.tools.index import Hits, Query, ToolIndex
from tabane.gateway.tools.listings import Listing, Listings, listing_of
from tabane.gateway.tools.names import AliasMap
from tabane.gateway.tools.tool import Tool
from tabane.gateway.tools.validation import Validator
from tabane.gateway.upstreams.conversation import Peer
from tabane.gateway.upstreams.instances import Instances
from tabane.gateway.upstreams.upstream import Connect, Limits, State, Upstream
from tabane.messages import say
from tabane.operations import Caller
from tabane.wire.era import Era

log = logging.getLogger(__name__)

QUESTIONS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
"""What a server asks its client, and nobody can answer for all clients together."""

_EACH = {"roots": "set of folders", "client": "client"}

STARTS = 16
"""Servers that are being started at the same time."""

T = TypeVar("T")


class Gateway:
    """Upstream servers, their tools, and calls to them.

    ``on_changed`` is called when the tools that a client could see have changed.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        folder: Path,
        logs: Path,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        limits: Limits,
        *,
        reserved: frozenset[str],
        list_wait: float = 2.0,
        health_interval: float = 60.0,
        on_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.servers = {server.name: server for server in servers}
        self.validator = Validator()
        self._loop, self._connect, self.limits = loop, connect, limits
        self._folder, self._logs = folder, logs
        self.list_wait, self.health_interval = list_wait, health_interval
        self.health_timeout = 10.0
        self._on_changed = on_changed
        self._starts = asyncio.Semaphore(STARTS)
        self._listings = Listings(folder / "catalogue.db")
        self._listed: dict[str, Listing] = {}
        aliases = self._listings.aliases()
        self.catalogue = Catalogue(AliasMap(aliases, reserved))
        self._kept = len(aliases)
        self._instances = Instances(loop, self._make, limits)
        self._learned: dict[tuple[str, str], str] = {}
        # One thread owns the index and the listings' file; the loop never waits for either.
        self._worker = ThreadPoolExecutor(1, "catalogue")
        self._index: ToolIndex | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._health: asyncio.TimerHandle | None = None

    # -- life ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take what was listed before from disk: from here on the catalogue answers."""
        self._learned = self._listings.learned()
        for name, listing in self._listings.load().items():
            server = self.servers.get(name)
            if server and not server.disabled and listing.fingerprint == server.fingerprint:
                self._listed[name] = listing
                self.catalogue.put(server, listing.tools)
        self._keep_aliases()
        self._health = self._loop.call_later(self.health_interval, self._check_health)

    def apply(self, servers: Sequence[Server]) -> None:
        """Take another configuration. What did not change is not touched; calls in flight finish.

        Where only policy changed (tags, allow, timeout …) the process goes on. One that has to be
        another is started anew at once where the old one ran, and its old tools stay until it listed.
        """
        old, self.servers = self.servers, {server.name: server for server in servers}
        version = self.catalogue.version
        for name in old.keys() - self.servers.keys():
            self._withdraw(name)
        for name, server in self.servers.items():
            if server != old.get(name):
                self._change(server, old.get(name))
        self._keep_aliases()
        self.catalogue.forget_lists()
        if self.catalogue.version != version:
            self._on_changed()

    def use_limits(self, limits: Limits) -> None:
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
        await self._in_worker(self._close_files)
        self._worker.shutdown()

    def leave(self, session: str) -> None:
        """A client is gone."""
        self._instances.leave(session)

    # -- tools -----------------------------------------------------------------------------------

    async def find(self, caller: Caller, name: str) -> Tool:
        """The tool of that name; waits for its server where that has never listed.

        Raises UnknownName with the three nearest names.
        """
        tool = self.catalogue.find(name)
        if tool is None:
            owners = [s for s in self._unlisted() if not s.namespace or _may_own(s, name)]
            if owners:
                await self._wait_listed(owners, caller, self.limits.start_timeout)
                tool = self.catalogue.find(name)
        if tool is None:
            for server in self.servers.values():
                if server.disabled and _may_own(server, name):
                    raise UpstreamUnavailable(server.disabled)
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
        server = self.servers.get(tool.server)
        if server is None:
            raise self.unknown(tool.alias)
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        return self._instances.get(self.shared(server), caller)

    async def search(self, query: Query) -> Hits:
        """Ranked tools for a query. CPU work is done in the catalogue's thread."""
        return await self._in_worker(lambda: self._ready_index().search(query))

    async def wait_listed(self, caller: Caller) -> tuple[str, ...]:
        """Wait, at most two seconds, for servers that never listed; the names of those still missing."""
        unlisted = self._unlisted()
        if unlisted:
            await self._wait_listed(unlisted, caller, self.list_wait)
        return tuple(server.name for server in self._unlisted())

    def pinned(self) -> bytes:
        return self.catalogue.pinned(self._enabled())

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

    def listing(self, name: str) -> Listing | None:
        return self._listed.get(name)

    def log_lines(self, name: str, count: int) -> list[str]:
        """The last lines that a server wrote to stderr, read from its log. Blocks on the file."""
        return LogFile(self._logs, name).last(count)

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
        """Ask every running instance whether it answers, at once; servers never started count as well.

        A server that is disabled or stopped is left out.
        """
        names = [server.name for server in self._enabled()]
        return {name: healthy for name in names if (healthy := await self._healthy(name)) is not None}

    def _withdraw(self, name: str) -> None:
        self._instances.retire(name)
        if self.catalogue.remove(name):
            self._index_later(name)

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
        listing = self._listed.get(server.name)
        if listing is not None and listing.fingerprint == server.fingerprint:
            if self.catalogue.put(server, listing.tools):
                self._index_later(server.name)
        elif not ran:
            self.catalogue.remove(server.name)
        # One that ran goes on running, and one whose tools are not known is asked for them.
        if not server.needs_folder and not same and (ran or not self.catalogue.has(server.name)):
            self._spawn(self._started(server))

    # -- inside ----------------------------------------------------------------------------------

    def _enabled(self) -> list[Server]:
        return [server for server in self.servers.values() if not server.disabled]

    def _unlisted(self) -> list[Server]:
        return [server for server in self._enabled() if not self.catalogue.has(server.name)]

    def _make(self, server: Server) -> Upstream:
        listing = self._listed.get(server.name)
        return Upstream(
            server,
            self._loop,
            self._connect,
            self.limits,
            lambda peer, tools: self._take(server, peer, tools),
            self._starts,
            listing.era if listing else None,
            lambda method: self._asked(server, method),
        )

    def _take(self, server: Server, peer: Peer, tools: list[Raw]) -> None:
        if server.name not in self.servers:
            return
        listing = listing_of(server.name, server.fingerprint, peer.era, peer.version, peer.name, tools)
        self._listed[server.name] = listing
        changed = self.catalogue.put(self.servers[server.name], tools)
        self._keep_aliases()
        self._later(lambda: self._listings.save(listing))
        if changed:
            self._index_later(server.name)
            self._on_changed()

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
        self._later(lambda: self._listings.learn(server.name, server.fingerprint, share))
        self._spawn(self._let_go_of_shared(server.name))

    async def _let_go_of_shared(self, name: str) -> None:
        # It goes on until it has listed its tools, since somebody may wait for those.
        with contextlib.suppress(TabaneError):
            await self._instances.get(self.server(name)).listed()
        self._instances.retire(name, shared_only=True)

    def _keep_aliases(self) -> None:
        aliases = self.catalogue.aliases.entries
        if len(aliases) > self._kept:
            self._kept = len(aliases)
            self._later(lambda: self._listings.keep_aliases(aliases))

    def _ready_index(self) -> ToolIndex:
        if self._index is None:
            self._index = ToolIndex(str(self._folder / "tools.db"))
            for name in self._index.servers():
                if not self.catalogue.has(name):
                    self._index.remove(name)
            for name in self.servers:
                if self.catalogue.has(name):
                    self._index.replace(name, self.catalogue.of_server(name))
        return self._index

    def _index_later(self, name: str) -> None:
        # Before the first search there is no index to keep in step: it is made from the catalogue.
        if self._index is not None:
            tools = self.catalogue.of_server(name)
            if self.catalogue.has(name):
                self._later(lambda: self._ready_index().replace(name, tools))
            else:
                self._later(lambda: self._ready_index().remove(name))

    async def _wait_listed(self, servers: Sequence[Server], caller: Caller, seconds: float) -> None:
        waits = [self._loop.create_task(self._listed_by(server, caller)) for server in servers]
        for task in waits:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.wait(waits, timeout=seconds)

    async def _listed_by(self, server: Server, caller: Caller | None) -> None:
        try:
            await self._instances.get(self.shared(server), caller).listed()
        except TabaneError as error:
            log.debug("%s: %s", server.name, error)

    async def _started(self, server: Server) -> None:
        await self._listed_by(server, None)

    async def _healthy(self, name: str) -> bool | None:
        instances = [instance for instance in self.instances(name) if instance.state is not State.STOPPED]
        if not instances:
            return None if self.instances(name) else True
        results = await asyncio.gather(*(instance.check(self.health_timeout) for instance in instances))
        return all(results)

    def _check_health(self) -> None:
        self._health = self._loop.call_later(self.health_interval, self._check_health)
        self._instances.expire()
        self._spawn(self._look_after())

    async def _look_after(self) -> None:
        running = [instance for instance in self._instances if instance.connection]
        await asyncio.gather(*(instance.look_after(self.health_timeout) for instance in running))

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._worker, work)

    def _later(self, work: Callable[[], object]) -> None:
        self._worker.submit(work).add_done_callback(_log_failure)

    def _close_files(self) -> None:
        if self._index:
            self._index.close()
        self._listings.close()


def _may_own(server: Server, name: str) -> bool:
    return any(name.startswith(start) for start in (server.namespace + "__", server.name + "."))


def _log_failure(future) -> None:  # type: ignore[no-untyped-def]
    if future.exception():
        log.error("the catalogue's files: %s", future.exception())


__all__ = ["Era", "Gateway", "UpstreamError"]
