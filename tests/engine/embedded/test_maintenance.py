"""What grows is cut back: holes, strings that nobody has, blocks of columns; and nobody notices."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tabane.engine.embedded.collection_table import SEGMENT
from tabane.engine.embedded.store import Store
from tabane.engine.embedded.truth import RENUMBERED
from tabane.search.records import EVERYTHING, Equal, Record
from tests.engine.embedded.model import Model, agrees, put
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.shapes import SHAPE
from tests.harness.patience import LONG


def some(count: int, turn: int = 0) -> list[Record]:
    return [
        Record(
            key=f"k{number:06}",
            texts={"body": f"text {number} {turn}"},
            fields={
                "author": f"author {number % 50} {turn}",
                "likes": number + turn,
                "open": number % 3 == 0,
                "tags": tuple(f"tag {tag}" for tag in range(number % 4)),
            },
        )
        for number in range(count)
    ]


def asked(home: Path, query: str) -> int:
    connection = sqlite3.connect(home / "test.db")
    try:
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


@pytest.fixture
def model() -> Model:
    return {}


async def test_columns_come_back_from_blocks_and_from_the_records_behind_them(
    tmp_path: Path, model: Model
) -> None:
    async with embedded(tmp_path) as collection:
        for records in (some(SEGMENT * 2 + 100), some(500, turn=1)):
            await collection.upsert(records)
            put(model, records, SHAPE)
        gone = [f"k{number:06}" for number in range(3000, 3300)]
        await collection.delete(gone)
        for key in gone:
            del model[key]
        await agrees(collection, model)
    assert asked(tmp_path, "SELECT count(DISTINCT first) FROM segment_1") == 2
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM segment_1 WHERE field = 'likes'",
        "DELETE FROM segment_1 WHERE first > 1",
        "UPDATE segment_1 SET cells = x'0011'",
        "UPDATE segment_1 SET slots = CAST(slots || x'00000000' AS BLOB) WHERE field = 'tags'",
    ],
)
async def test_damaged_blocks_are_made_anew_from_the_records(
    tmp_path: Path, model: Model, damage: str
) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert(some(SEGMENT * 2))
        put(model, some(SEGMENT * 2), SHAPE)
    connection = sqlite3.connect(tmp_path / "test.db")
    assert connection.execute(damage).rowcount
    connection.commit()
    connection.close()
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)
    assert asked(tmp_path, "SELECT count(DISTINCT first) FROM segment_1") == 2


async def test_a_check_finds_columns_that_say_something_else_and_mends_them(
    tmp_path: Path, model: Model
) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert(some(SEGMENT + 10))
        put(model, some(SEGMENT + 10), SHAPE)
    connection = sqlite3.connect(tmp_path / "test.db")
    damage = "UPDATE segment_1 SET cells = zeroblob(length(cells)) WHERE field = 'likes'"
    assert connection.execute(damage).rowcount == 1
    connection.commit()
    connection.close()
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(SHAPE)
    assert await store.check() == ["notes"]
    await store.mend("notes")
    assert await store.check() == []
    assert await store.collection(SHAPE) is collection  # whoever has it goes on with it
    await collection.delete(["k000001"])
    del model["k000001"]
    assert await store.check() == []
    await agrees(collection, model)
    await store.close()


async def test_compaction_makes_rows_dense_and_forgets_strings(tmp_path: Path, model: Model) -> None:
    async with embedded(tmp_path) as collection:
        for turn in range(4):
            await collection.upsert(some(700, turn))
            put(model, some(700, turn), SHAPE)
        assert len(collection.engine.table.columns) > 2000
        await collection.engine.compact()
        await agrees(collection, model)
    assert asked(tmp_path, "SELECT next - base FROM collection") == 700
    assert asked(tmp_path, "SELECT count(*) FROM tombstone_1") == 0
    assert asked(tmp_path, "SELECT count(*) FROM string_1 WHERE field = 'author'") == 50
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)


async def test_what_compaction_moved_out_of_a_block_stays_moved(tmp_path: Path, model: Model) -> None:
    async with embedded(tmp_path) as collection:
        for records in (some(SEGMENT + 500), some(1000, turn=1)):
            await collection.upsert(records)
            put(model, records, SHAPE)
        await collection.engine.compact()
    assert asked(tmp_path, "SELECT min(first) FROM segment_1") < asked(
        tmp_path, "SELECT base FROM collection"
    )
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)


async def test_many_holes_are_compacted_without_being_asked(tmp_path: Path) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert(some(300))
        for turn in range(1, 45):
            await collection.upsert(some(300, turn))
        async with asyncio.timeout(LONG):
            while len(collection.engine.table.columns) > 10_000:
                await collection.upsert(some(1, turn=99))
                await collection.upsert(some(1, turn=98))
        assert await collection.count(EVERYTHING) == 300
        assert await collection.count(Equal("author", "author 7 44")) == 6


async def test_writers_and_readers_go_on_during_compaction(tmp_path: Path, model: Model) -> None:
    async with embedded(tmp_path) as collection:
        for turn in range(3):
            await collection.upsert(some(2000, turn))
        put(model, some(2000, 2), SHAPE)
        compacting = asyncio.create_task(collection.engine.compact())
        while not compacting.done():
            assert await collection.count(EVERYTHING) == len(model)
            records = some(len(model) + 1)[-1:]
            await collection.upsert(records)
            put(model, records, SHAPE)
        await compacting
        assert len(model) > 2000
        await agrees(collection, model)


async def test_rows_begin_again_before_their_numbers_run_out(tmp_path: Path, model: Model) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert(some(50))
        put(model, some(50), SHAPE)
    connection = sqlite3.connect(tmp_path / "test.db")
    connection.execute("UPDATE record_1 SET row = row + ?", (RENUMBERED,))
    connection.execute(
        "UPDATE collection SET base = base + ?1, next = next + ?1, sealed = sealed + ?1", (RENUMBERED,)
    )
    connection.commit()
    connection.close()
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)
        await collection.upsert(some(60, turn=1))
        put(model, some(60, turn=1), SHAPE)
        await agrees(collection, model)
    assert asked(tmp_path, "SELECT epoch FROM collection") == 1
    assert asked(tmp_path, "SELECT max(row) FROM record_1") == 110
