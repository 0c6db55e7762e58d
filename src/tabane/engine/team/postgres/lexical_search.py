"""Lexical searches of a collection by its postings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine import query_plans
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
)
from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.collection_state import LexicalState
from tabane.engine.team.postgres.posting_table import NO_POSTINGS, PostingTable, TokenPostings
from tabane.engine.team.postgres.record_table import RecordColumns, SqlCondition
from tabane.engine.vector_request import Array
from tabane.search.engine import EngineHit, EngineHits

_COUNTED = 500  # tokens of a prefix whose frequencies are compared
_CHECKED = 256  # candidates that are checked first; then four times as many, until there are enough hits
_KEPT = np.array(query_plans.LENGTHS)  # to which bm25.kept_length rounds down
_DIGITS = 6  # of a score, which do not depend on the order of additions


@dataclass(frozen=True, slots=True)
class LexicalPage:
    """The part of the hits that is requested."""

    limit: int
    offset: int

    @property
    def wanted(self) -> int:
        """Return the number of hits up to the end of the page."""
        return self.limit + self.offset


class PostingSearch:
    """One search, in the transaction of the connection."""

    def __init__(
        self,
        connection: psycopg.Connection,
        postings: PostingTable,
        records: RecordColumns,
        state: LexicalState,
        plan: LexicalPlan,
    ) -> None:
        self._connection, self._records, self._state, self._plan = connection, records, state, plan
        self._tokens = {
            start: postings.beginning(connection, formats.token_key(start.space, start.beginning))
            for start in dict.fromkeys(_prefixes(plan))
        }
        self._leaves = (*plan.leaves, *self._expanded())
        self._found = postings.read(connection, self._token_names(), _placed(plan))

    def hits(self, where: SqlCondition, page: LexicalPage) -> EngineHits:
        """Return the best hits that match the filter, equal scores in order of keys."""
        rows, scores = self._candidates()
        order = np.lexsort((rows, -scores))
        rows, scores = rows[order], scores[order]
        hits, checked, step = list[EngineHit](), 0, max(_CHECKED, page.wanted)
        while checked < len(rows) and len(hits) < page.wanted:
            end = _end_of_tie(scores, min(len(rows), checked + step))
            hits += self._live_hits(rows[checked:end], scores[checked:end], where)
            checked, step = end, step * 4
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        exact = checked >= len(rows)
        return EngineHits(
            tuple(hits[page.offset : page.wanted]),
            len(hits),
            exact,
            query_plans.ceiling(self._plan.leaves, self._rarity),
        )

    def _live_hits(self, rows: Array, scores: Array, where: SqlCondition) -> Iterator[EngineHit]:
        """Yield the rows that are live and match, with their keys."""
        query = sql.SQL("SELECT r.row, r.key FROM {} r WHERE r.row = ANY(%s) AND {}").format(
            self._records.table, where.text
        )
        wanted = rows.astype(np.int64).tolist()
        found: dict[int, str] = dict(self._connection.execute(query, (wanted, *where.values)).fetchall())
        for row, score in zip(wanted, scores.tolist(), strict=True):
            if row in found:
                yield EngineHit(formats.given(found[row]), row, score)

    def _candidates(self) -> tuple[Array, Array]:
        """Return the rows that match the plan, and their scores."""
        rows = self._match_rows(self._plan.must)
        if self._plan.plain:
            rows = _union(self._posting(leaf.term).rows for leaf in self._leaves)
        for without in self._plan.without:
            rows = np.setdiff1d(rows, self._match_rows(without), assume_unique=True)
        return rows, self._scores(rows)

    def _scores(self, rows: Array) -> Array:
        scores = np.zeros(len(rows))
        for leaf in self._leaves:
            entries = self._posting(leaf.term).entries
            places = np.searchsorted(rows, entries["row"])
            inside = places < len(rows)
            inside[inside] = rows[places[inside]] == entries["row"][inside]
            average = self._state.average(leaf.term.space)
            lengths = _KEPT[np.searchsorted(_KEPT, entries["length"][inside], side="right") - 1]
            # The formula of bm25.saturation works for arrays, too.
            worth = query_plans.saturation(entries["count"][inside], lengths, average)  # type: ignore[arg-type]
            scores[places[inside]] += leaf.weight * self._rarity(leaf.term) * worth
        return rounded_scores(scores)

    def _match_rows(self, match: Match) -> Array:
        """Return the rows that match, in order."""
        match match:
            case TermMatch():
                return self._posting(match).rows
            case PrefixMatch():
                return _union(self._named_posting(token).rows for token, _ in self._tokens[match])
            case PhraseMatch():
                return self._phrase(match)
            case AnyOf(of):
                return _union(map(self._match_rows, of))
            case AllOf(()):
                query = sql.SQL("SELECT row FROM {} ORDER BY row").format(self._records.table)
                return np.array([row for (row,) in self._connection.execute(query)], dtype=np.uint64)
            case AllOf(of):
                found = [self._match_rows(each) for each in of]
                rows = min(found, key=len)
                for each in found:
                    rows = np.intersect1d(rows, each, assume_unique=True)
                return rows

    def _phrase(self, phrase: PhraseMatch) -> Array:
        """Return the rows in which the tokens have these distances."""
        begins: Array | None = None
        for at, token in phrase.tokens:
            positions = self._posting(TermMatch(phrase.space, token)).positions()
            here = positions[(positions & np.uint64(0xFFFFFFFF)) >= at] - np.uint64(at)
            begins = here if begins is None else np.intersect1d(begins, here, assume_unique=True)
        return np.unique((np.empty(0, np.uint64) if begins is None else begins) >> np.uint64(32))

    def _posting(self, term: TermMatch) -> TokenPostings:
        return self._named_posting(formats.token_key(term.space, term.token))

    def _named_posting(self, name: str) -> TokenPostings:
        return self._found.get(name, NO_POSTINGS)

    def _token_names(self) -> Iterator[str]:
        """Yield the names of all tokens that are read."""
        for leaf in self._leaves:
            yield formats.token_key(leaf.term.space, leaf.term.token)
        for match in (self._plan.must, *self._plan.without):
            for term in _terms(match):
                yield formats.token_key(term.space, term.token)
        for tokens in self._tokens.values():
            yield from (name for name, _ in tokens)

    # Statistics

    def _rarity(self, term: TermMatch) -> float:
        return query_plans.idf(self._state.records, len(self._posting(term).entries))

    def _expanded(self) -> Iterator[ScoredTerm]:
        """Yield the tokens that prefixes stand for, the most frequent of them."""
        known = {leaf.term for leaf in self._plan.leaves}
        for start, weight in self._plan.prefixes:
            first = self._tokens[start][:_COUNTED]
            frequent = sorted(first, key=lambda pair: (-pair[1], pair[0]))[:MOST_EXPANSIONS]
            terms = (TermMatch(start.space, name.split(" ", 1)[1]) for name, _ in frequent)
            yield from (ScoredTerm(term, weight) for term in terms if term not in known)


def _union(of: Iterable[Array]) -> Array:
    found = [each for each in of if len(each)]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)


def _end_of_tie(scores: Array, end: int) -> int:
    """Return the end of the equal scores at that end: the keys of all of them decide which come first."""
    if end == len(scores):
        return end
    return int(np.searchsorted(-scores, -scores[end - 1], side="right"))


def rounded_scores(scores: Array) -> Array:
    """Return scores with six significant digits, as :func:`tabane.engine.query_plans.rounded`."""
    size = np.where(scores > 0, scores, 1.0)
    factor = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(size)))
    return np.asarray(np.round(scores * factor) / factor)


def _leaves_of(match: Match) -> Iterator[Match]:
    if isinstance(match, AnyOf | AllOf):
        for each in match.of:
            yield from _leaves_of(each)
    else:
        yield match


def _terms(match: Match) -> Iterator[TermMatch]:
    for each in _leaves_of(match):
        if isinstance(each, TermMatch):
            yield each
        elif isinstance(each, PhraseMatch):
            yield from (TermMatch(each.space, token) for _, token in each.tokens)


def _prefixes(plan: LexicalPlan) -> Iterator[PrefixMatch]:
    yield from (start for start, _ in plan.prefixes)
    for match in (plan.must, *plan.without):
        yield from (each for each in _leaves_of(match) if isinstance(each, PrefixMatch))


def _placed(plan: LexicalPlan) -> Iterator[str]:
    """Yield the names of the tokens of phrases, whose positions are needed."""
    for match in (plan.must, *plan.without):
        for each in _leaves_of(match):
            if isinstance(each, PhraseMatch):
                yield from (formats.token_key(each.space, token) for _, token in each.tokens)
