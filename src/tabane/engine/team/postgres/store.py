"""The store of one domain on PostgreSQL: its collections, which share a writing thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import psycopg

from tabane.engine.checked_collection import CheckedCollection
from tabane.engine.input_checks import ALONE
from tabane.engine.query_plans import VERSION, Japanese, LexicalPlanner, RecordAnalyzer
from tabane.engine.team.postgres.collection import PostgresCollection
from tabane.engine.team.postgres.collection_state import CollectionRow, StateTable
from tabane.engine.team.postgres.database import PostgresDatabase, lock_schema
from tabane.engine.team.postgres.index_follower import IndexFilling, IndexFollower
from tabane.engine.team.postgres.lexical_index import PostingTable
from tabane.engine.team.postgres.outside_index import OutsideIndex, set_prefix
from tabane.engine.team.postgres.record_table import RecordColumns
from tabane.engine.team.postgres.record_writer import CollectionTables, RecordWriter
from tabane.engine.team.postgres.vector_table import ApproximateIndexBuilder
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.search.records import Shape

T = TypeVar("T")

_FIND = "SELECT id FROM collection WHERE domain = %s AND name = %s"
_ADD = "INSERT INTO collection (domain, name, analysis) VALUES (%s, %s, %s) RETURNING id"


class PostgresStore:
    """One domain's collections, each opened once. The database is the caller's, who also closes it.

    ``indexed_from``: number of vectors of a space from which it has an approximate index; None: it has none.
    ``filling``: an index outside of the database has the vectors instead.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        domain: str,
        dictionary: Japanese | None,
        indexed_from: int | None = None,
        filling: IndexFilling | None = None,
    ) -> None:
        self.database, self._domain, self._dictionary = database, domain, dictionary
        self._writing = CommitThread(database)
        own = indexed_from if filling is None else None
        self._indexes = ApproximateIndexBuilder(database, own, self._clear_spaces)
        self._filling = filling
        self._followers: dict[str, IndexFollower] = {}
        self._collections: dict[str, CheckedCollection[PostgresCollection]] = {}
        self._opening = asyncio.Lock()

    async def collection(self, shape: Shape) -> CheckedCollection[PostgresCollection]:
        """Return the collection of that shape, created if it is new. The same one at every call.

        Spaces of the shape are created if they are missing; others stay. Raises BadArguments if one exists
        with another dimension or model.
        """
        async with self._opening:
            found = self._collections.get(shape.name)
            if found is None or not found.shape.holds_same(shape):
                engine = await self._open_collection(replace(shape, spaces=()))
                found = self._collections[shape.name] = CheckedCollection(engine)
        for space in shape.spaces:
            await found.add_space(space)
        return found

    async def _open_collection(self, shape: Shape) -> PostgresCollection:
        tables, state = await self._open_tables(shape)
        self._writing.attempt(tables.writer.clear_spaces)
        outside = None if self._filling is None else await self._outside(self._filling, tables)
        opened = PostgresCollection(
            self.database, self._writing, tables, self._indexes, shape, state, outside
        )
        if self._filling is not None and outside is not None:
            await self._start_follower(self._filling, opened, outside)
        return opened

    async def _outside(self, filling: IndexFilling, tables: CollectionTables) -> OutsideIndex:
        number = tables.states.number
        prefix = await self.database.read(lambda connection: set_prefix(connection, number))
        return OutsideIndex(filling.link, prefix)

    async def _start_follower(
        self, filling: IndexFilling, collection: PostgresCollection, outside: OutsideIndex
    ) -> None:
        """Start a follower that fills the index with a collection and the fields of its shape."""
        shape = replace(collection.shape, spaces=())
        earlier = self._followers.pop(shape.name, None)
        if earlier is not None:
            await earlier.close()
        follower = IndexFollower(collection.feed, filling, outside.prefix, shape)
        self._followers[shape.name], collection.written = follower, follower.wake

    def _clear_spaces(self) -> None:
        """Delete the vectors of spaces that were dropped while an index was built."""
        for each in tuple(self._collections.values()):
            each.engine.clear_spaces()

    async def tables(self, shape: Shape) -> CollectionTables:
        """Open the tables of a collection without maintenance. New ones have no indexes."""
        tables, _ = await self._open_tables(replace(shape, spaces=()), indexed=False)
        return tables

    async def write(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run work in a transaction of its own. Raises StoreError."""
        answer = self._writing.submit(CommitJob(work, ALONE))
        found: T = await asyncio.shield(asyncio.wrap_future(answer))
        return found

    async def _open_tables(
        self, shape: Shape, *, indexed: bool = True
    ) -> tuple[CollectionTables, CollectionRow]:
        def opening(connection: psycopg.Connection) -> tuple[CollectionTables, CollectionRow]:
            lock_schema(connection, self.database.schema)
            found = connection.execute(_FIND, (self._domain, shape.name)).fetchone()
            found = found or connection.execute(_ADD, (self._domain, shape.name, VERSION)).fetchone()
            assert found is not None
            tables = self._tables(found[0], shape)
            tables.records.create(connection, indexed=indexed)
            tables.postings.create(connection)
            if indexed:
                tables.writer.renew_analysis(connection)
            return tables, tables.states.read(connection)

        return await self.write(opening)

    def _tables(self, number: int, shape: Shape) -> CollectionTables:
        states, records = StateTable(number), RecordColumns(number, shape)
        postings = PostingTable(number, RecordAnalyzer(shape, self._dictionary))
        writer = RecordWriter(states, records, postings, shape)
        return CollectionTables(states, records, postings, writer, LexicalPlanner(shape, self._dictionary))

    async def close(self) -> None:
        """Finish waiting writes, and cancel the build of an index. A second call does nothing."""
        followers, self._followers = self._followers, {}
        for each in followers.values():
            await each.close()
        await asyncio.to_thread(self._indexes.close)
        await asyncio.to_thread(self._writing.close)
