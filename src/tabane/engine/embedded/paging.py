"""Pages of a selection, in order, each from a cursor on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np

from tabane.engine import record_cursors
from tabane.engine.embedded.columns import Array, ColumnSnapshot, Mask, Slots
from tabane.engine.embedded.read_thread import give_way
from tabane.engine.embedded.truth import Truth
from tabane.engine.record_cursors import RecordsCursor
from tabane.search.engine import Order, SelectedPage
from tabane.search.records import Kind, Scalar

_AT_ONCE = 1000  # keys read from the index at a time
_LOOKUP = 10  # a record looked up by its row costs as much as so many read in order


class RecordPaging:
    """One selection over a snapshot. ``connection`` is in a transaction of the same moment."""

    def __init__(self, truth: Truth, connection: sqlite3.Connection, snapshot: ColumnSnapshot) -> None:
        self._truth = truth
        self._connection = connection
        self._snapshot = snapshot

    def page(
        self, mask: Mask, order: Sequence[Order], after: RecordsCursor | None, limit: int
    ) -> SelectedPage:
        rows: list[int] = []
        for slots, after_key in self._groups(mask, order, after, limit + 1):
            rows.extend(self._by_key(slots, after_key, limit + 1 - len(rows)))
            if len(rows) > limit:
                break
        records = [self._truth.stored(self._connection, row) for row in rows[:limit]]
        if len(rows) <= limit:
            return SelectedPage(tuple(records))
        last = records[-1].record
        return SelectedPage(tuple(records), record_cursors.after(last, order, self._truth.shape))

    def _groups(
        self, mask: Mask, order: Sequence[Order], after: RecordsCursor | None, most: int
    ) -> Iterator[tuple[Slots, str]]:
        """Slots that are equal in the order, group by group, and the key behind which each begins."""
        slots = np.flatnonzero(mask)
        if not order:
            yield slots, after.key if after else ""
            return
        ranks = [self._ranks(each, slots) for each in order]
        if after is not None:
            place = [self._place(each, value) for each, value in zip(order, after.values, strict=True)]
            behind, level = _compared(ranks, place)
            if level.any():
                yield slots[level], after.key
            slots, ranks = slots[behind], [rank[behind] for rank in ranks]
        slots, ranks = _nearest(slots, ranks, most)
        arranged = np.lexsort(ranks[::-1])
        slots, ranks = slots[arranged], [rank[arranged] for rank in ranks]
        yield from ((group, "") for group in _tied(slots, ranks))

    def _ranks(self, order: Order, slots: Slots) -> Array:
        """Return ranks in the requested order. Absent values are infinite, so they come last."""
        column = self._snapshot.columns[order.field]
        values = column.values[slots]
        if column.field.kind is Kind.STRING:
            ranks = self._places(order.field, values)
            ranks[values == 0] = np.nan
        elif column.field.kind is Kind.BOOLEAN:
            ranks = np.where(values > 1, np.nan, values.astype(np.float64))
        else:
            ranks = values
        ranks = -ranks if order.descending else ranks
        return np.where(np.isnan(ranks), np.inf, ranks)

    def _places(self, field: str, codes: Array) -> Array:
        """Return the rank of each code's string among all strings of the field."""
        table = np.zeros(int(codes.max(initial=0)) + 1)
        in_order = self._truth.strings.in_order(self._connection, field)
        known = np.fromiter((code for code, _ in in_order), dtype=np.int64)
        places = np.arange(len(known), dtype=np.float64)
        inside = known < len(table)
        table[known[inside]] = places[inside]
        return table[codes]

    def _place(self, order: Order, value: Scalar | None) -> float:
        """Return the rank of a cursor's value. A deleted string has a rank between two others."""
        if value is None:
            return float("inf")
        if isinstance(value, str):
            strings = self._truth.strings
            place = float(strings.before(self._connection, order.field, value))
            if not strings.found(self._connection, order.field, (value,)):
                place -= 0.5
        else:
            place = float(value)
        return -place if order.descending else place

    def _by_key(self, slots: Slots, after: str, most: int) -> list[int]:
        """The rows of the first ``most`` slots in order of keys, behind a key.

        Few slots are looked up one by one; many are met soon enough in the index of keys.
        """
        live = max(1, int(np.count_nonzero(self._snapshot.alive)))
        if len(slots) * len(slots) * _LOOKUP <= most * live or len(slots) <= most:
            rows = self._snapshot.rows(slots)
            keyed = sorted((self._truth.key(self._connection, row), row) for row in rows)
            return [row for key, row in keyed if key > after][:most]
        wanted = np.zeros(len(self._snapshot.alive), dtype=np.bool_)
        wanted[slots] = True
        return self._walked(wanted, after, most)

    def _walked(self, wanted: Mask, after: str, most: int) -> list[int]:
        found: list[int] = []
        cursor = self._truth.keys(self._connection, after)
        while len(found) < most and (part := cursor.fetchmany(_AT_ONCE)):
            rows = np.array([row for row, _ in part], dtype=np.int64)
            slots = rows - self._snapshot.origin
            found.extend(rows[wanted[slots]].tolist())
            give_way(self._connection)
        return found[:most]


def _compared(ranks: list[Array], place: list[float]) -> tuple[Mask, Mask]:
    """Return which entries come after a position, and which are equal to it."""
    behind = np.zeros(len(ranks[0]), dtype=np.bool_)
    level = np.ones(len(ranks[0]), dtype=np.bool_)
    for rank, at in zip(ranks, place, strict=True):
        behind |= level & (rank > at)
        level &= rank == at
    return behind, level


def _nearest(slots: Slots, ranks: list[Array], most: int) -> tuple[Slots, list[Array]]:
    """Leave out entries that cannot be among the first: sorting a few is cheaper than sorting all."""
    if len(slots) <= most:
        return slots, ranks
    near = ranks[0] <= np.partition(ranks[0], most)[most]
    return slots[near], [rank[near] for rank in ranks]


def _tied(slots: Slots, ranks: list[Array]) -> list[Slots]:
    """The slots in groups of equal ranks. They are in order of ranks already."""
    if not len(slots):
        return []
    changed = np.zeros(len(slots) - 1, dtype=np.bool_)
    for rank in ranks:
        changed |= rank[1:] != rank[:-1]
    return np.split(slots, np.flatnonzero(changed) + 1)
