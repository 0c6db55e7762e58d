"""A collection of the embedded engine: the protocols of :mod:`tabane.search.engine` over one table.

Input of callers is checked here, and written by one thread: a few records in one commit with others, many
of them in turns with others.

Several requests to a collection, answered at one moment in one turn of the reading thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import structs

from tabane.engine import input_checks
from tabane.engine.embedded.collection_table import CollectionTable, LexicalFollower
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.masks import MOST_BEST, CountCache, Masks, RecordPaging, costly
from tabane.engine.embedded.truth import NumericKeys
from tabane.engine.embedded.vector_process import ForeseenMatches, VectorSearchProcess
from tabane.engine.embedded.vector_queries import VectorCoverage, VectorQueries, at_one_moment
from tabane.engine.embedded.vectors.space_index import Moment
from tabane.engine.input_checks import (
    ALONE,
    MOST_ROWS,
    RecordsCursor,
    check_bounds,
    check_numeric,
    check_page,
    check_string,
    check_textual,
    checked_keys,
)
from tabane.engine.vector_request import checked_request
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search import records
from tabane.search.engine import (
    Capability,
    Collection,
    EngineHits,
    Exchanged,
    JoinedRecords,
    LexicalQuery,
    ListedKeys,
    NearestRequest,
    Order,
    Ranks,
    SelectedPage,
    Similarities,
    VectorQuery,
)
from tabane.search.records import (
    EVERYTHING,
    EmbeddingSpace,
    Filter,
    Record,
    Scalar,
    Shape,
    StoredRecord,
    checked_key,
    checked_space,
    unconditional,
)

_NO_SPACES: Moment = {}


LISTED = 20_000
"""Keys of a block."""


class RecordSelection(NamedTuple):
    """A checked request for a page of records."""

    where: Filter
    order: tuple[Order, ...]
    cursor: RecordsCursor | None
    limit: int


@dataclass(frozen=True, slots=True)
class ForeseenHits:
    """Hits that were found for a request before its turn, as of the moment at which it was made."""

    request: NearestRequest
    found: ForeseenMatches

    def answers(self, query: VectorQuery, where: Filter, limit: int) -> bool:
        """Return whether these are the hits of a request: the same query, filter and limit."""
        request = self.request
        return query is request.query and where is request.where and limit == request.limit


class JoinedReads(JoinedRecords):
    """The requests of :class:`tabane.search.engine.JoinedRecords`, in the transaction of a connection.

    ``vectors`` returns the vector queries, if a space was found. ``sweeps``: those of the strings before the
    transaction began. ``foreseen``: hits of a later request. They are used if all of them are still there.
    Methods never wait, so :func:`finished` can run what calls them.
    """

    def __init__(
        self,
        collection: StoredCollection,
        vectors: Callable[[], VectorQueries],
        connection: sqlite3.Connection,
        sweeps: int,
        foreseen: ForeseenHits | None = None,
    ) -> None:
        self._collection, self._vectors = collection, vectors
        self._connection, self._sweeps, self._foreseen = connection, sweeps, foreseen

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        ready = checked_keys(keys)
        self._moment  # noqa: B018  (it chooses the moment, which is not to change later)
        return self._collection.table.truth.get(self._connection, ready)

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        request = self._collection.checked_selection(where, order, after, limit)
        return self._collection.page_of(self._masks, self._connection, request)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        condition = self._collection.checked_firsts(field, order, where)
        return self._collection.firsts_of(self._masks, self._connection, field, order, condition)

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        ready = checked_keys(keys)
        request = checked_request(query, self._collection.shape)
        masks, spaces = self._moment
        return self._vectors().similarities_of(self._connection, masks, spaces, request, ready)

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_page(limit, offset)
        foreseen = self._foreseen
        if foreseen is not None and not offset and foreseen.answers(query, where, limit):
            self._moment  # noqa: B018  (as above)
            hits = self._vectors().hits_of(self._connection, foreseen.found.matches, foreseen.found.origin)
            if hits is not None:
                return EngineHits(tuple(hits[:limit]), foreseen.found.matches.compared, foreseen.found.exact)
        shape = self._collection.shape
        request, condition = checked_request(query, shape), records.checked_filter(where, shape)
        masks, spaces = self._moment
        return self._vectors().nearest_of(self._connection, masks, spaces, request, condition, limit, offset)

    @property
    def _masks(self) -> Masks:
        return self._moment[0]

    @cached_property
    def _moment(self) -> tuple[Masks, Moment]:
        """Return records, columns and vectors at the moment of the transaction."""
        table, spaces = self._collection.table, _NO_SPACES
        if table.vectors is None:
            masks = table.masks(self._connection)
        else:
            masks, spaces = at_one_moment(table, table.vectors, self._connection)
        masks.sweeps = self._sweeps
        return masks, spaces


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

_OF_VECTORS = frozenset({Capability.VECTOR, Capability.SCAN})
_FEW = 20  # records that never wait for the index to catch up: so few cannot overload it


class StoredCollection(Collection):
    """An open collection. :class:`tabane.search.engine.Records` and ``Index`` document its methods."""

    def __init__(
        self,
        table: CollectionTable,
        lexical: LexicalFollower | None = None,
        process: VectorSearchProcess | None = None,
    ) -> None:
        """``process`` searches vectors while many questions wait. It is closed with the collection."""
        self.table = table
        self._keys = NumericKeys(table.truth)
        self._tallies = CountCache()
        self._process = process
        self.lexical = lexical
        if lexical is not None:
            table.follow(lexical)
        table.tidy()
        self._asking: VectorQueries | None = None  # created by the first query
        self._exchanging = asyncio.Lock()

    @property
    def shape(self) -> Shape:
        return self.table.shape

    @property
    def changes(self) -> int:
        return self.table.columns.snapshot().changes

    @property
    def capabilities(self) -> frozenset[Capability]:
        lexical = self.lexical.capabilities if self.lexical is not None else frozenset()
        return lexical | (_OF_VECTORS if self.shape.spaces else frozenset())

    @property
    def remark(self) -> None:
        return None

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        return self.shape.spaces

    async def add_space(self, space: EmbeddingSpace) -> None:
        ready = checked_space(space)
        if not any(there.name == ready.name and there.takes(ready) for there in self.spaces):
            await self.table.respace(lambda connection, spaces: spaces.add(connection, ready))

    async def drop_space(self, name: str) -> None:
        if any(space.name == name for space in self.spaces):
            await self.table.respace(lambda connection, spaces: spaces.drop(connection, name))

    async def succeed(self, name: str, by: str) -> None:
        self.shape.space(by)
        checked_space(structs.replace(self.shape.space(by), name=name))
        await self.table.respace(lambda connection, spaces: spaces.succeed(connection, name, by))

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        known = models or {}
        ready = await input_checks.checked_records(records, self.shape, known)
        results: list[bool] = []
        for part in input_checks.cut(ready, input_checks.MOST_OF_LONG, input_checks.MOST_BYTES_OF_LONG):
            if self.lexical is not None and len(part) > _FEW:
                await self.lexical.room()
            if input_checks.is_long(part):  # in turns with others; a few in one commit with others
                results += await self.table.upsert(part, known)
                continue
            change = await self.table.write(
                lambda connection, part=part: self.table.truth.upsert(connection, part, known),  # type: ignore[misc]
                len(part),
            )
            results += change.results
        return results

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str] = (), models: Mapping[str, str] | None = None
    ) -> Exchanged:
        input_checks.check_count(records, gone)
        known = models or {}
        ready = await input_checks.checked_records(records, self.shape, known)
        keys, rows = await input_checks.checked_exchange(ready, gone)
        if rows <= _FEW:
            return await self._exchanged(ready, keys, rows, known)
        if rows <= MOST_ROWS:
            return await self._exchanged_with_room(ready, keys, rows, known)
        async with self._exchanging:  # each waits for room, and then for none of the others that did
            if self.lexical is None:
                return await self._exchanged(ready, keys, rows, known)
            async with self.lexical.ahead(ready):
                return await self._exchanged_with_room(ready, keys, rows, known)

    async def _exchanged_with_room(
        self, records: list[Record], gone: list[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        if self.lexical is not None:
            await self.lexical.room()
        return await self._exchanged(records, gone, rows, models)

    async def _exchanged(
        self, records: list[Record], gone: list[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
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
        ready = [checked_key(key) for key in keys]
        removed = 0
        for first in range(0, len(ready), MOST_ROWS):
            part = ready[first : first + MOST_ROWS]
            change = await self.table.write(
                lambda connection, part=part: self.table.truth.delete(connection, part),  # type: ignore[misc]
                len(part),
            )
            removed += len(change.deleted)
        return removed

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        ready = checked_keys(keys)
        return await self.table.database.read(lambda connection: self.table.truth.get(connection, ready))

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        request = self.checked_selection(where, order, after, limit)
        return await self.table.read(
            lambda masks, connection: self.page_of(masks, connection, request), long=costly(request.where)
        )

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        check_page(limit)
        self.shape.field(field)
        condition = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: masks.facet(field, condition, limit), long=True)

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_page(limit, offset)
        self.shape.text_names(query.fields)
        condition = records.checked_filter(where, self.shape)
        if self.lexical is None or Capability.LEXICAL not in self.capabilities:
            raise StoreError(say("{collection} has no keyword index", collection=self.shape.name))
        return await self.lexical.search(query, condition, limit, offset)

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        ready = input_checks.checked_attachment(vectors, self.shape, model)
        rows, live = list(ready), 0
        for first in range(0, len(rows), MOST_ROWS):
            part = {row: ready[row] for row in rows[first : first + MOST_ROWS]}
            live += await self.table.attach(part, model, epoch)
        return live

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        ready = checked_keys(keys)
        self.shape.space(space)
        return await self._vectors().vectors(ready, space)

    async def lacking(
        self, space: str, after: int = 0, limit: int = 100, where: Filter = EVERYTHING
    ) -> list[StoredRecord]:
        check_page(limit)
        self.shape.space(space)
        return await self._waiting().lacking(space, after, limit, records.checked_filter(where, self.shape))

    async def embedded(self, space: str, where: Filter) -> int:
        condition = records.checked_filter(where, self.shape)
        if not any(each.name == space for each in self.spaces):
            return 0
        return await self._waiting().embedded(space, condition)

    async def waiting(
        self, space: str, where: Filter, newest: str | None = None, skip: int = 0, limit: int = 100
    ) -> list[StoredRecord]:
        check_page(limit)
        self.shape.space(space)
        if newest is not None:
            check_numeric(self.shape.field(newest), "waiting")
        condition = records.checked_filter(where, self.shape)
        return await self._waiting().newest(space, condition, newest, skip, limit)

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        ready, request = checked_keys(keys), checked_request(query, self.shape)
        return await self._vectors().similarities(request, ready)

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_page(limit, offset)
        request, condition = checked_request(query, self.shape), records.checked_filter(where, self.shape)
        return await self._vectors().nearest(request, condition, limit, offset)

    async def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        request, condition = checked_request(query, self.shape), records.checked_filter(where, self.shape)
        async for block in self._vectors().scan(request, condition):
            yield block

    async def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        request, condition = checked_request(query, self.shape), records.checked_filter(where, self.shape)
        async for block in self._vectors().ranking(request, condition):
            yield block

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        process = self._process if first is not None else None
        with process.counted() if process is not None else contextlib.nullcontext():
            foreseen = None
            if process is not None and first is not None and process.is_wanted:
                foreseen = await self._foreseen(process, first)
            sweeps = self.table.truth.strings.sweeps  # before the moment is chosen: see there

            def reading(connection: sqlite3.Connection) -> T:
                return finished(work(JoinedReads(self, self._vectors, connection, sweeps, foreseen)))

            return await self.table.database.read(reading, long=long)

    async def _foreseen(self, process: VectorSearchProcess, first: NearestRequest) -> ForeseenHits | None:
        """Return the hits of a request about all records, if the process finds them."""
        vectors, snapshot = self.table.vectors, self.table.columns.snapshot()
        moment = None if vectors is None else vectors.moment(snapshot.changes)
        if moment is None or not unconditional(first.where):
            return None
        request = checked_request(first.query, self.shape)
        if request.strict or request.multiplied:  # others would wait for it
            return None
        found = await process.search(snapshot, moment, request, first.limit)
        return None if found is None else ForeseenHits(first, found)

    def _vectors(self) -> VectorQueries:
        """Return the vector queries. The caller found a space in the shape, so there is an index."""
        if self._asking is None:
            assert self.table.vectors is not None
            self._asking = VectorQueries(self.table, self.table.vectors, self._keys)
        return self._asking

    def _waiting(self) -> VectorCoverage:
        assert self.table.vectors is not None  # as above
        return VectorCoverage(self.table, self.table.vectors)

    # Counts

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        check_textual(self.shape.field(field), "tally")
        condition = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.tally(masks, field, condition), long=True)

    async def count(self, where: Filter) -> int:
        condition = records.checked_filter(where, self.shape)
        return await self.table.read(
            lambda masks, _: self._tallies.count(masks, condition), long=costly(condition)
        )

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        check_bounds(bounds)
        check_numeric(self.shape.field(field), "histogram")
        condition = records.checked_filter(where, self.shape)
        return await self.table.read(lambda masks, _: masks.histogram(field, bounds, condition), long=True)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        condition = self.checked_firsts(field, order, where)
        return await self.table.read(
            lambda masks, connection: self.firsts_of(masks, connection, field, order, condition), long=True
        )

    def checked_firsts(self, field: str, order: Order, where: Filter) -> Filter:
        """Check a request for :meth:`firsts`, and return its filter."""
        check_string(self.shape.field(field), "firsts")
        check_numeric(self.shape.field(order.field), "order")
        return records.checked_filter(where, self.shape)

    def firsts_of(
        self, masks: Masks, connection: sqlite3.Connection, field: str, order: Order, condition: Filter
    ) -> dict[Scalar, str]:
        """Answer a checked request at the moment of the masks. Blocks."""
        found = masks.firsts(field, order, condition)
        keys = self.table.truth.keys_at(connection, [row for rows in found.values() for row in rows])
        return {value: min(keys[row] for row in rows) for value, rows in found.items()}

    def checked_selection(
        self, where: Filter, order: tuple[Order, ...], after: str | None, limit: int
    ) -> RecordSelection:
        """Check a request for a page of records."""
        check_page(limit)
        condition = records.checked_filter(where, self.shape)
        input_checks.check_order(order, self.shape)
        cursor = None if after is None else input_checks.read_cursor(after, order, self.shape)
        return RecordSelection(condition, order, cursor, limit)

    def page_of(self, masks: Masks, connection: sqlite3.Connection, request: RecordSelection) -> SelectedPage:
        """Answer a checked request at the moment of the masks. Blocks."""
        where, order, cursor, limit = request
        mask = self._first(masks, where, order, limit + 1) if cursor is None else masks.mask(where)
        return RecordPaging(self.table.truth, connection, masks.snapshot).page(mask, order, cursor, limit)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        check_numeric(self.shape.field(order.field), "order")
        condition = records.checked_filter(where, self.shape)

        def reading(masks: Masks, connection: sqlite3.Connection) -> Array:
            self._keys.read_on(connection, masks.snapshot.origin + len(masks.snapshot.alive))
            return masks.arranged(order, condition)

        rows = await self.table.read(reading, long=True)
        for first in range(0, len(rows), LISTED):
            block = rows[first : first + LISTED]
            keys = self._keys.of(block)
            if keys is None:  # they are no numbers, so deleted rows are left out
                wanted: list[int] = block.tolist()
                found = await self.table.database.read(
                    lambda connection, wanted=wanted: self.table.truth.keys_at(connection, wanted),  # type: ignore[misc]
                    long=True,
                )
                keys = [found[row] for row in wanted if row in found]
            yield ListedKeys(keys, len(rows))

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
