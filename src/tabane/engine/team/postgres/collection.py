"""A collection on PostgreSQL: the protocols of :mod:`tabane.search.engine` over the tables of one collection.

Input of callers is checked here, cut into parts of 100 rows or 1 MB, and written by one thread of the store.
Reads run in threads of the database, each in a transaction of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from msgspec import structs

from tabane.engine import input_checks
from tabane.engine.input_checks import (
    ALONE,
    MOST_ROWS,
    check_bounds,
    check_numeric,
    check_page,
    check_string,
    check_textual,
    checked_keys,
)
from tabane.engine.query_plans import NOTHING
from tabane.engine.team.postgres.approximate_search import OutsideIndex
from tabane.engine.team.postgres.change_feed import ChangeFeed
from tabane.engine.team.postgres.collection_state import CollectionRow
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.lexical_search import LexicalPage, PostingSearch
from tabane.engine.team.postgres.queries import RecordQueries, SimilarityQueries, outside_question
from tabane.engine.team.postgres.record_table import SqlCondition, condition
from tabane.engine.team.postgres.record_writer import CollectionTables, CollectionWrite
from tabane.engine.team.postgres.vector_table import ApproximateIndex, ApproximateIndexBuilder
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.engine.vector_request import checked_request
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
)

T = TypeVar("T")

BLOCK = 20_000  # records of a scan, ranking or listing at a time
_LEXICAL = frozenset({Capability.LEXICAL, Capability.SUBSTRING})
_OF_VECTORS = frozenset({Capability.VECTOR, Capability.SCAN})


class PostgresCollection(Collection):
    """An open collection. The protocols of :mod:`tabane.search.engine` document its methods."""

    def __init__(
        self,
        database: PostgresDatabase,
        writing: CommitThread,
        tables: CollectionTables,
        indexes: ApproximateIndexBuilder,
        shape: Shape,
        state: CollectionRow,
        outside: OutsideIndex | None = None,
    ) -> None:
        self._database, self._writing, self._tables = database, writing, tables
        self._indexes = indexes
        self._shape = shape
        self._state = state
        self._outside = outside
        self.feed = ChangeFeed(database, writing, tables)
        self.written: Callable[[], None] | None = None  # is called after each write
        self._request_indexes(state)

    @property
    def shape(self) -> Shape:
        return self._state.shaped(self._shape)

    @property
    def remark(self) -> None:
        return None

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        return self.shape.spaces

    @property
    def capabilities(self) -> frozenset[Capability]:
        return _LEXICAL | (_OF_VECTORS if self._state.spaces else frozenset())

    @property
    def changes(self) -> int:
        return self._state.changes

    # Spaces

    async def add_space(self, space: EmbeddingSpace) -> None:
        ready = checked_space(space)
        if not any(there.name == ready.name and there.takes(ready) for there in self.spaces):
            await self._commit_write(
                lambda connection: self._tables.writer.add_space(connection, ready), ALONE
            )

    async def drop_space(self, name: str) -> None:
        if any(space.name == name for space in self.spaces):
            await self._commit_write(
                lambda connection: self._tables.writer.drop_space(connection, name), ALONE
            )
            self.clear_spaces()

    async def succeed(self, name: str, by: str) -> None:
        checked_space(structs.replace(self.shape.space(by), name=name))
        await self._commit_write(lambda connection: self._tables.writer.succeed(connection, name, by), ALONE)
        self.clear_spaces()

    def clear_spaces(self) -> None:
        """Delete the vectors of dropped spaces in the background; later, if they are still used."""
        self._writing.attempt(self._tables.writer.clear_spaces)

    # Writing

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        known = models or {}
        ready = await input_checks.checked_records(records, self.shape, known)
        results: list[bool] = []
        for part in input_checks.cut(ready):
            written = await self._commit_write(
                lambda connection, part=part: self._tables.writer.upsert(connection, part, known),  # type: ignore[misc]
                len(part),
            )
            results.extend(written.results)
        return results

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str] = (), models: Mapping[str, str] | None = None
    ) -> Exchanged:
        input_checks.check_count(records, gone)
        known = models or {}
        ready = await input_checks.checked_records(records, self.shape, known)
        keys, rows = await input_checks.checked_exchange(ready, gone)
        if not rows:
            return Exchanged()
        written = await self._commit_write(
            lambda connection: self._tables.writer.exchange(connection, ready, keys, known), rows
        )
        return Exchanged(written.results, written.deleted)

    async def delete(self, keys: Sequence[str]) -> int:
        ready = [checked_key(key) for key in keys]
        removed = 0
        for first in range(0, len(ready), MOST_ROWS):
            part = ready[first : first + MOST_ROWS]
            written = await self._commit_write(
                lambda connection, part=part: self._tables.writer.delete(connection, part),  # type: ignore[misc]
                len(part),
            )
            removed += written.deleted
        return removed

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        ready = input_checks.checked_attachment(vectors, self.shape, model)
        rows, live = list(ready), 0
        for first in range(0, len(rows), MOST_ROWS):
            part = {row: ready[row] for row in rows[first : first + MOST_ROWS]}
            written = await self._commit_write(
                lambda connection, part=part: self._tables.writer.attach(connection, part, model, epoch),  # type: ignore[misc]
                len(part),
            )
            live += written.deleted
        return live

    async def _commit_write(
        self, work: Callable[[psycopg.Connection], CollectionWrite], rows: int
    ) -> CollectionWrite:
        def committed(written: CollectionWrite) -> None:
            self._remember_state(written.state)
            if self._tables.writer.is_untidy(written.state):
                self._writing.tidy(self._tables.writer.tidy)
            self._request_indexes(written.state)

        answer = self._writing.submit(CommitJob(work, rows, committed))
        written: CollectionWrite = await asyncio.shield(asyncio.wrap_future(answer))
        if self.written is not None:
            self.written()
        return written

    def _request_indexes(self, state: CollectionRow) -> None:
        """Request the approximate indexes of large spaces, which are built in the background."""
        for each in state.spaces:
            self._indexes.consider(ApproximateIndex(self._tables.writer.vectors(each)), each.vectors)

    def _remember_state(self, state: CollectionRow) -> None:
        """Remember a state, unless a newer one is known."""
        if state.changes >= self._state.changes:
            self._state = state

    # Records

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        ready = checked_keys(keys)
        return await self._query_records(lambda asking, _: asking.get(ready))

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        check_page(limit)
        matching = self._condition(where)
        input_checks.check_order(order, self._shape)
        cursor = None if after is None else input_checks.read_cursor(after, order, self._shape)
        return await self._query_records(lambda asking, _: asking.select(matching, order, cursor, limit))

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        check_page(limit)
        self._shape.field(field)
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.facet(field, matching, limit))

    async def count(self, where: Filter) -> int:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.count(matching))

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        check_textual(self._shape.field(field), "tally")
        matching = self._condition(where)
        return dict(await self._query_records(lambda asking, _: asking.facet(field, matching, None)))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        check_bounds(bounds)
        check_numeric(self._shape.field(field), "histogram")
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.histogram(field, bounds, matching))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        check_string(self._shape.field(field), "firsts")
        check_numeric(self._shape.field(order.field), "order")
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.firsts(field, order, matching))

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        return await work(self)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        check_numeric(self._shape.field(order.field), "order")
        matching = self._condition(where)
        found = await self._query_records(lambda asking, _: asking.listing(order, matching))
        for first in range(0, len(found.rows), BLOCK):
            keys = await asyncio.to_thread(found.keys_of, first, min(first + BLOCK, len(found.rows)))
            yield ListedKeys(keys, len(found.rows))

    # Texts

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_page(limit, offset)
        self._shape.text_names(query.fields)
        matching, tables, page = self._condition(where), self._tables, LexicalPage(limit, offset)

        def searching(connection: psycopg.Connection, state: CollectionRow) -> EngineHits:
            plan = tables.planner.plan(query)
            if plan == NOTHING:
                return EngineHits()
            request = PostingSearch(connection, tables.postings, tables.records, state.lexical, plan)
            return request.hits(matching, page)

        return await self._read_with_state(searching)

    # Vectors

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        ready = checked_keys(keys)
        self.shape.space(space)

        def asking(
            records: RecordQueries, state: CollectionRow, connection: psycopg.Connection
        ) -> list[bytes | None]:
            rows = records.rows_of(ready)
            table = self._tables.writer.vectors(state.named(space, self._shape))
            found = table.given(connection, [row for row in rows if row is not None])
            return [None if row is None else found.get(row) for row in rows]

        return await self._read_with_state(
            lambda connection, state: asking(self._records(connection), state, connection)
        )

    async def lacking(
        self, space: str, after: int = 0, limit: int = 100, where: Filter = EVERYTHING
    ) -> list[StoredRecord]:
        check_page(limit)
        self.shape.space(space)
        matching, tables = self._condition(where), self._tables
        return await self._query_records(
            lambda asking, state: asking.lacking(
                tables.writer.vectors(state.named(space, self._shape)), after, limit, matching
            )
        )

    async def embedded(self, space: str, where: Filter) -> int:
        matching, tables = self._condition(where), self._tables

        def counted(asking: RecordQueries, state: CollectionRow) -> int:
            found = state.get(space)
            if found is None or where == EVERYTHING:
                return 0 if found is None else found.vectors
            return asking.embedded(tables.writer.vectors(found), matching)

        return await self._query_records(counted)

    async def waiting(
        self, space: str, where: Filter, newest: str | None = None, skip: int = 0, limit: int = 100
    ) -> list[StoredRecord]:
        check_page(limit)
        self.shape.space(space)
        if newest is not None:
            check_numeric(self._shape.field(newest), "waiting")
        matching, tables = self._condition(where), self._tables
        return await self._query_records(
            lambda asking, state: asking.waiting(
                tables.writer.vectors(state.named(space, self._shape)), matching, newest, skip, limit
            )
        )

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        ready = checked_keys(keys)
        request = checked_request(query, self.shape)
        return await self._query_vectors(lambda asking: asking.of_keys(request, ready))

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_page(limit, offset)
        request, filtered = checked_request(query, self.shape), records.checked_filter(where, self._shape)
        matching = self._filter(where)

        # The index is asked first. What does not depend on the state is sent with the question for it.
        name, question = (
            next(iter(request.vectors)),
            outside_question(request, filtered, matching, limit + offset),
        )
        space, search = self._state.get(name), None
        if self._outside is not None and question is not None and space is not None:
            search = self._outside.begin(question, space, self._shape)

        def searching(connection: psycopg.Connection) -> EngineHits:
            reading = self._tables.states.ask(connection)
            begun = self._similarity_queries(connection, self._state).begin(question, name, search)
            similar = self._similarity_queries(connection, self._read_state(reading))
            return similar.nearest(request, filtered, matching, limit, offset, begun)

        return await self._database.read(searching, pipelined=self._outside is not None)

    async def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        request, matching = checked_request(query, self.shape), self._filter(where)
        found = await self._query_vectors(lambda asking: asking.all(request, matching, ranked=False))
        for first in range(0, len(found.rows), BLOCK):
            rows: list[int] = found.rows[first : first + BLOCK].tolist()
            keys = await self._query_records(lambda asking, _, rows=rows: asking.live_keys(rows))  # type: ignore[misc]
            similar: list[float] = found.similarities[first : first + BLOCK].tolist()
            live = [(keys[row], row, each) for row, each in zip(rows, similar, strict=True) if row in keys]
            yield Similarities(
                *(list(column) for column in zip(*live, strict=True)) if live else ([], [], [])
            )

    async def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        request, matching = checked_request(query, self.shape), self._filter(where)
        found = await self._query_vectors(lambda asking: asking.all(request, matching, ranked=True))
        for first in range(0, len(found.rows), BLOCK):
            last = min(first + BLOCK, len(found.rows))
            keys = await asyncio.to_thread(found.keys_of, first, last)
            yield Ranks(keys, found.similarities[first:last].tolist(), len(found.rows))

    # Transactions

    async def _read_with_state(self, work: Callable[[psycopg.Connection, CollectionRow], T]) -> T:
        """Run work in a transaction, with the state at its moment, which is remembered."""
        states = self._tables.states
        return await self._database.read(
            lambda connection: work(connection, self._read_state(states.ask(connection)))
        )

    def _read_state(self, reading: psycopg.Cursor) -> CollectionRow:
        state = self._tables.states.answer(reading)
        self._remember_state(state)
        return state

    async def _query_records(self, work: Callable[[RecordQueries, CollectionRow], T]) -> T:
        return await self._read_with_state(lambda connection, state: work(self._records(connection), state))

    async def _query_vectors(self, work: Callable[[SimilarityQueries], T]) -> T:
        return await self._read_with_state(
            lambda connection, state: work(self._similarity_queries(connection, state))
        )

    def _similarity_queries(self, connection: psycopg.Connection, state: CollectionRow) -> SimilarityQueries:
        tables, records = self._tables.writer, self._tables.records
        return SimilarityQueries(
            connection, state, tables, records, self._shape, self._indexes, self._outside
        )

    def _records(self, connection: psycopg.Connection) -> RecordQueries:
        return RecordQueries(connection, self._tables.records, self._shape)

    def _condition(self, where: Filter) -> SqlCondition:
        return condition(records.checked_filter(where, self._shape), self._tables.records)

    def _filter(self, where: Filter) -> SqlCondition | None:
        matching = records.checked_filter(where, self._shape)
        return None if matching == EVERYTHING else condition(matching, self._tables.records)
