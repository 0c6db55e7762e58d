"""Records whose texts contain given substrings: found by the index or by reading the texts, and cached.

The texts of a row never change. So a cached result stays valid for the rows that existed then; only newer
rows are read.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from tabane.engine.embedded.columns import Array, Columns, ColumnSnapshot, Mask, Slots
from tabane.engine.embedded.read_thread import give_way
from tabane.engine.embedded.truth import Truth
from tabane.search.analysis import substring_spelling
from tabane.search.filters import Contains, contains


@dataclass(frozen=True, slots=True)
class SubstringCondition:
    """The condition on a record's texts: all of ``includes`` and none of ``excludes``."""

    includes: tuple[Contains, ...] = ()
    excludes: tuple[Contains, ...] = ()


_LOOKED_AT = 32  # records between two pauses for others
_GAP = 8  # slots that are sooner read than left out


def slots_containing(
    truth: Truth,
    connection: sqlite3.Connection,
    snapshot: ColumnSnapshot,
    wanted: SubstringCondition,
    within: Mask,
) -> list[int]:
    """Return the slots among ``within`` whose texts contain what is wanted."""
    includes = [(each, substring_spelling(each.text)) for each in wanted.includes]
    excludes = [(each, substring_spelling(each.text)) for each in wanted.excludes]
    found = []
    for first, last in _stretches(np.flatnonzero(within)):
        rows = truth.texts_between(connection, first + snapshot.origin, last + snapshot.origin)
        for number, (row, texts) in enumerate(rows):
            if not number % _LOOKED_AT:
                give_way(connection)
            if all(_held(texts, *each) for each in includes) and not any(
                _held(texts, *each) for each in excludes
            ):
                found.append(row - snapshot.origin)
    return found


def _held(texts: Mapping[str, str], condition: Contains, needle: str) -> bool:
    names = texts if condition.fields is None else condition.fields
    return contains((texts.get(name, "") for name in names), needle)


def _stretches(slots: Slots) -> list[tuple[int, int]]:
    """Slots in stretches with small gaps, as first and last."""
    if not len(slots):
        return []
    breaks = np.flatnonzero(np.diff(slots) > _GAP)
    firsts = slots[np.concatenate([[0], breaks + 1])]
    lasts = slots[np.concatenate([breaks, [len(slots) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


REMEMBERED = 4_000_000  # bytes, of a bit a row for each answer
_LONGEST_WAIT = 5.0  # seconds from a commit to the columns that show it
LOOKED_AT = 64  # records that are sooner looked at than asked for
_NEWER = 256  # rows that came since an answer, and are looked at instead of asking again


class RowSet(NamedTuple):
    """The rows that were found, live or not; or, with ``others``, all but these.

    It holds for the rows that are live after write number ``changes``.
    """

    rows: Array
    others: bool = False
    changes: int = 0


class SubstringIndex(Protocol):
    """A source of texts by their parts."""

    def containing(self, connection: sqlite3.Connection, wanted: SubstringCondition) -> RowSet | None:
        """Return the rows that are so, exactly; None: they have to be looked through."""
        ...


@dataclass(frozen=True, slots=True)
class _CachedRowMask:
    """One bit a row, from row ``origin`` on; for snapshots that are not older than ``changes``."""

    origin: int
    changes: int
    length: int
    bits: Array

    def mask(self, snapshot: ColumnSnapshot) -> Mask | None:
        """The slots of the snapshot, as far as they were there; None if it is of an older moment."""
        skipped = snapshot.origin - self.origin
        if snapshot.changes < self.changes or not 0 <= skipped <= self.length:
            return None
        return np.unpackbits(self.bits, count=self.length).view(np.bool_)[skipped:]


class SubstringFilter:
    """The texts of one table, for any thread."""

    def __init__(self, truth: Truth, columns: Columns) -> None:
        self._truth = truth
        self._columns = columns
        self._lock = threading.Lock()
        self._answers: OrderedDict[SubstringCondition, _CachedRowMask] = OrderedDict()
        self._size = 0

    def mask(
        self,
        connection: sqlite3.Connection,
        snapshot: ColumnSnapshot,
        index: SubstringIndex | None,
        wanted: SubstringCondition,
        within: Mask,
    ) -> Mask:
        """Return which slots of ``within`` are so; what it says of others does not count."""
        known = self._known(snapshot, wanted)
        if known is not None and len(known) == len(within):
            return known
        if known is not None and len(within) - len(known) <= _NEWER:
            return self._remembered(snapshot, wanted, self._continued(connection, snapshot, wanted, known))
        if index is None or np.count_nonzero(within) <= LOOKED_AT:
            return self._looked_through(connection, snapshot, wanted, within)
        rows = index.containing(connection, wanted)
        if rows is None:
            return self._looked_through(connection, snapshot, wanted, within)
        found = np.full(len(within), rows.others)
        found[snapshot.slots_at(rows.rows)] = not rows.others
        if rows.changes > snapshot.changes:
            gone = self._gone(snapshot, rows.changes)
            found[gone] = self._looked_through(connection, snapshot, wanted, gone)[gone]
        return self._remembered(snapshot, wanted, found)

    def _gone(self, snapshot: ColumnSnapshot, changes: int) -> Mask:
        """Return slots that are live in the snapshot but not after that write: the index has dropped them."""
        later = self._columns.reached(changes, _LONGEST_WAIT)
        gone = snapshot.alive.copy()
        if later.changes >= changes:
            still = later.alive[: max(0, len(gone) - (later.origin - snapshot.origin))]
            first = later.origin - snapshot.origin
            gone[first : first + len(still)] &= ~still
        return gone

    def _looked_through(
        self,
        connection: sqlite3.Connection,
        snapshot: ColumnSnapshot,
        wanted: SubstringCondition,
        within: Mask,
    ) -> Mask:
        found = np.zeros(len(within), dtype=np.bool_)
        found[slots_containing(self._truth, connection, snapshot, wanted, within)] = True
        return found

    def _continued(
        self,
        connection: sqlite3.Connection,
        snapshot: ColumnSnapshot,
        wanted: SubstringCondition,
        known: Mask,
    ) -> Mask:
        """Return what is known, and what came since."""
        newer = snapshot.alive.copy()
        newer[: len(known)] = False
        found = self._looked_through(connection, snapshot, wanted, newer)
        found[: len(known)] = known
        return found

    def _known(self, snapshot: ColumnSnapshot, wanted: SubstringCondition) -> Mask | None:
        with self._lock:
            answer = self._answers.get(wanted)
            if answer is None:
                return None
            self._answers.move_to_end(wanted)
        mask = answer.mask(snapshot)
        return None if mask is None else mask[: len(snapshot.alive)]

    def _remembered(self, snapshot: ColumnSnapshot, wanted: SubstringCondition, found: Mask) -> Mask:
        answer = _CachedRowMask(snapshot.origin, snapshot.changes, len(found), np.packbits(found))
        with self._lock:
            before = self._answers.pop(wanted, None)
            self._answers[wanted] = answer
            self._size += answer.bits.nbytes - (before.bits.nbytes if before else 0)
            while self._size > REMEMBERED:
                self._size -= self._answers.popitem(last=False)[1].bits.nbytes
        return found
