"""faiss with binary codes around the mean, and the 1,000 nearest of these compared by numpy; one thread.

With a filter it counts the bits of all, and picks out then.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import faiss  # type: ignore[import-not-found]
import numpy as np
from benchmarks.search.vectors.corpus import MOST, Corpus, Question, meant
from benchmarks.search.vectors.engines import Plain

_COMPARED = 1000


def _opened(file: str, bits: int) -> Any:
    return faiss.read_index_binary(file) if os.path.exists(file) else faiss.IndexBinaryFlat(bits)


class Measured(Plain):
    batch = 10_000
    version = version("faiss-cpu")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        faiss.omp_set_num_threads(1)
        self._corpus, self._file = corpus, str(folder / "index")
        self._bits = -(-corpus.dimension // 8) * 8
        self._mean = np.asarray(corpus.spaces[0][:: max(1, len(corpus) // 20_000)]).mean(axis=0)
        self._index = _opened(self._file, self._bits)

    async def fill(self, first: int, last: int) -> None:
        self._index.add(np.packbits(self._corpus.spaces[0][first:last] > self._mean, axis=1))

    async def filled(self) -> None:
        faiss.write_index_binary(self._index, self._file)

    async def nearest(self, question: Question) -> list[int]:
        if len(question.vectors) > 1:
            raise NotImplementedError
        code = np.packbits(question.vectors > self._mean, axis=1)
        if question.since is None and question.user is None:
            near = self._index.search(code, _COMPARED)[1][0]
        else:
            near = self._picked(code, np.flatnonzero(meant(self._corpus, question)))
        near.sort()
        scores = self._corpus.spaces[0][near] @ question.vectors[0]
        return near[np.argsort(-scores)[:MOST]].tolist()  # type: ignore[no-any-return]

    def _picked(self, code: np.ndarray, places: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        distances = np.empty((1, len(self._corpus)), dtype=np.int32)
        faiss.hammings(
            faiss.swig_ptr(code), self._index.xb.data(), 1, len(self._corpus), self._bits // 8,
            faiss.swig_ptr(distances),
        )  # fmt: skip
        if len(places) <= _COMPARED:
            return places
        return places[np.argpartition(distances[0, places], _COMPARED)[:_COMPARED]]
