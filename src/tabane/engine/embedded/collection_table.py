"""Records and columns of one collection, opened, written and read together, and their maintenance.

A read sees records and columns of the same moment. A write notifies a :class:`LexicalFollower` (the lexical
index) after its commit, in the writing thread, in order.

A segment of the columns is written once, in a transaction. When a collection is opened, only the rows after
the last segment are read from the records. Segments do not say which slots are live: the tombstones do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import CollectionChange, CollectionState, shape_blob, shape_of
from tabane.engine.embedded.columns import Array, CodeIndexes, Columns, ColumnSnapshot, ColumnValues, Mask
from tabane.engine.embedded.database import Database, WriteTurn
from tabane.engine.embedded.masks import Masks, SubstringCondition, SubstringFilter, SubstringIndex
from tabane.engine.embedded.truth import RENUMBERED, Truth
from tabane.engine.embedded.vectors.older_vectors import OlderVectors
from tabane.engine.embedded.vectors.space_index import DenseFile, VectorIndex
from tabane.engine.embedded.vectors.vector_files import VectorFiles
from tabane.engine.embedded.vectors.vector_truth import SpaceTable, VectorTruth, WrongVectors, any_spaces
from tabane.engine.input_checks import ALONE
from tabane.errors import StoreError, StoreReadOnly
from tabane.search.engine import EngineHits, LexicalQuery
from tabane.search.records import Filter, Record, Shape

log = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_WAIT = 5.0  # seconds from a commit to the columns that show it
_MOST_TRIES = 100


OpenVectorFiles = Callable[[], Awaitable[VectorFiles]]
"""Opens the files of vectors beside the database, if they are not open yet."""


async def open_collection(
    database: Database, shape: Shape, vectors: OpenVectorFiles
) -> tuple[Truth, Columns, CollectionState]:
    """Return the collection, made if it is new; where its shape changed, the columns are rebuilt.

    The spaces of the shape are not made here; those that are there are found.
    """
    spaced = await database.read(lambda connection: _spaced(connection, shape.name))
    files = await vectors() if spaced else None
    if files is not None:
        await OlderVectors(database, files, shape.name).convert()
    truth = await database.run(lambda connection: _prepared(connection, shape, files), rows=ALONE)
    columns, state = await database.run(lambda connection: _loaded(truth, connection), rows=ALONE)
    while columns.next < state.next:
        await database.run(lambda connection: read_on(truth, connection, columns, state.next), rows=ALONE)
        await seal_all(database, truth, columns)
    await database.read(lambda connection: settled(truth, connection, columns, state))
    return truth, columns, state


async def seal_all(database: Database, truth: Truth, columns: Columns) -> None:
    """Write all blocks of columns that are full."""
    while await database.run(lambda connection: seal(truth, connection, columns), rows=ALONE):
        pass


def _spaced(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether there are vectors: an older version kept its spaces with the shape."""
    found = connection.execute("SELECT shape FROM collection WHERE name = ?", (name,)).fetchone()
    return found is not None and (bool(shape_of(found[0]).spaces) or any_spaces(connection, name))


def _prepared(connection: sqlite3.Connection, shape: Shape, files: VectorFiles | None) -> Truth:
    """Return the collection's truth, with its vectors if there are some."""
    truth = _made(connection, shape)
    if files is not None:
        truth.vectors = VectorTruth.prepared(connection, files, truth.number, shape)
    if truth.state(connection).next > RENUMBERED:
        truth.renumber(connection)
    return truth


def _made(connection: sqlite3.Connection, shape: Shape) -> Truth:
    """Return the collection's tables, made if it is new; its columns forgotten where its shape changed."""
    found = connection.execute("SELECT id, shape FROM collection WHERE name = ?", (shape.name,)).fetchone()
    blob = shape_blob(shape)
    if found is None:
        cursor = connection.execute("INSERT INTO collection (name, shape) VALUES (?, ?)", (shape.name, blob))
        truth = Truth(int(cursor.lastrowid or 0), shape)
        truth.create(connection)
        return truth
    truth = Truth(found[0], shape)
    if shape_of(found[1]).fields != shape.fields:
        truth.unseal(connection)
    if found[1] != blob:
        connection.execute("UPDATE collection SET shape = ? WHERE id = ?", (blob, truth.number))
    return truth


def _loaded(truth: Truth, connection: sqlite3.Connection) -> tuple[Columns, CollectionState]:
    """Return the columns up to the last segment, and the state. If a segment is damaged, there are none."""
    state = truth.state(connection)
    try:
        return loaded(truth, connection, state), state
    except (KeyError, ValueError):
        truth.unseal(connection)
        state = truth.state(connection)
        return loaded(truth, connection, state), state


SEGMENT = 4096  # rows
MOST_READ = 2000  # rows of a step


def loaded(truth: Truth, connection: sqlite3.Connection, state: CollectionState) -> Columns:
    """Return the columns up to the last segment; :func:`read_on` gives the rest.

    Raises ValueError or KeyError if the segments are not what was written: they can be rebuilt.
    """
    table = f"segment_{truth.number}"
    lowest = connection.execute(f"SELECT min(first) FROM {table}").fetchone()[0]
    origin = state.sealed if lowest is None else lowest
    columns = Columns(truth.shape.fields, origin, state.changes)
    blocks: dict[str, tuple[bytes, bytes]] = {}
    query = f"SELECT first, field, cells, slots FROM {table} ORDER BY first"
    for first, field, cells, slots in connection.execute(query):
        if first != columns.next:
            raise ValueError(f"{table}: row {columns.next} is missing")
        blocks[field] = (cells, slots)
        if len(blocks) == len(truth.shape.fields):
            columns.load(blocks, SEGMENT)
            blocks = {}
    if blocks or columns.next != state.sealed:
        raise ValueError(f"{table}: it ends before row {state.sealed}")
    return columns


def read_on(truth: Truth, connection: sqlite3.Connection, columns: Columns, following: int) -> None:
    """Take in up to 2,000 records behind the columns' end, of those before ``following``.

    Strings that an older shape did not have get their codes here, so ``connection`` is the writer's.
    """
    if not truth.shape.fields:
        columns.load({}, following - columns.next)
        return
    new: dict[tuple[str, str], int] = {}
    found = truth.fields_after(connection, columns.next - 1, MOST_READ)
    cells = [truth.cells(connection, fields, new) for _, fields in found]
    end = found[-1][0] + 1 if len(found) == MOST_READ else following
    columns.add([row for row, _ in found], cells, end)


def settled(truth: Truth, connection: sqlite3.Connection, columns: Columns, state: CollectionState) -> None:
    """Mark what is not live, once all rows are there, and show the columns to readers."""
    columns.remove(truth.tombstones(connection))
    columns.remove(list(range(columns.origin, state.base)))
    columns.publish(state.changes)


def columns_agree(truth: Truth, connection: sqlite3.Connection, snapshot: ColumnSnapshot) -> bool:
    """Return whether the columns of a moment say what the records of the same moment say, value by value."""
    end = snapshot.origin + len(snapshot.alive)
    afresh = Columns(truth.shape.fields, snapshot.origin, snapshot.changes)
    alive = np.zeros(len(snapshot.alive), dtype=np.bool_)
    while afresh.next < end:
        new: dict[tuple[str, str], int] = {}
        found = truth.fields_after(connection, afresh.next - 1, MOST_READ)
        cells = [truth.cells(connection, fields, new) for _, fields in found]
        rows = [row for row, _ in found]
        afresh.add(rows, cells, rows[-1] + 1 if len(rows) == MOST_READ else end)
        alive[np.array(rows, dtype=np.int64) - snapshot.origin] = True
    afresh.publish(snapshot.changes)
    same = (_live(values, alive) for values in afresh.snapshot().columns.values())
    held = (_live(values, alive) for values in snapshot.columns.values())
    return np.array_equal(alive, snapshot.alive) and all(map(_equal, same, held))


def _live(values: ColumnValues, alive: Mask) -> tuple[Array, Array]:
    """Return the values of live slots, and these slots."""
    slots = np.arange(len(values.values)) if values.slots is None else values.slots
    return values.values[alive[slots]], slots[alive[slots]]


def _equal(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    nan = one[0].dtype.kind == "f"
    return np.array_equal(one[0], other[0], equal_nan=nan) and np.array_equal(one[1], other[1])


def seal(truth: Truth, connection: sqlite3.Connection, columns: Columns) -> bool:
    """Write the next block where its rows are there and committed. True if it was written.

    A collection without fields has no columns to keep.
    """
    first = truth.state(connection).sealed
    if not truth.shape.fields or columns.next < first + SEGMENT:
        return False
    blocks = columns.segment(first, first + SEGMENT)
    connection.executemany(
        f"INSERT INTO segment_{truth.number} (first, field, cells, slots) VALUES (?, ?, ?, ?)",
        [(first, *block) for block in blocks],
    )
    connection.execute("UPDATE collection SET sealed = ? WHERE id = ?", (first + SEGMENT, truth.number))
    return True


def prune(truth: Truth, connection: sqlite3.Connection) -> None:
    """Remove blocks that hold no live row any more."""
    base = truth.state(connection).base
    connection.execute(f"DELETE FROM segment_{truth.number} WHERE first + ? <= ?", (SEGMENT, base))


class LexicalFollower(SubstringIndex, Protocol):
    """The lexical index of a table. It is notified of each commit, and answers as of the last one."""

    @property
    def applied(self) -> int:
        """Return the number of the last tombstone that the index will never ask for again."""
        ...

    def committed(self, change: CollectionChange) -> None:
        """Apply a write that is on disk. Called in the writing thread, in order. Must be fast.

        It is called for every numbered write, even if the records do not change.
        """
        ...

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        """Return the best matching records. ``where``, ``limit`` and ``offset`` are checked already."""
        ...

    async def room(self) -> None:
        """Wait while the index is so far behind that more records would have to be kept in memory."""
        ...

    def ahead(self, records: Sequence[Record]) -> AbstractAsyncContextManager[None]:
        """Analyze texts before they are written within the context. Only one caller at a time."""
        ...

    async def settled(self) -> None:
        """Wait until all that was written is committed in the index."""
        ...

    async def agrees(self) -> bool:
        """Return whether the index agrees with the stored records, once it has caught up."""
        ...

    async def remake(self) -> None:
        """Rebuild the index in the background. Searches work meanwhile."""
        ...

    async def close(self) -> None:
        """Commit what waits, and end the threads."""
        ...


class CollectionTable:
    """An open collection. Created by :meth:`open`. ``shape`` has the current spaces."""

    def __init__(
        self,
        database: Database,
        truth: Truth,
        columns: Columns,
        state: CollectionState,
        vectors: OpenVectorFiles,
    ) -> None:
        self.database = database
        self.truth = truth
        self.columns = columns
        self.state = state
        self.shape = truth.shape
        self.vectors: VectorIndex | None = None  # if there is a space, or was one
        self._vector_room = vectors
        self._equipping = asyncio.Lock()
        self._follower: LexicalFollower | None = None
        self._containing = SubstringFilter(truth, columns)
        self._codes = CodeIndexes()
        self._tidying = TableMaintenance(self)

    @classmethod
    async def open(cls, database: Database, shape: Shape, vectors: OpenVectorFiles) -> CollectionTable:
        """Open the collection, or create it. If its shape changed, the columns are rebuilt.

        ``vectors`` opens the files of vectors when they are needed.
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
        while self.vectors is None:
            try:
                self.vectors = await self.database.aside(
                    partial(
                        VectorIndex.open,
                        folder=folder,
                        truth=truth,
                        changes=changes,
                        after_crash=after_crash,
                    )
                )
            except WrongVectors as wrong:
                await self._forget(truth, wrong)
        self.shape = (await self.database.read(truth.spaces)).shape

    async def _forget(self, truth: VectorTruth, wrong: WrongVectors) -> None:
        """Let records lack vectors that are not what was written. What is derived is made again."""

        def forgetting(connection: sqlite3.Connection) -> None:
            log.warning("%s; it is computed again if a model made it", self._named(connection, truth, wrong))
            truth.forget(connection, wrong)

        await self.database.run(forgetting, rows=ALONE)
        await asyncio.to_thread(shutil.rmtree, self.vector_folder, ignore_errors=True)

    def _named(self, connection: sqlite3.Connection, truth: VectorTruth, wrong: WrongVectors) -> str:
        """Say which records have these vectors."""
        keys = self.truth.keys_at(connection, truth.owners(connection, wrong)).values()
        name = wrong.storage.space.name
        return f"{wrong.path}: the vector of {', '.join(sorted(keys))} in {name} is not what was written"

    async def forget_wrong_vectors(self) -> None:
        """Let records lack vectors that are not what was written. Reads all; the index is closed."""
        truth = self.truth.vectors

        def check(connection: sqlite3.Connection) -> None:
            assert truth is not None
            for storage in truth.spaces(connection).storages:
                truth.placing(connection, storage).check(truth.file(storage), 0)

        while truth is not None:
            try:
                await self.database.aside(check)
                break
            except WrongVectors as wrong:
                await self._forget(truth, wrong)

    async def respace(self, work: Callable[[sqlite3.Connection, SpaceTable], bool]) -> None:
        """Add or delete spaces.

        Readers see the new ones after that. ``work`` returns whether it changed any.
        """
        vectors = await self._open_vector_truth()
        change = await self.write(lambda connection: self.truth.respace(connection, work, vectors), ALONE)
        if change.spaces is not None:
            self._tidying.wake()

    async def _open_vector_truth(self) -> VectorTruth:
        """Return the vectors of the collection, which may have had none so far."""
        async with self._equipping:
            if self.truth.vectors is None:
                files = await self._vector_room()
                await self.database.run(
                    lambda connection: VectorTruth.prepared(
                        connection, files, self.truth.number, self.truth.shape
                    ),
                    rows=ALONE,
                    committed=self._set_vectors,
                )
            assert self.truth.vectors is not None
            return self.truth.vectors

    def _set_vectors(self, vectors: VectorTruth) -> None:
        """Set the vectors in the writing thread, so that no write comes in between."""
        self.vectors = VectorIndex(vectors, self.vector_folder, {}, self.state.changes)
        self.truth.vectors = vectors

    def tidy(self) -> None:
        """Start the maintenance that the last process did not finish, such as sweeping a dropped space.

        Call it after :meth:`follow`, because maintenance moves rows, and the index must follow that.
        """
        if self.vectors is not None:
            self._tidying.wake()

    def follow(self, follower: LexicalFollower) -> None:
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
        _, live = await self._write_counting(
            lambda connection: self.truth.attach(connection, vectors, model, epoch), len(vectors)
        )
        return live

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> tuple[list[bool], int]:
        """Delete and write records in one write. Return the result of each, and how many were deleted."""
        change, deleted = await self._write_counting(
            lambda connection: self.truth.exchange(connection, records, gone, models), rows
        )
        return change.results, deleted

    async def replicate(self, records: Sequence[Record], gone: Sequence[str], rows: int) -> None:
        """Make records exactly as given, without other vectors, and delete others, in one write."""
        await self._write_counting(
            lambda connection: self.truth.exchange(connection, records, gone, {}, keep=False), rows
        )

    async def _write_counting(
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
        change = await self.database.run(work, rows=rows, committed=self._apply_commit)
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
            self._apply_commit(change)

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
                lambda masks, connection: columns_agree(self.truth, connection, masks.snapshot), aside=True
            )
        except StoreReadOnly:
            return False  # a string that no column knows would have to be written first

    async def vectors_agree(self) -> bool:
        """Return whether the vectors are what was written, and what is derived agrees with them. Reads all.

        Raises StoreCorrupt if many are not.
        """
        vectors = self.vectors
        if vectors is None:
            return True

        def agreeing(masks: Masks, connection: sqlite3.Connection) -> bool:
            try:
                return vectors.agrees(connection, masks.snapshot.changes)
            except WrongVectors as wrong:
                log.warning("%s", self._named(connection, vectors.truth, wrong))
                return False

        return await self.read(agreeing, aside=True)

    async def compact(self) -> None:
        """Compact the rows and delete unused strings, in steps between other writes."""
        await self._tidying.compact()

    async def close(self) -> None:
        """End background work, and save blocks for a fast start. The database stays open."""
        await self._tidying.end()
        if self.vectors is not None:
            await asyncio.to_thread(self.vectors.close)

    # Writing

    def _apply_commit(self, change: CollectionChange) -> None:
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
        return self._table.truth.upsert(connection, left, self._models, turn)

    def committed(self, change: CollectionChange) -> None:
        """Note the results of a step that is on disk."""
        self.results += change.results

    @property
    def done(self) -> bool:
        return self.stopped or len(self.results) == len(self._records)


_COMPACTED = 200  # rows of a step
_SLACK = 10_000  # holes that are not worth a compaction
_SWEPT = 2000  # strings looked at in a step


class TableMaintenance:
    """The background work of one table, one task at a time."""

    def __init__(self, table: CollectionTable) -> None:
        self._table = table
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start maintenance unless it is running. Call it on the event loop."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tidy())

    def wanted(self, state: CollectionState) -> bool:
        """Return whether there is enough to do after a write."""
        sealable = bool(self._table.shape.fields) and state.next - state.sealed >= SEGMENT
        vectors = self._table.vectors
        return self._wasteful or sealable or (vectors is not None and vectors.replaced > _SLACK)

    async def compact(self) -> None:
        """Compact the rows and delete unused strings."""
        table = self._table
        last = table.columns.next - 1
        while table.state.base <= last and self._holes:
            await self._compact_step()
        await self._sweep_strings()
        await self._sweep_dropped()
        await self._rewrite_vectors()

    async def end(self) -> None:
        """End the running task, and seal complete segments."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(StoreError):
            await self._seal()

    async def _tidy(self) -> None:
        # After an error such as a full disk, a later write starts it again. The stored data stays correct.
        with contextlib.suppress(StoreError):
            await self._seal()
            await self._sweep_dropped()
            if self._wasteful:
                await self.compact()
            elif self._table.vectors is not None and self._table.vectors.replaced > _SLACK:
                await self._rewrite_vectors()

    async def _seal(self) -> None:
        await seal_all(self._table.database, self._table.truth, self._table.columns)

    @property
    def _holes(self) -> int:
        """Return how many rows are not live, of those from the lowest live one on."""
        state = self._table.state
        return state.next - state.base - int(np.count_nonzero(self._table.columns.snapshot().alive))

    @property
    def _wasteful(self) -> bool:
        """Return whether more than half of the rows are holes, and it matters."""
        holes = self._holes
        return holes > _SLACK and holes * 2 > self._table.state.next - self._table.state.base

    async def _compact_step(self) -> None:
        """Move the lowest records to the end, and delete what is not needed below the new lowest row."""
        truth, applied = self._table.truth, self._table.applied

        def step(connection: sqlite3.Connection) -> CollectionChange:
            change = truth.compact(connection, _COMPACTED, applied)
            prune(truth, connection)
            return change

        await self._table.write(step, ALONE)

    async def _sweep_strings(self) -> None:
        strings = self._table.truth.strings
        after: int | None = 0
        while after is not None:
            start = after
            after = await self._table.database.run(
                lambda connection, start=start: self._sweep_strings_after(connection, start),  # type: ignore[misc]
                rows=ALONE,
                committed=lambda _: strings.forget(),
            )

    def _sweep_strings_after(self, connection: sqlite3.Connection, after: int) -> int | None:
        """Drop unused strings among the next codes. Return the last of these codes, None at the end.

        It has its own commit, so that everything written before is in the columns.
        """
        strings = self._table.truth.strings
        codes = strings.codes(connection, after, _SWEPT)
        if not codes:
            return None
        used = self._table.columns.used_codes(codes[0], codes[-1])
        strings.drop(connection, [code for code in codes if code not in used])
        return codes[-1]

    async def _rewrite_vectors(self) -> None:
        """Rewrite the files whose vectors mostly belong to no record."""
        vectors, database = self._table.vectors, self._table.database
        if vectors is None:
            return
        vectors.replaced = 0
        while (dense := await database.aside(vectors.dense)) is not None:

            def switch(done: bool, dense: DenseFile = dense) -> None:
                if done:
                    vectors.switch(dense)
                else:
                    dense.discard(vectors.truth)

            # Whether or not somebody waits for the end of this, it is committed or leaves nothing.
            committing = partial(dense.commit, truth=vectors.truth)
            try:
                await database.run(committing, rows=ALONE, committed=switch)
            except StoreError:
                dense.discard(vectors.truth)
                raise
            await asyncio.to_thread(dense.space.keep_codes)

    async def _sweep_dropped(self) -> None:
        """Delete the remaining data of dropped spaces."""
        vectors = self._table.truth.vectors
        while vectors is not None and await self._table.database.run(vectors.sweep_dropped, rows=ALONE):
            pass
