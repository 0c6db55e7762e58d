"""The lexical index of one collection: new records are found at once, and committed in the background.

There are two threads. One owns the writer of tantivy: it puts committed records into the index, and commits
every 4,000 rows or 2 seconds. The other one searches the index as of its last commit, and the memory
segments of newer records, both at the same moment as the records. An index that is missing, damaged, or of
another version or epoch is rebuilt from the records. Searches use what exists meanwhile.

A search has common statistics of both. If there are memory segments, the best hits of the index are ranked
again: tantivy explains how often each term occurs in a hit and how long the text is, the rest is arithmetic.
The largest difference of the two rankings is known, so as many hits are fetched as necessary. Deleted records
count until tantivy drops them with their segment, as in any Lucene.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tabane.engine.embedded.collection_state import CollectionChange
from tabane.engine.embedded.collection_table import CollectionTable, LexicalFollower
from tabane.engine.embedded.lexical.index_builder import (
    MOST_BEHIND,
    AnalysisProcess,
    IndexBuilder,
    IndexSnapshot,
    TruthReader,
    analysis_process,
)
from tabane.engine.embedded.lexical.tantivy_index import ROW, IndexSearcher, answerable
from tabane.engine.embedded.masks import Masks, RowSet, SubstringCondition
from tabane.engine.query_plans import (
    MOST_EXPANSIONS,
    NOTHING,
    AllOf,
    AnyOf,
    Japanese,
    LexicalPlan,
    LexicalPlanner,
    Match,
    PhraseMatch,
    PrefixMatch,
    RecordAnalyzer,
    ScoredTerm,
    TermMatch,
    ceiling,
    idf,
    is_whole,
    japanese,
    needle,
    rounded,
    saturation,
)
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.engine import EngineHit, EngineHits, LexicalQuery
from tabane.search.records import Contains, Filter, Record, matches

MOST_FETCHED = 50_000  # hits of one look into the index; ties beyond are broken by the index
_LISTED = 500  # tokens of a prefix that are looked at
_SPARE = 6  # hits more than asked for, against ties at the end

Accept = Callable[[Sequence[int]], set[int]]
"""Which of these rows a filter means that the index cannot answer alone."""


class UnreadableIndex(Exception):
    """The index could not be read."""


@dataclass(frozen=True, slots=True)
class LexicalRequest:
    """A plan with its filter. ``means`` is the filter for a record of the memory segment."""

    plan: LexicalPlan
    where: Filter
    means: Callable[[Record], bool]
    accept: Accept | None


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Rows with their scores, best first and whole ties at the end; ``whole``: there are no others.

    ``ceiling`` as :class:`~tabane.search.engine.Hits` has it.
    """

    scores: list[tuple[int, float]]
    whole: bool
    ceiling: float = 0.0


def matching(view: IndexSnapshot, must: Match, without: Match, *, turned: bool) -> RowSet:
    """Return all rows that match, in no order; rows that are gone may be among them.

    Where most of them do and ``turned`` is allowed, those that do not: each costs as much as one that does.
    """
    segments = [segment for segment in view.segments if len(segment)]
    for segment in segments:
        segment.begin_search()
    newer = {row for segment in segments for row in segment.rows(must) - segment.rows(without)}
    if view.searcher is None or view.compiler is None or not view.searcher.searcher.num_docs:
        return RowSet(np.array(list(newer), dtype=np.int64))
    searcher = view.searcher.searcher
    query = view.compiler.unscored(must, without)
    most = min(searcher.num_docs, _at_most(view.searcher, must))
    if turned and most * 2 > searcher.num_docs and _count_matches(searcher, query) * 2 > searcher.num_docs:
        newer = {row for segment in segments for row in segment.entries} - newer
        query = view.compiler.others(must, without)
        most = searcher.num_docs
    else:
        turned = False
    found = _search_index(searcher, query, most)[1] if most else []
    return RowSet(np.array([*found, *newer] if newer else found, dtype=np.int64), turned)


def _at_most(searcher: IndexSearcher, match: Match) -> int:
    """Return as many records of the index match at most."""
    match match:
        case TermMatch(space, token):
            return searcher.having(space, token)
        case PhraseMatch(space, tokens):
            return min(searcher.having(space, token) for _, token in tokens)
        case AllOf(of):
            return min((_at_most(searcher, each) for each in of), default=int(searcher.searcher.num_docs))
        case AnyOf(of):
            return sum(_at_most(searcher, each) for each in of)
        case PrefixMatch():
            return int(searcher.searcher.num_docs)


class LexicalSearch:
    """One question to one view. For the thread that made it."""

    def __init__(self, view: IndexSnapshot, question: LexicalRequest) -> None:
        self._view = view
        self._question = question
        searcher = view.searcher
        self._indexed = searcher.records if searcher else 0
        self._mixed = any(len(segment) for segment in view.segments)
        self._records = self._indexed + sum(len(segment) for segment in view.segments)
        for segment in view.segments:
            segment.begin_search()
        self._averages: dict[str, float] = {}
        self._leaves = (*question.plan.leaves, *self._expanded())
        # Without memory segments, the index ranks alone.
        self._idf = {leaf.term: self._rarity(leaf.term) for leaf in self._leaves} if self._mixed else {}

    def best(self, wanted: int) -> ScoredRows:
        """Return the best ``wanted`` and whatever ties with the last of them."""
        newer = self._segment_hits()
        if self._view.searcher is None or not self._view.searcher.searcher.num_docs:
            return ScoredRows(_sort_by_score(newer), True, self._ceiling())
        fetch = wanted + _SPARE + min(len(self._view.dead), 1000)
        while True:
            hits, bound = self._indexed_hits(fetch)
            scores = _sort_by_score([*newer, *hits])
            if bound is None:
                return ScoredRows(scores, True, self._ceiling())
            if fetch >= MOST_FETCHED or (len(scores) >= wanted and scores[wanted - 1][1] > bound):
                return ScoredRows(scores, False, self._ceiling())
            fetch = min(fetch * 4, MOST_FETCHED)

    # The index

    def _indexed_hits(self, fetch: int) -> tuple[list[tuple[int, float]], float | None]:
        """Return up to ``fetch`` hits of the index, and the highest score that others may have, if any."""
        searcher, compiler = self._view.searcher, self._view.compiler
        assert searcher is not None
        assert compiler is not None
        leaves = [(leaf, factor) for leaf in self._leaves if (factor := self._factor(leaf.term))]
        plan, where = self._question.plan, self._question.where
        if not leaves and plan.plain:
            return [], None
        hits, rows = list[tuple[float, Any]](), list[int]()
        if plan.loose and leaves:
            # Hits without a scored token come last. To collect them takes ten times as long.
            query = compiler.search(plan, leaves, where, scored=True)
            hits, rows = _search_index(searcher.searcher, query, fetch)
        if len(hits) < fetch:
            query = compiler.search(plan, leaves, where)
            hits, rows = _search_index(searcher.searcher, query, fetch)
        kept = set(rows) - self._view.dead
        if self._question.accept and kept:
            kept = self._question.accept(list(kept))
        if not self._mixed:
            found = [(row, rounded(score)) for row, (score, _) in zip(rows, hits, strict=True) if row in kept]
        else:
            explain = compiler.scoring(leaf for leaf, _ in leaves).explain if leaves else None
            weights: dict[TermMatch, float] = {}
            for leaf, _ in leaves:
                weights[leaf.term] = weights.get(leaf.term, 0.0) + leaf.weight
            found = [
                (row, self._rescored(explain, address, weights))
                for row, (_, address) in zip(rows, hits, strict=True)
                if row in kept
            ]
        if len(hits) < fetch:
            return found, None
        return found, rounded(hits[-1][0] * self._stretch())

    def _factor(self, term: TermMatch) -> float:
        """Return what makes the index's rarity of a term that of all records; 0 if it has no such term."""
        if not self._mixed:
            return 1.0
        assert self._view.searcher is not None
        having = self._view.searcher.having(term.space, term.token)
        return self._idf[term] / idf(self._indexed, having) if having else 0.0

    def _stretch(self) -> float:
        """Return how much higher a hit can score here: longer averages make its length weigh less."""
        assert self._view.searcher is not None
        if not self._mixed:
            return 1.0
        theirs = self._view.searcher.averages
        spaces = {leaf.term.space for leaf in self._leaves if theirs[leaf.term.space]}
        return max([1.0, *(self._average(space) / theirs[space] for space in spaces)]) * (1 + 1e-5)

    def _rescored(self, explain: Any, address: Any, weights: Mapping[TermMatch, float]) -> float:
        assert self._view.searcher is not None
        if explain is None:
            return 0.0
        try:
            explained = explain(self._view.searcher.searcher, address).to_json()
        except ValueError:
            return 0.0  # found by something else than a leaf
        terms = _explained_terms(msgspec.json.decode(explained), list(self._view.searcher.averages))
        return rounded(sum(weights[term] * self._term_score(term, *rest) for term, *rest in terms))

    # The memory segment

    def _segment_hits(self) -> list[tuple[int, float]]:
        plan, question = self._question.plan, self._question
        found: list[tuple[int, float]] = []
        for segment in self._view.segments:
            if not len(segment):
                continue
            if plan.plain:
                rows = set[int]().union(*(segment.having(leaf.term) for leaf in self._leaves))
            else:
                rows = segment.rows(plan.must)
            rows = rows.difference(self._view.dead, *(segment.rows(each) for each in plan.without if rows))
            scores = dict.fromkeys((row for row in rows if question.means(segment.entries[row].record)), 0.0)
            for leaf in self._leaves:
                lengths = segment.space(leaf.term.space).lengths
                for row, frequency in segment.having(leaf.term).items():
                    if row in scores:
                        scores[row] += leaf.weight * self._term_score(leaf.term, frequency, lengths[row])
            found.extend((row, rounded(score)) for row, score in scores.items())
        return found

    # Statistics of both

    def _term_score(self, term: TermMatch, frequency: float, length: float) -> float:
        return self._idf[term] * saturation(frequency, length, self._average(term.space))

    def _rarity(self, term: TermMatch) -> float:
        searcher = self._view.searcher
        having = searcher.having(term.space, term.token) if searcher else 0
        having += sum(len(segment.having(term)) for segment in self._view.segments)
        return idf(self._records, having)

    def _ceiling(self) -> float:
        """Return the worth of the query's words, each in the field if it is most usual."""
        rarity = self._idf.__getitem__ if self._mixed else self._rarity
        return ceiling(self._question.plan, rarity)

    def _average(self, space: str) -> float:
        known = self._averages.get(space)
        if known is None:
            searcher = self._view.searcher
            indexed = searcher.averages[space] * self._indexed if searcher and self._indexed else 0.0
            newer = sum(segment.space(space).total for segment in self._view.segments)
            known = self._averages[space] = (indexed + newer) / max(1, self._records) or 1.0
        return known

    def _expanded(self) -> Iterator[ScoredTerm]:
        """Yield the tokens that prefixes stand for, the most frequent of them."""
        known = {leaf.term for leaf in self._question.plan.leaves}
        for starts, weight in self._question.plan.prefixes:
            terms = (TermMatch(starts.space, token) for token in self._expand_prefix(starts))
            yield from (ScoredTerm(term, weight) for term in terms if term not in known)

    def _expand_prefix(self, starts: PrefixMatch) -> list[str]:
        counts: dict[str, int] = {}
        for segment in self._view.segments:
            for token, count in segment.beginning(starts).items():
                counts[token] = counts.get(token, 0) + count
        if self._view.searcher is not None:
            for token, count in self._view.searcher.beginning(starts.space, starts.beginning, _LISTED):
                counts[token] = counts.get(token, 0) + count
        first = sorted(counts)[:_LISTED]
        return sorted(first, key=lambda token: (-counts[token], token))[:MOST_EXPANSIONS]


def _search_index(searcher: Any, query: Any, fetch: int) -> tuple[list[tuple[float, Any]], list[int]]:
    """Return scores and addresses, and their rows. Raises :class:`UnreadableIndex` if tantivy fails."""
    try:
        hits = searcher.search(query, fetch, count=False).hits
        return hits, searcher.fast_field_values(ROW, [address for _, address in hits])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic is no Exception
        raise UnreadableIndex(str(error)) from error


def _count_matches(searcher: Any, query: Any) -> int:
    """Return how many match. Raises :class:`UnreadableIndex`."""
    try:
        return int(searcher.search(query, 1).count)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise UnreadableIndex(str(error)) from error


def _sort_by_score(scores: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(scores, key=lambda pair: -pair[1])


def _explained_terms(explained: Any, spaces: Sequence[str]) -> Iterator[tuple[TermMatch, float, float]]:
    """Yield the terms of an explanation, how often each occurs, and how long the text is."""
    waiting = [explained]
    while waiting:
        node = waiting.pop()
        if node["description"].startswith("TermQuery"):
            saturation = node["details"][2]["details"]
            context = node["context"][0]  # Term=Term(field=1, type=Str, "token"); the first field is the row
            number = int(context[context.index("field=") + 6 : context.index(",")])
            quoted = context[context.index('"') + 1 : context.rindex('"')]
            term = TermMatch(spaces[number - 1], _unescaped(quoted))
            yield term, saturation[0]["value"], saturation[3]["value"]
        else:
            waiting.extend(node.get("details", ()))


def _unescaped(quoted: str) -> str:
    """Return what Rust's debug form writes in braces, as the characters that they are."""
    if "\\" not in quoted:
        return quoted
    pieces: list[str] = []
    at = 0
    while at < len(quoted):
        if quoted.startswith("\\u{", at):
            end = quoted.index("}", at)
            pieces.append(chr(int(quoted[at + 3 : end], 16)))
            at = end + 1
        elif quoted[at] == "\\":
            pieces.append({"n": "\n", "t": "\t", "r": "\r", "0": "\0"}.get(quoted[at + 1], quoted[at + 1]))
            at += 2
        else:
            pieces.append(quoted[at])
            at += 1
    return "".join(pieces)


_LONGEST_WAIT = 30.0  # seconds
_MOST_TRIES = 100
_ANALYZED_AT_ONCE = 64  # records


async def open_lexical(folder: str, table: CollectionTable) -> LexicalIndex:
    """Open the index of a table in a folder, with the words of the extra ``ja`` if it is installed."""
    return await LexicalIndex.open(folder, table, japanese())


class LexicalIndex(LexicalFollower):
    """Finds the records of one collection by their words. Made by :meth:`open`."""

    def __init__(
        self,
        builder: IndexBuilder,
        source: TruthReader,
        planner: LexicalPlanner,
        process: AnalysisProcess | None = None,
    ) -> None:
        self._builder = builder
        self._process = process
        self._source = source
        self._planner = planner
        self._searching = ThreadPoolExecutor(1, "store-search")

    @classmethod
    async def open(cls, folder: str, table: CollectionTable, dictionary: Japanese | None) -> LexicalIndex:
        """Open the index, and begin to catch up or to rebuild it in the background."""
        analyst = RecordAnalyzer(table.shape, dictionary)
        source = TruthReader(table)
        process = analysis_process(analyst)
        builder = await asyncio.to_thread(IndexBuilder.open, folder, source, analyst, process)
        return cls(builder, source, LexicalPlanner(table.shape, dictionary), process)

    @property
    def applied(self) -> int:
        return self._builder.applied

    @property
    def progress(self) -> tuple[int, int] | None:
        """Return how many records are indexed, and of how many, while the index catches up; else None."""
        return self._builder.progress

    def committed(self, change: CollectionChange) -> None:
        self._builder.take(change)

    def containing(self, connection: sqlite3.Connection, wanted: SubstringCondition) -> RowSet | None:
        """See :class:`tabane.engine.embedded.masks.Index`. None too while the index catches up."""
        if any(not is_whole(each.text) for each in wanted.excludes):
            return None
        must = AllOf(tuple(map(self._needle_match, wanted.includes)))
        without = AnyOf(tuple(map(self._needle_match, wanted.excludes)))
        try:
            with self._builder.view() as view:
                if not self._builder.complete:
                    return None
                doubtful = [each for each in wanted.includes if not is_whole(each.text)]
                found, changes = matching(view, must, without, turned=not doubtful), view.changes
                if not all(segment.whole for segment in view.segments):
                    return None
        except UnreadableIndex:
            self._builder.mistrust()
            return None
        for each in doubtful:
            rows = self._source.holding(connection, found.rows.tolist(), each)
            found = RowSet(np.array(rows, dtype=np.int64))
        return found._replace(changes=changes)

    def _needle_match(self, condition: Contains) -> Match:
        return needle(condition.text, self._source.shape.text_names(condition.fields))

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._searching, self._search_blocking, query, where, limit, offset)

    async def room(self) -> None:
        """Wait, half a minute at most, if the index is far behind the records."""
        if self._builder.behind >= MOST_BEHIND:
            await asyncio.to_thread(self._builder.wait_for_room, _LONGEST_WAIT)

    @contextlib.asynccontextmanager
    async def ahead(self, records: Sequence[Record]) -> AsyncIterator[None]:
        """Analyze texts, and yield while they are written: else the next search has to analyze them."""
        with self._builder.expecting() as found:
            for first in range(0, len(records), _ANALYZED_AT_ONCE):
                part = records[first : first + _ANALYZED_AT_ONCE]
                await asyncio.to_thread(self._builder.analyze, part, found)
            yield

    async def settled(self) -> None:
        """Wait until everything that was acknowledged is committed in the index."""
        await asyncio.to_thread(self._builder.settle)

    async def agrees(self) -> bool:
        """Return whether the index has as many records as the truth, once it has caught up. For checks."""
        await self.settled()
        live = await asyncio.to_thread(self._source.count)
        return self._builder.complete and (self._builder.behind > 0 or self._builder.records == live)

    @property
    def indexed(self) -> int:
        """Return how many records are in the index; the rest is in the memory segment or to be caught up."""
        return self._builder.records

    async def remake(self) -> None:
        """Rebuild the index, in the background; the memory segment answers meanwhile."""
        await asyncio.to_thread(self._builder.remake)

    async def close(self) -> None:
        await asyncio.to_thread(self._close_blocking)
        if self._process is not None:
            await self._process.close()

    def _close_blocking(self) -> None:
        self._searching.shutdown(wait=True)
        self._builder.close()
        self._source.close()

    def _search_blocking(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        plan = self._planner.plan(query)
        if plan == NOTHING:
            return EngineHits()
        with self._source.reading() as connection:
            try:
                with self._moment(connection) as (masks, view):
                    found, keys = self._search_moment(plan, where, masks, view, offset + limit)
                    complete = self._builder.complete and all(each.whole for each in view.segments)
            except UnreadableIndex as error:
                if not self._builder.mistrust():
                    detail = say(
                        "the index of {collection} cannot be read ({detail})",
                        collection=self._source.shape.name,
                        detail=str(error),
                    )
                    raise StoreError(detail) from error
            else:
                page = self._page_hits(connection, found, limit, offset, keys)
                return EngineHits(tuple(page), len(found.scores), found.whole and complete, found.ceiling)
        return self._search_blocking(query, where, limit, offset)

    @contextlib.contextmanager
    def _moment(self, connection: sqlite3.Connection) -> Iterator[tuple[Masks, IndexSnapshot]]:
        """Yield records, columns and index of one moment, which becomes that of the transaction.

        Raises StoreBusy if writes come in between all the time.
        """
        for _ in range(_MOST_TRIES):
            masks = self._source.masks(connection)
            with self._builder.view(masks.snapshot.changes) as view:
                if view.changes == masks.snapshot.changes:
                    yield masks, view
                    return
            # A write came in between: look again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        raise self._source.busy()

    def _search_moment(
        self, plan: LexicalPlan, where: Filter, masks: Masks, view: IndexSnapshot, wanted: int
    ) -> tuple[ScoredRows, dict[int, str]]:
        """Return the best, and the keys of those that are not in the index yet."""
        index = answerable(where)
        accept: Accept | None = None
        if index != where:
            accept = set(masks.snapshot.rows(masks.mask(where).nonzero()[0])).intersection
        question = LexicalRequest(plan, index, lambda record: matches(where, record), accept)
        found = LexicalSearch(view, question).best(wanted)
        held = (segment.entries.get(row) for row, _ in found.scores for segment in view.segments)
        return found, {entry.row: entry.record.key for entry in held if entry is not None}

    def _page_hits(
        self, connection: sqlite3.Connection, found: ScoredRows, limit: int, offset: int, keys: dict[int, str]
    ) -> list[EngineHit]:
        """Return the hits of a page, equal scores in order of keys. Only keys that this needs are read."""
        page = found.scores[offset : offset + limit]
        if not page:
            return []
        high, low = page[0][1], page[-1][1]
        above = sum(score > high for _, score in found.scores[:offset])
        tied = [(row, score) for row, score in found.scores if low <= score <= high]
        known = self._source.keys(connection, [row for row, _ in tied if row not in keys]) | keys
        hits = [EngineHit(known[row], row, score) for row, score in tied if row in known]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        return hits[offset - above : offset - above + limit]
