"""Reader of a hub, as it stands before the first page: nothing of it is loaded or started."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError
from tabane.hub.context import HubContext
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import Stores
from tabane.operations import Lazy, Operation
from tabane.reader.page_domain import DOMAIN

if TYPE_CHECKING:
    from tabane.hub.sources.documents import DocumentStore
    from tabane.hub.sources.open_reader import OpenReader
    from tabane.hub.work.jobs import Jobs
    from tabane.reader.crawling.operations import SiteOperations
    from tabane.reader.operations import ReaderOperations
    from tabane.reader.page import Page
    from tabane.reader.page_records import PageSearch
    from tabane.search.source import Models

log = logging.getLogger(__name__)


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
        jobs: Jobs,
        errors: int | None = None,
    ) -> None:
        self._context, self._stores = context, stores
        self.documents: DocumentStore

        @Lazy
        def opened() -> OpenReader:
            from tabane.hub.sources.open_reader import OpenReader  # with the first page

            return OpenReader(context, stores, models, embedding, flows, jobs, self.documents, errors)

        self._opened = opened

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

        return reader_table(self._operations, self._sites)

    def _operations(self) -> ReaderOperations:
        return self._opened().operations

    def _sites(self) -> SiteOperations:
        return self._opened().sites

    async def convert(self, data: bytes, name: str) -> Page:
        """Return a file of that name as a page. Raises ReadError."""
        return await self._opened().conversion.page(data, "", name=name)

    @property
    def there(self) -> bool:
        """Whether any page was ever stored."""
        return self._stores.holds(DOMAIN)

    @property
    def is_open(self) -> bool:
        """Whether the store is open, so that a request does not have to open it."""
        return self._stores.is_open(DOMAIN)

    @property
    def searching(self) -> PageSearch:
        """The pages that were read, as a search source."""
        return self._opened().searching

    async def close(self) -> None:
        """End the processes that convert and render, and close connections."""
        if self._opened.opened is not None:
            await self._opened.opened.close()
