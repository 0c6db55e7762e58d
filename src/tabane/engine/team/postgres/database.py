"""A database that several stores share: its connections, and reads in transactions of one moment.

Everything blocks inside threads of its own. Each wait is bounded: connecting, waiting for a thread, for a
lock, for a statement, and for a server that is silent. A read is repeated if its connection was lost or a
table changed, and not if the server was silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tabane.engine.team.postgres import failures
from tabane.engine.team.postgres.bounded_connection import AnswerLimit, BoundedConnection
from tabane.engine.team.postgres.copy_format import vector
from tabane.engine.team.postgres.engine_url import EngineUrl
from tabane.engine.team.postgres.migrations import ServerVersions, find_tables, prepared
from tabane.engine.team.postgres.spare_connections import SpareConnections

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
        return await asyncio.to_thread(cls._opened, url, patience or Patience())

    @classmethod
    def _opened(cls, url: EngineUrl, patience: Patience) -> PostgresDatabase:
        with _reported(url.place), _connected(url, AnswerLimit(url.timeout * _SILENCE)) as connection:
            versions = prepared(connection, url.schema, url.place)
        return cls(url, versions, patience)

    def connect(self, longest: float | None = None) -> BoundedConnection:
        """Return a connection for a writer. Raises psycopg's errors.

        ``longest``: seconds of a statement and, with a quarter more, of silence, if they are shorter than
        those of the database.
        """
        if longest is None or longest >= self._url.timeout:
            connection = _connected(self._url, self._limit)
        else:
            connection = _connected(replace(self._url, timeout=longest), AnswerLimit(longest * _SILENCE))
        self._prepare(connection)
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
            raise failures.closed(self.place)
        answer: Future[T] = Future()

        def answering(connection: psycopg.Connection) -> None:
            with connection.pipeline() if pipelined else contextlib.nullcontext():
                answer.set_result(work(connection))

        job = self._threads.submit(self._answer, answering, answer)
        waiting = asyncio.wrap_future(answer)
        try:
            done, _ = await asyncio.wait((waiting,), timeout=_WAIT)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        if not done and job.cancel():  # all threads are in use, and it has not begun
            raise failures.busy(self.place)
        return await waiting

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
                connection = self._spares.take()
                try:
                    return self._once(connection, work)
                except psycopg.Error as error:
                    if connection.closed:
                        self._spares.clear()
                    if attempt == _ATTEMPTS or not (failures.is_lost(error) or failures.is_changed(error)):
                        raise
            raise AssertionError

    def _once(self, connection: BoundedConnection, work: Callable[[psycopg.Connection], None]) -> None:
        try:
            work(connection)
            connection.commit()
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._spares.put_back(connection)

    def _prepare(self, connection: psycopg.Connection) -> None:
        find_tables(connection, self.schema, self.versions)
        connection.adapters.register_dumper(WireVector, VectorDumper)

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
    with _reported(url.place), _connected(url, AnswerLimit(url.timeout * _SILENCE)) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(url.schema)))


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


def _connected(url: EngineUrl, limit: AnswerLimit) -> BoundedConnection:
    """Return a new connection in autocommit."""
    connection = BoundedConnection.connect(**_parameters(url), autocommit=True)
    connection.limit = limit
    return connection


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
    options = _OPTIONS.format(statement=round(url.timeout * 1000), lock=round(url.timeout * 500))
    return {**ours, **given, "options": f"{options} {given.get('options') or ''}".strip()}
