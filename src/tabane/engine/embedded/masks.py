"""Filters, facets, pages and cached counts over columns: exact for every filter, in nearly constant time.

Records whose texts contain given substrings: found by the index or by reading the texts, and cached. The
texts of a row never change. So a cached result stays valid for the rows that existed then; only newer
rows are read. Its fields never change either. So a cached count is updated by counting only the rows that
were added or removed since, and is as exact as counting all rows.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tabane.engine.embedded.columns import (
    ABSENT_FLAG,
    Array,
    CodeIndexes,
    Columns,
    ColumnSnapshot,
    ColumnValues,
    Mask,
    Slots,
)
from tabane.engine.embedded.database import give_way
from tabane.engine.embedded.truth import StringTable, Truth
from tabane.engine.input_checks import RecordsCursor
from tabane.engine.query_plans import is_whole
from tabane.search.analysis import substring_spelling
from tabane.search.engine import Order
from tabane.search.records import (
    And,
    Condition,
    Contains,
    Equal,
    Everything,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Scalar,
    StoredRecord,
    contains,
    leaves,
)


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
            if all(_contains_needle(texts, *each) for each in includes) and not any(
                _contains_needle(texts, *each) for each in excludes
            ):
                found.append(row - snapshot.origin)
    return found


def _contains_needle(texts: Mapping[str, str], condition: Contains, needle: str) -> bool:
    names = texts if condition.fields is None else condition.fields
    return contains((texts.get(name, "") for name in names), needle)


def _stretches(slots: Slots) -> list[tuple[int, int]]:
    """Return slots as stretches with small gaps: the first and the last slot of each."""
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
        """Return exactly the rows that meet the condition; None: their texts have to be read."""
        ...


@dataclass(frozen=True, slots=True)
class _CachedRowMask:
    """One bit a row, from row ``origin`` on; for snapshots that are not older than ``changes``."""

    origin: int
    changes: int
    length: int
    bits: Array

    def mask(self, snapshot: ColumnSnapshot) -> Mask | None:
        """Return the slots of the snapshot that existed then; None if the snapshot is older."""
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
        """Return which slots of ``within`` meet the condition. Other slots may have any value."""
        known = self._cached_mask(snapshot, wanted)
        if known is not None and len(known) == len(within):
            return known
        if known is not None and len(within) - len(known) <= _NEWER:
            newer = snapshot.alive.copy()
            newer[: len(known)] = False
            found = self._mask_by_reading(connection, snapshot, wanted, newer)
            found[: len(known)] = known
            return self._cache_mask(snapshot, wanted, found)
        if index is None or np.count_nonzero(within) <= LOOKED_AT:
            return self._mask_by_reading(connection, snapshot, wanted, within)
        rows = index.containing(connection, wanted)
        if rows is None:
            return self._mask_by_reading(connection, snapshot, wanted, within)
        found = np.full(len(within), rows.others)
        found[snapshot.slots_at(rows.rows)] = not rows.others
        if rows.changes > snapshot.changes:
            gone = self._dropped_slots(snapshot, rows.changes)
            found[gone] = self._mask_by_reading(connection, snapshot, wanted, gone)[gone]
        return self._cache_mask(snapshot, wanted, found)

    def _dropped_slots(self, snapshot: ColumnSnapshot, changes: int) -> Mask:
        """Return slots that are live in the snapshot but not after that write: the index has dropped them."""
        later = self._columns.reached(changes, _LONGEST_WAIT)
        gone = snapshot.alive.copy()
        if later.changes >= changes:
            still = later.alive[: max(0, len(gone) - (later.origin - snapshot.origin))]
            first = later.origin - snapshot.origin
            gone[first : first + len(still)] &= ~still
        return gone

    def _mask_by_reading(
        self,
        connection: sqlite3.Connection,
        snapshot: ColumnSnapshot,
        wanted: SubstringCondition,
        within: Mask,
    ) -> Mask:
        found = np.zeros(len(within), dtype=np.bool_)
        found[slots_containing(self._truth, connection, snapshot, wanted, within)] = True
        return found

    def _cached_mask(self, snapshot: ColumnSnapshot, wanted: SubstringCondition) -> Mask | None:
        with self._lock:
            answer = self._answers.get(wanted)
            if answer is None:
                return None
            self._answers.move_to_end(wanted)
        mask = answer.mask(snapshot)
        return None if mask is None else mask[: len(snapshot.alive)]

    def _cache_mask(self, snapshot: ColumnSnapshot, wanted: SubstringCondition, found: Mask) -> Mask:
        answer = _CachedRowMask(snapshot.origin, snapshot.changes, len(found), np.packbits(found))
        with self._lock:
            before = self._answers.pop(wanted, None)
            self._answers[wanted] = answer
            self._size += answer.bits.nbytes - (before.bits.nbytes if before else 0)
            while self._size > REMEMBERED:
                self._size -= self._answers.popitem(last=False)[1].bits.nbytes
        return found


# Returns the slots whose texts match. The result is valid only for slots within the mask.
Holding = Callable[[SubstringCondition, Mask], Mask]


class Masks:
    """Evaluation of filters over a snapshot, for one read."""

    def __init__(
        self,
        snapshot: ColumnSnapshot,
        strings: StringTable,
        connection: sqlite3.Connection,
        holding: Holding,
        sweeps: int = -1,
        codes: CodeIndexes | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.sweeps = sweeps  # as they were before the moment; -1 if that is not known
        self._strings = strings
        self._connection = connection
        self._holding = holding
        self._codes_at = codes

    def mask(self, where: Filter) -> Mask:
        """Return one flag a slot: whether it is live and matches the filter, which is checked already."""
        return self._mask_within(where, self.snapshot.alive)

    def _mask_within(self, where: Filter, within: Mask) -> Mask:
        """Return the slots of ``within`` that match.

        Expensive conditions come last, for the remaining slots.
        """
        match where:
            case Everything():
                return within
            case Not(of):
                return within & ~self._mask_within(of, within)
            case And(of):
                return self._mask_of_all(of, within)
            case Or(of):
                found = np.zeros(len(within), dtype=np.bool_)
                for each in sorted(of, key=costly):
                    found |= self._mask_within(each, within & ~found if costly(each) else within)
                return found
            case Contains():
                return within & self._holding(SubstringCondition((where,)), within)
            case _:
                return within & self._mask_of_condition(where)

    def _mask_of_all(self, of: Sequence[Filter], within: Mask) -> Mask:
        """Return the slots of ``within`` that match all filters.

        Conditions on texts are evaluated together.
        """
        for each in of:
            if not costly(each):
                within = self._mask_within(each, within)
        texts = [each for each in of if costly(each)]
        wanted = _joined_condition(texts)
        if wanted is not None and within.any():
            within = within & self._holding(wanted, within)
        for each in texts:
            if (wanted is None or not _is_joinable(each)) and within.any():
                within = self._mask_within(each, within)
        return within

    def _mask_of_condition(self, where: Condition) -> Mask:
        column = self.snapshot.columns[where.field]
        if column.field.kind.textual:
            matching = self._match_codes(where, column)
            if column.slots is None:
                return matching
            found = np.zeros(len(self.snapshot.alive), dtype=np.bool_)
            found[column.slots[matching]] = True  # of a list, one matching element is enough
            return found
        if column.field.kind is Kind.BOOLEAN:
            wanted = (
                where.values if isinstance(where, In) else (where.value,) if isinstance(where, Equal) else ()
            )
            return _membership_table([int(value) for value in wanted], column.values)[column.values]
        return _compare_numbers(where, column.values)

    def _match_codes(self, where: Condition, column: ColumnValues) -> Mask:
        """Return which values of a column of codes match."""
        codes = self._codes_of_condition(where)
        if isinstance(where, Range) and where.low is None and where.high is None:
            return np.asarray(column.values > 0)
        if len(codes) == 1:
            return np.asarray(column.values == codes[0])
        return _membership_table(codes, column.values)[column.values]

    def _codes_of_condition(self, where: Condition) -> Sequence[int]:
        strings, connection, field = self._strings, self._connection, where.field
        match where:
            case Equal(_, value):
                return strings.found(connection, field, (str(value),))
            case In(_, values):
                return strings.found(connection, field, map(str, values))
            case Prefix(_, text):
                return strings.beginning(connection, field, text)
            case Range(_, None, None):
                return ()
            case Range(_, low, high, include_low, include_high):
                above = None if low is None else (">=" if include_low else ">", str(low))
                below = None if high is None else ("<=" if include_high else "<", str(high))
                return strings.between(connection, field, above, below)

    def facet(self, field: str, where: Filter, limit: int) -> list[tuple[Scalar, int]]:
        """Return the most frequent values of matching records, with counts.

        Equal counts are ordered by value.
        """
        column = self.snapshot.columns[field]
        values = column.within(self.mask(where))
        if column.field.kind.textual:
            return self._facet_of_codes(field, values, limit)
        if column.field.kind is Kind.BOOLEAN:
            counted = np.bincount(values, minlength=ABSENT_FLAG)[:ABSENT_FLAG].tolist()
            flags: list[tuple[Scalar, int]] = [
                (bool(flag), count) for flag, count in enumerate(counted) if count
            ]
            return sorted(flags, key=lambda flag: (-flag[1], flag[0]))[:limit]
        found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        best = np.argsort(-counts, kind="stable")[:limit]
        numbers = [
            int(number) if number.is_integer() and abs(number) <= 2**53 else number  # as in records
            for number in found[best].tolist()
        ]
        return list(zip(numbers, counts[best].tolist(), strict=True))

    def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        """Return all strings of matching records, with counts, in any order."""
        values = self.snapshot.columns[field].within(self.mask(where))
        counts = np.bincount(values, minlength=1)
        size = len(counts)
        in_order = self._strings.in_order(self._connection, field)
        return {text: int(counts[code]) for code, text in in_order if code < size and counts[code]}

    def tally_of_few(self, field: str, where: Filter) -> list[tuple[str | None, int]]:
        """Count like :meth:`tally`, for few records: string by string, None for a deleted string."""
        codes = self.snapshot.columns[field].within(self.mask(where))
        found, counts = np.unique(codes[codes > 0], return_counts=True)
        pairs = zip(found.tolist(), counts.tolist(), strict=True)
        return [(self._strings.text(self._connection, code), count) for code, count in pairs]

    def over(self, snapshot: ColumnSnapshot) -> Masks:
        """Return masks for some records only, for filters without conditions on texts."""
        return Masks(snapshot, self._strings, self._connection, self._holding, self.sweeps)

    def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        """Return how many matching records lie from each bound to before the next."""
        values = self.snapshot.columns[field].values[self.mask(where)]
        values = values[~np.isnan(values)]
        places = np.searchsorted(np.array(bounds, dtype=np.float64), values, side="right")
        counted: list[int] = np.bincount(places, minlength=len(bounds) + 1)[1 : len(bounds)].tolist()
        return counted

    def firsts(self, field: str, order: Order, where: Filter) -> dict[str, list[int]]:
        """Return the first matching rows of each string, several if they are equal."""
        slots, texts = self._slots_by_string(field, where)
        codes, ranks = self.snapshot.columns[field].values[slots], self.ranks(order, slots)
        arranged = np.lexsort((ranks, codes))
        codes, ranks, rows = codes[arranged], ranks[arranged], slots[arranged] + self.snapshot.origin
        begins = np.flatnonzero(np.diff(codes, prepend=0))
        found: dict[str, list[int]] = {}
        ends = np.append(begins[1:], len(codes))[: len(begins)]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            code = int(codes[begin])
            text = self._strings.text(self._connection, code) if texts is None else texts.get(code)
            level = begin + int(np.searchsorted(ranks[begin:end], ranks[begin], side="right"))
            if text is not None:
                found[text] = rows[begin:level].tolist()
        return found

    def _slots_by_string(self, field: str, where: Filter) -> tuple[Slots, dict[int, str] | None]:
        """Return the matching slots, and the strings of the field by code, where the filter names them.

        Named strings are looked up in the index, so that only their slots are looked at.
        """
        named, rest = _split_by_field(field, where)
        if named is None or self._codes_at is None or costly(where):
            return np.flatnonzero(self.mask(where)), None
        texts = self._strings.named(self._connection, field, map(str, named.values))
        codes = np.sort(np.fromiter(texts, dtype=self.snapshot.columns[field].values.dtype))
        slots = self._codes_at.slots(self.snapshot, field, codes)
        slots = slots[self.snapshot.alive[slots]]
        if rest:
            slots = slots[self.over(self.snapshot.only(slots)).mask(And(rest))]
        return slots, texts

    def arranged(self, order: Order, where: Filter) -> Array:
        """Return the matching rows in order. Equal rows keep their order."""
        slots = np.flatnonzero(self.mask(where))
        return slots[np.argsort(self.ranks(order, slots), kind="stable")] + self.snapshot.origin

    def ranks(self, order: Order, slots: Array) -> Array:
        """Return numbers in the order wanted; absent ones are infinite."""
        values = self.snapshot.columns[order.field].values[slots]
        values = -values if order.descending else values
        return np.where(np.isnan(values), np.inf, values)

    def _facet_of_codes(self, field: str, codes: Array, limit: int) -> list[tuple[Scalar, int]]:
        counts = np.bincount(codes, minlength=1)
        counts[0] = 0
        there = np.flatnonzero(counts)
        if len(there) > limit:
            least = np.partition(counts[there], len(there) - limit)[len(there) - limit]
            above = there[counts[there] > least]
            tied = there[counts[there] == least]
            there = np.concatenate([above, self._first_codes(field, tied, limit - len(above))])
        named = [(self._strings.text(self._connection, code), int(counts[code])) for code in there.tolist()]
        known: list[tuple[Scalar, int]] = [(text, count) for text, count in named if text is not None]
        return sorted(known, key=lambda pair: (-pair[1], pair[0]))

    def _first_codes(self, field: str, codes: Array, most: int) -> Array:
        """Return the first of these codes in order of their strings."""
        if len(codes) <= most:
            return codes
        wanted = np.zeros(int(codes.max()) + 1, dtype=np.bool_)
        wanted[codes] = True
        found: list[int] = []
        for code, _ in self._strings.in_order(self._connection, field):
            if code < len(wanted) and wanted[code]:
                found.append(code)
                if len(found) == most:
                    break
        return np.array(found, dtype=np.int64)


def costly(where: Filter) -> bool:
    """Return whether texts must be read."""
    return any(isinstance(leaf, Contains) for leaf in leaves(where))


def _split_by_field(field: str, where: Filter) -> tuple[In | None, tuple[Filter, ...]]:
    """Return the condition that a field has one of some values, if there is one, and the other conditions."""
    conditions = list(_conjuncts(where))
    for place, each in enumerate(conditions):
        if isinstance(each, In) and each.field == field:
            return each, (*conditions[:place], *conditions[place + 1 :])
    return None, tuple(conditions)


def _conjuncts(where: Filter) -> Iterator[Filter]:
    """Yield the filters all of which have to match."""
    match where:
        case And(of):
            for each in of:
                yield from _conjuncts(each)
        case Everything():
            return
        case _:
            yield where


def _is_joinable(where: Filter) -> bool:
    """Return whether it can be combined with other text conditions: the index must be exact for it."""
    leaf = where.of if isinstance(where, Not) else where
    return isinstance(leaf, Contains) and is_whole(leaf.text)


def _joined_condition(of: Sequence[Filter]) -> SubstringCondition | None:
    """Return the text conditions to evaluate together, in a canonical order. None if there are none."""
    joined = [each for each in of if _is_joinable(each)]
    includes = sorted((each for each in joined if isinstance(each, Contains)), key=repr)
    excludes = sorted((each.of for each in joined if isinstance(each, Not)), key=repr)
    return SubstringCondition(tuple(includes), tuple(excludes)) if joined else None  # type: ignore[arg-type]


def _membership_table(codes: Sequence[int], values: Array) -> Mask:
    """Return one flag a code: whether it is among ``codes``."""
    table = np.zeros(int(values.max(initial=0)) + 1, dtype=np.bool_)
    known = np.array(codes, dtype=np.int64)
    table[known[known < len(table)]] = True
    return table


def _compare_numbers(where: Condition, values: Array) -> Mask:
    """Return which numbers match. Absent numbers do not, because NaN compares as false."""
    match where:
        case Equal(_, value):
            return np.asarray(values == value)
        case In(_, wanted):
            return np.isin(values, np.array(wanted, dtype=np.float64))
        case Range(_, low, high, include_low, include_high):
            found = (
                ~np.isnan(values) if low is None and high is None else np.ones(len(values), dtype=np.bool_)
            )
            if low is not None:
                found &= values >= low if include_low else values > low
            if high is not None:
                found &= values <= high if include_high else values < high
            return found
        case Prefix():
            raise TypeError("numbers have no prefix: the filter was not checked")


_AT_ONCE = 1000  # keys read from the index at a time
_LOOKUP = 10  # a record looked up by its row costs as much as so many read in order


class RecordPaging:
    """One selection over a snapshot. ``connection`` is in a transaction of the same moment."""

    def __init__(self, truth: Truth, connection: sqlite3.Connection, snapshot: ColumnSnapshot) -> None:
        self._truth = truth
        self._connection = connection
        self._snapshot = snapshot

    def page(
        self, mask: Mask, order: Sequence[Order], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        """Return the first slots of a mask in order, from behind a cursor on, as records."""
        rows: list[int] = []
        for slots, after_key in self._order_groups(mask, order, after, most):
            rows.extend(self._rows_by_key(slots, after_key, most - len(rows)))
            if len(rows) == most:
                break
        return [self._truth.stored(self._connection, row) for row in rows]

    def _order_groups(
        self, mask: Mask, order: Sequence[Order], after: RecordsCursor | None, most: int
    ) -> Iterator[tuple[Slots, str]]:
        """Yield groups of slots that are equal in the order, each with the key behind which it begins."""
        slots = np.flatnonzero(mask)
        if not order:
            yield slots, after.key if after else ""
            return
        ranks = [self._ranks(each, slots) for each in order]
        if after is not None:
            behind, level = np.zeros(len(slots), dtype=np.bool_), np.ones(len(slots), dtype=np.bool_)
            for each, rank, value in zip(order, ranks, after.values, strict=True):
                place = self._cursor_rank(each, value)
                behind |= level & (rank > place)
                level &= rank == place
            if level.any():
                yield slots[level], after.key
            slots, ranks = slots[behind], [rank[behind] for rank in ranks]
        if len(slots) > most:  # sorting a few is cheaper than sorting all
            near = ranks[0] <= np.partition(ranks[0], most)[most]
            slots, ranks = slots[near], [rank[near] for rank in ranks]
        arranged = np.lexsort(ranks[::-1])
        slots, ranks = slots[arranged], [rank[arranged] for rank in ranks]
        yield from ((group, "") for group in _split_ties(slots, ranks))

    def _ranks(self, order: Order, slots: Slots) -> Array:
        """Return ranks in the requested order. Absent values are infinite, so they come last."""
        column = self._snapshot.columns[order.field]
        values = column.values[slots]
        if column.field.kind is Kind.STRING:  # the rank of each code's string among all of the field
            table = np.zeros(int(values.max(initial=0)) + 1)
            in_order = self._truth.strings.in_order(self._connection, order.field)
            known = np.fromiter((code for code, _ in in_order), dtype=np.int64)
            places = np.arange(len(known), dtype=np.float64)
            inside = known < len(table)
            table[known[inside]] = places[inside]
            ranks = table[values]
            ranks[values == 0] = np.nan
        elif column.field.kind is Kind.BOOLEAN:
            ranks = np.where(values > 1, np.nan, values.astype(np.float64))
        else:
            ranks = values
        ranks = -ranks if order.descending else ranks
        return np.where(np.isnan(ranks), np.inf, ranks)

    def _cursor_rank(self, order: Order, value: Scalar | None) -> float:
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

    def _rows_by_key(self, slots: Slots, after: str, most: int) -> list[int]:
        """Return the rows of the first ``most`` slots in order of keys, behind a key.

        A few slots are looked up one by one. If there are many, the index of keys is read in order.
        """
        live = max(1, int(np.count_nonzero(self._snapshot.alive)))
        if len(slots) * len(slots) * _LOOKUP <= most * live or len(slots) <= most:
            rows = self._snapshot.rows(slots)
            keyed = sorted((self._truth.key(self._connection, row), row) for row in rows)
            return [row for key, row in keyed if key > after][:most]
        wanted = np.zeros(len(self._snapshot.alive), dtype=np.bool_)
        wanted[slots] = True
        found: list[int] = []
        cursor = self._truth.keys(self._connection, after)
        while len(found) < most and (part := cursor.fetchmany(_AT_ONCE)):
            listed = np.array([row for row, _ in part], dtype=np.int64)
            found.extend(listed[wanted[listed - self._snapshot.origin]].tolist())
            give_way(self._connection)
        return found[:most]


def _split_ties(slots: Slots, ranks: list[Array]) -> list[Slots]:
    """Return the slots, which are in order of ranks, in groups of equal ranks."""
    if not len(slots):
        return []
    changed = np.zeros(len(slots) - 1, dtype=np.bool_)
    for rank in ranks:
        changed |= rank[1:] != rank[:-1]
    return np.split(slots, np.flatnonzero(changed) + 1)


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

        return self._cached_count(masks, where, ("count",), counted, joined)

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

        found: dict[Scalar, int] = self._cached_count(masks, where, ("tally", field), counted, joined)
        return found.copy()

    def bound(self, masks: Masks, order: Order, where: Filter, most: int) -> float:
        """Return the rank of hit ``most`` by a number; infinite if there are fewer, or texts are read."""
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

        found = self._cached_count(masks, where, ("bound", order, most), first, joined)
        return float(found[-1]) if len(found) == most else np.inf

    def _cached_count(
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
        with self._lock:
            kept: _CachedCount[T] | None = self._kept.get(key)  # type: ignore[assignment]
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is not None and kept.changes == snapshot.changes:
            return kept.value
        moved = None
        if kept is not None and kept.sweeps == masks.sweeps >= 0:
            # The changes are computed once for all counts of the same snapshot.
            moments = (kept.origin, kept.changes, snapshot.origin, snapshot.changes)
            known, moved = self._moved
            if known != moments:
                moved = kept.moved(snapshot, self._live_bits(snapshot))
                self._moved = (moments, moved)
        value = None
        if kept is not None and moved is not None:
            value = joined(kept.value, masks.over(moved.came), masks.over(moved.gone))
        if value is None:
            value = counted(masks)
        if not isinstance(value, dict) or len(value) <= MOST_VALUES:
            bits = self._live_bits(snapshot)
            slots = len(snapshot.alive)
            self._cache_count(
                key, _CachedCount(snapshot.origin, snapshot.changes, masks.sweeps, slots, bits, value)
            )
        return value

    def _live_bits(self, snapshot: ColumnSnapshot) -> Array:
        """Return one bit a slot: whether it is live. Computed once for each snapshot."""
        of, bits = self._packed
        if of is not snapshot.alive:
            bits = np.packbits(snapshot.alive)
            self._packed = (snapshot.alive, bits)
        return bits

    def _cache_count(self, key: tuple[object, ...], kept: _CachedCount[object]) -> None:
        with self._lock:
            known = self._kept.get(key)
            if known is None or known.changes <= kept.changes:
                self._kept[key] = kept
                self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
