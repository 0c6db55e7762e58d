"""Processes that die in the middle, disks that fill, files that break: what was acknowledged is there."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tabane.engine.embedded.database import MIGRATIONS, Database
from tabane.engine.embedded.store import Store
from tabane.errors import StoreCorrupt, StoreError, StoreLocked, StoreNewer
from tabane.search.records import EVERYTHING, Record
from tests.engine.embedded.child import MORE_MIGRATIONS
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.lanes import LANES, after, operations, outcomes
from tests.engine.embedded.model import Model, agrees, all_of
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.shapes import SHAPE

# How many processes are killed while writing; a quarter as many while migrating.
NOW = len(MIGRATIONS)  # the version that is out
ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "60"))
_PER_HOME = 40  # deaths that one store lives through


async def filled(home: Path, count: int = 100) -> Model:
    records = [
        Record(key=f"{number:04}", fields={"likes": number}, payload=b"p" * 300) for number in range(count)
    ]

    async with embedded(home) as collection:
        await collection.upsert(records)
    return {record.key: record for record in records}


@pytest.mark.heavy("kills real processes, many times")
async def test_a_process_killed_while_writing_loses_nothing_acknowledged(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(5)
    for first in range(0, ROUNDS, _PER_HOME):
        home = tmp_path / str(first)
        lanes: list[Model] = [{} for _ in range(LANES)]
        for seed in range(first, min(ROUNDS, first + _PER_HOME)):
            pages = chance.choice([1, 3, 20, 1000])  # few: killed in the middle of checkpoints, too
            with nursery.child("write", home, seed=seed, pages=pages) as child:
                child.listen(chance.choice([0, 1, chance.randrange(1, 30)]))
                child.kill(chance.choice([0, 0.0002, 0.001, 0.003, 0.02]) * chance.random())
            assert child.ended == -9
            lanes = await _survived(home, seed, child.said, lanes)
        shutil.rmtree(home)


async def _survived(home: Path, seed: int, said: list[str], lanes: list[Model]) -> list[Model]:
    """Check what is there after a death, and return it, lane by lane."""
    found: list[Model] = [{} for _ in range(LANES)]

    async with embedded(home) as collection:
        for record in await all_of(collection, limit=1000):
            found[int(record.key[0])][record.key] = record
        await agrees(collection, {key: record for lane in found for key, record in lane.items()})
    for lane in range(LANES):
        acknowledged = said.count(f"done {lane}")
        *done, begun = islice(operations(seed, lane), acknowledged + 1)
        expected = lanes[lane]
        for operation in done:
            expected = after(expected, operation)
        assert found[lane] in outcomes(expected, begun), f"seed {seed}, lane {lane}, after {acknowledged}"
    return found


async def test_a_process_killed_while_migrating_leaves_one_version_or_the_other(
    nursery: Nursery, tmp_path: Path
) -> None:
    template = tmp_path / "template"
    model = await filled(template, 1500)
    chance = random.Random(7)
    versions = set[int]()
    for number in range(ROUNDS // 4):
        home = tmp_path / "home"
        shutil.copytree(template, home)
        stuck = number == 0  # on a machine with much to do, all others may be done when they are killed
        with nursery.child("migrate", home, stuck=stuck) as child:
            child.listen(1 + stuck)
            child.kill(0 if stuck else chance.random() * 0.02)
        versions.add(_version(home / "test.db"))
        await _migrated(home, len(model))
        backup = home / "backups" / f"test-v{NOW}.db"
        if number % 10 == 0 and backup.exists():
            backup.rename(tmp_path / "test.db")
            async with embedded(tmp_path) as collection:
                await agrees(collection, model)
            (tmp_path / "test.db").unlink()
        shutil.rmtree(home)
    assert NOW in versions, "no process was killed before it was done"


def _version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


async def _migrated(home: Path, count: int) -> None:
    """Open it as the newer version does: each step was applied once, whenever it was."""
    path = str(home / "test.db")
    database = Database.open(path, MORE_MIGRATIONS)
    await database.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM copy").fetchone() == (count,)
    assert connection.execute("SELECT number FROM counted").fetchall() == [(count,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MORE_MIGRATIONS),)
    connection.close()
    for name in os.listdir(home / "backups"):
        if name.endswith(".db"):
            assert _version(home / "backups" / name) in (NOW, NOW + 1)


async def test_a_migration_keeps_a_copy_of_what_was_before(tmp_path: Path) -> None:
    model = await filled(tmp_path)
    await Database.open(str(tmp_path / "test.db"), MORE_MIGRATIONS).close()
    (tmp_path / "backups" / f"test-v{NOW}.db").rename(tmp_path / "test.db")
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)


async def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM record_1")
        connection.execute("INSERT INTO absent VALUES (1)")

    model = await filled(tmp_path)
    with pytest.raises(StoreError):
        Database.open(str(tmp_path / "test.db"), (*MIGRATIONS, broken))
    async with embedded(tmp_path) as collection:
        await agrees(collection, model)


async def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    await filled(tmp_path)
    path = tmp_path / "test.db"
    await Database.open(str(path), MORE_MIGRATIONS).close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer) as refused:
        async with embedded(tmp_path) as collection:
            await agrees(collection, {})
    assert f"newer Tabane (version {NOW + 2}; this one supports {NOW})" in str(refused.value)
    assert path.read_bytes() == before


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt):
        async with embedded(tmp_path) as collection:
            await agrees(collection, {})
    assert path.read_bytes() == before


async def test_two_processes_do_not_share_a_store(nursery: Nursery, tmp_path: Path) -> None:
    async with embedded(tmp_path) as collection:
        await collection.upsert([Record(key="ours")])
        with nursery.child("attempt", tmp_path) as child:
            report = await asyncio.to_thread(child.report)
        assert report["error"] == "StoreLocked"
        assert "test.db is open in another process" in report["message"]
        assert [record.key for record in await all_of(collection)] == ["ours"]
    with nursery.child("write", tmp_path, seed=1) as child:
        child.listen(1)
        with pytest.raises(StoreLocked):
            async with embedded(tmp_path) as collection:
                await agrees(collection, {})


def test_a_full_disk_stops_writes_and_loses_nothing(nursery: Nursery, tmp_path: Path) -> None:
    with nursery.child("fill", tmp_path) as child:
        report = child.report()
    if not report["mounted"]:
        pytest.skip("no small disk may be mounted here")
    stored = report["acknowledged"]
    assert stored > 100
    assert report["error"] == "StoreFull", report["message"]
    assert (report["while_full"], report["with_room"], report["reopened"]) == (stored, stored + 1, stored + 1)
    assert report["whole"]


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that others may look into and that is written by its owner alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


async def test_a_folder_that_may_not_be_written_is_said_so(nursery: Nursery, foreign: Path) -> None:
    model = await filled(foreign)
    files = {path: path.read_bytes() for path in foreign.iterdir()}
    for path in files:
        path.chmod(0o444)
    foreign.chmod(0o555)
    for home in (foreign, foreign / "absent"):
        with nursery.child("attempt", home, as_nobody=True) as child:
            report = child.report()
        assert report["error"] == "StoreReadOnly", report["message"]
        assert f"{home}/test.db cannot be written" in report["message"]
    assert {path: path.read_bytes() for path in foreign.iterdir()} == files
    foreign.chmod(0o755)
    for path in files:
        path.chmod(0o644)
    async with embedded(foreign) as collection:
        await agrees(collection, model)


async def test_a_file_that_may_not_be_written_is_said_so(nursery: Nursery, foreign: Path) -> None:
    await filled(foreign)
    foreign.chmod(0o777)
    (foreign / "test.db.lock").chmod(0o666)
    (foreign / "test.db").chmod(0o444)
    with nursery.child("attempt", foreign, as_nobody=True) as child:
        assert child.report()["error"] == "StoreReadOnly"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 16), (0, 4096), (100, 300), (4096, 20_000), (30_000, 10_000), (0, 10**6)]
)
async def test_a_damaged_file_is_said_so_and_left_as_it_is(
    tmp_path: Path, clean: bool, offset: int, length: int
) -> None:
    await filled(tmp_path, 400)
    path = tmp_path / "test.db"
    damaged = bytearray(path.read_bytes())
    junk = random.Random(3).randbytes(length)[: len(damaged) - offset]
    damaged[offset : offset + len(junk)] = junk
    path.write_bytes(damaged)
    if not clean:
        (tmp_path / "test.db.lock").write_bytes(b"open  \n")

    with pytest.raises(StoreCorrupt) as refused:
        async with embedded(tmp_path) as collection:
            await all_of(collection)
    assert f"{path} is damaged" in str(refused.value)
    assert path.read_bytes()[offset : offset + len(junk)] == junk


async def test_a_file_cut_short_is_said_so(tmp_path: Path) -> None:
    await filled(tmp_path, 400)
    path = tmp_path / "test.db"
    path.write_bytes(path.read_bytes()[:50_000])

    with pytest.raises(StoreCorrupt):
        async with embedded(tmp_path) as collection:
            await all_of(collection)


async def test_a_lock_that_may_not_be_followed_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "test.db.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        async with embedded(tmp_path) as collection:
            await agrees(collection, {})
    assert not (tmp_path / "elsewhere").exists()


async def test_what_failed_takes_nothing_with_it(tmp_path: Path) -> None:
    """One piece of work in a commit of many fails; its neighbors are kept, it leaves no trace."""
    database = await asyncio.to_thread(Database.open, str(tmp_path / "test.db"))
    await database.run(lambda connection: connection.execute("CREATE TABLE t (n INTEGER UNIQUE)"))

    def insert(connection: sqlite3.Connection, number: int) -> None:
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        if number % 3 == 0:
            connection.execute("INSERT INTO t VALUES (?)", (number,))

    work = [database.run(lambda connection, n=n: insert(connection, n)) for n in range(30)]  # type: ignore[misc]
    results = await asyncio.gather(*work, return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results] == [n % 3 == 0 for n in range(30)]
    kept = await database.read(lambda connection: connection.execute("SELECT n FROM t ORDER BY n").fetchall())
    assert kept == [(n,) for n in range(30) if n % 3]
    await database.close()


async def test_what_is_acknowledged_was_synced(tmp_path: Path) -> None:
    """No test can pull the plug: what SQLite is told must be what keeps a commit through it."""
    database = await asyncio.to_thread(Database.open, str(tmp_path / "test.db"))
    for pragma, expected in (("synchronous", 2), ("journal_mode", "wal")):
        asked = f"PRAGMA {pragma}"
        told = await database.run(lambda connection, asked=asked: connection.execute(asked).fetchone())  # type: ignore[misc]
        assert told == (expected,)
    await database.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(SHAPE)
    await store.close()
    await store.close()
    for asked in (collection.upsert([Record(key="k")]), collection.count(EVERYTHING), collection.get(["k"])):
        with pytest.raises(StoreError, match="is closed"):
            await asked


async def test_too_much_waiting_is_refused(tmp_path: Path) -> None:
    async with embedded(tmp_path) as collection:
        writes = (collection.upsert([Record(key=f"{number}")]) for number in range(3000))
        results = await asyncio.gather(*writes, return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert refused
        assert {type(error).__name__ for error in refused} == {"StoreBusy"}
        assert await collection.count(EVERYTHING) == 3000 - len(refused)
