"""The tantivy index of a collection, and its watermark: how far it has followed the records.

There is one document a record, with nothing stored: its row as a fast field, the spaces of its texts, its
fields. One thread writes. :class:`IndexWatermark` is written after each commit, so it never claims more than
the index contains; what it does not cover is indexed again at the next opening.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import tantivy
from tantivy import Query

from tabane.engine.embedded.lexical.query_compiler import PRESENT, ROW, TantivyCompiler, field_name
from tabane.engine.query_plans import PAIRS, TOKENS
from tabane.engine.text_spaces import JoinedAnalysis, RecordAnalyzer
from tabane.search.analysis import GAP
from tabane.search.records import Kind, Record, Shape, Value

FORMAT = 1
_HEAP = 48_000_000  # bytes that a writer fills, as it needs them, before it makes a segment by itself
_DELETED = 1000  # rows of one deletion
_WATERMARK = "standing.json"
_WITH_GAPS, _PLAIN = "gaps", "plain"  # tokenizers: tokens come joined by blanks


class IndexWatermark(msgspec.Struct, frozen=True):
    """The position of the index: rows to ``row`` (from the collection's base), tombstones to that one.

    ``terms``: space → some term of it, which spares looking for one: a fifth of a second in a large index.
    """

    fingerprint: str
    epoch: int
    row: int
    tombstone: int
    terms: dict[str, str] = {}


class IndexSearcher(msgspec.Struct, frozen=True):
    """One moment of the index, for any thread. ``averages``: space → tokens of a record on average."""

    searcher: Any
    records: int
    averages: Mapping[str, float]

    def having(self, space: str, token: str) -> int:
        return int(self.searcher.doc_freq(space, token)) if self.records else 0


class TantivyIndex:
    """An index, open for writing. Made by :meth:`open`; raises what tantivy raises."""

    def __init__(self, folder: str, shape: Shape, analyst: RecordAnalyzer) -> None:
        self._folder = folder
        self._shape = shape
        self._analyst = analyst
        self.schema = _schema(shape, analyst)
        self._index = tantivy.Index(self.schema, path=folder)
        # Else a thread watches the folder, and takes a lock in it when it changes: after close too.
        self._index.config_reader("manual")
        for name, gaps in ((_WITH_GAPS, [GAP]), (_PLAIN, [])):
            self._index.register_tokenizer(name, _tokenizer(gaps))
        self.compiler = TantivyCompiler(self.schema, shape)
        self._writer = self._index.writer(_HEAP, 1)
        watermark = read_watermark(folder)
        self._terms = dict(watermark.terms) if watermark else {}
        self._added: dict[str, str] = {}  # the last tokens of each space

    @classmethod
    def open(cls, folder: str, shape: Shape, analyst: RecordAnalyzer) -> TantivyIndex:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return cls(folder, shape, analyst)

    def searcher(self) -> IndexSearcher:
        """Return the index as of the last commit. Raises where its files are torn."""
        self._index.reload()
        searcher = self._index.searcher()
        spaces = self._analyst.spaces()
        found = [_statistics(searcher, self.schema, space, self._terms) for space in spaces]
        records = max((records for records, _ in found), default=searcher.num_docs)
        averages = {space: average for space, (_, average) in zip(spaces, found, strict=True)}
        return IndexSearcher(searcher, records, averages)

    def add(self, row: int, record: Record, tokens: JoinedAnalysis) -> None:
        document = tantivy.Document()
        document.add_unsigned(ROW, row)
        for space, joined in tokens.items():
            document.add_text(space, joined)
            if joined:
                self._added[space] = joined
        _add_fields(document, self._shape, record.fields)
        self._writer.add_document(document)

    def delete(self, rows: Sequence[int]) -> None:
        """Take rows out, those that are not here included."""
        # By query: deletion by a term of a number finds nothing in 0.27, and says nothing.
        for first in range(0, len(rows), _DELETED):
            chosen = Query.term_set_query(self.schema, ROW, rows[first : first + _DELETED])
            self._writer.delete_documents_by_query(chosen)

    def delete_after(self, row: int) -> None:
        """Delete the rows after the watermark: a commit without a watermark is indexed again."""
        behind = Query.range_query(
            self.schema, ROW, tantivy.FieldType.Unsigned, row, None, include_lower=False
        )
        self._writer.delete_documents_by_query(behind)

    def commit(self, watermark: IndexWatermark) -> None:
        self._writer.commit()
        for space, joined in self._added.items():
            term = joined.partition(" ")[0]
            if term != GAP or space.startswith(f"{PAIRS}_"):
                self._terms[space] = term
        write_watermark(self._folder, msgspec.structs.replace(watermark, terms=self._terms))

    def close(self) -> None:
        """Let go of the folder: what was not committed is given up, merges under way are finished."""
        self._writer.wait_merging_threads()


def _schema(shape: Shape, analyst: RecordAnalyzer) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(ROW, indexed=True, fast=True)
    for space in analyst.spaces():
        placed = space.startswith((f"{TOKENS}_", f"{PAIRS}_"))
        builder.add_text_field(
            space,
            tokenizer_name=_WITH_GAPS if space.startswith(f"{TOKENS}_") else _PLAIN,
            index_option="position" if placed else "freq",
        )
    builder.add_text_field(PRESENT, tokenizer_name="raw", index_option="basic")
    for field in shape.fields:
        if field.kind.numeric:
            builder.add_float_field(field_name(field.name), indexed=True, fast=True)
        else:
            builder.add_text_field(field_name(field.name), tokenizer_name="raw", index_option="basic")
    return builder.build()


def _tokenizer(gaps: Sequence[str]) -> Any:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return (builder.filter(tantivy.Filter.custom_stopword(list(gaps))) if gaps else builder).build()


def _add_fields(document: Any, shape: Shape, fields: Mapping[str, Value]) -> None:
    for field in shape.fields:
        value = fields.get(field.name)
        if value is None:
            continue
        name = field_name(field.name)
        if field.kind.numeric and isinstance(value, int | float):
            document.add_float(name, float(value))
        elif field.kind is Kind.STRINGS and isinstance(value, tuple):
            for element in value:
                document.add_text(name, element)
        elif field.kind in (Kind.STRING, Kind.BOOLEAN):
            document.add_text(name, str(value))
        if value != ():
            document.add_text(PRESENT, field.name)


def _statistics(searcher: Any, schema: Any, space: str, terms: dict[str, str]) -> tuple[int, float]:
    """Return how many records the index counts, and how long this space of them is on average.

    tantivy tells both in the explanation of a hit, whatever its term, and nowhere else. ``terms`` holds
    one to begin with if one is known: that of a record put in, which may be gone since.
    """
    if (known := terms.get(space)) is not None and (told := _told(searcher, schema, space, known)):
        return told
    found = searcher.terms_with_prefix(space, "", None, 1)  # looks at all of them
    if not found:
        return searcher.num_docs, 0.0
    terms[space] = found[0][0]
    return _told(searcher, schema, space, found[0][0]) or (searcher.num_docs, 0.0)


def _told(searcher: Any, schema: Any, space: str, term: str) -> tuple[int, float] | None:
    query = Query.term_query(schema, space, term, "freq")
    hits = searcher.search(query, 1, count=False).hits
    if not hits:
        return None
    explained = msgspec.json.decode(query.explain(searcher, hits[0][1]).to_json())
    _, rarity, saturation = explained["details"]
    return int(rarity["details"][1]["value"]), float(saturation["details"][4]["value"])


def exists(folder: str) -> bool:
    """Return whether there is an index; opening one that is not there makes an empty one."""
    return os.path.isdir(folder) and bool(tantivy.Index.exists(folder))


def read_watermark(folder: str) -> IndexWatermark | None:
    """Return the watermark of the index in a folder; None if there is none that can be read."""
    try:
        with open(os.path.join(folder, _WATERMARK), "rb") as file:
            return msgspec.json.decode(file.read(), type=IndexWatermark)
    except (OSError, msgspec.MsgspecError):
        return None


def write_watermark(folder: str, watermark: IndexWatermark) -> None:
    """Put the file in place whole; one that is lost means work again, nothing else."""
    partial = os.path.join(folder, _WATERMARK + ".part")
    with open(partial, "wb") as file:
        file.write(msgspec.json.encode(watermark))
    os.replace(partial, os.path.join(folder, _WATERMARK))


def wipe(folder: str) -> None:
    """Remove an index."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
