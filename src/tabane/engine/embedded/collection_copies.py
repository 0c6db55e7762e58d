"""Collections of the embedded engine that are copied as a whole: read without indexes, or filled.

The lexical index is derived: it is built from the records when the collection is opened the next time.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from tabane.engine.collection_copying import (
    CollectionContents,
    CopyProgress,
    CopySource,
    CopyTarget,
    IndexedRecords,
)
from tabane.engine.embedded.collection_state import CollectionChange, SpaceStorage
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.vectors.vector_truth import SpaceTable
from tabane.engine.input_checks import ALONE
from tabane.search.records import Record, StoredRecord

_PROGRESS = (
    "CREATE TABLE IF NOT EXISTS copying (collection TEXT PRIMARY KEY, mark TEXT NOT NULL, "
    "row INTEGER NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0, complete INTEGER NOT NULL DEFAULT 0)"
)
_READ = "SELECT mark, row, records, complete FROM copying WHERE collection = ?"
_WRITE = "INSERT OR REPLACE INTO copying (collection, mark, row, records, complete) VALUES (?, ?, ?, ?, ?)"


class EmbeddedSource(CopySource):
    """Reads a collection whose maintenance does not run, so that its rows stay as they are."""

    def __init__(self, table: CollectionTable) -> None:
        self._table = table

    async def contents(self) -> CollectionContents:
        truth = self._table.truth

        def reading(connection: sqlite3.Connection) -> CollectionContents:
            state = truth.state(connection)
            storages = truth.spaces(connection).storages
            vectors = {
                each.space.name: _count_rows(connection, f"vector_{truth.number} WHERE space = {each.birth}")
                for each in storages
            }
            mark = f"{state.epoch}.{state.changes}.{state.next}"
            records = _count_rows(connection, f"record_{truth.number}")
            return CollectionContents(mark, records, tuple(each.space for each in storages), vectors)

        return await self._table.database.read(reading)

    async def after(self, row: int, most: int) -> list[StoredRecord]:
        truth = self._table.truth

        def reading(connection: sqlite3.Connection) -> list[StoredRecord]:
            found = list(truth.rows(connection, row, most))
            if not found or truth.vectors is None:
                return [StoredRecord(record=record, row=each) for each, record in found]
            vectors: dict[int, dict[str, bytes]] = defaultdict(dict)
            for storage in truth.spaces(connection).storages:
                of_space = self._space_vectors(connection, storage, row, found[-1][0])
                for each, vector in of_space.items():
                    vectors[each][storage.space.name] = vector
            return [
                StoredRecord(record=msgspec.structs.replace(record, vectors=vectors.get(each, {})), row=each)
                for each, record in found
            ]

        return await self._table.database.aside(reading)

    def _space_vectors(
        self, connection: sqlite3.Connection, storage: SpaceStorage, after: int, last: int
    ) -> dict[int, bytes]:
        """Return the vectors of a space that records have, by row."""
        assert self._table.truth.vectors is not None
        query = (
            f"SELECT id, row FROM {self._table.truth.vectors.table} WHERE row > ? AND row <= ? AND space = ?"
        )
        rows: dict[int, int] = dict(connection.execute(query, (after, last, storage.birth)).fetchall())
        found = self._table.truth.vectors.files.vectors(storage, rows)
        return {rows[number]: vector for number, vector in found.items()}


class EmbeddedTarget(CopyTarget):
    """Fills a collection that has no records."""

    def __init__(self, table: CollectionTable) -> None:
        self._table = table
        self._name = table.truth.shape.name

    async def records(self) -> int:
        table = f"record_{self._table.truth.number}"
        return await self._table.database.read(lambda connection: _count_rows(connection, table))

    async def progress(self) -> CopyProgress | None:
        return await self._table.database.run(self._read_progress)

    async def begin(self, contents: CollectionContents) -> None:
        def respaced(connection: sqlite3.Connection, spaces: SpaceTable) -> bool:
            for space in spaces.read(connection).shape.spaces:
                if space not in contents.spaces:
                    spaces.drop(connection, space.name)
            added = [space for space in contents.spaces if spaces.add(connection, space)]
            return bool(added)

        if contents.spaces:
            await self._table.respace(respaced)
        begun = CopyProgress(contents.mark)
        await self._table.database.run(lambda connection: self._write_progress(connection, begun))

    async def write(self, records: Sequence[StoredRecord]) -> None:
        given: list[Record] = [stored.record for stored in records]

        def writing(connection: sqlite3.Connection) -> CollectionChange:
            change = self._table.truth.upsert(connection, given, {})
            before = self._read_progress(connection)
            assert before is not None
            done = CopyProgress(before.mark, records[-1].row, before.records + len(records))
            self._write_progress(connection, done)
            return change

        await self._table.write(writing, ALONE)

    async def finish(self, told: IndexedRecords) -> None:
        def noting(connection: sqlite3.Connection) -> None:
            before = self._read_progress(connection)
            assert before is not None
            self._write_progress(connection, replace(before, complete=True))

        await self._table.database.run(noting)

    def _read_progress(self, connection: sqlite3.Connection) -> CopyProgress | None:
        connection.execute(_PROGRESS)
        found = connection.execute(_READ, (self._name,)).fetchone()
        return CopyProgress(found[0], found[1], found[2], bool(found[3])) if found else None

    def _write_progress(self, connection: sqlite3.Connection, done: CopyProgress) -> None:
        connection.execute(_PROGRESS)
        values = (self._name, done.mark, done.row, done.records, int(done.complete))
        connection.execute(_WRITE, values)


def forget_copies(connection: sqlite3.Connection) -> None:
    """Forget how far copies are."""
    connection.execute("DROP TABLE IF EXISTS copying")


def _count_rows(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
