"""Documents of a hub once they are used: their operations, watched folders, and resources of MCP.

It is imported with the first request, which costs 20 ms and some MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tabane.documents import DOMAIN
from tabane.documents.document import HEADS, SHAPE, Document, Draft
from tabane.documents.document_reader import DocumentContext
from tabane.documents.files.file_operations import DocumentFiles
from tabane.documents.files.readable_files import Converter, FileTextReader, ReadableFiles, ReadableRoots
from tabane.documents.operations import DocumentLibrary
from tabane.documents.searching import DocumentLabels, note_labels
from tabane.errors import TabaneError
from tabane.hub.clients.document_resources import ListedDocument
from tabane.hub.context import HubContext
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import FOLDER, Stores
from tabane.operations import Caller
from tabane.search.engine import Collection
from tabane.search.source import Models
from tabane.servers.labels import UNTRUSTED
from tabane.text.time_zones import zone_of

if TYPE_CHECKING:
    from tabane.reader.page import Page

ROOTS = "documents_roots"
"""The setting that names the folders which assistants may put files from."""


class HubDocumentContext(DocumentContext):
    """The folder of a hub's documents, and the hub's settings as they are now."""

    def __init__(self, context: HubContext) -> None:
        super().__init__(str(context.home / FOLDER))
        self._context = context

    @property
    def names_model(self) -> bool:
        """Whether the settings name a model."""
        return self._context.names_model

    @property
    def zone(self) -> tzinfo:
        """The time zone of dates without an offset."""
        return zone_of(self._context.settings.posts_zone)

    @property
    def largest(self) -> int:
        """The limit of a document's text, in bytes."""
        return self._context.settings.documents_size


class OpenDocuments:
    """The documents of one hub. ``watched`` is the file of the folders that are watched.

    ``convert`` makes Markdown of files that are no text. ``labels`` knows what callers have read.
    """

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        convert: Converter,
        labels: DocumentLabels,
        watched: Path,
    ) -> None:
        self._context, self._stores, self._labels = context, stores, labels
        texts = FileTextReader(convert)
        self.library = DocumentLibrary(
            self._collection,
            models,
            embedding.question,
            partial(embedding.wake, SHAPE.name),
            HubDocumentContext(context),
            files=ReadableFiles(ReadableRoots(self._roots, ROOTS), texts).read,
            uploads=texts,
            labels=labels,
        )
        self.files = DocumentFiles(self.library, texts, watched)

    async def count(self) -> int:
        """Return the number of documents. Raises StoreError."""
        return await (await self._collection()).count(HEADS)

    async def put_page(self, page: Page) -> str:
        """Put a page that was read, and return its key. Raises TabaneError if it cannot be put.

        The key is its URL: never one that the page names itself.
        """
        draft = Draft(page.url, page.markdown, kind="markdown", title=page.title, labels=UNTRUSTED)
        (result,) = await self.library.put([draft])
        if isinstance(result, TabaneError):
            raise result
        return page.url

    # -- as resources of MCP -----------------------------------------------------------------------

    async def page(self, after: str | None, limit: int) -> tuple[Sequence[ListedDocument], bool]:
        """Return at most ``limit`` documents behind the key ``after``, and whether there are more."""
        page = await (await self.library.reading()).behind(after, limit)
        return [_listed(document) for document in page.documents], page.after is not None

    async def text(self, key: str, caller: Caller) -> tuple[ListedDocument, str] | None:
        """Return a document with its text, and note that the caller read it; None if there is none."""
        version = await (await self.library.reading()).text(key)
        if version is None:
            return None
        note_labels(self._labels, caller, version[:1])
        return _listed(version[0]), version[1]

    def _roots(self) -> list[Path]:
        return [Path(root).expanduser() for root in self._context.settings.documents_roots]

    async def _collection(self) -> Collection:
        return await self._stores.collection(DOMAIN, SHAPE)


def _listed(document: Document) -> ListedDocument:
    title = document.title or None
    return ListedDocument(document.filepath, title, document.media_type, document.size, document.updated)
