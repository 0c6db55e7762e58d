"""Records that tests write while something is killed, and what must be true of them afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count

from tabane.search.engine import Collection, LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING, Contains, EmbeddingSpace, Field, Kind, Record, Shape, TextField
from tests.engine.embedded.model import all_of
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape("notes", (TextField("body"),), (Field("author", Kind.STRING),), (EmbeddingSpace("text", 3),))
_VECTOR = packed([1, 2, 3])


def record(key: str) -> Record:
    return Record(
        key=key, texts={"body": f"東京 note {key}"}, fields={"author": "a"}, vectors={"text": _VECTOR}
    )


async def write_until_killed(collection: Collection) -> None:
    """Write in four lanes. Print the key of each record that was acknowledged."""

    async def lane(name: int) -> None:
        for number in count():
            written = record(f"{name}-{number}")
            await collection.upsert([written])
            print(written.key, flush=True)

    await asyncio.gather(*map(lane, range(4)))


async def check_whole(collection: Collection, acknowledged: Iterable[str]) -> int:
    """Every acknowledged record is there, in records and indexes alike. Return how many records there are."""
    keys = [each.key for each in await all_of(collection, limit=1000)]
    assert len(keys) == len(set(keys))
    assert set(acknowledged) <= set(keys)
    assert await collection.count(Contains("京 n")) == len(keys)
    assert await collection.facet("author", EVERYTHING) == [("a", len(keys))] * bool(keys)
    assert await collection.embedded("text", EVERYTHING) == len(keys)
    found = await collection.nearest(VectorQuery({"text": _VECTOR}), EVERYTHING, 1000)
    assert found.total == len(keys)
    hits = await collection.search(LexicalQuery("東京"), EVERYTHING, 1000)
    assert len(hits.hits) == min(1000, len(keys))
    assert {hit.key for hit in hits.hits} <= set(keys)
    return len(keys)
