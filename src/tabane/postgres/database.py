"""A database that several stores share: its connections, and reads in transactions of one moment.

Everything blocks inside threads of its own. Each wait is bounded: connecting, waiting for a connection, for a
lock, and for a statement. A read is repeated once if the connection was lost or a table changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg_pool import ConnectionPool, PoolTimeout

from tabane.postgres import failures
from tabane.postgres.copy_format import vector
from tabane.postgres.engine_url import EngineUrl
from tabane.postgres.migrations import ServerVersions, find_tables, prepared

T = TypeVar("T")

READERS = 6  # connections and threads that read
_CONNECT = 10  # seconds until a server must answer
_WAIT = 15.0  # seconds for a free connection
_OPTIONS = (
    "-c statement_timeout=120s -c lock_timeout=60s -c idle_in_transaction_session_timeout=120s "
    # A statement is planned for its values: how many records match decides which index is used.
    "-c plan_cache_mode=force_custom_plan -c synchronous_commit=on -c jit=off -c timezone=UTC"
)
_ATTEMPTS = 3  # the first one, one after a lost connection, one after the new one was lost as well


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

    def __init__(self, url: EngineUrl, versions: ServerVersions) -> None:
        self.place = url.place
        self.schema = url.schema
        self.versions = versions
        self._url = url
        self._open = True
        self._pool = ConnectionPool(
            "",
            connection_class=psycopg.Connection,
            kwargs=_parameters(url),
            min_size=0,
            max_size=READERS,
            timeout=_WAIT,
            max_idle=300,
            max_waiting=1000,
            reconnect_timeout=_WAIT,
            configure=self._configure,
            open=True,
        )
        self._threads = ThreadPoolExecutor(READERS, "postgres-reader")

    @classmethod
    async def open(cls, url: EngineUrl) -> PostgresDatabase:
        """Connect, and bring the schema to the current version. Raises StoreError."""
        return await asyncio.to_thread(cls._opened, url)

    @classmethod
    def _opened(cls, url: EngineUrl) -> PostgresDatabase:
        with _reported(url.place), psycopg.connect(**_parameters(url), autocommit=True) as connection:
            versions = prepared(connection, url.schema, url.place)
        return cls(url, versions)

    def connect(self) -> psycopg.Connection:
        """Return a connection for a writer. Raises psycopg's errors."""
        connection = psycopg.connect(**_parameters(self._url), autocommit=True)
        self._prepare(connection)
        connection.autocommit = False
        return connection

    async def read(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        """Run work in a thread, in a transaction that sees one moment. Raises StoreError.

        The caller does not wait for the end of the transaction. ``pipelined``: its begin is sent with the
        first statement; work must not copy.
        """
        if not self._open:
            raise failures.closed(self.place)
        answer: Future[T] = Future()

        def answering(connection: psycopg.Connection) -> None:
            with connection.pipeline() if pipelined else contextlib.nullcontext():
                answer.set_result(work(connection))

        self._threads.submit(self._answer, answering, answer)
        return await asyncio.wrap_future(answer)

    def _answer(self, answering: Callable[[psycopg.Connection], None], answer: Future[T]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            self._read(lambda connection: None if answer.done() else answering(connection))
        except BaseException as error:
            if not answer.done():
                answer.set_exception(error)

    def _read(self, work: Callable[[psycopg.Connection], None]) -> None:
        with _reported(self.place):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return self._once(work)
                except psycopg.Error as error:
                    if attempt == _ATTEMPTS or not (failures.is_lost(error) or failures.is_changed(error)):
                        raise
                    self._pool.check()
            raise AssertionError

    def _once(self, work: Callable[[psycopg.Connection], None]) -> None:
        try:
            with self._pool.connection() as connection:
                work(connection)
        except PoolTimeout:
            self.connect().close()  # its error says what is wrong; if there is none, all are in use
            raise

    def _configure(self, connection: psycopg.Connection) -> None:
        connection.autocommit = True
        self._prepare(connection)
        connection.autocommit = False
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True

    def _prepare(self, connection: psycopg.Connection) -> None:
        find_tables(connection, self.schema, self.versions)
        connection.adapters.register_dumper(WireVector, VectorDumper)

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        if self._open:
            self._open = False
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        self._pool.close()


@contextlib.contextmanager
def _reported(place: str) -> Iterator[None]:
    """Convert errors of the database."""
    try:
        yield
    except Exception as error:
        known = failures.store_error(error, place)
        if known is error:
            raise
        raise known from error


def _parameters(url: EngineUrl) -> dict[str, Any]:
    """Return the parameters of a connection. What the URL says itself remains."""
    given = psycopg.conninfo.conninfo_to_dict(url.conninfo)
    ours: dict[str, Any] = {
        "connect_timeout": _CONNECT,
        "application_name": "tabane",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    return {**ours, **given, "options": f"{_OPTIONS} {given.get('options') or ''}".strip()}
