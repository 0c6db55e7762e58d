"""Chroma in its embedded form: a graph (HNSW), which finds most of the nearest."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import chromadb  # type: ignore[import-not-found]
from benchmarks.search.vectors.corpus import MOST, Corpus, Question
from benchmarks.search.vectors.engines import Plain


class Measured(Plain):
    batch = 5_000
    version = version("chromadb")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        self._corpus = corpus
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder), settings)
        cosine = {"hnsw": {"space": "cosine"}}
        self._collection: Any = client.get_or_create_collection(
            "record", configuration=cosine, embedding_function=None
        )

    async def fill(self, first: int, last: int) -> None:
        dates, users = self._corpus.dates, self._corpus.users
        self._collection.upsert(
            ids=[str(number) for number in range(first, last)],
            embeddings=self._corpus.spaces[0][first:last],
            metadatas=[{"date": int(dates[n]), "user": int(users[n])} for n in range(first, last)],
        )

    async def nearest(self, question: Question) -> list[int]:
        if len(question.vectors) > 1:
            raise NotImplementedError
        found = self._collection.query(
            query_embeddings=question.vectors, n_results=MOST, where=_limits(question), include=[]
        )
        return [int(number) for number in found["ids"][0]]


def _limits(question: Question) -> dict[str, object] | None:
    parts: list[dict[str, object]] = []
    if question.since is not None:
        parts += [{"date": {"$gte": question.since}}, {"date": {"$lt": question.until}}]
    if question.user is not None:
        parts.append({"user": question.user})
    return None if not parts else parts[0] if len(parts) == 1 else {"$and": parts}
