"""Copies of databases as they are at one moment, made from outside the process that writes them.

Readers of SQLite never block its writer, and see one state while their transaction is open. The two files of
a domain are committed one after the other, so their transactions must begin at the same moment.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tabane.engine.embedded import failures
from tabane.engine.embedded.database import examine
from tabane.engine.embedded.vectors.vector_database import path_of

Told = Callable[[int], object]
"""Called with the number of bytes that were copied since the last call."""

Source = tuple[str, sqlite3.Connection]
"""The path of a database, and a connection whose open transaction sees it."""

_PAGES = 1024  # copied between two calls of ``told``
_TRIES = 2000
_AT_ONCE = 20  # tries without a pause
_PAUSE = 0.005


@contextlib.contextmanager
def frozen(path: str, between: Callable[[], object] | None = None) -> Iterator[list[Source]]:
    """Yield the database, and that of the vectors beside it if there is one, at the same moment.

    ``between`` is called between the beginnings of both transactions. Blocks; raises StoreError.
    """
    vectors = path_of(path)
    for number in range(_TRIES):
        if number >= _AT_ONCE:
            time.sleep(_PAUSE)
        with contextlib.ExitStack() as opened:
            records = opened.enter_context(contextlib.closing(_open_to_read(path)))
            if not os.path.exists(vectors):
                _begin_transaction(records, path)
                if not os.path.exists(vectors):
                    yield [(path, records)]
                    return
            else:
                beside, probe = (
                    opened.enter_context(contextlib.closing(_open_to_read(vectors))) for _ in range(2)
                )
                before = _data_version(probe, vectors)
                _begin_transaction(beside, vectors)
                if between is not None:
                    between()
                _begin_transaction(records, path)
                if _data_version(probe, vectors) == before:
                    yield [(path, records), (vectors, beside)]
                    return
    raise failures.busy(path)


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


def _data_version(connection: sqlite3.Connection, path: str) -> int:
    """Return a number that another process's commit changes."""
    with _convert_errors(path):
        return int(connection.execute("PRAGMA data_version").fetchone()[0])


@contextlib.contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise failures.storage_error(error, path) from error
