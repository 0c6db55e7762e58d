"""The file of tasks, ``tasks.db`` in the home: what tasks are, and the results of those that are over.

One thread reads and writes it. Results may contain secrets, so the file is readable by its owner alone. A
file that is damaged is replaced: tasks last for hours at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from tabane.errors import StoreError
from tabane.hub.work.tasks.task import KeptTask
from tabane.messages import say

log = logging.getLogger(__name__)

FILE = "tasks.db"
VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS task(id TEXT PRIMARY KEY, kept BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS body(id TEXT PRIMARY KEY, json BLOB NOT NULL);
"""

_Found = TypeVar("_Found")


class TaskFile:
    """Keeps tasks. It is created with the first task, so that a hub without tasks has none."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path, self._loop = folder / FILE, loop
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        return self._path.exists()

    async def load(self) -> list[KeptTask]:
        """Return all tasks of the file. Raises StoreError."""
        return await self._run(self._load)

    async def keep(self, task: KeptTask, body: bytes | None = None) -> None:
        """Write a task, with its result if it has one. Raises StoreError."""
        await self._run(lambda: self._keep(task, body))

    async def body(self, name: str) -> bytes | None:
        """Return the result of a task; None if there is none. Raises StoreError."""
        return await self._run(lambda: self._body(name))

    async def drop(self, names: Iterable[str]) -> None:
        """Remove tasks. Raises StoreError."""
        rows = [(name,) for name in names]
        await self._run(lambda: self._drop(rows))

    async def close(self) -> None:
        """Finish what is being written, and close the file."""
        if self._thread is None:
            return
        with contextlib.suppress(StoreError):
            await self._run(self._close)
        self._thread.shutdown(wait=False)
        self._thread = None

    async def _run(self, work: Callable[[], _Found]) -> _Found:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "tasks")
        try:
            return await self._loop.run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                say("{path} cannot be read or written: {error}", path=self._path, error=error)
            ) from error

    # -- in the thread ---------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = _connected(self._path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                log.warning("%s is damaged and was replaced: %s", self._path, error)
                for end in ("", "-wal", "-shm"):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)
                self._database = _connected(self._path)
        return self._database

    def _load(self) -> list[KeptTask]:
        rows = self._open().execute("SELECT kept FROM task").fetchall()
        found = []
        for (kept,) in rows:
            with contextlib.suppress(msgspec.MsgspecError):
                found.append(msgspec.msgpack.decode(kept, type=KeptTask))
        return found

    def _keep(self, task: KeptTask, body: bytes | None) -> None:
        database = self._open()
        with database:
            database.execute(
                "INSERT OR REPLACE INTO task VALUES(?, ?)", (task.id, msgspec.msgpack.encode(task))
            )
            if body is not None:
                database.execute("INSERT OR REPLACE INTO body VALUES(?, ?)", (task.id, body))

    def _body(self, name: str) -> bytes | None:
        row = self._open().execute("SELECT json FROM body WHERE id = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def _drop(self, rows: list[tuple[str]]) -> None:
        database = self._open()
        with database:
            database.executemany("DELETE FROM task WHERE id = ?", rows)
            database.executemany("DELETE FROM body WHERE id = ?", rows)
        database.execute("PRAGMA incremental_vacuum")

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _connected(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.chmod(path, 0o600)
    database = sqlite3.connect(path, timeout=5, check_same_thread=False)
    try:
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {version} is not known")
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        database.close()
        raise
    return database
