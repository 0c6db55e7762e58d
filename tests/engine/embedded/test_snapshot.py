"""Copies of stores that are being written: one moment for all files, and no wait for the writer."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.engine.embedded.snapshot import copy, frozen
from tabane.errors import StoreCorrupt
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, Shape
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.vectors.contract import crowd
from tests.engine.embedded.vectors.lanes import SHAPE as LANES
from tests.engine.embedded.vectors.lanes import vectors_of
from tests.engine.embedded.vectors.older import make_older
from tests.engine.embedded.vectors.oracle import SHAPE, packed
from tests.harness.patience import LONG, wait_until

WRITER = """
import sqlite3, sys, time
records, going = sys.argv[1:]
connection = sqlite3.connect(records, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA synchronous = OFF")
connection.execute("CREATE TABLE number (number INTEGER)")
connection.execute("INSERT INTO number VALUES (0)")
open(going, "w").close()
number = 0
while True:
    number += 1
    connection.execute("UPDATE number SET number = ?", (number,))
    time.sleep(0.0005)
"""
COPIES = 20


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A process writes a database, again and again."""
    records, going = folder / "posts.db", folder / "going"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(records), str(going)])
    try:
        wait_until(going.exists)
        yield records, process
    finally:
        process.kill()
        process.wait(LONG)


def number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT number FROM number").fetchone()[0])


def copied_to(target: Path, home: Path) -> None:
    """Copy the store ``test`` as it is now."""
    target.mkdir()
    with frozen(str(home / "test.db")) as (sources, vectors):
        for source in sources:
            copy(source, target / Path(source[0]).name)
        for each in vectors:
            content = each.file.read(each.size)
            assert len(content) == each.size
            (target / Path(each.path).name).write_bytes(content)


@pytest.mark.heavy("copies a store again and again while a process writes it")
async def test_records_and_vectors_are_of_the_same_moment(nursery: Nursery, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with nursery.child("vectors", home, seed=1) as child:
        child.listen(20)
        for number in range(COPIES):
            copied_to(tmp_path / str(number), home)
            async with embedded(tmp_path / str(number), LANES) as collection:
                records = (await collection.select(EVERYTHING, limit=1000)).records
                keys = [each.record.key for each in records]
                for space in LANES.spaces:
                    expected = [vectors_of(each.record).get(space.name) for each in records]
                    assert await collection.vectors(keys, space.name) == expected
                assert await collection.engine.agrees()
        assert child.ended is None, "the writer was disturbed"
        child.kill(0)


async def test_what_a_copy_needs_is_not_taken_from_it_by_a_rewritten_file(tmp_path: Path) -> None:
    home, shape = tmp_path / "home", Shape("notes", spaces=(EmbeddingSpace("text", 2),))
    async with embedded(home, shape) as collection:
        records = [Record(key=f"k{n}", vectors={"text": packed([1, n])}) for n in range(10_600)]
        await collection.upsert(records)
        with frozen(str(home / "test.db")) as (sources, vectors):
            await collection.delete([record.key for record in records[:10_500]])
            await collection.engine.compact()
            (path,) = home.glob("*.vec")
            assert str(path) != vectors[0].path
            (tmp_path / "copy").mkdir()
            copy(sources[0], tmp_path / "copy" / "test.db")
            copied = tmp_path / "copy" / Path(vectors[0].path).name
            copied.write_bytes(vectors[0].file.read(vectors[0].size))
    async with embedded(tmp_path / "copy", shape) as collection:
        keys = [record.key for record in records[:1000]]
        assert await collection.vectors(keys, "text") == [record.vectors["text"] for record in records[:1000]]
        assert await collection.engine.agrees()


@pytest.mark.parametrize("version", [1, 2])
async def test_the_vectors_of_an_older_version_are_copied_while_they_are_there_alone(
    tmp_path: Path, version: int
) -> None:
    home, records = tmp_path / "home", crowd(50)
    async with embedded(home, SHAPE) as collection:
        await collection.upsert(records)
    make_older(home, version)
    copied_to(tmp_path / "before", home)
    assert {path.name for path in (tmp_path / "before").iterdir()} == {"test.db", "test.vectors.db"}
    async with embedded(home, SHAPE):
        pass
    copied_to(tmp_path / "after", home)
    assert not (tmp_path / "after" / "test.vectors.db").exists()
    for name in ("before", "after"):
        async with embedded(tmp_path / name, SHAPE) as collection:
            keys = [record.key for record in records]
            expected = [record.vectors.get("image") for record in records]
            assert await collection.vectors(keys, "image") == expected


async def test_a_space_without_vectors_is_copied(tmp_path: Path) -> None:
    async with embedded(tmp_path / "home", SHAPE):
        pass
    copied_to(tmp_path / "copy", tmp_path / "home")
    async with embedded(tmp_path / "copy", SHAPE) as collection:
        await collection.upsert(crowd(3))
    async with embedded(tmp_path / "copy", SHAPE) as collection:
        expected = [record.vectors.get("text") for record in crowd(3)]
        assert any(expected)
        assert await collection.vectors([record.key for record in crowd(3)], "text") == expected


@pytest.mark.parametrize("size", [None, 5000])
async def test_a_file_of_vectors_that_is_gone_or_cut_off_is_not_left_out(
    tmp_path: Path, size: int | None
) -> None:
    async with embedded(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd(100))
    for path in tmp_path.glob("*.vec"):
        if size is None:
            path.unlink()
        else:
            os.truncate(path, size)
    with pytest.raises(StoreCorrupt, match=r"deleted|end is missing"):
        copied_to(tmp_path / "copy", tmp_path)


def test_a_copy_has_what_the_transaction_saw_although_the_writer_continues(tmp_path: Path) -> None:
    with writing(tmp_path) as (records, _), frozen(str(records)) as (sources, _vectors):
        expected = number(sources[0][1])
        with contextlib.closing(sqlite3.connect(records)) as later:
            wait_until(lambda: number(later) > expected + 100)
        copy(sources[0], tmp_path / "copy")
    with contextlib.closing(sqlite3.connect(tmp_path / "copy")) as copied:
        assert number(copied) == expected
        assert copied.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_a_database_without_vectors_is_copied_alone(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE number (number INTEGER); INSERT INTO number VALUES (7)")
        connection.execute("PRAGMA user_version = 2")
    counted: list[int] = []
    with frozen(str(path)) as (sources, vectors):
        assert not vectors
        assert [source[0] for source in sources] == [str(path)]
        assert copy(sources[0], tmp_path / "copy", counted.append) == 2
    assert sum(counted) == (tmp_path / "copy").stat().st_size


def test_what_a_killed_writer_had_committed_is_in_the_copy(tmp_path: Path) -> None:
    with writing(tmp_path) as (records, process):
        with contextlib.closing(sqlite3.connect(records)) as later:
            wait_until(lambda: number(later) > 100)
        process.kill()
        process.wait(LONG)
        with frozen(str(records)) as (sources, _):
            copy(sources[0], tmp_path / "copy")
            expected = number(sources[0][1])
    with contextlib.closing(sqlite3.connect(tmp_path / "copy")) as copied:
        assert number(copied) == expected > 100


def test_a_damaged_database_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "posts.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE word (word TEXT)")
        connection.executemany("INSERT INTO word VALUES (?)", [("x" * 900,)] * 200)
        connection.commit()
    data = bytearray(path.read_bytes())
    data[5 * 4096 : 30 * 4096] = b"\xff" * (25 * 4096)
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt), frozen(str(path)) as (sources, _):
        copy(sources[0], tmp_path / "copy")
