"""All similarities in order, and counts of everything: the same as worked out record by record."""

from __future__ import annotations

import asyncio

import msgspec
import numpy as np
import pytest

from tabane.engine.embedded.truth import NumericKeys
from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, Equal, Filter
from tests.engine.embedded.opening import EmbeddedCollection, embedded, indexed
from tests.engine.embedded.vectors.oracle import SHAPE, packed
from tests.engine.embedded.vectors.ranking import RankingContract, numbered

pytestmark = pytest.mark.heavy("thousands of records")


async def test_keys_that_are_numbers_are_read_once_for_all_scans() -> None:
    """The table of records is wide: a second scan does not look into it, and leaves out what is gone."""
    query = VectorQuery({"text": packed([1, 0, 0, 0, 0])})
    asked: list[str] = []

    async def scanned(collection: EmbeddedCollection, where: Filter = EVERYTHING) -> list[str]:
        return [key async for block in collection.scan(query, where) for key in block.keys]

    async with embedded(shape=SHAPE) as collection:
        records = [
            msgspec.structs.replace(record, fields={"author": "ab"[place >= 45_000]})
            for place, record in enumerate(numbered(range(100_000, 145_100)))
        ]
        await collection.upsert(records)
        assert await scanned(collection, Equal("author", "b")) == [str(n) for n in range(145_000, 145_100)]
        expected = [str(number) for number in range(100_000, 145_100)]
        assert await scanned(collection) == expected
        traced = [
            collection.engine.table.database.read(lambda one: one.set_trace_callback(asked.append))
            for _ in range(8)
        ]
        await asyncio.gather(*traced)  # both connections that read
        assert await scanned(collection) == expected
        assert asked
        assert not [statement for statement in asked if "key" in statement]
        gone = [str(number) for number in range(100_000, 145_100, 3)]
        await collection.delete(gone)
        await collection.upsert(numbered([7]))
        left = [str(number) for number in range(100_000, 145_100) if (number - 100_000) % 3]
        assert await scanned(collection) == [*left, "7"]
        blocks = collection.scan(query, EVERYTHING)
        first = await anext(blocks)
        await collection.delete(left[-100:])
        rest = [key async for block in blocks for key in block.keys]
        assert [*first.keys, *rest] == [*left[:-100], "7"]


async def test_a_key_that_was_read_after_it_had_gone_is_looked_up() -> None:
    """As for a ranking that began before the deletion."""
    async with embedded(shape=SHAPE) as collection:
        await collection.upsert(numbered(range(5)))
        await collection.delete(["3"])
        keys = NumericKeys(collection.engine.table.truth)
        await collection.engine.table.database.read(lambda connection: keys.read_on(connection, 6))
        assert keys.of(np.array([1, 2, 3])) == ["0", "1", "2"]
        assert keys.of(np.array([3, 4])) is None
        assert keys.of(np.array([6])) is None


class TestRanking(RankingContract):
    engine = staticmethod(indexed)
