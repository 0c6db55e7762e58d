"""The store of this project, through the door that posts and documents use."""

from __future__ import annotations

import asyncio
import itertools
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.search.vectors.corpus import MOST, WEIGHTS, Corpus, Question

# Imported here, so that opening is measured without it; the store imports them where it needs them.
import tabane.engine.embedded.collection
import tabane.engine.embedded.collection_table
import tabane.engine.embedded.vectors.space_index  # noqa: F401
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.engine import Combination, LexicalQuery, VectorQuery
from tabane.search.pipeline import hybrid
from tabane.search.records import (
    EVERYTHING,
    And,
    EmbeddingSpace,
    Equal,
    Field,
    Filter,
    Kind,
    Range,
    Record,
    Shape,
    TextField,
)


class Measured:
    batch = 1000
    most = 10**9
    version = version("tabane")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        self._corpus = corpus
        self._texts = corpus.texts()
        self._store = await Store.open(str(folder), "bench", lexical=open_lexical)
        spaces = tuple(EmbeddingSpace(f"s{number}", corpus.dimension) for number in range(len(corpus.spaces)))
        fields = (Field("date", Kind.DATE), Field("user", Kind.STRING))
        self._collection = await self._store.collection(Shape("posts", (TextField("text"),), fields, spaces))

    async def fill(self, first: int, last: int) -> None:
        # In a thread, as whoever brings many records does: the event loop is the other writers' too.
        records = await asyncio.to_thread(self._records, first, last)
        await self._collection.upsert(records)

    def _records(self, first: int, last: int) -> list[Record]:
        texts = list(itertools.islice(self._texts, last - first))
        return [self._record(number, text) for number, text in zip(range(first, last), texts, strict=True)]

    def _record(self, number: int, text: str) -> Record:
        corpus = self._corpus
        fields = {"date": int(corpus.dates[number]), "user": f"user{corpus.users[number]:02}"}
        vectors = {f"s{place}": space[number].tobytes() for place, space in enumerate(corpus.spaces)}
        return Record(key=f"{number:07}", texts={"text": text}, fields=fields, payload=b"{}", vectors=vectors)

    async def filled(self) -> None:
        if isinstance(self._collection.engine.lexical, LexicalIndex):
            await self._collection.engine.lexical.settled()

    async def nearest(self, question: Question) -> list[int]:
        hits = await self._collection.nearest(_query(question), _limits(question), MOST)
        return [int(hit.key) for hit in hits.hits]

    async def hybrid(self, question: Question) -> list[int]:
        words = LexicalQuery(question.words)
        found = await hybrid(self._collection, words, _query(question), _limits(question), MOST)
        return [int(hit.key) for hit in found.hits]

    async def scan(self, question: Question) -> tuple[float, float]:
        began, first = time.perf_counter(), 0.0
        async for _ in self._collection.scan(_query(question), EVERYTHING):
            first = first or time.perf_counter() - began
        return first, time.perf_counter() - began

    async def close(self) -> None:
        await self._store.close()


def _query(question: Question) -> VectorQuery:
    vectors = {f"s{place}": vector.tobytes() for place, vector in enumerate(question.vectors)}
    combination = Combination(question.combination)
    weighted = combination is Combination.WEIGHTED
    weights = dict(zip(vectors, WEIGHTS, strict=False)) if weighted else {}
    return VectorQuery(vectors, combination, weights)


def _limits(question: Question) -> Filter:
    parts: list[Filter] = []
    if question.since is not None:
        parts.append(Range("date", question.since, question.until, include_high=False))
    if question.user is not None:
        parts.append(Equal("user", f"user{question.user:02}"))
    return EVERYTHING if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
