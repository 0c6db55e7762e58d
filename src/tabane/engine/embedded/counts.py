"""Counts over a collection, cached from one write to the next.

The fields of a row never change. So a cached count is updated by counting only the rows that were added or
removed since: the result is as exact as counting all rows. See :class:`tabane.search.engine.Counts`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tabane.engine import record_cursors
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.columns import Array, ColumnSnapshot, Mask
from tabane.engine.embedded.masks import Masks, costly
from tabane.engine.embedded.paging import RecordPaging
from tabane.engine.embedded.record_table import NumericKeys
from tabane.engine.record_cursors import RecordsCursor
from tabane.engine.request_checks import (
    check_bounded,
    check_bounds,
    check_numeric,
    check_string,
    check_textual,
)
from tabane.search import filters
from tabane.search.engine import MOST_AT_ONCE, ListedKeys, Order, SelectedPage
from tabane.search.filters import Filter
from tabane.search.records import Scalar, Shape

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
        meant = filters.checked(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.tally(masks, field, meant), long=True)

    async def count(self, where: Filter) -> int:
        meant = filters.checked(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.count(masks, meant), long=costly(meant))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        check_bounds(bounds)
        check_numeric(self.shape.field(field), "histogram")
        meant = filters.checked(where, self.shape)
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
        return filters.checked(where, self.shape)

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
        meant = filters.checked(where, self.shape)
        record_cursors.checked(order, self.shape)
        cursor = None if after is None else record_cursors.read(after, order, self.shape)
        return RecordSelection(meant, order, cursor, limit)

    def page_of(self, masks: Masks, connection: sqlite3.Connection, asked: RecordSelection) -> SelectedPage:
        """Answer a checked request at the moment of the masks. Blocks."""
        where, order, cursor, limit = asked
        mask = self._first(masks, where, order, limit + 1) if cursor is None else masks.mask(where)
        return RecordPaging(self.table.truth, connection, masks.snapshot).page(mask, order, cursor, limit)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        check_numeric(self.shape.field(order.field), "order")
        meant = filters.checked(where, self.shape)

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
