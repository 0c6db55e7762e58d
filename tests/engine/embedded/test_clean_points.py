"""After a death an opening looks at what came since the last clean point, and at all where in doubt."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tabane.engine.embedded.clean_points import CleanPoints
from tabane.engine.embedded.database import Database
from tabane.engine.embedded.store import Store
from tabane.errors import StoreCorrupt
from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, Record
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.vectors import lanes

COUNT = 4000  # records: some 16 MB, and as much of vectors
_PAGE = 4096
_COUNTERS = Path("/proc/self/io")


def killed(nursery: Nursery, home: Path) -> None:
    """Fill a store in a process and kill it."""
    with nursery.child("bulk", home, count=COUNT, pages=64) as child:
        child.listen(1)
        assert child.said == ["done"]
        child.kill(0)
    assert child.ended == -9


def counted() -> int:
    """Return how many bytes this process has read from files so far."""
    return int(_COUNTERS.read_text().splitlines()[0].removeprefix("rchar: "))


async def right(store: Store) -> None:
    """All records are there, with their own vectors."""
    collection = await store.collection(lanes.LARGE)
    assert await collection.count(EVERYTHING) == COUNT + 5
    for number in (0, COUNT // 2, COUNT - 1, COUNT, COUNT + 4):
        record = lanes.large(number)
        assert (await collection.get([record.key]))[0] == Record(key=record.key, payload=record.payload)
        assert await collection.vectors([record.key], "text") == [record.vectors["text"]]
        hits = await collection.nearest(VectorQuery(record.vectors), EVERYTHING, 1)
        assert hits.hits[0].key == record.key


@pytest.mark.heavy("thousands of records")
@pytest.mark.skipif(not _COUNTERS.exists(), reason="this system does not count what a process reads")
async def test_after_a_death_little_is_read_and_all_is_there(nursery: Nursery, tmp_path: Path) -> None:
    killed(nursery, tmp_path)
    truth = sum(path.stat().st_size for path in (tmp_path / "test.db", *tmp_path.glob("*.vec")))
    assert truth > 30_000_000
    before = counted()
    store = await Store.open(str(tmp_path), "test")
    assert store.database.recovered
    await store.collection(lanes.LARGE)
    read = counted() - before
    await right(store)
    assert await store.check() == []
    await store.close()
    assert read < truth / 4, f"{read} bytes of {truth}"


def overwritten(home: Path, name: str) -> None:
    """Write 64 KiB of noise into the middle of a file."""
    (path,) = home.glob(name)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 16384 * 16384)
        file.write(random.Random(3).randbytes(64 * 1024))


async def test_a_database_that_was_changed_by_somebody_else_is_refused(
    nursery: Nursery, tmp_path: Path
) -> None:
    killed(nursery, tmp_path)
    overwritten(tmp_path, "test.db")
    with pytest.raises(StoreCorrupt):
        async with embedded(tmp_path, lanes.LARGE):
            pass


async def test_vectors_that_were_changed_by_somebody_else_are_left_out(
    nursery: Nursery, tmp_path: Path
) -> None:
    killed(nursery, tmp_path)
    overwritten(tmp_path, "*.vec")
    async with embedded(tmp_path, lanes.LARGE) as collection:
        lacking = {stored.record.key for stored in await collection.lacking("text", limit=1000)}
        assert 0 < len(lacking) <= 17
        keys = [lanes.large(number).key for number in range(COUNT)]
        for first in range(0, COUNT, 1000):
            vectors = await collection.vectors(keys[first : first + 1000], "text")
            for number, vector in enumerate(vectors, first):
                there = keys[number] not in lacking
                assert vector == (lanes.large(number).vectors["text"] if there else None)


def damaged(home: Path) -> Path:
    """A database with a broken page that its note says is whole, as a process left it that was killed."""
    path = home / "test.db"

    async def run() -> None:
        database = Database.open(str(path))
        await database.run(lambda connection: connection.execute("CREATE TABLE t (text TEXT)"))
        await database.run(
            lambda connection: connection.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 1000)
        )
        await database.close()

    asyncio.run(run())
    torn(path, {path.stat().st_size // _PAGE // 2})
    CleanPoints(str(path)).end()
    Path(f"{path}.lock").write_bytes(b"open  \n")
    return path


def opened(path: Path) -> None:
    """Open and close it."""
    database = Database.open(str(path))
    assert database.recovered
    asyncio.run(database.close())


def test_a_file_that_is_as_it_was_noted_is_not_looked_at(tmp_path: Path) -> None:
    opened(damaged(tmp_path))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("boot", "of yesterday"),
        ("device", 1 << 40),
        ("inode", 0),
        ("size", 0),
        ("changed", 1),
        ("touched", 1),
    ],
)
def test_a_note_of_another_file_or_another_start_of_the_system_means_a_look(
    tmp_path: Path, part: str, value: object
) -> None:
    path = damaged(tmp_path)
    note = Path(f"{path}.clean")
    note.write_text(json.dumps(json.loads(note.read_bytes()) | {part: value}))
    with pytest.raises(StoreCorrupt):
        opened(path)


def test_a_file_that_was_restored_with_its_old_time_is_looked_through(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    found = path.stat()
    torn(path, {path.stat().st_size // _PAGE // 2 + 1})
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(StoreCorrupt):
        opened(path)


class _Full:
    """A connection to a file on a full disk: no checkpoint is possible."""

    def execute(self, statement: str) -> None:
        raise sqlite3.OperationalError("database or disk is full")


def test_where_no_checkpoint_is_possible_nothing_is_proven(tmp_path: Path) -> None:
    path = cut_short(tmp_path)
    points = CleanPoints(str(path))
    points.look()
    assert not points.proven(cast(sqlite3.Connection, _Full()))


class _Dying:
    """A connection to a process that is killed as soon as it begins a checkpoint."""

    def execute(self, statement: str) -> None:
        raise sqlite3.OperationalError(statement)


def cut_short(home: Path) -> Path:
    """A database as it is when its process dies in the middle of a checkpoint that changes every row."""

    def filled(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE t (n INTEGER, text TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 500) for n in range(1000)])

    async def run() -> None:
        path = str(home / "alive" / "test.db")
        database = Database.open(path)
        await database.run(filled)
        await database.close()
        database = Database.open(path, pages=10**9)
        for first in range(0, 1000, 50):
            update = f"UPDATE t SET text = 'y' || text WHERE n BETWEEN {first} AND {first + 49}"
            await database.run(lambda connection, update=update: connection.execute(update))  # type: ignore[misc]
        shutil.copytree(home / "alive", home / "dead")
        await database.close()

    (home / "alive").mkdir()
    asyncio.run(run())
    path = home / "dead" / "test.db"
    CleanPoints(str(path)).checkpoint(cast(sqlite3.Connection, _Dying()))
    return path


def logged(path: Path) -> set[int]:
    """The numbers of the pages that are in the log."""
    raw = Path(f"{path}-wal").read_bytes()[32:]
    frames = range(0, len(raw), 24 + _PAGE)
    return {struct.unpack_from(">I", raw, at)[0] for at in frames}


def torn(path: Path, pages: set[int]) -> None:
    """Half of each of these pages is something else."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * _PAGE + _PAGE // 2)
            file.write(random.Random(page).randbytes(_PAGE // 2))


def rows(path: Path) -> list[int]:
    async def run() -> list[int]:
        database = Database.open(str(path))
        try:
            return await database.read(
                lambda connection: [
                    n for (n,) in connection.execute("SELECT n FROM t WHERE text LIKE 'yx%' ORDER BY n")
                ]
            )
        finally:
            await database.close()

    return asyncio.run(run())


def test_pages_that_a_checkpoint_left_half_written_are_taken_from_the_log(tmp_path: Path) -> None:
    path = cut_short(tmp_path)
    pages = logged(path)
    assert len(pages) > 100
    torn(path, pages)
    assert rows(path) == list(range(1000))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def _lost(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def _shorter(path: Path) -> None:
    os.truncate(f"{path}-wal", Path(f"{path}-wal").stat().st_size // 2)


def _flipped(path: Path) -> None:
    with Path(f"{path}-wal").open("r+b") as file:
        file.seek(32 + 40 * (24 + _PAGE) + 100)
        file.write(b"\xff" * 64)


def _unnoted(path: Path) -> None:
    Path(f"{path}.clean").unlink()
    _shorter(path)


@pytest.mark.parametrize("harm", [_lost, _shorter, _flipped, _unnoted])
def test_half_written_pages_without_their_log_are_found(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = cut_short(tmp_path)
    pages = logged(path)
    torn(path, pages)
    harm(path)
    with pytest.raises(StoreCorrupt):
        rows(path)


@pytest.mark.parametrize("junk", [b"", b"{", b"null", b"[]", b"{}", b"\xff" * 512])
def test_a_note_that_cannot_be_read_means_a_look_at_everything(tmp_path: Path, junk: bytes) -> None:
    path = cut_short(tmp_path)
    Path(f"{path}.clean").write_bytes(junk)
    assert rows(path) == list(range(1000))
    note = json.loads(Path(f"{path}.clean").read_bytes())
    found = path.stat()
    assert (note["inode"], note["size"], note["changed"]) == (found.st_ino, found.st_size, found.st_mtime_ns)
    assert note["copied"] is None


async def test_a_log_does_not_grow_without_end(tmp_path: Path) -> None:
    """As with the checkpoints that SQLite does where nobody else does them."""
    database = Database.open(str(tmp_path / "test.db"), pages=20)
    await database.run(lambda connection: connection.execute("CREATE TABLE t (text TEXT)"))
    for _ in range(200):
        await database.run(lambda connection: connection.execute("INSERT INTO t VALUES (?)", ["x" * 8000]))
    size = (tmp_path / "test.db-wal").stat().st_size
    await database.close()
    assert size < 60 * (24 + _PAGE)
