"""LanceDB, with its index of words for English and its index of pairs of characters for Japanese.

A column has one index, so the text is there twice; the first of the two columns is what is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lancedb  # type: ignore[import-not-found]
import pyarrow  # type: ignore[import-not-found]
from benchmarks.search.engines import MOST
from benchmarks.search.generator import Asked, Entry

_SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.string()),
        ("text", pyarrow.string()),
        ("pairs", pyarrow.string()),
        ("date", pyarrow.int64()),
        ("user", pyarrow.string()),
    ]
)


class Measured:
    batch = 10_000  # each call is a version of the table with files of its own
    version = version("lancedb")

    async def open(self, folder: Path) -> None:
        self._table: Any = lancedb.connect(str(folder)).create_table("record", schema=_SCHEMA, exist_ok=True)

    async def fill(self, entries: Sequence[Entry]) -> None:
        self._table.add(_rows(entries))

    async def filled(self) -> None:
        self._table.create_scalar_index("key")
        self._table.create_scalar_index("date")
        self._table.create_scalar_index("user", index_type="BITMAP")
        self._table.create_fts_index("text")
        self._table.create_fts_index(
            "pairs",
            base_tokenizer="ngram",
            ngram_min_length=2,
            ngram_max_length=2,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
        self._table.optimize()

    async def upsert(self, entry: Entry) -> None:
        merge = self._table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(_rows([entry]))

    async def search(self, asked: Asked) -> list[str]:
        text = " ".join(asked.words)
        column = "text" if text.isascii() else "pairs"
        query = self._table.search(text, query_type="fts", fts_columns=column)
        if limits := _limits(asked):
            query = query.where(limits, prefilter=True)
        return [row["key"] for row in query.limit(MOST).select(["key", "_score"]).to_list()]

    async def contains(self, asked: Asked) -> list[str]:
        query = self._table.search().where(f"contains(text, '{asked.needle}')")
        return [row["key"] for row in query.limit(MOST).select(["key"]).to_list()]

    async def close(self) -> None:
        pass


def _rows(entries: Sequence[Entry]) -> list[dict[str, object]]:
    return [{"key": e.key, "text": e.text, "pairs": e.text, "date": e.date, "user": e.user} for e in entries]


def _limits(asked: Asked) -> str:
    parts = []
    if asked.since is not None:
        parts.append(f"date >= {asked.since} AND date < {asked.until}")
    if asked.user is not None:
        parts.append(f"user = '{asked.user}'")
    return " AND ".join(parts)
