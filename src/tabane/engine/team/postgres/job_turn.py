"""The turn for one kind of job among the hubs of a database, by a lock of the server.

The server takes it back if the connection of the hub that has it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib

import psycopg

from tabane.engine.team.postgres import failures
from tabane.engine.team.postgres.database import PostgresDatabase

_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"
_SPACE = 0x7ABD
_WATCH = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4"
"""The server notices within half a minute that the machine of the hub is gone."""


class JobTurn:
    """The turn for one job of that kind, in the schema of a database. It has a connection of its own."""

    def __init__(self, database: PostgresDatabase, kind: str) -> None:
        self._database = database
        digest = zlib.crc32(f"{database.schema} {kind}".encode())
        self._number = digest - (1 << 32) if digest >= 1 << 31 else digest
        self._connection: psycopg.Connection | None = None
        self._has = False
        self._asking = asyncio.Lock()

    async def held(self) -> bool:
        """Return whether this job has the turn, and take it if no other has it. Raises StoreError."""
        async with self._asking:
            return await asyncio.to_thread(self._held)

    async def close(self) -> None:
        """Give the turn back. A second call does nothing."""
        async with self._asking:
            await asyncio.to_thread(self._disconnect)

    def _held(self) -> bool:
        try:
            if self._connection is None:
                connection = self._connection = self._database.connect()
                connection.autocommit = True
                connection.execute(_WATCH)
            if not self._has:
                found = self._connection.execute(_LOCK, (_SPACE, self._number)).fetchone()
                self._has = bool(found and found[0])
            else:
                self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            self._disconnect()
            raise failures.store_error(error, self._database.place) from error
        return self._has

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._has = False
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
