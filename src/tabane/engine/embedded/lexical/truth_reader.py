"""Reader of the stored records for the lexical index: in its own threads, on read-only connections."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from tabane.engine.embedded import failures
from tabane.engine.embedded.read_thread import give_way
from tabane.errors import StoreError
from tabane.search.analysis import substring_spelling
from tabane.search.filters import Contains, contains
from tabane.search.records import Record, Shape

if TYPE_CHECKING:
    from tabane.engine.embedded.collection_state import CollectionState
    from tabane.engine.embedded.collection_table import CollectionTable
    from tabane.engine.embedded.masks import Masks

_LOOKED_AT = 32  # records between two pauses for others


class TruthReader:
    """Reads one table from threads other than the event loop. Raises StoreError."""

    def __init__(self, table: CollectionTable) -> None:
        self._table = table
        self._truth = table.truth
        self._path = table.database.path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    @property
    def shape(self) -> Shape:
        return self._table.shape

    def state(self) -> tuple[CollectionState, int]:
        """Return the state of the collection, and its last tombstone."""
        with self.reading() as connection:
            return self._truth.state(connection), self._truth.last_tombstone(connection)

    def rows(self, after: int, most: int) -> list[tuple[int, Record]]:
        with self.reading() as connection:
            return list(self._truth.rows(connection, after, most))

    def tombstones(self, after: int) -> list[int]:
        with self.reading() as connection:
            return self._truth.tombstones(connection, after)

    def count(self) -> int:
        """Return the number of records."""
        with self.reading() as connection:
            return int(self._table.masks(connection).snapshot.alive.sum())

    def keys(self, connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, str]:
        """Return the keys of those rows that are live."""
        return self._truth.keys_at(connection, rows)

    def masks(self, connection: sqlite3.Connection) -> Masks:
        """Return the masks that evaluate filters, for the snapshot of the connection's transaction."""
        return self._table.masks(connection)

    def busy(self) -> StoreError:
        return failures.busy(self._path)

    def holding(self, connection: sqlite3.Connection, rows: Sequence[int], condition: Contains) -> list[int]:
        """Return the rows whose texts contain the condition's text, by reading the texts."""
        needle = substring_spelling(condition.text)
        found: list[int] = []
        for number, row in enumerate(rows):
            if not number % _LOOKED_AT:
                give_way(connection)
            record = self._truth.at(connection, row)
            if record is not None:
                names = record.texts if condition.fields is None else condition.fields
                if contains((record.texts.get(name, "") for name in names), needle):
                    found.append(row)
        return found

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the thread's own connection, in a transaction. Raises StoreError."""
        try:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise failures.from_sqlite(error, self._path) from error

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is None:
            address = f"file:{quote(self._path)}?mode=ro"
            known = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            known.execute("PRAGMA query_only = ON")
            self._local.connection = known
            self._connections.append(known)
        return known
