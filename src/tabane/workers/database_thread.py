"""A SQLite file that one thread reads and writes, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tabane.errors import StoreError
from tabane.messages import say

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")


class DatabaseThread:
    """The thread of one file. Both begin with the first work. A damaged file is replaced by an empty one.

    Only the owner of the home can read the file. ``schema`` creates what is missing, ``version`` is kept in
    the file, and ``name`` is that of the thread.
    """

    def __init__(self, path: Path, schema: str, version: int, name: str) -> None:
        self.path = path
        self._schema, self._version, self._name = schema, version, name
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None

    async def run(self, work: Callable[..., _Found], *arguments: object) -> _Found:
        """Return the result of a function that is called in the thread. Raises StoreError."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, self._name)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                say("{path} cannot be read or written: {error}", path=self.path, error=error)
            ) from error

    async def close(self) -> None:
        """Finish what is being written, and close the file."""
        if self._thread is None:
            return
        with contextlib.suppress(StoreError):
            await self.run(self._close)
        self._thread.shutdown(wait=False)
        self._thread = None

    # -- in the thread ---------------------------------------------------------------------------

    def database(self) -> sqlite3.Connection:
        """Return the connection to the file, for work in the thread."""
        if self._database is None:
            try:
                self._database = self._connected()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                log.warning("%s is damaged and was replaced: %s", self.path, error)
                for end in ("", "-wal", "-shm"):
                    Path(f"{self.path}{end}").unlink(missing_ok=True)
                self._database = self._connected()
        return self._database

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _connected(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.chmod(self.path, 0o600)
        database = sqlite3.connect(self.path, timeout=5, check_same_thread=False)
        try:
            database.execute("PRAGMA auto_vacuum=INCREMENTAL")
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, self._version):
                raise sqlite3.DatabaseError(f"version {version} is not known")
            database.executescript(self._schema)
            database.execute(f"PRAGMA user_version={self._version}")
        except BaseException:
            database.close()
            raise
        return database
