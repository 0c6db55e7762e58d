"""Trial of a server before it is configured: it is started, lists its tools, and is ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from tabane.catalog.tools.aliases import AliasMap
from tabane.catalog.tools.listings import ServerListing, keep_listing, listing_of
from tabane.errors import UpstreamError, UpstreamUnavailable
from tabane.guard.definitions.review import DefinitionScans
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import definition_scans, limits_of, with_inherited
from tabane.hub.servers.server_setup import TryServer
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.servers.configuration import configuration_of, why_disabled
from tabane.servers.server import Server
from tabane.servers.variables import variables_of
from tabane.settings import Settings
from tabane.upstreams.call import InstanceOwner
from tabane.upstreams.connection import UpstreamContext, UpstreamLimits, UpstreamState
from tabane.upstreams.connector import Connector
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch
from tabane.wire.json import join

if TYPE_CHECKING:
    from tabane.upstreams.handshake import Peer
    from tabane.upstreams.upstream import Upstream


Keep = Callable[[ServerListing], None]

QUICK = 5.0
"""Seconds within which a start that fails is tried once more."""


class Trials:
    """Tries servers as this hub would start them: with its variables and its environment."""

    def __init__(
        self,
        context: HubContext,
        batch: LineBatch,
        processes: ChildProcesses,
        keep: Keep,
        scans: DefinitionScans | None = None,
    ) -> None:
        """Keep the arguments. ``keep`` gets the listing of a server that works."""
        self._context, self._batch, self._processes = context, batch, processes
        self._keep, self._scans = keep, scans

    async def run(self, caller: Caller, params: TryServer) -> dict[str, Any]:
        """Try a server. Raises as :func:`server_from_definition` and :func:`try_server`."""
        import tempfile  # two megabytes that a hub which tries nothing goes without

        from tabane.guard.definitions.listing_scan import suspicious_definitions

        settings = self._context.settings
        server = server_from_definition(
            settings, self._context.environment, params.name, params.definition, params.secrets
        )
        if server.needs_folder:
            server = server.in_folder(caller.cwd or str(settings.servers.parent))
        with tempfile.TemporaryDirectory(prefix="tabane-") as folder:
            if server.cwd == str(settings.servers.parent) and not settings.servers.parent.exists():
                # Its working folder is created together with the file, when there is a server to keep.
                server = structs.replace(server, cwd=folder)
            connect = Connector(
                self._context.loop,
                self._batch,
                self._processes,
                Path(folder, "logs"),  # not the log of a configured server of the same name
                self._context.environment,
                settings.max_line,
                limits_of(settings).downloading,
            )
            kept: list[ServerListing] = []
            found = await try_server(server, connect, limits_of(settings), kept.append)
            for listing in kept:
                self._keep(listing)
            lists = kept[-1].lists if kept else {}
            suspicious = await suspicious_definitions(server.name, lists, self._scans, caller.lang)
            return found | {"suspicious": suspicious}


def try_alone(
    settings: Settings,
    environment: Mapping[str, str],
    caller: Caller,
    params: TryServer,
) -> dict[str, Any]:
    """Try a server within this process if no hub runs. Blocks; raises as :meth:`Trials.run`."""

    listings: list[ServerListing] = []

    async def run() -> dict[str, Any]:
        processes = ChildProcesses()
        context = HubContext(settings, environment, asyncio.get_running_loop())
        scans = definition_scans(environment)
        trials = Trials(context, LineBatch(), processes, listings.append, scans)
        try:
            return await trials.run(caller, params)
        finally:
            await scans.close()
            await processes.close()

    # What goes wrong is raised; standard error belongs to the command.
    logging.getLogger("tabane").addHandler(logging.NullHandler())
    found = asyncio.run(run())
    for listing in listings:
        keep_listing(settings.home / "catalogue.db", listing)
    return found


def server_from_definition(
    settings: Settings,
    environment: Mapping[str, str],
    name: str,
    definition: Any,
    secrets: Mapping[str, str] | None = None,
) -> Server:
    """Return the server as it would be read from the file. ``secrets`` come before those that are kept.

    Raises ConfigurationError and UpstreamUnavailable.
    """
    variables = variables_of(settings, environment).with_secrets(secrets or {})
    found = configuration_of(settings.servers, {name: definition}, variables)
    server = with_inherited(found, settings, environment).get(name)
    if server is None:
        raise UpstreamUnavailable(say("{name!n} cannot be used as the name of a server.", name=name))
    why = why_disabled(server)
    if why is not None:
        raise UpstreamUnavailable(say("{server!n} cannot be started: {why}", server=name, why=why))
    return server


async def try_server(
    server: Server, connect: Connector, limits: UpstreamLimits, keep: Keep = lambda listing: None
) -> dict[str, Any]:
    """Return the server's description and tools; it has ended when this returns. ``keep`` gets its lists.

    Raises UpstreamError with its exit status and stderr if it does not get that far.
    """
    from tabane.upstreams.upstream import Upstream

    loop, owner = asyncio.get_running_loop(), _TrialLists()
    context = UpstreamContext(loop, connect, limits, asyncio.Semaphore(), connect.preparation)
    upstream = Upstream(server, context, owner)
    try:
        await wait_listed(upstream)
        if "tools" not in owner.lists:
            why = upstream.vitals.error or say("it has not been started")
            raise UpstreamError(_does_not_work(server.name, why))
        keep(_listing(server, owner.peer, owner.lists))
        return _row(server, owner.peer, owner.lists)
    finally:
        await upstream.close()


class _TrialLists(InstanceOwner):
    """The lists of a tried server."""

    peer: Peer

    def __init__(self) -> None:
        self.lists: dict[str, list[Raw]] = {}

    def listed(self, peer: Peer, name: str, items: list[Raw]) -> None:
        """Keep a list."""
        self.peer, self.lists[name] = peer, items


def _does_not_work(server: str, why: Message) -> Message:
    """Return why a tried server failed, with the end of its output: no log of it is kept."""
    from tabane.upstreams.launching.failure_causes import cause_in  # many rules, needed for failures alone

    failed = cause_in(why)
    if failed is None:
        return say("{server!n} does not work: {why}", server=server, why=why)
    short = failed.without_log()
    if failed.tail.strip() == failed.cause.line:
        return say("{server!n} does not work: {why}", server=server, why=short)
    return say(
        "{server!n} does not work: {why}\nIt wrote:\n{tail}", server=server, why=short, tail=failed.tail
    )


async def wait_listed(upstream: Upstream) -> None:
    """Wait for its lists. A quick failure is given a second chance: some servers end at a question of an
    era that they do not know, and the next start does not put it.
    """
    began = time.monotonic()
    await upstream.listed()
    if upstream.state is UpstreamState.WAITING and time.monotonic() - began < QUICK:
        with contextlib.suppress(UpstreamError):
            await upstream.start()
    await upstream.all_listed()


def _listing(server: Server, peer: Peer, lists: Mapping[str, list[Raw]]) -> ServerListing:
    kept = {name: tuple(items) for name, items in lists.items()}
    capabilities = join(peer.capabilities)
    return listing_of(server.name, server.fingerprint, peer.era, peer.version, peer.name, capabilities, kept)


def _row(server: Server, peer: Peer, lists: Mapping[str, list[Raw]]) -> dict[str, Any]:
    from tabane.catalog.tools.catalog import ToolCatalog
    from tabane.catalog.tools.disclosure import signature

    catalog = ToolCatalog(AliasMap({}, frozenset()))
    catalog.put(server, lists["tools"])
    return {
        "name": server.name,
        "state": "ready",
        "era": peer.era.value,
        "version": peer.version,
        "about": peer.name,
        "tools": [signature(tool) for tool in catalog.of_server(server.name)],
        **{name: len(lists.get(name, ())) for name in ("prompts", "resources", "templates")},
    }
