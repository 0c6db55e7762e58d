"""Filling a space from the newest record to the oldest comes to an end, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

from tabane.search.filters import EVERYTHING
from tabane.search.records import EmbeddingSpace, Record, Shape, TextField
from tabane.search.vector_filling import NewestFirst, fill_newest
from tabane.store.store import Store
from tests.harness.patience import LONG
from tests.hub.letter_models import LetterModel

SHAPE = Shape("notes", (TextField("body"),))
OLD, UNREADABLE = 50, 900


def test_old_records_get_a_vector_although_newer_ones_never_will_and_writes_go_on(tmp_path: Path) -> None:
    """Each look finds that something was written since the last one."""
    model, writes, heard = LetterModel("model"), count(), list[int]()

    async def work() -> None:
        store = await Store.open(str(tmp_path), "test")
        collection = await store.collection(SHAPE)
        space = EmbeddingSpace("body", model.dimension, model.fingerprint)
        await collection.add_space(space)
        bodies = ["read"] * OLD + ["unread"] * UNREADABLE
        await collection.upsert(
            [Record(key=f"n{number:05}", texts={"body": body}) for number, body in enumerate(bodies)]
        )
        order = NewestFirst(EVERYTHING, None, lambda: next(writes))
        async with asyncio.timeout(LONG):
            await fill_newest(
                collection,
                space,
                model,
                lambda record: record.texts["body"] if record.texts["body"] == "read" else "",
                heard.append,
                order,
            )
        assert await collection.embedded("body", EVERYTHING) == OLD
        await store.close()

    asyncio.run(work())
    assert heard[-1] == OLD
