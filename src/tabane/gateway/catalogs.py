"""Catalogs of what servers offer, kept consistent: listings and their file, and the index of tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Raw

from tabane.gateway.offers.prompts import PromptCatalog
from tabane.gateway.offers.resources import ResourceCatalog
from tabane.gateway.servers.server import Server
from tabane.gateway.tools.aliases import AliasMap, Entry
from tabane.gateway.tools.catalog import ToolCatalog, ToolCatalogPlan
from tabane.gateway.tools.index import ToolHits, ToolIndex, ToolQuery
from tabane.gateway.tools.listings import ListingsFile, Named, ServerListing, listing_of
from tabane.gateway.tools.tool import Tool
from tabane.gateway.upstreams.handshake import Peer
from tabane.wire.json import join

log = logging.getLogger(__name__)

_TRIES = 5
_MOST_TRIED = 20

_OWN = ""  # the hub's own tools in the index: no server has this name


class ServerCatalogs:
    """Tools, prompts and resources of all servers.

    A separate thread owns the index and the listings' file; the event loop never waits for either.
    ``reserved`` are names that no server's tool gets.
    """

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, reserved: frozenset[str]) -> None:
        self._folder, self._loop = folder, loop
        self._listings = ListingsFile(folder / "catalogue.db")
        self.tools = ToolCatalog(AliasMap(self._listings.aliases(), reserved))
        self.prompts = PromptCatalog(AliasMap(self._listings.aliases("prompts")))
        self.resources = ResourceCatalog()
        self._listed: dict[str, ServerListing] = {}
        self._tried: dict[str, ServerListing] = {}
        # The same for a server that was listed under another configuration.
        self._known: dict[str, set[str]] = {}
        self._unsaved: set[str] = set()
        self._kept = {of: len(entries) for of, entries in self._aliases().items()}
        self._worker = ThreadPoolExecutor(1, "catalogue")
        self._index: ToolIndex | None = None
        self._planning = asyncio.Lock()

    # -- what is known ---------------------------------------------------------------------------

    def open(self, servers: Iterable[Server]) -> None:
        """Load from disk what these servers listed before."""
        listings = self._listings.load()
        for server in servers:
            listing = listings.get(server.name)
            if listing is not None and listing.fingerprint == server.fingerprint:
                self._listed[server.name] = listing
                self.put(server, listing)

    def provide(self, tools: Iterable[Tool], unlisted: Iterable[Tool] = ()) -> None:
        """Offer the hub's own tools too."""
        self.tools.provide(tools, unlisted)

    def listing(self, server: str) -> ServerListing | None:
        """Return the last listing of a server: from now, an earlier run of the hub, or its trial."""
        return self._listed.get(server) or self._tried.get(server)

    def has(self, server: str, name: str) -> bool:
        """Return whether that list (tools, prompts, resources, templates) of a server is known."""
        return name in self._known.get(server, ())

    @property
    def versions(self) -> dict[str, int]:
        """Return a number for each kind, which changes whenever what a client could see changes."""
        return {
            "tools": self.tools.version,
            "prompts": self.prompts.version,
            "resources": self.resources.version,
        }

    async def search(self, query: ToolQuery) -> ToolHits:
        """Return ranked tools for a query."""
        return await self._loop.run_in_executor(self._worker, lambda: self._ready_index().search(query))

    # -- what comes and goes ---------------------------------------------------------------------

    def take(
        self,
        server: Server,
        fingerprint: str,
        peer: Peer,
        name: str,
        items: list[Raw],
        plan: ToolCatalogPlan | None = None,
    ) -> bool:
        """Take the listing of a server. Return whether the tools that a client sees changed.

        ``fingerprint`` belongs to the configuration under which the server runs, ``name`` to the list.
        ``plan`` contains the tools that were already read, if they fit.
        """
        before = self._listed.get(server.name)
        lists = before.lists if before is not None and before.fingerprint == fingerprint else {}
        listing = listing_of(
            server.name, fingerprint, peer.era, peer.version, peer.name, join(peer.capabilities), lists
        )
        self._listed[server.name] = listing = listing.with_list(name, items)
        changed = self._put_list(server, listing, name, plan)
        self._keep_aliases()
        self._save_soon(server.name)
        return changed

    async def plan(self, server: Server, items: list[Raw]) -> ToolCatalogPlan | None:
        """Read many tools in a thread; return None if names keep changing meanwhile."""
        async with self._planning:
            for _ in range(_TRIES):
                plan = await asyncio.to_thread(self.tools.plan, server, items)
                if self.tools.fits(plan):
                    return plan
        return None

    def remember(self, listing: ServerListing) -> None:
        """Remember the listing of a server that is not configured yet. The last 20 are kept."""
        self._tried.pop(listing.server, None)
        self._tried[listing.server] = listing
        if len(self._tried) > _MOST_TRIED:
            del self._tried[next(iter(self._tried))]

    def put(self, server: Server, listing: ServerListing) -> None:
        """Offer what a listing holds, as the server is configured now."""
        if self._tried.pop(server.name, None) is listing:
            self._listed[server.name] = listing
            self._save_soon(server.name)
        for name in listing.lists:
            self._put_list(server, listing, name)
        self._keep_aliases()

    def remove(self, server: str) -> None:
        """Remove what a server offers. The names of its tools and prompts are kept."""
        self._known.pop(server, None)
        self.prompts.remove(server)
        self.resources.remove(server)
        if self.tools.remove(server):
            self._index_later(server)

    def learned(self) -> dict[tuple[str, str], str]:
        """Return how servers have to be shared, as learned from their requests: by name and fingerprint."""
        return self._listings.learned()

    def learn(self, server: str, fingerprint: str, share: str) -> None:
        self._later(lambda: self._listings.learn(server, fingerprint, share))

    async def close(self) -> None:
        """Write what is pending, and close the files."""
        await self._loop.run_in_executor(self._worker, self._close_files)
        self._worker.shutdown()

    # -- inside ----------------------------------------------------------------------------------

    def _put_list(
        self, server: Server, listing: ServerListing, name: str, plan: ToolCatalogPlan | None = None
    ) -> bool:
        items = listing.lists[name]
        self._known.setdefault(server.name, set()).add(name)
        if name == "tools":
            changed = self.tools.adopt(plan) if plan else self.tools.put(server, items)
            if changed:
                self._index_later(server.name)
            return changed
        if name == "prompts":
            return self.prompts.put(server, items)
        capable = listing.has("resources")
        if name == "resources":
            return self.resources.put(server.name, items, capable=capable)
        return self.resources.put(server.name, templates=items, capable=capable)

    def _save_soon(self, server: str) -> None:
        """Save a listing, once for all the lists that come until the file's thread gets to it."""
        if server not in self._unsaved:
            self._unsaved.add(server)
            self._later(lambda: self._save(server))

    def _save(self, server: str) -> None:
        self._unsaved.discard(server)
        self._listings.save(self._listed[server])

    def _aliases(self) -> dict[Named, Mapping[str, Entry]]:
        return {"tools": self.tools.aliases.entries, "prompts": self.prompts.aliases.entries}

    def _keep_aliases(self) -> None:
        for of, entries in self._aliases().items():
            if len(entries) > self._kept[of]:
                self._kept[of] = len(entries)
                self._later(partial(self._listings.keep_aliases, entries, of))

    def _ready_index(self) -> ToolIndex:
        if self._index is None:
            self._index = ToolIndex(str(self._folder / "tools.db"))
            self._index.replace(_OWN, self.tools.own)
            for name in self._index.servers():
                if not self.tools.has(name) and name != _OWN:
                    self._index.remove(name)
            for name in list(self._known):
                if self.tools.has(name):
                    self._index.replace(name, self.tools.of_server(name))
        return self._index

    def _index_later(self, name: str) -> None:
        # Before the first search there is no index to update: it is built from the catalog.
        if self._index is not None:
            tools = self.tools.of_server(name)
            if self.tools.has(name):
                self._later(lambda: self._ready_index().replace(name, tools))
            else:
                self._later(lambda: self._ready_index().remove(name))

    def _later(self, work: Callable[[], object]) -> None:
        self._worker.submit(work).add_done_callback(_log_failure)

    def _close_files(self) -> None:
        if self._index:
            self._index.close()
        self._listings.close()


def _log_failure(future) -> None:  # type: ignore[no-untyped-def]
    if future.exception():
        log.error("the catalog's files: %s", future.exception())
