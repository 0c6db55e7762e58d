"""The database of vectors beside a domain's records: ``<domain>.vectors.db``, written by the same thread.

Two files cannot be committed as one. So vectors are on the disk first, and the records' transaction,
which says whose they are, comes behind: a process that dies in between leaves vectors that belong to
nobody, and these are swept. A vector is deleted the other way round: given up in a transaction of the
records, deleted by a later one. So are the vectors of a space that is dropped. Which space has which name
is the records' business.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from tabane.engine.embedded import failures
from tabane.engine.embedded.clean_points import PAGES, CleanPoints
from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.database import CommitCompanion, connected, examine, open_checked, select_among
from tabane.search.records import EmbeddingSpace

_PAGE = 16_384  # bytes: a vector of 768 numbers has 3,072, and a page holds several


def _spaces(connection: sqlite3.Connection) -> None:
    """The list of spaces; each has a table of its own. ``birth`` is a number that none ever had before."""
    connection.execute(
        """
        CREATE TABLE space (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            collection TEXT NOT NULL,
            name TEXT NOT NULL,
            dimension INTEGER NOT NULL,
            birth INTEGER NOT NULL UNIQUE,
            UNIQUE (collection, name)
        )
        """
    )


def _named_elsewhere(connection: sqlite3.Connection) -> None:
    """A space may have the name of another one that is dropped and not deleted yet: records tell them apart.

    ``name`` is what it was called when it was made.
    """
    connection.execute(
        """
        CREATE TABLE storage (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            collection TEXT NOT NULL,
            name TEXT NOT NULL,
            dimension INTEGER NOT NULL,
            birth INTEGER NOT NULL UNIQUE
        )
        """
    )
    connection.execute(
        "INSERT INTO storage SELECT number, collection, name, dimension, birth FROM space ORDER BY number"
    )
    connection.execute("DROP TABLE space")
    connection.execute("ALTER TABLE storage RENAME TO space")


_MIGRATIONS = (_spaces, _named_elsewhere)

EMPTIED = 500  # vectors of a step


class VectorDatabase(CommitCompanion):
    """An open file. Its connection belongs to the thread that writes the domain's records."""

    def __init__(self, path: str, connection: sqlite3.Connection, points: CleanPoints) -> None:
        self.path = path
        self._connection = connection
        self._points = points
        self._fresh: list[
            tuple[SpaceStorage, int]
        ] = []  # put in since the records were committed the last time

    @classmethod
    def open(cls, path: str, *, after_crash: bool, pages: int = PAGES) -> VectorDatabase:
        """Open or create the file. Blocks; raises StoreError.

        ``after_crash``: the last process died, so the file is checked, unless it is known to be whole.
        ``pages``: number of changed pages after which a checkpoint is made.
        """
        points = CleanPoints(path, pages)
        try:
            connection = open_checked(path, points, _MIGRATIONS, after_crash=after_crash, page_size=_PAGE)
        except BaseException as error:
            raise failures.storage_error(error, path) from None
        return cls(path, connection, points)

    # For the writing thread: see tabane.engine.embedded.database.Companion

    def ahead(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise failures.from_sqlite(error, self.path) from error

    def settled(self) -> None:
        self._fresh.clear()
        self._points.committed(self._connection)

    def lost(self) -> None:
        self._undo(0)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Run a block of work. If it fails, the vectors that it wrote are deleted again."""
        before = len(self._fresh)
        try:
            yield
        except BaseException:
            self._undo(before)
            raise

    def _undo(self, before: int) -> None:
        # If the disk refuses this too, vectors without a record remain.
        with contextlib.suppress(sqlite3.Error):
            if self._fresh[before:]:
                self._begin()
            for storage, number in self._fresh[before:]:
                self._connection.execute(storage.delete, (number,))
            if before == 0 and self._connection.in_transaction:
                self._connection.execute("COMMIT")
        del self._fresh[before:]

    def make(self, collection: str, space: EmbeddingSpace) -> SpaceStorage:
        """Return a place for the vectors of a space that is new."""
        self._begin()
        birth = secrets.randbits(62)
        cursor = self._connection.execute(
            "INSERT INTO space (collection, name, dimension, birth) VALUES (?, ?, ?, ?)",
            (collection, space.name, space.dimension, birth),
        )
        storage = SpaceStorage(space, int(cursor.lastrowid or 0), birth)
        self._connection.execute(
            f"CREATE TABLE {storage.table} (id INTEGER PRIMARY KEY AUTOINCREMENT, vector BLOB NOT NULL)"
        )
        return storage

    def storages(self, collection: str) -> list[tuple[str, int, int, int]]:
        """Return name at creation, dimension, number and birth of each stored space of a collection."""
        query = "SELECT name, dimension, number, birth FROM space WHERE collection = ? ORDER BY number"
        return self._connection.execute(query, (collection,)).fetchall()

    def holds(self, storage: SpaceStorage) -> bool:
        """Return whether the space has a table here."""
        return _there(self._connection, storage)

    def empty(self, storage: SpaceStorage) -> bool:
        """Delete some of the vectors of a space. True if there may be more."""
        if not self.holds(storage):
            return False
        self._begin()
        oldest = f"SELECT id FROM {storage.table} ORDER BY id LIMIT {EMPTIED}"
        query = f"DELETE FROM {storage.table} WHERE id IN ({oldest})"
        return self._connection.execute(query).rowcount == EMPTIED

    def drop(self, storage: SpaceStorage) -> None:
        """Forget a space, if it is there."""
        if self.holds(storage):
            self._begin()
            self._connection.execute(f"DROP TABLE {storage.table}")
            self._connection.execute("DELETE FROM space WHERE birth = ?", (storage.birth,))

    def put(self, storage: SpaceStorage, vector: bytes) -> int:
        """Write a vector down; the answer is its number, greater than any before it."""
        self._begin()
        number = int(self._connection.execute(storage.insert, (vector,)).lastrowid or 0)
        self._fresh.append((storage, number))
        return number

    def put_all(self, storage: SpaceStorage, vectors: Sequence[bytes]) -> int:
        """Write some vectors down together. Return the number of the first; those of the others follow it."""
        self._begin()
        statement = storage.insert + ", (?)" * (len(vectors) - 1)
        last = int(self._connection.execute(statement, vectors).lastrowid or 0)
        first = last - len(vectors) + 1
        self._fresh.extend((storage, number) for number in range(first, last + 1))
        return first

    def same(self, storage: SpaceStorage, number: int, vector: bytes) -> bool:
        """Return whether the vector under a number has these bytes."""
        query = f"SELECT vector = ? FROM {storage.table} WHERE id = ?"
        found = self._connection.execute(query, (vector, number)).fetchone()
        return bool(found and found[0])

    def remove(self, storage: SpaceStorage, numbers: Iterable[int]) -> None:
        """Delete vectors by their numbers."""
        self._begin()
        self._connection.executemany(storage.delete, ((number,) for number in numbers))

    def last(self, storage: SpaceStorage) -> int:
        """Return the number of the last vector of a space, 0 if it has none."""
        return int(self._connection.execute(f"SELECT max(id) FROM {storage.table}").fetchone()[0] or 0)

    def remove_after(self, storage: SpaceStorage, number: int) -> None:
        """Delete what was written after the last vector that belongs to a record."""
        self._begin()
        self._connection.execute(f"DELETE FROM {storage.table} WHERE id > ?", (number,))

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Fold the log into the file. The writing thread has ended."""
        self._points.checkpoint(self._connection, "TRUNCATE")
        self._connection.close()
        self._points.end()

    # For any thread

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of one's own, for a while, in a transaction. Raises StoreError."""
        try:
            with contextlib.closing(connected(self.path)) as connection:
                connection.execute("PRAGMA query_only = ON")
                connection.execute("BEGIN")
                yield connection
        except sqlite3.Error as error:
            raise failures.from_sqlite(error, self.path) from error

    def examine(self) -> None:
        """Look through the whole file. Raises StoreCorrupt with the first thing that is wrong."""
        with self.reading() as connection:
            examine(connection, self.path)

    def between(self, storage: SpaceStorage, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield the vectors from one number to another, in order; none if the space was dropped."""
        with self.reading() as connection:
            if _there(connection, storage):
                query = f"SELECT id, vector FROM {storage.table} WHERE id BETWEEN ? AND ? ORDER BY id"
                yield from connection.execute(query, (first, last))

    def vectors(self, storage: SpaceStorage, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return those of the vectors that there are."""
        found: dict[int, bytes] = {}
        with self.reading() as connection:
            if not _there(connection, storage):
                return found
            query = f"SELECT id, vector FROM {storage.table} WHERE id IN"
            found.update(select_among(connection, query, numbers))
        return found


def _there(connection: sqlite3.Connection, storage: SpaceStorage) -> bool:
    query = "SELECT 1 FROM space WHERE number = ? AND birth = ?"
    return connection.execute(query, (storage.number, storage.birth)).fetchone() is not None


def path_of(database: str) -> str:
    """Return where the vectors of a domain are, beside its records."""
    return os.path.splitext(database)[0] + ".vectors.db"
