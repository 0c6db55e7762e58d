"""One SQLite file with a thread that writes and one that reads; nothing runs on the event loop.

If :meth:`Database.run` has returned, its changes are on disk (WAL, ``synchronous=FULL``). Failure policy:
every error of SQLite or the disk is a :class:`~tabane.errors.StoreError`; failed work leaves no trace.

Schema migrations: numbered steps, each applied once, in a transaction. The version of a file is the
number of steps it has had (``PRAGMA user_version``). A step and its number are committed together. A file
that contains data is copied into ``backups/`` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from tabane.engine.embedded import failures
from tabane.engine.embedded.clean_points import PAGES, CleanPoints
from tabane.engine.embedded.database_threads import (
    MOST_WAITING,
    CommitCompanion,
    LongWrite,
    ReadConnection,
    ReadThread,
    WriteJob,
    WriteThread,
)
from tabane.errors import StoreNewer
from tabane.messages import say

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


MIGRATIONS: tuple[Migration, ...] = (_collections, _spaces)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check(connection: sqlite3.Connection, path: str, known: int) -> None:
    """Reject a file that is not a store or has a newer version, before anything is changed."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (application or tables):
        raise failures.corrupt(path, "the database of another program")
    if version(connection) > known:
        raise StoreNewer(
            say(
                "{path} was written by a newer Tabane (version {theirs}; this one supports "
                "{ours}). Update Tabane",
                path=path,
                theirs=version(connection),
                ours=known,
            )
        )


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Apply the steps that the file has not had. ``connection`` is in no transaction."""
    done = version(connection)
    if 0 < done < len(migrations):
        backup(connection, path, done)
    for number in range(done, len(migrations)):
        _apply(connection, migrations[number], number + 1)


def _apply(connection: sqlite3.Connection, migration: Migration, number: int) -> None:
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
    _settle(partial, target, folder)
    for old in sorted(_backups(folder, stem))[:-BACKUPS_KEPT]:
        os.unlink(old[1])
    return target


def _backups(folder: str, stem: str) -> list[tuple[int, str]]:
    found = []
    for name in os.listdir(folder):
        number = name.removeprefix(f"{stem}-v").removesuffix(".db")
        if number.isdigit() and name == f"{stem}-v{number}.db":
            found.append((int(number), os.path.join(folder, name)))
    return found


def _settle(partial: str, target: str, folder: str) -> None:
    """Rename the file after its content is on disk."""
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, target)
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
        self._reader = ReadThread(f"store-reader {path}", self._connect_reader, self._read)
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
        thread between the commit and the answer. If the caller is cancelled before the work starts, the work
        is not done.
        After that, it is completed.
        """
        job = WriteJob(work, rows, committed)
        result: T = await asyncio.wrap_future(self._writer.submit(job))
        return result

    async def run_long(self, work: LongWrite, committed: Callable[[T], None]) -> None:
        """Do work of many commits in the writing thread, in turns with other work.

        Returns when everything is on disk. ``committed`` is called in that thread after each commit, with
        the result of the step. What was committed before an error stays. If the caller is cancelled, the
        work has to say that it is done.
        """
        await asyncio.wrap_future(self._writer.submit_long(work, committed))

    async def read(self, work: Callable[[sqlite3.Connection], T], *, long: bool = False) -> T:
        """Do ``work`` in the reading thread, in its own transaction, which sees one snapshot.

        ``long``: it waits for other long work, and lets short work run between its blocks. Work that may take
        more than a few milliseconds must call
        :func:`~tabane.engine.embedded.database_threads.give_way` between its blocks.
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
            await asyncio.to_thread(self._close)

    def _read_aside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with contextlib.closing(self._connect_reader()) as connection:
            return self._read(connection, work)

    def _read(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
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

    def _close(self) -> None:
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
    page_size: int | None = None,
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
        if page_size is not None:
            connection.execute(f"PRAGMA page_size = {page_size}")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection, path, migrations)
        points.begin(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def examine(connection: sqlite3.Connection, path: str) -> None:
    """Check every page. Raises StoreCorrupt with the first problem."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise failures.corrupt(path, str(found).splitlines()[-1])
