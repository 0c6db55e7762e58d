"""Fake models whose vectors count the letters of a text, and a hub's stores and embedding around them.

``python -m tests.hub.sources.letter_models HOME MODEL`` embeds the notes of a home until it is killed or
done. It prints ``step`` for each batch but the first, then ``done``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tabane.hub.context import HubContext
from tabane.hub.sources.embedded_collections import EmbeddedCollection
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import Stores
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.hub.work.jobs import Jobs
from tabane.messages import say
from tabane.operations import Caller, Door, Face, OperationTable
from tabane.search.chunking import Estimate, Measure
from tabane.search.embedding.embedder import Embedder, Kind, NoModel, Take
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING, Equal, Field, Record, Shape, TextField
from tabane.search.records import Kind as FieldKind
from tabane.search.source import Reranker
from tabane.settings import load_settings
from tests.engine.embedded.vectors.oracle import packed
from tests.harness.patience import LONG

SHAPE = Shape("notes", (TextField("body"), TextField("aside")), (Field("has", FieldKind.STRINGS),))
NOTES = EmbeddedCollection(
    "notes",
    SHAPE,
    {"body": EVERYTHING, "aside": Equal("has", "aside")},
    lambda record, space: record.texts.get(space, "").strip(),
)
CALLER = Caller("local", Face.RPC, "1")


def note(number: int, body: str = "", aside: str = "") -> Record:
    texts = {"body": body or f"note {number}", "aside": aside}
    has = tuple(name for name, text in texts.items() if text)
    return Record(key=f"n{number:05}", texts=texts, fields={"has": has})


@dataclass
class LetterModel:
    """A model: how often each letter comes, another alphabet for another name."""

    fingerprint: str
    dimension: int = 26
    embedded: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    pause: float = 0.0
    tells: bool = False
    steps: asyncio.Queue[None] = field(default_factory=asyncio.Queue)  # one for each time it is asked

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        await take(range(len(texts)), await self.embed(texts, kind))

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        if kind == "document":
            self.steps.put_nowait(None)
        if self.gate is not None:
            await self.gate.wait()
        if self.tells and self.embedded:
            print("step", flush=True)  # what was embedded before is on the disk
        await asyncio.sleep(self.pause)
        if kind == "document":
            self.embedded += texts
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        shift = sum(map(ord, self.fingerprint))
        counts = [0.01] * self.dimension
        for letter in text.lower():
            counts[(ord(letter) + shift) % self.dimension] += 1
        return packed(counts)

    async def close(self) -> None:
        pass


class LetterModels:
    """Models by name, of which one is wanted: None, and there is none."""

    def __init__(self, *known: LetterModel, wants: str | None = None) -> None:
        self.known = {model.fingerprint: model for model in known}
        self.wants = wants

    async def wanted(self) -> Embedder | NoModel:
        return await self.serving(self.wants) if self.wants else NoModel(say("Nothing was found."))

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        found = await self.wanted()
        return found if isinstance(found, NoModel) else (found,)

    async def serving(self, model: str) -> Embedder | NoModel:
        return self.known.get(model) or NoModel(say("Nothing was found."))

    async def query(self, model: str, text: str) -> bytes | NoModel:
        found = await self.serving(model)
        return found if isinstance(found, NoModel) else (await found.embed([text], "query"))[0]

    def measure(self) -> Measure:
        return Estimate(512, "estimate")

    def reranker(self) -> Reranker | None:
        return None


class EmbeddingHub:
    """A hub's stores, jobs and embedding around one collection. Made by :func:`embedding_hub`."""

    def __init__(
        self, home: Path, models: LetterModels, whose: EmbeddedCollection, database: str = ""
    ) -> None:
        self.whose = whose
        engine = PostgresEngine(database) if database else None
        self.stores = Stores(home, lambda: {whose.domain: (whose.shape,)}, engine)
        loop = asyncio.get_running_loop()
        self.jobs = Jobs(loop)
        self.context = context = HubContext(load_settings({"home": str(home), "config": None}, {}), {}, loop)
        self.embedding = CollectionEmbedder(context, self.stores, models, self.jobs, [whose])
        table = OperationTable([*self.embedding.table(), *self.jobs.table()])
        self.door = Door(table, self.jobs)

    def name_model(self) -> None:
        """Have the settings name the model from now on."""
        self.context.settings = replace(self.context.settings, model="letters")

    async def collection(self) -> Collection:
        return await self.stores.collection(self.whose.domain, self.whose.shape)

    async def lacking(self, space: str = "body") -> int:
        """How many have something to embed there, and no vector."""
        collection = await self.collection()
        if space not in (each.name for each in collection.spaces):
            return await collection.count(self.whose.spaces[space])
        found = await collection.lacking(space, 0, 1000)
        return sum(1 for stored in found if self.whose.text(stored.record, space))

    async def quiet(self) -> None:
        """Until no job runs, and all that was written before is embedded or cannot be."""
        async with asyncio.timeout(LONG):
            await self.embedding.idle()
            states = (await self.door.invoke(CALLER, "list_jobs", b"{}"))["results"]
            for state in states:
                job = self.jobs.get(state["job"])
                while job.status == "running":
                    await job.changed(job.version, 1)
            await self.embedding.idle()

    async def job(self, name: str, params: bytes = b"{}") -> dict[str, Any]:
        """Begin a job, and give its state when it is over."""
        job = self.jobs.get((await self.door.invoke(CALLER, name, params))["job"])
        while job.status == "running":
            await job.changed(job.version, 1)
        state: dict[str, Any] = msgspec.to_builtins(job.state("en"))
        return state


@contextlib.asynccontextmanager
async def embedding_hub(
    home: Path, models: LetterModels, whose: EmbeddedCollection = NOTES, database: str = ""
) -> AsyncIterator[EmbeddingHub]:
    built = EmbeddingHub(home, models, whose, database)
    try:
        yield built
    finally:
        await built.jobs.close()
        await built.embedding.close()
        await built.stores.close()


async def _main(home: Path, model: str) -> None:
    models = LetterModels(
        *(LetterModel(name, pause=0.02, tells=True) for name in (model, "old")), wants=model
    )
    async with embedding_hub(home, models) as built:
        collection = await built.collection()
        if collection.spaces and collection.spaces[0].model != model:
            await built.job("reembed")
        built.embedding.wake("notes")
        await built.quiet()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
