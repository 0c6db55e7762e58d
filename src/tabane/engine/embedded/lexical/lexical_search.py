"""One search over the index and the memory segments, with common statistics.

The index ranks by its own counts. If there are memory segments, its best hits are ranked again by the counts
of both: tantivy explains how often each term occurs in a hit and how long the text is, the rest is
arithmetic. The largest difference of the two rankings is known, so as many hits are fetched as necessary.

Deleted records count until tantivy drops them with their segment, as in any Lucene.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tabane.engine.embedded.lexical.memory_segment import MemorySegment
from tabane.engine.embedded.lexical.tantivy_index import ROW, IndexSearcher, TantivyCompiler
from tabane.engine.embedded.masks import RowSet
from tabane.engine.query_plans import (
    MOST_EXPANSIONS,
    AllOf,
    AnyOf,
    LexicalPlan,
    Match,
    PhraseMatch,
    PrefixMatch,
    ScoredTerm,
    TermMatch,
    ceiling,
    idf,
    rounded,
    saturation,
)
from tabane.search.records import Filter, Record

MOST_FETCHED = 50_000  # hits of one look into the index; ties beyond are broken by the index
_LISTED = 500  # tokens of a prefix that are looked at
_SPARE = 6  # hits more than asked for, against ties at the end

Accept = Callable[[Sequence[int]], set[int]]
"""Which of these rows a filter means that the index cannot answer alone."""


class UnreadableIndex(Exception):
    """The index could not be read."""


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The data searched: the index at one moment (None: there is none), newer rows, and removed rows.

    The moment is that after write number ``changes``.
    """

    searcher: IndexSearcher | None
    compiler: TantivyCompiler | None
    segments: tuple[MemorySegment, ...]
    dead: frozenset[int] | set[int]
    changes: int = 0


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
    newer = {row for segment in segments for row in segment.rows(must) - segment.rows(without)}
    if view.searcher is None or view.compiler is None or not view.searcher.searcher.num_docs:
        return RowSet(np.array(list(newer), dtype=np.int64))
    searcher = view.searcher.searcher
    query = view.compiler.unscored(must, without)
    most = min(searcher.num_docs, _at_most(view.searcher, must))
    if turned and most * 2 > searcher.num_docs and _count(searcher, query) * 2 > searcher.num_docs:
        newer = {row for segment in segments for row in segment.entries} - newer
        query = view.compiler.others(must, without)
        most = searcher.num_docs
    else:
        turned = False
    found = _looked_up(searcher, query, most)[1] if most else []
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
        self._averages: dict[str, float] = {}
        self._leaves = (*question.plan.leaves, *self._expanded())
        # Without memory segments, the index ranks alone.
        self._idf = {leaf.term: self._rarity(leaf.term) for leaf in self._leaves} if self._mixed else {}

    def best(self, wanted: int) -> ScoredRows:
        """Return the best ``wanted`` and whatever ties with the last of them."""
        newer = self._newer()
        if self._view.searcher is None or not self._view.searcher.searcher.num_docs:
            return ScoredRows(_ranked(newer), True, self._ceiling())
        fetch = wanted + _SPARE + min(len(self._view.dead), 1000)
        while True:
            hits, bound = self._older(fetch)
            scores = _ranked([*newer, *hits])
            if bound is None:
                return ScoredRows(scores, True, self._ceiling())
            if fetch >= MOST_FETCHED or (len(scores) >= wanted and scores[wanted - 1][1] > bound):
                return ScoredRows(scores, False, self._ceiling())
            fetch = min(fetch * 4, MOST_FETCHED)

    # The index

    def _older(self, fetch: int) -> tuple[list[tuple[int, float]], float | None]:
        """Up to ``fetch`` hits of the index; and what any other scores at most, None if there is none."""
        searcher, compiler = self._view.searcher, self._view.compiler
        assert searcher is not None
        assert compiler is not None
        leaves = [(leaf, factor) for leaf in self._leaves if (factor := self._factor(leaf.term))]
        if not leaves and self._question.plan.plain:
            return [], None
        query = compiler.search(self._question.plan, leaves, self._question.where)
        hits, rows = _looked_up(searcher.searcher, query, fetch)
        kept = self._kept(rows)
        if not self._mixed:
            found = [(row, rounded(score)) for row, (score, _) in zip(rows, hits, strict=True) if row in kept]
        else:
            explain = compiler.scoring(leaf for leaf, _ in leaves).explain if leaves else None
            weights = _weights(leaf for leaf, _ in leaves)
            found = [
                (row, self._rescored(explain, address, weights))
                for row, (_, address) in zip(rows, hits, strict=True)
                if row in kept
            ]
        if len(hits) < fetch:
            return found, None
        return found, rounded(hits[-1][0] * self._stretch())

    def _kept(self, rows: Sequence[int]) -> set[int]:
        kept = set(rows) - self._view.dead
        return self._question.accept(list(kept)) if self._question.accept and kept else kept

    def _factor(self, term: TermMatch) -> float:
        """Return what makes the index's rarity of a term that of all records; 0 if it has no such term."""
        if not self._mixed:
            return 1.0
        assert self._view.searcher is not None
        having = self._view.searcher.having(term.space, term.token)
        return self._idf[term] / idf(self._indexed, having) if having else 0.0

    def _stretch(self) -> float:
        """The most that a hit can score higher here: longer averages make its length weigh less."""
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
        terms = _evidence(msgspec.json.decode(explained), list(self._view.searcher.averages))
        return rounded(sum(weights[term] * self._worth(term, *rest) for term, *rest in terms))

    # The memory segment

    def _newer(self) -> list[tuple[int, float]]:
        plan, question = self._question.plan, self._question
        found: list[tuple[int, float]] = []
        for segment in self._view.segments:
            if not len(segment):
                continue
            rows = _matching(segment, plan, self._leaves) - self._view.dead
            scores = dict.fromkeys((row for row in rows if question.means(segment.entries[row].record)), 0.0)
            for leaf in self._leaves:
                lengths = segment.space(leaf.term.space).lengths
                for row, frequency in segment.having(leaf.term).items():
                    if row in scores:
                        scores[row] += leaf.weight * self._worth(leaf.term, frequency, lengths[row])
            found.extend((row, rounded(score)) for row, score in scores.items())
        return found

    # Statistics of both

    def _worth(self, term: TermMatch, frequency: float, length: float) -> float:
        return self._idf[term] * saturation(frequency, length, self._average(term.space))

    def _rarity(self, term: TermMatch) -> float:
        searcher = self._view.searcher
        having = searcher.having(term.space, term.token) if searcher else 0
        having += sum(len(segment.having(term)) for segment in self._view.segments)
        return idf(self._records, having)

    def _ceiling(self) -> float:
        """Return the worth of the query's words, each in the field if it is most usual."""
        rarity = self._idf.__getitem__ if self._mixed else self._rarity
        return ceiling(self._question.plan.leaves, rarity)

    def _average(self, space: str) -> float:
        known = self._averages.get(space)
        if known is None:
            known = self._averages[space] = self._averaged(space)
        return known

    def _averaged(self, space: str) -> float:
        searcher = self._view.searcher
        theirs = searcher.averages[space] * self._indexed if searcher and self._indexed else 0.0
        return (theirs + sum(segment.space(space).total for segment in self._view.segments)) / max(
            1, self._records
        ) or 1.0

    def _expanded(self) -> Iterator[ScoredTerm]:
        """Yield the tokens that prefixes stand for, the most frequent of them."""
        known = {leaf.term for leaf in self._question.plan.leaves}
        for starts, weight in self._question.plan.prefixes:
            terms = (TermMatch(starts.space, token) for token in self._tokens(starts))
            yield from (ScoredTerm(term, weight) for term in terms if term not in known)

    def _tokens(self, starts: PrefixMatch) -> list[str]:
        counts: dict[str, int] = {}
        for segment in self._view.segments:
            for token, count in segment.beginning(starts).items():
                counts[token] = counts.get(token, 0) + count
        if self._view.searcher is not None and self._indexed:
            listed = self._view.searcher.searcher.terms_with_prefix(
                starts.space, starts.beginning, None, _LISTED
            )
            for token, count in listed:
                counts[token] = counts.get(token, 0) + count
        first = sorted(counts)[:_LISTED]
        return sorted(first, key=lambda token: (-counts[token], token))[:MOST_EXPANSIONS]


def _looked_up(searcher: Any, query: Any, fetch: int) -> tuple[list[tuple[float, Any]], list[int]]:
    """Return scores and addresses, and their rows. Raises :class:`UnreadableIndex` if tantivy fails."""
    try:
        hits = searcher.search(query, fetch, count=False).hits
        return hits, searcher.fast_field_values(ROW, [address for _, address in hits])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic is no Exception
        raise UnreadableIndex(str(error)) from error


def _count(searcher: Any, query: Any) -> int:
    """Return how many match. Raises :class:`UnreadableIndex`."""
    try:
        return int(searcher.search(query, 1).count)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise UnreadableIndex(str(error)) from error


def _matching(segment: MemorySegment, plan: LexicalPlan, leaves: Iterable[ScoredTerm]) -> set[int]:
    any_leaf = (set[int]().union(*(segment.having(leaf.term) for leaf in leaves))) if plan.plain else None
    rows = segment.rows(plan.must) if any_leaf is None else any_leaf
    without: tuple[Match, ...] = plan.without if rows else ()
    return rows.difference(*(segment.rows(each) for each in without))


def _ranked(scores: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(scores, key=lambda pair: -pair[1])


def _weights(leaves: Iterable[ScoredTerm]) -> dict[TermMatch, float]:
    weights: dict[TermMatch, float] = {}
    for leaf in leaves:
        weights[leaf.term] = weights.get(leaf.term, 0.0) + leaf.weight
    return weights


def _evidence(explained: Any, spaces: Sequence[str]) -> Iterator[tuple[TermMatch, float, float]]:
    """Yield the terms of an explanation, how often each occurs, and how long the text is."""
    waiting = [explained]
    while waiting:
        node = waiting.pop()
        if node["description"].startswith("TermQuery"):
            saturation = node["details"][2]["details"]
            yield _named(node["context"][0], spaces), saturation[0]["value"], saturation[3]["value"]
        else:
            waiting.extend(node.get("details", ()))


def _named(context: str, spaces: Sequence[str]) -> TermMatch:
    """``Term=Term(field=1, type=Str, "token")``; the first field is the row."""
    number = int(context[context.index("field=") + 6 : context.index(",")])
    quoted = context[context.index('"') + 1 : context.rindex('"')]
    return TermMatch(spaces[number - 1], _unescaped(quoted))


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
