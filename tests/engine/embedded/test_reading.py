"""Short questions are answered while long ones are under way: one thread reads, and gives way."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tabane.engine.embedded.database import SLICE, Database, DatabaseLock, give_way
from tabane.engine.embedded.store import Store
from tabane.errors import StoreError, StoreLocked
from tabane.search.engine import Combination, Order, VectorQuery
from tabane.search.records import (
    EVERYTHING,
    Contains,
    EmbeddingSpace,
    Field,
    Kind,
    Prefix,
    Record,
    Shape,
    TextField,
)
from tests.engine.embedded.opening import EmbeddedCollection, embedded
from tests.engine.embedded.vectors.oracle import packed

COUNT = 30_000
LONGEST = 120.0  # seconds that anything may take
SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (Field("tag", Kind.STRING), Field("likes", Kind.NUMBER)),
    (EmbeddingSpace("one", 32), EmbeddingSpace("two", 32)),
)


def vector(number: int, at: int) -> bytes:
    return packed([((number * 7 + place * at) % 29) - 13.5 for place in range(32)])


def record(number: int) -> Record:
    return Record(
        key=f"k{number}",
        texts={"body": f"text {number}"},
        fields={"tag": f"t{number:06}", "likes": number % 10},
        vectors={"one": vector(number, 3), "two": vector(number, 5)},
    )


@pytest.fixture(scope="module")
def home() -> Any:
    with tempfile.TemporaryDirectory() as folder:

        async def fill() -> None:
            async with embedded(folder, SHAPE) as collection:
                await collection.upsert([record(number) for number in range(COUNT)])

        asyncio.run(fill())
        yield folder


async def _exhausted(blocks: Any) -> None:
    async for _ in blocks:
        pass


def _near(combination: Combination) -> VectorQuery:
    return VectorQuery({"one": vector(3, 3), "two": vector(3, 5)}, combination)


LONG: dict[str, Callable[[EmbeddedCollection], Awaitable[object]]] = {
    "substring": lambda notes: notes.count(Contains("absent")),
    "scan": lambda notes: _exhausted(notes.scan(_near(Combination.AVERAGE), EVERYTHING)),
    "product": lambda notes: notes.nearest(_near(Combination.PRODUCT), EVERYTHING, 10),
    "facet": lambda notes: notes.facet("tag", EVERYTHING, 10),
    "tally": lambda notes: notes.tally("tag", EVERYTHING),
    "listing": lambda notes: _exhausted(notes.listing(Order("likes"), EVERYTHING)),
    "export": lambda notes: notes.select(Prefix("tag", "t0299"), limit=1000),
    "check-up": lambda notes: notes.engine.agrees(),
}
"""What takes long by its nature."""


class Gate:
    """Holds up the first question that a connection is asked until it is opened."""

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self, statement: str) -> None:
        if not self._opened.is_set() and statement.startswith("SELECT"):
            self._reached.set()
            assert self._opened.wait(LONGEST)
            past = time.monotonic() + SLICE
            while time.monotonic() < past:  # a fast machine may be done within the first slice
                pass

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, LONGEST)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.parametrize("name", ["substring", "scan", "product", "tally"])
async def test_a_short_question_is_answered_before_a_long_one_that_is_under_way(home: str, name: str) -> None:
    store = await Store.open(home, "test")
    try:
        found = await _ordered(await store.collection(SHAPE), LONG[name], name)
    finally:
        await store.close()
    assert found == ["short", name]


async def _ordered(
    collection: EmbeddedCollection, work: Callable[[EmbeddedCollection], Awaitable[object]], name: str
) -> list[str]:
    """Ask the long one, then the short one; the order in which they were answered.

    The short one says in the reading thread that it ran. On the event loop, answers that come at once may
    change places.
    """
    gate, done = Gate(), list[str]()

    async def noted() -> None:
        await work(collection)
        done.append(name)

    database = collection.engine.table.database
    await database.read(lambda connection: connection.set_trace_callback(gate))
    long = asyncio.create_task(noted())
    await gate.reached()
    short = asyncio.create_task(database.read(lambda _: done.append("short")))
    await asyncio.sleep(0)  # it waits now
    gate.open()
    await asyncio.wait_for(asyncio.gather(long, short), LONGEST)
    return done


@pytest.mark.heavy("thousands of records")
async def test_what_is_answered_in_between_does_not_change_what_is_under_way(home: str) -> None:
    """Many at once, long and short: each answer is what it is alone."""
    async with embedded(home, SHAPE) as collection:
        names = [name for name in LONG if name not in ("scan", "listing")]
        alone = [await LONG[name](collection) for name in names]
        asked = [LONG[name](collection) for _ in range(3) for name in LONG]
        keys = [collection.get([f"k{number}"]) for number in range(0, COUNT, 500)]
        long, short = await asyncio.gather(asyncio.gather(*asked), asyncio.gather(*keys))
        found = [answer for answer, name in zip(long, list(LONG) * 3, strict=True) if name in names]
        assert found == alone * 3
        expected = [record(number) for number in range(0, COUNT, 500)]
        assert [each.key for (each,) in short if each] == [each.key for each in expected]


@asynccontextmanager
async def open_database() -> AsyncIterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(os.path.join(folder, "test.db"))
        try:
            yield database
        finally:
            await database.close()


async def test_each_piece_of_work_sees_its_own_moment() -> None:
    """What begins in between sees what was written since; what is under way does not, and goes on."""
    asked, written = threading.Event(), threading.Event()

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])

    def long(connection: sqlite3.Connection) -> tuple[int, int]:
        before = count(connection)
        asked.set()
        assert written.wait(LONGEST)
        for _ in range(1_000_000):
            give_way(connection)
            if between:
                break
        return before, count(connection)

    between: list[int] = []
    async with open_database() as database:
        await database.run(lambda connection: connection.execute("CREATE TABLE t (n INTEGER)"))
        under_way = asyncio.create_task(database.read(long, long=True))
        assert await asyncio.to_thread(asked.wait, LONGEST)
        await database.run(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))
        short = asyncio.create_task(database.read(lambda connection: between.append(count(connection))))
        await asyncio.sleep(0)
        written.set()
        await short
        assert await under_way == (0, 0)
        assert between == [1]


async def test_what_fails_in_between_fails_alone_and_who_gave_up_is_passed_over() -> None:
    asked, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def long(connection: sqlite3.Connection) -> str:
        asked.set()
        assert go_on.wait(LONGEST)
        for _ in range(1_000_000):
            give_way(connection)
            if done:
                break
        return "done"

    async with open_database() as database:
        under_way = asyncio.create_task(database.read(long, long=True))
        assert await asyncio.to_thread(asked.wait, LONGEST)
        failing = asyncio.create_task(database.read(lambda connection: connection.execute("SELECT * FROM t")))
        given_up = asyncio.create_task(database.read(lambda _: done.append("given up")))
        last = asyncio.create_task(database.read(lambda _: done.append("last")))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(StoreError):
            await failing
        await last
        assert await under_way == "done"
        assert done == ["last"]


async def test_long_work_and_short_work_take_turns_and_neither_is_kept_out() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def first(_: sqlite3.Connection) -> None:
        begun.set()
        assert go_on.wait(LONGEST)

    async with open_database() as database:
        under_way = asyncio.create_task(database.read(first))
        assert await asyncio.to_thread(begun.wait, LONGEST)
        asked = [
            asyncio.create_task(database.read(lambda _, name=name: done.append(name), long=name == "long"))  # type: ignore[misc]
            for name in ["long"] * 5 + ["short"] * 5
        ]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(under_way, *asked)
        assert done == ["long", "short"] * 5


async def test_a_connection_that_cannot_be_made_fails_the_question_and_the_next_one_is_answered() -> None:
    async with open_database() as database:
        await database.run(lambda connection: connection.execute("CREATE TABLE t (n INTEGER)"))
        away = database.folder + ".away"
        os.rename(database.folder, away)
        try:
            for read in (database.read, database.aside):
                with pytest.raises(StoreError):
                    await read(lambda connection: connection.execute("SELECT * FROM t").fetchall())
        finally:
            os.rename(away, database.folder)
        for read in (database.read, database.aside):
            assert await read(lambda connection: connection.execute("SELECT * FROM t").fetchall()) == []


async def test_closing_waits_for_what_is_read_aside() -> None:
    """It may write derived files: nobody else has them before it has ended."""
    asked, closing = threading.Event(), threading.Event()
    held: list[bool] = []
    async with open_database() as database:

        def long(_: sqlite3.Connection) -> None:
            asked.set()
            assert closing.wait(LONGEST)
            never = threading.Event()
            for _try in range(100):  # a close that does not wait is over by then
                try:
                    DatabaseLock.acquire(database.path).release(clean=False)
                except StoreLocked:
                    held.append(True)
                else:
                    held.append(False)
                never.wait(0.01)

        aside = asyncio.create_task(database.aside(long))
        assert await asyncio.to_thread(asked.wait, LONGEST)
        aside.cancel()  # the caller is gone, the thread is not
        ending = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        closing.set()
        await ending
        assert held == [True] * 100
