"""Long writes: many commits, with the writes of others in between."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.engine.embedded.database import Database, WriteTurn
from tabane.errors import StoreError
from tests.harness.patience import LONG


class _Numbers:
    """Writes the numbers below ``count``, one a step. ``between`` is called within the steps."""

    def __init__(self, count: int, between: Callable[[int], None] = lambda _: None) -> None:
        self._count, self._between = count, between
        self.written = 0
        self.committed: list[int] = []
        self.stopped = False

    def step(self, connection: sqlite3.Connection, turn: WriteTurn) -> int:
        self._between(self.written)
        connection.execute("INSERT INTO number VALUES (?)", (self.written,))
        self.written += 1
        return self.written

    @property
    def done(self) -> bool:
        return self.stopped or self.written == self._count


@asynccontextmanager
async def open_database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await asyncio.to_thread(Database.open, str(tmp_path / "numbers.db"))
    try:
        await database.run(lambda connection: connection.execute("CREATE TABLE number (value)"))
        yield database
    finally:
        await database.close()


def _stored(tmp_path: Path) -> list[int]:
    """Return the numbers that another opening finds."""
    with sqlite3.connect(tmp_path / "numbers.db") as connection:
        return [value for (value,) in connection.execute("SELECT value FROM number ORDER BY rowid")]


async def _takes_work(database: Database) -> bool:
    """Return whether work can be submitted, which is not waited for."""
    work = asyncio.ensure_future(database.run(lambda connection: None))
    await asyncio.sleep(0)
    return not work.done() or work.exception() is None


async def test_a_short_write_that_comes_meanwhile_waits_for_one_step_only(tmp_path: Path) -> None:
    loop_turn, submitted = threading.Event(), threading.Event()

    def between(number: int) -> None:
        if number == 2:
            loop_turn.set()
            assert submitted.wait(LONG)

    async with open_database(tmp_path) as database:
        numbers = _Numbers(100, between)
        long = asyncio.create_task(database.run_long(numbers, numbers.committed.append))
        await asyncio.to_thread(loop_turn.wait, LONG)
        short = asyncio.ensure_future(
            database.run(lambda connection: connection.execute("INSERT INTO number VALUES (-1)"))
        )
        await asyncio.sleep(0)
        submitted.set()
        await asyncio.gather(short, long)
        assert numbers.committed == list(range(1, 101))
    assert _stored(tmp_path) == [0, 1, 2, -1, *range(3, 100)]


class _Commits:
    """Counts commits."""

    def __init__(self) -> None:
        self.count = 0

    def ahead(self) -> None:
        self.count += 1

    def lost(self) -> None: ...


async def test_a_short_write_that_comes_meanwhile_has_no_commit_of_its_own(tmp_path: Path) -> None:
    begun, submitted, commits = threading.Event(), threading.Event(), _Commits()

    def between(number: int) -> None:
        if number == 1:
            begun.set()
            assert submitted.wait(LONG)

    async with open_database(tmp_path) as database:
        database.accompany(commits)
        numbers = _Numbers(3, between)
        long = asyncio.create_task(database.run_long(numbers, numbers.committed.append))
        await asyncio.to_thread(begun.wait, LONG)
        short = asyncio.ensure_future(
            database.run(lambda connection: connection.execute("INSERT INTO number VALUES (-1)"))
        )
        await asyncio.sleep(0)
        submitted.set()
        await asyncio.gather(short, long)
    assert _stored(tmp_path) == [0, 1, -1, 2]
    assert commits.count == 3


async def test_two_long_writes_take_turns(tmp_path: Path) -> None:
    first, second = threading.Event(), threading.Event()

    def between(number: int) -> None:
        first.set()
        assert second.wait(LONG)

    async with open_database(tmp_path) as database:
        one, other = _Numbers(3, between), _Numbers(3)
        taken = asyncio.create_task(database.run_long(one, one.committed.append))
        await asyncio.to_thread(first.wait, LONG)
        waiting = asyncio.create_task(database.run_long(other, other.committed.append))
        await asyncio.sleep(0)
        second.set()
        await asyncio.gather(taken, waiting)
    assert _stored(tmp_path) == [0, 0, 1, 1, 2, 2]


async def test_after_a_step_that_fails_the_ones_before_it_remain(tmp_path: Path) -> None:
    def between(number: int) -> None:
        if number == 3:
            raise sqlite3.OperationalError("disk I/O error")

    async with open_database(tmp_path) as database:
        numbers = _Numbers(10, between)
        with pytest.raises(StoreError):
            await database.run_long(numbers, numbers.committed.append)
        assert numbers.committed == [1, 2, 3]
    assert _stored(tmp_path) == [0, 1, 2]


async def test_a_long_write_that_nobody_waits_for_ends_with_its_step(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def between(number: int) -> None:
        if number == 1:
            begun.set()
            assert go.wait(LONG)

    async with open_database(tmp_path) as database:
        numbers = _Numbers(10, between)
        task = asyncio.create_task(database.run_long(numbers, numbers.committed.append))
        await asyncio.to_thread(begun.wait, LONG)
        task.cancel()
        await asyncio.wait({task})
        numbers.stopped = True
        go.set()
    assert _stored(tmp_path) == [0, 1]


async def test_closing_the_database_fails_a_long_write_that_has_more_to_do(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def between(number: int) -> None:
        if number == 1:
            begun.set()
            assert go.wait(LONG)

    async with open_database(tmp_path) as database:
        numbers = _Numbers(10, between)
        task = asyncio.create_task(database.run_long(numbers, numbers.committed.append))
        await asyncio.to_thread(begun.wait, LONG)
        closing = asyncio.create_task(database.close())
        while await _takes_work(database):
            pass
        go.set()
        with pytest.raises(StoreError):
            await task
        await closing
    assert _stored(tmp_path) == [0, 1]
