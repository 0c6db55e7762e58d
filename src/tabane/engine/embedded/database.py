"""One SQLite file with a thread that writes and one that reads; nothing runs on the event loop.

If :meth:`Database.run` has returned, its changes are on disk (WAL, ``synchronous=FULL``). Failure policy:
every error of SQLite or the disk is a :class:`~tabane.errors.StoreError`; failed work leaves no trace.

The reading thread: two of them would compete for one interpreter, each slower and both together no faster. So
long work calls :func:`give_way` between its blocks, and waiting short work then runs at once on another
connection, with its own snapshot. Work declared as long waits for other long work. Short work gives way to
none: what waits is as short. Never call :func:`give_way` while holding a lock.

The writing thread: waiting jobs are committed together, and answered when they are on disk. A commit includes
the jobs that are already waiting, for at most 2 ms or 100 rows. It never waits for more. Each job runs in a
savepoint: if it fails, it is undone without affecting the others. A :class:`LongWrite` is a job of many
commits. It works until others wait, at most 20 ms, and its rows are committed with theirs. Then it waits
behind them for its next turn.

Schema migrations: numbered steps, each applied once, in a transaction. The version of a file is the
number of steps it has had (``PRAGMA user_version``). A step and its number are committed together. A file
that contains data is copied into ``backups/`` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from tabane.engine.embedded import failures
from tabane.engine.embedded.clean_points import PAGES, CleanPoints
from tabane.engine.embedded.vectors.vector_format import remove_older
from tabane.engine.input_checks import ALONE, MOST_ROWS
from tabane.errors import StoreNewer

SLICE = 0.004  # seconds that work runs before it gives way
_MOST_BETWEEN = 16  # short queries that run between two slices

_VALUES = 500  # of one query


class ReadConnection(sqlite3.Connection):
    """A connection of the reading thread, through which work can give way."""

    reader: ReadThread | None = None


def give_way(connection: sqlite3.Connection) -> None:
    """Run waiting short queries if the slice is over. The caller must not hold a lock."""
    if isinstance(connection, ReadConnection) and connection.reader is not None:
        connection.reader.give_way()


def select_among(
    connection: sqlite3.Connection, query: str, values: Sequence[Any], before: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query that ends with ``IN``, for any number of values. Pauses for others.

    ``before`` are the parameters that come before the values.
    """
    for first in range(0, len(values), _VALUES):
        part = values[first : first + _VALUES]
        places = ", ".join("?" * len(part))
        yield from connection.execute(f"{query} ({places})", (*before, *part)).fetchall()
        give_way(connection)


@dataclass(slots=True)
class _ReadJob:
    work: Work
    long: bool
    answer: Future[Any] = field(default_factory=Future)


class ReadThread:
    """A thread with its connections, which ``connect`` creates; ``run`` does work on one of them."""

    def __init__(
        self, name: str, connect: Callable[[], ReadConnection], run: Callable[[ReadConnection, Work], Any]
    ) -> None:
        self._connect, self._run = connect, run
        self._connections: list[ReadConnection] = []
        self._depth = 0
        self._long_running = False
        self._began = 0.0
        self._short: deque[_ReadJob] = deque()
        self._long: deque[_ReadJob] = deque()
        self._waiting: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True for each waiting item, False: end
        self._turn = False  # whether the next one is a long one, if both wait
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._started = False

    def submit(self, work: Work, *, long: bool = False) -> Future[Any]:
        """Submit work. Call it on the event loop."""
        if not self._started:
            self._started = True
            self._thread.start()
        job = _ReadJob(work, long)
        (self._long if long else self._short).append(job)
        self._waiting.put(True)
        return job.answer

    def close(self) -> None:
        """Finish waiting work, end the thread, close the connections."""
        if self._started:
            self._waiting.put(False)
            self._thread.join()
        for connection in self._connections:
            connection.close()

    # In the thread

    def _work(self) -> None:
        while self._waiting.get():
            job = self._next_job()
            if job is not None:
                self._answer_job(job)

    def _next_job(self) -> _ReadJob | None:
        """Take from both queues in turns. None: the job was done between the slices of another one."""
        first, second = (self._long, self._short) if self._turn else (self._short, self._long)
        for waiting in (first, second):
            if waiting:
                self._turn = waiting is self._short
                return waiting.popleft()
        return None

    def give_way(self) -> None:
        """See :func:`give_way`."""
        if not self._long_running or not self._short or time.monotonic() - self._began < SLICE:
            return
        if threading.current_thread() is not self._thread:
            return
        for _ in range(_MOST_BETWEEN):
            if not self._short:  # the work that was done here gave way itself
                break
            self._answer_job(self._short.popleft())
        self._began = time.monotonic()

    def _answer_job(self, job: _ReadJob) -> None:
        if not job.answer.set_running_or_notify_cancel():
            return
        before, self._long_running = self._long_running, job.long
        self._depth += 1
        self._began = time.monotonic()
        try:
            result = self._run(self._connection(), job.work)
        except BaseException as error:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)
        finally:
            self._depth -= 1
            self._long_running = before

    def _connection(self) -> ReadConnection:
        """Return the connection for the current depth."""
        if len(self._connections) < self._depth:
            connection = self._connect()
            connection.reader = self
            self._connections.append(connection)
        return self._connections[self._depth - 1]


MOST_WAITING = 1000
LONGEST_GROUP = 0.002  # seconds
LONGEST_TURN = 0.02  # seconds of a long write, where nobody waits
_SHORTEST_TURN = 0.002  # seconds: a commit has its price

Work = Callable[[sqlite3.Connection], Any]


class LongWrite(Protocol):
    """Work of many commits."""

    def step(self, connection: sqlite3.Connection, turn: WriteTurn) -> Any:
        """Do some of the work. If it fails, the rest is not done."""
        ...

    @property
    def done(self) -> bool:
        """Return whether nothing is left to do, or nobody wants it any more."""
        ...


@dataclass(slots=True)
class WriteJob:
    """Work, its number of rows, and a function that gets its result between commit and answer."""

    work: Work
    rows: int
    committed: Callable[[Any], None] | None
    answer: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None
    long: LongWrite | None = None  # of which ``work`` is a step


class CommitCompanion(Protocol):
    """Another file, written in the same thread, that must be on disk before each commit."""

    def ahead(self) -> None:
        """Write to disk what belongs to the commit that follows. An error undoes that commit."""
        ...

    def lost(self) -> None:
        """Forget what was written for a commit that failed."""
        ...


class WriteThread:
    """Owns the writing connection from :meth:`start` until :meth:`close` returns."""

    def __init__(self, connection: sqlite3.Connection, path: str, points: CleanPoints) -> None:
        self._connection = connection
        self._path = path
        self._points = points
        self.companions: list[CommitCompanion] = []
        self._waiting: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"store-writer {path}", daemon=True)
        self._gate = threading.Lock()
        self._open = True
        self._held: WriteJob | None = None  # taken from the queue, too big for the commit it was taken for
        self._short = 0  # jobs in the queue that are no long writes

    def start(self) -> None:
        """Start the thread. From now on, it owns the connection."""
        self._thread.start()

    def submit(self, job: WriteJob) -> Future[Any]:
        """Queue the job. Raises StoreBusy if too much waits, StoreError after close."""
        with self._gate:
            if not self._open:
                raise failures.closed(self._path)
            if self._waiting.qsize() >= MOST_WAITING:
                raise failures.busy(self._path)
            self._queue_job(job)
        return job.answer

    def submit_long(self, work: LongWrite, committed: Callable[[Any], None]) -> Future[Any]:
        """Queue work of many commits. ``committed`` gets the result of each step.

        Raises as :meth:`submit`.
        """
        job = WriteJob(lambda connection: work.step(connection, WriteTurn(self)), ALONE, committed, long=work)
        return self.submit(job)

    @property
    def pressed(self) -> bool:
        """Return whether a short job waits."""
        return self._short > 0

    def _queue_job(self, job: WriteJob) -> None:
        self._short += job.long is None
        self._waiting.put(job)

    def _take_job(self) -> WriteJob | None:
        job = self._waiting.get()
        if job is not None and job.long is None:
            with self._gate:
                self._short -= 1
        return job

    def close(self) -> None:
        """Finish waiting jobs, then end the thread. After that, the caller may use the connection."""
        with self._gate:
            if self._open:
                self._open = False
                self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._held or self._take_job()) is not None:
            self._held = None
            self._commit_group(job)
            self._points.committed(self._connection)

    def _commit_group(self, first: WriteJob) -> None:
        """Commit the job together with waiting jobs that fit."""
        group: list[WriteJob] = []
        rows, deadline = 0, time.monotonic() + LONGEST_GROUP
        job: WriteJob | None = first
        while job is not None:
            rows += job.rows
            if job.answer.running() or job.answer.set_running_or_notify_cancel():
                group.append(job)
                if not self._run(job):
                    break
            if job.long is not None:  # short jobs that came meanwhile need no commit of their own
                rows, deadline = 0, time.monotonic() + LONGEST_GROUP
            job = self._next_job(rows, deadline)
        self._commit_jobs(group)

    def _next_job(self, rows: int, deadline: float) -> WriteJob | None:
        if time.monotonic() > deadline or self._waiting.empty():
            return None
        job = self._take_job()
        if job is None:
            self._waiting.put(None)  # the end mark: read again after this commit
        elif rows + job.rows > MOST_ROWS:
            self._held = job
            return None
        return job

    def _run(self, job: WriteJob) -> bool:
        """Run the work in its savepoint. Return False if the whole transaction is lost."""
        connection = self._connection
        try:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            connection.execute("SAVEPOINT work")
            job.result = job.work(connection)
            connection.execute("RELEASE work")
        except BaseException as error:
            job.error = failures.storage_error(error, self._path)
            return self._undo_job()
        return True

    def _undo_job(self) -> bool:
        """Undo only the last work. Return False if SQLite rolled back the whole transaction."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO work")
                self._connection.execute("RELEASE work")
                return True
        except sqlite3.Error:
            self._rollback()
        return False

    def _commit_jobs(self, group: list[WriteJob]) -> None:
        lost: BaseException | None = None
        try:
            if self._connection.in_transaction:
                for companion in self.companions:
                    companion.ahead()
                self._connection.execute("COMMIT")
            else:
                lost = next((job.error for job in reversed(group) if job.error), None)
        except BaseException as error:
            self._rollback()
            lost = failures.storage_error(error, self._path)
        for job in group:
            self._answer_job(job, job.error or lost)

    def _answer_job(self, job: WriteJob, error: BaseException | None) -> None:
        if error is None and job.committed is not None:
            try:
                job.committed(job.result)
            except BaseException as raised:
                error = raised
        if error is not None:
            job.answer.set_exception(error)
        elif job.long is None or job.long.done:
            job.answer.set_result(job.result)
        else:  # a long write waits for its next turn; at the end of the thread, it fails
            with self._gate:
                goes_on = self._open
                if goes_on:
                    self._queue_job(job)
            if not goes_on:
                job.answer.set_exception(failures.closed(self._path))

    def _rollback(self) -> None:
        for companion in self.companions:
            companion.lost()
        # SQLite may have rolled back already; the error that matters is the first.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


class WriteTurn:
    """A turn of a long write, which begins now."""

    def __init__(self, thread: WriteThread) -> None:
        self._thread = thread
        self._began = time.monotonic()

    @property
    def over(self) -> bool:
        """Return whether it should end now. At least one row is written in each turn."""
        spent = time.monotonic() - self._began
        return spent >= (_SHORTEST_TURN if self._thread.pressed else LONGEST_TURN)


TOGETHER = 16  # rows of a statement


class RowInserts:
    """Rows for one table, in the order they were added. They are in the table after :meth:`flush`.

    Everything runs inside a transaction of the caller's.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        self._marks = f"({', '.join('?' * len(columns))})"
        self._values: list[Any] = []
        self._rows = 0

    def add(self, *values: Any) -> None:
        """Add a row, a value for each column."""
        self._values += values
        self._rows += 1
        if self._rows == TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Insert the rows that are not in the table yet."""
        if self._rows:
            statement = self._statement + ", ".join([self._marks] * self._rows)
            self._connection.execute(statement, self._values)
            self._values, self._rows = [], 0


APPLICATION = 0x54424E45  # "TBNE": no other program's database is taken for a store
BACKUPS_KEPT = 2

Migration = Callable[[sqlite3.Connection], None]


def _collections(connection: sqlite3.Connection) -> None:
    """Create the list of collections. Each collection has its own tables, created with it.

    ``base`` is the lowest row that may be live, ``next`` the row of the next record, ``sealed`` the row
    up to which columns are kept as segments; ``changes`` counts writes, ``epoch`` renumberings, and
    ``pruned`` is the last tombstone that is forgotten.
    """
    connection.execute(
        """
        CREATE TABLE collection (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            shape BLOB NOT NULL,
            base INTEGER NOT NULL DEFAULT 1,
            next INTEGER NOT NULL DEFAULT 1,
            sealed INTEGER NOT NULL DEFAULT 1,
            changes INTEGER NOT NULL DEFAULT 0,
            epoch INTEGER NOT NULL DEFAULT 0,
            pruned INTEGER NOT NULL DEFAULT 0
        )
        """
    )


def _spaces(connection: sqlite3.Connection) -> None:
    """Create the list of the spaces of all collections, in order of creation.

    ``number`` and ``birth`` say where in the file of vectors theirs are. One without a name was dropped:
    its vectors are forgotten up to row ``swept``.
    """
    connection.execute(
        """
        CREATE TABLE space (
            made INTEGER PRIMARY KEY AUTOINCREMENT,
            collection INTEGER NOT NULL,
            name TEXT,
            dimension INTEGER NOT NULL,
            model TEXT NOT NULL,
            number INTEGER NOT NULL,
            birth INTEGER NOT NULL UNIQUE,
            swept INTEGER NOT NULL DEFAULT 0,
            UNIQUE (collection, name)
        )
        """
    )


def _vector_files(connection: sqlite3.Connection) -> None:
    """Let the vectors of each space be in a file of its own, with a checksum for each.

    ``generation`` counts how often that was rewritten, 0 for a space that is in the database of vectors
    of an older version still. ``next`` is the number of the next vector.
    """
    connection.execute("ALTER TABLE space ADD COLUMN generation INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE space ADD COLUMN next INTEGER NOT NULL DEFAULT 1")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for (number,) in connection.execute("SELECT id FROM collection").fetchall():
        if f"vector_{number}" in tables:
            connection.execute(f"ALTER TABLE vector_{number} ADD COLUMN crc INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"DROP TABLE IF EXISTS given_up_{number}")


MIGRATIONS: tuple[Migration, ...] = (_collections, _spaces, _vector_files)


def version(connection: sqlite3.Connection) -> int:
    """Return the number of migrations that the file has had."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check(connection: sqlite3.Connection, path: str, known: int) -> None:
    """Reject a file that is not a store or has a newer version, before anything is changed."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (application or tables):
        raise failures.corrupt(path, "the database of another program")
    if version(connection) > known:
        raise StoreNewer.of(path, version(connection), known)


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Apply the steps that the file has not had. ``connection`` is in no transaction."""
    done = version(connection)
    if 0 < done < len(migrations):
        backup(connection, path, done)
    for number, migration in enumerate(migrations[done:], done + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            migration(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def backup(connection: sqlite3.Connection, path: str, done: int) -> str:
    """Copy the database to ``backups/<name>-v<version>.db``. Return the path of the copy.

    The copy gets that name once it is complete and on disk. The last two are kept.
    """
    folder = os.path.join(os.path.dirname(path), "backups")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    stem = os.path.splitext(os.path.basename(path))[0]
    target = os.path.join(folder, f"{stem}-v{done}.db")
    partial = target + ".part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    with contextlib.closing(sqlite3.connect(partial)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, target)
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    found = []
    for name in os.listdir(folder):
        number = name.removeprefix(f"{stem}-v").removesuffix(".db")
        if number.isdigit() and name == f"{stem}-v{number}.db":
            found.append((int(number), os.path.join(folder, name)))
    for old in sorted(found)[:-BACKUPS_KEPT]:
        os.unlink(old[1])
    return target


_CLEAN = b"closed\n"
_OPEN = b"open  \n"


class DatabaseLock:
    """The lock on a database. ``clean``: the previous process closed the database, or there was none."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.clean = os.pread(fd, len(_OPEN), 0) != _OPEN

    @classmethod
    def acquire(cls, path: str) -> DatabaseLock:
        """Lock the database at ``path``. Raises StoreLocked, StoreReadOnly, StoreFull."""
        fd = -1
        try:
            fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if isinstance(error, BlockingIOError):
                raise failures.locked(path) from None
            raise failures.from_system(error, path) from error

    def begin(self) -> None:
        """Mark the database as open. If the next process finds the mark, this process crashed."""
        os.pwrite(self._fd, _OPEN, 0)

    def release(self, *, clean: bool) -> None:
        """Release the lock. ``clean``: the database was closed as a whole."""
        if clean:
            # On a full disk the mark stays, and the next process checks the file without need.
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _CLEAN, 0)
        os.close(self._fd)


T = TypeVar("T")

_MOST_ASIDE = 4  # threads for work that reads everything
_BUSY_WAIT = 5  # seconds to wait for another connection of this process; the lock excludes other processes

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # macOS: a plain fsync leaves the data in the disk's own memory
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA cell_size_check = ON",
)
_OF_ALL = ("PRAGMA trusted_schema = OFF", "PRAGMA temp_store = MEMORY", "PRAGMA cache_size = -4000")


class Database:
    """An open database file. :meth:`open` creates it in a thread, :meth:`close` ends it.

    ``recovered``: the last process crashed with the file open, and the file was checked.
    """

    def __init__(
        self, path: str, holding: DatabaseLock, connection: sqlite3.Connection, points: CleanPoints
    ) -> None:
        self.path = path
        self.folder = os.path.dirname(path)
        self.recovered = not holding.clean
        self._holding = holding
        self._connection = connection
        self._points = points
        self._writer = WriteThread(connection, path, points)
        self._reader = ReadThread(f"store-reader {path}", self._connect_reader, self._read_snapshot)
        self._aside = ThreadPoolExecutor(_MOST_ASIDE, f"store-aside {path}")
        self._asked = 0
        self._closed = False
        self._writer.start()

    @classmethod
    def open(cls, path: str, migrations: Sequence[Migration] = MIGRATIONS, *, pages: int = PAGES) -> Database:
        """Open or create the file, upgrade it to this version, and check it if its last process died.

        ``pages``: number of changed pages after which a checkpoint is made. Blocks; raises StoreLocked,
        StoreNewer, StoreCorrupt, StoreFull, StoreReadOnly, and leaves the file unchanged.
        """
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        except OSError as error:
            raise failures.from_system(error, path) from error
        holding = DatabaseLock.acquire(path)
        points = CleanPoints(path, pages)
        try:
            connection = open_checked(path, points, migrations, after_crash=not holding.clean)
            try:
                holding.begin()
                return cls(path, holding, connection, points)
            except BaseException:
                connection.close()
                raise
        except BaseException as error:
            holding.release(clean=False)
            raise failures.storage_error(error, path) from None

    async def run(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        rows: int = 1,
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Do ``work`` in the writing thread, in a transaction. Return its result once it is on disk.

        ``rows`` is the number of rows that it changes, to limit commits. ``committed`` is called in that
        thread between the commit and the answer. If the caller is canceled before the work starts, the work
        is not done. Once it has started, it is completed.
        """
        job = WriteJob(work, rows, committed)
        result: T = await asyncio.wrap_future(self._writer.submit(job))
        return result

    async def run_long(self, work: LongWrite, committed: Callable[[T], None]) -> None:
        """Do work of many commits in the writing thread, in turns with other work.

        Returns when everything is on disk. ``committed`` is called in that thread after each commit, with
        the result of the step. What was committed before an error stays. If the caller is canceled, the
        work has to say that it is done.
        """
        await asyncio.wrap_future(self._writer.submit_long(work, committed))

    async def read(self, work: Callable[[sqlite3.Connection], T], *, long: bool = False) -> T:
        """Do ``work`` in the reading thread, in its own transaction, which sees one snapshot.

        ``long``: it waits for other long work, and lets short work run between its blocks. Work that may take
        more than a few milliseconds must call
        :func:`~tabane.engine.embedded.database.give_way` between its blocks.
        """
        if self._closed:
            raise failures.closed(self.path)
        if self._asked >= MOST_WAITING:
            raise failures.busy(self.path)
        self._asked += 1
        try:
            result: T = await asyncio.wrap_future(self._reader.submit(work, long=long))
            return result
        finally:
            self._asked -= 1

    async def aside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` as :meth:`read` does, on its own thread and connection.

        For work that reads everything, such as opening or checking.
        """
        if self._closed:
            raise failures.closed(self.path)
        return await asyncio.get_running_loop().run_in_executor(self._aside, self._read_aside, work)

    def accompany(self, companion: CommitCompanion) -> None:
        """Add a companion that commits before each commit from now on.

        Call it before the first write that needs it.
        """
        self._writer.companions.append(companion)

    async def examine(self) -> None:
        """Check the whole file. Raises StoreCorrupt with the first problem."""
        await self.aside(lambda connection: examine(connection, self.path))

    async def close(self) -> None:
        """Finish waiting work, copy the log into the file, and release it. A second call does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close_blocking)

    def _read_aside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with contextlib.closing(self._connect_reader()) as connection:
            return self._read_snapshot(connection, work)

    def _read_snapshot(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("ROLLBACK")
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise failures.storage_error(error, self.path) from error

    def _connect_reader(self) -> ReadConnection:
        try:
            connection = connected(self.path, ReadConnection)
        except sqlite3.Error as error:
            raise failures.storage_error(error, self.path) from error
        assert isinstance(connection, ReadConnection)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _close_blocking(self) -> None:
        self._writer.close()
        self._aside.shutdown(wait=True)  # it may write derived files, which the next process will own
        clean = False
        with contextlib.suppress(sqlite3.Error):
            self._reader.close()
            self._connection.execute("PRAGMA optimize")
            self._points.checkpoint(self._connection, "TRUNCATE")
            clean = True
        self._connection.close()
        self._points.end()
        self._holding.release(clean=clean)


def connected(path: str, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open a connection with the settings of the store.

    The caller begins transactions; any thread may use it.
    """
    connection = sqlite3.connect(
        path, timeout=_BUSY_WAIT, isolation_level=None, check_same_thread=False, factory=kind
    )
    try:
        for pragma in _OF_ALL:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def open_checked(
    path: str,
    points: CleanPoints,
    migrations: Sequence[Migration],
    *,
    after_crash: bool,
) -> sqlite3.Connection:
    """Open or create a database and upgrade it. Raises StoreError, or errors of SQLite and the system.

    ``after_crash``: the last process crashed, so the file is checked unless it is known to be intact.
    """
    points.look()
    connection = connected(path)
    try:
        check(connection, path, len(migrations))
        if after_crash and not points.proven(connection):
            examine(connection, path)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection, path, migrations)
        if points.begin(connection):
            remove_older(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def examine(connection: sqlite3.Connection, path: str) -> None:
    """Check every page. Raises StoreCorrupt with the first problem."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise failures.corrupt(path, str(found).splitlines()[-1])
