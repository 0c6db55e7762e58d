"""Records of one collection in SQLite, the source of truth, and the changes of each write.

A record has a row number that grows and is never reused. A replaced record moves to a new row and leaves
a tombstone. So derived data (columns, lexical index) catches up by two numbers: the last row it has, and
the last tombstone. Compaction moves the lowest records to the end until the rows between
:attr:`State.base` and :attr:`State.next` are dense again.

Everything here runs inside a transaction of the caller's.

Table of the strings of fields: each distinct string of a field is stored once, with a code. Codes are
unique in a collection and never reused; 0 means no string. The table is in the database, and a new string
is written with the first record that has it. So columns need 4 bytes a record, and no strings are kept in
memory.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from tabane.engine.embedded.collection_state import (
    Cell,
    Cells,
    CollectionChange,
    CollectionSpaces,
    CollectionState,
    VectorPlacement,
)
from tabane.engine.embedded.columns import Array, GrowableArray
from tabane.engine.embedded.database import RowInserts, WriteTurn, give_way, select_among
from tabane.engine.embedded.vectors.vector_truth import SpaceTable, VectorTruth
from tabane.engine.input_checks import without_other_models
from tabane.search.records import Field, Kind, Record, Shape, StoredRecord, Value

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
        """Return the counters of the collection at the moment of the transaction."""
        query = "SELECT base, next, sealed, changes, epoch, pruned FROM collection WHERE id = ?"
        return CollectionState(*connection.execute(query, (self.number,)).fetchone())

    def get(self, connection: sqlite3.Connection, keys: Sequence[str]) -> list[Record | None]:
        """Return the records of these keys, in order; None for a missing one."""
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
    """Decode a stored record."""
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
            start = self._first_unread(connection)
        return 0 if self._other else max(0, following - start)

    def _first_unread(self, connection: sqlite3.Connection) -> int:
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
            start = self._first_unread(connection)
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
        """Return the keys of rows; None if some are no numbers, or were not read while they were live."""
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


_REMEMBERED = 20_000  # codes kept in memory for the writer
_LOOKED_AT = 512  # strings between two pauses for others
_TOGETHER = 32  # strings of a statement
_LAST = 0x10FFFF


class StringTable:
    """The strings of one collection, in the table ``string_<id>``."""

    def __init__(self, number: int) -> None:
        self._table = f"string_{number}"
        self._find = f"SELECT code FROM {self._table} WHERE field = ? AND text = ?"
        self._add = f"INSERT INTO {self._table} (field, text) VALUES (?, ?)"
        self._known: dict[tuple[str, str], int] = {}
        self.sweeps = 0
        """A counter that changes before strings are dropped, and again after the commit.

        If a reader finds it unchanged since before its transaction, every code still means the same string.
        """

    def create(self, connection: sqlite3.Connection) -> None:
        """Create the table."""
        connection.execute(
            f"CREATE TABLE {self._table} (code INTEGER PRIMARY KEY AUTOINCREMENT, "
            "field TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (field, text))"
        )

    def coded(
        self, connection: sqlite3.Connection, field: str, text: str, new: dict[tuple[str, str], int]
    ) -> int:
        """Return the code of a string, created if needed. Codes that are not cached are added to ``new``.

        ``new`` is cached after the commit of its transaction, because a rollback removes its codes.
        """
        pair = (field, text)
        code = self._known.get(pair) or new.get(pair)
        if code is None:
            row = connection.execute(self._find, pair).fetchone()
            code = new[pair] = row[0] if row else int(connection.execute(self._add, pair).lastrowid or 0)
        return code

    def code_all(
        self,
        connection: sqlite3.Connection,
        pairs: Iterable[tuple[str, str]],
        new: dict[tuple[str, str], int],
    ) -> None:
        """Look up and create the codes of many strings together: :meth:`coded` finds them in ``new``."""
        unknown = list(dict.fromkeys(pair for pair in pairs if pair not in self._known and pair not in new))
        for first in range(0, len(unknown), _TOGETHER):
            part = unknown[first : first + _TOGETHER]
            places = ", ".join(["(?, ?)"] * len(part))
            # IN (VALUES …) would look at all strings; a CROSS JOIN takes its tables in this order.
            query = (
                f"SELECT field, text, code FROM (VALUES {places}) CROSS JOIN {self._table} "
                "ON field = column1 AND text = column2"
            )
            rows = connection.execute(query, [*itertools.chain.from_iterable(part)])
            new.update(((field, text), code) for field, text, code in rows)
            missing = [pair for pair in part if pair not in new]
            if missing:  # inserted by one statement, their codes follow each other
                insert = self._add + ", (?, ?)" * (len(missing) - 1)
                cursor = connection.execute(insert, [*itertools.chain.from_iterable(missing)])
                last = int(cursor.lastrowid or 0)
                new.update(zip(missing, range(last - len(missing) + 1, last + 1), strict=True))

    def remember(self, new: dict[tuple[str, str], int]) -> None:
        """Cache codes after their commit. A full cache is emptied first."""
        if len(self._known) + len(new) > _REMEMBERED:
            self._known.clear()
        if len(new) <= _REMEMBERED:
            self._known.update(new)

    def forget(self) -> None:
        """Empty the cache after strings were dropped and committed."""
        self._known.clear()
        self.sweeps += 1

    def found(self, connection: sqlite3.Connection, field: str, texts: Iterable[str]) -> list[int]:
        """Return the codes of the strings that have one."""
        query = f"SELECT code FROM {self._table} WHERE field = ? AND text IN"
        return [code for (code,) in select_among(connection, query, list(texts), (field,))]

    def named(self, connection: sqlite3.Connection, field: str, texts: Iterable[str]) -> dict[int, str]:
        """Return those of the strings that have a code, by it."""
        query = f"SELECT code, text FROM {self._table} WHERE field = ? AND text IN"
        return dict(select_among(connection, query, list(texts), (field,)))

    def between(
        self,
        connection: sqlite3.Connection,
        field: str,
        low: tuple[str, str] | None,
        high: tuple[str, str] | None,
    ) -> list[int]:
        """Return the codes of strings within bounds. A bound is an operator (``>``, ``<=`` …) and a text."""
        bounds = [bound for bound in (low, high) if bound is not None]
        conditions = "".join(f" AND text {operator} ?" for operator, _ in bounds)
        query = f"SELECT code FROM {self._table} WHERE field = ?{conditions}"
        return [row[0] for row in connection.execute(query, (field, *(text for _, text in bounds)))]

    def beginning(self, connection: sqlite3.Connection, field: str, prefix: str) -> list[int]:
        """Return the codes of a field's strings with that prefix."""
        end = _successor(prefix)
        return self.between(connection, field, (">=", prefix), ("<", end) if end else None)

    def in_order(self, connection: sqlite3.Connection, field: str) -> Iterator[tuple[int, str]]:
        """Yield all strings of a field with their codes, by code point."""
        query = f"SELECT code, text FROM {self._table} WHERE field = ? ORDER BY text"
        for number, pair in enumerate(connection.execute(query, (field,))):
            if not number % _LOOKED_AT:
                give_way(connection)
            yield pair

    def before(self, connection: sqlite3.Connection, field: str, text: str) -> int:
        """Return how many strings of a field sort before this one."""
        query = f"SELECT count(*) FROM {self._table} WHERE field = ? AND text < ?"
        return int(connection.execute(query, (field, text)).fetchone()[0])

    def text(self, connection: sqlite3.Connection, code: int) -> str | None:
        """Return the string of a code; None if it was dropped."""
        found = connection.execute(f"SELECT text FROM {self._table} WHERE code = ?", (code,)).fetchone()
        return str(found[0]) if found else None

    def last(self, connection: sqlite3.Connection) -> int:
        """Return the highest code."""
        return int(connection.execute(f"SELECT coalesce(max(code), 0) FROM {self._table}").fetchone()[0])

    def codes(self, connection: sqlite3.Connection, after: int, limit: int) -> list[int]:
        """Return up to ``limit`` codes after ``after``, in ascending order."""
        query = f"SELECT code FROM {self._table} WHERE code > ? ORDER BY code LIMIT ?"
        return [row[0] for row in connection.execute(query, (after, limit))]

    def drop(self, connection: sqlite3.Connection, codes: Sequence[int]) -> None:
        """Remove strings that no record has any more. After the commit, call :meth:`forget`."""
        self.sweeps += 1
        connection.executemany(f"DELETE FROM {self._table} WHERE code = ?", [(code,) for code in codes])


def _successor(prefix: str) -> str:
    """Return the first string after all strings with that prefix, by code point. Empty if there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if point <= _LAST:
            # Surrogates cannot be in a text: use the first code point after them.
            return prefix + chr(0xE000 if 0xD800 <= point <= 0xDFFF else point)
    return ""


FULL = 2**32 - 1  # row numbers are unsigned 32-bit numbers
RENUMBERED = 2**31  # from this row on, a collection is renumbered from 1 when it is opened

# Whether the record of a row has the vectors that another one asks for.
_Same = Callable[[sqlite3.Connection, CollectionSpaces, int, Record], bool]


_NAMED = msgspec.json.Encoder(order="deterministic")


class Truth(RecordTable):
    """The tables of one collection: records, tombstones, strings and segments, each named with its id."""

    def __init__(self, number: int, shape: Shape) -> None:
        super().__init__(number, shape.name)
        self.shape = replace(shape, spaces=())
        self.strings = StringTable(number)
        self.vectors: VectorTruth | None = None  # if there is a space, or was one
        self._tombstones = f"tombstone_{number}"
        self._bury = f"INSERT INTO {self._tombstones} (row) VALUES (?)"

    def create(self, connection: sqlite3.Connection) -> None:
        """Create the tables of the collection."""
        connection.execute(
            f"CREATE TABLE {self._records} (row INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, "
            "texts BLOB NOT NULL, fields BLOB NOT NULL, payload BLOB NOT NULL)"
        )
        connection.execute(
            f"CREATE TABLE {self._tombstones} "
            "(number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL)"
        )
        connection.execute(
            f"CREATE TABLE segment_{self.number} (first INTEGER NOT NULL, field TEXT NOT NULL, "
            "cells BLOB NOT NULL, slots BLOB NOT NULL, PRIMARY KEY (first, field))"
        )
        self.strings.create(connection)

    # Writing

    def upsert(
        self,
        connection: sqlite3.Connection,
        records: Sequence[Record],
        models: Mapping[str, str],
        turn: WriteTurn | None = None,
    ) -> CollectionChange:
        """Write checked records. Raises OverflowError if no row numbers are left.

        ``models``: model of the vectors of a space; vectors for spaces of another model are left out.
        ``turn``: the records after its end are not written; there are as many results as records that were.
        """
        return self._write_records(
            connection,
            CollectionChange(state=self.state(connection)),
            records,
            self._has_vectors,
            models,
            turn,
        )

    def exchange(
        self,
        connection: sqlite3.Connection,
        records: Sequence[Record],
        gone: Iterable[str],
        models: Mapping[str, str],
        *,
        keep: bool = True,
    ) -> tuple[CollectionChange, int]:
        """Delete records by key and write others, as one change. Also return how many were deleted.

        ``keep``: a record without vectors equals a stored one with vectors if everything else is equal.
        """
        change = CollectionChange(state=self.state(connection))
        self._delete_keys(connection, change, gone)
        deleted = len(change.deleted)
        same = self._keeps_vectors if keep else self._has_vectors
        return self._write_records(connection, change, records, same, models), deleted

    def _write_records(
        self,
        connection: sqlite3.Connection,
        change: CollectionChange,
        records: Sequence[Record],
        same: _Same,
        models: Mapping[str, str],
        turn: WriteTurn | None = None,
    ) -> CollectionChange:
        spaces = self.spaces(connection)
        inserts = _RecordInserts(connection, self._records, spaces, self.vectors)
        rows: dict[int, Record] = {}
        row = change.state.next
        current = {each.space.name: each.space.model for each in spaces.storages}
        for given in records:
            if turn is not None and change.results and turn.over:
                break
            record = without_other_models(given, models, current) if models else given
            replaced = self._put_record(inserts, record, row, same)
            change.results.append(replaced != _SAME)
            if replaced == _SAME:
                continue
            rows[row] = msgspec.structs.replace(record, vectors={}) if record.vectors else record
            row += 1
            if replaced is not None:
                change.deleted.append(replaced)
                rows.pop(replaced, None)
        inserts.flush()
        change.vectors += inserts.placed
        change.upserted = list(rows.items())
        if len(rows) > 1:
            strings = (pair for record in rows.values() for pair in self._strings_of(record.fields))
            self.strings.code_all(connection, strings, change.strings)
        change.cells = [self.cells(connection, record.fields, change.strings) for record in rows.values()]
        return self._save_counters(connection, change, row)

    def _has_vectors(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, record: Record
    ) -> bool:
        """Return whether the record of a row has the vectors of this one and no others."""
        return self.vectors is None or self.vectors.same(connection, spaces, row, record.vectors)

    def _keeps_vectors(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, record: Record
    ) -> bool:
        """Return whether the record of a row keeps its vectors: the new one has none, or the same."""
        return not record.vectors or self._has_vectors(connection, spaces, row, record)

    def _put_record(self, inserts: _RecordInserts, record: Record, row: int, same: _Same) -> int | None:
        """Write the record under ``row``. Return its old row, or that the stored record is equal."""
        if row > FULL:
            raise OverflowError("row numbers")
        connection = inserts.connection
        blobs = (_NAMED.encode(record.texts), _NAMED.encode(record.fields), record.payload)
        if record.key in inserts.keys:
            inserts.flush()
        found = connection.execute(self._find, (record.key,)).fetchone()
        if found:
            inserts.flush()
            if found[1:] == blobs and same(connection, inserts.spaces, found[0], record):
                return _SAME
            self._bury_row(connection, found[0])
        inserts.add(row, record, blobs)
        return found[0] if found else None

    def delete(self, connection: sqlite3.Connection, keys: Iterable[str]) -> CollectionChange:
        """Delete records by key, in one change."""
        change = CollectionChange(state=self.state(connection))
        self._delete_keys(connection, change, keys)
        return self._save_counters(connection, change, change.state.next)

    def _delete_keys(
        self, connection: sqlite3.Connection, change: CollectionChange, keys: Iterable[str]
    ) -> None:
        query = f"SELECT row FROM {self._records} WHERE key = ?"
        for key in keys:
            found = connection.execute(query, (key,)).fetchone()
            if found:
                self._bury_row(connection, found[0])
                change.deleted.append(found[0])

    def compact(self, connection: sqlite3.Connection, most: int, applied: int | None) -> CollectionChange:
        """Move the ``most`` lowest records to the end, and forget tombstones below them.

        ``applied`` is the last tombstone that the lexical index has seen, None if there is none:
        later ones are kept. The records are the same; only their rows change.
        """
        change, spaces = CollectionChange(state=self.state(connection)), self.spaces(connection)
        for row, record in list(self.rows(connection, change.state.base - 1, most)):
            target = change.state.next + len(change.upserted)
            connection.execute(f"UPDATE {self._records} SET row = ? WHERE row = ?", (target, row))
            connection.execute(self._bury, (row,))
            if self.vectors is not None:
                change.vectors += self.vectors.move(connection, spaces, row, target)
            change.upserted.append((target, record))
            change.deleted.append(row)
        change.cells = [self.cells(connection, each.fields, change.strings) for _, each in change.upserted]
        change = self._save_counters(connection, change, change.state.next + len(change.upserted))
        return self._prune_below(connection, change, applied)

    def _prune_below(
        self, connection: sqlite3.Connection, change: CollectionChange, applied: int | None
    ) -> CollectionChange:
        lowest = connection.execute(f"SELECT min(row) FROM {self._records}").fetchone()[0]
        base = change.state.next if lowest is None else lowest
        seen = change.tombstone if applied is None else min(applied, change.tombstone)
        below = (base, seen)
        pruned = connection.execute(
            f"SELECT coalesce(max(number), 0) FROM {self._tombstones} WHERE row < ? AND number <= ?", below
        ).fetchone()[0]
        connection.execute(f"DELETE FROM {self._tombstones} WHERE row < ? AND number <= ?", below)
        connection.execute(
            "UPDATE collection SET base = ?, sealed = max(sealed, ?), pruned = max(pruned, ?) WHERE id = ?",
            (base, base, pruned, self.number),
        )
        change.state = self.state(connection)
        return change

    def renumber(self, connection: sqlite3.Connection) -> None:
        """Renumber the rows from 1 if the numbers are running out. All derived data is rebuilt."""
        state = self.state(connection)
        shift = state.base - 1
        if shift < state.next - state.base:
            return  # the old numbers and the new ones would meet
        connection.execute(f"UPDATE {self._records} SET row = row - ?", (shift,))
        connection.execute(f"DELETE FROM {self._tombstones} WHERE row < ?", (state.base,))
        connection.execute(f"UPDATE {self._tombstones} SET row = row - ?", (shift,))
        if self.vectors is not None:
            self.vectors.shift(connection, shift)
        self.unseal(connection)
        connection.execute(
            "UPDATE collection SET base = 1, next = next - ?, sealed = 1, epoch = epoch + 1, "
            "changes = changes + 1 WHERE id = ?",
            (shift, self.number),
        )

    def unseal(self, connection: sqlite3.Connection) -> None:
        """Forget the segments of columns: they are rebuilt from the records."""
        connection.execute(f"DELETE FROM segment_{self.number}")
        connection.execute("UPDATE collection SET sealed = base WHERE id = ?", (self.number,))

    def _bury_row(self, connection: sqlite3.Connection, row: int) -> None:
        connection.execute(f"DELETE FROM {self._records} WHERE row = ?", (row,))
        connection.execute(self._bury, (row,))
        if self.vectors is not None:
            self.vectors.remove(connection, row)

    def attach(
        self,
        connection: sqlite3.Connection,
        vectors: Mapping[int, Mapping[str, bytes]],
        model: str,
        epoch: int | None = None,
    ) -> tuple[CollectionChange, int]:
        """Attach vectors to live rows; the records stay unchanged. Also returns how many rows were live.

        If ``model`` is given, spaces of another model are left out. Rows of another ``epoch`` are other
        records by now: all are left out.
        """
        change, live, spaces = CollectionChange(state=self.state(connection)), 0, self.spaces(connection)
        if epoch is not None and epoch != change.state.epoch:
            vectors = {}
        for row, of_row in vectors.items():
            if not self.key(connection, row):
                continue
            live += 1
            if self.vectors is not None:
                fitting = spaces.of_model(of_row, model) if model else of_row
                change.vectors += self.vectors.attach(connection, spaces, row, fitting)
        return (self._count_change(connection, change) if change.vectors else change), live

    def respace(
        self,
        connection: sqlite3.Connection,
        work: Callable[[sqlite3.Connection, SpaceTable], bool],
        vectors: VectorTruth,
    ) -> CollectionChange:
        """Add or delete spaces. ``work`` returns whether it changed any."""
        change = CollectionChange(state=self.state(connection))
        if work(connection, vectors.list):
            change.spaces = vectors.spaces(connection)
            change = self._count_change(connection, change)
        return change

    def spaces(self, connection: sqlite3.Connection) -> CollectionSpaces:
        """Return the spaces in the snapshot of the connection's transaction."""
        return (
            self.vectors.spaces(connection) if self.vectors is not None else CollectionSpaces(self.shape, ())
        )

    def _count_change(self, connection: sqlite3.Connection, change: CollectionChange) -> CollectionChange:
        """Return a numbered change without changed records."""
        connection.execute("UPDATE collection SET changes = changes + 1 WHERE id = ?", (self.number,))
        change.state = self.state(connection)
        change.tombstone = self.last_tombstone(connection)
        return change

    def _save_counters(
        self, connection: sqlite3.Connection, change: CollectionChange, following: int
    ) -> CollectionChange:
        if change.upserted or change.deleted:
            connection.execute(
                "UPDATE collection SET next = ?, changes = changes + 1 WHERE id = ?", (following, self.number)
            )
            change.state = self.state(connection)
        change.tombstone = self.last_tombstone(connection)
        return change

    # Reading

    def tombstones(self, connection: sqlite3.Connection, after: int = 0) -> list[int]:
        """Return the rows that were deleted or replaced since tombstone ``after``, in that order."""
        query = f"SELECT row FROM {self._tombstones} WHERE number > ? ORDER BY number"
        return [row[0] for row in connection.execute(query, (after,))]

    def last_tombstone(self, connection: sqlite3.Connection) -> int:
        """Return the number of the last tombstone ever written, 0 before the first."""
        found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self._tombstones,))
        row = found.fetchone()
        return int(row[0]) if row else 0

    def cells(
        self, connection: sqlite3.Connection, fields: dict[str, Value], new: dict[tuple[str, str], int]
    ) -> Cells:
        """Return the fields as cells of columns. A value of another kind (from an older shape) is absent."""
        found: list[Cell] = []
        for each in self.shape.fields:
            value = fields.get(each.name)
            found.append(None if value is None else self._cell(connection, each, value, new))
        return tuple(found)

    def _strings_of(self, fields: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
        """Yield the strings that :meth:`cells` needs the codes of, each with the name of its field."""
        for each in self.shape.fields:
            value = fields.get(each.name)
            if each.kind is Kind.STRING and isinstance(value, str):
                yield each.name, value
            elif each.kind is Kind.STRINGS and isinstance(value, tuple):
                for text in value:
                    yield each.name, text

    def _cell(
        self, connection: sqlite3.Connection, field: Field, value: Value, new: dict[tuple[str, str], int]
    ) -> Cell:
        if field.kind is Kind.STRINGS:
            if not isinstance(value, tuple):
                return None
            return tuple({self.strings.coded(connection, field.name, text, new): None for text in value})
        if field.kind is Kind.STRING:
            return self.strings.coded(connection, field.name, value, new) if isinstance(value, str) else None
        if field.kind is Kind.BOOLEAN:
            return value if isinstance(value, bool) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_SAME = 0  # no row: rows begin at 1


class _RecordInserts:
    """Records of one write, inserted together with their vectors. ``keys``: of those that are not yet."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        spaces: CollectionSpaces,
        vectors: VectorTruth | None,
    ) -> None:
        self.connection = connection
        self.spaces = spaces
        self.keys: set[str] = set()
        self.placed: list[VectorPlacement] = []
        self._records = RowInserts(connection, table, ("row", "key", "texts", "fields", "payload"))
        self._vectors = vectors.inserts(connection, spaces) if vectors is not None else None

    def add(self, row: int, record: Record, blobs: tuple[bytes, bytes, bytes]) -> None:
        self.keys.add(record.key)
        self._records.add(row, record.key, *blobs)
        if self._vectors is not None and record.vectors:
            self._vectors.add(row, record.vectors)

    def flush(self) -> None:
        """Insert all that were added, before somebody looks for them."""
        self.keys.clear()
        self._records.flush()
        if self._vectors is not None:
            self.placed += self._vectors.flush()
