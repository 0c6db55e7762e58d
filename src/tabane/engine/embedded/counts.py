"""Selections of a collection: pages in order, and counts that are cached from one write to the next.

The fields of a row never change. So a cached count is updated by counting only the rows that were added
or removed since: the result is as exact as counting all rows. See :class:`tabane.search.engine.Counts`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tabane.engine import input_checks
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.columns import Array, ColumnSnapshot, Mask, Slots
from tabane.engine.embedded.database_threads import give_way
from tabane.engine.embedded.masks import Masks, costly
from tabane.engine.embedded.truth import NumericKeys, Truth
from tabane.engine.input_checks import (
    RecordsCursor,
    check_bounded,
    check_bounds,
    check_numeric,
    check_string,
    check_textual,
)
from tabane.search import records
from tabane.search.engine import MOST_AT_ONCE, ListedKeys, Order, SelectedPage
from tabane.search.records import Filter, Kind, Scalar, Shape

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
        return SelectedPage(tuple(records), input_checks.cursor_after(last, order, self._truth.shape))

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


LISTED = 20_000
"""Keys of a block."""


class RecordSelection(NamedTuple):
    """A checked request for a page of records."""

    where: Filter
    order: tuple[Order, ...]
    cursor: RecordsCursor | None
    limit: int


class CollectionCounts:
    """The counts of one table, as a base class of a collection."""

    def __init__(self, table: CollectionTable) -> None:
        self.table = table
        self._keys = NumericKeys(table.truth)
        self._tallies = CountCache()

    @property
    def shape(self) -> Shape:
        return self.table.shape

    @property
    def changes(self) -> int:
        return self.table.columns.snapshot().changes

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        check_textual(self.shape.field(field), "tally")
        meant = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.tally(masks, field, meant), long=True)

    async def count(self, where: Filter) -> int:
        meant = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.count(masks, meant), long=costly(meant))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        check_bounds(bounds)
        check_numeric(self.shape.field(field), "histogram")
        meant = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: masks.histogram(field, bounds, meant), long=True)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        meant = self.checked_firsts(field, order, where)
        return await self.table.read(
            lambda masks, connection: self.firsts_of(masks, connection, field, order, meant), long=True
        )

    def checked_firsts(self, field: str, order: Order, where: Filter) -> Filter:
        """Check a request for :meth:`firsts`, and return its filter."""
        check_string(self.shape.field(field), "firsts")
        check_numeric(self.shape.field(order.field), "order")
        return records.checked_filter(where, self.shape)

    def firsts_of(
        self, masks: Masks, connection: sqlite3.Connection, field: str, order: Order, meant: Filter
    ) -> dict[Scalar, str]:
        """Answer a checked request at the moment of the masks. Blocks."""
        found = masks.firsts(field, order, meant)
        keys = self.table.truth.keys_at(connection, [row for rows in found.values() for row in rows])
        return {value: min(keys[row] for row in rows) for value, rows in found.items()}

    def checked_selection(
        self, where: Filter, order: tuple[Order, ...], after: str | None, limit: int
    ) -> RecordSelection:
        """Check a request for a page of records."""
        check_bounded("limit", limit, 1, MOST_AT_ONCE)
        meant = records.checked_filter(where, self.shape)
        input_checks.check_order(order, self.shape)
        cursor = None if after is None else input_checks.read_cursor(after, order, self.shape)
        return RecordSelection(meant, order, cursor, limit)

    def page_of(self, masks: Masks, connection: sqlite3.Connection, asked: RecordSelection) -> SelectedPage:
        """Answer a checked request at the moment of the masks. Blocks."""
        where, order, cursor, limit = asked
        mask = self._first(masks, where, order, limit + 1) if cursor is None else masks.mask(where)
        return RecordPaging(self.table.truth, connection, masks.snapshot).page(mask, order, cursor, limit)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        check_numeric(self.shape.field(order.field), "order")
        meant = records.checked_filter(where, self.shape)

        def reading(masks: Masks, connection: sqlite3.Connection) -> Array:
            self._keys.read_on(connection, masks.snapshot.origin + len(masks.snapshot.alive))
            return masks.arranged(order, meant)

        rows = await self.table.read(reading, long=True)
        for first in range(0, len(rows), LISTED):
            yield ListedKeys(await self._named(rows[first : first + LISTED]), len(rows))

    async def _named(self, rows: Array) -> list[str]:
        """Return the keys of rows. If keys are not numbers, deleted rows are left out."""
        keys = self._keys.of(rows)
        if keys is not None:
            return keys
        wanted = rows.tolist()
        found = await self.table.database.read(
            lambda connection: self.table.truth.keys_at(connection, wanted), long=True
        )
        return [found[row] for row in wanted if row in found]

    def _first(self, masks: Masks, where: Filter, order: tuple[Order, ...], most: int) -> Mask:
        """Return the slots that may be among the first ``most`` matches, limited by a cached bound if any."""
        if len(order) != 1 or most > MOST_BEST or not self.shape.field(order[0].field).kind.numeric:
            return masks.mask(where)
        bound = self._tallies.bound(masks, order[0], where, most)  # infinite if texts are asked too
        if bound == np.inf:
            return masks.mask(where)
        snapshot = masks.snapshot
        values = snapshot.columns[order[0].field].values
        mask = snapshot.alive & (values >= -bound if order[0].descending else values <= bound)
        near = np.flatnonzero(mask)
        mask[near] = masks.over(snapshot.only(near)).mask(where)
        return mask


T = TypeVar("T")

KEPT = 32  # counts
MOST_VALUES = 50_000  # of a tally that is kept
MOST_BEST = 16  # of what comes first
_FEW = 1000  # up to so many changed records are counted one by one
_SHARE = 8  # if more than an eighth of the slots changed, everything is counted again


class _RowChanges(NamedTuple):
    """The records that were added and removed between two snapshots."""

    came: ColumnSnapshot
    gone: ColumnSnapshot


@dataclass(frozen=True, slots=True)
class _CachedCount(Generic[T]):
    """Counts at one moment. ``alive``: one bit a slot.

    Of rows that are gone since, a filter can be asked as long as no string was swept: ``sweeps``.
    """

    origin: int
    changes: int
    sweeps: int
    slots: int
    alive: Array
    value: T

    def moved(self, snapshot: ColumnSnapshot, now: Array) -> _RowChanges | None:
        """Return the changes since this snapshot.

        None if it is newer, or if there are too many. ``now``: live bits.
        """
        if snapshot.origin != self.origin or snapshot.changes < self.changes:
            return None
        was: Array = self.alive & ~now[: len(self.alive)]
        spots = np.flatnonzero(was)
        if len(spots) > _FEW:
            return None
        place, bit = np.nonzero(np.unpackbits(was[spots]).reshape(-1, 8))
        gone = spots[place] * 8 + bit
        came = np.flatnonzero(snapshot.alive[self.slots :]) + self.slots
        many = len(came) + len(gone)
        return (
            None
            if many > max(_FEW, self.slots // _SHARE)
            else _RowChanges(snapshot.only(came), snapshot.only(gone))
        )


class CountCache:
    """The cached counts of one table. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], _CachedCount[object]] = OrderedDict()
        self._moved: tuple[tuple[int, ...], _RowChanges | None] = ((), None)
        self._packed: tuple[Mask | None, Array] = (None, np.empty(0, dtype=np.uint8))

    def count(self, masks: Masks, where: Filter) -> int:
        """Return the number of matching records."""

        def counted(part: Masks) -> int:
            return int(np.count_nonzero(part.mask(where)))

        def joined(before: int, came: Masks, gone: Masks) -> int:
            return before + counted(came) - counted(gone)

        return self._of(masks, where, ("count",), counted, joined)

    def tally(self, masks: Masks, field: str, where: Filter) -> dict[Scalar, int]:
        """Return how many have each string."""

        def joined(before: dict[Scalar, int], came: Masks, gone: Masks) -> dict[Scalar, int] | None:
            found = before.copy()
            for part, sign in ((came, 1), (gone, -1)):
                for text, count in part.tally_of_few(field, where):
                    if text is None:
                        return None  # no record has that string any more, and it was swept
                    found[text] = found.get(text, 0) + sign * count
                    if not found[text]:
                        del found[text]
            return found

        def counted(part: Masks) -> dict[Scalar, int]:
            return part.tally(field, where)

        found: dict[Scalar, int] = self._of(masks, where, ("tally", field), counted, joined)
        return found.copy()

    def bound(self, masks: Masks, order: Order, where: Filter, most: int) -> float:
        """The rank of the last of the first ``most``, by a number; infinite if there are no more, and
        for filters that ask something of texts.
        """
        if costly(where):
            return np.inf

        def first(part: Masks) -> Array:
            ranks = part.ranks(order, np.flatnonzero(part.mask(where)))
            return np.sort(np.partition(ranks, most - 1)[:most] if len(ranks) > most else ranks)

        def joined(before: Array, came: Masks, gone: Masks) -> Array | None:
            left = gone.ranks(order, np.flatnonzero(gone.mask(where)))
            if len(before) < most or left.min(initial=np.inf) <= before[-1]:
                return None
            return np.sort(np.concatenate([before, first(came)]))[:most]

        found = self._of(masks, where, ("bound", order, most), first, joined)
        return float(found[-1]) if len(found) == most else np.inf

    def _of(
        self,
        masks: Masks,
        where: Filter,
        what: tuple[object, ...],
        counted: Callable[[Masks], T],
        joined: Callable[[T, Masks, Masks], T | None],
    ) -> T:
        if costly(where):
            return counted(masks)
        snapshot, key = masks.snapshot, (*what, where)
        kept: _CachedCount[T] | None = self._get(key)  # type: ignore[assignment]
        if kept is not None and kept.changes == snapshot.changes:
            return kept.value
        moved = None
        if kept is not None and kept.sweeps == masks.sweeps >= 0:
            moved = self._between(kept, snapshot)
        value = None
        if kept is not None and moved is not None:
            value = joined(kept.value, masks.over(moved.came), masks.over(moved.gone))
        if value is None:
            value = counted(masks)
        if not isinstance(value, dict) or len(value) <= MOST_VALUES:
            bits = self._bits(snapshot)
            slots = len(snapshot.alive)
            self._put(key, _CachedCount(snapshot.origin, snapshot.changes, masks.sweeps, slots, bits, value))
        return value

    def _between(self, kept: _CachedCount[T], snapshot: ColumnSnapshot) -> _RowChanges | None:
        """Return the changes since a count. They are computed once for all counts of the same snapshot."""
        moments = (kept.origin, kept.changes, snapshot.origin, snapshot.changes)
        known, moved = self._moved
        if known != moments:
            moved = kept.moved(snapshot, self._bits(snapshot))
            self._moved = (moments, moved)
        return moved

    def _bits(self, snapshot: ColumnSnapshot) -> Array:
        """Return one bit a slot: whether it is live. Computed once for each snapshot."""
        of, bits = self._packed
        if of is not snapshot.alive:
            bits = np.packbits(snapshot.alive)
            self._packed = (snapshot.alive, bits)
        return bits

    def _get(self, key: tuple[object, ...]) -> _CachedCount[object] | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _put(self, key: tuple[object, ...], kept: _CachedCount[object]) -> None:
        with self._lock:
            known = self._kept.get(key)
            if known is None or known.changes <= kept.changes:
                self._kept[key] = kept
                self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
