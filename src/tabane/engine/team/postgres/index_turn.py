"""The turn to fill an index outside of the database: one of the hubs has it, by a lock in the database.

The server takes it back if the connection of that hub ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import zlib

import psycopg

from tabane.engine.team.postgres.database import PostgresDatabase

_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"
_SPACE = 0x7ABC
_ASKED = 5.0  # seconds after which it is asked again whether the hub that has the turn has ended


class IndexTurn:
    """The turn for the index with that name, in the schema of a database."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database = database
        digest = zlib.crc32(f"{database.schema} {name}".encode())
        self._number = digest - (1 << 32) if digest >= 1 << 31 else digest
        self._connection: psycopg.Connection | None = None
        self._asking = asyncio.Lock()
        self._gate, self._open = threading.Lock(), True  # a thread goes on if who waits for it is canceled
        self._next = 0.0

    async def held(self) -> bool:
        """Return whether this hub has the turn, and take it if nobody has it."""
        async with self._asking:
            return await asyncio.to_thread(self._asked)

    def _asked(self) -> bool:
        with self._gate:
            return self._open and self._held()

    def _held(self) -> bool:
        connection = self._connection
        try:
            if connection is not None:
                connection.execute("SELECT 1")
                return True
            return self._taken()
        except psycopg.Error:
            self._release()
            return False

    def _taken(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _ASKED
        connection = self._database.connect()
        connection.autocommit = True
        found = connection.execute(_LOCK, (_SPACE, self._number)).fetchone()
        if found and found[0]:
            self._connection = connection
            return True
        connection.close()
        return False

    async def close(self) -> None:
        """Give the turn back, for good. A second call does nothing."""
        async with self._asking:
            await asyncio.to_thread(self._closed)

    def _closed(self) -> None:
        with self._gate:
            self._open = False
            self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._next = 0.0
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
