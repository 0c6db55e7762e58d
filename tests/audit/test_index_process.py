"""The index in its process: killed, asked while the log rotates, ended when nobody asks."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.audit.entry import file_name
from tabane.audit.index_process import AuditIndexProcess
from tabane.audit.index_requests import EntryQuery, NewestEntry, UsageQuery
from tests.audit.log_folder import LogFolder, at, call
from tests.harness.patience import until

ALWAYS = ("2000-01-01", "2100-01-01")
LINE = (
    b'{"seq":%d,"time":"%s","type":"call","key":"local","name":"time__now","server":"time","outcome":"ok",'
    b'"ms":1.5}'
)


@asynccontextmanager
async def process(folder: Path) -> AsyncIterator[AuditIndexProcess]:
    index = AuditIndexProcess(str(folder), lambda: "UTC", os.environ, 2)
    try:
        yield index
    finally:
        await index.close()


def long_log(folder: Path, files: int, each: int) -> int:
    """Write a log of that many files, and return the number of its entries."""
    folder.mkdir()
    time = at(0).encode()
    for number in range(files):
        first = number * each + 1
        lines = (LINE % (seq, time) for seq in range(first, first + each))
        (folder / file_name(first)).write_bytes(b"\n".join(lines) + b"\n")
    return files * each


def read_so_far(folder: Path) -> int:
    """How many bytes of the log the index has committed."""
    try:
        with sqlite3.connect(f"file:{folder / 'index.db'}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT ifnull(sum(bytes), 0) FROM files").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _progress(folder: Path, before: int, asking: asyncio.Future[object]) -> Callable[[], bool]:
    """Return whether more has been read. All of it may have been, by a test that comes to its turn late."""
    return lambda: asking.done() or read_so_far(folder) > before


@pytest.mark.heavy("a large log")
async def test_a_process_that_is_killed_while_it_catches_up_loses_and_doubles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    count = long_log(folder, files=8, each=40_000)
    for _ in range(3):
        before = read_so_far(folder)
        async with process(folder) as index:
            asking = asyncio.ensure_future(index.ask(NewestEntry()))
            await until(_progress(folder, before, asking))
            for pid in index.pool.pids:
                os.kill(pid, signal.SIGKILL)
            asking.cancel()
            await asyncio.wait([asking])
    async with process(folder) as index:
        assert await index.ask(NewestEntry()) == count
        assert (await index.ask(EntryQuery(limit=1)))["total"] == count
        assert (await index.ask(UsageQuery(*ALWAYS)))["sum"]["calls"] == count


@pytest.mark.heavy("a large log")
async def test_a_question_survives_the_end_of_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    count = long_log(folder, files=3, each=40_000)
    async with process(folder) as index:
        asking = asyncio.ensure_future(index.ask(NewestEntry()))
        await until(lambda: read_so_far(folder))
        for pid in index.pool.busy:
            os.kill(pid, signal.SIGKILL)
        assert await asking == count


async def test_an_answer_has_all_entries_written_before_while_the_log_rotates(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    async with process(folder.path) as index:
        for seq in range(1, 121):
            folder.seq = seq
            folder.write(call(seq, seq))
            if seq % 7 == 0:
                folder.rotate()
            if seq % 50 == 0:
                folder.remove_oldest()
            if seq % 3 == 0:
                page = await index.ask(EntryQuery(limit=5))
                assert page["results"][0]["seq"] == seq
                assert page["total"] == len(folder.lines)
        assert (await index.ask(UsageQuery(*ALWAYS)))["sum"]["calls"] == 120


async def test_questions_at_the_same_time_are_answered_by_one_process(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(seq) for seq in range(1, 30)))
    async with process(folder.path) as index:
        found = await asyncio.gather(*(index.ask(NewestEntry()) for _ in range(20)))
        assert found == [29] * 20
        assert len(index.pool.pids) == 1
