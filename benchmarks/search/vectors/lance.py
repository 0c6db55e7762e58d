"""LanceDB without an index of vectors: it compares all of them, as is exact."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import lancedb  # type: ignore[import-not-found]
import pyarrow  # type: ignore[import-not-found]
from benchmarks.search.vectors.corpus import MOST, Corpus, Question
from benchmarks.search.vectors.engines import Plain


class Measured(Plain):
    batch = 10_000  # each call is a version of the table with files of its own
    version = version("lancedb")

    async def open(self, folder: Path, corpus: Corpus) -> None:
        self._corpus = corpus
        schema = pyarrow.schema(
            [
                ("number", pyarrow.int64()),
                ("date", pyarrow.int64()),
                ("user", pyarrow.int64()),
                ("vector", pyarrow.list_(pyarrow.float32(), corpus.dimension)),
            ]
        )
        self._table: Any = lancedb.connect(str(folder)).create_table("record", schema=schema, exist_ok=True)

    async def fill(self, first: int, last: int) -> None:
        values = pyarrow.array(self._corpus.spaces[0][first:last].reshape(-1))
        columns = {
            "number": pyarrow.array(range(first, last), pyarrow.int64()),
            "date": pyarrow.array(self._corpus.dates[first:last]),
            "user": pyarrow.array(self._corpus.users[first:last]),
            "vector": pyarrow.FixedSizeListArray.from_arrays(values, self._corpus.dimension),
        }
        self._table.add(pyarrow.table(columns))

    async def filled(self) -> None:
        self._table.create_scalar_index("date")
        self._table.create_scalar_index("user", index_type="BITMAP")
        self._table.optimize()

    async def nearest(self, question: Question) -> list[int]:
        if len(question.vectors) > 1:
            raise NotImplementedError
        query = self._table.search(question.vectors[0]).distance_type("dot")
        if limits := _limits(question):
            query = query.where(limits, prefilter=True)
        return [row["number"] for row in query.limit(MOST).select(["number", "_distance"]).to_list()]


def _limits(question: Question) -> str:
    parts = []
    if question.since is not None:
        parts.append(f"date >= {question.since} AND date < {question.until}")
    if question.user is not None:
        parts.append(f"user = {question.user}")
    return " AND ".join(parts)
