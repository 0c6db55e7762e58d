"""The tantivy index of a collection, its watermark, and plans and filters as its queries.

There is one document a record, with nothing stored: its row as a fast field, the spaces of its texts, its
fields. One thread writes. :class:`IndexWatermark` is written after each commit, so it never claims more
than the index contains; what it does not cover is indexed again at the next opening.

Plans and filters as tantivy's queries. What decides only whether a record is found is wrapped in a
constant score of nothing, so that a hit's score is the sum of its leaves'. Ranges of strings have no
index: see :func:`answerable`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import tantivy
from tantivy import FieldType, Occur, Query, Schema

from tabane.engine.query_plans import (
    PAIRS,
    TOKENS,
    AllOf,
    AnyOf,
    JoinedAnalysis,
    LexicalPlan,
    Match,
    PhraseMatch,
    PrefixMatch,
    RecordAnalyzer,
    ScoredTerm,
    TermMatch,
    is_whole,
    needle,
)
from tabane.search import records
from tabane.search.analysis import GAP
from tabane.search.records import (
    EVERYTHING,
    And,
    Contains,
    Equal,
    Everything,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Record,
    Scalar,
    Shape,
)

PRESENT = "present"
ROW = "row"
# Characters that mean something in the expressions of tantivy (the regex-automata syntax).
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~<>@\"]")


def field_name(name: str) -> str:
    """Return what a declared field is called in the index, apart from the spaces of texts."""
    return f"f_{name}"


def answerable(where: Filter) -> Filter:
    """Return what of a filter the index can tell: the filter itself, or one that lets more through.

    Then hits have to be held against the columns or texts too.
    """
    if isinstance(where, And):
        return records.normal(And(tuple(map(answerable, where.of))))
    return EVERYTHING if any(map(_unindexed, records.leaves(where))) else where


def _unindexed(leaf: Filter) -> bool:
    if isinstance(leaf, Range):
        return isinstance(leaf.low, str) or isinstance(leaf.high, str)
    return isinstance(leaf, Contains) and not is_whole(leaf.text)


class TantivyCompiler:
    """Makes queries for the schema of one shape."""

    def __init__(self, schema: Schema, shape: Shape) -> None:
        self._schema = schema
        self._shape = shape

    def search(
        self,
        plan: LexicalPlan,
        leaves: Sequence[tuple[ScoredTerm, float]],
        where: Filter,
        *,
        scored: bool = False,
    ) -> Query:
        """Return what finds and scores: ``leaves`` with the factors that their weights are multiplied by.

        ``scored``: of a loose plan, find only what has one of the leaves.
        """
        scoring = [(Occur.Should, self.leaf(leaf, factor)) for leaf, factor in leaves]
        bare = isinstance(where, Everything) and not plan.without
        if (plan.plain or scored) and bare:
            return Query.boolean_query(scoring)
        if plan.plain or scored:
            clauses = [(Occur.Must, Query.boolean_query(scoring))]
        else:
            clauses = [(Occur.Must, _unscored(self.match(plan.must))), *scoring]
        if not isinstance(where, Everything):
            clauses.append((Occur.Must, _unscored(self.filter(where))))
        clauses.extend((Occur.MustNot, self.match(each)) for each in plan.without)
        return Query.boolean_query(clauses)

    def scoring(self, leaves: Iterable[ScoredTerm]) -> Query:
        """Return the leaves alone, unweighted: what explains a hit."""
        return Query.boolean_query([(Occur.Should, self._term(leaf.term, "freq")) for leaf in leaves])

    def leaf(self, leaf: ScoredTerm, factor: float) -> Query:
        """Return a term that is scored by BM25 times its weight and ``factor``."""
        return Query.boost_query(self._term(leaf.term, "freq"), leaf.weight * factor)

    def match(self, match: Match) -> Query:
        """Return what matches, whatever it scores."""
        match match:
            case TermMatch():
                return self._term(match, "basic")
            case PhraseMatch(space, tokens):
                return Query.phrase_query(self._schema, space, list(tokens))
            case PrefixMatch(space, beginning):
                return Query.regex_query(self._schema, space, _escaped(beginning) + ".*")
            case AnyOf(of):
                return _any([self.match(each) for each in of])
            case AllOf(of):
                return _all([self.match(each) for each in of])

    def unscored(self, must: Match, without: Match) -> Query:
        """Return what matches one and not the other, all with one score: the quickest to find."""
        if without == AnyOf(()):
            return _unscored(self.match(must))
        clauses = [(Occur.Must, self.match(must)), (Occur.MustNot, self.match(without))]
        return _unscored(Query.boolean_query(clauses))

    def others(self, must: Match, without: Match) -> Query:
        """Return all that :meth:`unscored` leaves out."""
        if must == AllOf(()):
            return _unscored(self.match(without))
        clauses = [(Occur.Must, Query.all_query()), (Occur.MustNot, self.unscored(must, without))]
        return _unscored(Query.boolean_query(clauses))

    def filter(self, where: Filter) -> Query:
        """Return what a filter means that is :func:`answerable`."""
        match where:
            case Everything():
                return Query.all_query()
            case Not(of):
                return Query.boolean_query(
                    [(Occur.Must, Query.all_query()), (Occur.MustNot, self.filter(of))]
                )
            case And(of):
                return _all([self.filter(each) for each in of])
            case Or(of):
                return _any([self.filter(each) for each in of])
            case Contains(text, names):
                return self.match(needle(text, self._shape.text_names(names)))
            case _:
                return self._condition(where)

    def _condition(self, where: Equal | In | Range | Prefix) -> Query:
        kind = self._shape.field(where.field).kind
        name = field_name(where.field)
        match where:
            case Equal(_, value):
                return Query.term_query(self._schema, name, _indexed(value, kind), "basic")
            case In(_, values):
                return Query.term_set_query(self._schema, name, [_indexed(value, kind) for value in values])
            case Prefix(_, text):
                return Query.regex_query(self._schema, name, _escaped(text) + "(?s:.)*")
            case Range():
                if where.low is None and where.high is None:
                    return Query.term_query(self._schema, PRESENT, where.field, "basic")
                return Query.range_query(
                    self._schema,
                    name,
                    FieldType.Float,
                    None if where.low is None else float(where.low),
                    None if where.high is None else float(where.high),
                    where.include_low or where.low is None,
                    where.include_high or where.high is None,
                )

    def _term(self, term: TermMatch, option: str) -> Query:
        return Query.term_query(self._schema, term.space, term.token, option)


def _indexed(value: Scalar, kind: Kind) -> str | float:
    if kind is Kind.BOOLEAN:
        return str(value)
    return float(value) if kind.numeric else str(value)


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _any(of: list[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, each) for each in of]) if of else Query.empty_query()


def _all(of: list[Query]) -> Query:
    return Query.boolean_query([(Occur.Must, each) for each in of]) if of else Query.all_query()


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


FORMAT = 1
_HEAP = 48_000_000  # bytes that a writer fills, as it needs them, before it makes a segment by itself
_DELETED = 1000  # rows of one deletion
_MOST_BEGINNINGS = 64  # of tokens, at most 30 KB each
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
    """One moment of the index, for any thread. ``averages``: space → tokens of a record on average.

    ``beginnings``: space and beginning of tokens → tokens with it and their records, of what was listed.
    """

    searcher: Any
    records: int
    averages: Mapping[str, float]
    beginnings: dict[tuple[str, str], Sequence[tuple[str, int]]] = msgspec.field(default_factory=dict)

    def beginning(self, space: str, beginning: str, limit: int) -> Sequence[tuple[str, int]]:
        """Return tokens that begin so, the first ``limit`` in their order, and how many records have each.

        Listing those of two letters takes 10 ms among 220,000 records, so the last ones are kept.
        """
        if not self.records:
            return ()
        known = self.beginnings.get((space, beginning))
        if known is None:
            shorter = self.beginnings.get((space, beginning[:-1]))  # all of them, if they are not cut
            if shorter is not None and len(shorter) < limit:
                known = [each for each in shorter if each[0].startswith(beginning)]
            else:
                known = self.searcher.terms_with_prefix(space, beginning, None, limit)
            if len(self.beginnings) >= _MOST_BEGINNINGS:
                self.beginnings.clear()
            self.beginnings[space, beginning] = known
        return known

    def having(self, space: str, token: str) -> int:
        """Return the number of records that have the token."""
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
            builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
            if gaps:
                builder = builder.filter(tantivy.Filter.custom_stopword(gaps))
            self._index.register_tokenizer(name, builder.build())
        self.compiler = TantivyCompiler(self.schema, shape)
        self._writer = self._index.writer(_HEAP, 1)
        watermark = read_watermark(folder)
        self._terms = dict(watermark.terms) if watermark else {}
        self._added: dict[str, str] = {}  # the last tokens of each space

    @classmethod
    def open(cls, folder: str, shape: Shape, analyst: RecordAnalyzer) -> TantivyIndex:
        """Open the index in a folder. Both are created if they do not exist."""
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
        """Add a record as a document. Searches find it after the next commit."""
        document = tantivy.Document()
        document.add_unsigned(ROW, row)
        for space, joined in tokens.items():
            document.add_text(space, joined)
            if joined:
                self._added[space] = joined
        for field in self._shape.fields:
            value = record.fields.get(field.name)
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
        """Commit what was added and deleted, then write the watermark."""
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


def _statistics(searcher: Any, schema: Any, space: str, terms: dict[str, str]) -> tuple[int, float]:
    """Return how many records the index counts, and how long this space of them is on average.

    tantivy tells both in the explanation of a hit, whatever its term, and nowhere else. ``terms`` holds
    one to begin with if one is known: that of a record put in, which may be gone since.
    """
    if (known := terms.get(space)) is not None and (
        told := _explained_statistics(searcher, schema, space, known)
    ):
        return told
    found = searcher.terms_with_prefix(space, "", None, 1)  # looks at all of them
    if not found:
        return searcher.num_docs, 0.0
    terms[space] = found[0][0]
    return _explained_statistics(searcher, schema, space, found[0][0]) or (searcher.num_docs, 0.0)


def _explained_statistics(searcher: Any, schema: Any, space: str, term: str) -> tuple[int, float] | None:
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
