"""Copies of databases that are being written: one moment for both files, and no wait for the writer."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.engine.embedded.snapshot import copy, frozen
from tabane.errors import StoreCorrupt
from tests.harness.patience import LONG, wait_until

WRITER = """
import sqlite3, sys, time
records, vectors, going = sys.argv[1:]
connections = [sqlite3.connect(path, isolation_level=None) for path in (vectors, records)]
for connection in connections:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE number (number INTEGER)")
    connection.execute("INSERT INTO number VALUES (0)")
open(going, "w").close()
number = 0
while True:
    number += 1
    for connection in connections:  # vectors are committed before the records that have them
        connection.execute("UPDATE number SET number = ?", (number,))
    time.sleep(0.0005)
"""
ROUNDS = 300


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A process writes two databases, again and again."""
    records, going = folder / "posts.db", folder / "going"
    command = [sys.executable, "-c", WRITER, str(records), str(folder / "posts.vectors.db"), str(going)]
    process = subprocess.Popen(command)
    try:
        wait_until(going.exists)
        yield records, process
    finally:
        process.kill()
        process.wait(LONG)


def number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT number FROM number").fetchone()[0])


def test_records_and_vectors_are_of_the_same_moment(tmp_path: Path) -> None:
    with writing(tmp_path) as (records, process):
        for _ in range(ROUNDS):
            with frozen(str(records)) as sources:
                of_records, of_vectors = (number(connection) for _, connection in sources)
                assert of_vectors - of_records in (0, 1)
        assert process.poll() is None, "the writer was disturbed"


def test_a_write_between_both_beginnings_makes_them_begin_again(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("posts.vectors.db", "posts.db")]
    with contextlib.ExitStack() as stack:
        written = [stack.enter_context(contextlib.closing(sqlite3.connect(path))) for path in files]
        for connection in written:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE number (number INTEGER)")
            connection.execute("INSERT INTO number VALUES (0)")
            connection.commit()
        writes = iter(range(1, 4))

        def write() -> None:
            count = next(writes, None)
            for connection in written if count else ():
                connection.execute("UPDATE number SET number = ?", (count,))
                connection.commit()

        with frozen(str(files[1]), write) as sources:
            assert [number(connection) for _, connection in sources] == [3, 3]


def test_a_copy_has_what_the_transaction_saw_although_the_writer_continues(tmp_path: Path) -> None:
    with writing(tmp_path) as (records, _), frozen(str(records)) as sources:
        seen = [number(connection) for _, connection in sources]
        with contextlib.closing(sqlite3.connect(records)) as later:
            wait_until(lambda: number(later) > seen[0] + 100)
        for place, source in enumerate(sources):
            copy(source, tmp_path / f"{place}.copy")
    for place, expected in enumerate(seen):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{place}.copy")) as copied:
            assert number(copied) == expected
            assert copied.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_a_database_without_vectors_is_copied_alone(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE number (number INTEGER); INSERT INTO number VALUES (7)")
        connection.execute("PRAGMA user_version = 2")
    counted: list[int] = []
    with frozen(str(path)) as sources:
        assert [source[0] for source in sources] == [str(path)]
        assert copy(sources[0], tmp_path / "copy", counted.append) == 2
    assert sum(counted) == (tmp_path / "copy").stat().st_size


def test_what_a_killed_writer_had_committed_is_in_the_copy(tmp_path: Path) -> None:
    with writing(tmp_path) as (records, process):
        with contextlib.closing(sqlite3.connect(records)) as later:
            wait_until(lambda: number(later) > 100)
        process.kill()
        process.wait(LONG)
        with frozen(str(records)) as sources:
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
    with pytest.raises(StoreCorrupt), frozen(str(path)) as sources:
        copy(sources[0], tmp_path / "copy")
