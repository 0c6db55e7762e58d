"""Servers and hubs that are killed, connections that end, and servers that cannot be used."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.engine.team.postgres.database import Patience, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.errors import StoreError, StoreNewer, StoreReadOnly
from tabane.search.records import EVERYTHING, Record
from tests.engine.team.postgres.collections import DatabaseCollection
from tests.engine.team.postgres.writing import SHAPE, check_whole, record
from tests.harness.patience import LONG
from tests.harness.postgres_server import PostgresServer, postgres_server

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "3"))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[DatabaseCollection]:
    database = await PostgresDatabase.open(parsed(url), Patience(restart=0.2))
    store = PostgresStore(database, "test", None)
    try:
        yield await store.collection(SHAPE)
    finally:
        await store.close()
        await database.close()


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server of the test's own, which it may kill."""
    with postgres_server() as server:
        yield server


@pytest.mark.heavy("kills real processes, many times")
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(mortal: PostgresServer) -> None:
    chance, acknowledged = random.Random(5), list[str]()

    async def writing(collection: DatabaseCollection, lane: str, enough: asyncio.Event, count: int) -> None:
        for number in range(10_000):
            try:
                await collection.upsert([record(f"{lane}-{number}")])
            except StoreError:
                return
            acknowledged.append(f"{lane}-{number}")
            if len(acknowledged) >= count:
                enough.set()

    async def one_round(turn: int) -> None:
        async with opened(mortal.url()) as collection:
            enough, count = asyncio.Event(), len(acknowledged) + chance.randrange(5, 60)
            lanes = [
                asyncio.create_task(writing(collection, f"{turn}-{lane}", enough, count)) for lane in range(4)
            ]
            await enough.wait()
            await asyncio.to_thread(mortal.kill)
            await asyncio.gather(*lanes)
        await asyncio.to_thread(mortal.start)
        async with opened(mortal.url()) as collection:
            await check_whole(collection, acknowledged)

    for turn in range(ROUNDS):
        await one_round(turn)


@pytest.mark.heavy("kills real processes, many times")
async def test_nothing_acknowledged_is_lost_when_the_hub_is_killed(postgres: PostgresServer) -> None:
    schema, acknowledged, chance = "killed_hub", list[str](), random.Random(7)

    postgres.drop(schema)
    for _ in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.team.postgres.child", postgres.url(schema)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        acknowledged += [child.stdout.readline().strip() for _ in range(chance.randrange(5, 60))]
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate()
        acknowledged += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged = [key.strip() for key in acknowledged]
        async with opened(postgres.url(schema)) as collection:
            await check_whole(collection, acknowledged)


@pytest.mark.heavy("kills real processes, many times")
async def test_a_write_whose_connection_ends_is_made_exactly_once(postgres: PostgresServer) -> None:
    """Each is answered as new, although connections end in the midst of transactions and commits."""
    schema = "ended_connections"
    postgres.drop(schema)
    async with opened(postgres.url(schema)) as collection:
        done = asyncio.Event()

        async def ending() -> None:
            while not done.is_set():
                await asyncio.to_thread(postgres.end_connections)
                await asyncio.sleep(0.01)

        other, refused = asyncio.create_task(ending()), 0
        for number in range(150):
            key = f"k{number:03}"
            try:
                assert await collection.upsert([record(key)]) == [True]
            except StoreError:  # ended twice in a row: it was not written
                refused += 1
        done.set()
        await other
        count = await collection.count(EVERYTHING)
        assert 150 - refused <= count <= 150
        assert refused < 150
        await check_whole(collection, [])


async def test_reads_and_writes_go_on_after_a_restart_of_the_server(mortal: PostgresServer) -> None:
    async with opened(mortal.url()) as collection:
        await collection.upsert([record("before")])
        await asyncio.to_thread(mortal.kill)
        with pytest.raises(StoreError, match="cannot be reached"):
            await collection.upsert([record("meanwhile")])
        await asyncio.to_thread(mortal.start)

        async def answers() -> bool:
            try:
                return await collection.count(EVERYTHING) == 1
            except StoreError:
                return False

        async with asyncio.timeout(LONG):
            while not await answers():
                pass
        assert await collection.upsert([record("after")]) == [True]
        assert await check_whole(collection, ["before", "after"]) == 2


async def _open(url: str) -> None:
    async with opened(url):
        pass


async def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://me:hunter2@/db?host={tmp_path}"
    with pytest.raises(StoreError, match="cannot be reached") as refused:
        await _open(url)
    assert "hunter2" not in str(refused.value)
    assert "db" in str(refused.value)


async def test_a_wrong_password_and_a_missing_database_are_named(mortal: PostgresServer) -> None:
    mortal.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
    mortal.demand_passwords()
    host = f"host={mortal.folder}"
    with pytest.raises(StoreError, match="refused the login") as refused:
        await _open(f"postgresql://guest:hunter2@/postgres?{host}")
    assert "hunter2" not in str(refused.value)
    assert "guest" in str(refused.value)
    with pytest.raises(StoreError, match="no such database"):
        await _open(f"postgresql://guest:right@/absent?{host}")
    mortal.execute("CREATE EXTENSION IF NOT EXISTS vector")
    with pytest.raises(StoreReadOnly, match="permission"):
        await _open(f"postgresql://guest:right@/postgres?{host}")


async def test_a_schema_of_a_newer_version_is_refused(postgres: PostgresServer) -> None:
    schema = "newer"
    postgres.drop(schema)
    await _open(postgres.url(schema))
    postgres.execute(f"UPDATE {schema}.format SET version = 99")
    with pytest.raises(StoreNewer, match="99"):
        await _open(postgres.url(schema))


async def test_several_hubs_that_begin_together_make_one_schema(postgres: PostgresServer) -> None:
    schema = "together"
    postgres.drop(schema)
    await asyncio.gather(*(_open(postgres.url(schema)) for _ in range(4)))


async def test_row_numbers_of_several_writers_follow_their_commits(postgres: PostgresServer) -> None:
    """Whoever has seen a row number will never see a lower one come up afterwards."""
    schema = "writers"
    postgres.drop(schema)
    async with opened(postgres.url(schema)) as one, opened(postgres.url(schema)) as other:
        done = asyncio.Event()

        async def write(collection: DatabaseCollection, lane: str) -> None:
            for number in range(40):
                await collection.upsert([Record(key=f"{lane}{number}")])

        async def watch() -> None:
            seen: set[int] = set()
            while not done.is_set():
                page = await one.select(EVERYTHING, limit=1000)
                rows = {each.row for each in page.records}
                assert not seen or min(rows - seen, default=max(seen) + 1) > max(seen)
                assert seen <= rows
                seen = rows

        watching = asyncio.create_task(watch())
        await asyncio.gather(write(one, "a"), write(one, "b"), write(other, "c"), write(other, "d"))
        done.set()
        await watching
        rows = [each.row for each in (await other.select(EVERYTHING, limit=1000)).records]
        assert sorted(rows) == list(range(1, 161))
