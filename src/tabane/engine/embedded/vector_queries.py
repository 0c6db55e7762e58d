"""Queries over the vectors of a collection: nearest records, similarities, vectors, and who lacks one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.database import give_way
from tabane.engine.embedded.masks import Masks
from tabane.engine.embedded.truth import NumericKeys, Truth
from tabane.engine.embedded.vectors.space_index import Moment, VectorIndex
from tabane.engine.embedded.vectors.vector_search import VectorMatches, VectorSpaceSearch
from tabane.engine.vector_request import VectorRequest
from tabane.search.engine import EngineHit, EngineHits, Ranks, Similarities
from tabane.search.records import Filter, StoredRecord

MOST_TRIES = 100


def at_one_moment(
    table: CollectionTable, index: VectorIndex, connection: sqlite3.Connection
) -> tuple[Masks, Moment]:
    """Return records, columns and vectors of one moment: that of the connection's transaction.

    The transaction is started again if so many writes came in between that the moment is not in memory
    any more. Raises StoreBusy if that happens again and again.
    """
    for _ in range(MOST_TRIES):
        masks = table.masks(connection)
        moment = index.moment(masks.snapshot.changes)
        if moment is not None:
            return masks, moment
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
    raise failures.busy(table.database.path)


@dataclass(frozen=True, slots=True)
class VectorCoverage:
    """Records without a vector. All arguments are checked already."""

    table: CollectionTable
    index: VectorIndex

    async def embedded(self, space: str, where: Filter) -> int:
        """Count the records that match and have a vector in ``space``."""
        return await self.table.read(
            lambda masks, connection: int(
                np.count_nonzero(masks.mask(where) & self._mask_with_vector(masks, connection, space))
            )
        )

    async def newest(
        self, space: str, where: Filter, field: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        """Return records that match and lack a vector, newest first. ``skip`` of them are passed over."""

        def reading(masks: Masks, connection: sqlite3.Connection) -> list[StoredRecord]:
            lacking = masks.mask(where) & ~self._mask_with_vector(masks, connection, space)
            times = None if field is None else masks.snapshot.columns[field].values
            slots = _newest_slots(np.flatnonzero(lacking), times, skip, limit)
            rows = masks.snapshot.rows(slots)
            epoch = self.table.truth.state(connection).epoch
            found = (self.table.truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self.table.read(reading, long=True)

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
        """Return records behind row ``after`` that match and lack a vector, in order of rows."""

        def reading(connection: sqlite3.Connection) -> list[StoredRecord]:
            masks, moment = at_one_moment(self.table, self.index, connection)
            storage = self.index.truth.spaces(connection).named(space)
            left, origin = masks.mask(where).copy(), masks.snapshot.origin
            places = moment[storage.space.name].rows - origin
            left[places[(places >= 0) & (places < len(left))]] = False
            left[: max(0, after + 1 - origin)] = False
            rows = (np.flatnonzero(left)[:limit] + origin).tolist()
            epoch = self.table.truth.state(connection).epoch
            found = (self.table.truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self.table.database.read(reading, long=True)

    def _mask_with_vector(self, masks: Masks, connection: sqlite3.Connection, space: str) -> Mask:
        """Mark the slots of the columns whose records have a vector."""
        snapshot = masks.snapshot
        having = np.zeros(len(snapshot.alive), dtype=np.bool_)
        having[snapshot.slots_at(self._rows(connection, snapshot.changes, space))] = True
        return having

    def _rows(self, connection: sqlite3.Connection, changes: int, space: str) -> Array:
        """Return the rows with a vector: from memory, or from the table if that moment is too long ago."""
        moment = self.index.moment(changes)
        if moment is not None and space in moment:
            return moment[space].rows
        storage = self.index.truth.spaces(connection).get(space)
        if storage is None:
            return np.empty(0, dtype=np.int64)
        return self.index.truth.placing(connection, storage).all()[1]


def _newest_slots(slots: Array, times: Array | None, skip: int, limit: int) -> Array:
    """Order slots by time, newest first and those without a time last, and return one part of them."""
    latest = slots[::-1]
    if times is not None:
        known = times[latest]
        ages = np.where(np.isnan(known), np.inf, -known)
        if len(ages) > skip + limit:  # sorting a few is cheaper than sorting all
            near = ages <= np.partition(ages, skip + limit)[skip + limit]
            latest, ages = latest[near], ages[near]
        latest = latest[np.argsort(ages, kind="stable")]
    return latest[skip : skip + limit]


class SortedSimilarities:
    """Rows by their similarities, highest first, equal ones in order of rows. For one thread at a time."""

    def __init__(self, rows: Array, similarities: Sequence[Array]) -> None:
        self._rows = rows
        self._similarities = np.concatenate(similarities)
        self._rest: Array | None = None

    def block(self, first: int, size: int) -> tuple[Array, Array]:
        """Return the rows of a block and their similarities. Blocks are requested in order, from 0 on."""
        if first == 0:
            distances = -self._similarities
            near = np.arange(len(distances))
            if len(distances) > size:  # those behind the first block are sorted when they are asked for
                near = np.flatnonzero(distances <= np.partition(distances, size - 1)[size - 1])
            places = near[np.argsort(distances[near], kind="stable")][:size]
        else:
            if self._rest is None:
                self._rest = np.argsort(-self._similarities, kind="stable")
            places = self._rest[first : first + size]
        return self._rows[places], self._similarities[places]


BLOCK = 20_000  # records of a scan at a time
_AT_ONCE = 4096  # keys that are read between two pauses for others
_DENSE = 4  # times as many rows are sooner read in a row than looked up
_LOST = 2  # times that vectors are missing, and they are lost


@dataclass(frozen=True, slots=True)
class _VectorScan:
    """All that can be compared, as of one moment."""

    search: VectorSpaceSearch
    rows: Array
    slots: list[Array]


class VectorQueries:
    """The vectors of one table, for readers. Everything asked is checked already."""

    def __init__(self, table: CollectionTable, index: VectorIndex, keys: NumericKeys) -> None:
        self._table = table
        self._index = index
        self._keys = keys

    @property
    def _truth(self) -> Truth:
        return self._table.truth

    def nearest_of(
        self,
        connection: sqlite3.Connection,
        masks: Masks,
        moment: Moment,
        request: VectorRequest,
        where: Filter,
        limit: int,
        offset: int,
    ) -> EngineHits:
        """Return the nearest records of a moment, which is that of the connection's transaction. Blocks."""
        self._check_spaces(connection, moment, request)
        found = _search(connection, request, where, masks, moment).best(limit + offset)
        hits = self.hits_of(connection, found, masks.snapshot.origin)
        assert hits is not None  # a match is live at its own moment
        exact = found.whole or request.threshold is None
        return EngineHits(tuple(hits[offset : offset + limit]), found.compared, exact)

    def _search(
        self, connection: sqlite3.Connection, request: VectorRequest, where: Filter
    ) -> tuple[Masks, VectorSpaceSearch]:
        """Return masks and a search of one moment, that of the connection's transaction.

        Raises BadArguments if the spaces of that moment are others than those that the request was made for.
        """
        masks, moment = at_one_moment(self._table, self._index, connection)
        self._check_spaces(connection, moment, request)
        return masks, _search(connection, request, where, masks, moment)

    def _check_spaces(self, connection: sqlite3.Connection, moment: Moment, request: VectorRequest) -> None:
        for name, vector in request.vectors.items():
            if name not in moment or moment[name].dimension != len(vector):
                self._index.truth.spaces(connection).fitting(name, vector.tobytes())

    def hits_of(
        self, connection: sqlite3.Connection, found: VectorMatches, origin: int
    ) -> list[EngineHit] | None:
        """Return matches as hits; None if some of their records were replaced or deleted. Blocks."""
        rows = (found.places + origin).tolist()
        keys = self._truth.keys_at(connection, rows)
        if len(keys) < len(rows):
            return None
        scored = zip(rows, found.scores.tolist(), strict=True)
        return sorted(
            (EngineHit(keys[row], row, score) for row, score in scored), key=lambda hit: (-hit.score, hit.key)
        )

    async def scan(self, request: VectorRequest, where: Filter) -> AsyncIterator[Similarities]:
        """Yield the similarities of all matching records in order of rows, in blocks of 20,000."""

        def begin(connection: sqlite3.Connection) -> _VectorScan:
            masks, search = self._search(connection, request, where)
            places, slots = search.places()
            return _VectorScan(search, places + masks.snapshot.origin, slots)

        scan = await self._table.database.read(begin, long=True)
        for first in range(0, len(scan.rows), BLOCK):
            yield await self._table.database.read(
                lambda connection, first=first: self._scan_block(connection, scan, first),  # type: ignore[misc]
                long=True,
            )

    def _scan_block(self, connection: sqlite3.Connection, scan: _VectorScan, first: int) -> Similarities:
        part = slice(first, first + BLOCK)
        rows, slots = scan.rows[part], [each[part] for each in scan.slots]
        snapshot = self._table.masks(connection).snapshot
        known = np.flatnonzero((rows >= snapshot.origin) & (rows < snapshot.origin + len(snapshot.alive)))
        there = np.zeros(len(rows), dtype=np.bool_)
        there[known] = snapshot.alive[rows[known] - snapshot.origin]
        if not there.all():
            rows, slots = rows[there], [each[there] for each in slots]
        similarities = scan.search.similarities(slots).tolist()
        return Similarities(self._keys_of(connection, rows), rows.tolist(), similarities)

    def _keys_of(self, connection: sqlite3.Connection, rows: Array) -> list[str]:
        """Return the keys of live rows that are in order: from memory, if they are numbers.

        Block by block they come there. If a filter leaves out much, its rows alone are looked up.
        """
        if not len(rows):
            return []
        first, following = int(rows[0]), int(rows[-1]) + 1
        if self._keys.behind(connection, following) <= 2 * BLOCK:
            self._keys.read_on(connection, following)
        keys = self._keys.of(rows)
        if keys is None:
            if following - first <= _DENSE * len(rows):
                found: dict[int, str] = {}
                for begin in range(first, following, _AT_ONCE):
                    found |= self._truth.keys_between(connection, begin, min(begin + _AT_ONCE, following) - 1)
                    give_way(connection)
            else:
                found = self._truth.keys_at(connection, rows.tolist())
            keys = [found[row] for row in rows.tolist()]
        return keys

    async def ranking(self, request: VectorRequest, where: Filter) -> AsyncIterator[Ranks]:
        """Yield all records that can be compared, most similar first, in blocks of 20,000."""

        def begin(connection: sqlite3.Connection) -> _VectorScan:
            masks, search = self._search(connection, request, where)
            places, slots = search.places()
            self._keys.read_on(connection, masks.snapshot.origin + len(masks.snapshot.alive))
            return _VectorScan(search, places + masks.snapshot.origin, slots)

        scan = await self._table.database.read(begin, long=True)
        half = len(scan.rows) // 2
        parts = await asyncio.gather(
            *(
                asyncio.to_thread(scan.search.similarities, [each[part] for each in scan.slots])
                for part in (slice(0, half), slice(half, None))
            )
        )
        order = SortedSimilarities(scan.rows, parts)
        for first in range(0, len(scan.rows), BLOCK):
            rows, similarities = await asyncio.to_thread(order.block, first, BLOCK)
            keys = self._keys.of(rows)
            if keys is None:  # they are no numbers, so records that are gone are left out
                listed: list[int] = rows.tolist()
                found = await self._table.database.read(
                    lambda connection, listed=listed: self._truth.keys_at(connection, listed),  # type: ignore[misc]
                    long=True,
                )
                keys = [found[row] for row in listed if row in found]
                similarities = similarities[[row in found for row in listed]]
            yield Ranks(keys, similarities.tolist(), len(scan.rows))

    def similarities_of(
        self,
        connection: sqlite3.Connection,
        masks: Masks,
        moment: Moment,
        request: VectorRequest,
        keys: Sequence[str],
    ) -> list[float | None]:
        """Return the similarities of records at a moment: that of the connection's transaction. Blocks."""
        question = replace(request, threshold=None)
        self._check_spaces(connection, moment, question)
        rows = self._truth.rows_of(connection, keys)
        mask = np.zeros(len(masks.snapshot.alive), dtype=np.bool_)
        mask[masks.snapshot.slots_of(row for row in rows if row)] = True
        found = VectorSpaceSearch(question, moment, mask, masks.snapshot.origin).best(max(1, len(keys)))
        places = (found.places + masks.snapshot.origin).tolist()
        scores = dict(zip(places, found.scores.tolist(), strict=True))
        return [None if row is None else scores.get(row) for row in rows]

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        """Return the vector of each record in a space as it was given; None if it has none."""
        truth = self._index.truth

        def reading(connection: sqlite3.Connection) -> list[bytes | None]:
            for again in range(MOST_TRIES):
                storage = truth.spaces(connection).named(space)
                numbers = truth.numbers(connection, storage, self._truth.rows_of(connection, keys))
                found = truth.files.vectors(storage, (number for number in numbers if number))
                if again == _LOST or all(number in found for number in numbers if number):
                    break
                # Some were replaced and deleted since the transaction began, or lost: look again.
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
            return [found.get(number) for number in numbers]

        return await self._table.database.read(reading)


def _search(
    connection: sqlite3.Connection, request: VectorRequest, where: Filter, masks: Masks, moment: Moment
) -> VectorSpaceSearch:
    """Return a search over one moment, which gives way while it runs."""
    mask, origin = masks.mask(where), masks.snapshot.origin
    return VectorSpaceSearch(request, moment, mask, origin, lambda: give_way(connection))
