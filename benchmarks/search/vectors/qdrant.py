"""qdrant-edge with its graph (HNSW) and int8 codes, which finds most of the nearest."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import qdrant_edge as qdrant  # type: ignore[import-not-found]
from benchmarks.search.vectors.corpus import MOST, Corpus, Question
from benchmarks.search.vectors.engines import Plain


class Measured(Plain):
    batch = 1_000
    version = version("qdrant-edge-py")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        self._corpus = corpus
        if os.listdir(folder):
            self._shard: Any = qdrant.EdgeShard.load(str(folder))
            return
        codes = qdrant.ScalarQuantizationConfig(qdrant.ScalarType.Int8, always_ram=True)
        vectors = qdrant.EdgeVectorParams(corpus.dimension, qdrant.Distance.Dot, quantization_config=codes)
        self._shard = qdrant.EdgeShard.create(str(folder), qdrant.EdgeConfig(vectors=vectors))
        for field in ("date", "user"):
            kind = qdrant.PayloadSchemaType.Integer
            self._shard.update(qdrant.UpdateOperation.create_field_index(field, kind))

    async def fill(self, first: int, last: int) -> None:
        space, dates, users = self._corpus.spaces[0], self._corpus.dates, self._corpus.users
        points = [
            qdrant.Point(n, space[n].tolist(), {"date": int(dates[n]), "user": int(users[n])})
            for n in range(first, last)
        ]
        self._shard.update(qdrant.UpdateOperation.upsert_points(points))

    async def filled(self) -> None:
        self._shard.optimize()
        self._shard.flush()

    async def nearest(self, question: Question) -> list[int]:
        if len(question.vectors) > 1:
            raise NotImplementedError
        asked = qdrant.QueryRequest(
            MOST, query=qdrant.Query.Nearest(question.vectors[0].tolist()), filter=_limits(question)
        )
        return [int(point.id) for point in self._shard.query(asked)]

    async def close(self) -> None:
        self._shard.close()


def _limits(question: Question) -> Any:
    parts = []
    if question.since is not None:
        between = qdrant.RangeFloat(gte=question.since, lt=question.until)
        parts.append(qdrant.FieldCondition("date", range=between))
    if question.user is not None:
        parts.append(qdrant.FieldCondition("user", match=qdrant.MatchValue(question.user)))
    return qdrant.Filter(must=parts) if parts else None
