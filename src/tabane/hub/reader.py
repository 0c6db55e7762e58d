"""The reader in a hub: what it fetches with, where pages are kept, and who converts them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError
from tabane.hub.embedding import CollectionEmbedder
from tabane.hub.finding import Answer, Hit
from tabane.hub.reference import Reference
from tabane.hub.stores import Stores
from tabane.operations import Caller, Face, Operation
from tabane.reader.shape import DOMAIN, SHAPE
from tabane.reader.table import reader_table
from tabane.search.meaning import Meaning
from tabane.search.models import Models
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.reader.conversion import Conversion
    from tabane.reader.fetching import Fetching, Policy
    from tabane.reader.finding import Finder
    from tabane.reader.operations import Reader
    from tabane.reader.page import Page
    from tabane.reader.reading import Reading
    from tabane.reader.rendering import Rendering
    from tabane.search.embedding.embedder import NoModel
    from tabane.store.collection import Collection

log = logging.getLogger(__name__)

Remember = Callable[[Caller, "Page"], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Rooms:
    """``fetchings``: by whether an assistant asks."""

    conversion: Conversion
    fetchings: Mapping[bool, Fetching]
    rendering: Rendering
    reader: Reader
    finder: Finder


class PageReader:
    """The reader of one hub. No library of it is imported, nor a process started, before the first page.

    ``remember`` puts a page into documents and tells under which key; ``keys`` looks up those of single
    sites. ``errors`` is the descriptor that the converting process writes its stderr to.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        environ: Mapping[str, str],
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        remember: Remember,
        keys: Callable[[str], str | None],
        errors: int | None = None,
    ) -> None:
        self._settings, self._environ = settings, environ
        self._stores, self._models, self._embedding = stores, models, embedding
        self._remember, self._keys, self._errors = remember, keys, errors
        self._rooms: _Rooms | None = None

    def open(self) -> None:
        """Say at the start what would make every page fail."""
        from tabane.reader.guard.allowed import Allowed

        if not self._settings().reader_allow:
            return
        try:
            Allowed(self._settings().reader_allow)
        except ConfigurationError as error:
            log.warning("%s", error)

    def table(self) -> list[Operation]:
        return reader_table(lambda: self._made().reader)

    async def convert(self, data: bytes, name: str) -> Page:
        """A file of that name as a page. Raises ReadError."""
        return await self._made().conversion.page(data, "", name=name)

    async def find(self, caller: Caller, query: str, limit: int) -> Answer:
        """What search_everything shows of the pages that were read."""
        if not self._stores.holds(DOMAIN):
            return Answer([])
        hits, warning = await self._made().finder(query, limit)
        rows = [
            Hit(
                "pages",
                h.key,
                h.title,
                h.text,
                Reference("read_url_content", {"url": h.key}),
                h.score,
                h.marks,
                h.cosine,
            )
            for h in hits
        ]
        return Answer(rows, warning)

    async def close(self) -> None:
        if self._rooms is not None:
            await self._rooms.rendering.close()
            for fetching in self._rooms.fetchings.values():
                await fetching.close()
            await self._rooms.conversion.close()

    def _made(self) -> _Rooms:
        """The room itself, imported when it is first needed: 30 ms and some MB that many never pay."""
        if self._rooms is None:
            from tabane.reader.conversion import Conversion
            from tabane.reader.fetching import Fetching
            from tabane.reader.finding import Finder

            conversion = Conversion(self._environ, errors=self._errors)
            fetchings = {asked: Fetching(self._policy(asked)) for asked in (False, True)}
            finder = Finder(self._collection, self._models, self._question)
            rendering = self._rendering()
            reader = self._reader(conversion, fetchings, rendering)
            self._rooms = _Rooms(conversion, fetchings, rendering, reader, finder)
        return self._rooms

    def _rendering(self) -> Rendering:
        from tabane.reader.rendering import Rendering

        settings = self._settings
        return Rendering(
            self._policy(False),
            lambda: None if settings().reader_render == "never" else settings().reader_browser,
            self._environ,
            sandbox=lambda: settings().reader_render != "unsandboxed",
            errors=self._errors,
        )

    def _reader(
        self, conversion: Conversion, fetchings: Mapping[bool, Fetching], rendering: Rendering
    ) -> Reader:
        from tabane.reader.operations import Reader
        from tabane.reader.reading import Reading
        from tabane.reader.shelf import Shelf
        from tabane.reader.ways.all import all_ways
        from tabane.reader.ways.page import PageWay
        from tabane.reader.ways.way import Means

        settings, ways = self._settings, all_ways(self._keys)
        shelf = Shelf(
            self._collection,
            self._models.measure,
            most=lambda: settings().reader_cache,
            wake=lambda: self._embedding.wake(SHAPE.name),
        )

        def fresh() -> float:
            return settings().reader_fresh * 60

        def reading(fetching: Fetching) -> Reading:
            general = PageWay(rendering)
            means = Means(fetching, conversion)
            return Reading(lambda: means, ways, shelf, general=general, fresh=fresh, show=conversion.shown)

        readings = {asked: reading(fetching) for asked, fetching in fetchings.items()}
        return Reader(
            lambda caller: readings[caller.face is Face.MCP],
            shelf,
            self._remember,
            default=lambda: settings().reader_tokens,
        )

    def _policy(self, assistant: bool) -> Callable[[], Policy]:
        """What the settings allow on the network; robots.txt is heeded by who asks for more than one page."""

        from tabane.reader.fetching import Policy

        def policy() -> Policy:
            settings = self._settings()
            heeded = settings.reader_robots
            return replace(
                Policy(),
                allowed=settings.reader_allow,
                max_bytes=settings.reader_size,
                timeout=settings.reader_timeout,
                connect_timeout=settings.reader_timeout / 3,
                read_timeout=settings.reader_timeout / 2,
                robots=heeded == "always" or (heeded == "assistants" and assistant),
                ca=str(settings.reader_ca) if settings.reader_ca else None,
                proxy=settings.reader_proxy or None,
            )

        return policy

    async def _collection(self) -> Collection:
        return await self._stores.collection(DOMAIN, SHAPE)

    async def _question(self, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        return await self._embedding.question(SHAPE.name, text, spaces)
