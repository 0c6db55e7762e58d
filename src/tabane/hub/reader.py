"""The reader in a hub: what it fetches with, where pages are kept, and who converts them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError
from tabane.hub.embedding import Embedding
from tabane.hub.finding import Answer, Hit
from tabane.hub.stores import Stores
from tabane.operations import Caller, Face, Operation
from tabane.reader.conversion import Conversion
from tabane.reader.fetching import Fetching, Policy
from tabane.reader.finding import Finder
from tabane.reader.guard.allowed import Allowed
from tabane.reader.operations import Reader
from tabane.reader.page import Page
from tabane.reader.passages import DOMAIN, SHAPE
from tabane.reader.reading import Reading
from tabane.reader.shelf import Shelf
from tabane.reader.ways.way import Means, Way
from tabane.search.meaning import Meaning
from tabane.search.models import Models
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import NoModel
    from tabane.store.collection import Collection

log = logging.getLogger(__name__)

Remember = Callable[[Caller, Page], Awaitable[str]]


class PageReader:
    """The reader of one hub. No library of it is imported, nor a process started, before the first page.

    ``remember`` puts a page into documents and tells under which key. ``errors`` is the descriptor that the
    converting process writes its stderr to.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        environ: Mapping[str, str],
        stores: Stores,
        models: Models,
        embedding: Embedding,
        remember: Remember,
        ways: Iterable[Way] = (),
        errors: int | None = None,
    ) -> None:
        self._settings, self._stores, self._embedding = settings, stores, embedding
        self.conversion = Conversion(environ, errors=errors)
        shelf = Shelf(
            self._collection,
            models.measure,
            most=lambda: settings().reader_cache,
            wake=lambda: embedding.wake(SHAPE.name),
        )
        self._fetchings = {asked: Fetching(self._policy(asked)) for asked in (False, True)}
        readings = {
            asked: Reading(self._means(asked), tuple(ways), shelf, fresh=lambda: settings().reader_fresh * 60)
            for asked in self._fetchings
        }
        self._reader = Reader(
            lambda caller: readings[caller.face is Face.MCP],
            shelf,
            remember,
            default=lambda: settings().reader_tokens,
        )
        self._finder = Finder(self._collection, models, self._question)

    def open(self) -> None:
        """Say at the start what would make every page fail."""
        try:
            Allowed(self._settings().reader_allow)
        except ConfigurationError as error:
            log.warning("%s", error)

    def table(self) -> list[Operation]:
        return self._reader.table()

    async def find(self, caller: Caller, query: str, limit: int) -> Answer:
        """What search_everything shows of the pages that were read."""
        if not self._stores.holds(DOMAIN):
            return Answer([])
        hits, warning = await self._finder(query, limit)
        rows = [Hit("pages", h.key, h.title, h.text, h.opens, h.score, h.marks, h.cosine) for h in hits]
        return Answer(rows, warning)

    async def close(self) -> None:
        for fetching in self._fetchings.values():
            await fetching.close()
        await self.conversion.close()

    def _policy(self, assistant: bool) -> Callable[[], Policy]:
        """What the settings allow on the network; robots.txt is heeded by who asks for more than one page."""

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

    def _means(self, assistant: bool) -> Callable[[], Means]:
        return lambda: Means(self._fetchings[assistant], self.conversion)

    async def _collection(self) -> Collection:
        return await self._stores.collection(DOMAIN, SHAPE)

    async def _question(self, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        return await self._embedding.question(SHAPE.name, text, spaces)
