"""Connections for reads that no read uses at the moment. The one that was used last is taken first.

A connection is made by the read that needs it, so its error is known at once, and nothing waits for attempts
of others after the server is back. For a few seconds, reads wait for a server that restarts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg import IsolationLevel

from tabane.engine.team.postgres import failures
from tabane.engine.team.postgres.bounded_connection import BoundedConnection

_LONGEST_IDLE = 300.0  # seconds
_PAUSE = 0.1  # seconds between two attempts


class SpareConnections:
    """Made by ``connect``. There are as many as reads that ran at the same time, less those that idled.

    ``restart``: seconds after the first failure in which a server may come back.
    """

    def __init__(self, connect: Callable[[], BoundedConnection], restart: float) -> None:
        self._connect, self._restart = connect, restart
        self._gate = threading.Lock()
        self._spare: list[tuple[float, BoundedConnection]] = []
        self._away_since: float | None = None

    def take(self) -> BoundedConnection:
        """Return a spare connection, or a new one. Raises psycopg's errors."""
        with self._gate:
            if self._spare:
                return self._spare.pop()[1]
        made = self.connect(self._connect)
        made.isolation_level, made.read_only = IsolationLevel.REPEATABLE_READ, True
        return made

    def connect(self, connect: Callable[[], BoundedConnection]) -> BoundedConnection:
        """Return a new connection that may write. Raises psycopg's errors."""
        while True:
            began = time.monotonic()
            try:
                made = connect()
            except psycopg.OperationalError as error:
                if not (failures.is_away(error) and self._may_come_back(began)):
                    raise
                time.sleep(_PAUSE)
            else:
                self._away_since = None
                return made

    def _may_come_back(self, tried: float) -> bool:
        with self._gate:
            if self._away_since is None:
                self._away_since = tried
            return time.monotonic() - self._away_since < self._restart

    def put_back(self, connection: BoundedConnection) -> None:
        """Keep a connection for the next read, unless it is broken, and close those that nobody used."""
        now, idle = time.monotonic(), list[BoundedConnection]()
        with self._gate:
            while self._spare and now - self._spare[0][0] > _LONGEST_IDLE:
                idle.append(self._spare.pop(0)[1])
            if not connection.closed:
                self._spare.append((now, connection))
        _close(idle)

    def clear(self) -> None:
        """Close all of them: one was lost, so the others probably are as well."""
        with self._gate:
            spare, self._spare = self._spare, []
        _close([connection for _, connection in spare])


def _close(connections: list[BoundedConnection]) -> None:
    for each in connections:
        with contextlib.suppress(psycopg.Error):
            each.close()
