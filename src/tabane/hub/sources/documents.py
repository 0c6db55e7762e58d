"""Document store of a hub: opened with the first request, and listed as resources of MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tabane.documents import DOMAIN
from tabane.errors import StoreError, TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import FOLDER, Stores
from tabane.operations import Caller, Door, Face, Lazy, Operation

if TYPE_CHECKING:
    from tabane.documents.files.file_operations import DocumentFiles
    from tabane.documents.files.readable_files import Converter
    from tabane.documents.operations import DocumentLibrary
    from tabane.documents.searching import DocumentLabels
    from tabane.hub.clients.document_resources import ListedDocument
    from tabane.hub.sources.open_documents import OpenDocuments
    from tabane.reader.page import Page
    from tabane.search.source import Models, SearchSource

log = logging.getLogger(__name__)

_WATCHED = "documents.watched"  # the folders that are watched, beside the store


class DocumentStore:
    """The documents of one hub. Nothing is opened or created before the first request.

    ``convert`` makes Markdown of files that are no text. ``labels`` knows what callers have read. ``door``
    admits those who put a page.
    """

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        convert: Converter,
        labels: DocumentLabels,
        door: Door,
    ) -> None:
        self._stores, self._door, self._watched = stores, door, context.home / FOLDER / _WATCHED
        self.on_change: Callable[[str, bool], None] = lambda key, listed: None
        """Called with the key of a document that has changed, and whether the list of all has with it."""

        @Lazy
        def opened() -> OpenDocuments:
            from tabane.hub.sources.open_documents import OpenDocuments  # with the first request

            documents = OpenDocuments(context, stores, models, embedding, convert, labels, self._watched)
            documents.library.changed.append(lambda key, event: self.on_change(key, event != "updated"))
            return documents

        self._opened = opened

    @property
    def there(self) -> bool:
        """Return whether any document was ever stored."""
        return self._stores.holds(DOMAIN)

    @property
    def is_open(self) -> bool:
        """Whether the store is open, so that a request does not have to open it."""
        return self._stores.is_open(DOMAIN)

    @property
    def watches(self) -> bool:
        """Return whether any folder is watched, so that there is work without requests."""
        opened = self._opened.opened
        return opened is not None and opened.files.watched > 0

    async def counts(self) -> dict[str, int]:
        """Return the counts of documents and of watched folders, if their store is open."""
        opened = self._opened.opened
        if opened is None or not self._stores.is_open(DOMAIN):
            return {}
        watched = {"documents_watched": opened.files.watched}
        try:
            return {"documents": await opened.count(), **watched}
        except StoreError:  # a database that is away does not hide the rest of the status
            return watched

    async def open(self) -> None:
        """Watch the folders again that were watched before. A failure does not affect the rest of the hub."""
        try:
            if await asyncio.to_thread(self._watched.exists):
                await self.files().start()
        except (TabaneError, OSError) as error:
            log.warning("folders are not watched: %s", error)

    def table(self) -> list[Operation]:
        """Return the operations on documents and files."""
        from tabane.documents.table import documents_table, files_table

        return [*documents_table(self.library), *files_table(self.files)]

    async def close(self) -> None:
        """Stop watching folders; they are watched again by the next hub."""
        if self._opened.opened is not None:
            await self._opened.opened.files.close()

    def library(self) -> DocumentLibrary:
        """Return the handlers of operations on documents, imported on first use."""
        return self._opened().library

    def files(self) -> DocumentFiles:
        """Return the handlers of operations on files and watched folders, imported on first use."""
        return self._opened().files

    async def remember(self, caller: Caller, page: Page) -> str:
        """Put a page that was read, and return its key. Raises TabaneError if it cannot be put."""
        self._door.operation(caller, "put_document", Face.RPC)
        return await self._opened().put_page(page)

    @property
    def searching(self) -> SearchSource[Any]:
        """The documents as a search source."""
        return self.library().searching

    # -- as resources of MCP -----------------------------------------------------------------------

    async def page(self, after: str | None, limit: int) -> tuple[Sequence[ListedDocument], bool]:
        """Return at most ``limit`` documents behind the key ``after``, and whether there are more."""
        return await self._opened().page(after, limit) if self.there else ((), False)

    async def text(self, key: str, caller: Caller) -> tuple[ListedDocument, str] | None:
        """Return a document with its text, and note that the caller read it; None if there is none."""
        return await self._opened().text(key, caller) if self.there else None

    async def beginning(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` keys that begin with a prefix."""
        return await self.library().beginning(prefix, limit) if self.there else ()
