"""One collection's truth and columns, written and read as one: what is derived from them follows here.

A read sees the records and the columns of one moment. A write tells a :class:`Follower` inside its
transaction and after its commit, in the writing thread, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from tabane.errors import StoreError, StoreReadOnly
from tabane.search.analysis import normalise
from tabane.search.filters import Contains, contains
from tabane.search.records import Shape
from tabane.store import failures, segments
from tabane.store.columns import Columns, Mask, Snapshot
from tabane.store.database import Database
from tabane.store.masks import Masks
from tabane.store.truth import RENUMBERED, Change, State, Truth, shape_blob, shape_of
from tabane.store.vectors.file import VectorFile
from tabane.store.vectors.truth import VectorTruth
from tabane.store.vectors.vectors import VectorIndex
from tabane.store.writing import MOST_ROWS

T = TypeVar("T")

_ALONE = MOST_ROWS + 1  # rows of a job that shares its commit with no other
_LONGEST_WAIT = 5.0  # seconds from a commit to the columns that show it
_MOST_TRIES = 100
_COMPACTED = 200  # rows of a step
_SLACK = 10_000  # holes that are not worth a compaction
_SWEPT = 2000  # strings looked at in a step


class Follower(Protocol):
    """What is derived from a table: a lexical index.

    ``applied`` is the number of the last tombstone that it will never ask for again.
    """

    @property
    def applied(self) -> int: ...

    def add(self, connection: sqlite3.Connection, change: Change) -> None:
        """Take part in the write, inside its transaction. What it raises undoes the write."""
        ...

    def committed(self, change: Change) -> None:
        """The write is on the disk. Called in the writing thread, in order; quick."""
        ...

    def containing(self, connection: sqlite3.Connection, condition: Contains) -> Sequence[int] | None:
        """The rows, live or not, whose texts contain it, exactly; None: they have to be looked through."""
        ...


class Table:
    """An open collection. Made by :meth:`open`."""

    def __init__(self, database: Database, truth: Truth, columns: Columns, state: State) -> None:
        self.database = database
        self.truth = truth
        self.columns = columns
        self._state = state
        self._follower: Follower | None = None
        self.vectors: VectorIndex | None = None  # where the shape has spaces
        self._tidying: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, database: Database, shape: Shape, file: VectorFile | None = None) -> Table:
        """Open the collection, made where it is new; where its shape changed, the columns are made anew.

        ``file`` holds its vectors; a shape with spaces wants one.
        """
        truth = await database.run(lambda connection: _prepared(connection, shape, file), rows=_ALONE)
        columns, state = await database.run(lambda connection: _loaded(truth, connection), rows=_ALONE)
        while columns.next < state.next:
            await database.run(
                lambda connection: segments.read_on(truth, connection, columns, state.next), rows=_ALONE
            )
            await cls._seal(database, truth, columns)
        await database.read(lambda connection: segments.settled(truth, connection, columns, state))
        table = cls(database, truth, columns, state)
        if truth.vectors is not None:
            await table._open_vectors(truth.vectors, state.changes)
        return table

    @property
    def vector_folder(self) -> str:
        """Where the files made of the vectors are: they may be deleted while the collection is closed."""
        return f"{os.path.splitext(self.database.path)[0]}.{self.shape.name}.vectors"

    async def _open_vectors(self, truth: VectorTruth, changes: int) -> None:
        folder = self.vector_folder
        self.vectors = await self.database.read(
            lambda connection: VectorIndex.open(connection, folder, truth, changes)
        )
        self.vectors.follow(self.columns.snapshot)

    @property
    def shape(self) -> Shape:
        return self.truth.shape

    def follow(self, follower: Follower) -> None:
        """Tell it of every write from now on. Before the first write."""
        self._follower = follower

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]]) -> int:
        """Give rows vectors, where they are live. How many were."""
        live = 0

        def attached(connection: sqlite3.Connection) -> Change:
            nonlocal live
            change, live = self.truth.attach(connection, vectors)
            return change

        await self.write(attached, len(vectors))
        return live

    async def write(self, work: Callable[[sqlite3.Connection], Change], rows: int) -> Change:
        """Do a write; it is on the disk, in the columns and with the follower when this returns."""
        change = await self.database.run(
            lambda connection: self._followed(connection, work), rows=rows, committed=self._committed
        )
        if self._untidy(change.state) and (self._tidying is None or self._tidying.done()):
            self._tidying = asyncio.create_task(self._tidy())
        return change

    async def read(self, work: Callable[[Masks, sqlite3.Connection], T]) -> T:
        """Do ``work`` in a reading thread, over records and columns of one moment."""

        def reading(connection: sqlite3.Connection) -> T:
            return work(self.masks(connection), connection)

        return await self.database.read(reading)

    def masks(self, connection: sqlite3.Connection) -> Masks:
        """What filters are evaluated with, as of the moment of the connection's transaction. Blocks."""
        return self._masks(connection, self._snapshot(connection))

    async def agrees(self) -> bool:
        """Whether columns and records say the same. Reads every record; a check-up asks it, nobody else."""
        try:
            return await self.read(
                lambda masks, connection: segments.agree(self.truth, connection, masks.snapshot)
            )
        except StoreReadOnly:
            return False  # a string that no column knows would have to be written first

    async def vectors_agree(self) -> bool:
        """Whether the files of vectors hold what the truth holds. Reads every vector."""
        vectors = self.vectors
        return vectors is None or await self.read(lambda _, connection: vectors.agrees(connection))

    async def compact(self) -> None:
        """Make the rows dense again and forget strings that nobody uses, in steps between other writes."""
        last = self.columns.next - 1
        while self._state.base <= last and self._holes:
            await self._compact_step()
        await self._sweep()
        await self._sweep_vectors()

    async def close(self) -> None:
        """End what runs in the background, keep blocks for a quick start. The database stays open."""
        if self._tidying is not None:
            self._tidying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tidying
        with contextlib.suppress(StoreError):
            await self._seal(self.database, self.truth, self.columns)
            await self._sweep_vectors()
        if self.vectors is not None:
            await asyncio.to_thread(self.vectors.close)

    # Writing

    def _followed(
        self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Change]
    ) -> Change:
        with self.truth.vectors.file.together() if self.truth.vectors else contextlib.nullcontext():
            change = work(connection)
        if self._follower is not None and (change.upserted or change.deleted):
            self._follower.add(connection, change)
        return change

    def _committed(self, change: Change) -> None:
        self._state = change.state
        self.truth.strings.remember(change.strings)
        if change.upserted or change.deleted or change.vectors:
            # The index first: what columns show, a substring has to find.
            if self._follower is not None and (change.upserted or change.deleted):
                self._follower.committed(change)
            if self.vectors is not None:
                self.vectors.committed(change)
            self.columns.apply(change)

    @property
    def _holes(self) -> int:
        """How many rows are not live, of those from the lowest live one on."""
        return self._state.next - self._state.base - int(np.count_nonzero(self.columns.snapshot().alive))

    def _untidy(self, state: State) -> bool:
        return self._wasteful or (bool(self.shape.fields) and state.next - state.sealed >= segments.SEGMENT)

    @property
    def _wasteful(self) -> bool:
        """Whether more than half of the rows are holes, and it matters."""
        holes = self._holes
        return holes > _SLACK and holes * 2 > self._state.next - self._state.base

    async def _tidy(self) -> None:
        # On a full disk, say, a later write begins it again; what is stored is right all the time.
        with contextlib.suppress(StoreError):
            await self._seal(self.database, self.truth, self.columns)
            await self._sweep_vectors()
            if self._wasteful:
                await self.compact()

    @staticmethod
    async def _seal(database: Database, truth: Truth, columns: Columns) -> None:
        while await database.run(lambda connection: segments.seal(truth, connection, columns), rows=_ALONE):
            pass

    async def _compact_step(self) -> None:
        """Move the lowest records, and what nobody needs below them goes."""
        applied = self._follower.applied if self._follower is not None else None

        def step(connection: sqlite3.Connection) -> Change:
            change = self.truth.compact(connection, _COMPACTED, applied)
            segments.prune(self.truth, connection)
            return change

        await self.write(step, _ALONE)

    async def _sweep(self) -> None:
        strings = self.truth.strings
        after: int | None = 0
        while after is not None:
            start = after
            after = await self.database.run(
                lambda connection, start=start: self._swept(connection, start),  # type: ignore[misc]
                rows=_ALONE,
                committed=lambda _: strings.forget(),
            )

    async def _sweep_vectors(self) -> None:
        """Delete the vectors that no record has any more."""
        truth = self.truth.vectors
        while truth is not None and await self.database.run(truth.sweep, rows=_ALONE):
            pass

    def _swept(self, connection: sqlite3.Connection, after: int) -> int | None:
        """Drop unused strings among the next codes; the answer is the last of these, None at the end.

        Alone in its commit: whatever was written before is in the columns.
        """
        codes = self.truth.strings.codes(connection, after, _SWEPT)
        if not codes:
            return None
        used = self.columns.used_codes(codes[0], codes[-1])
        self.truth.strings.drop(connection, [code for code in codes if code not in used])
        return codes[-1]

    # Reading

    def _snapshot(self, connection: sqlite3.Connection) -> Snapshot:
        """The columns of the moment that the connection's transaction sees."""
        for _ in range(_MOST_TRIES):
            seen = self.truth.state(connection).changes
            snapshot = self.columns.reached(seen, _LONGEST_WAIT)
            if snapshot.changes == seen:
                return snapshot
            # A write came in between: look again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        raise failures.busy(self.database.path)

    def _masks(self, connection: sqlite3.Connection, snapshot: Snapshot) -> Masks:
        def holding(condition: Contains, within: Mask) -> Mask:
            return self._holding(connection, snapshot, condition, within)

        return Masks(snapshot, self.truth.strings, connection, holding)

    def _holding(
        self, connection: sqlite3.Connection, snapshot: Snapshot, condition: Contains, within: Mask
    ) -> Mask:
        found = np.zeros(len(within), dtype=np.bool_)
        rows = self._follower.containing(connection, condition) if self._follower is not None else None
        if rows is not None:
            found[snapshot.slots_of(rows)] = True
        else:
            found[self._looked_through(connection, snapshot, condition, within)] = True
        return found

    def _looked_through(
        self, connection: sqlite3.Connection, snapshot: Snapshot, condition: Contains, within: Mask
    ) -> list[int]:
        """The slots among ``within`` whose texts contain it, by reading them."""
        needle, found = normalise(condition.text), []
        for first, last in _stretches(np.flatnonzero(within)):
            rows = self.truth.texts_between(connection, first + snapshot.origin, last + snapshot.origin)
            for row, texts in rows:
                names = texts if condition.fields is None else condition.fields
                if contains((texts.get(name, "") for name in names), needle):
                    found.append(row - snapshot.origin)
        return found


def _stretches(slots: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    """Slots in stretches with small gaps, as first and last: read together what lies together."""
    if not len(slots):
        return []
    breaks = np.flatnonzero(np.diff(slots) > 8)
    firsts = slots[np.concatenate([[0], breaks + 1])]
    lasts = slots[np.concatenate([breaks, [len(slots) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _loaded(truth: Truth, connection: sqlite3.Connection) -> tuple[Columns, State]:
    """The columns as far as segments give them: not at all where one is damaged, for they are derived."""
    state = truth.state(connection)
    try:
        return segments.loaded(truth, connection, state), state
    except (KeyError, ValueError):
        truth.unseal(connection)
        state = truth.state(connection)
        return segments.loaded(truth, connection, state), state


def _prepared(connection: sqlite3.Connection, shape: Shape, file: VectorFile | None) -> Truth:
    """The collection's truth, with its vectors where it has spaces."""
    truth = _made(connection, shape)
    if not shape.spaces:
        VectorTruth.forget(connection, truth.number)
    elif file is not None:
        truth.vectors = VectorTruth.prepared(connection, file, truth.number, shape.name, shape.spaces)
    if truth.state(connection).next > RENUMBERED:
        truth.renumber(connection)
    return truth


def _made(connection: sqlite3.Connection, shape: Shape) -> Truth:
    """The collection's tables, made where it is new; its columns forgotten where its shape changed."""
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
