"""The gateway: all upstream servers behind one catalog, and calls of their tools.

A client may be connected to one server alone, and gets what that server tells or asks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw, structs

from tabane.catalog.catalogs import ServerCatalogs, ToolEmbedding
from tabane.catalog.lookup import CatalogLookup, lists_of, may_find, resource_target, sees
from tabane.catalog.offers.resources import ResourceWatches
from tabane.catalog.offers.skills import Skill
from tabane.catalog.tools.catalog import ToolCatalogPlan
from tabane.catalog.tools.listings import ServerListing
from tabane.catalog.tools.tool import Tool
from tabane.catalog.tools.validation import ArgumentValidator
from tabane.errors import TabaneError, UnknownName, UpstreamUnavailable
from tabane.guard.definitions.definition import (
    KINDS,
    ChosenDefinition,
    Kind,
    SeenDefinition,
    instructions_definition,
)
from tabane.guard.definitions.pins import HoldPolicy
from tabane.guard.definitions.review import (
    DefinitionReview,
    DefinitionScans,
    ReviewedList,
    ReviewWatch,
    Scans,
)
from tabane.messages import Message, say
from tabane.operations import LOCAL, Access, Caller
from tabane.servers.projects.project_folders import ClientProjects
from tabane.servers.server import Server
from tabane.text.nearest_names import nearest
from tabane.upstreams.call import Call, CallScreening, InstanceOwner, ServerRequest
from tabane.upstreams.connection import AdoptedCall, StartPreparation, UpstreamContext, UpstreamLimits
from tabane.upstreams.handshake import HubChain
from tabane.upstreams.instances import HealthChecks, Instances, ServerSharing
from tabane.upstreams.launching.start_preparation import ConnectedCages
from tabane.upstreams.logins.logins import ServerLogins
from tabane.upstreams.processes.child_environment import EnvironmentNames
from tabane.wire import json
from tabane.wire.era import SKILLS, Extension

if TYPE_CHECKING:
    from tabane.upstreams.connection import Connect
    from tabane.upstreams.handshake import Peer
    from tabane.upstreams.upstream import Upstream

log = logging.getLogger(__name__)


class DirectClient(Protocol):
    """A client that is connected to one server alone."""

    caller: Caller

    def told(self, method: str, params: Raw) -> None:
        """Take a notification that the hub does not know."""
        ...

    def asked(self, question: ServerRequest) -> bool:
        """Take a request of the server. Return whether the client can be asked."""
        ...


class DirectClients:
    """The clients by their sessions. ``instance_of`` returns the running instance that serves a caller."""

    def __init__(self, instance_of: Callable[[Caller], Upstream | None]) -> None:
        self._instance_of = instance_of
        self._clients: dict[str, DirectClient] = {}

    def enter(self, session: str, client: DirectClient) -> None:
        """Add a client."""
        self._clients[session] = client

    def leave(self, session: str) -> None:
        """Remove a client that has gone."""
        self._clients.pop(session, None)

    def of(self, upstream: Upstream) -> list[DirectClient]:
        """Return the clients that an instance serves."""
        name = upstream.server.name
        named = [client for client in self._clients.values() if client.caller.server == name]
        return [client for client in named if self._instance_of(client.caller) is upstream]


class InstanceOfGateway(InstanceOwner):
    """The gateway as the owner of one instance of ``server``; ``upstream`` is set when it is made."""

    upstream: Upstream

    def __init__(self, gateway: Gateway, server: Server) -> None:
        self._gateway, self._server = gateway, server

    def listed(self, peer: Peer, name: str, items: list[Raw]) -> Awaitable[None] | None:
        """Take a list into the catalog."""
        return self._gateway.take_list(self.upstream, self._server, peer, name, items)

    def state_changed(self) -> None:
        """Note the change at the watcher of the gateway."""
        self._gateway.note_state(self._server.name)

    def logged(self, params: Raw) -> None:
        """Pass on a log message that belongs to no call."""
        self._gateway.on_log(self._server.name, params)

    def asked_nobody(self, method: str) -> None:
        """Learn that the server has to run once for each client, or each set of folders."""
        configured = self._gateway.servers.get(self._server.name)
        self._gateway.sharing.learn(configured, self._server, method)

    def notified(self, method: str, params: Raw) -> None:
        """Pass a notification to the direct clients. If they are of different identities, nobody gets it."""
        clients = self._gateway.direct.of(self.upstream)
        if len({client.caller.access.holder for client in clients}) > 1:
            log.debug("%s: a notification was dropped, since it is not known whose it is", self._server.name)
            return
        for client in clients:
            client.told(method, params)

    def accepts(self, question: ServerRequest) -> bool:
        """Put a request to the only direct client. Return whether there is one that can be asked."""
        clients = self._gateway.direct.of(self.upstream)
        return len(clients) == 1 and clients[0].asked(question)

    def holds_calls(self) -> bool:
        """Return whether calls wait until the server has listed: its definitions may have changed.

        They do not if only what looks like an attack is held back: whoever calls has read the definition that
        is known, not what the server lists now.
        """
        return self._gateway.hold_of(self._server.name).changes

    def refusal(self, call: Call) -> TabaneError | None:
        """Return why a call may not be sent, by what the server has listed; None if it may."""
        kind, name = _KINDS.get(call.method), json.text(call.params.get("name"))
        return self._gateway.review.refusal(self._server.name, kind, name) if kind and name else None


_KINDS: Mapping[bytes, Kind] = {b"tools/call": "tool", b"prompts/get": "prompt"}

LONG_INSTRUCTIONS = 1 << 14
"""Characters of instructions above which their digest is made in a thread."""

HOLDS = 60.0
"""Seconds for which a list may be cached if no server says less. Servers also announce changes."""

STARTS = 16
"""Servers that are being started at the same time."""

FEW = 100
"""Number of definitions up to which a list is read on the event loop."""

SMALL = 256 << 10
"""Bytes of definitions up to which a list is read on the event loop."""


class GatewayWatch(Protocol):
    """Watches the servers of a gateway and what they offer."""

    def server_changed(self, name: str) -> None:
        """Note that the state of a server changed, or that it was added or removed."""
        ...

    def catalog_changed(self, kind: str) -> None:
        """Note that tools, prompts or resources changed."""
        ...

    def definitions_changed(self, server: str) -> None:
        """Note that other definitions of a server than before wait for a person."""
        ...


class Gateway:
    """Upstream servers, their tools, and calls to them.

    ``on_changed`` is called with the kind (tools, prompts, resources) if what clients can see of it may have
    changed, and with the folder of the project whose clients can see it; empty for all clients. ``on_log`` is
    called with a server's name and the parameters of a log message that belongs to no call. ``extensions``
    of the protocol are those that servers are told of, and that pass between them and clients.
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
        embedding: Callable[[], ToolEmbedding] | None = None,
        validator: ArgumentValidator | None = None,
        list_wait: float = 2.0,
        health_interval: float = 60.0,
        on_changed: Callable[[str, str], None] = lambda kind, project: None,
        on_log: Callable[[str, Raw], None] = lambda server, params: None,
        obstacle: Callable[[Server], Message | None] = lambda server: None,
        preparation: StartPreparation | None = None,
        passed: Callable[[Server], EnvironmentNames] = lambda server: EnvironmentNames(),
        cages: ConnectedCages | None = None,
        extensions: tuple[Extension, ...] = (),
        chain: HubChain | None = None,
        logins: ServerLogins | None = None,
        scans: DefinitionScans | None = None,
        hold: HoldPolicy | None = None,
    ) -> None:
        """Keep the arguments. ``logins`` are those at servers with OAuth; None if there are to be none.

        ``scans`` looks for attacks in definitions; None if nobody does. ``hold`` is
        what is held back of servers that say nothing else.
        """
        self.chain = chain or HubChain()
        self.chain.behind = self._hubs
        # What was listed before the circle was seen are the hub's own tools: remove it.
        self.chain.on_circle = lambda server: self.catalogs.remove(server)
        self.logins = logins
        if logins is not None:
            logins.on_changed = self._login_changed
        self.servers = {server.name: server for server in servers}
        self.validator = validator or ArgumentValidator()
        self.loop = self._loop = loop
        self.runs_at: Callable[[str], str] = lambda server: ""
        """Returns the address of the hub that runs a server for the group; empty if none does."""
        self.screening = CallScreening(loop)
        starts = asyncio.Semaphore(STARTS)
        self.context = UpstreamContext(loop, connect, limits, starts, preparation, logins, self.screening)
        self.embedding, self.passed, self.cages = embedding, passed, cages
        self.logs = logs
        """The folder of what servers write to stderr."""
        self.list_wait, self.extensions = list_wait, extensions
        self._on_changed, self.on_log = on_changed, on_log
        self.watcher: GatewayWatch | None = None
        self.projects = ClientProjects()
        self.hold = hold or HoldPolicy()
        self.review = DefinitionReview(folder, loop, self.hold_of, scans)
        self.review.watch = ReviewWatch(self._review_changed)
        self.catalogs = ServerCatalogs(folder, loop, reserved, self.review, embedding)
        self.catalog = self.catalogs.tools
        self.prompts = self.catalogs.prompts
        self.resources = self.catalogs.resources
        self.watches = ResourceWatches(self.instance_for, self.spawn)
        self._instances = Instances(self.context, self._make)
        self._tasks: set[asyncio.Task[None]] = set()
        self._adopted: set[AdoptedCall] = set()
        self.sharing = ServerSharing(self._learned)
        self.health = HealthChecks(loop, self._instances, self.enabled, obstacle, health_interval, self.spawn)
        self.lookup = CatalogLookup(self, self.catalogs, loop)
        self.direct = DirectClients(self._running_instance)

    @property
    def limits(self) -> UpstreamLimits:
        """Return the limits of instances as they are now."""
        return self.context.limits

    # -- life ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load the earlier listings from disk. Then the catalog answers."""
        self.sharing.restore(self.catalogs.learned())
        self.review.open(self.servers)
        self.catalogs.open(self.enabled())
        self.spawn(self._scan_known())
        self.health.start()
        self._pin_paths(self.servers.values())
        self._follow_logins()

    def _pin_paths(self, servers: Iterable[Server]) -> None:
        caged = [server for server in servers if server.sandbox is not None]
        if caged and self.cages is not None:
            self.spawn(asyncio.to_thread(self.cages.pin, caged))

    def apply(self, servers: Sequence[Server]) -> None:
        """Apply another configuration. What did not change is not touched; calls in flight finish.

        If only policy changed (tags, allow, timeout …), the process continues. A process that has to be
        replaced is restarted at once if it was running, and its old tools stay until the new one has listed.
        """
        old, self.servers = self.servers, {server.name: server for server in servers}
        versions = self.catalogs.versions
        for name in old.keys() - self.servers.keys():
            self._withdraw(name)
            self.review.withdraw(name)
        for name, server in self.servers.items():
            if server != old.get(name):
                self._change(server, old.get(name))
                self.watches.moved(name)
        self.catalog.forget_lists()
        changed = [
            name for name in old.keys() | self.servers.keys() if old.get(name) != self.servers.get(name)
        ]
        found = [each for name in changed for each in (old.get(name), self.servers.get(name)) if each]
        self._pin_paths(self.servers[name] for name in changed if name in self.servers)
        projects = {server.project for server in found}
        for kind, version in self.catalogs.versions.items():
            if version != versions[kind]:
                for project in projects or {""}:
                    self._offers_changed(kind, project)
        for name in changed:
            self.note_state(name)
        self.projects.applied()
        self._follow_logins()

    def use_limits(self, limits: UpstreamLimits) -> None:
        """Apply limits from now on, to running instances too."""
        self.context.limits = limits
        if self.context.preparation is not None:
            self.context.preparation.use_limits(limits.downloading)

    def start_all(self) -> None:
        """Start every enabled server in the background; failures show in their state.

        A server of a project is started when a client of the project needs it.
        """
        for server in self.enabled():
            if not server.project:
                self.spawn(self.lookup.listed_by(server, None))

    async def close(self) -> None:
        """Stop every upstream and close the files. Bounded by the stop times of the upstreams."""
        self.health.stop()
        for task in list(self._tasks):
            task.cancel()
        if self.logins is not None:
            await self.logins.close()
        await asyncio.gather(self._instances.close(), *(adopted.close() for adopted in self._adopted))
        await self.validator.close()
        await self.catalogs.close()
        await self.review.close()

    def leave(self, session: str) -> None:
        """Release the resources of a client: its subscriptions and its own instances."""
        self.direct.leave(session)
        self.watches.leave(session)
        self._instances.leave(session)
        self.chain.left(session)

    # -- tools -----------------------------------------------------------------------------------

    def route(self, caller: Caller, tool: Tool) -> Upstream:
        """Return the instance that serves this caller's calls of the tool. Raises TabaneError if none can."""
        if tool.server not in self.servers:
            raise self.lookup.unknown(caller, tool.alias)
        return self.instance_for(caller, tool.server)

    def instance_for(self, caller: Caller, server: str) -> Upstream:
        """Return the instance of a server that serves this caller. Raises TabaneError if none can."""
        configured = self.servers.get(server) or self.server(server)
        if configured.disabled:
            raise UpstreamUnavailable(configured.disabled)
        shared = self.sharing.shared(configured) if self.sharing.learned else configured
        return self._instances.get(shared, caller)

    async def adopt(self, server: str, fingerprint: str) -> AdoptedCall:
        """Return a connection for a call that an earlier hub has made. Raises UpstreamUnavailable.

        ``fingerprint`` is that of the server then: one that was changed does not get the call.
        """

        configured = self.servers.get(server)
        if configured is None or configured.disabled or configured.fingerprint != fingerprint:
            raise UpstreamUnavailable(say("{server!n} was changed or removed.", server=server))
        connection = await self.context.connect(configured, lambda method, params: None, lambda why: None)
        adopted = AdoptedCall(configured, connection, self.screening, self._adopted.discard)
        self._adopted.add(adopted)
        return adopted

    def goes_by_roots(self, server: str | None = None) -> bool:
        """Return whether the client's folders decide which instance of that server, or of any, serves it."""
        names = self.servers if server is None else [server] if server in self.servers else []
        return any(self.sharing.shared(self.servers[name]).share == "roots" for name in names)

    def has_projects(self) -> bool:
        """Return whether the client's folders decide which servers it sees."""
        return any(server.project for server in self.servers.values())

    def remember(self, listing: ServerListing) -> None:
        """Remember the listing of a server from its trial, so that it need not start again."""
        if listing.server not in self.servers:
            self.catalogs.remember(listing)

    def pinned(self, *, apps: bool = False, legacy: bool = False) -> bytes:
        """Return the definitions of tools that are always listed, as :meth:`ToolCatalog.pinned` does."""
        return self.catalog.pinned(self.enabled(), apps=apps, legacy=legacy)

    def repairs(self, server: str) -> list[Message]:
        """Return what was repaired and left out of the definitions of a server."""
        catalogs = (self.catalog, self.prompts, self.resources)
        return [each for catalog in catalogs for each in catalog.repairs(server)]

    def pinned_tools(self) -> list[Tool]:
        """Return the tools that are always listed."""
        return list(self.catalog.pinned_tools(self.enabled()))

    def offers_of(self, server: str, kind: str) -> tuple[object, ...]:
        """Return what a server offers of a kind (tools, prompts, resources).

        The objects are the same as before if nothing has changed.
        """
        if kind == "tools":
            return (self.catalog.of_server(server),)
        if kind == "prompts":
            return (self.prompts.of_server(server),)
        return (self.resources.of_server(server), self.catalogs.skills.listed_by(server))

    # -- prompts and resources -------------------------------------------------------------------

    async def skills_of(self, caller: Caller) -> list[Skill]:
        """Return the skills that the caller may read, of all servers, brought up to date as lists are."""
        await self.lookup.refresh("skills", caller)
        await self.catalogs.skills.read()
        return [
            skill
            for skill in self.catalogs.skills.items()
            if may_find(caller, resource_target(skill.server, skill.uri))
        ]

    def reads_folders(self, server: str) -> bool:
        """Return whether a server lists what is in the folders of its skills."""
        listing = self.catalogs.listing(server)
        return listing is not None and bytes(listing.settings_of(SKILLS).get("directoryRead", b"")) == b"true"

    def holds(self, kind: str) -> float:
        """Return the seconds for which a client may cache such lists: the least that a server gives."""
        names = lists_of(kind)
        given = [instance.offers.holds(name) for instance in self._instances for name in names]
        return min((seconds for seconds in given if seconds is not None), default=HOLDS)

    # -- servers ---------------------------------------------------------------------------------

    def server(self, name: str, access: Access = LOCAL) -> Server:
        """Return the configured server of that name, if it may be seen.

        Raises UnknownName with the nearest names.
        """
        server = self.servers.get(name)
        if server is None or not (access.everything or self.sees(access, server)):
            visible = [each.name for each in self.servers.values() if self.sees(access, each)]
            near = nearest(name, visible)
            if not visible:
                why = say("Unknown server: {name}. There is none yet: tabane servers add NAME", name=name)
                raise UnknownName(why)
            raise UnknownName(
                say(
                    "Unknown server: {name}. Configured: {names}",
                    name=name,
                    names=", ".join(near or visible),
                ),
                near,
            )
        return server

    def sees(self, access: Access, server: Server) -> bool:
        """Return whether a server may be shown: by its name, or because one of its tools may be called."""
        return sees(access, server, self.catalog.of_server(server.name))

    def enabled(self) -> list[Server]:
        """Return the configured servers that may be started."""
        return [server for server in self.servers.values() if not server.disabled]

    def instance_of(self, server: Server, caller: Caller | None) -> Upstream:
        """Return the instance of a server that serves the caller. Raises TabaneError if none can."""
        return self._instances.get(self.sharing.shared(server), caller)

    def instance(self, name: str) -> Upstream:
        """Return the instance that is shared by all. It is created if there is none."""
        return self._instances.get(self.server(name))

    def instances(self, name: str) -> list[Upstream]:
        """Return the instances of a server that exist now."""
        return list(self._instances.of(name))

    async def stop(self, name: str) -> None:
        """Stop every instance of a server; it stays stopped until :meth:`start`.

        Calls of instances that were replaced end too: they could wait for a person for ten minutes.
        """
        instances = self.instances(name) or [self.instance(name)]
        instances += self._instances.retiring(name)
        await asyncio.gather(*(instance.stop() for instance in instances))

    async def start(self, name: str) -> Upstream:
        """Start a server and wait until it has listed its tools. Raises UpstreamError."""
        server = self.server(name)
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        instance = self.instance(name)
        await instance.start()
        await instance.listed()
        return instance

    def replace_instances(self, name: str) -> None:
        """Let the calls in flight of a server finish where they are, and connect again for later ones."""
        self._instances.retire(name)
        self.watches.moved(name)
        self.spawn(self.lookup.listed_by(self.server(name), None))

    def _hubs(self) -> list[str]:
        """Return the ids of the hubs among the running servers, and of those behind them."""
        peers = [each.connection.conversation.peer for each in self._instances if each.connection]
        return [id for peer in peers if peer is not None for id in peer.hubs]

    def _withdraw(self, name: str) -> None:
        self._instances.retire(name)
        self.catalogs.remove(name)

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
        listing = self.catalogs.listing(server.name)
        if listing is not None and listing.fingerprint == server.fingerprint:
            self.catalogs.put(server, listing)
        elif not ran:
            self.catalogs.remove(server.name)
        # A running instance continues. One whose tools are not known is asked for them.
        unknown = not self.catalog.has(server.name) and (not server.project or self.projects.awaits(server))
        if not server.needs_folder and not same and (ran or unknown):
            self.spawn(self.lookup.listed_by(server, None))

    # -- inside ----------------------------------------------------------------------------------

    def _make(self, server: Server) -> Upstream:
        from tabane.upstreams.upstream import Upstream  # needed once a server is started

        listing, owner = self.catalogs.listing(server.name), InstanceOfGateway(self, server)
        owner.upstream = Upstream(server, self.context, owner, listing.era if listing else None)
        return owner.upstream

    def _running_instance(self, caller: Caller) -> Upstream | None:
        """Return the instance that serves the caller at the server that its connection is for, if it runs."""
        server = self.servers.get(caller.server)
        return None if server is None else self._instances.find(self.sharing.shared(server), caller)

    def take_list(
        self, source: Upstream, server: Server, peer: Peer, name: str, items: list[Raw]
    ) -> Coroutine[None, None, None] | None:
        """Take the list ``name`` of an instance. Many definitions, and new ones, are read in a thread."""
        if name == "tools":
            self.spawn(self._take_instructions(source, server, peer))
        if len(items) > FEW or sum(map(len, items)) > SMALL:
            return self._take_long_list(source, server, peer, name, items)
        if server.name not in self.servers:
            return None
        seen = self.review.read(server.name, KINDS[name], items)
        if self.review.unscanned(server.name, seen):
            return self._take_scanned_list(source, server, peer, name, items, seen)
        reviewed = self.review.take(server.name, server.fingerprint, KINDS[name], seen, source)
        self._offer_list(server, peer, name, items, reviewed)
        return None

    async def _take_long_list(
        self, source: Upstream, server: Server, peer: Peer, name: str, items: list[Raw]
    ) -> None:
        seen = await asyncio.to_thread(self.review.read, server.name, KINDS[name], items)
        await self._take_scanned_list(source, server, peer, name, items, seen)

    async def _take_scanned_list(
        self,
        source: Upstream,
        server: Server,
        peer: Peer,
        name: str,
        items: list[Raw],
        seen: Sequence[SeenDefinition],
    ) -> None:
        """Scan what is new before anybody sees it, and read many tools in a thread."""
        kind, fingerprint = KINDS[name], server.fingerprint
        scans = await self._scan(server.name, seen)
        if server.name not in self.servers:
            return
        reviewed = await self.review.take_many(server.name, fingerprint, kind, seen, source, scans)
        configured, plan = self.servers.get(server.name), None
        if name == "tools" and len(items) > FEW and configured is not None:
            plan = await self.catalogs.plan(configured, items, reviewed.digests)
            # Another configuration may be active by now. Then these tools are not its listing.
            if configured is not self.servers.get(server.name) or (plan and not self.catalog.fits(plan)):
                plan = None
            # A person may have decided meanwhile.
            reviewed = reviewed._replace(held=self.review.held_names(server.name, kind))
        self._offer_list(server, peer, name, items, reviewed, plan)

    def _offer_list(
        self,
        server: Server,
        peer: Peer,
        name: str,
        items: list[Raw],
        reviewed: ReviewedList,
        plan: ToolCatalogPlan | None = None,
    ) -> None:
        configured = self.servers.get(server.name)
        if configured is None:
            return
        if self.catalogs.take(configured, server.fingerprint, peer, name, items, reviewed, plan):
            # Clients have no notification of changed skills: their files are resources.
            kind = "resources" if name in ("templates", "skills") else name
            self._offers_changed(kind, configured.project)
        self.note_state(server.name)  # how many tools it has is part of it

    # -- review ----------------------------------------------------------------------------------

    def use_hold(self, hold: HoldPolicy) -> None:
        """Hold back from now on what the settings say."""
        if hold != self.hold:
            self.hold = hold
            for name in self.servers:
                self._review_changed(name)
                self.spawn(self._offer_again(name))

    async def decide(self, server: str, chosen: Sequence[ChosenDefinition], *, accept: bool) -> None:
        """Accept or reject definitions. When it returns, clients can see what follows. Raises TabaneError."""
        await (self.review.accept if accept else self.review.reject)(server, chosen)
        await self._offer_again(server)

    async def introduced(self, caller: Caller, server: str) -> Peer:
        """Return how the server of this caller describes itself, without instructions that are held back.

        Starts it if it does not run. Raises TabaneError.
        """
        instance = self.instance_for(caller, server)
        peer = await instance.introduced()
        if not peer.instructions:
            return peer
        await self._take_instructions(instance, instance.server, peer)
        held = self.review.refusal(server, "instructions", "")
        return structs.replace(peer, instructions="") if held else peer

    def hold_of(self, name: str) -> HoldPolicy:
        """Return which definitions of a server are held back."""
        server = self.servers.get(name)
        if server is None or not server.changes:
            return self.hold
        return self.hold._replace(changes=server.changes == "hold")

    async def _take_instructions(self, source: Upstream, server: Server, peer: Peer) -> None:
        text = peer.instructions
        seen: tuple[SeenDefinition, ...] = ()
        if len(text) > LONG_INSTRUCTIONS:  # a server may send megabytes
            seen = (await asyncio.to_thread(instructions_definition, text),)
        elif text:
            seen = (instructions_definition(text),)
        scans = await self._scan(server.name, seen)
        if server.name in self.servers:
            self.review.take(server.name, server.fingerprint, "instructions", seen, source, scans)

    async def _scan(self, server: str, seen: Sequence[SeenDefinition]) -> Scans | None:
        unscanned = self.review.unscanned(server, seen)
        if not unscanned:
            return None
        others, siblings = list[str](), {each.key.name for each in seen if each.key.kind == "tool"}
        for tool in self.catalog.tools:
            if tool.server != server:
                others.append(tool.name)
            else:
                siblings.add(tool.name)
        return await self.review.scan(server, unscanned, tuple(others), siblings)

    async def _scan_known(self) -> None:
        """Scan what earlier versions of Tabane have listed, and nobody has scanned yet."""
        for server in self.enabled() if self.review.scans is not None else ():
            listing = self.catalogs.listing(server.name)
            for name, items in listing.lists.items() if listing is not None else ():
                seen = await asyncio.to_thread(self.review.read, server.name, KINDS[name], items)
                scans = await self._scan(server.name, seen)
                if scans and listing is self.catalogs.listing(server.name):
                    await self.review.take_many(
                        server.name, server.fingerprint, KINDS[name], seen, None, scans
                    )
                    await self._offer_again(server.name)

    def _review_changed(self, name: str) -> None:
        self.note_state(name)
        if self.watcher is not None:
            self.watcher.definitions_changed(name)

    async def _offer_again(self, name: str) -> None:
        """Offer what a server has listed, after other definitions than before are held back."""
        server = self.servers.get(name)
        if server is not None and not server.disabled:
            versions = self.catalogs.versions
            await self.catalogs.offer_again(server)
            for kind, version in self.catalogs.versions.items():
                if version != versions[kind]:
                    self._offers_changed(kind, server.project)

    # -- inside ----------------------------------------------------------------------------------

    def _offers_changed(self, kind: str, project: str = "") -> None:
        self._on_changed(kind, project)
        if self.watcher is not None:
            self.watcher.catalog_changed(kind)

    def note_state(self, name: str) -> None:
        """Note that the state of a server changed, or what it offers."""
        if self.watcher is not None:
            self.watcher.server_changed(name)

    def _follow_logins(self) -> None:
        if self.logins is not None:
            self.spawn(self.logins.apply(dict(self.servers)))

    def _login_changed(self, name: str, signed_in: bool) -> None:
        """Start a server after a login there. After its end, its connections end too."""
        server = self.servers.get(name)
        if server is None or server.disabled:
            return
        if not signed_in:
            self._instances.retire(name)
        self.note_state(name)
        if signed_in:
            self.spawn(self._start_again(name))

    async def _start_again(self, name: str) -> None:
        instances = self.instances(name) or [self.instance(name)]
        for instance in instances:
            with contextlib.suppress(TabaneError):
                if instance.connection and instance.vitals.error is not None:
                    # It was connected before, and could not list its tools without the login.
                    instance.reconnect()
                elif not instance.connection:
                    await instance.start()
                await instance.listed()

    def _learned(self, server: Server, share: str) -> None:
        self.catalogs.learn(server.name, server.fingerprint, share)
        self.spawn(self._retire_shared(server.name))

    async def _retire_shared(self, name: str) -> None:
        # It continues until it has listed its tools, since somebody may wait for those.
        with contextlib.suppress(TabaneError):
            await self._instances.get(self.server(name)).all_listed()
        self._instances.retire(name, shared_only=True)
        self.watches.moved(name)

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something in the background until the gateway is closed."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
