"""Filling a space from the newest record to the oldest comes to an end, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from tabane.engine.embedded.store import Store
from tabane.errors import ModelError
from tabane.hub.sources.embedding_lane import NewestFirst, fill_newest
from tabane.messages import Message
from tabane.search.embedding.embedder import Kind, Take
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, Shape, TextField
from tests.harness.patience import LONG
from tests.hub.sources.letter_models import LetterModel

SHAPE = Shape("notes", (TextField("body"),))
OLD, UNREADABLE = 50, 900


async def test_old_records_get_a_vector_although_newer_ones_never_will_and_writes_go_on(
    tmp_path: Path,
) -> None:
    """Each look finds that something was written since the last one."""
    model, writes, heard = LetterModel("model"), count(), list[int]()
    bodies = ["read"] * OLD + ["unread"] * UNREADABLE
    async with filled(tmp_path, bodies, model) as (collection, space):
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
    assert heard[-1] == OLD


class InParts(LetterModel):
    """A model that hands over the vectors of a page in several parts at the same time."""

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        vectors = await self.embed(texts, kind)
        parts = [range(first, min(first + 5, len(texts))) for first in range(0, len(texts), 5)]
        await asyncio.gather(*(take(part, [vectors[at] for at in part]) for part in parts))


async def test_parts_that_come_at_the_same_time_are_all_counted(tmp_path: Path) -> None:
    model, heard = InParts("model"), list[int]()
    async with filled(tmp_path, [f"text {number}" for number in range(300)], model) as (collection, space):
        order = NewestFirst(EVERYTHING, None, lambda: 0)
        await fill_newest(collection, space, model, lambda record: record.texts["body"], heard.append, order)
        assert await collection.embedded("body", EVERYTHING) == 300
    assert heard == sorted(heard)
    assert heard[-1] == 300
    assert len(model.embedded) == 300
    assert model.embedded[0] == "text 299"


class Poisoned(InParts):
    """A model that cannot embed one text."""

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        good = [at for at, text in enumerate(texts) if text != "text 250"]
        await take(good, await self.embed([texts[at] for at in good]))
        if len(good) < len(texts):
            raise ModelError(Message("too long"))


async def test_a_text_that_cannot_be_embedded_keeps_no_older_one_from_its_vector(tmp_path: Path) -> None:
    model = Poisoned("model")
    async with filled(tmp_path, [f"text {number}" for number in range(300)], model) as (collection, space):
        order = NewestFirst(EVERYTHING, None, lambda: 0)
        with pytest.raises(ModelError, match="too long"):
            await fill_newest(
                collection, space, model, lambda record: record.texts["body"], lambda done: None, order
            )
        assert await collection.embedded("body", EVERYTHING) == 299


@asynccontextmanager
async def filled(
    folder: Path, bodies: Sequence[str], model: LetterModel
) -> AsyncIterator[tuple[Collection, EmbeddingSpace]]:
    """A collection of these texts, the newest last, with an empty space for the model."""
    store = await Store.open(str(folder), "test")
    try:
        collection = await store.collection(SHAPE)
        space = EmbeddingSpace("body", model.dimension, model.fingerprint)
        await collection.add_space(space)
        await collection.upsert(
            [Record(key=f"n{number:05}", texts={"body": body}) for number, body in enumerate(bodies)]
        )
        yield collection, space
    finally:
        await store.close()
