"""Catalogs of what servers offer, kept consistent: listings and their file, and the index of tools.

One thread owns the index, so the event loop never waits for it. Tools are found by meaning too: vectors of
queries are made at once, those of the catalog's tools in the background.
The use of each tool by each caller decides between hits with equal scores.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Raw, Struct, field, structs

from tabane.catalog.offers.prompts import PromptCatalog
from tabane.catalog.offers.resources import ResourceCatalog
from tabane.catalog.offers.skills import SkillCatalog
from tabane.catalog.tools.aliases import AliasMap, Entry
from tabane.catalog.tools.app_metadata import kept_scheme
from tabane.catalog.tools.catalog import ToolCatalog, ToolCatalogPlan
from tabane.catalog.tools.listings import ListingsFile, Named, ServerListing, listing_of
from tabane.catalog.tools.tool import Tool
from tabane.errors import TabaneError
from tabane.guard.definitions.definition import KINDS, Kind, name_in
from tabane.guard.definitions.review import DefinitionHeld, DefinitionReview, ReviewedList
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads
from tabane.servers.server import Server
from tabane.wire.era import SKILLS
from tabane.wire.json import join
from tabane.workers.time_slices import Pause, no_pause, thread_slices

if TYPE_CHECKING:
    from tabane.catalog.tools.index import ToolIndex
    from tabane.catalog.tools.ranking import ToolHit, ToolHits, ToolQuery
    from tabane.catalog.tools.vector_table import ToolGist
    from tabane.search.embedding.embedder import Embedder
    from tabane.upstreams.handshake import Peer

log = logging.getLogger(__name__)

PATIENCE = 0.3
"""Seconds that each search waits for the vectors of its query: enough unless the model is being opened."""

_BATCH = 16
_MOST_TEXT = 2_000
_RETRY = 30.0  # seconds until a model that failed is tried again
_MOST_PENDING = 256  # vectors that are still being made; beyond it, searches use words alone


_MOST_SENTENCES = 4
_SHORTEST = 8  # characters; half of that in Japanese, which needs fewer
_BETWEEN = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|,? (?:and )?(?:then|after that|afterwards|finally),? "
    r"|(?:それから|その後|次に|そして)、?|(?<=[てで])、"
)


def sentences(text: str) -> list[str]:
    """Return the sentences or steps of a query, if it has two to four.

    A task of several steps is near to no tool as a whole. To search for each step apart and merge the
    results found less on public sets: most sentences only explain another.
    """
    found = _pieces(text)
    return found if 2 <= len(found) <= _MOST_SENTENCES else []


def _pieces(text: str) -> list[str]:
    pieces = (piece.strip(" ,、") for piece in _BETWEEN.split(text[:_MOST_TEXT]))
    return [piece for piece in pieces if len(piece) >= _least(piece, _SHORTEST)]


def _least(text: str, letters: int) -> int:
    return letters if text.isascii() else letters // 2


_LONG = 160  # characters; half of that in Japanese


def has_steps(text: str) -> bool:
    """Return whether a query may be a task of several steps: it has several sentences, or is long."""
    return len(text) >= _least(text, _LONG) or len(_pieces(text)) > 1


class ToolEmbedding(Protocol):
    """The models by which tools are compared with a query, as :class:`tabane.search.source.Models`."""

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        """Return the models for tools, or why there is none."""
        ...

    async def query(self, model: str, text: str) -> bytes | NoModel:
        """Return the vector of a query by that model, or why there is none."""
        ...


class QueryMeaning(Struct, frozen=True):
    """Vectors of a query and its sentences by model, as far as they are there.

    ``available``: there is a model for it. ``late``: one that has answered before did not answer in time.
    """

    vectors: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    available: bool = False
    late: bool = False


class ToolMeaning:
    """Vectors for the search of tools. ``embedding`` is None if there are no models. For one event loop."""

    def __init__(
        self,
        embedding: Callable[[], ToolEmbedding] | None,
        store: IndexVectors,
        patience: float = PATIENCE,
        retry: float = _RETRY,
    ) -> None:
        self._embedding, self._store, self._patience, self._retry = embedding, store, patience, retry
        self._pending: set[asyncio.Task[bytes | NoModel]] = set()
        self._late: set[str] = set()  # models that did not answer in time, and have not answered since
        self._opened = False  # a model has answered
        self._filling: asyncio.Task[None] | None = None
        self._filled: tuple[str, ...] = ()  # the models that have a vector of each tool
        self._next_try = 0.0

    async def of_query(self, text: str) -> QueryMeaning:
        """Return the vectors of a query that are there in time. The others are made for the next query.

        A model that was late is asked again, but only for the vector of the whole query: what it still owes
        must not make it late for the next one too.
        """
        if self._embedding is None or not text.strip():
            return QueryMeaning()
        embedding = self._embedding()
        models = await embedding.for_tools()
        if isinstance(models, NoModel):
            return QueryMeaning()
        self._fill_soon(models)
        names = [model.fingerprint for model in models if reads(model.fingerprint, text)]
        if not names:
            return QueryMeaning()
        if len(self._pending) > _MOST_PENDING:
            return QueryMeaning(available=True, late=self._opened)
        parts = sentences(text)
        pairs = [(name, part) for name in names for part in (text, *(() if name in self._late else parts))]
        tasks = {pair: asyncio.ensure_future(embedding.query(*pair)) for pair in pairs}
        for (name, _), task in tasks.items():
            self._pending.add(task)
            task.add_done_callback(partial(self._forget_query, name))
        _, pending = await asyncio.wait(tasks.values(), timeout=self._patience)
        self._late |= {name for (name, _), task in tasks.items() if task in pending}
        made = {pair: task.result() for pair, task in tasks.items() if task.done()}
        vectors: dict[str, list[bytes]] = {}
        for (name, part), vector in made.items():
            if isinstance(vector, bytes) and (part == text or name in vectors):
                vectors.setdefault(name, []).append(vector)
        late = bool(pending) and not vectors and self._opened
        # A model that failed is no model; one that takes long will be there.
        return QueryMeaning(vectors, bool(vectors) or bool(pending), late)

    def _forget_query(self, model: str, task: asyncio.Task[bytes | NoModel]) -> None:
        self._pending.discard(task)
        self._late.discard(model)
        if not task.cancelled() and task.exception() is None:
            self._opened |= isinstance(task.result(), bytes)

    def changed(self) -> None:
        """Take note that tools came: their vectors are made with the next search."""
        self._filled = ()

    async def close(self) -> None:
        """End the work in the background."""
        tasks = [*self._pending, *([self._filling] if self._filling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fill_soon(self, models: Sequence[Embedder]) -> None:
        loop = asyncio.get_running_loop()
        if self._filling is not None and not self._filling.done():
            return
        names = tuple(model.fingerprint for model in models)
        if names != self._filled and loop.time() >= self._next_try:
            self._filled = names
            self._filling = loop.create_task(self._fill(models))

    async def _fill(self, models: Sequence[Embedder]) -> None:
        try:
            for model in models:
                while gists := await self._store.missing(model.fingerprint, _BATCH):
                    vectors = await model.embed([gist.text for gist in gists], "document")
                    pairs = [(gist.key, vector) for gist, vector in zip(gists, vectors, strict=True)]
                    await self._store.put(model.fingerprint, pairs)
            await self._store.clear([model.fingerprint for model in models])
        except (TabaneError, OSError, ValueError) as error:
            log.warning("tools are found by keywords for now: %s", error)
            self._filled = ()
            self._next_try = asyncio.get_running_loop().time() + self._retry


T = TypeVar("T")

LARGE = 300
"""Tools of a catalog that is indexed before anybody searches it. Fewer take some 50 ms."""

QUIET = 1.0
"""Seconds after the first listing until the background begins, so that the listings of others come first."""

_SLICE = 0.004  # seconds of work in the background between two rests

_OWN = ""  # the hub's own tools in the index: no server has this name


class CatalogIndex:
    """The index in a file. ``worker`` is the thread that uses it; all methods are for the event loop."""

    def __init__(
        self,
        path: Path,
        tools: ToolCatalog,
        worker: Executor,
        loop: asyncio.AbstractEventLoop,
        quiet: float = QUIET,
    ) -> None:
        self._path, self._tools, self._worker, self._loop, self._quiet = path, tools, worker, loop, quiet
        self.idle: Callable[[], frozenset[str]] = frozenset
        """Names the hub's own tools that a search leaves out at the moment."""
        self._index: ToolIndex | None = None
        self._without: frozenset[str] = frozenset()  # the hub's own tools that are not in the index
        self._changed: set[str] = set()  # servers whose tools may differ from what is in the index
        self._timer: asyncio.TimerHandle | None = None
        self._closed = self._in_memory = False
        self.vectors = IndexVectors(self.run)

    def note(self, server: str) -> None:
        """Note that the tools of a server came, changed or went."""
        self._changed.add(server)
        self._begin_later(self._quiet)

    async def run(self, work: Callable[[ToolIndex], T], idle: frozenset[str] | None = None) -> T:
        """Run work on the index in its thread, and return the result. ``idle``: as :attr:`idle` names now."""
        return await self._loop.run_in_executor(self._worker, self._run, work, idle)

    def prepare(self, idle: frozenset[str]) -> None:
        """Bring the index up to date for a search that follows. Failures are logged."""
        if self._index is None or self._changed:
            self._worker.submit(self._ready, idle).add_done_callback(
                partial(_log_failure, "the index of tools")
            )

    def end(self) -> None:
        """Begin nothing more in the background."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Close the file. For the thread."""
        if self._index is not None:
            self._index.close()

    # -- in the background -------------------------------------------------------------------------

    def _begin_later(self, seconds: float) -> None:
        large = self._index is not None or self._tools.count >= LARGE
        if large and self._changed and self._timer is None and not self._closed:
            self._timer = self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        """Index one server, then the next: a search waits for one of them at most."""
        done = self._worker.submit(self._index_one, self.idle())
        done.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._ended, done))

    def _ended(self, done: Future[None]) -> None:
        self._timer = None
        _log_failure("the index of tools", done)
        if not done.exception():  # a search tries it again
            self._begin_later(0)

    def _index_one(self, idle: frozenset[str]) -> None:
        index = self._open_index(idle)
        if self._changed:
            self._update(index, self._changed.pop(), thread_slices(_SLICE, rest=0.25))

    # -- in the thread -----------------------------------------------------------------------------

    def _run(self, work: Callable[[ToolIndex], T], idle: frozenset[str] | None) -> T:
        return work(self._ready(idle))

    def _ready(self, idle: frozenset[str] | None) -> ToolIndex:
        """Return the index with all tools of the catalog: in memory if its file cannot be written."""
        try:
            return self._complete(idle)
        except Exception as error:
            if self._in_memory:
                raise
            log.warning("the index of tools is kept in memory: %s", error)
            self._in_memory, self._index = True, None
            self._changed |= {tool.server for tool in self._tools.tools}
            return self._complete(idle)

    def _complete(self, idle: frozenset[str] | None) -> ToolIndex:
        index = self._open_index(idle)
        while self._changed:
            self._update(index, self._changed.pop())
        return index

    def _open_index(self, idle: frozenset[str] | None) -> ToolIndex:
        idle = self._without if idle is None else idle
        index = self._index
        if index is None:
            from tabane.catalog.tools.index import ToolIndex

            index = ToolIndex(":memory:" if self._in_memory else str(self._path))
            self._changed |= index.servers() - {_OWN}
            self._index = index
        elif idle == self._without:
            return index
        # Without the idle ones in the index, these do not count as documents either.
        index.replace(_OWN, [tool for tool in self._tools.own if tool.name not in idle])
        self._without = idle
        return index

    def _update(self, index: ToolIndex, server: str, rest: Pause = no_pause) -> None:
        """Bring the tools of a server up to date. If that fails, the next search tries it again."""
        try:
            if self._tools.has(server):
                index.replace(server, self._tools.for_models(server), rest)
            else:
                index.remove(server)
        except BaseException:
            self._changed.add(server)
            raise


class IndexVectors:
    """Vectors by model and key of the text, in an index. ``run`` runs work on the index."""

    def __init__(self, run: Callable[[Callable[[ToolIndex], Any]], Awaitable[Any]]) -> None:
        self._run = run

    async def missing(self, model: str, most: int) -> list[ToolGist]:
        """Return texts without a vector, those of the newest tools first."""
        found: list[ToolGist] = await self._run(lambda index: index.vectors.missing(model, most))
        return found

    async def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep vectors by the keys of their texts."""
        await self._run(lambda index: index.vectors.put(model, vectors))

    async def clear(self, models: Sequence[str]) -> None:
        """Delete what belongs to no other model than these, and what is too old."""
        await self._run(lambda index: index.vectors.clear(models))


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
        # Lists that are known of each server, also from before its configuration was changed.
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
        meaning = await self._meaning.of_query(query.query) if compares else QueryMeaning()
        found = await self._index.run(lambda index: index.search(more, meaning.vectors), idle)
        hits = ties_broken(found.hits, self.use.of(holder), {tool.alias for tool in self.tools.own})
        if found.incomplete:
            self._meaning.changed()
        starting = meaning.available and (found.incomplete or not found.compared)
        late = starting and meaning.late
        return structs.replace(found, hits=hits[: query.limit], starting=starting, late=late)

    def note_use(self, holder: str, tool: str, times: int, *, kept: bool) -> None:
        """Count calls of a tool by its public name. ``kept``: the count is to outlive the hub."""
        self.use.note(holder, tool, time.time(), times, shared=kept)
        if kept and self._use_saving is None:
            self._use_saving = self._loop.call_later(_USE_SAVED, self._save_use)

    def _save_use(self) -> None:
        self._use_saving = None
        self._later(self._listings.keep_used, self.use.all())

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
        """Keep how a server has to be shared."""
        self._later(self._listings.learn, server, fingerprint, share)

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
            self._later(self._save, server)

    def _save(self, server: str) -> None:
        self._unsaved.discard(server)
        self._listings.save(self._listed[server])

    def _aliases(self) -> dict[Named, Mapping[str, Entry]]:
        return {"tools": self.tools.aliases.entries, "prompts": self.prompts.aliases.entries}

    def _keep_aliases(self) -> None:
        for of, entries in self._aliases().items():
            if len(entries) > self._kept[of]:
                self._kept[of] = len(entries)
                self._later(self._listings.keep_aliases, entries, of)

    def _index_later(self, name: str) -> None:
        self._meaning.changed()
        self._index.note(name)

    def _later(self, work: Callable[..., object], *given: object) -> None:
        """Do work on the files in the thread."""
        self._worker.submit(work, *given).add_done_callback(partial(_log_failure, "the catalog's files"))

    def _close_files(self) -> None:
        self._index.close()
        self._listings.close()


def _log_failure(what: str, done: Future[Any]) -> None:
    if done.exception():
        log.error("%s: %s", what, done.exception())


HALF_LIFE = 14 * 86_400.0
"""Seconds after which a call counts half."""

TIE = 0.01
"""The largest difference of two scores that are equal for a reader."""

MOST = 5_000
"""Pairs of caller and tool that are counted. Beyond it, the half that counts least is forgotten."""

_BEGIN = 1_767_225_600.0  # 2026-01-01: so far, a call had the weight 1
_YEAR = 365 * 86_400.0
_LARGEST = 1_000.0  # of an exponent: a clock may be wrong

Use = tuple[str, str, float]
"""(holder, public name of the tool, weight)"""


class ToolUse:
    """Counts calls by holder and tool. A later call counts more, so that weights never have to be reduced.

    ``used`` is what this hub counted earlier. In a group of hubs, the weights of the others are added.
    """

    def __init__(self, used: Iterable[Use] = ()) -> None:
        self._weights: dict[tuple[str, str], float] = {
            (holder, tool): weight for holder, tool, weight in used
        }
        self._others: dict[tuple[str, str], float] = {}
        self._unshared = set(self._weights)
        self._by_holder: dict[str, dict[str, float]] | None = None

    def note(self, holder: str, tool: str, now: float, times: int = 1, *, shared: bool = True) -> None:
        """Count calls at that Unix time. ``shared``: other hubs may know of it."""
        key = holder, tool
        if shared:
            self._unshared.add(key)
        weight = times * 2.0 ** min(_LARGEST, (now - _BEGIN) / HALF_LIFE)
        self._weights[key] = self._weights.get(key, 0.0) + weight
        self._by_holder = None
        if len(self._weights) > MOST:
            kept = heapq.nlargest(MOST // 2, self._weights.items(), key=lambda item: (item[1], item[0]))
            self._weights = dict(kept)
            self._unshared &= self._weights.keys()

    def of(self, holder: str) -> Mapping[str, float]:
        """Return the weights of the tools that this holder used. Only their order has a meaning."""
        if self._by_holder is None:
            self._by_holder = {}
            for (whose, tool), weight in (*self._weights.items(), *self._others.items()):
                of_one = self._by_holder.setdefault(whose, {})
                of_one[tool] = of_one.get(tool, 0.0) + weight
        return self._by_holder.get(holder, {})

    def all(self) -> list[Use]:
        """Return what this hub counted."""
        return [(holder, tool, weight) for (holder, tool), weight in self._weights.items()]

    def unshared(self) -> list[Use]:
        """Return what this hub counted and has not shared with others yet. It then counts as shared."""
        unshared, self._unshared = self._unshared, set()
        return [(*key, self._weights[key]) for key in unshared if key in self._weights]

    def tell_again(self, uses: Iterable[Use]) -> None:
        """Note that this was not shared with the others after all."""
        self._unshared |= {(holder, tool) for holder, tool, _ in uses}

    def restore(self, kept: Iterable[Use]) -> None:
        """Take what the group keeps of this hub, if it is more: the files of the hub may be older."""
        for holder, tool, weight in kept:
            key = holder, tool
            self._weights[key] = max(weight, self._weights.get(key, 0.0))
        self._by_holder = None

    def put_others(self, uses: Iterable[Use]) -> None:
        """Replace the weights of all other hubs."""
        self._others = {(holder, tool): weight for holder, tool, weight in uses}
        self._by_holder = None


def forgotten(now: float) -> float:
    """Return the weight of one call that was made a year before that Unix time: less hardly counts."""
    return float(2.0 ** min(_LARGEST, (now - _YEAR - _BEGIN) / HALF_LIFE))


def ties_broken(
    hits: Sequence[ToolHit], used: Mapping[str, float], own: Collection[str]
) -> tuple[ToolHit, ...]:
    """Return the hits in the order of their scores, where scores within :data:`TIE` are a tie.

    A tie contains a hit and those below it that score at most that much less. Within it, tools of servers
    come before own ones, then those that were used more, and then the order that was given. A hit with
    score 1 was asked for by its name, and one with score 0 only matches a filter: these are in no tie.
    """
    ties: list[list[ToolHit]] = []
    for hit in hits:
        if ties and 0.0 < (best := ties[-1][0].score) < 1.0 and round(best - hit.score, 6) <= TIE:
            ties[-1].append(hit)
        else:
            ties.append([hit])
    for tie in ties:
        tie.sort(key=lambda hit: (hit.alias in own, -used.get(hit.alias, 0.0)))
    return tuple(hit for tie in ties for hit in tie)
