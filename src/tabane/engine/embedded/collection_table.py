"""Records and columns of one collection, written and read together.

A read sees records and columns of the same moment. A write notifies a :class:`TableFollower` (the lexical
index) after its commit, in the writing thread, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from tabane.engine.embedded import failures, segments
from tabane.engine.embedded.collection_state import CollectionChange, CollectionState
from tabane.engine.embedded.columns import CodeIndexes, Columns, Mask
from tabane.engine.embedded.database import Database, WriteTurn
from tabane.engine.embedded.masks import Masks, SubstringCondition, SubstringFilter, SubstringIndex
from tabane.engine.embedded.segments import OpenVectorDatabase, TableMaintenance, open_collection
from tabane.engine.embedded.truth import Truth
from tabane.engine.embedded.vectors.space_index import VectorIndex
from tabane.engine.embedded.vectors.vector_truth import SpaceTable, VectorTruth
from tabane.engine.input_checks import ALONE
from tabane.errors import StoreReadOnly
from tabane.search.records import Record, Shape

T = TypeVar("T")

_LONGEST_WAIT = 5.0  # seconds from a commit to the columns that show it
_MOST_TRIES = 100
_LONGEST_REMAKING = 600.0  # seconds that a check-up waits for


class TableFollower(SubstringIndex, Protocol):
    """The data derived from a table: a lexical index.

    ``applied`` is the number of the last tombstone that it will never ask for again. ``containing`` answers
    as of the last commit that it was told of.
    """

    @property
    def applied(self) -> int: ...

    def committed(self, change: CollectionChange) -> None:
        """Apply a write that is on disk. Called in the writing thread, in order. Must be fast.

        It is called for every numbered write, even if the records do not change.
        """
        ...


class CollectionTable:
    """An open collection. Created by :meth:`open`. ``shape`` has the current spaces."""

    def __init__(
        self,
        database: Database,
        truth: Truth,
        columns: Columns,
        state: CollectionState,
        vectors: OpenVectorDatabase,
    ) -> None:
        self.database = database
        self.truth = truth
        self.columns = columns
        self.state = state
        self.shape = truth.shape
        self.vectors: VectorIndex | None = None  # if there is a space, or was one
        self._vector_room = vectors
        self._equipping = asyncio.Lock()
        self._follower: TableFollower | None = None
        self._containing = SubstringFilter(truth, columns)
        self._codes = CodeIndexes()
        self._tidying = TableMaintenance(self)

    @classmethod
    async def open(cls, database: Database, shape: Shape, vectors: OpenVectorDatabase) -> CollectionTable:
        """Open the collection, or create it. If its shape changed, the columns are rebuilt.

        ``vectors`` opens the file of vectors when it is needed.
        """
        truth, columns, state = await open_collection(database, shape, vectors)
        table = cls(database, truth, columns, state, vectors)
        if truth.vectors is not None:
            await table._open_vectors(truth.vectors)
        return table

    @property
    def vector_folder(self) -> str:
        """Return the folder of files derived from the vectors.

        They may be deleted while the collection is closed.
        """
        return f"{os.path.splitext(self.database.path)[0]}.{self.shape.name}.vectors"

    async def _open_vectors(self, truth: VectorTruth) -> None:
        folder, changes, after_crash = self.vector_folder, self.state.changes, self.database.recovered
        self.vectors = await self.database.aside(
            lambda connection: VectorIndex.open(
                connection, folder, truth, changes, self.columns.snapshot, after_crash=after_crash
            )
        )
        self.shape = (await self.database.read(truth.spaces)).shape

    async def respace(self, work: Callable[[sqlite3.Connection, SpaceTable], bool]) -> None:
        """Add or delete spaces.

        Readers see the new ones after that. ``work`` returns whether it changed any.
        """
        vectors = await self._equipped()
        change = await self.write(
            lambda connection: self.truth.respace(connection, work, vectors),
            ALONE,
        )
        if change.spaces is not None:
            self._tidying.wake()

    async def _equipped(self) -> VectorTruth:
        """Return the vectors of the collection, which may have had none so far."""
        async with self._equipping:
            if self.truth.vectors is None:
                file = await self._vector_room()
                await self.database.run(
                    lambda connection: VectorTruth.prepared(
                        connection, file, self.truth.number, self.truth.shape
                    ),
                    rows=ALONE,
                    committed=self._equip,
                )
            assert self.truth.vectors is not None
            return self.truth.vectors

    def _equip(self, vectors: VectorTruth) -> None:
        """Set the vectors in the writing thread, so that no write comes in between."""
        self.vectors = VectorIndex(vectors, self.vector_folder, {}, self.state.changes, self.columns.snapshot)
        self.truth.vectors = vectors

    def tidy(self) -> None:
        """Start the maintenance that the last process did not finish, such as sweeping a dropped space.

        Call it after :meth:`follow`, because maintenance moves rows, and the index must follow that.
        """
        if self.vectors is not None:
            self._tidying.wake()

    def follow(self, follower: TableFollower) -> None:
        """Notify the follower of every write from now on. Call it before the first write."""
        self._follower = follower

    @property
    def applied(self) -> int | None:
        """Return the last tombstone that the follower no longer needs, None without a follower."""
        return self._follower.applied if self._follower is not None else None

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str, epoch: int | None = None
    ) -> int:
        """Attach vectors to rows that are live and still of that epoch. Return how many were."""
        _, live = await self._counted(
            lambda connection: self.truth.attach(connection, vectors, model, epoch), len(vectors)
        )
        return live

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> tuple[list[bool], int]:
        """Delete and write records in one write. Return the result of each, and how many were deleted."""
        change, deleted = await self._counted(
            lambda connection: self.truth.exchange(connection, records, gone, models), rows
        )
        return change.results, deleted

    async def replicate(self, records: Sequence[Record], gone: Sequence[str], rows: int) -> None:
        """Make records exactly as given, without other vectors, and delete others, in one write."""
        await self._counted(
            lambda connection: self.truth.exchange(connection, records, gone, {}, keep=False), rows
        )

    async def _counted(
        self, work: Callable[[sqlite3.Connection], tuple[CollectionChange, int]], rows: int
    ) -> tuple[CollectionChange, int]:
        """Do a write that also returns a count."""
        count = 0

        def counting(connection: sqlite3.Connection) -> CollectionChange:
            nonlocal count
            change, count = work(connection)
            return change

        return await self.write(counting, rows), count

    async def write(
        self, work: Callable[[sqlite3.Connection], CollectionChange], rows: int
    ) -> CollectionChange:
        """Do a write. When this returns, it is on disk, in the columns and known to the follower."""
        change = await self.database.run(
            lambda connection: self.followed(connection, work), rows=rows, committed=self._committed
        )
        if self._tidying.wanted(change.state):
            self._tidying.wake()
        return change

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str]) -> list[bool]:
        """Write checked records in as many commits as it takes to let others write in between.

        Return the result of each.
        """
        upsert = _LongUpsert(self, records, models)

        def committed(change: CollectionChange) -> None:
            upsert.committed(change)
            self._committed(change)

        try:
            await self.database.run_long(upsert, committed)
        finally:
            upsert.stopped = True
        if self._tidying.wanted(self.state):
            self._tidying.wake()
        return upsert.results

    async def read(
        self, work: Callable[[Masks, sqlite3.Connection], T], *, long: bool = False, aside: bool = False
    ) -> T:
        """Do ``work`` over a snapshot of records and columns.

        See :class:`Database` for the other parameters.
        """

        sweeps = self.truth.strings.sweeps  # before the moment is chosen: see there

        def reading(connection: sqlite3.Connection) -> T:
            masks = self.masks(connection)
            masks.sweeps = sweeps
            return work(masks, connection)

        return await (self.database.aside(reading) if aside else self.database.read(reading, long=long))

    def masks(self, connection: sqlite3.Connection) -> Masks:
        """Return the masks that evaluate filters, for the snapshot of the connection's transaction.

        Blocks. Raises StoreBusy if writes come in between all the time.
        """
        for _ in range(_MOST_TRIES):
            seen = self.truth.state(connection).changes
            snapshot = self.columns.reached(seen, _LONGEST_WAIT)
            if snapshot.changes == seen:
                break
            # A write came in between: try again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        else:
            raise failures.busy(self.database.path)

        def holding(wanted: SubstringCondition, within: Mask) -> Mask:
            return self._containing.mask(connection, snapshot, self._follower, wanted, within)

        return Masks(snapshot, self.truth.strings, connection, holding, codes=self._codes)

    async def agrees(self) -> bool:
        """Return whether columns and records agree. Reads every record; used by checks only."""
        try:
            return await self.read(
                lambda masks, connection: segments.agree(self.truth, connection, masks.snapshot), aside=True
            )
        except StoreReadOnly:
            return False  # a string that no column knows would have to be written first

    async def vectors_agree(self) -> bool:
        """Return whether the files of vectors agree with the stored vectors, once they are complete.

        Reads all.
        """
        vectors = self.vectors
        if vectors is None:
            return True
        await asyncio.to_thread(vectors.wait_until_whole, _LONGEST_REMAKING)
        return await self.read(lambda _, connection: vectors.agrees(connection), aside=True)

    async def compact(self) -> None:
        """Compact the rows and delete unused strings, in steps between other writes."""
        await self._tidying.compact()

    async def close(self) -> None:
        """End background work, and save blocks for a fast start. The database stays open."""
        await self._tidying.end()
        if self.vectors is not None:
            await asyncio.to_thread(self.vectors.close)

    # Writing

    def followed(
        self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], CollectionChange]
    ) -> CollectionChange:
        """Do a write in the writing thread. If it fails, the vectors that it put in are taken out."""
        with self.truth.vectors.file.together() if self.truth.vectors else contextlib.nullcontext():
            return work(connection)

    def _committed(self, change: CollectionChange) -> None:
        self.state = change.state
        self.truth.strings.remember(change.strings)
        if change.upserted or change.deleted or change.vectors or change.spaces is not None:
            # Update the index first: a substring search must find every record that the columns show.
            if self._follower is not None:
                self._follower.committed(change)
            if self.vectors is not None:
                self.vectors.committed(change)
            if change.spaces is not None:
                self.shape = change.spaces.shape
            self.columns.apply(change)


class _LongUpsert:
    """Records that are written turn by turn, in the writing thread. ``stopped``: nobody waits for it."""

    def __init__(self, table: CollectionTable, records: Sequence[Record], models: Mapping[str, str]) -> None:
        self._table = table
        self._records = records
        self._models = models
        self.results: list[bool] = []
        self.stopped = False

    def step(self, connection: sqlite3.Connection, turn: WriteTurn) -> CollectionChange:
        left = [] if self.stopped else self._records[len(self.results) :]
        return self._table.followed(
            connection, lambda connection: self._table.truth.upsert(connection, left, self._models, turn)
        )

    def committed(self, change: CollectionChange) -> None:
        """Note the results of a step that is on disk."""
        self.results += change.results

    @property
    def done(self) -> bool:
        return self.stopped or len(self.results) == len(self._records)
