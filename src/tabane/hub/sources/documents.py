"""Document store of a hub: opened with the first request, and listed as resources of MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.documents import DOMAIN
from tabane.errors import StoreError, TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import FOLDER, Stores
from tabane.operations import Caller, Door, Face, Operation

if TYPE_CHECKING:
    from tabane.documents.document import Document
    from tabane.documents.document_writer import Event
    from tabane.documents.files.file_operations import DocumentFiles
    from tabane.documents.files.readable_files import Converter
    from tabane.documents.operations import DocumentLibrary
    from tabane.documents.searching import DocumentLabels
    from tabane.hub.clients.document_resources import ListedDocument
    from tabane.reader.page import Page
    from tabane.search.engine import Collection
    from tabane.search.models import Models
    from tabane.search.source import SearchSource

log = logging.getLogger(__name__)

ROOTS = "documents_roots"
"""The setting that names the folders which assistants may put files from."""

_WATCHED = "documents.watched"  # the folders that are watched, beside the store


class _OpenedDocuments(Struct, frozen=True):
    documents: DocumentLibrary
    files: DocumentFiles


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
        self._context, self._stores, self._models, self._embedding = context, stores, models, embedding
        self._convert, self._labels, self._door = convert, labels, door
        self.on_change: Callable[[str, bool], None] = lambda key, listed: None
        """Called with the key of a document that has changed, and whether the list of all has with it."""
        self._rooms: _OpenedDocuments | None = None

    @property
    def there(self) -> bool:
        """Return whether any document was ever stored."""
        return self._stores.holds(DOMAIN)

    @property
    def watches(self) -> bool:
        """Return whether any folder is watched, so that there is work without requests."""
        return self._rooms is not None and self._rooms.files.watched > 0

    async def counts(self) -> dict[str, int]:
        """Return the counts of documents and of watched folders, if their store is open."""
        from tabane.documents.document import HEADS

        if self._rooms is None or not self._stores.is_open(DOMAIN):
            return {}
        watched = {"documents_watched": self._rooms.files.watched}
        try:
            return {"documents": await (await self._collection()).count(HEADS), **watched}
        except StoreError:  # a database that is away does not hide the rest of the status
            return watched

    async def open(self) -> None:
        """Watch the folders again that were watched before. A failure does not affect the rest of the hub."""
        try:
            if await asyncio.to_thread(self._watched.exists):
                await self.files.start()
        except (TabaneError, OSError) as error:
            log.warning("folders are not watched: %s", error)

    def table(self) -> list[Operation]:
        """Return the operations on documents and files."""
        from tabane.documents.table import documents_table, files_table

        return [*documents_table(lambda: self.documents), *files_table(lambda: self.files)]

    async def close(self) -> None:
        """Stop watching folders; they are watched again by the next hub."""
        if self._rooms is not None:
            await self._rooms.files.close()

    @property
    def documents(self) -> DocumentLibrary:
        """The operations on documents, imported on first use."""
        return self._made().documents

    @property
    def files(self) -> DocumentFiles:
        """The operations on files and watched folders, imported on first use."""
        return self._made().files

    async def remember(self, caller: Caller, page: Page) -> str:
        """Put a page that was read, and return its key. Raises TabaneError if it cannot be put.

        The key is its URL: never one that the page names itself.
        """
        from tabane.documents.document import Draft
        from tabane.servers.labels import UNTRUSTED

        self._door.operation(caller, "put_document", Face.RPC)
        draft = Draft(page.url, page.markdown, kind="markdown", title=page.title, labels=UNTRUSTED)
        (result,) = await self.documents.put([draft])
        if isinstance(result, TabaneError):
            raise result
        return page.url

    @property
    def searching(self) -> SearchSource[Any]:
        """The documents as a search source."""
        return self.documents.searching

    # -- as resources of MCP -----------------------------------------------------------------------

    async def page(self, after: str | None, limit: int) -> tuple[Sequence[ListedDocument], bool]:
        """Return at most ``limit`` documents behind the key ``after``, and whether there are more."""
        if not self.there:
            return (), False
        page = await self.documents.page(after, limit)
        return [_held(document) for document in page.documents], page.after is not None

    async def text(self, key: str, caller: Caller) -> tuple[ListedDocument, str] | None:
        """Return a document with its text, and note that the caller read it; None if there is none."""
        if not self.there:
            return None
        found = await self.documents.text(key)
        if found is None:
            return None
        from tabane.documents.searching import note_labels

        note_labels(self._labels, caller, found[:1])
        return _held(found[0]), found[1]

    async def beginning(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` keys that begin with a prefix."""
        if not self.there:
            return ()
        return await self.documents.beginning(prefix, limit)

    # -- what documents are given ------------------------------------------------------------------

    def _made(self) -> _OpenedDocuments:
        """Return the operations. They are imported on first use, which costs 20 ms and some MB."""
        from tabane.documents.document import SHAPE

        if self._rooms is None:
            from tabane.documents.files.file_operations import DocumentFiles
            from tabane.documents.files.readable_files import FileTextReader, ReadableFiles, ReadableRoots
            from tabane.documents.operations import DocumentLibrary
            from tabane.hub.sources.document_context import HubDocumentContext

            texts = FileTextReader(self._convert)
            documents = DocumentLibrary(
                self._collection,
                self._models,
                partial(self._embedding.question, SHAPE.name),
                lambda: self._embedding.wake(SHAPE.name),
                HubDocumentContext(self._context),
                files=ReadableFiles(ReadableRoots(self._roots, ROOTS), texts).read,
                uploads=texts,
                labels=self._labels,
            )
            documents.changed.append(self._changed)
            self._rooms = _OpenedDocuments(documents, DocumentFiles(documents, texts, self._watched))
        return self._rooms

    def _roots(self) -> list[Path]:
        return [Path(root).expanduser() for root in self._context.settings.documents_roots]

    @property
    def _watched(self) -> Path:
        return self._context.home / FOLDER / _WATCHED

    async def _collection(self) -> Collection:
        from tabane.documents.document import SHAPE

        return await self._stores.collection(DOMAIN, SHAPE)

    def _changed(self, filepath: str, event: Event) -> None:
        self.on_change(filepath, event != "updated")


def _held(document: Document) -> ListedDocument:
    from tabane.hub.clients.document_resources import ListedDocument

    title = document.title or None
    return ListedDocument(document.filepath, title, document.media_type, document.size, document.updated)
