"""A follower that applies the batches of a feed holds what the collection holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tabane.engine.team.postgres.change_feed import ChangeFeed
from tabane.engine.team.postgres.database import MIGRATIONS
from tabane.search.records import EVERYTHING, EmbeddingSpace, Field, Kind, Record, Shape
from tests.engine.embedded.model import all_of
from tests.engine.embedded.vectors.oracle import packed
from tests.engine.team.postgres.collections import DatabaseCollection, opening, schema_of
from tests.harness.postgres_server import PostgresServer

SHAPE = Shape(
    "notes",
    fields=(Field("author", Kind.STRING),),
    spaces=(EmbeddingSpace("text", 3), EmbeddingSpace("image", 2)),
)


@dataclass
class Copy:
    """A follower's copy: row → record with its vectors."""

    name: str = "copy"
    records: dict[int, Record] = field(default_factory=dict)

    async def step(self, feed: ChangeFeed, most: int = 7) -> bool:
        """Apply one batch. Return whether the copy has everything."""
        position = await feed.join(self.name)
        batch = await feed.after(self.name, position, most)
        assert batch is not None
        for row in batch.removed:
            self.records.pop(row, None)
        self.records |= {stored.row: stored.record for stored in batch.records}
        assert await feed.advance(self.name, batch.position)
        return batch.complete

    async def catch_up(self, feed: ChangeFeed, most: int = 7) -> None:
        while not await self.step(feed, most):
            pass


async def truth(collection: DatabaseCollection) -> dict[int, Record]:
    """Return the records with their vectors, by row."""
    found = {}
    for stored in (await collection.select(EVERYTHING, limit=1000)).records:
        vectors: dict[str, bytes] = {}
        for space in collection.spaces:
            [vector] = await collection.vectors([stored.record.key], space.name)
            vectors |= {space.name: vector} if vector is not None else {}
        record = stored.record
        found[stored.row] = Record(key=record.key, fields=record.fields, vectors=vectors)
    return found


def logged(server: PostgresServer, home: Path) -> int:
    return int(str(server.execute(f"SELECT count(*) FROM {schema_of(home)}.change_log")[0][0]))


class Changes:
    """Random changes of a collection."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def _vector(self, size: int) -> bytes:
        return packed([self._chance.uniform(-1, 1) for _ in range(size)])

    def _records(self) -> Iterator[Record]:
        for _ in range(self._chance.randrange(1, 6)):
            vectors = {"text": self._vector(3)} if self._chance.random() < 0.5 else {}
            author = f"a{self._chance.randrange(9)}"
            yield Record(key=f"k{self._chance.randrange(40)}", fields={"author": author}, vectors=vectors)

    async def one(self, collection: DatabaseCollection) -> None:
        match self._chance.randrange(4):
            case 0:
                await collection.upsert(list(self._records()))
            case 1:
                await collection.delete([f"k{self._chance.randrange(40)}" for _ in range(3)])
            case 2:
                records = {record.key: record for record in self._records()}
                gone = {f"k{self._chance.randrange(40)}" for _ in range(4)} - records.keys()
                await collection.exchange(list(records.values()), sorted(gone))
            case _:
                page = await collection.select(EVERYTHING, limit=1000)
                rows = [stored.row for stored in page.records][:: self._chance.randrange(1, 9)]
                found = {row: {"text": self._vector(3), "image": self._vector(2)} for row in rows}
                await collection.attach(found)


@pytest.mark.parametrize("most", [1, 7, 1000])
async def test_a_copy_that_follows_while_others_write_holds_what_the_collection_holds(
    postgres: PostgresServer, tmp_path: Path, most: int
) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        changes, copy = Changes(most), Copy()
        for _ in range(20):
            await changes.one(collection)
        for _ in range(40):
            await changes.one(collection)
            await copy.step(collection.engine.feed, most)
        await copy.catch_up(collection.engine.feed, most)
        assert await collection.engine.feed.is_current(copy.name)
        assert copy.records == await truth(collection)
        assert logged(postgres, tmp_path) == 0


async def test_batches_are_bounded_and_the_last_one_is_of_the_last_change(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        feed = collection.engine.feed
        position = await feed.join("copy")
        await collection.upsert([Record(key=f"k{n}", vectors={"text": packed([1, 2, 3])}) for n in range(30)])
        rows = [stored.row for stored in (await collection.select(EVERYTHING)).records]
        for row in rows[:20]:
            await collection.attach({row: {"text": packed([3, 2, 1])}})
        for number in range(20, 25):
            await collection.delete([f"k{number}"])
        sizes = []
        while True:
            batch = await feed.after("copy", position, 5)
            assert batch is not None
            sizes.append((len(batch.records), len(batch.removed)))
            assert await feed.advance("copy", batch.position)
            position = batch.position
            if batch.complete:
                break
        assert len(sizes) > 3
        assert all(records <= 10 and removed <= 5 for records, removed in sizes)
        assert position.change == batch.last == collection.changes
        assert position.row == max(rows)


async def test_nothing_is_logged_without_a_follower(postgres: PostgresServer, tmp_path: Path) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        changes = Changes(3)
        for _ in range(20):
            await changes.one(collection)
        assert logged(postgres, tmp_path) == 0
        await collection.engine.feed.join("copy")
        for _ in range(20):
            await changes.one(collection)
        assert logged(postgres, tmp_path) > 0
        await collection.engine.feed.leave("copy")
        for _ in range(20):
            await changes.one(collection)
        assert logged(postgres, tmp_path) == 0


async def test_the_log_reaches_back_to_the_slowest_follower(postgres: PostgresServer, tmp_path: Path) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        changes, fast, slow = Changes(4), Copy("fast"), Copy("slow")
        await slow.step(collection.engine.feed)
        for _ in range(30):
            await changes.one(collection)
            await fast.catch_up(collection.engine.feed)
        assert logged(postgres, tmp_path) > 0
        await slow.catch_up(collection.engine.feed)
        assert slow.records == fast.records == await truth(collection)
        assert logged(postgres, tmp_path) == 0


async def test_a_follower_that_is_too_far_behind_begins_again_with_another_mark(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    schema = schema_of(tmp_path)
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        changes, copy = Changes(5), Copy()
        for _ in range(20):
            await changes.one(collection)
        await copy.catch_up(collection.engine.feed)
        before = await collection.engine.feed.join("copy")
        postgres.execute(f"UPDATE {schema}.collection SET changes = changes + 2000000")
        await collection.upsert([Record(key="one")])
        await collection.delete(["one"])
        assert await collection.engine.feed.position("copy") is None
        assert await collection.engine.feed.after("copy", before, 10) is None
        assert logged(postgres, tmp_path) == 0
        now = await collection.engine.feed.join("copy")
        assert now.row == 0
        assert not {now.mark, now.coming} & {before.mark, before.coming}
        copy = Copy()
        await copy.catch_up(collection.engine.feed)
        assert copy.records == await truth(collection)


async def test_a_position_can_be_left_by_one_process_only(postgres: PostgresServer, tmp_path: Path) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        await collection.upsert([Record(key="one")])
        feed = collection.engine.feed
        start = await feed.join("copy")
        batch = await feed.after("copy", start, 10)
        assert batch is not None
        assert batch.position.mark == start.coming
        reached = batch.position.noted("seen")
        assert await feed.advance("copy", reached)
        assert not await feed.advance("copy", reached)
        assert await feed.after("copy", start, 10) is None
        assert await feed.join("copy") == reached


async def test_spaces_keep_their_numbers_when_they_are_renamed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:

        async def numbers() -> dict[str, int]:
            batch = await collection.engine.feed.after("copy", await collection.engine.feed.join("copy"), 10)
            assert batch is not None
            return {each.space.name: each.number for each in batch.spaces}

        first = await numbers()
        await collection.succeed("text", by="image")
        assert await numbers() == {"text": first["image"]}
        await collection.add_space(EmbeddingSpace("image", 2))
        assert (await numbers())["image"] not in first.values()


async def test_a_database_of_version_1_is_brought_up_to_date_without_loss(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    schema, before = schema_of(tmp_path), dict[int, Record]()

    async with opening(postgres)(tmp_path, SHAPE) as collection:
        for _ in range(20):
            await Changes(6).one(collection)
        await collection.upsert([Record(key="kept", vectors={"text": packed([1, 2, 3])})])
        before.update(await truth(collection))
    for statement in (
        f"DROP TABLE {schema}.change_log, {schema}.follower",
        f"ALTER TABLE {schema}.collection DROP COLUMN log_from, DROP COLUMN analysis",
        f"UPDATE {schema}.format SET version = 1",
    ):
        postgres.execute(statement)
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        assert await truth(collection) == before
        copy = Copy()
        await copy.catch_up(collection.engine.feed)
        await collection.delete(["kept"])
        await copy.catch_up(collection.engine.feed)
        assert copy.records == await truth(collection)
        assert "kept" not in {record.key for record in await all_of(collection)}
    assert postgres.execute(f"SELECT version FROM {schema}.format") == [(len(MIGRATIONS),)]
