"""Collections with their lexical index, in a folder, and ways to put records into tail or index."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from tabane.search.engine import Collection, EngineHits, LexicalQuery
from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import Record, Shape, TextField
from tabane.store.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.store.store import Store

BODY = Shape("notes", (TextField("body"),))


@asynccontextmanager
async def embedded(home: Path, shape: Shape) -> AsyncIterator[Collection]:
    store = await Store.open(str(home), "test", lexical=open_lexical)
    try:
        yield await store.collection(shape)
    finally:
        await store.close()


def with_one(work: Callable[[Collection], Awaitable[None]], shape: Shape = BODY) -> None:
    """Run ``work`` over a collection that is empty."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as home:
            async with embedded(Path(home), shape) as collection:
                await work(collection)

    asyncio.run(run())


def lexical(collection: Collection) -> LexicalIndex:
    found = collection.lexical  # type: ignore[attr-defined]
    assert isinstance(found, LexicalIndex)
    return found


def bodies(texts: Iterable[str]) -> list[Record]:
    return [Record(key=f"k{number:03}", texts={"body": text}) for number, text in enumerate(texts)]


async def found(
    collection: Collection, text: str | LexicalQuery, where: Filter = EVERYTHING, limit: int = 100
) -> list[str]:
    """The keys of the hits, in order."""
    query = LexicalQuery(text) if isinstance(text, str) else text
    return [hit.key for hit in (await collection.search(query, where, limit)).hits]


def scores(hits: EngineHits) -> dict[str, float]:
    return {hit.key: hit.score for hit in hits.hits}
