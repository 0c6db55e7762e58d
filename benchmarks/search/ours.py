"""The store of this project, through the door that posts and documents use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.search.engines import MOST
from benchmarks.search.generator import Asked, Entry

# Imported here, so that opening is measured without it; the store imports them where it needs them.
import tabane.engine.embedded.collection
import tabane.engine.embedded.collection_table  # noqa: F401
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.engine import LexicalQuery
from tabane.search.records import (
    EVERYTHING,
    And,
    Contains,
    Equal,
    Field,
    Filter,
    Kind,
    Range,
    Record,
    Shape,
    TextField,
    Value,
)

SHAPE = Shape(
    "posts",
    (TextField("text"),),
    (Field("date", Kind.DATE), Field("user", Kind.STRING), Field("language", Kind.STRING)),
)
OTHERS = Shape("notes", (TextField("text"),))
_PAUSE = 0.02  # seconds between the writes of another writer


class Measured:
    batch = 1000
    version = version("tabane")

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._writing: asyncio.Task[None] | None = None

    async def open(self, folder: Path) -> None:
        self._store = await Store.open(str(folder), "bench", lexical=open_lexical)
        self._collection = await self._store.collection(SHAPE)

    async def fill(self, entries: Sequence[Entry]) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_beside())
        # In a thread, as whoever brings many records does: the event loop is the other writers' too.
        records = await asyncio.to_thread(lambda: [_record(entry) for entry in entries])
        await self._collection.upsert(records)

    async def filled(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if isinstance(self._collection.engine.lexical, LexicalIndex):
            await self._collection.engine.lexical.settled()

    async def upsert(self, entry: Entry) -> None:
        await self._collection.upsert([_record(entry)])

    async def search(self, asked: Asked) -> list[str]:
        hits = await self._collection.search(LexicalQuery(" ".join(asked.words)), limits(asked), MOST)
        return [hit.key for hit in hits.hits]

    async def contains(self, asked: Asked) -> list[str]:
        page = await self._collection.select(Contains(asked.needle), limit=MOST)
        return [stored.record.key for stored in page.records]

    async def close(self) -> None:
        await self._store.close()

    async def _write_beside(self) -> None:
        """Another writer of the same file: a small record now and then, each waited for."""
        others = await self._store.collection(OTHERS)
        for number in range(1_000_000):
            record = Record(key=str(number), texts={"text": f"a note 覚え書き {number}"})
            began = time.perf_counter()
            await others.upsert([record])
            self.waits.append(time.perf_counter() - began)
            await asyncio.sleep(_PAUSE)


def _record(entry: Entry) -> Record:
    fields: dict[str, Value] = {"date": entry.date, "user": entry.user, "language": entry.language}
    return Record(key=entry.key, texts={"text": entry.text}, fields=fields, payload=b"{}")


def limits(asked: Asked) -> Filter:
    """The filter of a question."""
    if asked.since is not None:
        dates = Range("date", asked.since, asked.until, include_high=False)
        return dates if asked.user is None else And((dates, Equal("user", asked.user)))
    return EVERYTHING if asked.user is None else Equal("user", asked.user)
