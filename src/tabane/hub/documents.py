"""The document store in a hub: opened with the first question, fed by folders, shown as resources of MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from tabane.documents.document import DOMAIN, HEADS, SHAPE
from tabane.documents.table import documents_table, files_table
from tabane.errors import TabaneError
from tabane.hub.clients.library import Held
from tabane.hub.embedding import CollectionEmbedder
from tabane.hub.finding import Answer, Hit
from tabane.hub.reference import Reference
from tabane.hub.stores import FOLDER, Stores
from tabane.operations import Caller, Operation
from tabane.search.meaning import Meaning
from tabane.search.models import Models

if TYPE_CHECKING:
    from tabane.documents.document import Document
    from tabane.documents.files.files import Files
    from tabane.documents.files.kept import Converter
    from tabane.documents.finding import Hit as Found
    from tabane.documents.operations import Documents
    from tabane.documents.putting import Event
    from tabane.search.embedding.embedder import NoModel
    from tabane.store.collection import Collection

ROOTS = "documents_roots"
"""The setting that names the folders which assistants may put files from."""

_WATCHED = "documents.watched"  # the folders that are watched, beside the store


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say of documents, as they are when asked.

    ``roots`` are the folders that put_file may read from; ``largest`` is the longest text in bytes;
    ``named``: the settings name a model, so that it is an error where it cannot be had.
    """

    roots: Callable[[], Sequence[Path]]
    largest: Callable[[], int]
    named: Callable[[], bool]
    zone: Callable[[], tzinfo]


@dataclass(frozen=True, slots=True)
class _Rooms:
    documents: Documents
    files: Files


class DocumentStore:
    """The documents of one hub. Nothing is opened, nor made, before there is something to do with them.

    ``convert`` makes Markdown of files that are no text. ``told`` hears of each document that is another one
    now: its key, and whether the list of all has changed with it.
    """

    def __init__(
        self,
        home: Path,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        terms: Terms,
        convert: Converter,
        told: Callable[[str, bool], None],
    ) -> None:
        self._home, self._stores, self._models, self._embedding = home, stores, models, embedding
        self._terms, self._convert, self._told = terms, convert, told
        self._rooms: _Rooms | None = None

    @property
    def there(self) -> bool:
        """Whether any document was ever put."""
        return self._stores.holds(DOMAIN)

    @property
    def watches(self) -> bool:
        """Whether any folder is watched: then there is something to do though nobody asks."""
        return self._rooms is not None and self._rooms.files.watched > 0

    async def counts(self) -> dict[str, int]:
        """How many documents there are and how many folders are watched, where their store is open."""
        if self._rooms is None or not self._stores.is_open(DOMAIN):
            return {}
        documents = await (await self._collection()).count(HEADS)
        return {"documents": documents, "documents_watched": self._rooms.files.watched}

    async def open(self) -> None:
        """Watch again the folders that were watched when the hub before this one ended."""
        if await asyncio.to_thread(self._watched.exists):
            await self.files.start()

    def table(self) -> list[Operation]:
        return [*documents_table(lambda: self.documents), *files_table(lambda: self.files)]

    async def close(self) -> None:
        """Stop watching folders; they are watched again by the next hub."""
        if self._rooms is not None:
            await self._rooms.files.close()

    @property
    def documents(self) -> Documents:
        return self._made().documents

    @property
    def files(self) -> Files:
        return self._made().files

    async def keep(self, key: str, markdown: str, title: str | None) -> str:
        """Put a page that was read; its key. Raises TabaneError where it cannot be put."""
        from tabane.documents.document import Draft

        (result,) = await self.documents.put([Draft(key, markdown, kind="markdown", title=title)])
        if isinstance(result, TabaneError):
            raise result
        return key

    async def find(self, caller: Caller, query: str, limit: int) -> Answer:
        """What search_everything shows of the documents."""
        if not self.there:
            return Answer([])
        hits, warning = await self.documents.find(caller, query, limit)
        return Answer([_hit(hit) for hit in hits], warning)

    # -- as resources of MCP -----------------------------------------------------------------------

    async def page(self, after: str | None, limit: int) -> tuple[Sequence[Held], bool]:
        if not self.there:
            return (), False
        page = await self.documents.page(after, limit)
        return [_held(document) for document in page.documents], page.after is not None

    async def text(self, key: str) -> tuple[Held, str] | None:
        if not self.there:
            return None
        found = await self.documents.text(key)
        return None if found is None else (_held(found[0]), found[1])

    async def beginning(self, prefix: str, limit: int) -> Sequence[str]:
        if not self.there:
            return ()
        return await self.documents.beginning(prefix, limit)

    # -- what documents are given ------------------------------------------------------------------

    def _made(self) -> _Rooms:
        """The room itself, imported when it is first needed: 20 ms and some MB that many never pay."""
        if self._rooms is None:
            from tabane.documents.files.files import Files
            from tabane.documents.files.roots import Roots
            from tabane.documents.files.texts import Readable, Texts
            from tabane.documents.operations import Documents

            terms, texts = self._terms, Texts(self._convert)
            documents = Documents(
                self._collection,
                self._models,
                self._question,
                lambda: self._embedding.wake(SHAPE.name),
                folder=str(self._home / FOLDER),
                named=terms.named,
                zone=terms.zone,
                largest=terms.largest,
                files=Readable(Roots(terms.roots, ROOTS), texts).read,
            )
            documents.changed.append(self._changed)
            self._rooms = _Rooms(documents, Files(documents, texts, self._watched))
        return self._rooms

    @property
    def _watched(self) -> Path:
        return self._home / FOLDER / _WATCHED

    async def _collection(self) -> Collection:
        return await self._stores.collection(DOMAIN, SHAPE)

    async def _question(self, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        return await self._embedding.question(SHAPE.name, text, spaces)

    def _changed(self, filepath: str, event: Event) -> None:
        self._told(filepath, event != "updated")


def _hit(found: Found) -> Hit:
    opens = Reference("get_document", {"filepath": found.key})
    return Hit("documents", found.key, found.title, found.text, opens, found.score, found.marks, found.cosine)


def _held(document: Document) -> Held:
    title = document.title or None
    return Held(document.filepath, title, document.media_type, document.size, document.updated)
