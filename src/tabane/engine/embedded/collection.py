"""A collection of the embedded engine over one table, behind the checks of all engines.

It is written by one thread: a few records in one commit with others, many of them in turns with others.
Several requests are answered at one moment, in one turn of the reading thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tabane.engine.checked_collection import CheckedCollection, CheckedNearest, CollectionEngine, EngineReads
from tabane.engine.embedded.collection_table import CollectionTable, LexicalFollower
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.masks import MOST_BEST, CountCache, Masks, RecordPaging, costly
from tabane.engine.embedded.truth import NumericKeys
from tabane.engine.embedded.vector_process import ForeseenMatches, VectorSearchProcess
from tabane.engine.embedded.vector_queries import VectorCoverage, VectorQueries, at_one_moment
from tabane.engine.embedded.vectors.space_index import Moment
from tabane.engine.input_checks import ALONE, MOST_ROWS, NUMERIC, RecordsCursor, is_long
from tabane.engine.vector_request import VectorRequest
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.engine import (
    EngineHits,
    Exchanged,
    LexicalQuery,
    ListedKeys,
    Order,
    Ranks,
    Similarities,
)
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, Scalar, Shape, StoredRecord

_NO_SPACES: Moment = {}


LISTED = 20_000
"""Keys of a block."""


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


T = TypeVar("T")

_FEW = 20  # records that never wait for the index to catch up: so few cannot overload it


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
        return await self._coverage().lacking(space, after, limit, where)

    async def embedded(self, space: str, where: Filter) -> int:
        return await self._coverage().embedded(space, where)

    async def waiting(
        self, space: str, where: Filter, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        return await self._coverage().newest(space, where, newest, skip, limit)

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

    def _coverage(self) -> VectorCoverage:
        assert self.table.vectors is not None  # as above
        return VectorCoverage(self.table, self.table.vectors)

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
        for first in range(0, len(rows), LISTED):
            block = rows[first : first + LISTED]
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
