"""Background maintenance of a table in small steps: sealing segments, compaction, sweeping unused data."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tabane.engine.embedded import segments
from tabane.engine.embedded.collection_state import CollectionChange, CollectionState
from tabane.engine.embedded.columns import Columns
from tabane.engine.embedded.database import Database
from tabane.engine.embedded.truth import Truth
from tabane.engine.input_checks import ALONE
from tabane.errors import StoreError
from tabane.search.records import Shape

_COMPACTED = 200  # rows of a step
_SLACK = 10_000  # holes that are not worth a compaction
_SWEPT = 2000  # strings looked at in a step


class MaintainedTable(Protocol):
    """What maintenance uses of :class:`~tabane.engine.embedded.collection_table.CollectionTable`."""

    database: Database
    truth: Truth
    columns: Columns
    state: CollectionState
    shape: Shape

    @property
    def applied(self) -> int | None: ...

    async def write(
        self, work: Callable[[sqlite3.Connection], CollectionChange], rows: int
    ) -> CollectionChange: ...


class TableMaintenance:
    """The background work of one table, one task at a time."""

    def __init__(self, table: MaintainedTable) -> None:
        self._table = table
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start maintenance unless it is running. Call it on the event loop."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tidy())

    def wanted(self, state: CollectionState) -> bool:
        """Return whether there is enough to do after a write."""
        sealable = bool(self._table.shape.fields) and state.next - state.sealed >= segments.SEGMENT
        return self._wasteful or sealable

    async def compact(self) -> None:
        """Compact the rows and delete unused strings."""
        table = self._table
        last = table.columns.next - 1
        while table.state.base <= last and self._holes:
            await self._compact_step()
        await self._sweep_strings()
        await self._sweep_vectors()
        await self._sweep_dropped()

    async def end(self) -> None:
        """End the running task, seal complete segments, and delete unused vectors."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(StoreError):
            await self._seal()
            await self._sweep_vectors()

    async def _tidy(self) -> None:
        # After an error such as a full disk, a later write starts it again. The stored data stays correct.
        with contextlib.suppress(StoreError):
            await self._seal()
            await self._sweep_vectors()
            await self._sweep_dropped()
            if self._wasteful:
                await self.compact()

    async def _seal(self) -> None:
        await segments.seal_all(self._table.database, self._table.truth, self._table.columns)

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
            segments.prune(truth, connection)
            return change

        await self._table.write(step, ALONE)

    async def _sweep_strings(self) -> None:
        strings = self._table.truth.strings
        after: int | None = 0
        while after is not None:
            start = after
            after = await self._table.database.run(
                lambda connection, start=start: self._swept(connection, start),  # type: ignore[misc]
                rows=ALONE,
                committed=lambda _: strings.forget(),
            )

    def _swept(self, connection: sqlite3.Connection, after: int) -> int | None:
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

    async def _sweep_vectors(self) -> None:
        """Delete the vectors that no record has any more."""
        vectors = self._table.truth.vectors
        while vectors is not None and await self._table.database.run(vectors.sweep, rows=ALONE):
            pass

    async def _sweep_dropped(self) -> None:
        """Delete the remaining data of dropped spaces."""
        vectors = self._table.truth.vectors
        while vectors is not None and await self._table.database.run(vectors.sweep_dropped, rows=ALONE):
            pass
