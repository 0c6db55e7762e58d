"""A collection of the embedded engine over one table, behind the checks of all engines.

It is written by one thread: a few records in one commit with others, many of them in turns with others.
Several requests are answered at one moment, in one turn of the reading thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from msgspec import structs

from tabane.engine.checked_collection import CheckedCollection, CheckedNearest, CollectionEngine, EngineReads
from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_table import CollectionTable, LexicalFollower
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.database import give_way
from tabane.engine.embedded.masks import MOST_BEST, CountCache, Masks, RecordPaging, costly
from tabane.engine.embedded.truth import NumericKeys, Truth
from tabane.engine.embedded.vector_process import ForeseenMatches, VectorSearchProcess
from tabane.engine.embedded.vectors.space_index import Moment, VectorIndex
from tabane.engine.embedded.vectors.vector_search import VectorMatches, VectorSpaceSearch
from tabane.engine.input_checks import ALONE, MOST_ROWS, NUMERIC, RecordsCursor, is_long
from tabane.engine.vector_request import VectorRequest
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.engine import (
    EngineHit,
    EngineHits,
    Exchanged,
    LexicalQuery,
    ListedKeys,
    Order,
    Ranks,
    Similarities,
)
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, Scalar, Shape, StoredRecord

T = TypeVar("T")

MOST_TRIES = 100
BLOCK = 20_000  # records of a scan or listing at a time
_AT_ONCE = 4096  # rows or keys that are read between two pauses for others
_DENSE = 4  # times as many rows are sooner read in a row than looked up
_LOST = 2  # times that vectors are missing, and they are lost
_FEW = 20  # records that never wait for the index to catch up: so few cannot overload it
_NO_SPACES: Moment = {}


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

    # Records without a vector

    async def embedded(self, space: str, where: Filter) -> int:
        """Count the records that match and have a vector in ``space``."""
        return await self._table.read(
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
            epoch = self._truth.state(connection).epoch
            found = (self._truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self._table.read(reading, long=True)

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
        """Return records behind row ``after`` that match and lack a vector, in order of rows."""

        def reading(connection: sqlite3.Connection) -> list[StoredRecord]:
            masks, moment = at_one_moment(self._table, self._index, connection)
            storage = self._index.truth.spaces(connection).named(space)
            left, origin = masks.mask(where).copy(), masks.snapshot.origin
            places = moment[storage.space.name].rows - origin
            left[places[(places >= 0) & (places < len(left))]] = False
            left[: max(0, after + 1 - origin)] = False
            rows = (np.flatnonzero(left)[:limit] + origin).tolist()
            epoch = self._truth.state(connection).epoch
            found = (self._truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self._table.database.read(reading, long=True)

    def _mask_with_vector(self, masks: Masks, connection: sqlite3.Connection, space: str) -> Mask:
        """Mark the slots of the columns whose records have a vector."""
        snapshot = masks.snapshot
        having = np.zeros(len(snapshot.alive), dtype=np.bool_)
        having[snapshot.slots_at(self._rows(connection, snapshot.changes, space))] = True
        return having

    def _rows(self, connection: sqlite3.Connection, changes: int, space: str) -> Array:
        """Return the rows with a vector: from memory, or from the table if that moment is too long ago."""
        moment = self._index.moment(changes)
        if moment is not None and space in moment:
            return moment[space].rows
        storage = self._index.truth.spaces(connection).get(space)
        if storage is None:
            return np.empty(0, dtype=np.int64)
        return self._index.truth.placing(connection, storage).all()[1]


def _search(
    connection: sqlite3.Connection, request: VectorRequest, where: Filter, masks: Masks, moment: Moment
) -> VectorSpaceSearch:
    """Return a search over one moment, which gives way while it runs."""
    mask, origin = masks.mask(where), masks.snapshot.origin
    return VectorSpaceSearch(request, moment, mask, origin, partial(give_way, connection))


class JoinedReads(EngineReads):
    """Requests in the transaction of a connection, all answered as of its moment.

    ``sweeps``: those of the strings before the transaction began. ``foreseen``: hits that were found for the
    request ``first`` before its turn. They are used if all of them are still there. Methods never wait, so
    :func:`finished` can run what calls them.
    """

    def __init__(
        self,
        collection: StoredCollection,
        connection: sqlite3.Connection,
        sweeps: int,
        first: CheckedNearest | None = None,
        foreseen: ForeseenMatches | None = None,
    ) -> None:
        self._collection, self._connection, self._sweeps = collection, connection, sweeps
        self._first, self._foreseen = first, foreseen

    @property
    def shape(self) -> Shape:
        return self._collection.shape

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        _ = self.moment  # it is chosen now, and is not to change later
        return self._collection.table.truth.get(self._connection, keys)

    async def select(
        self, where: Filter, order: tuple[Order, ...], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        masks = self.moment[0]
        mask = self._near_mask(masks, where, order, most) if after is None else masks.mask(where)
        paging = RecordPaging(self._collection.table.truth, self._connection, masks.snapshot)
        return paging.page(mask, order, after, most)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        first = self.moment[0].firsts(field, order, where)
        rows = [row for rows in first.values() for row in rows]
        keys = self._collection.table.truth.keys_at(self._connection, rows)
        return {value: min(keys[row] for row in rows) for value, rows in first.items()}

    async def similarities(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        masks, spaces = self.moment
        return self._collection.queries().similarities_of(self._connection, masks, spaces, request, keys)

    async def nearest(self, request: VectorRequest, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        masks, spaces = self.moment
        queries, foreseen = self._collection.queries(), self._foreseen
        if foreseen is not None and self._first is not None and request is self._first.request:
            hits = queries.hits_of(self._connection, foreseen.matches, foreseen.origin)
            if hits is not None:
                return EngineHits(tuple(hits[:limit]), foreseen.matches.compared, foreseen.exact)
        return queries.nearest_of(self._connection, masks, spaces, request, where, limit, offset)

    @cached_property
    def moment(self) -> tuple[Masks, Moment]:
        """Return records, columns and vectors at the moment of the transaction."""
        table, spaces = self._collection.table, _NO_SPACES
        if table.vectors is None:
            masks = table.masks(self._connection)
        else:
            masks, spaces = at_one_moment(table, table.vectors, self._connection)
        masks.sweeps = self._sweeps
        return masks, spaces

    def _near_mask(self, masks: Masks, where: Filter, order: tuple[Order, ...], most: int) -> Mask:
        """Return the slots that may be among the first ``most`` matches, limited by a cached bound if any."""
        if len(order) != 1 or most > MOST_BEST or self.shape.field(order[0].field).kind not in NUMERIC:
            return masks.mask(where)
        # The bound is infinite if texts are asked too.
        bound = self._collection.tallies.bound(masks, order[0], where, most)
        if bound == np.inf:
            return masks.mask(where)
        snapshot = masks.snapshot
        values = snapshot.columns[order[0].field].values
        mask = snapshot.alive & (values >= -bound if order[0].descending else values <= bound)
        near = np.flatnonzero(mask)
        mask[near] = masks.over(snapshot.only(near)).mask(where)
        return mask


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, and return its result. Raises RuntimeError if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("requests that are joined may not wait for anything else")


class StoredCollection(CollectionEngine):
    """An open collection. :class:`CollectionEngine` documents its methods."""

    most_rows = 1000  # that are written in turns with others, before there must be room again
    most_bytes = 16_000_000

    def __init__(
        self,
        table: CollectionTable,
        lexical: LexicalFollower | None = None,
        process: VectorSearchProcess | None = None,
    ) -> None:
        """``process`` searches vectors while many questions wait. It is closed with the collection."""
        self.table = table
        self._keys = NumericKeys(table.truth)
        self.tallies = CountCache()
        self._process = process
        self.lexical = lexical
        if lexical is not None:
            table.follow(lexical)
        table.tidy()
        self._queries: VectorQueries | None = None  # created by the first query
        self._exchanging = asyncio.Lock()

    @property
    def shape(self) -> Shape:
        return self.table.shape

    @property
    def changes(self) -> int:
        return self.table.columns.snapshot().changes

    async def add_space(self, space: EmbeddingSpace) -> None:
        await self.table.respace(lambda connection, spaces: spaces.add(connection, space))

    async def drop_space(self, name: str) -> None:
        await self.table.respace(lambda connection, spaces: spaces.drop(connection, name))

    async def succeed(self, name: str, by: str) -> None:
        await self.table.respace(lambda connection, spaces: spaces.succeed(connection, name, by))

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str]) -> list[bool]:
        if self.lexical is not None and len(records) > _FEW:
            await self.lexical.room()
        if is_long(records):  # in turns with others; a few in one commit with others
            return await self.table.upsert(records, models)
        change = await self.table.write(
            lambda connection: self.table.truth.upsert(connection, records, models), len(records)
        )
        return change.results

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        if rows <= MOST_ROWS:
            return await self._exchanged(records, gone, rows, models)
        async with self._exchanging:  # each waits for room, and then for none of the others that did
            if self.lexical is None:
                return await self._exchanged(records, gone, rows, models)
            async with self.lexical.ahead(records):
                return await self._exchanged(records, gone, rows, models)

    async def _exchanged(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        if self.lexical is not None and rows > _FEW:
            await self.lexical.room()
        return Exchanged(*await self.table.exchange(records, gone, rows, models))

    async def replicate(self, records: Sequence[Record], gone: Sequence[str]) -> None:
        """Make records exactly as given, and delete keys, in one commit.

        The records are those of another engine, which has checked them.
        """
        if self.lexical is not None:
            await self.lexical.room()
        await self.table.replicate(records, gone, max(len(records) + len(gone), ALONE))

    async def settle(self) -> None:
        """Wait until the keyword index has all that was written."""
        if self.lexical is not None:
            await self.lexical.settled()

    async def delete(self, keys: Sequence[str]) -> int:
        change = await self.table.write(
            lambda connection: self.table.truth.delete(connection, keys), len(keys)
        )
        return len(change.deleted)

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]], model: str, epoch: int | None) -> int:
        return await self.table.attach(vectors, model, epoch)

    # Requests that can be joined

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        return await self.table.database.read(lambda connection: self.table.truth.get(connection, keys))

    async def select(
        self, where: Filter, order: tuple[Order, ...], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        return await self._read(lambda reads: reads.select(where, order, after, most), long=costly(where))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        return await self._read(lambda reads: reads.firsts(field, order, where), long=True)

    async def similarities(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        return await self._read(lambda reads: reads.similarities(request, keys), long=False)

    async def nearest(self, request: VectorRequest, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        long = len(request.vectors) > 1 or costly(where)
        return await self._read(lambda reads: reads.nearest(request, where, limit, offset), long=long)

    async def together(
        self,
        work: Callable[[EngineReads], Coroutine[Any, Any, T]],
        *,
        long: bool,
        first: CheckedNearest | None,
    ) -> T:
        if self._process is None or first is None:
            return await self._read(work, long=long)
        with self._process.counted():
            foreseen = await self._foreseen(self._process, first) if self._process.is_wanted else None
            return await self._read(work, long=long, first=first, foreseen=foreseen)

    async def _read(
        self,
        work: Callable[[EngineReads], Coroutine[Any, Any, T]],
        *,
        long: bool,
        first: CheckedNearest | None = None,
        foreseen: ForeseenMatches | None = None,
    ) -> T:
        sweeps = self.table.truth.strings.sweeps  # before the moment is chosen: see there

        def reading(connection: sqlite3.Connection) -> T:
            return finished(work(JoinedReads(self, connection, sweeps, first, foreseen)))

        return await self.table.database.read(reading, long=long)

    async def _foreseen(self, process: VectorSearchProcess, first: CheckedNearest) -> ForeseenMatches | None:
        """Return the hits of a request about all records, if the process finds them."""
        vectors, snapshot = self.table.vectors, self.table.columns.snapshot()
        moment = None if vectors is None else vectors.moment(snapshot.changes)
        if moment is None or first.where != EVERYTHING:
            return None
        if first.request.strict or first.request.multiplied:  # others would wait for it
            return None
        return await process.search(snapshot, moment, first.request, first.limit)

    # Texts

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        if self.lexical is None:
            raise StoreError(say("{collection} has no keyword index", collection=self.shape.name))
        return await self.lexical.search(query, where, limit, offset)

    # Vectors

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        return await self.queries().vectors(keys, space)

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
        return await self.queries().lacking(space, after, limit, where)

    async def embedded(self, space: str, where: Filter) -> int:
        return await self.queries().embedded(space, where)

    async def waiting(
        self, space: str, where: Filter, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        return await self.queries().newest(space, where, newest, skip, limit)

    def scan(self, request: VectorRequest, where: Filter) -> AsyncIterator[Similarities]:
        return self.queries().scan(request, where)

    def ranking(self, request: VectorRequest, where: Filter) -> AsyncIterator[Ranks]:
        return self.queries().ranking(request, where)

    def queries(self) -> VectorQueries:
        """Return the vector queries. The caller found a space in the shape, so there is an index."""
        if self._queries is None:
            assert self.table.vectors is not None
            self._queries = VectorQueries(self.table, self.table.vectors, self._keys)
        return self._queries

    # Counts

    async def facet(self, field: str, where: Filter, limit: int) -> list[tuple[Scalar, int]]:
        return await self.table.read(lambda masks, _: masks.facet(field, where, limit), long=True)

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        return await self.table.read(lambda masks, _: self.tallies.tally(masks, field, where), long=True)

    async def count(self, where: Filter) -> int:
        return await self.table.read(lambda masks, _: self.tallies.count(masks, where), long=costly(where))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        return await self.table.read(lambda masks, _: masks.histogram(field, bounds, where), long=True)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        def reading(masks: Masks, connection: sqlite3.Connection) -> Array:
            self._keys.read_on(connection, masks.snapshot.origin + len(masks.snapshot.alive))
            return masks.arranged(order, where)

        rows = await self.table.read(reading, long=True)
        for first in range(0, len(rows), BLOCK):
            block = rows[first : first + BLOCK]
            keys = self._keys.of(block)
            if keys is None:  # they are no numbers, so deleted rows are left out
                wanted: list[int] = block.tolist()
                live = await self.table.database.read(
                    lambda connection, wanted=wanted: self.table.truth.keys_at(connection, wanted),  # type: ignore[misc]
                    long=True,
                )
                keys = [live[row] for row in wanted if row in live]
            yield ListedKeys(keys, len(rows))

    # Care

    async def agrees(self) -> bool:
        """Return whether the derived data agrees with the records. Reads everything; used by checks only."""
        if not await self.table.agrees() or not await self.table.vectors_agree():
            return False
        return self.lexical is None or await self.lexical.agrees()

    async def compact(self) -> None:
        """Free the space of deleted and replaced records. It happens automatically if there are many."""
        await self.table.compact()

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()
        await self.table.close()
        if self.lexical is not None:
            await self.lexical.close()


def checked_collection(
    table: CollectionTable, lexical: LexicalFollower | None, process: VectorSearchProcess | None
) -> CheckedCollection[StoredCollection]:
    """Return the collection of an open table, which is closed with it."""
    return CheckedCollection(StoredCollection(table, lexical, process))
