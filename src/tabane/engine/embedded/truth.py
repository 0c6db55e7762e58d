"""Records of one collection in SQLite, the source of truth, and the changes of each write.

A record has a row number that grows and is never reused. A replaced record moves to a new row and leaves a
tombstone. So derived data (columns, lexical index) catches up by two numbers: the last row it has, and the
last tombstone. Compaction moves the lowest records to the end until the rows
between :attr:`State.base` and :attr:`State.next` are dense again.

Everything here runs inside a transaction of the caller's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from tabane.engine.embedded.collection_state import (
    Cell,
    Cells,
    CollectionChange,
    CollectionSpaces,
    VectorPlacement,
)
from tabane.engine.embedded.record_table import RecordTable
from tabane.engine.embedded.row_inserts import RowInserts
from tabane.engine.embedded.string_table import StringTable
from tabane.engine.embedded.vectors.space_table import SpaceTable
from tabane.engine.embedded.vectors.vector_truth import VectorTruth
from tabane.engine.embedded.write_thread import WriteTurn
from tabane.search.records import Field, Kind, Record, Shape, Value

FULL = 2**32 - 1  # row numbers are unsigned 32-bit numbers
RENUMBERED = 2**31  # from this row on, a collection is renumbered from 1 when it is opened

# Whether the record of a row has the vectors that another one asks for.
_Same = Callable[[sqlite3.Connection, CollectionSpaces, int, Record], bool]

_NAMED = msgspec.json.Encoder(order="deterministic")
_SHAPE = msgspec.json.Decoder(Shape)


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
        return self._put_in(
            connection, CollectionChange(state=self.state(connection)), records, self._has, models, turn
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
        self._take_out(connection, change, gone)
        deleted = len(change.deleted)
        same = self._keeps if keep else self._has
        return self._put_in(connection, change, records, same, models), deleted

    def _put_in(
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
        for given in records:
            if turn is not None and change.results and turn.over:
                break
            record = spaces.still_fitting(given, models) if models else given
            replaced = self._put(inserts, record, row, same)
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
        return self._moved_on(connection, change, row)

    def _has(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, record: Record
    ) -> bool:
        """Return whether the record of a row has the vectors of this one and no others."""
        return self.vectors is None or self.vectors.same(connection, spaces, row, record.vectors)

    def _keeps(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, record: Record
    ) -> bool:
        """Return whether the record of a row keeps its vectors: the new one has none, or the same."""
        return not record.vectors or self._has(connection, spaces, row, record)

    def _put(self, inserts: _RecordInserts, record: Record, row: int, same: _Same) -> int | None:
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
            self._remove(connection, found[0])
        inserts.add(row, record, blobs)
        return found[0] if found else None

    def delete(self, connection: sqlite3.Connection, keys: Iterable[str]) -> CollectionChange:
        change = CollectionChange(state=self.state(connection))
        self._take_out(connection, change, keys)
        return self._moved_on(connection, change, change.state.next)

    def _take_out(
        self, connection: sqlite3.Connection, change: CollectionChange, keys: Iterable[str]
    ) -> None:
        query = f"SELECT row FROM {self._records} WHERE key = ?"
        for key in keys:
            found = connection.execute(query, (key,)).fetchone()
            if found:
                self._remove(connection, found[0])
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
        change = self._moved_on(connection, change, change.state.next + len(change.upserted))
        return self._rebased(connection, change, applied)

    def _rebased(
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

    def _remove(self, connection: sqlite3.Connection, row: int) -> None:
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
        return (self._counted(connection, change) if change.vectors else change), live

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
            change = self._counted(connection, change)
        return change

    def spaces(self, connection: sqlite3.Connection) -> CollectionSpaces:
        """Return the spaces in the snapshot of the connection's transaction."""
        return (
            self.vectors.spaces(connection) if self.vectors is not None else CollectionSpaces(self.shape, ())
        )

    def _counted(self, connection: sqlite3.Connection, change: CollectionChange) -> CollectionChange:
        """Return a numbered change without changed records."""
        connection.execute("UPDATE collection SET changes = changes + 1 WHERE id = ?", (self.number,))
        change.state = self.state(connection)
        change.tombstone = self.last_tombstone(connection)
        return change

    def _moved_on(
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


def shape_of(blob: bytes) -> Shape:
    return _SHAPE.decode(blob)


def shape_blob(shape: Shape) -> bytes:
    """Encode the texts and fields of a shape. Its spaces have their own table."""
    return _NAMED.encode(replace(shape, spaces=()))


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
