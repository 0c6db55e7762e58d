"""Asks for the last change of collections, on a connection of its own.

It is asked before each search of a replica. It does not wait behind other reads. If the server was away, the
next question connects again at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import psycopg

from tabane.engine.team.postgres import failures
from tabane.engine.team.postgres.collection_state import StateTable
from tabane.engine.team.postgres.database import PostgresDatabase


class ChangeProbe:
    """One connection, made with the first question."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: psycopg.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "postgres-probe")

    async def newest(self, states: StateTable) -> int:
        """Return the number of the last committed change of a collection. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._newest, states)

    def _newest(self, states: StateTable) -> int:
        try:
            try:
                return states.last_change(self._connected())
            except psycopg.OperationalError as error:
                self._disconnect()
                if not failures.is_lost(error):
                    raise
                # The connection has ended since the last question.
                return states.last_change(self._connected())
        except Exception as error:
            self._disconnect()
            raise failures.store_error(error, self._database.place) from error

    def _connected(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = self._database.connect()
            self._connection.autocommit = True
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Close the connection. A second call does nothing."""
        with contextlib.suppress(RuntimeError):  # closed before
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)
