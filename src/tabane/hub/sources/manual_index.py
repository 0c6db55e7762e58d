"""Index of the manual: its sections as a search source. Imported with the first search over everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tabane.hub.sources.embedded_collections import MANUAL, meaning_of_section
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.sources.manual import pages, sections
from tabane.hub.stores.domain_stores import Stores
from tabane.search.engine import Collection
from tabane.search.pipeline import CollectionSource, RankedRecord, records_of
from tabane.search.records import Everything, Record, checked
from tabane.search.source import HitCard, Models, Reference, SearchHit
from tabane.wire import json


async def bring_up_to_date(collection: Collection, written: list[tuple[str, str]]) -> None:
    """Update the collection to the current text, and delete sections that no longer exist.

    Sections without changes are not written again, so they keep their vectors.
    """
    written_now = (
        Record(
            key=section.key,
            texts={"title": section.title, "text": section.text},
            fields={"page": section.page, "lang": section.lang},
            payload=json.encode({"line": section.line}),
        )
        for page, text in written
        for section in sections(page, text)
    )
    records = {record.key: checked(record, MANUAL) for record in written_now}
    before: dict[str, Record] = {}
    after: str | None = None
    while True:
        page = await collection.select(Everything(), after=after, limit=1000)
        before |= {stored.record.key: stored.record for stored in page.records}
        after = page.after
        if after is None:
            break
    await collection.upsert([record for key, record in records.items() if before.get(key) != record])
    await collection.delete([key for key in before if key not in records])


class ManualSource(CollectionSource[Record]):
    """Sections of the documentation as a search source. Indexed by the first search after it changed."""

    spaces = ("text",)

    def __init__(self, stores: Stores, models: Models, embedding: CollectionEmbedder) -> None:
        super().__init__(self._indexed, models, embedding.question)
        self._stores, self._embedding = stores, embedding
        self._indexing = asyncio.Lock()
        self._current: Collection | None = None

    def text(self, record: Record) -> str:
        return meaning_of_section(record)

    def card(self, item: Record) -> HitCard:
        reference = Reference("get_documentation", {"section": item.key})
        return HitCard(item.key, item.texts["title"], item.texts.get("text", ""), reference)

    async def read(
        self, collection: Collection, groups: Sequence[Sequence[RankedRecord]]
    ) -> list[SearchHit[Record]]:
        records = await records_of(collection, [hit.key for (hit,) in groups])
        return [
            SearchHit(records[hit.key], hit.score, hit.cosine, hit.bm25, hit.parts)
            for (hit,) in groups
            if hit.key in records
        ]

    async def _indexed(self) -> Collection:
        async with self._indexing:
            collection = await self._stores.collection("cache", MANUAL)
            # If it is not the same as last time, it was deleted meanwhile and may be empty.
            if collection is not self._current:
                await bring_up_to_date(collection, await asyncio.to_thread(pages))
                self._current = collection
                self._embedding.wake(MANUAL.name)
        return collection
