"""Reader of a hub once it is used: fetchers, converter, renderer, cache and sites.

It is imported with the first page, which costs 30 ms and some MB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tabane.hub.clients.server_access import inner_access
from tabane.hub.context import HubContext
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.sources.documents import DocumentStore
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import Stores
from tabane.hub.work.jobs import Jobs
from tabane.operations import LOCAL, Caller, Face
from tabane.reader.conversion import PageConverter
from tabane.reader.cookies import CookieFolder
from tabane.reader.crawling.operations import SiteOperations
from tabane.reader.crawling.site_file import SiteFile
from tabane.reader.fetching import PageFetcher, Policy
from tabane.reader.fetching.interface import Fetcher
from tabane.reader.operations import PrivateReader, ReaderOperations
from tabane.reader.page import SHAPE
from tabane.reader.page_cache import PageCache
from tabane.reader.page_domain import DOMAIN
from tabane.reader.page_records import PageSearch
from tabane.reader.rendering import BrowserChoice, PageRenderer
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.registry import all_site_adapters
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import ReadingRules, UrlReader
from tabane.search.engine import Collection
from tabane.search.source import Models
from tabane.servers.labels import PRIVATE
from tabane.settings import Settings


class OpenReader:
    """The reader of one hub: its operations, its pages as a search source, and the converter of files.

    ``flows`` are told who gets a private page. ``documents`` remember pages. ``errors`` is the descriptor
    that the converting process writes its stderr to.
    """

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        flows: HubFlows,
        jobs: Jobs,
        documents: DocumentStore,
        errors: int | None,
    ) -> None:
        self._context, self._stores, self._flows = context, stores, flows
        self.conversion = PageConverter(context.environment, errors=errors)
        self._fetchings = {asked: PageFetcher(self._policy(asked)) for asked in (False, True)}
        self.searching = PageSearch(self._collection, models, embedding.question)
        self._rendering = PageRenderer(
            self._policy(False), self._browser_choice, context.environment, errors=errors
        )
        cache = PageCache(
            self._collection,
            models.measure,
            most=lambda: context.settings.reader_cache,
            wake=partial(embedding.wake, SHAPE.name),
        )
        self._private = PrivateReader(
            CookieFolder(context.home),
            self._may_use_cookies,
            lambda caller: self._fetchings[caller.face is Face.MCP],
            self.conversion,
            self.conversion.shown,
        )
        self._site_fetching = PageFetcher(self._site_policy)
        self._site_file = SiteFile(context.home)
        self.operations = self._make_operations(cache, documents)
        self.sites = self._make_site_operations(cache, documents, jobs)

    async def close(self) -> None:
        """End the processes that convert and render, and close connections."""
        await self._rendering.close()
        for fetching in self._fetchings.values():
            await fetching.close()
        await self._site_fetching.close()
        await self._site_file.close()
        await self.conversion.close()

    def _make_operations(self, cache: PageCache, documents: DocumentStore) -> ReaderOperations:
        context, conversion, fetchings = self._context, self.conversion, self._fetchings
        sites, general = all_site_adapters(context.secret), AnyPageAdapter(self._rendering)
        readings: Mapping[bool, UrlReader] = {
            by_assistant: UrlReader(
                ReadingTools(fetching, conversion),
                sites,
                cache,
                general=general,
                rules=self._reading_rules,
                show=conversion.shown,
            )
            for by_assistant, fetching in fetchings.items()
        }
        return ReaderOperations(
            lambda caller: readings[caller.face is Face.MCP],
            cache,
            documents.remember,
            default=lambda: context.settings.reader_tokens,
            private=self._private,
            noted=lambda caller: self._flows.found(caller, PRIVATE, "pages", "read_url_content"),
        )

    def _make_site_operations(self, cache: PageCache, documents: DocumentStore, jobs: Jobs) -> SiteOperations:
        conversion = self.conversion
        adapters, general = all_site_adapters(self._context.secret), AnyPageAdapter(self._rendering)

        def reader(fetcher: Fetcher) -> UrlReader:
            return UrlReader(
                ReadingTools(fetcher, conversion),
                adapters,
                cache,
                general=general,
                rules=self._site_rules,
                show=conversion.shown,
            )

        return SiteOperations(
            self._site_file,
            self._site_fetching,
            reader,
            documents.remember,
            jobs,
            self._private,
            self._reading_rules,
        )

    # -- what the settings say now -------------------------------------------------------------------

    def _browser_choice(self) -> BrowserChoice:
        settings = self._context.settings
        program = None if settings.reader_render == "never" else settings.reader_browser
        return BrowserChoice(program, settings.reader_render != "unsandboxed", settings.reader_scrolls)

    def _reading_rules(self) -> ReadingRules:
        settings = self._context.settings
        return ReadingRules(settings.reader_sites_off, settings.reader_fresh * 60)

    def _site_rules(self) -> ReadingRules:
        """Return the rules for whole sites: each page is asked for."""
        return replace(self._reading_rules(), fresh=0)

    def _site_policy(self) -> Policy:
        """Return the network permissions for whole sites: robots.txt applies to people, too.

        A page that fails is tried once more after the others.
        """
        settings = self._context.settings
        return replace(reading_policy(settings, False), robots=settings.reader_robots != "never", retries=0)

    def _may_use_cookies(self, caller: Caller) -> bool:
        """Return whether a caller may read pages with imported cookies. A profile takes that away, too."""
        choice = self._context.settings.reader_cookies
        return choice == "keys" or (choice == "owner" and inner_access(caller.access) is LOCAL)

    def _policy(self, assistant: bool) -> Callable[[], Policy]:
        return lambda: reading_policy(self._context.settings, assistant)

    async def _collection(self) -> Collection:
        return await self._stores.collection(DOMAIN, SHAPE)


def reading_policy(settings: Settings, assistant: bool) -> Policy:
    """Return the network permissions of the settings.

    robots.txt applies to requests for more than one page.
    """
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
