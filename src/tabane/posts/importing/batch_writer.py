"""Writer of record batches: two at once, so that the import does not wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType

import msgspec

from tabane.errors import BadArguments
from tabane.posts.importing.open_sources import OpenPostSources
from tabane.search.engine import Collection
from tabane.search.records import Record

MOST_AT_ONCE = 2  # batches


class PostBatchWriter:
    """Writes batches in any order. Records that the collection rejects are reported; the others are written.

    After an exception, it waits for the batches under way, because they cannot be undone.
    """

    def __init__(self, collection: Collection, opened: OpenPostSources) -> None:
        self._collection = collection
        self._opened = opened
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> PostBatchWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.settled()
            return
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def put(self, records: Sequence[Record], models: Mapping[str, str]) -> None:
        """Start writing the posts as soon as there is room. Raises the errors of earlier batches.

        ``models``: space → model of its vectors. If a space has another model by now, its vectors are left
        out.
        """
        while len(self._under_way) >= MOST_AT_ONCE:
            await self._some(asyncio.FIRST_COMPLETED)
        self._under_way.add(asyncio.create_task(self._write(records, models)))

    async def settled(self) -> None:
        """Wait until all batches are written. Raises their errors."""
        while self._under_way:
            await self._some(asyncio.ALL_COMPLETED)

    async def _some(self, when: str) -> None:
        done, self._under_way = await asyncio.wait(self._under_way, return_when=when)
        for task in done:
            task.result()

    async def _write(self, records: Sequence[Record], models: Mapping[str, str]) -> None:
        try:
            await self._collection.upsert(records, models)
        except BadArguments:
            for record in records:
                await self._write_one(await asyncio.to_thread(self._fitting, record), models)

    async def _write_one(self, record: Record, models: Mapping[str, str]) -> None:
        try:
            await self._collection.upsert([record], models)
        except BadArguments as error:
            self._opened.bad_post(int(record.key), error.message)

    def _fitting(self, record: Record) -> Record:
        vectors = self._opened.fitting(int(record.key), record.vectors)
        self._opened.report.count_vectors(len(vectors) - len(record.vectors))
        return msgspec.structs.replace(record, vectors=vectors)
