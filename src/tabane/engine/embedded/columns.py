"""Columns: the fields of a collection as arrays over its rows, updated with every commit.

A *slot* is a row minus the origin of the array. Readers take a :class:`ColumnSnapshot`, which never changes:
new records are written after its end, deletions go into a copy of ``alive``. A number takes about 8 bytes a
record, a string 4, a flag 1, a list 8 for each element. The strings themselves stay on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabane.engine.embedded.collection_state import Cell, Cells, CollectionChange
from tabane.search.records import Field, Kind

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Slots = NDArray[np.int64]

ABSENT_FLAG = 2
NO_CODE = 0
_SPARE = 4096  # slots; an array that is full grows by an eighth and this

_TYPES: dict[Kind, tuple[type[np.generic], float]] = {
    Kind.NUMBER: (np.float64, np.nan),
    Kind.DATE: (np.float64, np.nan),
    Kind.BOOLEAN: (np.uint8, ABSENT_FLAG),
    Kind.STRING: (np.uint32, NO_CODE),
}


class GrowableArray:
    """An array that grows at its end. A view of its first elements stays as it is."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._array: Array = np.empty(_SPARE, dtype=kind)
        self.length = 0

    def append(self, values: Array) -> None:
        """Append values, in amortized constant time."""
        end = self.length + len(values)
        if end > len(self._array):
            grown = np.empty(end + end // 8 + _SPARE, dtype=self._array.dtype)
            grown[: self.length] = self._array[: self.length]
            self._array = grown
        self._array[self.length : end] = values
        self.length = end

    def view(self) -> Array:
        """Return the values so far, without a copy."""
        return self._array[: self.length]

    def replace(self, values: Array) -> None:
        """Hold other values: an array that nobody else writes to."""
        self._array = values
        self.length = len(values)


class Column:
    """One value a slot: a number (NaN is absent), a flag (2 is absent), the code of a string (0 is)."""

    def __init__(self, field: Field) -> None:
        self.field = field
        kind, self._absent = _TYPES[field.kind]
        self._values = GrowableArray(kind)

    def append(self, cells: Sequence[Cell], first: int) -> None:
        """Append one cell a slot; ``first`` is the slot of the first of them."""
        absent = self._absent
        self._values.append(np.array([absent if cell is None else cell for cell in cells]))

    def load(self, cells: bytes, slots: bytes, first: int, count: int) -> None:
        """Append a segment as :meth:`segment` gave it. Raises ValueError if it is not of that size."""
        values = np.frombuffer(cells, dtype=self._values.view().dtype)
        if len(values) != count:
            raise ValueError(f"{self.field.name}: {len(values)} values for {count} slots")
        self._values.append(values)

    def segment(self, first: int, end: int) -> tuple[bytes, bytes]:
        """Return the values of slots ``first`` to ``end`` (excluded) as bytes, and no slots."""
        return self._values.view()[first:end].tobytes(), b""

    def shift(self, by: int) -> None:
        """Forget the first slots."""
        self._values.replace(self._values.view()[by:].copy())

    def view(self) -> ColumnValues:
        """Return the values so far, one a slot."""
        return ColumnValues(self.field, self._values.view(), None)


class ListColumn:
    """Any number of codes a slot, each once: pairs of slot and code, in order of slots."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self._codes = GrowableArray(np.uint32)
        self._slots = GrowableArray(np.uint32)

    def append(self, cells: Sequence[Cell], first: int) -> None:
        """Append the codes of each slot; ``first`` is the slot of the first cell."""
        lists = [cell if isinstance(cell, tuple) else () for cell in cells]
        self._codes.append(np.array([code for codes in lists for code in codes], dtype=np.uint32))
        counts = [len(codes) for codes in lists]
        self._slots.append(np.repeat(np.arange(first, first + len(lists), dtype=np.uint32), counts))

    def load(self, cells: bytes, slots: bytes, first: int, count: int) -> None:
        """Append a segment as :meth:`segment` gave it. Raises ValueError if values and slots do not fit."""
        codes, inside = np.frombuffer(cells, dtype=np.uint32), np.frombuffer(slots, dtype=np.uint32)
        if len(codes) != len(inside) or inside.max(initial=0) >= count:
            raise ValueError(f"{self.field.name}: {len(codes)} values for {len(inside)} places")
        self._codes.append(codes)
        self._slots.append(inside + np.uint32(first))

    def segment(self, first: int, end: int) -> tuple[bytes, bytes]:
        """Return the codes of slots ``first`` to ``end`` (excluded) as bytes, and their slots."""
        slots = self._slots.view()
        low, high = np.searchsorted(slots, [first, end])
        inside = slots[low:high] - np.uint32(first)
        return self._codes.view()[low:high].tobytes(), inside.tobytes()

    def shift(self, by: int) -> None:
        """Forget the first slots."""
        low = int(np.searchsorted(self._slots.view(), by))
        self._codes.replace(self._codes.view()[low:].copy())
        self._slots.replace(self._slots.view()[low:] - np.uint32(by))

    def view(self) -> ColumnValues:
        """Return the codes so far, and the slot of each."""
        return ColumnValues(self.field, self._codes.view(), self._slots.view())


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """A column at one moment. ``slots`` says where each value belongs, None: one a slot, in order."""

    field: Field
    values: Array
    slots: Array | None

    def within(self, mask: Mask) -> Array:
        """Return the values of the slots in a mask."""
        return self.values[mask if self.slots is None else mask[self.slots]]

    def only(self, slots: Slots) -> ColumnValues:
        """Return the values of these slots, which are in order, as those of the first slots."""
        if self.slots is None:
            return ColumnValues(self.field, self.values[slots], None)
        wanted = slots.astype(self.slots.dtype)  # else all of them are converted
        lows = np.searchsorted(self.slots, wanted, "left")
        highs = np.searchsorted(self.slots, wanted, "right")
        counts = highs - lows
        places = np.repeat(lows - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return ColumnValues(self.field, self.values[places], np.repeat(np.arange(len(slots)), counts))


@dataclass(frozen=True, slots=True)
class ColumnSnapshot:
    """All columns at one moment: after write number ``changes``. Nothing in it changes any more."""

    origin: int
    changes: int
    alive: Mask
    columns: Mapping[str, ColumnValues]

    def only(self, slots: Slots) -> ColumnSnapshot:
        """Return a snapshot of these slots, which are in order and live, as slots 0, 1, 2 …"""
        columns = {name: values.only(slots) for name, values in self.columns.items()}
        return ColumnSnapshot(0, self.changes, np.ones(len(slots), dtype=np.bool_), columns)

    def rows(self, slots: Slots) -> list[int]:
        """Return the rows of slots."""
        return [int(row) for row in (slots + self.origin).tolist()]

    def slots_of(self, rows: Iterable[int]) -> Slots:
        """Return the slots of those rows that the snapshot holds."""
        return self.slots_at(np.fromiter(rows, dtype=np.int64))

    def slots_at(self, rows: Array) -> Slots:
        """Return the slots of those rows that the snapshot holds."""
        found = rows - self.origin
        return found[(found >= 0) & (found < len(self.alive))]


class Columns:
    """The columns of a collection. :meth:`apply` is called by one thread, in order of commits."""

    def __init__(self, fields: Sequence[Field], origin: int, changes: int) -> None:
        self.origin = origin
        self._columns = [ListColumn(each) if each.kind is Kind.STRINGS else Column(each) for each in fields]
        self._alive = GrowableArray(np.bool_)
        self._changes = changes
        self._moved = threading.Condition()
        self._snapshot = self._take_snapshot()

    def __len__(self) -> int:
        """Return how many slots there are, live or not."""
        return self._alive.length

    @property
    def next(self) -> int:
        """Return the row behind the last slot."""
        return self.origin + self._alive.length

    def snapshot(self) -> ColumnSnapshot:
        """Return the columns after the last published write."""
        return self._snapshot

    def reached(self, changes: int, timeout: float) -> ColumnSnapshot:
        """Return a snapshot after that write or later. A committed write is applied a moment later."""
        with self._moved:
            self._moved.wait_for(lambda: self._snapshot.changes >= changes, timeout)
        return self._snapshot

    def apply(self, change: CollectionChange) -> None:
        """Apply what a commit changed, and show it to readers."""
        self.add([row for row, _ in change.upserted], change.cells, change.state.next)
        self.remove(change.deleted)
        by = change.state.base - self.origin
        if by > len(self) // 2 + _SPARE:
            for column in self._columns:
                column.shift(by)
            self._alive.replace(self._alive.view()[by:].copy())
            self.origin += by
        self.publish(change.state.changes)

    def add(self, rows: Sequence[int], cells: Sequence[Cells], following: int) -> None:
        """Append records in order of rows, up to ``following``; rows that are left out are holes."""
        first = self.next
        if following <= first:
            return
        if len(rows) == following - first:
            self._append_cells(cells, None)
            return
        empty: Cells = (None,) * len(self._columns)
        spread = [empty] * (following - first)
        alive = np.zeros(following - first, dtype=np.bool_)
        for row, each in zip(rows, cells, strict=True):
            spread[row - first] = each
            alive[row - first] = True
        self._append_cells(spread, alive)

    def _append_cells(self, cells: Sequence[Cells], alive: Mask | None) -> None:
        first = len(self)
        for column, of_column in zip(self._columns, zip(*cells, strict=True), strict=True):
            column.append(of_column, first)
        self._alive.append(np.ones(len(cells), dtype=np.bool_) if alive is None else alive)

    def load(self, segments: Mapping[str, tuple[bytes, bytes]], slots: int) -> None:
        """Append a segment of so many slots, all taken for live: :meth:`remove` says which are not.

        Raises ValueError if the bytes cannot be those of a segment.
        """
        for column in self._columns:
            column.load(*segments[column.field.name], len(self), slots)
        self._alive.append(np.ones(slots, dtype=np.bool_))

    def segment(self, first: int, end: int) -> list[tuple[str, bytes, bytes]]:
        """Return the rows from ``first`` to before ``end`` as bytes: field, values, slots."""
        low, high = first - self.origin, end - self.origin
        return [(column.field.name, *column.segment(low, high)) for column in self._columns]

    def used_codes(self, low: int, high: int) -> set[int]:
        """Return the codes of strings from ``low`` to ``high`` that live records have."""
        alive, found = self._alive.view(), set[int]()
        for values in self._snapshot.columns.values():
            if values.field.kind.textual:
                codes = values.within(alive)
                found.update(np.unique(codes[(codes >= low) & (codes <= high)]).tolist())
        return found

    def remove(self, rows: Sequence[int]) -> None:
        """Mark rows as no longer live; readers of older snapshots see them still."""
        if rows:
            slots = np.array(rows, dtype=np.int64) - self.origin
            alive = self._alive.view().copy()
            alive[slots[(slots >= 0) & (slots < len(alive))]] = False
            self._alive.replace(alive)

    def publish(self, changes: int) -> None:
        """Show the columns to readers as they are after write number ``changes``."""
        with self._moved:
            self._changes = changes
            self._snapshot = self._take_snapshot()
            self._moved.notify_all()

    def _take_snapshot(self) -> ColumnSnapshot:
        columns = {column.field.name: column.view() for column in self._columns}
        return ColumnSnapshot(self.origin, self._changes, self._alive.view(), columns)


LOOKED_THROUGH = 16_384
"""Slots that are looked through sooner than sorted."""

_SHARE = 8  # if more than an eighth of the sorted slots are new, all are sorted again


@dataclass(frozen=True, slots=True)
class _SortedSlots:
    """The first slots of a column, in order of their codes. They are valid for arrays of this origin."""

    origin: int
    slots: Array
    codes: Array


class CodeIndexes:
    """Indexes of columns with one code a slot, each made when it is first used. Any thread may use it.

    The code of a slot never changes. So an index holds from one write to the next, and newer slots are looked
    through. It takes 8 bytes a record.
    """

    def __init__(self) -> None:
        self._sorted: dict[str, _SortedSlots] = {}

    def slots(self, snapshot: ColumnSnapshot, field: str, codes: Array) -> Slots:
        """Return the slots, live or not, in order, that have one of the ``codes``, which are in order."""
        values = snapshot.columns[field].values
        known = self._sorted.get(field)
        if known is None or known.origin != snapshot.origin:
            known = _SortedSlots(snapshot.origin, values[:0], values[:0])
        if len(values) - len(known.slots) > max(LOOKED_THROUGH, len(known.slots) // _SHARE):
            known = self._sorted[field] = _sorted(snapshot.origin, values)
        lows = np.searchsorted(known.codes, codes, "left")
        highs = np.searchsorted(known.codes, codes, "right")
        inside = [known.slots[low:high] for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        newer: Array = np.empty(0, dtype=np.int64)
        if len(codes):
            fresh = values[len(known.slots) :]
            places = np.searchsorted(codes, fresh).clip(max=len(codes) - 1)
            newer = np.flatnonzero(codes[places] == fresh) + len(known.slots)
        found = np.sort(np.concatenate([*inside, newer]).astype(np.int64))
        return found[found < len(values)]  # an older snapshot has fewer slots than the index


def _sorted(origin: int, values: Array) -> _SortedSlots:
    slots = np.argsort(values)
    return _SortedSlots(origin, slots.astype(np.uint32), values[slots])
