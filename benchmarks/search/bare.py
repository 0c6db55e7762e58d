"""tantivy with nothing around it: our tokens, no substrings, no truth beside it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tantivy
from benchmarks.search.engines import MOST
from benchmarks.search.generator import Asked, Entry
from tantivy import FieldType, Occur, Query

from tabane.search.analysis import tokens

_HEAP = 24_000_000


class Measured:
    batch = 1000
    version = version("tantivy")

    async def open(self, folder: Path) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("key", stored=True, tokenizer_name="raw", index_option="basic")
        builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
        builder.add_float_field("date", indexed=True, fast=True)
        builder.add_text_field("user", tokenizer_name="raw", index_option="basic")
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema, path=str(folder))
        self._searcher: Any = self._index.searcher()
        self._writer: Any = None

    async def fill(self, entries: Sequence[Entry]) -> None:
        if self._writer is None:
            self._writer = self._index.writer(_HEAP, 1)
        for entry in entries:
            self._writer.add_document(self._document(entry))

    async def filled(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._writer = None

    async def upsert(self, entry: Entry) -> None:
        if self._writer is None:
            self._writer = self._index.writer(_HEAP, 1)
        self._writer.delete_documents_by_term("key", entry.key)
        self._writer.add_document(self._document(entry))
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    async def search(self, asked: Asked) -> list[str]:
        words = [
            (Occur.Should, Query.term_query(self._schema, "text", token, "freq"))
            for token in dict.fromkeys(tokens(" ".join(asked.words)))
        ]
        clauses = [(Occur.Must, Query.boolean_query(words)), *self._limits(asked)]
        query = Query.boolean_query(clauses if len(clauses) > 1 else words)
        hits = self._searcher.search(query, MOST, count=False).hits
        return [self._searcher.doc(address)["key"][0] for _, address in hits]

    async def contains(self, asked: Asked) -> list[str]:
        raise NotImplementedError

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.wait_merging_threads()

    def _document(self, entry: Entry) -> Any:
        document = tantivy.Document()
        document.add_text("key", entry.key)
        document.add_text("text", " ".join(tokens(entry.text)))
        document.add_float("date", float(entry.date))
        document.add_text("user", entry.user)
        return document

    def _limits(self, asked: Asked) -> list[tuple[Any, Any]]:
        found = []
        if asked.since is not None and asked.until is not None:
            dates = Query.range_query(
                self._schema, "date", FieldType.Float, float(asked.since), float(asked.until), True, False
            )
            found.append(dates)
        if asked.user is not None:
            found.append(Query.term_query(self._schema, "user", asked.user, "basic"))
        return [(Occur.Must, Query.const_score_query(each, 0.0)) for each in found]
