"""A page cache over a real store in a temporary folder, and a token counter that needs no model."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.messages import say
from tabane.reader.page import SHAPE
from tabane.reader.page_cache import PageCache
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.engine import Collection
from tabane.search.pipeline import Meaning
from tabane.search.source import Reranker


@dataclass(frozen=True)
class Words:
    """Counts words, or characters where there are no blanks."""

    capacity: int = 40
    name: str = "words"

    def count(self, text: str) -> int:
        return sum(1 if word.isascii() else len(word) for word in text.split())


class NoModels:
    """Nobody here knows what a text means."""

    async def wanted(self) -> Embedder | NoModel:
        return NoModel(say("There is no model here."))

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        found = await self.wanted()
        return found if isinstance(found, NoModel) else (found,)

    async def serving(self, model: str) -> Embedder | NoModel:
        return NoModel(say("There is no model here."))

    async def query(self, model: str, text: str) -> bytes | NoModel:
        return NoModel(say("There is no model here."))

    def reranker(self) -> Reranker | None:
        return None

    def measure(self) -> Words:
        return Words()


async def no_meaning(collection: Collection, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
    return NoModel(say("There is no model here."))


class Clock:
    """Tells the time that a test sets."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Shelved:
    """A shelf with what is behind it. ``wakes`` counts how often there was something to embed."""

    shelf: PageCache
    collection: Collection
    clock: Clock
    wakes: list[None] = field(default_factory=list)


@asynccontextmanager
async def shelved(most: int = 500_000_000, home: str | None = None) -> AsyncIterator[Shelved]:
    """A shelf of at most so many bytes; opened again with the same ``home``, it has what it had."""
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(home or folder, "cache", lexical=open_lexical)
        try:
            collection = await store.collection(SHAPE)
            clock = Clock()
            wakes: list[None] = []

            async def opened() -> Collection:
                return collection

            wake: Callable[[], None] = lambda: wakes.append(None)  # noqa: E731
            shelf = PageCache(opened, Words, most=lambda: most, wake=wake, clock=clock)
            yield Shelved(shelf, collection, clock, wakes)
        finally:
            await store.close()
