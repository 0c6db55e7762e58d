"""Catalogs of what servers offer, kept consistent: listings and their file, and the index of tools."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw, structs

from tabane.catalog.catalog_index import CatalogIndex
from tabane.catalog.offers.prompts import PromptCatalog
from tabane.catalog.offers.resources import ResourceCatalog
from tabane.catalog.offers.skills import SkillCatalog
from tabane.catalog.tool_meaning import QueryMeaning, ToolEmbedding, ToolMeaning
from tabane.catalog.tools.aliases import AliasMap, Entry
from tabane.catalog.tools.catalog import ToolCatalog, ToolCatalogPlan
from tabane.catalog.tools.listings import ListingsFile, Named, ServerListing, listing_of
from tabane.catalog.tools.tool import Tool
from tabane.catalog.tools.tool_use import ToolUse, ties_broken
from tabane.guard.definitions.changes import DefinitionHeld
from tabane.guard.definitions.definition import KINDS, Kind, name_in
from tabane.guard.definitions.review import DefinitionReview, ReviewedList
from tabane.servers.server import Server
from tabane.wire.extensions import SKILLS
from tabane.wire.json import join

if TYPE_CHECKING:
    from tabane.catalog.tools.index import ToolHits, ToolQuery
    from tabane.upstreams.handshake import Peer

log = logging.getLogger(__name__)

_TRIES = 5
_MOST_TRIED = 20

_MOST_TIED = 5  # hits beyond those asked for, which may be in a tie with the last of these
_USE_SAVED = 60.0  # seconds after a call


class ServerCatalogs:
    """Tools, prompts and resources of all servers.

    A separate thread owns the index and the listings' file; the event loop never waits for either.
    ``reserved`` are names that no server's tool gets. ``embedding`` has the models for search by meaning.
    ``review`` says which definitions are held back.
    """

    def __init__(
        self,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
        reserved: frozenset[str],
        review: DefinitionReview,
        embedding: Callable[[], ToolEmbedding] | None = None,
    ) -> None:
        self._loop, self._review = loop, review
        self._listings = ListingsFile(folder / "catalogue.db")
        self.tools = ToolCatalog(AliasMap(self._listings.aliases(), reserved))
        self.prompts = PromptCatalog(AliasMap(self._listings.aliases("prompts")))
        self.resources = ResourceCatalog()
        self.skills = SkillCatalog()
        self._listed: dict[str, ServerListing] = {}
        self._tried: dict[str, ServerListing] = {}
        # The same for a server that was listed under another configuration.
        self._known: dict[str, set[str]] = {}
        self._unsaved: set[str] = set()
        self._kept = {of: len(entries) for of, entries in self._aliases().items()}
        self.use = ToolUse(self._listings.used())
        self._use_saving: asyncio.TimerHandle | None = None
        self._worker = ThreadPoolExecutor(1, "catalogue")
        self._index = CatalogIndex(folder / "tools.db", self.tools, self._worker, loop)
        self._planning = asyncio.Lock()
        self._meaning = ToolMeaning(embedding, self._index.vectors)

    # -- what is known ---------------------------------------------------------------------------

    def open(self, servers: Iterable[Server]) -> None:
        """Load from disk what these servers listed before."""
        listings = self._listings.load()
        for server in servers:
            listing = listings.get(server.name)
            if listing is not None and listing.fingerprint == server.fingerprint:
                self._listed[server.name] = listing
                self.put(server, listing)

    def provide(
        self,
        tools: Callable[[], Iterable[Tool]],
        unlisted: Callable[[], Iterable[Tool]] = tuple,
        idle: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Offer the hub's own tools too. ``idle`` names those that a search leaves out at the moment."""
        self.tools.provide(tools, unlisted)
        self._index.idle = idle

    def listing(self, server: str) -> ServerListing | None:
        """Return the last listing of a server: from now, an earlier run of the hub, or its trial."""
        return self._listed.get(server) or self._tried.get(server)

    def has(self, server: str, name: str) -> bool:
        """Return whether that list (tools, prompts, resources, templates, skills) of a server is known."""
        if name == "skills" and (listing := self._listed.get(server)) is not None and not listing.has(SKILLS):
            return True  # there are none
        return name in self._known.get(server, ())

    def refusal(self, server: str, kind: Kind, name: str) -> DefinitionHeld | None:
        """Return the error for who asks for a definition that is held back; None if it is not."""
        return self._review.refusal(server, kind, name)

    def held_skills(self, server: str) -> frozenset[str]:
        """Return the URIs of the skills of a server that are held back."""
        return self._review.held_names(server, "skill")

    def claimants(self, uri: str) -> tuple[str, ...]:
        """Return the servers that list a resource, have a template for it, or a tool with that page."""
        found = (*self.resources.claimants(uri), *self.tools.with_page(uri))
        return tuple(dict.fromkeys(found))

    def of_scheme(self, uri: str) -> tuple[str, ...]:
        """Return the servers that list a resource of that scheme, or have pages, if it is theirs."""
        from tabane.catalog.tools.kept_addresses import kept_scheme

        paged = self.tools.with_page() if kept_scheme(uri).lower() == "ui://" else ()
        return tuple(dict.fromkeys((*self.resources.of_scheme(uri), *paged)))

    @property
    def versions(self) -> dict[str, int]:
        """Return a number for each kind, which changes whenever what a client could see changes."""
        return {
            "tools": self.tools.version,
            "prompts": self.prompts.version,
            # Both only grow, so their sum changes with each of them.
            "resources": self.resources.version + self.skills.version,
        }

    async def search(self, query: ToolQuery, holder: str = "") -> ToolHits:
        """Return ranked tools for a query. Tools that this holder used more come first in a tie."""
        idle, more = self._index.idle(), query
        if query.match == "relevance":
            more = replace(query, limit=query.limit + _MOST_TIED)
        compares = query.match == "relevance" and query.keywords is None
        self._index.prepare(idle)  # while a model makes the vectors of the query
        asked = await self._meaning.of_query(query.query) if compares else QueryMeaning()
        found = await self._index.run(lambda index: index.search(more, asked.vectors), idle)
        hits = ties_broken(found.hits, self.use.of(holder), {tool.alias for tool in self.tools.own})
        if found.incomplete:
            self._meaning.changed()
        starting = asked.available and (found.incomplete or not found.compared)
        return structs.replace(found, hits=hits[: query.limit], starting=starting)

    def note_use(self, holder: str, tool: str, times: int, *, kept: bool) -> None:
        """Count calls of a tool by its public name. ``kept``: the count is to outlive the hub."""
        self.use.note(holder, tool, time.time(), times, told=kept)
        if kept and self._use_saving is None:
            self._use_saving = self._loop.call_later(_USE_SAVED, self._save_use)

    def _save_use(self) -> None:
        self._use_saving = None
        self._later(partial(self._listings.keep_used, self.use.all()))

    # -- what comes and goes ---------------------------------------------------------------------

    def take(
        self,
        server: Server,
        fingerprint: str,
        peer: Peer,
        name: str,
        items: list[Raw],
        reviewed: ReviewedList,
        plan: ToolCatalogPlan | None = None,
    ) -> bool:
        """Take the listing of a server. Return whether the tools that a client sees changed.

        ``fingerprint`` belongs to the configuration under which the server runs, ``name`` to the list.
        ``reviewed`` says what is held back of it. ``plan`` contains the tools that were already read, if they
        fit.
        """
        before = self._listed.get(server.name)
        lists = before.lists if before is not None and before.fingerprint == fingerprint else {}
        listing = listing_of(
            server.name, fingerprint, peer.era, peer.version, peer.name, join(peer.capabilities), lists
        )
        self._listed[server.name] = listing = listing.with_list(name, items)
        changed = self._put_list(server, listing, name, reviewed, plan)
        self._keep_aliases()
        self._save_soon(server.name)
        return changed

    async def plan(
        self, server: Server, items: list[Raw], digests: Mapping[str, bytes]
    ) -> ToolCatalogPlan | None:
        """Read many tools in a thread; return None if names keep changing meanwhile."""
        async with self._planning:
            for _ in range(_TRIES):
                plan = await asyncio.to_thread(self.tools.plan, server, items, digests)
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
        for name, items in listing.lists.items():
            kind = KINDS[name]
            seen = self._review.read(server.name, kind, items)
            reviewed = self._review.take(server.name, listing.fingerprint, kind, seen)
            self._put_list(server, listing, name, reviewed)
        self._keep_aliases()

    async def offer_again(self, server: Server) -> None:
        """Offer what a server has listed, after other definitions than before are held back."""
        listing = self.listing(server.name)
        for name, items in listing.lists.items() if listing is not None else ():
            kind = KINDS[name]
            seen = await asyncio.to_thread(self._review.read, server.name, kind, items)
            digests = {each.key.name: each.digest for each in seen}
            plan = await self.plan(server, list(items), digests) if name == "tools" else None
            if listing is None or listing is not self.listing(server.name):
                return  # it has listed meanwhile
            if plan is None or self.tools.fits(plan):
                reviewed = ReviewedList(digests, self._review.held_names(server.name, kind))
                self._put_list(server, listing, name, reviewed, plan)

    def remove(self, server: str) -> None:
        """Remove what a server offers. The names of its tools and prompts are kept."""
        self._known.pop(server, None)
        self.prompts.remove(server)
        self.resources.remove(server)
        self.skills.remove(server)
        if self.tools.remove(server):
            self._index_later(server)

    def learned(self) -> dict[tuple[str, str], str]:
        """Return how servers have to be shared, as learned from their requests: by name and fingerprint."""
        return self._listings.learned()

    def learn(self, server: str, fingerprint: str, share: str) -> None:
        self._later(lambda: self._listings.learn(server, fingerprint, share))

    async def close(self) -> None:
        """Write what is pending, and close the files."""
        self._index.end()
        await self._meaning.close()
        if self._use_saving is not None:
            self._use_saving.cancel()
            self._save_use()
        await self._loop.run_in_executor(self._worker, self._close_files)
        self._worker.shutdown()

    # -- inside ----------------------------------------------------------------------------------

    def _put_list(
        self,
        server: Server,
        listing: ServerListing,
        name: str,
        reviewed: ReviewedList,
        plan: ToolCatalogPlan | None = None,
    ) -> bool:
        items: Sequence[Raw] = listing.lists[name]
        self._known.setdefault(server.name, set()).add(name)
        if name == "tools":
            if plan is not None:
                changed = self.tools.adopt(plan, reviewed.held)
            else:
                changed = self.tools.put(server, items, reviewed.digests, reviewed.held)
            if changed:
                self._index_later(server.name)
            return changed
        if reviewed.held:
            items = [item for item in items if name_in(KINDS[name], item) not in reviewed.held]
        if name == "prompts":
            return self.prompts.put(server, items)
        if name == "skills":
            return self.skills.put(server.name, items)
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

    def _index_later(self, name: str) -> None:
        self._meaning.changed()
        self._index.note(name)

    def _later(self, work: Callable[[], object]) -> None:
        self._worker.submit(work).add_done_callback(_log_failure)

    def _close_files(self) -> None:
        self._index.close()
        self._listings.close()


def _log_failure(future) -> None:  # type: ignore[no-untyped-def]
    if future.exception():
        log.error("the catalog's files: %s", future.exception())
