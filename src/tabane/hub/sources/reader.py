"""Reader of a hub: its fetchers, its stored pages, and the process that converts files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.hub.clients.server_access import inner_access
from tabane.hub.context import HubContext
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import Stores
from tabane.operations import LOCAL, Caller, Face, Operation
from tabane.reader.page_domain import DOMAIN
from tabane.servers.labels import PRIVATE
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.hub.sources.documents import DocumentStore
    from tabane.reader.conversion import PageConverter
    from tabane.reader.fetching import PageFetcher, Policy
    from tabane.reader.operations import ReaderOperations
    from tabane.reader.page import Page
    from tabane.reader.page_cache import PageCache
    from tabane.reader.page_records import PageSearch
    from tabane.reader.rendering import PageRenderer
    from tabane.reader.url_reader import UrlReader
    from tabane.search.engine import Collection
    from tabane.search.models import Models

log = logging.getLogger(__name__)


class _ReaderParts(Struct, frozen=True):
    """``fetchings``: by whether an assistant asks."""

    conversion: PageConverter
    fetchings: Mapping[bool, PageFetcher]
    rendering: PageRenderer
    reader: ReaderOperations
    searching: PageSearch


class PageReader:
    """The reader of one hub. No library of it is imported, nor a process started, before the first page.

    ``flows`` are told who gets a private page. ``errors`` is the descriptor that the converting process
    writes its stderr to. ``documents`` has to be set before the first page: pages are remembered there.
    """

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        flows: HubFlows,
        errors: int | None = None,
    ) -> None:
        self._context, self._stores, self._models, self._embedding = context, stores, models, embedding
        self._flows, self._errors = flows, errors
        self.documents: DocumentStore
        self._rooms: _ReaderParts | None = None

    def open(self) -> None:
        """Log at startup the problems that would make every page fail."""
        if not self._context.settings.reader_allow:
            return
        from tabane.reader.guard import AllowedHosts

        try:
            AllowedHosts(self._context.settings.reader_allow)
        except ConfigurationError as error:
            log.warning("%s", error)

    def table(self) -> list[Operation]:
        """Return the operations on pages."""
        from tabane.reader.table import reader_table

        return reader_table(lambda: self._made().reader)

    async def convert(self, data: bytes, name: str) -> Page:
        """Return a file of that name as a page. Raises ReadError."""
        return await self._made().conversion.page(data, "", name=name)

    @property
    def there(self) -> bool:
        """Whether any page was ever stored."""
        return self._stores.holds(DOMAIN)

    @property
    def searching(self) -> PageSearch:
        """The pages that were read, as a search source."""
        return self._made().searching

    async def close(self) -> None:
        """End the processes that convert and render, and close connections."""
        if self._rooms is not None:
            await self._rooms.rendering.close()
            for fetching in self._rooms.fetchings.values():
                await fetching.close()
            await self._rooms.conversion.close()

    def _made(self) -> _ReaderParts:
        """Return the reader room. It is imported on first use, which costs 30 ms and some MB."""
        from tabane.reader.page import SHAPE

        if self._rooms is None:
            from tabane.reader.conversion import PageConverter
            from tabane.reader.fetching import PageFetcher
            from tabane.reader.page_cache import PageCache
            from tabane.reader.page_records import PageSearch
            from tabane.reader.rendering import BrowserChoice, PageRenderer

            conversion = PageConverter(self._context.environment, errors=self._errors)
            fetchings = {asked: PageFetcher(self._policy(asked)) for asked in (False, True)}
            vectors = partial(self._embedding.question, SHAPE.name)
            searching = PageSearch(self._collection, self._models, vectors)

            def choice() -> BrowserChoice:
                settings = self._context.settings
                program = None if settings.reader_render == "never" else settings.reader_browser
                sandboxed = settings.reader_render != "unsandboxed"
                return BrowserChoice(program, sandboxed, settings.reader_scrolls)

            rendering = PageRenderer(
                self._policy(False), choice, self._context.environment, errors=self._errors
            )
            shelf = PageCache(
                self._collection,
                self._models.measure,
                most=lambda: self._context.settings.reader_cache,
                wake=lambda: self._embedding.wake(SHAPE.name),
            )
            reader = self._reader(conversion, fetchings, rendering, shelf)
            self._rooms = _ReaderParts(conversion, fetchings, rendering, reader, searching)
        return self._rooms

    def _reader(
        self,
        conversion: PageConverter,
        fetchings: Mapping[bool, PageFetcher],
        rendering: PageRenderer,
        shelf: PageCache,
    ) -> ReaderOperations:
        from tabane.reader.cookies.cookie_folder import CookieFolder
        from tabane.reader.operations import PrivateReader, ReaderOperations
        from tabane.reader.sites.any_page import AnyPageAdapter
        from tabane.reader.sites.registry import all_site_adapters
        from tabane.reader.sites.site_adapter import ReadingTools
        from tabane.reader.url_reader import ReadingRules, UrlReader

        context = self._context
        ways = all_site_adapters(context.secret)

        def rules() -> ReadingRules:
            settings = context.settings
            return ReadingRules(settings.reader_sites_off, settings.reader_fresh * 60)

        def reading(fetching: PageFetcher) -> UrlReader:
            general = AnyPageAdapter(rendering)
            tools = ReadingTools(fetching, conversion)
            return UrlReader(
                tools,
                ways,
                shelf,
                general=general,
                rules=rules,
                show=conversion.shown,
            )

        private = PrivateReader(
            CookieFolder(context.home),
            self._may_use_cookies,
            lambda caller: fetchings[caller.face is Face.MCP],
            conversion,
            conversion.shown,
        )
        readings = {asked: reading(fetching) for asked, fetching in fetchings.items()}
        return ReaderOperations(
            lambda caller: readings[caller.face is Face.MCP],
            shelf,
            self.documents.remember,
            default=lambda: context.settings.reader_tokens,
            private=private,
            noted=lambda caller: self._flows.found(caller, PRIVATE, "pages", "read_url_content"),
        )

    def _may_use_cookies(self, caller: Caller) -> bool:
        """Return whether a caller may read pages with imported cookies. A profile takes that away, too."""
        wanted = self._context.settings.reader_cookies
        return wanted == "keys" or (wanted == "owner" and inner_access(caller.access) is LOCAL)

    def _policy(self, assistant: bool) -> Callable[[], Policy]:
        return lambda: reading_policy(self._context.settings, assistant)

    async def _collection(self) -> Collection:
        from tabane.reader.page import SHAPE

        return await self._stores.collection(DOMAIN, SHAPE)


def reading_policy(settings: Settings, assistant: bool) -> Policy:
    """Return the network permissions of the settings. robots.txt applies to requests for more than one
    page.
    """
    from tabane.reader.fetching import Policy

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
