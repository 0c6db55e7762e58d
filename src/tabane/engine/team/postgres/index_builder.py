"""Approximate indexes of vectors, built in the background, one at a time for all hubs of a database.

Two builds in one database would wait for each other. An index is built concurrently, so writers and readers
go on. One whose build was interrupted is invalid: it is dropped, and built again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

import psycopg
from psycopg import errors

from tabane.engine.team.postgres.approximate_index import ApproximateIndex, IndexState
from tabane.engine.team.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)

_LOCK = "SELECT pg_try_advisory_lock(%s, 0)"
_LOCKED = 0x7ABB
# A build takes as long as it takes. The server ends it if this process has ended.
_PATIENTLY = (
    "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), "
    "set_config('client_connection_check_interval', '2s', false)"
)
_ALONE = "SELECT set_config('max_parallel_maintenance_workers', '0', false)"
_REST, _LONGEST_REST = 1.0, 300.0  # seconds after a failure, doubled with each
_MOST_FAILURES = 10  # that are counted
_CANCELING = 5.0  # seconds until the server must have taken a request to cancel
_CANCELED = 0.2  # seconds between two attempts to cancel


class ApproximateIndexBuilder:
    """Builds the indexes of spaces with at least ``least`` vectors; None: builds none.

    ``ended`` is called after each build, whether it succeeded or not.
    """

    def __init__(self, database: PostgresDatabase, least: int | None, ended: Callable[[], None]) -> None:
        self.least = least
        self._database, self._ended = database, ended
        self._thread = ThreadPoolExecutor(1, "postgres-indexer")
        self._gate = threading.Lock()
        self._ready: set[str] = set()
        self._waiting: set[str] = set()
        self._open = True
        self._failures, self._rested = 0, 0.0
        self._connection: psycopg.Connection | None = None
        self._last: Future[None] | None = None

    @property
    def has_iterative_scan(self) -> bool:
        return self._database.versions.has_iterative_scan

    def wants(self, index: ApproximateIndex, vectors: int) -> bool:
        """Return whether a space with so many vectors has an index, or will have one."""
        return self.least is not None and vectors >= self.least and index.is_possible

    def consider(self, index: ApproximateIndex, vectors: int) -> None:
        """Have the index built if it is not there, unless a build failed a short time ago."""
        if not self.wants(index, vectors):
            return
        with self._gate:
            known = index.name in self._ready or index.name in self._waiting
            if known or not self._open or time.monotonic() < self._rested:
                return
            self._waiting.add(index.name)
            self._last = self._thread.submit(self._attempt, index, vectors)

    def miss(self, index: ApproximateIndex, vectors: int) -> None:
        """Have the index built that a query did not find."""
        with self._gate:
            self._ready.discard(index.name)
        self.consider(index, vectors)

    def close(self) -> None:
        """Cancel a build, and end the thread. A second call does nothing."""
        with self._gate:
            self._open = False
        while self._last is not None and not self._last.done():
            self._cancel()
            with contextlib.suppress(FutureTimeout):
                self._last.result(_CANCELED)
        self._thread.shutdown(wait=True)

    def _cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.cancel_safe(timeout=_CANCELING)

    def _attempt(self, index: ApproximateIndex, vectors: int) -> None:
        ready = failed = False
        try:
            ready = self._open and self._built(index, vectors)
        except psycopg.Error as error:
            failed = True
            if self._open and not isinstance(error, errors.UndefinedTable):  # its space was dropped
                log.warning("the approximate index %s was not built: %s", index.name, error)
        finally:
            self._connection = None
            self._note(index, ready=ready, failed=failed)
        if self._open:
            self._ended()

    def _note(self, index: ApproximateIndex, *, ready: bool, failed: bool) -> None:
        with self._gate:
            self._waiting.discard(index.name)
            if ready:
                self._ready.add(index.name)
                self._failures = 0
                return
            self._rested = time.monotonic() + min(_REST * 2**self._failures, _LONGEST_REST)
            self._failures = min(self._failures + failed, _MOST_FAILURES)

    def _built(self, index: ApproximateIndex, vectors: int) -> bool:
        """Build the index. Return False if another hub builds one."""
        with contextlib.closing(self._database.connect()) as connection:
            connection.autocommit = True
            if index.state(connection) is IndexState.READY:
                return True
            connection.limit = None
            connection.execute(_PATIENTLY)
            found = connection.execute(_LOCK, (_LOCKED,)).fetchone()
            if not found or not found[0]:
                return False
            if index.state(connection) is not IndexState.READY:  # nobody builds it now
                self._connection = connection
                self._build(connection, index, vectors)
            return True

    def _build(self, connection: psycopg.Connection, index: ApproximateIndex, vectors: int) -> None:
        if self._failures:  # such as one because of little shared memory, which several workers need
            connection.execute(_ALONE)
        index.drop(connection)
        began = time.monotonic()
        log.info("building the approximate index %s of %d vectors", index.name, vectors)
        index.create(connection, vectors)
        log.info("built the approximate index %s in %.0f s", index.name, time.monotonic() - began)
