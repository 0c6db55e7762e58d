"""faiss, exact: an IndexFlatIP in memory, with one thread. A filter is the numbers it may look at."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import faiss  # type: ignore[import-not-found]
import numpy as np
from benchmarks.search.vectors.corpus import MOST, Corpus, Question, meant
from benchmarks.search.vectors.engines import Plain


def selected(corpus: Corpus, question: Question) -> object | None:
    """What a question is limited to, as faiss wants it."""
    if question.since is None and question.user is None:
        return None
    return faiss.IDSelectorBatch(np.flatnonzero(meant(corpus, question)))


def _opened(file: str, dimension: int) -> Any:
    return faiss.read_index(file) if os.path.exists(file) else faiss.IndexFlatIP(dimension)


class Measured(Plain):
    batch = 10_000
    version = version("faiss-cpu")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        faiss.omp_set_num_threads(1)
        self._corpus, self._file = corpus, str(folder / "index")
        self._index = _opened(self._file, corpus.dimension)

    async def fill(self, first: int, last: int) -> None:
        self._index.add(np.ascontiguousarray(self._corpus.spaces[0][first:last]))

    async def filled(self) -> None:
        faiss.write_index(self._index, self._file)

    async def nearest(self, question: Question) -> list[int]:
        if len(question.vectors) > 1:
            raise NotImplementedError
        chosen = selected(self._corpus, question)
        limits = None if chosen is None else faiss.SearchParameters(sel=chosen)
        _, found = self._index.search(question.vectors, MOST, params=limits)
        return [number for number in found[0].tolist() if number >= 0]
