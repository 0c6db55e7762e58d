"""Counts that are kept from one write to the next: only records that came and went are counted again.

A row's fields never change, so what a count becomes is told by the rows that are live since, and those
that are no more: as exact as counting all, in the time that few records take.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tabane.search.engine import Order
from tabane.search.filters import Filter
from tabane.search.records import Scalar
from tabane.store.columns import Array, ColumnSnapshot, Mask
from tabane.store.masks import Masks, costly

T = TypeVar("T")

KEPT = 32  # counts
MOST_VALUES = 50_000  # of a tally that is kept
MOST_BEST = 16  # of what comes first
_FEW = 1000  # records that are sooner counted than all, however few these are
_SHARE = 8  # so many times more records are counted anew than one by one


class _RowChanges(NamedTuple):
    """The records that came and went between two moments."""

    came: ColumnSnapshot
    gone: ColumnSnapshot


@dataclass(frozen=True, slots=True)
class _CachedCount(Generic[T]):
    """What was counted at one moment. ``alive``: one bit a slot.

    Of rows that are gone since, a filter can be asked as long as no string was swept: ``sweeps``.
    """

    origin: int
    changes: int
    sweeps: int
    slots: int
    alive: Array
    value: T

    def moved(self, snapshot: ColumnSnapshot, now: Array) -> _RowChanges | None:
        """What came and went since; None where it is of a later moment, or too much. ``now``: its bits."""
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
    """The kept counts of one table, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], _CachedCount[object]] = OrderedDict()
        self._moved: tuple[tuple[int, ...], _RowChanges | None] = ((), None)
        self._packed: tuple[Mask | None, Array] = (None, np.empty(0, dtype=np.uint8))

    def count(self, masks: Masks, where: Filter) -> int:
        """How many match."""

        def counted(part: Masks) -> int:
            return int(np.count_nonzero(part.mask(where)))

        def joined(before: int, came: Masks, gone: Masks) -> int:
            return before + counted(came) - counted(gone)

        return self._of(masks, where, ("count",), counted, joined)

    def tally(self, masks: Masks, field: str, where: Filter) -> dict[Scalar, int]:
        """How many have each string."""

        def joined(before: dict[Scalar, int], came: Masks, gone: Masks) -> dict[Scalar, int] | None:
            found = before.copy()
            for part, sign in ((came, 1), (gone, -1)):
                for text, count in part.tally_of_few(field, where):
                    if text is None:
                        return None  # nobody has that string any more, and it was swept
                    found[text] = found.get(text, 0) + sign * count
                    if not found[text]:
                        del found[text]
            return found

        def counted(part: Masks) -> dict[Scalar, int]:
            return part.tally(field, where)

        found: dict[Scalar, int] = self._of(masks, where, ("tally", field), counted, joined)
        return found.copy()

    def bound(self, masks: Masks, order: Order, where: Filter, most: int) -> float:
        """The rank of the last of the first ``most``, by a number; infinite where there are no more, and
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
        """What came and went since; looked for once for all that was counted at the same moment."""
        moments = (kept.origin, kept.changes, snapshot.origin, snapshot.changes)
        known, moved = self._moved
        if known != moments:
            moved = kept.moved(snapshot, self._bits(snapshot))
            self._moved = (moments, moved)
        return moved

    def _bits(self, snapshot: ColumnSnapshot) -> Array:
        """Which slots are live, a bit for each; made once for all that is asked of a moment."""
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
