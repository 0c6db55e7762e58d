"""A database that several stores share: connections, reads of one moment, and turns among its hubs.

Everything blocks inside threads of its own. Each wait is bounded: connecting, waiting for a thread, for a
lock, for a statement, and for a server that is silent. A read is repeated if its connection was lost or a
table changed, and not if the server was silent.

The turn to fill an index outside of the database: one of the hubs has it, by a lock in the database. The
server takes it back if the connection of that hub ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tabane.engine.team.postgres import connections
from tabane.engine.team.postgres.connections import AnswerLimit, BoundedConnection, SpareConnections
from tabane.engine.team.postgres.engine_url import EngineUrl
from tabane.engine.team.postgres.formats import vector
from tabane.engine.team.postgres.migrations import ServerVersions, find_tables, prepared

T = TypeVar("T")

READERS = 6  # connections and threads that read
_CONNECT = 10  # seconds until a server must answer
_WAIT = 15.0  # seconds until a read must have begun
_SILENCE = 1.25  # times the limit of a statement, which the server should have ended
_OPTIONS = (
    "-c statement_timeout={statement}ms -c lock_timeout={lock}ms -c idle_in_transaction_session_timeout=120s "
    # A statement is planned for its values: how many records match decides which index is used.
    "-c plan_cache_mode=force_custom_plan -c synchronous_commit=on -c jit=off -c timezone=UTC"
)
_MEASURE = "SELECT current_setting('server_version'), pg_database_size(current_database())"
_ATTEMPTS = 3  # the first one, one after a lost connection, one after the new one was lost as well


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a server gets: ``restart`` from the first failure until reads and writes fail at once, and
    ``ending`` of silence while a hub stops."""

    restart: float = 5.0
    ending: float = 10.0


class WireVector:
    """A vector as a parameter: float32, little-endian."""

    def __init__(self, numbers: bytes) -> None:
        self.numbers = numbers


class VectorDumper(Dumper):
    """Sends vectors in the binary format of pgvector."""

    format = Format.BINARY
    oid = 0  # the type follows from the cast in the statement

    def dump(self, obj: Any) -> bytes:
        return vector(obj.numbers)


class PostgresDatabase:
    """The connections to one schema of one database. Made by :meth:`open`; closed by who opened it."""

    def __init__(self, url: EngineUrl, versions: ServerVersions, patience: Patience) -> None:
        self.place = url.place
        self.schema = url.schema
        self.versions = versions
        self._url, self._patience = url, patience
        self._open = True
        self._limit = AnswerLimit(url.timeout * _SILENCE)
        self._spares = SpareConnections(self.connect, patience.restart)
        self._threads = ThreadPoolExecutor(READERS, "postgres-reader")

    @classmethod
    async def open(cls, url: EngineUrl, patience: Patience | None = None) -> PostgresDatabase:
        """Connect, and bring the schema to the current version. Raises StoreError."""
        return await asyncio.to_thread(cls._open_blocking, url, patience or Patience())

    @classmethod
    def _open_blocking(cls, url: EngineUrl, patience: Patience) -> PostgresDatabase:
        with _convert_errors(url.place), _connect(url, AnswerLimit(url.timeout * _SILENCE)) as connection:
            versions = prepared(connection, url.schema, url.place)
        return cls(url, versions, patience)

    def connect(self, longest: float | None = None) -> BoundedConnection:
        """Return a connection for a writer. Raises psycopg's errors.

        ``longest``: seconds of a statement and, with a quarter more, of silence, if they are shorter than
        those of the database.
        """
        if longest is None or longest >= self._url.timeout:
            connection = _connect(self._url, self._limit)
        else:
            connection = _connect(replace(self._url, timeout=longest), AnswerLimit(longest * _SILENCE))
        find_tables(connection, self.schema, self.versions)
        connection.adapters.register_dumper(WireVector, VectorDumper)
        connection.autocommit = False
        return connection

    def reconnect(self, longest: float | None = None) -> BoundedConnection:
        """As :meth:`connect`. If the server restarts, wait for it."""
        return self._spares.connect(partial(self.connect, longest))

    async def read(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        """Run work in a thread, in a transaction that sees one moment. Raises StoreError.

        The caller does not wait for the end of the transaction. ``pipelined``: its begin is sent with the
        first statement; work must not copy.
        """
        if not self._open:
            raise connections.closed(self.place)
        answer: Future[T] = Future()

        def answering(connection: psycopg.Connection) -> None:
            with connection.pipeline() if pipelined else contextlib.nullcontext():
                answer.set_result(work(connection))

        job = self._threads.submit(self._answer_read, answering, answer)
        waiting = asyncio.wrap_future(answer)
        try:
            done, _ = await asyncio.wait((waiting,), timeout=_WAIT)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        if not done and job.cancel():  # all threads are in use, and it has not begun
            raise connections.busy(self.place)
        return await waiting

    def _answer_read(self, answering: Callable[[psycopg.Connection], None], answer: Future[T]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            self._read_with_retries(lambda connection: None if answer.done() else answering(connection))
        except BaseException as error:
            if not answer.done():
                answer.set_exception(error)

    def _read_with_retries(self, work: Callable[[psycopg.Connection], None]) -> None:
        with _convert_errors(self.place):
            for attempt in range(1, _ATTEMPTS + 1):
                connection = self._spares.take()
                try:
                    return self._run_read(connection, work)
                except psycopg.Error as error:
                    if connection.closed:
                        self._spares.clear()
                    if attempt == _ATTEMPTS or not (
                        connections.is_lost(error) or connections.is_changed(error)
                    ):
                        raise
            raise AssertionError

    def _run_read(self, connection: BoundedConnection, work: Callable[[psycopg.Connection], None]) -> None:
        try:
            work(connection)
            connection.commit()
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._spares.put_back(connection)

    async def measure(self) -> tuple[str, int, float]:
        """Return the server's version, the bytes of the database, and the seconds of an answer.

        Raises StoreError.
        """

        def measuring(connection: psycopg.Connection) -> tuple[str, int, float]:
            began = time.perf_counter()
            connection.execute("SELECT 1")
            seconds = time.perf_counter() - began
            found = connection.execute(_MEASURE).fetchone()
            assert found is not None
            return found[0].split()[0], found[1], seconds

        return await self.read(measuring)

    def hurry(self) -> None:
        """Give a silent server up within seconds from now on, because the hub stops."""
        self._limit.seconds = min(self._limit.seconds, self._patience.ending)

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        if self._open:
            self._open = False
            self.hurry()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        self._spares.clear()


def drop_schema(url: EngineUrl) -> None:
    """Delete the schema of a URL with all that is in it. Raises StoreError."""
    with _convert_errors(url.place), _connect(url, AnswerLimit(url.timeout * _SILENCE)) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(url.schema)))


@contextlib.contextmanager
def _convert_errors(place: str) -> Iterator[None]:
    """Convert errors of the database."""
    try:
        yield
    except Exception as error:
        known = connections.store_error(error, place)
        if known is error:
            raise
        raise known from error


def _connect(url: EngineUrl, limit: AnswerLimit) -> BoundedConnection:
    """Return a new connection in autocommit."""
    given = psycopg.conninfo.conninfo_to_dict(url.conninfo)
    ours: dict[str, Any] = {
        "connect_timeout": _CONNECT,
        "application_name": "tabane",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    options = _OPTIONS.format(statement=round(url.timeout * 1000), lock=round(url.timeout * 500))
    ours |= given  # what the URL says itself remains
    ours["options"] = f"{options} {given.get('options') or ''}".strip()
    connection = BoundedConnection.connect(**ours, autocommit=True)
    connection.limit = limit
    return connection


_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"
_INDEX_SPACE = 0x7ABC
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
            return await asyncio.to_thread(self._take_turn)

    def _take_turn(self) -> bool:
        with self._gate:
            try:
                if self._open and self._connection is not None:
                    self._connection.execute("SELECT 1")
                    return True
                return self._open and self._try_lock()
            except psycopg.Error:
                self._release()
                return False

    def _try_lock(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _ASKED
        connection = self._database.connect()
        connection.autocommit = True
        found = connection.execute(_LOCK, (_INDEX_SPACE, self._number)).fetchone()
        if found and found[0]:
            self._connection = connection
            return True
        connection.close()
        return False

    async def close(self) -> None:
        """Give the turn back, for good. A second call does nothing."""
        async with self._asking:
            await asyncio.to_thread(self._give_turn_back)

    def _give_turn_back(self) -> None:
        with self._gate:
            self._open = False
            self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._next = 0.0
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()


_JOB_SPACE = 0x7ABD
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
            return await asyncio.to_thread(self._take_turn)

    async def close(self) -> None:
        """Give the turn back. A second call does nothing."""
        async with self._asking:
            await asyncio.to_thread(self._disconnect)

    def _take_turn(self) -> bool:
        try:
            if self._connection is None:
                connection = self._connection = self._database.connect()
                connection.autocommit = True
                connection.execute(_WATCH)
            if not self._has:
                found = self._connection.execute(_LOCK, (_JOB_SPACE, self._number)).fetchone()
                self._has = bool(found and found[0])
            else:
                self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            self._disconnect()
            raise connections.store_error(error, self._database.place) from error
        return self._has

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._has = False
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
