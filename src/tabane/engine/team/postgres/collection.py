"""A collection on PostgreSQL over the tables of one collection, behind the checks of all engines.

It is written by one thread of the store. Reads run in threads of the database, each in a transaction of one
moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from tabane.engine.checked_collection import CheckedNearest, CollectionEngine, EngineReads
from tabane.engine.input_checks import ALONE, MOST_BYTES, MOST_ROWS, RecordsCursor
from tabane.engine.query_plans import NOTHING
from tabane.engine.team.postgres.change_feed import ChangeFeed
from tabane.engine.team.postgres.collection_state import CollectionRow
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.lexical_index import LexicalPage, PostingSearch
from tabane.engine.team.postgres.outside_index import OutsideIndex
from tabane.engine.team.postgres.queries import RecordQueries, SimilarityQueries, outside_question
from tabane.engine.team.postgres.record_table import SqlCondition, condition
from tabane.engine.team.postgres.record_writer import CollectionTables, CollectionWrite
from tabane.engine.team.postgres.vector_table import ApproximateIndex, ApproximateIndexBuilder
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.engine.vector_request import VectorRequest
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

T = TypeVar("T")

BLOCK = 20_000  # records of a scan, ranking or listing at a time


class PostgresCollection(CollectionEngine):
    """An open collection. :class:`CollectionEngine` documents its methods."""

    most_rows, most_bytes = MOST_ROWS, MOST_BYTES

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
        self._shape = shape  # without spaces
        self._shaped = state.shaped(shape)
        self._state = state
        self._outside = outside
        self.feed = ChangeFeed(database, writing, tables)
        self.written: Callable[[], None] | None = None  # is called after each write
        self._request_indexes(state)

    @property
    def shape(self) -> Shape:
        return self._shaped

    @property
    def changes(self) -> int:
        return self._state.changes

    # Spaces

    async def add_space(self, space: EmbeddingSpace) -> None:
        await self._commit_write(lambda connection: self._tables.writer.add_space(connection, space), ALONE)

    async def drop_space(self, name: str) -> None:
        await self._commit_write(lambda connection: self._tables.writer.drop_space(connection, name), ALONE)
        self.clear_spaces()

    async def succeed(self, name: str, by: str) -> None:
        await self._commit_write(lambda connection: self._tables.writer.succeed(connection, name, by), ALONE)
        self.clear_spaces()

    def clear_spaces(self) -> None:
        """Delete the vectors of dropped spaces in the background; later, if they are still used."""
        self._writing.attempt(self._tables.writer.clear_spaces)

    # Writing

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str]) -> list[bool]:
        written = await self._commit_write(
            lambda connection: self._tables.writer.upsert(connection, records, models), len(records)
        )
        return written.results

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        written = await self._commit_write(
            lambda connection: self._tables.writer.exchange(connection, records, gone, models), rows
        )
        return Exchanged(written.results, written.deleted)

    async def delete(self, keys: Sequence[str]) -> int:
        written = await self._commit_write(
            lambda connection: self._tables.writer.delete(connection, keys), len(keys)
        )
        return written.deleted

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]], model: str, epoch: int | None) -> int:
        written = await self._commit_write(
            lambda connection: self._tables.writer.attach(connection, vectors, model, epoch), len(vectors)
        )
        return written.deleted

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
            if state.spaces != self._state.spaces:
                self._shaped = state.shaped(self._shape)
            self._state = state

    # Records

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        return await self._query_records(lambda asking, _: asking.get(keys))

    async def select(
        self, where: Filter, order: tuple[Order, ...], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.select(matching, order, after, most))

    async def facet(self, field: str, where: Filter, limit: int) -> list[tuple[Scalar, int]]:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.facet(field, matching, limit))

    async def count(self, where: Filter) -> int:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.count(matching))

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        matching = self._condition(where)
        return dict(await self._query_records(lambda asking, _: asking.facet(field, matching, None)))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.histogram(field, bounds, matching))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        matching = self._condition(where)
        return await self._query_records(lambda asking, _: asking.firsts(field, order, matching))

    async def together(
        self,
        work: Callable[[EngineReads], Coroutine[Any, Any, T]],
        *,
        long: bool,
        first: CheckedNearest | None,
    ) -> T:
        return await work(self)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        matching = self._condition(where)
        found = await self._query_records(lambda asking, _: asking.listing(order, matching))
        for first in range(0, len(found.rows), BLOCK):
            keys = await asyncio.to_thread(found.keys_of, first, min(first + BLOCK, len(found.rows)))
            yield ListedKeys(keys, len(found.rows))

    # Texts

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
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
        def asking(
            records: RecordQueries, state: CollectionRow, connection: psycopg.Connection
        ) -> list[bytes | None]:
            rows = records.rows_of(keys)
            table = self._tables.writer.vectors(state.named(space, self._shape))
            found = table.given(connection, [row for row in rows if row is not None])
            return [None if row is None else found.get(row) for row in rows]

        return await self._read_with_state(
            lambda connection, state: asking(self._records(connection), state, connection)
        )

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
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
        self, space: str, where: Filter, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        matching, tables = self._condition(where), self._tables
        return await self._query_records(
            lambda asking, state: asking.waiting(
                tables.writer.vectors(state.named(space, self._shape)), matching, newest, skip, limit
            )
        )

    async def similarities(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        return await self._query_vectors(lambda asking: asking.of_keys(request, keys))

    async def nearest(self, request: VectorRequest, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        matching = self._filter(where)

        # The index is asked first. What does not depend on the state is sent with the question for it.
        name, question = (
            next(iter(request.vectors)),
            outside_question(request, where, matching, limit + offset),
        )
        space, search = self._state.get(name), None
        if self._outside is not None and question is not None and space is not None:
            search = self._outside.begin(question, space, self._shape)

        def searching(connection: psycopg.Connection) -> EngineHits:
            reading = self._tables.states.ask(connection)
            begun = self._similarity_queries(connection, self._state).begin(question, name, search)
            similar = self._similarity_queries(connection, self._read_state(reading))
            return similar.nearest(request, where, matching, limit, offset, begun)

        return await self._database.read(searching, pipelined=self._outside is not None)

    async def scan(self, request: VectorRequest, where: Filter) -> AsyncIterator[Similarities]:
        matching = self._filter(where)
        found = await self._query_vectors(lambda asking: asking.all(request, matching, ranked=False))
        for first in range(0, len(found.rows), BLOCK):
            rows: list[int] = found.rows[first : first + BLOCK].tolist()
            keys = await self._query_records(lambda asking, _, rows=rows: asking.live_keys(rows))  # type: ignore[misc]
            similar: list[float] = found.similarities[first : first + BLOCK].tolist()
            live = [(keys[row], row, each) for row, each in zip(rows, similar, strict=True) if row in keys]
            yield Similarities(
                *(list(column) for column in zip(*live, strict=True)) if live else ([], [], [])
            )

    async def ranking(self, request: VectorRequest, where: Filter) -> AsyncIterator[Ranks]:
        matching = self._filter(where)
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
        return condition(where, self._tables.records)

    def _filter(self, where: Filter) -> SqlCondition | None:
        return None if where == EVERYTHING else self._condition(where)
