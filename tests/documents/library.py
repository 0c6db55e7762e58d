"""A store of documents in a temporary folder, asked through its operations, and models that tests steer.

``python -m tests.documents.library HOME`` puts one document, a text and another in turn, until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tabane.documents import document
from tabane.documents.document import SHAPE, FileText
from tabane.documents.document_reader import DocumentContext
from tabane.documents.document_writer import Event
from tabane.documents.operations import DocumentLibrary, FileReading
from tabane.documents.table import documents_table
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.errors import ModelError, ModelUnavailable
from tabane.hub.sources.embedding_lane import fill
from tabane.messages import Lang, say
from tabane.operations import Caller, Door, Face, OperationTable
from tabane.search.chunking import Measure
from tabane.search.embedding.embedder import Embedder, Kind, NoModel, Take
from tabane.search.engine import Collection
from tabane.search.pipeline import Meaning, meaning_of
from tabane.search.source import Reranker
from tabane.wire import json
from tests.engine.embedded.vectors.oracle import packed

T = TypeVar("T")

CALLER = Caller("local", Face.RPC, "test", "ja")
ASSISTANT = Caller("local", Face.MCP, "test", "ja")
NOW = 1_763_000_000.0


@dataclass(frozen=True)
class Words:
    """Measures by words, so that a test can say how long a chunk is."""

    capacity: int = 12
    name: str = "words"

    def count(self, text: str) -> int:
        return len(text.split())


@dataclass
class Letters:
    """A model: how often each letter comes. It fails on texts that hold ``bad``, or all of them."""

    fingerprint: str = "letters#1"
    dimension: int = 26
    bad: str | None = None
    away: bool = False
    gate: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    embedded: list[list[str]] = field(default_factory=list)

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        await take(range(len(texts)), await self.embed(texts, kind))

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        if self.gate is not None:
            self.asked.set()
            await self.gate.wait()
        if self.away:
            raise ModelUnavailable(say("{name}: {detail}", name="letters", detail="away"))
        if self.bad is not None and any(self.bad in text for text in texts):
            raise ModelError(say("{name}: {detail}", name="letters", detail="bad"))
        if kind == "document":
            self.embedded.append(list(texts))
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        counts = [0.01] * self.dimension
        for letter in text.lower():
            counts[(ord(letter) + sum(map(ord, self.fingerprint))) % self.dimension] += 1
        return packed(counts)

    async def close(self) -> None:
        pass


class Models:
    """Models of which one is wanted; None, and there is none. ``loading``: who asks waits for it."""

    def __init__(self, *known: Letters, measure: Measure | None = None) -> None:
        self.known = {model.fingerprint: model for model in known}
        self.wants: str | None = known[0].fingerprint if known else None
        self.loading: asyncio.Event | None = None
        self.measured: Measure = measure or Words()

    async def wanted(self) -> Embedder | NoModel:
        return await self.serving(self.wants) if self.wants else _none()

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        found = await self.wanted()
        return found if isinstance(found, NoModel) else (found,)

    async def serving(self, model: str) -> Embedder | NoModel:
        if self.loading is not None:
            await self.loading.wait()
        return self.known.get(model) or _none()

    async def query(self, model: str, text: str) -> bytes | NoModel:
        known = self.known.get(model)
        return _none() if known is None else known.vector(text)

    def reranker(self) -> Reranker | None:
        return None

    def measure(self) -> Measure:
        return self.measured


def _none() -> NoModel:
    return NoModel(say("There is no model here."))


class NoLabels:
    """Nobody has read anything, and nothing is noted."""

    def read_by(self, caller: Caller) -> int:
        return 0

    def found(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        pass


class _AskedContext(DocumentContext):
    """The clock and the settings of a test."""

    def __init__(self, asked: Asked, largest: int, patience: float) -> None:
        super().__init__("folder")
        self._asked, self._largest = asked, largest
        self.patience = self.longest = patience

    @property
    def names_model(self) -> bool:
        return self._asked.named

    @property
    def largest(self) -> int:
        return self._largest

    def now(self) -> float:
        return self._asked.now


class Asked:
    """Open documents and their door. ``woken`` counts calls of the background, ``heard`` are the changes."""

    def __init__(
        self,
        collection: Collection,
        models: Models,
        *,
        named: bool = False,
        files: Callable[[str], Awaitable[FileText]] | None = None,
        uploads: FileReading | None = None,
        largest: int = 10_000_000,
        patience: float = 5.0,
    ) -> None:
        self.collection, self.models, self.named = collection, models, named
        self.woken = self.openings = 0
        self.now = NOW
        self.heard: list[tuple[str, Event]] = []
        context = _AskedContext(self, largest, patience)
        self.documents = DocumentLibrary(
            self._given,
            models,
            self._question,
            self._wake,
            context,
            files=files,
            uploads=uploads,
            labels=NoLabels(),
        )
        self.documents.changed.append(lambda name, event: self.heard.append((name, event)))
        self.table = documents_table(lambda: self.documents, files=files is not None or uploads is not None)
        self.door = Door(OperationTable(self.table))

    async def call(self, name: str, caller: Caller = CALLER, /, **params: Any) -> Any:
        """The answer as a program gets it: through JSON and back."""
        return json.decode(json.encode(await self.door.invoke(caller, name, json.encode(params))))

    async def put(self, filepath: str, text: str, **params: Any) -> Any:
        """Put a document; its details."""
        answer = await self.call("put_document", filepath=filepath, text=text, **params)
        assert answer["status"] == "success", answer
        return answer["details"]

    async def found(self, query: str, **params: Any) -> list[str]:
        """The filepaths of what is found, in order."""
        answer = await self.call("search_documents", query=query, **params)
        assert answer["status"] == "success", answer
        return [result["filepath"] for result in answer["results"]]

    async def whole(self, filepath: str) -> str | None:
        """A document's text, read in parts."""
        texts: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            answer = await self.call("get_document", filepath=filepath, length=7, **cursor)
            if answer["status"] == "error":
                return None
            texts.append(answer["document"])
            if answer["next_cursor"] is None:
                return "".join(texts)
            cursor = {"cursor": answer["next_cursor"]}

    async def text(self, name: str, lang: Lang = "ja", /, **params: Any) -> str:
        render = self.door.operation(ASSISTANT, name).text
        assert render is not None
        caller = Caller("local", Face.MCP, "test", lang)
        return render(await self.door.invoke(caller, name, json.encode(params)), lang)

    async def fill(self) -> None:
        """Embed what lacks a vector, as the background does."""
        (space,) = self.collection.spaces
        embedder = self.models.known[space.model]
        await fill(self.collection, space, embedder, document.meaning, lambda done: None)

    async def chunks(self) -> int:
        return await self.collection.count(document.CHUNKS)

    def _wake(self) -> None:
        self.woken += 1

    async def _given(self) -> Collection:
        self.openings += 1
        return self.collection

    async def _question(self, collection: Collection, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        there: Mapping[str, str] = {space.name: space.model for space in self.collection.spaces}
        return await meaning_of(text, there, self.models) if there else _none()


@asynccontextmanager
async def opened(
    models: Models | None = None, *, folder: str | None = None, **more: Any
) -> AsyncIterator[Asked]:
    """Open the documents in a folder, or in a new one; with a model of letters if none is given."""
    with tempfile.TemporaryDirectory() as other:
        store = await Store.open(folder or other, document.DOMAIN, lexical=open_lexical)
        try:
            yield Asked(await store.collection(SHAPE), models or Models(Letters()), **more)
        finally:
            await store.close()


VERSIONS = tuple("\n\n".join(f"# {name} {part}\n\n" + f"{name} words {part} " * 30 for part in range(40))
                 for name in ("first", "second"))  # fmt: skip


async def _put_until_killed(home: str) -> None:
    async with opened(folder=home) as asked:
        for turn in range(1_000_000):
            await asked.put("notes/dying.md", VERSIONS[turn % 2])
            print(turn, flush=True)


if __name__ == "__main__":
    asyncio.run(_put_until_killed(sys.argv[1]))
