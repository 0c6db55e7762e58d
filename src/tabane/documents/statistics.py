"""How many documents there are, of what types, since when, and how many of their chunks are embedded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from tabane.documents.document import CHUNKS, FILE_TYPE, HEADS, SPACE, UPDATED_AT, Document, document_of
from tabane.documents.embedding import space_of
from tabane.search.engine import Collection, Order, VectorQuery

MOST_TYPES = 100


async def counted(collection: Callable[[], Awaitable[Collection]]) -> dict[str, Any]:
    """The numbers of one collection."""
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
    """How many chunks have a vector: as many as can be compared with any."""
    space = space_of(collection)
    if space is None:
        return 0
    some = struct.pack(f"<{space.dimension}f", 1.0, *([0.0] * (space.dimension - 1)))
    return (await collection.nearest(VectorQuery({SPACE: some}), CHUNKS, 1)).total
