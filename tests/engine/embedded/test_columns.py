"""What readers hold does not change under them, and what they read is of one moment."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import numpy as np

from tabane.engine.embedded.store import Store
from tabane.search.records import EVERYTHING, Equal, Record
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.shapes import SHAPE


def some(count: int, likes: int) -> list[Record]:
    return [Record(key=f"{number}", fields={"likes": likes, "tags": ("a", "b")}) for number in range(count)]


async def test_a_snapshot_stays_as_it_was_taken(tmp_path: Path) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert(some(100, likes=1))
        columns = collection.engine.table.columns
        snapshot = columns.snapshot()
        held = [snapshot.alive, *(values.values for values in snapshot.columns.values())]
        before = [array.copy() for array in held]
        await collection.upsert(some(150, likes=2))
        await collection.delete([str(number) for number in range(50)])
        await collection.engine.compact()
        for array, expected in zip(held, before, strict=True):
            np.testing.assert_array_equal(array, expected)
        assert columns.snapshot().changes > snapshot.changes


async def test_records_and_columns_are_read_at_one_moment(tmp_path: Path) -> None:
    """A reader that was overtaken by a write begins again, with both after it."""
    store = await Store.open(str(tmp_path), "test")
    table = (collection := await store.collection(SHAPE)).engine.table
    await collection.upsert(some(10, likes=1))
    connection = sqlite3.connect(tmp_path / "test.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN")
    seen = table.truth.state(connection)
    await collection.upsert(some(10, likes=2))
    assert table.truth.state(connection) == seen
    masks = await asyncio.to_thread(table.masks, connection)
    assert masks.snapshot.changes == table.truth.state(connection).changes == seen.changes + 1
    rows = masks.snapshot.rows(np.flatnonzero(masks.mask(Equal("likes", 2))))
    assert len(rows) == np.count_nonzero(masks.mask(EVERYTHING)) == 10
    assert all(table.truth.at(connection, row) for row in rows)
    connection.close()
    await store.close()
