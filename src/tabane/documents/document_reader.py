"""Reader of documents: whole, in parts of limited size, as lists, as folders, and as counts."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from os.path import commonprefix
from typing import Any, Literal, NamedTuple

from tabane.documents.document import (
    CHUNKS,
    DOCUMENT,
    FILE_TYPE,
    HEADS,
    PART,
    SPACE,
    UPDATED_AT,
    ChunkSpan,
    Document,
    document_of,
    head_key,
    text_of,
)
from tabane.errors import BadArguments, ModelMissing, ModelUnavailable, StoreBusy
from tabane.messages import Message, say
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.engine import MOST_AT_ONCE, Collection, Order
from tabane.search.records import And, EmbeddingSpace, Filter, Prefix, Range, Scalar
from tabane.search.source import Models
from tabane.wire.cursors import CursorCodec, ForeignCursor

PATIENCE = 15.0
"""Seconds that the first put waits for a model to open."""

BRIEF = 1.0
"""Seconds that later puts wait for it after one put timed out. The model may be downloading."""

MOST = 64
"""Texts that a put waits for, about a second with a small model. More are embedded in the background."""

LARGEST_TEXT = 10_000_000
"""Bytes of a document's text, unless a setting says otherwise."""

LONGEST = 20.0
"""Seconds that a put waits for its vectors: a client waits for an answer for at most a minute."""

_MODEL_TRIES = 3

_NOT_READY = say("The embedding model is not ready yet. Until it is, search finds this by keywords only.")

STILL_INDEXING = say(
    "Semantic search is still indexing this. Until that is done, search finds it by keywords only."
)
"""The warning about texts that are embedded in the background."""


@dataclass(frozen=True, slots=True)
class PutVectors:
    """Result of embedding for a put: a vector for each text, or a warning with the reason why not.

    ``space`` is the space of the vectors at that time.
    """

    space: EmbeddingSpace | None = None
    vectors: Sequence[bytes] = ()
    warning: Message | None = None


def space_of(collection: Collection) -> EmbeddingSpace | None:
    """Return the space of the chunks' texts, None before anything was embedded."""
    return next((space for space in collection.spaces if space.name == SPACE), None)


class DocumentContext:
    """Circumstances of a document library: its folder, its clock, and its settings as they are now.

    The values of this class are those of documents outside of a hub. ``folder`` is shown in answers.
    """

    patience, longest = PATIENCE, LONGEST

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def names_model(self) -> bool:
        """Return whether the settings name a model, so that a put fails without it."""
        return False

    @property
    def zone(self) -> tzinfo:
        """Return the time zone of dates without an offset."""
        return UTC

    @property
    def largest(self) -> int:
        """Return the limit of a document's text, in bytes."""
        return LARGEST_TEXT

    def now(self) -> float:
        """Return the time of documents that are put now, in seconds since 1970."""
        return time.time()


class PutEmbedding:
    """Embeds with the model of the collection's vectors. The first available model becomes that model.

    If the settings name a model that is not available, nothing is stored. If a model was only detected and
    is not available, documents are stored and found by keywords.
    """

    def __init__(self, models: Models, context: DocumentContext) -> None:
        self._models, self._context = models, context
        self._late = False

    async def embed_texts(self, collection: Collection, texts: Sequence[str]) -> PutVectors:
        """Return vectors for these texts, in their order. Without texts, the model is checked all the same.

        Raises ModelError if a named model is not available, or if a model fails on the texts.
        """
        for _ in range(_MODEL_TRIES):
            embedder = await self._open_embedder(collection)
            if isinstance(embedder, NoModel):
                return PutVectors(space_of(collection), warning=embedder.reason)
            space = space_of(collection)
            model = embedder.fingerprint
            if not self._context.names_model and not all(reads(model, text) for text in texts):
                # Vectors of such texts would be noise. The background job checks each of them.
                warning = say(
                    "{model} reads English only, so this document is found by keywords only.",
                    model=model.partition("#")[0],
                )
                return PutVectors(space, warning=warning)
            if space is None:
                space = EmbeddingSpace(SPACE, embedder.dimension, model)
                try:
                    await collection.add_space(space)
                except BadArguments:
                    continue  # another call added a space with another model meanwhile
            if not texts:
                return PutVectors(space)
            if len(texts) > MOST:
                return PutVectors(space, warning=STILL_INDEXING)
            try:
                async with asyncio.timeout(self._context.longest):
                    return PutVectors(space, await embedder.embed(texts))
            except TimeoutError:
                return PutVectors(space, warning=STILL_INDEXING)
            except ModelUnavailable as error:
                if self._context.names_model:
                    raise
                return PutVectors(space, warning=error.message)
        return PutVectors(warning=_NOT_READY)

    async def _open_embedder(self, collection: Collection) -> Embedder | NoModel:
        space = space_of(collection)
        try:
            patience = self._context.patience
            async with asyncio.timeout(min(patience, BRIEF) if self._late else patience):
                embedder = await (
                    self._models.wanted() if space is None else self._models.serving(space.model)
                )
        except TimeoutError:
            self._late = True
            return NoModel(_NOT_READY)
        self._late = False
        if isinstance(embedder, NoModel) and self._context.names_model:
            raise ModelMissing(embedder.reason)
        return embedder


MOST_TYPES = 100


async def counted(records: Collection) -> dict[str, Any]:
    """Return the statistics of one collection."""
    space = space_of(records)
    documents, chunks, types, oldest, newest = await asyncio.gather(
        records.count(HEADS),
        records.count(CHUNKS),
        records.facet(FILE_TYPE, HEADS, MOST_TYPES),
        _first_document(records, Order(UPDATED_AT)),
        _first_document(records, Order(UPDATED_AT, descending=True)),
    )
    return {
        "documents": documents,
        "chunks": chunks,
        "embedded_chunks": await records.embedded(SPACE, CHUNKS) if space else 0,
        "file_types": {str(name): count for name, count in types},
        "updated": {
            "earliest": oldest.updated if oldest else None,
            "latest": newest.updated if newest else None,
        },
        "model": space.model.partition("#")[0] if space else None,
        "vector_dimension": space.dimension if space else None,
    }


async def _first_document(collection: Collection, order: Order) -> Document | None:
    page = await collection.select(HEADS, order=(order,), limit=1)
    return document_of(page.records[0].record) if page.records else None


_TRIES = 10  # a document may be replaced while it is read

MOST_SHOWN = 300_000
"""Characters of all texts in one answer: a network message has at most 1 MB."""

_MARK = 16  # characters of a hash that a cursor carries


class PartCursor(NamedTuple):
    """The start of the next part of a document, and a prefix of the hash of its text."""

    mark: str
    start: int


_PART_CURSORS = CursorCodec("document", PartCursor)


class DocumentPart(NamedTuple):
    """Part of a document.

    ``text`` begins at ``start``. ``cursor`` requests the next part, None at the end.
    """

    document: Document
    text: str
    start: int
    cursor: str | None


class DocumentPage(NamedTuple):
    """Documents in order of their names, and the cursor of the next ones."""

    documents: list[Document]
    after: str | None


class DocumentReader:
    """The documents of one open collection, as one request reads them."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    async def documents(self, filepaths: Sequence[str]) -> list[Document | None]:
        """Return the description of each, in their order; None if it does not exist."""
        collection = self._collection
        descriptions: list[Document | None] = []
        for first in range(0, len(filepaths), MOST_AT_ONCE):
            keys = [head_key(filepath) for filepath in filepaths[first : first + MOST_AT_ONCE]]
            records = await collection.get(keys)
            descriptions += [None if record is None else document_of(record) for record in records]
        return descriptions

    async def listed(
        self, where: Filter, limit: int, after: str | None = None, *, newest: bool = False
    ) -> DocumentPage:
        """Return matching documents in order of names, or those changed last first.

        ``after`` is the cursor of the previous page; ``limit`` is 1 to 1,000.
        """
        order = (Order(UPDATED_AT, descending=True),) if newest else ()
        page = await self._collection.select(And((HEADS, where)), order=order, after=after, limit=limit)
        return DocumentPage([document_of(stored.record) for stored in page.records], page.after)

    async def behind(self, filepath: str | None, limit: int) -> DocumentPage:
        """Return documents in order of their names, after a name that need not exist."""
        where: Filter = And(()) if filepath is None else Range(DOCUMENT, filepath, include_low=False)
        return await self.listed(where, limit)

    async def all(self, prefix: str = "") -> AsyncIterator[Document]:
        """Yield every document whose name has that prefix, in order of names."""
        where: Filter = Prefix(DOCUMENT, prefix) if prefix else And(())
        after: str | None = None
        while True:
            page = await self.listed(where, MOST_AT_ONCE, after)
            for document in page.documents:
                yield document
            after = page.after
            if after is None:
                return

    async def text(
        self, filepath: str, start: int = 0, end: int | None = None
    ) -> tuple[Document, str] | None:
        """Return a document and its ``text[start:end]``, both from the same version.

        None if there is none.
        """
        for _ in range(_TRIES):
            (document,) = await self.documents([filepath])
            if document is None:
                return None
            text = await self.part(document, start, document.length if end is None else end)
            if text is not None:
                return document, text
        raise StoreBusy(say("{filepath} changes while it is read. Try again", filepath=filepath))

    async def part(self, document: Document, start: int, end: int) -> str | None:
        """Return ``text[start:end]``, None if the document has changed meanwhile."""
        chosen = covering(document.chunks, start, end)
        keys = document.keys[chosen]
        texts: list[str] = []
        for at in range(0, len(keys), MOST_AT_ONCE):
            for record in await self._collection.get(keys[at : at + MOST_AT_ONCE]):
                if record is None:
                    return None
                if record.fields.get(PART) == "document":
                    # The key of the first chunk does not depend on its content.
                    head = document_of(record)
                    if (head.hash, head.measure) != (document.hash, document.measure):
                        return None
                texts.append(text_of(record))
        return joined(document.chunks[chosen], texts, start, end)

    async def answer_part(
        self, filepath: str, cursor: str | None, offset: int, length: int
    ) -> DocumentPart | None:
        """Return a part of a document, from the cursor if there is one. None if the document does not exist.

        Raises BadArguments for an invalid cursor, or one for another text.
        """
        try:
            mark, start = ("", offset) if cursor is None else _PART_CURSORS.decode(cursor)
        except ForeignCursor:
            message = say("cursor: it was not issued by get_document")
            raise BadArguments(message, "cursor") from None
        version = await self.text(filepath, start, start + length)
        if version is None:
            return None
        document, text = version
        if mark and not document.hash.startswith(mark):
            message = say(
                "cursor: {filepath} has changed since then. Start again without a cursor", filepath=filepath
            )
            raise BadArguments(message, "cursor")
        end = start + len(text)
        more = PartCursor(document.hash[:_MARK], end) if text and end < document.length else None
        return DocumentPart(document, text, start, more and _PART_CURSORS.encode(more))

    async def beginnings(self, documents: Sequence[Document], longest: int | None) -> Mapping[str, str]:
        """Return texts by document name, up to ``longest`` characters of each and 300,000 in all."""
        texts: dict[str, str] = {}
        left = MOST_SHOWN
        for document in documents:
            length = min(document.length, left, document.length if longest is None else longest)
            text = await self.part(document, 0, length) if length else ""
            if text is not None:
                texts[document.filepath] = text
                left -= len(text)
        return texts


def covering(pieces: Sequence[ChunkSpan], start: int, end: int) -> slice:
    """Return the slice of the pieces that overlap ``start`` to ``end``. Pieces are in order."""
    first = bisect_right(pieces, start, key=lambda piece: piece.end)
    last = bisect_right(pieces, end - 1, key=lambda piece: piece.start)
    return slice(first, last)


def joined(pieces: Sequence[ChunkSpan], texts: Sequence[str], start: int, end: int) -> str:
    """Return the text between ``start`` and ``end``. Text in two overlapping pieces is taken once."""
    parts: list[str] = []
    at = start
    for piece, text in zip(pieces, texts, strict=True):
        if at < piece.end:
            parts.append(text[at - piece.start : end - piece.start])
            at = piece.end
    return "".join(parts)


_SLASH = "/"
_REMEMBERED = 4  # levels


class FolderEntry(NamedTuple):
    """A folder: the prefix of the names in it, and how many documents it has, with those in its folders."""

    prefix: str
    documents: int


class _FolderCursor(NamedTuple):
    """The last entry of a page: a folder or a document, and its name."""

    part: Literal["folders", "documents"]
    name: str


_FOLDER_CURSORS = CursorCodec("folder", _FolderCursor)


class _FolderLevel(NamedTuple):
    """All entries of a level, each kind in order of names."""

    folders: list[FolderEntry]
    documents: list[str]


class FolderPage(NamedTuple):
    """Entries of a level, folders first. ``total_folders`` and ``total`` count those of the whole level."""

    folders: list[FolderEntry]
    documents: list[Document]
    total_folders: int
    total: int
    after: str | None


class FolderListing:
    """Lists one level at a time. The levels listed last are remembered until a document changes.

    A level of 100,000 documents takes 0.15 s to list, and one of a thousand 10 ms.
    """

    def __init__(self) -> None:
        self._levels: OrderedDict[tuple[str, Filter], _FolderLevel] = OrderedDict()
        self._changes = -1

    async def page(
        self, collection: Collection, prefix: str, where: Filter, limit: int, cursor: str | None = None
    ) -> FolderPage:
        """Return entries whose names begin with ``prefix`` and match; ``limit`` is 1 to 1,000.

        Raises BadArguments for a cursor that was not issued here.
        """
        try:
            after = _FolderCursor("folders", "") if cursor is None else _FOLDER_CURSORS.decode(cursor)
        except ForeignCursor:
            message = say("cursor: it was not issued by list_document_folders")
            raise BadArguments(message, "cursor") from None
        level = await self._read_level(collection, prefix, where)
        folders = level.folders[_page_start(after, level, "folders") :][:limit]
        left = limit - len(folders)
        names = level.documents[_page_start(after, level, "documents") :][:left]
        heads = await DocumentReader(collection).documents(names)
        documents = [document for document in heads if document is not None]
        total = len(level.documents) + sum(folder.documents for folder in level.folders)
        more = _next_cursor(level, folders, names, after)
        return FolderPage(folders, documents, len(level.folders), total, more)

    async def _read_level(self, collection: Collection, prefix: str, where: Filter) -> _FolderLevel:
        changes, key = collection.changes, (prefix, where)
        if changes != self._changes:
            self._levels.clear()
            self._changes = changes
        level = self._levels.get(key)
        if level is None:
            names = await collection.tally(DOCUMENT, where)
            level = await asyncio.to_thread(_level_below, prefix, names)
            if changes == collection.changes == self._changes:
                self._levels[key] = level
                if len(self._levels) > _REMEMBERED:
                    self._levels.popitem(last=False)
        else:
            self._levels.move_to_end(key)
        return level


def _level_below(prefix: str, names: Mapping[Scalar, int]) -> _FolderLevel:
    """Return the level below a prefix that all names have."""
    below: dict[str, list[str]] = {}
    documents: list[str] = []
    for name in map(str, names):
        end = name.find(_SLASH, len(prefix))
        if end < 0:
            documents.append(name)
        else:
            below.setdefault(name[: end + 1], []).append(name)
    folders = []
    for group in below.values():
        common = commonprefix([min(group), max(group)])  # noqa: RUF071 - names are no paths, and the slash is found next
        folders.append(FolderEntry(common[: common.rindex(_SLASH) + 1], len(group)))
    return _FolderLevel(sorted(folders), sorted(documents))


def _page_start(after: _FolderCursor, level: _FolderLevel, part: Literal["folders", "documents"]) -> int:
    """Return where the page begins in one kind of entries."""
    if after.part != part:
        return len(level.folders) if part == "folders" else 0
    if part == "folders":
        return bisect_right(level.folders, after.name, key=lambda folder: folder.prefix)
    return bisect_right(level.documents, after.name)


def _next_cursor(
    level: _FolderLevel, folders: list[FolderEntry], names: list[str], after: _FolderCursor
) -> str | None:
    last = (
        _FolderCursor("documents", names[-1])
        if names
        else _FolderCursor("folders", folders[-1].prefix)
        if folders
        else after
    )
    entries = len(level.folders) if last.part == "folders" else len(level.documents)
    complete = _page_start(last, level, last.part) == entries
    if complete and (last.part == "documents" or not level.documents):
        return None
    return _FOLDER_CURSORS.encode(last)
