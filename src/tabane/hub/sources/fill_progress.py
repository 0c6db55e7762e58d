"""The progress of filling a space: for a job, and as the rows that need no other look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tabane.operations import Progress
from tabane.search.records import EmbeddingSpace
from tabane.search.vector_filling import NewestFirst

if TYPE_CHECKING:
    from tabane.search.engine import Collection


class FillProgress:
    """Counts from the vectors that were there before, also after a restart.

    The total is counted again after records were written: an import goes on while its first records are
    embedded already.
    """

    def __init__(self, collection: Collection, space: str, order: NewestFirst, progress: Progress) -> None:
        self._collection, self._space, self._order, self._progress = collection, space, order, progress
        self._before = self._done = self._total = self._written = 0
        self._counting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def told(self) -> AsyncIterator[FillProgress]:
        """Report progress during the block."""
        await self.begin()
        try:
            yield self
        finally:
            if self._counting is not None:
                self._counting.cancel()
                await asyncio.wait({self._counting})

    async def begin(self) -> None:
        """Count what is there, to which the next reports add."""
        self._before = await self._collection.embedded(self._space, self._order.where)
        self._done = 0
        await self._count()

    def tell(self, done: int) -> None:
        """Report how many vectors were made since :meth:`begin`."""
        self._done = done
        self._report()
        idle = self._counting is None or self._counting.done()
        if idle and self._order.written() != self._written:
            self._counting = asyncio.get_running_loop().create_task(self._count())

    async def _count(self) -> None:
        self._written = self._order.written()
        self._total = await self._collection.count(self._order.where)
        self._report()

    def _report(self) -> None:
        done = self._before + self._done
        self._progress.tell(done, max(self._total, done))


class SeenRows:
    """The row up to which each space of a collection was checked and found complete.

    A record that is written later has a higher row, so the earlier ones are not checked again. This is
    forgotten when the hub ends, when the collection is recreated, and when the settings begin or cease to
    name the model, because it may then get other texts.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._of: tuple[Collection, tuple[EmbeddingSpace, ...], bool] | None = None

    def rows(self, collection: Collection, name: str, named: bool) -> int:
        moment = (collection, collection.spaces, named)
        if self._of != moment:
            self._of, self._rows = moment, {}
        return self._rows.get(name, 0)

    def note(self, name: str, row: int) -> None:
        self._rows[name] = row

    def forget(self, *names: str) -> None:
        for name in names:
            self._rows.pop(name, None)
