"""Processes that die between two files, files that are torn: vectors are those of their records."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tabane.search.engine import VectorQuery
from tabane.search.filters import EVERYTHING
from tabane.search.records import Record
from tabane.store.collection import Collection
from tabane.store.store import Store
from tests.store.dying import Nursery
from tests.store.lanes import LANES, after, operations, outcomes
from tests.store.model import Model, agrees, all_of
from tests.store.vectors.contract import crowd
from tests.store.vectors.lanes import SHAPE, vectors_of
from tests.store.vectors.oracle import SHAPE as OTHER
from tests.store.vectors.oracle import packed

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "200")) // 2
_PER_HOME = 25


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


def test_a_process_killed_while_writing_vectors_leaves_records_with_their_own(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(9)
    for first in range(0, ROUNDS, _PER_HOME):
        home = tmp_path / str(first)
        lanes: list[Model] = [{} for _ in range(LANES)]
        for seed in range(first, min(ROUNDS, first + _PER_HOME)):
            if chance.random() < 0.3:  # so that what is derived is made anew while the process is killed
                shutil.rmtree(home / "test.notes.vectors", ignore_errors=True)
            with nursery.child("vectors", home, seed=seed) as child:
                child.listen(chance.choice([0, 1, 2, chance.randrange(2, 30)]))
                child.kill(chance.choice([0, 0.0005, 0.002, 0.01, 0.03]) * chance.random())
            assert child.ended == -9
            lanes = _survived(home, seed, child.said, lanes)
        shutil.rmtree(home)


def _survived(home: Path, seed: int, said: list[str], lanes: list[Model]) -> list[Model]:
    """Check what is there after a death, and return it, lane by lane."""
    found: list[Model] = [{} for _ in range(LANES)]

    async def look() -> None:
        store = await Store.open(str(home), "test")
        collection = await store.collection(SHAPE)
        records = await all_of(collection, limit=1000)
        for record in records:
            found[int(record.key[0])][record.key] = record
        await agrees(collection, {record.key: record for record in records})
        await _own_vectors(collection, records)
        await store.close()

    asyncio.run(look())
    for lane in range(LANES):
        acknowledged = said.count(f"done {lane}")
        *done, begun = islice(operations(seed, lane), acknowledged + 1)
        expected = lanes[lane]
        for operation in done:
            expected = after(expected, operation)
        assert found[lane] in outcomes(expected, begun), f"seed {seed}, lane {lane}, after {acknowledged}"
    assert _kept(home) == sum(len(vectors_of(record)) for lane in found for record in lane.values())
    return found


async def _own_vectors(collection: Collection, records: list[Record]) -> None:
    for space in SHAPE.spaces:
        keys = [record.key for record in records]
        expected = [vectors_of(record).get(space.name) for record in records]
        assert await collection.vectors(keys[:1000], space.name) == expected[:1000]
        hits = await collection.nearest(
            VectorQuery({space.name: packed([1.0] * space.dimension)}), EVERYTHING, 1000
        )
        wanted = {key for key, vector in zip(keys, expected, strict=True) if vector}
        assert {hit.key for hit in hits.hits} == wanted
    assert await collection.agrees()


def _kept(home: Path) -> int:
    """How many vectors the file holds."""
    connection = sqlite3.connect(home / "test.vectors.db")
    try:
        tables = connection.execute("SELECT number FROM space").fetchall()
        counts = (
            connection.execute(f"SELECT count(*) FROM vector_{number}").fetchone() for (number,) in tables
        )
        return sum(count for (count,) in counts)
    finally:
        connection.close()


def _shortened(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 64)


@pytest.mark.parametrize("harm", [_shortened, _overwritten, Path.unlink])
@pytest.mark.parametrize("name", ["standing.json", "numbers-1", "unit-1", "codes-1"])
def test_files_that_are_torn_are_made_anew(tmp_path: Path, name: str, harm: object) -> None:
    if (name, harm) in (("unit-1", _overwritten), ("codes-1", _overwritten)):
        pytest.skip("only a check-up reads them whole")
    assert callable(harm)

    async def run() -> None:
        store = await Store.open(str(tmp_path), "test")
        await (await store.collection(OTHER)).upsert(crowd(7000))
        await store.close()
        path = tmp_path / "test.notes.vectors" / "image" / name
        assert path.exists()
        harm(path)
        store = await Store.open(str(tmp_path), "test")
        collection = await store.collection(OTHER)
        assert await collection.agrees()
        query = VectorQuery({"image": crowd(7000)[1].vectors["image"]})
        assert (await collection.nearest(query, EVERYTHING, 1)).hits[0].key == "k00001"
        await store.close()

    asyncio.run(run())


def test_a_check_up_finds_files_that_say_something_else_and_mends_them(tmp_path: Path) -> None:
    async def run() -> None:
        store = await Store.open(str(tmp_path), "test")
        await (await store.collection(OTHER)).upsert(crowd(50))
        await store.close()
        _overwritten(tmp_path / "test.notes.vectors" / "image" / "unit-1")
        store = await Store.open(str(tmp_path), "test")
        await store.collection(OTHER)
        assert await store.check() == ["notes"]
        await store.mend("notes")
        assert await store.check() == []
        await store.close()

    asyncio.run(run())


def test_vectors_that_are_lost_are_lacking_and_not_somebody_elses(tmp_path: Path) -> None:
    async def run() -> None:
        store = await Store.open(str(tmp_path), "test")
        await (await store.collection(OTHER)).upsert(crowd(20))
        await store.close()
        (tmp_path / "test.vectors.db").unlink()
        store = await Store.open(str(tmp_path), "test")
        collection = await store.collection(OTHER)
        assert len(await collection.lacking("text")) == 20
        await collection.upsert([Record(key="new", vectors={"text": packed([1, 0, 0, 0, 0])})])
        hits = await collection.nearest(VectorQuery({"text": packed([1, 0, 0, 0, 0])}), EVERYTHING, 9)
        assert [hit.key for hit in hits.hits] == ["new"]
        await store.close()

    asyncio.run(run())


def test_files_in_which_most_are_dead_become_dense(tmp_path: Path) -> None:
    records = crowd(12_000)

    async def run() -> None:
        store = await Store.open(str(tmp_path), "test")
        collection = await store.collection(OTHER)
        await collection.upsert(records)
        await collection.upsert(
            [Record(key=each.key, vectors=records[7].vectors) for each in records[:11_500]]
        )
        await collection.delete([each.key for each in records[:11_000]])
        assert collection.table.vectors is not None
        query = VectorQuery({"text": records[7].vectors["text"]})
        before = await collection.nearest(query, EVERYTHING, 1000)
        await collection.compact()
        await store.close()
        store = await Store.open(str(tmp_path), "test")
        collection = await store.collection(OTHER)
        assert (tmp_path / "test.notes.vectors" / "text" / "unit-2").stat().st_size < 5000 * 5 * 4
        after = await collection.nearest(query, EVERYTHING, 1000)
        assert [hit.key for hit in after.hits] == [hit.key for hit in before.hits]
        assert await collection.agrees()
        await store.close()

    asyncio.run(run())
