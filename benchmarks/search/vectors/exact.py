"""numpy, which multiplies the query with every vector: what all others are held against."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from benchmarks.search.vectors.corpus import MOST, Corpus, Question, combined, meant
from benchmarks.search.vectors.engines import Plain


class Measured(Plain):
    batch = 10_000
    version = np.__version__

    async def open(self, folder: Path, corpus: Corpus) -> None:
        self._corpus = corpus

    async def fill(self, first: int, last: int) -> None:
        raise NotImplementedError

    async def nearest(self, question: Question) -> list[int]:
        where = None
        if question.since is not None or question.user is not None:
            where = np.flatnonzero(meant(self._corpus, question))
        found = self._similarities(question, where)
        best = np.argpartition(-found, min(MOST, len(found) - 1))[:MOST]
        return (best if where is None else where[best]).tolist()  # type: ignore[no-any-return]

    async def scan(self, question: Question) -> tuple[float, float]:
        began = time.perf_counter()
        self._similarities(question, None).tolist()
        return time.perf_counter() - began, time.perf_counter() - began

    def _similarities(self, question: Question, where: np.ndarray | None) -> np.ndarray:  # type: ignore[type-arg]
        each = [
            (space if where is None else space[where]) @ vector
            for space, vector in zip(self._corpus.spaces, question.vectors, strict=False)
        ]
        return each[0] if len(each) == 1 else combined(np.stack(each), question.combination)
