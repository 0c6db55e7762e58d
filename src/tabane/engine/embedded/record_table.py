"""The table of records of one collection, read by key and by row, and its numeric keys in memory.

For any thread, in a transaction of the caller.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tabane.engine.embedded.collection_state import CollectionState
from tabane.engine.embedded.columns import Array, GrowableArray
from tabane.engine.embedded.read_thread import give_way, select_among
from tabane.search.records import Record, StoredRecord, Value

_NONE = -1
_AT_ONCE = 4096  # rows between two pauses for others
_LARGEST = 2**63

_TEXTS = msgspec.json.Decoder(dict[str, str])
_FIELDS = msgspec.json.Decoder(dict[str, str | int | float | bool | tuple[str, ...]])


class RecordTable:
    """The table of records. A row is never another record's, one that was replaced is gone."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self._name = name
        self._records = f"record_{number}"
        self._find = f"SELECT row, texts, fields, payload FROM {self._records} WHERE key = ?"

    def state(self, connection: sqlite3.Connection) -> CollectionState:
        query = "SELECT base, next, sealed, changes, epoch, pruned FROM collection WHERE id = ?"
        return CollectionState(*connection.execute(query, (self.number,)).fetchone())

    def get(self, connection: sqlite3.Connection, keys: Sequence[str]) -> list[Record | None]:
        query = f"SELECT key, texts, fields, payload FROM {self._records} WHERE key IN"
        found = {row[0]: record_of(*row) for row in select_among(connection, query, keys)}
        return [found.get(key) for key in keys]

    def at(self, connection: sqlite3.Connection, row: int) -> Record | None:
        """Return the record at a row."""
        query = f"SELECT key, texts, fields, payload FROM {self._records} WHERE row = ?"
        found = connection.execute(query, (row,)).fetchone()
        return record_of(*found) if found else None

    def stored(self, connection: sqlite3.Connection, row: int) -> StoredRecord:
        """Return the record at a row that is live at the moment of the connection's transaction."""
        record = self.at(connection, row)
        if record is None:
            raise LookupError(f"{self._name} has no row {row}")
        return StoredRecord(record=record, row=row)

    def rows(self, connection: sqlite3.Connection, after: int, most: int) -> Iterator[tuple[int, Record]]:
        """Yield up to ``most`` records in order of rows, those behind ``after``."""
        query = (
            f"SELECT row, key, texts, fields, payload FROM {self._records} WHERE row > ? ORDER BY row LIMIT ?"
        )
        for found in connection.execute(query, (after, most)):
            yield found[0], record_of(*found[1:])

    def fields_after(
        self, connection: sqlite3.Connection, after: int, most: int
    ) -> list[tuple[int, dict[str, Value]]]:
        """Return up to ``most`` rows behind ``after`` with their fields alone."""
        query = f"SELECT row, fields FROM {self._records} WHERE row > ? ORDER BY row LIMIT ?"
        return [(row, _FIELDS.decode(blob)) for row, blob in connection.execute(query, (after, most))]

    def texts_between(
        self, connection: sqlite3.Connection, first: int, last: int
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the texts of the records whose rows lie between, both included."""
        query = f"SELECT row, texts FROM {self._records} WHERE row BETWEEN ? AND ?"
        for row, blob in connection.execute(query, (first, last)):
            yield row, _TEXTS.decode(blob)

    def key(self, connection: sqlite3.Connection, row: int) -> str:
        """Return the key of the record at a row; empty if none is, which sorts before all keys."""
        found = connection.execute(f"SELECT key FROM {self._records} WHERE row = ?", (row,)).fetchone()
        return str(found[0]) if found else ""

    def keys_at(self, connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, str]:
        """Return the keys of those of the rows that are live."""
        query = f"SELECT row, key FROM {self._records} WHERE row IN"
        return dict(select_among(connection, query, rows))

    def keys_between(self, connection: sqlite3.Connection, first: int, last: int) -> dict[int, str]:
        """Return the keys of the live rows from ``first`` to ``last``."""
        query = f"SELECT row, key FROM {self._records} WHERE row BETWEEN ? AND ?"
        return dict(connection.execute(query, (first, last)).fetchall())

    def rows_of(self, connection: sqlite3.Connection, keys: Sequence[str]) -> list[int | None]:
        """Return the rows of records, None if there is none."""
        query = f"SELECT key, row FROM {self._records} WHERE key IN"
        found = dict(select_among(connection, query, keys))
        return [found.get(key) for key in keys]

    def keys(self, connection: sqlite3.Connection, after: str) -> sqlite3.Cursor:
        """Return a cursor over rows and keys after a key, in order of keys."""
        query = f"SELECT row, key FROM {self._records} WHERE key > ? ORDER BY key"
        return connection.execute(query, (after,))


def record_of(key: str, texts: bytes, fields: bytes, payload: bytes) -> Record:
    return Record(key=key, texts=_TEXTS.decode(texts), fields=_FIELDS.decode(fields), payload=payload)


class NumericKeys:
    """Keys that are whole numbers, by row, in 8 bytes each: to look up thousands of keys takes a tenth of
    a second in a database. A row never has another key, so what was read once holds.
    """

    def __init__(self, records: RecordTable) -> None:
        self._records = records
        self._numbers = GrowableArray(np.int64)
        self._lock = threading.Lock()
        self._first: int | None = None
        self._other = False

    def behind(self, connection: sqlite3.Connection, following: int) -> int:
        """Return how many rows :meth:`read_on` would read."""
        with self._lock:
            start = self._start(connection)
        return 0 if self._other else max(0, following - start)

    def _start(self, connection: sqlite3.Connection) -> int:
        if self._first is None:
            self._first = self._records.state(connection).base
        return self._first + self._numbers.length

    def read_on(self, connection: sqlite3.Connection, following: int) -> None:
        """Read the keys of live rows up to a row. Blocks; pauses for others."""
        while self._read_some(connection, following):
            give_way(connection)

    def _read_some(self, connection: sqlite3.Connection, end: int) -> bool:
        """Read some of them. Return False if there are no more to read."""
        with self._lock:
            start = self._start(connection)
            if self._other or start >= end:
                return False
            following = min(end, start + _AT_ONCE)
            numbers = np.full(following - start, _NONE, dtype=np.int64)
            for row, key in self._records.keys_between(connection, start, following - 1).items():
                if not _numeric(key):
                    self._other = True
                    return False
                numbers[row - start] = int(key)
            self._numbers.append(numbers)
            return True

    def of(self, rows: Array) -> list[str] | None:
        """The keys of rows; None if some are of another kind, or were not read while they were live."""
        if self._other or self._first is None:
            return None
        places, held = rows - self._first, self._numbers.view()
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(held):
            return None
        numbers = held[places]
        return None if (numbers == _NONE).any() else list(map(str, numbers.tolist()))


def _numeric(key: str) -> bool:
    """Return whether the number alone gives the key back."""
    return key.isascii() and key.isdecimal() and (key[0] != "0" or key == "0") and int(key) < _LARGEST
