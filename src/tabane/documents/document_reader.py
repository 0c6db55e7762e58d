"""Reader of documents: whole, in parts of limited size, as lists, and as counts."""

from __future__ import annotations

import asyncio
import struct
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

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
from tabane.documents.put_embedding import space_of
from tabane.errors import BadArguments, StoreBusy
from tabane.messages import say
from tabane.search.engine import MOST_AT_ONCE, Collection, Order, VectorQuery
from tabane.search.filters import And, Filter, Prefix, Range
from tabane.search.records import Record
from tabane.wire.cursors import CursorCodec, ForeignCursor

MOST_TYPES = 100


async def counted(collection: Callable[[], Awaitable[Collection]]) -> dict[str, Any]:
    """Return the statistics of one collection."""
    there = await collection()
    documents, chunks, types, oldest, newest, embedded = await asyncio.gather(
        there.count(HEADS),
        there.count(CHUNKS),
        there.facet(FILE_TYPE, HEADS, MOST_TYPES),
        _first(there, Order(UPDATED_AT)),
        _first(there, Order(UPDATED_AT, descending=True)),
        _embedded(there),
    )
    space = space_of(there)
    return {
        "documents": documents,
        "chunks": chunks,
        "embedded_chunks": embedded,
        "file_types": {str(name): count for name, count in types},
        "updated": {
            "earliest": oldest.updated if oldest else None,
            "latest": newest.updated if newest else None,
        },
        "model": space.model.partition("#")[0] if space else None,
        "vector_dimension": space.dimension if space else None,
    }


async def _first(collection: Collection, order: Order) -> Document | None:
    page = await collection.select(HEADS, order=(order,), limit=1)
    return document_of(page.records[0].record) if page.records else None


async def _embedded(collection: Collection) -> int:
    """Return how many chunks have a vector: as many as can be compared with any vector."""
    space = space_of(collection)
    if space is None:
        return 0
    some = struct.pack(f"<{space.dimension}f", 1.0, *([0.0] * (space.dimension - 1)))
    return (await collection.nearest(VectorQuery({SPACE: some}), CHUNKS, 1)).total


_TRIES = 10  # a document may be replaced while it is read


class DocumentPage(NamedTuple):
    """Documents in order of their names, and the cursor of the next ones."""

    documents: list[Document]
    after: str | None


class DocumentReader:
    """The documents of one collection."""

    def __init__(self, collection: Callable[[], Awaitable[Collection]]) -> None:
        self._collection = collection

    async def documents(self, filepaths: Sequence[str]) -> list[Document | None]:
        """Return the description of each, in their order; None if it does not exist."""
        collection = await self._collection()
        found: list[Document | None] = []
        for first in range(0, len(filepaths), MOST_AT_ONCE):
            keys = [head_key(filepath) for filepath in filepaths[first : first + MOST_AT_ONCE]]
            records = await collection.get(keys)
            found += [None if record is None else document_of(record) for record in records]
        return found

    async def listed(self, where: Filter, limit: int, after: str | None = None) -> DocumentPage:
        """Return matching documents.

        ``after`` is the cursor of the previous page; ``limit`` is 1 to 1,000.
        """
        collection = await self._collection()
        page = await collection.select(And((HEADS, where)), after=after, limit=limit)
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
            found = await self.part(document, start, document.length if end is None else end)
            if found is not None:
                return document, found
        raise StoreBusy(say("{filepath} changes while it is read. Try again", filepath=filepath))

    async def part(self, document: Document, start: int, end: int) -> str | None:
        """Return ``text[start:end]``, None if the document has changed meanwhile."""
        collection, chosen = await self._collection(), covering(document.chunks, start, end)
        keys = document.keys[chosen]
        texts: list[str] = []
        for at in range(0, len(keys), MOST_AT_ONCE):
            for record in await collection.get(keys[at : at + MOST_AT_ONCE]):
                if record is None or not _is_of(record, document):
                    return None
                texts.append(text_of(record))
        return joined(document.chunks[chosen], texts, start, end)


def _is_of(record: Record, document: Document) -> bool:
    """Return whether a chunk belongs to this text.

    The key of the first chunk does not depend on its content.
    """
    if record.fields.get(PART) != "document":
        return True
    there = document_of(record)
    return (there.hash, there.measure) == (document.hash, document.measure)


def covering(pieces: Sequence[ChunkSpan], start: int, end: int) -> slice:
    """Return the slice of the pieces that overlap ``start`` to ``end``. Pieces are in order."""
    first = bisect_right(pieces, start, key=lambda piece: piece.end)
    last = bisect_right(pieces, end - 1, key=lambda piece: piece.start)
    return slice(first, last)


def joined(pieces: Sequence[ChunkSpan], texts: Sequence[str], start: int, end: int) -> str:
    """Return the text between ``start`` and ``end``. Text in two overlapping pieces is taken once."""
    found: list[str] = []
    at = start
    for piece, text in zip(pieces, texts, strict=True):
        if at < piece.end:
            found.append(text[at - piece.start : end - piece.start])
            at = piece.end
    return "".join(found)


MOST_SHOWN = 300_000
"""Characters of all texts in one answer: a network message has at most 1 MB."""

_MARK = 16  # characters of a hash that a cursor carries


class PartCursor(NamedTuple):
    """The start of the next part of a document, and a prefix of the hash of its text."""

    mark: str
    start: int


_CURSORS = CursorCodec("document", PartCursor)


class DocumentPart(NamedTuple):
    """Part of a document.

    ``text`` begins at ``start``. ``cursor`` requests the next part, None at the end.
    """

    document: Document
    text: str
    start: int
    cursor: str | None


class DocumentParts:
    """Reads texts in parts that fit into an answer."""

    def __init__(self, reading: DocumentReader) -> None:
        self._reading = reading

    async def part(self, filepath: str, cursor: str | None, offset: int, length: int) -> DocumentPart | None:
        """Return a part of a document, from the cursor if there is one. None if the document does not exist.

        Raises BadArguments for an invalid cursor, or one for another text.
        """
        mark, start = _read(cursor) if cursor is not None else ("", offset)
        found = await self._reading.text(filepath, start, start + length)
        if found is None:
            return None
        document, text = found
        if mark and not document.hash.startswith(mark):
            message = say(
                "cursor: {filepath} has changed since then. Start again without a cursor", filepath=filepath
            )
            raise BadArguments(message, "cursor")
        end = start + len(text)
        more = PartCursor(document.hash[:_MARK], end) if text and end < document.length else None
        return DocumentPart(document, text, start, more and _CURSORS.encode(more))

    async def beginnings(self, documents: Sequence[Document], longest: int | None) -> Mapping[str, str]:
        """Return texts by document name, up to ``longest`` characters of each and 300,000 in all."""
        found: dict[str, str] = {}
        left = MOST_SHOWN
        for document in documents:
            length = min(document.length, left, document.length if longest is None else longest)
            text = await self._reading.part(document, 0, length) if length else ""
            if text is not None:
                found[document.filepath] = text
                left -= len(text)
        return found


def _read(cursor: str) -> PartCursor:
    try:
        return _CURSORS.decode(cursor)
    except ForeignCursor:
        raise BadArguments(say("cursor: it was not issued by get_document"), "cursor") from None
