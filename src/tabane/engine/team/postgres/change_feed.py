"""Change feed of a collection: records in batches and rows that are gone, for a follower that copies it.

A batch holds the current records of rows that are new or have other vectors, not the history of each. So
a batch may be applied twice, and what an interrupted step has applied does no harm.

Asks for the last change of collections, on a connection of its own. It is asked before each search of a
replica. It does not wait behind other reads. If the server was away, the next question connects again at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import psycopg

from tabane.engine.input_checks import ALONE
from tabane.engine.team.postgres import connections
from tabane.engine.team.postgres.collection_state import (
    CollectionRow,
    FeedPosition,
    LexicalState,
    StateTable,
    StoredSpace,
)
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.record_writer import CollectionTables
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.search.records import StoredRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """One step of a follower.

    ``records``: new ones in order of rows, and those with other vectors, all with their vectors. ``removed``:
    rows whose records are gone; some may never have been among ``records``. ``gone``: their keys, without
    those that have a record by now, in this batch or another one. ``spaces``: those of this moment, whose
    numbers are never used again. ``lexical``: the counts of the texts of this moment. ``complete``: with
    ``position`` the follower has everything up to the change ``last``.
    """

    records: tuple[StoredRecord, ...]
    removed: Set[int]
    gone: Set[str]
    spaces: tuple[StoredSpace, ...]
    lexical: LexicalState
    position: FeedPosition
    last: int
    complete: bool


class ChangeFeed:
    """The changes of one collection. Each follower has a name."""

    def __init__(self, database: PostgresDatabase, writing: CommitThread, tables: CollectionTables) -> None:
        self._database, self._writing, self._tables = database, writing, tables

    async def join(self, follower: str) -> FeedPosition:
        """Return how far the follower is. A new one is before the first record.

        One that was more than a million changes behind is new, too. Its copy has another mark then.
        """
        found = await self.position(follower)
        return found or await self.restart(follower)

    async def restart(self, follower: str) -> FeedPosition:
        """Let the follower begin before the first record, with other marks."""
        return await self._commit_work(lambda connection: self._tables.log.begin(connection, follower))

    async def position(self, follower: str) -> FeedPosition | None:
        """Return how far the follower is; None if it is unknown, or was too far behind."""
        return await self._database.read(lambda connection: self._tables.log.position(connection, follower))

    @property
    def states(self) -> StateTable:
        """Return the table with the number of the last change."""
        return self._tables.states

    async def is_current(self, follower: str) -> bool:
        """Return whether the follower has everything that is in the collection."""

        def reading(connection: psycopg.Connection) -> bool:
            position = self._tables.log.position(connection, follower)
            state = self._tables.states.read(connection)
            return position is not None and (position.change, position.row) == (state.changes, state.next - 1)

        return await self._database.read(reading)

    async def after(self, follower: str, position: FeedPosition, most: int) -> ChangeBatch | None:
        """Return what changed behind a position: about ``most`` records and removed rows.

        None if the follower is not at that position: it was dropped, or another process advanced it.
        """

        def reading(connection: psycopg.Connection) -> ChangeBatch | None:
            if self._tables.log.position(connection, follower) != position:
                return None
            return self._read_batch(connection, position, most)

        return await self._database.read(reading)

    def _read_batch(self, connection: psycopg.Connection, position: FeedPosition, most: int) -> ChangeBatch:
        state = self._tables.states.read(connection)
        logged = self._tables.log.after(connection, position.change, most, state.changes)
        fresh = self._tables.records.after(connection, position.row, most)
        changed = [row for row in sorted(logged.attached) if row <= position.row]
        stored = [*self._tables.records.of_rows(connection, changed), *fresh]
        at_end = len(fresh) < most
        row = state.next - 1 if at_end else fresh[-1].row
        gone = set(logged.removed.values())
        if gone:  # a record that was replaced has another row
            gone -= self._tables.records.known(connection, list(gone)).keys()
        return ChangeBatch(
            self._with_vectors(connection, state, stored),
            logged.removed.keys(),
            gone,
            state.spaces,
            state.lexical,
            position.moved(logged.change, row),
            state.changes,
            at_end and logged.complete,
        )

    def _with_vectors(
        self, connection: psycopg.Connection, state: CollectionRow, stored: Sequence[StoredRecord]
    ) -> tuple[StoredRecord, ...]:
        rows = [each.row for each in stored]
        vectors: dict[int, dict[str, bytes]] = {row: {} for row in rows}
        for space in state.spaces if rows else ():
            for row, vector in self._tables.writer.vectors(space).given(connection, rows).items():
                vectors[row][space.space.name] = vector
        return tuple(with_vectors(each, vectors[each.row]) for each in stored)

    async def advance(self, follower: str, position: FeedPosition) -> bool:
        """Note that the follower has reached the position of a batch. What all have is not logged any longer.

        Return False if it was dropped, has begun again, or another process has advanced it.
        """
        return await self._commit_work(
            lambda connection: self._tables.log.advance(connection, follower, position)
        )

    async def leave(self, follower: str) -> None:
        """End following. Nothing is logged if nobody else follows."""
        await self._commit_work(lambda connection: self._tables.log.leave(connection, follower))

    async def size(self) -> int:
        """Return the bytes of the tables of the collection, with their indexes."""
        query = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname ~ %s"
        )
        name = f"^[a-z]+_{self.states.number}(_|$)"

        def reading(connection: psycopg.Connection) -> int:
            found = connection.execute(query, (name,)).fetchone()
            return int(found[0]) if found else 0

        return await self._database.read(reading)

    async def _commit_work(self, work: Callable[[psycopg.Connection], T]) -> T:
        answer = self._writing.submit(CommitJob(work, ALONE))
        found: T = await asyncio.shield(asyncio.wrap_future(answer))
        return found


def with_vectors(stored: StoredRecord, vectors: dict[str, bytes]) -> StoredRecord:
    """Return the record with these vectors."""
    record = msgspec.structs.replace(stored.record, vectors=vectors)
    return StoredRecord(record=record, row=stored.row)


class ChangeProbe:
    """One connection, made with the first question."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: psycopg.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "postgres-probe")

    async def newest(self, states: StateTable) -> int:
        """Return the number of the last committed change of a collection. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._newest, states)

    def _newest(self, states: StateTable) -> int:
        try:
            try:
                return states.last_change(self._connect())
            except psycopg.OperationalError as error:
                self._disconnect()
                if not connections.is_lost(error):
                    raise
                # The connection has ended since the last question.
                return states.last_change(self._connect())
        except Exception as error:
            self._disconnect()
            raise connections.store_error(error, self._database.place) from error

    def _connect(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = self._database.connect()
            self._connection.autocommit = True
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Close the connection. A second call does nothing."""
        with contextlib.suppress(RuntimeError):  # closed before
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)
