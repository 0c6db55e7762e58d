"""Reads documents, whole or in part, lists them, and counts them."""

from __future__ import annotations

import asyncio
import struct
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from tabane.errors import StoreBusy
from tabane.messages import say
from tabane.search.engine import MOST_AT_ONCE, Collection, Order, VectorQuery
from tabane.search.filters import And, Filter, Prefix, Range
from tabane.search.records import Record

MOST_TYPES = 100


async def counted(collection: Callable[[], Awaitable[Collection]]) -> dict[str, Any]:
    """Return the numbers of one collection."""
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
    """Return how many chunks have a vector: as many as can be compared with any."""
    space = space_of(collection)
    if space is None:
        return 0
    some = struct.pack(f"<{space.dimension}f", 1.0, *([0.0] * (space.dimension - 1)))
    return (await collection.nearest(VectorQuery({SPACE: some}), CHUNKS, 1)).total


_TRIES = 10  # a document that is put again and again is read between two of them


class DocumentPage(NamedTuple):
    """Documents in order of their names, and the cursor of the next ones."""

    documents: list[Document]
    after: str | None


class DocumentReader:
    """The documents of one collection."""

    def __init__(self, collection: Callable[[], Awaitable[Collection]]) -> None:
        self._collection = collection

    async def documents(self, filepaths: Sequence[str]) -> list[Document | None]:
        """Return what is known of each, in their order, None if there is none."""
        collection = await self._collection()
        found: list[Document | None] = []
        for first in range(0, len(filepaths), MOST_AT_ONCE):
            keys = [head_key(filepath) for filepath in filepaths[first : first + MOST_AT_ONCE]]
            records = await collection.get(keys)
            found += [None if record is None else document_of(record) for record in records]
        return found

    async def listed(self, where: Filter, limit: int, after: str | None = None) -> DocumentPage:
        """Documents that match. ``after`` is the cursor of the page before; ``limit`` is 1 to 1,000."""
        collection = await self._collection()
        page = await collection.select(And((HEADS, where)), after=after, limit=limit)
        return DocumentPage([document_of(stored.record) for stored in page.records], page.after)

    async def behind(self, filepath: str | None, limit: int) -> DocumentPage:
        """Return documents in order of their names, after one that need not exist."""
        where: Filter = And(()) if filepath is None else Range(DOCUMENT, filepath, include_low=False)
        return await self.listed(where, limit)

    async def all(self, prefix: str = "") -> AsyncIterator[Document]:
        """Yield every document whose name begins so, in order of names."""
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
        """Return a document and ``text[start:end]`` of it, of one moment; None if there is none."""
        for _ in range(_TRIES):
            (document,) = await self.documents([filepath])
            if document is None:
                return None
            found = await self.part(document, start, document.length if end is None else end)
            if found is not None:
                return document, found
        raise StoreBusy(say("{filepath} changes while it is read. Try again", filepath=filepath))

    async def part(self, document: Document, start: int, end: int) -> str | None:
        """``text[start:end]``; None if the document is another one by now."""
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
    """Return whether a chunk is of this text: the key of the first one tells nothing of what it says."""
    if record.fields.get(PART) != "document":
        return True
    there = document_of(record)
    return (there.hash, there.measure) == (document.hash, document.measure)


def covering(pieces: Sequence[ChunkSpan], start: int, end: int) -> slice:
    """Return which of the pieces, which are in order, hold something between ``start`` and ``end``."""
    first = bisect_right(pieces, start, key=lambda piece: piece.end)
    last = bisect_right(pieces, end - 1, key=lambda piece: piece.start)
    return slice(first, last)


def joined(pieces: Sequence[ChunkSpan], texts: Sequence[str], start: int, end: int) -> str:
    """Return the text between ``start`` and ``end``: what two pieces both hold is taken once."""
    found: list[str] = []
    at = start
    for piece, text in zip(pieces, texts, strict=True):
        if at < piece.end:
            found.append(text[at - piece.start : end - piece.start])
            at = piece.end
    return "".join(found)
