"""A database that several stores share: its schema, connections, reads of one moment, turns among its hubs.

Everything blocks inside threads of its own. Each wait is bounded: connecting, waiting for a thread, for a
lock, for a statement, and for a server that is silent. A read is repeated if its connection was lost or a
table changed, and not if the server was silent.

The turn to fill an index outside of the database: one of the hubs has it, by a lock in the database. The
server takes it back if the connection of that hub ends.

The schema has versions. Migrations run under a lock, each in one commit. Statements that cannot run in a
transaction, such as VACUUM, have a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tabane.engine.team.postgres import connections
from tabane.engine.team.postgres.connections import AnswerLimit, BoundedConnection, SpareConnections
from tabane.engine.team.postgres.engine_url import EngineUrl
from tabane.engine.team.postgres.formats import signed_number, vector
from tabane.messages import say

OLDEST_SERVER = 150000  # PostgreSQL 15
OLDEST_PGVECTOR = (0, 7)  # halfvec, and casts in indexes
_ITERATIVE = (0, 8)  # hnsw.iterative_scan

MIGRATIONS: Sequence[str] = (
    """
    CREATE TABLE collection (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      domain text NOT NULL,
      name text NOT NULL,
      next bigint NOT NULL DEFAULT 1,
      changes bigint NOT NULL DEFAULT 0,
      next_space integer NOT NULL DEFAULT 1,
      spaces jsonb NOT NULL DEFAULT '[]',
      lexical jsonb NOT NULL DEFAULT '{}',
      UNIQUE (domain, name)
    )
    """,
    # log_from: the change behind which changes are logged; null while nobody follows the collection
    """
    ALTER TABLE collection ADD COLUMN log_from bigint;
    CREATE TABLE follower (
      collection integer NOT NULL REFERENCES collection ON DELETE CASCADE,
      name text NOT NULL,
      change bigint NOT NULL,
      row bigint NOT NULL,
      mark text NOT NULL,
      coming text NOT NULL,
      note text NOT NULL,
      seen timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (collection, name)
    );
    CREATE TABLE change_log (
      collection integer NOT NULL REFERENCES collection ON DELETE CASCADE,
      change bigint NOT NULL,
      space integer NOT NULL,
      first bigint NOT NULL,
      rows bigint[] NOT NULL,
      keys text[] NOT NULL,
      PRIMARY KEY (collection, change, space, first)
    )
    """,
    # Until here, texts in ASCII were missing in the lengths of pairs, but not among the records.
    r"""
    DO $$
    DECLARE stored record; spelt record; average numeric;
    BEGIN
      FOR stored IN SELECT id, (lexical->>'records')::numeric AS records FROM collection
                    WHERE (lexical->>'records')::numeric > 0 LOOP
        FOR spelt IN SELECT attname::text AS name FROM pg_attribute
                     WHERE attrelid = to_regclass('record_' || stored.id)
                       AND attnum > 0 AND NOT attisdropped AND attname LIKE 's\_%' LOOP
          EXECUTE format('SELECT avg(coalesce(char_length(%I), 0)) FROM %I',
                         spelt.name, 'record_' || stored.id) INTO average;
          UPDATE collection SET lexical = jsonb_set(lexical, ARRAY['lengths', spelt.name],
            to_jsonb(round(coalesce(average, 0) * stored.records))) WHERE id = stored.id;
        END LOOP;
      END LOOP;
    END $$
    """,
    # analysis: the version of the analysis that made the lexical index and the spelled texts
    "ALTER TABLE collection ADD COLUMN analysis integer NOT NULL DEFAULT 1",
)
"""The statements that bring the schema from each version to the next. Never change one that was released."""


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """The versions of a server and of its pgvector, and the schema that has pgvector's types."""

    server: str
    pgvector: str
    extension_schema: str

    @property
    def has_iterative_scan(self) -> bool:
        """Return whether an approximate index goes on until enough records match a filter."""
        return _numbers(self.pgvector) >= _ITERATIVE


def prepared(connection: psycopg.Connection, schema: str, place: str) -> ServerVersions:
    """Bring the schema to the current version. Return the versions of the server.

    The connection is in autocommit. Raises StoreError if a permission or the extension is missing.
    """
    _check_server(connection, place)
    with connection.transaction():
        lock_schema(connection, schema)
        _extension(connection, place)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        versions = server_versions(connection)
        find_tables(connection, schema, versions)
        _migrate(connection, place)
    return versions


def lock_schema(connection: psycopg.Connection, schema: str) -> None:
    """Take the lock under which tables are created and changed, until the transaction ends."""
    connection.execute(
        "SELECT pg_advisory_xact_lock(%s, %s)", (0x7ABA, signed_number(zlib.crc32(schema.encode())))
    )


def find_tables(connection: psycopg.Connection, schema: str, versions: ServerVersions) -> None:
    """Set the path by which the connection finds the tables of this schema and the types of pgvector."""
    path = sql.SQL(", ").join(map(sql.Identifier, dict.fromkeys((schema, versions.extension_schema))))
    connection.execute(sql.SQL("SET search_path TO {}").format(path))


def server_versions(connection: psycopg.Connection) -> ServerVersions:
    """Return the versions. The extension is there."""
    found = connection.execute(
        "SELECT current_setting('server_version'), extversion, nspname FROM pg_extension "
        "JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"
    ).fetchone()
    assert found is not None
    return ServerVersions(found[0].split()[0], found[1], found[2])


def _check_server(connection: psycopg.Connection, place: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        found = connection.info.server_version // 10000
        problem = say(
            "PostgreSQL {found} is too old; {least} or newer is needed",
            found=found,
            least=OLDEST_SERVER // 10000,
        )
        raise connections.unfit_server(place, problem)
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        problem = say("the encoding of the database is {found}, and must be UTF8", found=encoding or "?")
        raise connections.unfit_server(place, problem)


def _extension(connection: psycopg.Connection, place: str) -> None:
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is None:
        found = _installed(connection, place)
    if _numbers(found[0]) < OLDEST_PGVECTOR:
        problem = say(
            "pgvector {found} is too old; {least} or newer is needed. Run in that database: ALTER EXTENSION "
            "vector UPDATE",
            found=found[0],
            least=".".join(map(str, OLDEST_PGVECTOR)),
        )
        raise connections.unfit_server(place, problem)


def _installed(connection: psycopg.Connection, place: str) -> tuple[str]:
    """Install the extension, and return its version."""
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION vector")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        problem = say(
            "the extension pgvector is not installed on the server. Install it there, such as the package "
            "postgresql-17-pgvector"
        )
        raise connections.unfit_server(place, problem) from None
    except errors.InsufficientPrivilege:
        problem = say(
            "the extension pgvector is not in the database. Have an administrator run there: "
            "CREATE EXTENSION vector"
        )
        raise connections.unfit_server(place, problem) from None
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert found is not None
    return (found[0],)


def _migrate(connection: psycopg.Connection, place: str) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS format (version integer NOT NULL)")
    found = connection.execute("SELECT max(version) FROM format").fetchone()
    version = (found and found[0]) or 0
    if version > len(MIGRATIONS):
        raise connections.newer(place, version, len(MIGRATIONS))
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    if version < len(MIGRATIONS):
        connection.execute("DELETE FROM format")
        connection.execute("INSERT INTO format (version) VALUES (%s)", (len(MIGRATIONS),))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


T = TypeVar("T")
P = ParamSpec("P")

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


_CANCELING = 5.0  # seconds until the server must have taken a request to cancel
_CANCELED = 0.2  # seconds between two attempts to cancel


class MaintenanceThread:
    """A thread for statements in autocommit, such as VACUUM, each job with a connection of its own."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self.is_open = True
        self._database = database
        self._thread = ThreadPoolExecutor(1, name)
        self._connection: BoundedConnection | None = None
        self._last: Future[None] | None = None

    def submit(self, job: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
        """Queue a job. It is not run after :meth:`close`."""
        with contextlib.suppress(RuntimeError):  # closed
            self._last = self._thread.submit(self._run, partial(job, *arguments, **options))

    def _run(self, job: Callable[[], None]) -> None:
        if self.is_open:
            job()

    @contextlib.contextmanager
    def connected(self) -> Iterator[BoundedConnection]:
        """Connect for the job that runs. Its statements are canceled by :meth:`close`."""
        with contextlib.closing(self._database.connect()) as connection:
            connection.autocommit = True
            self._connection = connection
            try:
                yield connection
            finally:
                self._connection = None

    def close(self) -> None:
        """Cancel the job that runs, and end the thread. A second call does nothing."""
        self.is_open = False
        while self._last is not None and not self._last.done():
            connection = self._connection
            if connection is not None:
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCELING)
            with contextlib.suppress(FutureTimeout):
                self._last.result(_CANCELED)
        self._thread.shutdown(wait=True)
