"""Collections on PostgreSQL that are copied as a whole: read in order of rows, or filled by COPY.

While a collection is filled, its tables have no indexes but those of keys and rows. These, and the lexical
index, are built at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import psycopg
from psycopg import sql

from tabane.engine.collection_copying import (
    CollectionContents,
    CopyProgress,
    CopySource,
    CopyTarget,
    IndexedRecords,
)
from tabane.engine.team.postgres.change_feed import with_vectors
from tabane.engine.team.postgres.connections import unlimited
from tabane.engine.team.postgres.record_writer import CollectionTables
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.records import Record, StoredRecord

_INDEXED = 10_000  # records that are added to the lexical index together
_CREATE = (
    "CREATE TABLE IF NOT EXISTS copying (collection integer PRIMARY KEY, mark text NOT NULL, "
    "row bigint NOT NULL DEFAULT 0, records bigint NOT NULL DEFAULT 0, indexed bigint NOT NULL DEFAULT 0, "
    "complete boolean NOT NULL DEFAULT false)"
)
_READ = "SELECT mark, row, records, complete FROM copying WHERE collection = %s"
# An abandoned statement must not hold its locks, and a large index takes longer than other statements.
_PATIENTLY = (
    "SELECT set_config('statement_timeout', '0', true), set_config('maintenance_work_mem', '256MB', true), "
    "set_config('client_connection_check_interval', '2s', true)"
)


class PostgresSource(CopySource):
    """Reads a collection."""

    def __init__(self, store: PostgresStore, tables: CollectionTables) -> None:
        self._store, self._tables = store, tables

    async def contents(self) -> CollectionContents:
        def reading(connection: psycopg.Connection) -> CollectionContents:
            state = self._tables.states.read(connection)
            return CollectionContents(
                f"{state.changes}.{state.next}",
                _count_records(connection, self._tables),
                tuple(each.space for each in state.spaces),
                {each.space.name: each.vectors for each in state.spaces},
            )

        return await self._store.database.read(reading)

    async def after(self, row: int, most: int) -> list[StoredRecord]:
        def reading(connection: psycopg.Connection) -> list[StoredRecord]:
            found = self._tables.records.after(connection, row, most)
            if not found:
                return []
            vectors: dict[int, dict[str, bytes]] = {stored.row: {} for stored in found}
            for space in self._tables.states.read(connection).spaces:
                table = self._tables.writer.vectors(space)
                for each, vector in table.between(connection, row, found[-1].row):
                    vectors[each][space.space.name] = vector
            return [with_vectors(stored, vectors[stored.row]) for stored in found]

        return await self._store.database.read(reading)


class PostgresTarget(CopyTarget):
    """Fills a collection that has no records."""

    def __init__(self, store: PostgresStore, tables: CollectionTables) -> None:
        self._store, self._tables = store, tables
        self._number = tables.states.number

    async def records(self) -> int:
        return await self._store.database.read(lambda connection: _count_records(connection, self._tables))

    async def progress(self) -> CopyProgress | None:
        def reading(connection: psycopg.Connection) -> CopyProgress | None:
            connection.execute(_CREATE)
            found = connection.execute(_READ, (self._number,)).fetchone()
            return CopyProgress(*found) if found else None

        return await self._store.write(reading)

    async def begin(self, contents: CollectionContents) -> None:
        def beginning(connection: psycopg.Connection) -> None:
            connection.execute(_CREATE)
            connection.execute(
                "INSERT INTO copying (collection, mark) VALUES (%s, %s)", (self._number, contents.mark)
            )
            self._tables.records.drop_indexes(connection)
            state = self._tables.states.read(connection)
            for each in state.spaces:
                self._tables.writer.drop_space(connection, each.space.name)
            for space in contents.spaces:
                self._tables.writer.add_space(connection, space)

        await self._store.write(beginning)

    async def write(self, records: Sequence[StoredRecord]) -> None:
        given: list[Record] = [stored.record for stored in records]

        def writing(connection: psycopg.Connection) -> None:
            state = self._tables.states.lock(connection)
            self._tables.states.save(connection, self._tables.writer.load(connection, state, given))
            connection.execute(
                "UPDATE copying SET row = %s, records = records + %s WHERE collection = %s",
                (records[-1].row, len(records), self._number),
            )

        await self._store.write(writing)

    async def finish(self, told: IndexedRecords) -> None:
        while (done := await self._store.write(self._index_next)) is not None:
            told(done)
        await self._store.write(self._complete_copy)

    def _index_next(self, connection: psycopg.Connection) -> int | None:
        """Add records to the lexical index. Return how many it has; None if there were no more."""
        state = self._tables.states.lock(connection)
        query = "SELECT indexed FROM copying WHERE collection = %s"
        found = connection.execute(query, (self._number,)).fetchone()
        stored = self._tables.records.after(connection, found[0] if found else 0, _INDEXED)
        if not stored:
            return None
        numbered = [(each.row, each.record) for each in stored]
        lexical = self._tables.postings.add_many(connection, state.lexical, numbered)
        self._tables.states.save(connection, replace(state, lexical=lexical))
        update = "UPDATE copying SET indexed = %s WHERE collection = %s"
        connection.execute(update, (stored[-1].row, self._number))
        return lexical.records

    def _complete_copy(self, connection: psycopg.Connection) -> None:
        with unlimited(connection):
            connection.execute(_PATIENTLY)
            self._tables.records.create_indexes(connection)
            state = self._tables.states.read(connection)
            vectors = [self._tables.writer.vectors(each).table for each in state.spaces]
            for table in (self._tables.records.table, *self._tables.postings.tables, *vectors):
                connection.execute(sql.SQL("ANALYZE {}").format(table))
        update = "UPDATE copying SET complete = true WHERE collection = %s"
        connection.execute(update, (self._number,))


def has_copies(connection: psycopg.Connection) -> bool:
    """Return whether a copy to this schema began and is not finished."""
    found = connection.execute("SELECT to_regclass('copying') IS NOT NULL").fetchone()
    return bool(found and found[0])


def begin_copies(connection: psycopg.Connection) -> None:
    """Create the table that notes how far copies are."""
    connection.execute(_CREATE)


def forget_copies(connection: psycopg.Connection) -> None:
    """Drop the table that notes how far copies are."""
    connection.execute("DROP TABLE IF EXISTS copying")


def _count_records(connection: psycopg.Connection, tables: CollectionTables) -> int:
    query = sql.SQL("SELECT count(*) FROM {}").format(tables.records.table)
    found = connection.execute(query).fetchone()
    return int(found[0]) if found else 0
