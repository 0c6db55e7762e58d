"""An archive in a temporary folder, asked through its operations, and a model that knows a few texts."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, TypeVar

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.messages import Lang, say
from tabane.operations import Caller, Door, Face, OperationTable, StreamPart
from tabane.posts.operations import Archive
from tabane.posts.post import SHAPE, SPACES, Post, record_of
from tabane.posts.table import posts_table
from tabane.search.chunking import Estimate, Measure
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.engine import Collection
from tabane.search.records import EmbeddingSpace
from tabane.search.source import Reranker
from tabane.wire import json

T = TypeVar("T")
Vector = Sequence[float]

DIMENSION = 3
MODEL = "test/three#1"
CALLER = Caller("local", Face.RPC, "test")


def packed(vector: Vector) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


class Known:
    """A model that has vectors for some texts; the others it refuses, as if it were not there."""

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self.vectors = vectors

    async def wanted(self) -> Embedder | NoModel:
        return NoModel(say("There is no model here."))

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        found = await self.wanted()
        return found if isinstance(found, NoModel) else (found,)

    async def serving(self, model: str) -> Embedder | NoModel:
        return NoModel(say("There is no model here."))

    async def query(self, model: str, text: str) -> bytes | NoModel:
        if model != MODEL or text not in self.vectors:
            return NoModel(say("There is no model here."))
        return packed(self.vectors[text])

    def measure(self) -> Measure:
        return Estimate(512, "estimate")

    def reranker(self) -> Reranker | None:
        return None


@dataclass(frozen=True)
class Filed:
    """A post and its vectors by space."""

    post: Post
    vectors: Mapping[str, Vector]


class Asked:
    """An open archive and its door."""

    def __init__(self, archive: Archive, collection: Collection) -> None:
        self.archive, self.collection = archive, collection
        self.door = Door(OperationTable(posts_table(lambda: archive)))

    async def put(self, filed: Sequence[Filed]) -> None:
        await self.collection.upsert(
            [
                record_of(each.post, {name: packed(vector) for name, vector in each.vectors.items()})
                for each in filed
            ]
        )

    async def call(self, name: str, **params: Any) -> Any:
        """The answer as a program gets it: through JSON and back."""
        return json.decode(json.encode(await self.door.invoke(CALLER, name, json.encode(params))))

    async def text(self, name: str, lang: Lang = "ja", **params: Any) -> str:
        render = self.door.operation(CALLER, name).text
        assert render is not None
        return render(await self.door.invoke(CALLER, name, json.encode(params)), lang)

    async def structured(self, name: str, **params: Any) -> Any:
        shape = self.door.operation(CALLER, name).structured
        assert shape is not None
        return shape(await self.door.invoke(CALLER, name, json.encode(params)), "en")

    async def stream(self, name: str, **params: Any) -> list[StreamPart]:
        return [part async for part in self.door.stream(CALLER, name, json.encode(params))]


@asynccontextmanager
async def opened(
    filed: Sequence[Filed] = (),
    queries: Mapping[str, Vector] | None = None,
    *,
    spaces: Sequence[str] = SPACES,
    zone: tzinfo = UTC,
) -> AsyncIterator[Asked]:
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(folder, "posts", lexical=open_lexical)
        try:
            shape = replace(SHAPE, spaces=tuple(EmbeddingSpace(name, DIMENSION, MODEL) for name in spaces))
            collection = await store.collection(shape)

            async def given() -> Collection:
                return collection

            asked = Asked(Archive(given, Known(queries or {}), lambda: zone), collection)
            await asked.put(filed)
            yield asked
        finally:
            await store.close()
