"""Copies of stores as they are at one moment, made from outside the process that writes them.

Readers of SQLite never block its writer, and see one state while their transaction is open. What that state
says of a file of vectors is not changed any more in it, and a file that is open can be read though it is
deleted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.database import examine
from tabane.engine.embedded.vectors.vector_format import (
    VectorHead,
    has_files,
    needs_older,
    older_path_of,
    path_of,
)
from tabane.search.records import EmbeddingSpace

Told = Callable[[int], object]
"""Called with the number of bytes that were copied since the last call."""

Source = tuple[str, sqlite3.Connection]
"""The path of a database, and a connection whose open transaction sees it."""

_PAGES = 1024  # copied between two calls of ``told``
_TRIES = 20
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class VectorSource:
    """A file of vectors, open: its first ``size`` bytes are those of the moment."""

    path: str
    file: BinaryIO
    size: int


@contextlib.contextmanager
def frozen(path: str) -> Iterator[tuple[list[Source], list[VectorSource]]]:
    """Yield the database and the files of vectors beside it, at the same moment. Blocks; raises StoreError.

    The database of vectors that an older version wrote is yielded too, while anything is in it alone.
    """
    for number in range(_TRIES):
        with contextlib.ExitStack() as opened:
            records = opened.enter_context(contextlib.closing(_open_to_read(path)))
            _begin_transaction(records, path)
            with _convert_errors(path):
                vectors = _vector_sources(opened, records, path, last=number == _TRIES - 1)
            if vectors is not None:
                sources, beside = [(path, records)], older_path_of(path)
                if os.path.exists(beside) and needs_older(records):
                    older = opened.enter_context(contextlib.closing(_open_to_read(beside)))
                    _begin_transaction(older, beside)
                    sources.append((beside, older))
                yield sources, vectors
                return
        time.sleep(_PAUSE)  # a file was rewritten just now


def copy(source: Source, target: Path, told: Told = lambda count: None) -> int:
    """Copy what the connection sees into a new file, and check the copy. Return its ``user_version``.

    Blocks; raises StoreError, StoreCorrupt if the database is damaged.
    """
    path, connection = source
    size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    left = int(connection.execute("PRAGMA page_count").fetchone()[0])

    def copied(_status: int, remaining: int, _total: int) -> None:
        nonlocal left
        told((left - remaining) * size)
        left = remaining

    try:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as out:
            out.execute("PRAGMA synchronous = OFF")  # a copy that is lost is made again
            connection.backup(out, pages=_PAGES, progress=copied, sleep=0)
            out.execute("PRAGMA journal_mode = DELETE")
            examine(out, path)
            return int(out.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise failures.storage_error(error, path) from error


def _begin_transaction(connection: sqlite3.Connection, path: str) -> None:
    with _convert_errors(path):
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # begins to read


def _open_to_read(path: str) -> sqlite3.Connection:
    """Open a database to read it. One whose writer died in a commit is repaired by SQLite first."""
    with _convert_errors(path):
        try:
            return _connect(path, "ro")
        except sqlite3.OperationalError as error:
            if not str(error.sqlite_errorname).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise
            return _connect(path, "rw")


def _connect(path: str, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode={mode}", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _vector_sources(
    opened: contextlib.ExitStack, records: sqlite3.Connection, path: str, *, last: bool
) -> list[VectorSource] | None:
    """Open the files of vectors. None if one is not there, at the ``last`` try an error.

    Raises StoreError.
    """
    found = []
    for storage, following in _spaces(records):
        place = path_of(path, storage)
        try:
            file = opened.enter_context(_open_file(place))
            size = VectorHead.read(place, file.fileno(), storage).size(following)
            if os.fstat(file.fileno()).st_size < size:
                raise failures.corrupt(place, "its end is missing")
            found.append(VectorSource(place, file, size))
        except FileNotFoundError:
            if last:
                raise failures.vectors_lost(place) from None
            return None
        except OSError as error:
            raise failures.from_system(error, place) from error
    return found


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[BinaryIO]:
    with open(path, "rb") as file:
        yield file


def _spaces(records: sqlite3.Connection) -> list[tuple[SpaceStorage, int]]:
    """Return the spaces that have files, and the number that each gives next."""
    if not has_files(records):
        return []
    query = (
        "SELECT name, dimension, birth, generation, next FROM space WHERE generation > 0 AND name NOT NULL"
    )
    return [
        (SpaceStorage(EmbeddingSpace(name, dimension), birth, generation), following)
        for name, dimension, birth, generation, following in records.execute(query)
    ]


@contextlib.contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise failures.storage_error(error, path) from error
