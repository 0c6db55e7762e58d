"""Hybrid search: a typed text becomes a query, then one ranking by keywords and by vectors, over any engine.

Parsing of a typed search text into a query; pure, and never an error. ``"two words"`` is a phrase.
``-word`` and ``-"two words"`` are excluded. ``word*`` at the end is a prefix. Full-width quotes, 「」, and
the minus and star of Japanese keyboards have the same effect. Anything else is read as text, such as an
unclosed quote or a star elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from msgspec import Struct, structs

from tabane.search.analysis import normalise, visible
from tabane.search.engine import (
    MOST_AT_ONCE,
    EngineHits,
    JoinableRequests,
    JoinedRecords,
    LexicalQuery,
    Mode,
    NearestRequest,
    SearchableTexts,
    SearchableVectors,
    VectorQuery,
    demanding,
)
from tabane.search.fusion import CosineWeight, K, Scale, ScoreParts, convex, reciprocal_ranks, stretched
from tabane.search.records import LONGEST_NEEDLE, And, Contains, Filter, Not
from tabane.search.relevance import content
from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 2_000  # characters that are read
MOST_PHRASES = 16

_QUOTED = r'"([^"]+)"|“([^”]+)”|＂([^＂]+)＂|「([^」]+)」|『([^』]+)』'
_PIECE = lazy_pattern(rf"(?P<minus>(?<!\S)[-－−])?(?:{_QUOTED}|(?P<word>[^\s\"“＂「『]+|[\"“＂「『]))")
_STAR = re.compile(r"(?<=[^\s*＊])[*＊]\s*$")
# Japanese brackets name things in running text. They are quotes only if nothing else touches them.
_ALONE = re.compile(r"(?:^|[\s\-－−])$")


def typed(text: str, mode: Mode = Mode.ANY) -> LexicalQuery:
    """Parse a typed text into a query. ``mode`` says how its words are combined."""
    text = visible(text[:LONGEST])
    prefix = _STAR.search(text) is not None
    text = _STAR.sub("", text)
    if mode is Mode.PHRASE:
        return LexicalQuery(text, mode, prefix=prefix)
    words: list[str] = []
    phrases: list[str] = []
    exclude: list[str] = []
    last = 0
    for piece in _PIECE.finditer(text):
        quoted = next((found for found in piece.groups()[1:6] if found is not None), None)
        said = quoted if quoted is not None else piece["word"]
        words.append(" " if piece.start() > last else "")
        last = piece.end()
        if piece["minus"] and said.strip("-－−"):
            exclude.append(said)
        elif quoted is not None and _ALONE.search(text[: piece.start()]):
            phrases.append(quoted)
        else:
            words.append(piece.group())
    query = LexicalQuery("".join(words).strip(), mode, tuple(exclude[:MOST_PHRASES]), prefix)
    return structs.replace(query, phrases=tuple(phrases[:MOST_PHRASES]))


def sense(query: LexicalQuery) -> str:
    """Return the text of a query that is embedded: all but the excluded words."""
    return " ".join(filter(None, (query.text, *query.phrases)))


def marked_terms(query: LexicalQuery) -> list[str]:
    """Return the words and phrases of a query that are marked in a hit: no words of grammar."""
    return [content(query.text), *query.phrases]


def demands(query: LexicalQuery) -> Filter:
    """Return the condition for hits that vectors find: the phrases of the query, and none of its exclusions.

    Compared are characters, not words, so ``-art`` excludes ``start`` too.
    """
    wanted = (Contains(phrase[:LONGEST_NEEDLE]) for phrase in query.phrases if normalise(phrase).strip())
    unwanted = (Not(Contains(word[:LONGEST_NEEDLE])) for word in query.exclude if normalise(word).strip())
    return And((*wanted, *unwanted))


DEPTH = 100
"""Least number of hits that are taken from each ranking. Deeper hits of both gain nothing by fusion."""

Fusion = Literal["scaled", "partial", "rrf", "convex"]
"""A way to fuse two rankings.

scaled: by the weighted mean of both scores, each scaled between its meaningful bounds; the weight depends on
how much of the query the best text covers (:class:`~tabane.search.fusion.CosineWeight`). partial: by the same
mean, or by the scaled score of the words if that is higher: for collections in which not every record has a
vector. From 1 to 80 % of vectors it is never below words by more than .003, and mostly above, while scaled is
up to .08 and ranks up to .66 below (docs/decisions.md). rrf: by ranks. convex: by the scores,
each ranking scaled between its own worst and best. Measured on English and Japanese sets (nDCG@10,
benchmarks/search/hybrid.py), scaled is never below words, and near the better of both rankings. The others
are far worse if one ranking is much worse than the other.
"""

_CONVEX = 0.7
"""The weight of the cosine in a convex fusion; BM25 has the rest."""


_WEIGHT = CosineWeight()


class HybridSearchable(SearchableTexts, SearchableVectors, JoinableRequests, Protocol):
    """A collection that finds records by keywords and by vectors."""


@dataclass(frozen=True, slots=True)
class RankedRecord:
    """A record that was found. ``score`` is in 0..1 and only for ordering.

    ``cosine`` and ``bm25`` are the engine's own scores. None: there was no vector to compare, or no word was
    found. Only the cosine is a measure of relevance that does not depend on the other hits. ``parts`` explain
    the score.
    """

    key: str
    row: int
    score: float
    cosine: float | None = None
    bm25: float | None = None
    parts: ScoreParts | None = field(default=None, compare=False)


class HybridRanking(Struct, frozen=True):
    """Hits, best first. ``total`` is the number of all hits. If ``exact`` is False, there may be more."""

    hits: tuple[RankedRecord, ...] = ()
    total: int = 0
    exact: bool = True


async def hybrid(
    collection: HybridSearchable,
    words: LexicalQuery | None,
    meaning: VectorQuery | None,
    where: Filter,
    limit: int,
    offset: int = 0,
    *,
    fusion: Fusion = "scaled",
    depth: int = DEPTH,
    usual: float | None = None,
    weight: CosineWeight = _WEIGHT,
) -> HybridRanking:
    """Return the best records that match ``where`` and are found by words, by vectors, or both.

    ``usual`` is the cosine between unrelated texts, if it was measured for the model
    (:class:`~tabane.search.embedding.model_families.CosineBaseline`). It is scored 0. ``weight`` is that of
    the model's cosines in a scaled fusion. If only words or only vectors are given, theirs is the ranking.
    ``meaning.threshold`` applies to hits that only vectors found.
    Phrases and exclusions apply to all hits. If both are given, ``total`` is the number of candidates,
    because nearest vectors have no end.

    Raises the errors of :meth:`~tabane.search.engine.SearchableTexts.search` and ``nearest``.
    """
    if words is not None and meaning is not None:
        looked = min(max(depth, limit + offset), MOST_AT_ONCE)
        both = _HybridSearch(collection, words, meaning, where, looked)
        return await both.ranked(limit, offset, _FusionRule(fusion, usual, weight))
    if words is not None:
        return _by_words(await collection.search(words, where, limit, offset), offset)
    if meaning is not None:
        return _by_meaning(await collection.nearest(meaning, where, limit, offset), usual, offset)
    return HybridRanking()


class _FusionRule(Struct, frozen=True):
    """Ways to fuse two rankings: parameters of :func:`hybrid`."""

    fusion: Fusion
    usual: float | None
    weight: CosineWeight

    def meaning(self, lexical: EngineHits) -> float:
        """Return the weight of the cosine beside these hits by words."""
        if self.fusion == "convex":
            return _CONVEX
        best = lexical.hits[0].score / lexical.ceiling if lexical.hits and lexical.ceiling else 0.0
        return self.weight.at(best)


class _HybridSearch(Struct, frozen=True):
    collection: HybridSearchable
    words: LexicalQuery
    meaning: VectorQuery
    where: Filter
    looked: int

    async def ranked(self, limit: int, offset: int, rule: _FusionRule) -> HybridRanking:
        # One after the other: in parallel, two threads compete for the interpreter and take longer.
        lexical = await self.collection.search(self.words, self.where, self.looked)
        # With plain cosines, a hit below the page in both rankings cannot rise into it, so only the page is
        # proven. Ranks and stretched scores depend on the whole depth.
        plain = rule.fusion in ("scaled", "partial")
        meaning = structs.replace(self.meaning, proven=limit + offset if plain else None)
        request = NearestRequest(meaning, And((self.where, demands(self.words))), self.looked)
        nearest, found = await self.collection.together(
            lambda records: self._compared(records, request, lexical),
            long=demanding(request.query, request.where),
            first=request,
        )
        fused = _fused(found, lexical, nearest, rule)[offset : offset + limit]
        exact = lexical.exact and max(len(lexical.hits), len(nearest.hits)) < self.looked
        hits = (found[key] for key, _ in fused)
        parts = _Explanation(lexical, nearest, found, rule)
        scored = (
            RankedRecord(hit.key, hit.row, score, hit.cosine, hit.bm25, parts.of(hit.key))
            for hit, (_, score) in zip(hits, fused, strict=True)
        )
        return HybridRanking(tuple(scored), len(found), exact)

    async def _compared(
        self, records: JoinedRecords, request: NearestRequest, lexical: EngineHits
    ) -> tuple[EngineHits, dict[str, RankedRecord]]:
        """Return the nearest records, and these and the lexical hits by key, with cosines."""
        nearest = await records.nearest(request.query, request.where, request.limit)
        found = _merged(lexical, nearest)
        lacking = [hit.key for hit in found.values() if hit.cosine is None]
        for first in range(0, len(lacking), MOST_AT_ONCE):
            part = lacking[first : first + MOST_AT_ONCE]
            cosines = await records.similarities(self.meaning, part)
            for key, cosine in zip(part, cosines, strict=True):
                found[key] = RankedRecord(key, found[key].row, 0.0, cosine, found[key].bm25)
        return nearest, found


def _merged(lexical: EngineHits, nearest: EngineHits) -> dict[str, RankedRecord]:
    found = {hit.key: RankedRecord(hit.key, hit.row, 0.0, bm25=hit.score) for hit in lexical.hits}
    for hit in nearest.hits:
        known = found.get(hit.key)
        # A record that was replaced between the two searches has a row in each: the later one counts.
        row = max(hit.row, known.row) if known else hit.row
        found[hit.key] = RankedRecord(hit.key, row, 0.0, hit.score, known.bm25 if known else None)
    return found


def _fused(
    found: dict[str, RankedRecord], lexical: EngineHits, nearest: EngineHits, rule: _FusionRule
) -> list[tuple[str, float]]:
    if rule.fusion == "rrf":
        return reciprocal_ranks([[hit.key for hit in hits.hits] for hits in (nearest, lexical)])
    meaning = rule.meaning(lexical)
    rankings, scales = _scored(found, lexical, nearest, rule)
    fused = convex(rankings, (meaning, 1 - meaning), scales)
    if rule.fusion != "partial":
        return fused
    words = stretched(rankings[1], scales[1])
    raised = [(key, max(score, words.get(key, 0.0))) for key, score in fused]
    return sorted(raised, key=lambda item: -item[1])


def _scored(
    found: dict[str, RankedRecord], lexical: EngineHits, nearest: EngineHits, rule: _FusionRule
) -> tuple[list[dict[str, float]], list[Scale]]:
    """Return cosines and BM25 by key, and how each is scaled."""
    bm25 = {hit.key: hit.score for hit in lexical.hits}
    if rule.fusion == "convex":
        return [{hit.key: hit.score for hit in nearest.hits}, bm25], [Scale(), Scale()]
    cosines = {hit.key: hit.cosine for hit in found.values() if hit.cosine is not None}
    return [cosines, bm25], [Scale(rule.usual, 1.0), Scale(0.0, lexical.ceiling or None)]


class _Explanation:
    """The parts of the scores of one fusion."""

    def __init__(
        self,
        lexical: EngineHits,
        nearest: EngineHits,
        found: dict[str, RankedRecord],
        rule: _FusionRule,
    ) -> None:
        self._fusion = rule.fusion
        self._words_ranks = {hit.key: rank for rank, hit in enumerate(lexical.hits, 1)}
        self._meaning_ranks = {hit.key: rank for rank, hit in enumerate(nearest.hits, 1)}
        if rule.fusion == "rrf":
            most = 2 / (K + 1)
            self._words: Mapping[str, float] = _by_rank(self._words_ranks, most)
            self._meaning: Mapping[str, float] = _by_rank(self._meaning_ranks, most)
            return
        rankings, scales = _scored(found, lexical, nearest, rule)
        meaning = rule.meaning(lexical)
        shares = (meaning, 1 - meaning)
        self._meaning, self._words = (
            {key: score * share for key, score in stretched(ranking, scale).items()}
            for ranking, scale, share in zip(rankings, scales, shares, strict=True)
        )
        if rule.fusion == "partial":
            self._let_words_prevail(stretched(rankings[1], scales[1]))

    def _let_words_prevail(self, words: Mapping[str, float]) -> None:
        """Let the words of a hit account for its whole score if their own score is the higher one."""
        alone = {
            key: score
            for key, score in words.items()
            if score > self._words.get(key, 0.0) + self._meaning.get(key, 0.0)
        }
        self._words = {**self._words, **alone}
        self._meaning = {key: part for key, part in self._meaning.items() if key not in alone}

    def of(self, key: str) -> ScoreParts:
        """Return the parts of the score of one hit."""
        return ScoreParts(
            self._words.get(key, 0.0),
            self._meaning.get(key, 0.0),
            self._words_ranks.get(key),
            self._meaning_ranks.get(key),
            self._fusion,
        )


def _by_rank(ranks: Mapping[str, int], most: float) -> dict[str, float]:
    return {key: 1 / (K + rank) / most for key, rank in ranks.items()}


def _by_words(hits: EngineHits, offset: int) -> HybridRanking:
    """Score by the share of what a text of usual length can reach; by ranks if that is unknown."""

    def score(rank: int, bm25: float) -> float:
        return min(bm25 / hits.ceiling, 1.0) if hits.ceiling else (K + 1) / (K + rank)

    found = (
        RankedRecord(
            hit.key,
            hit.row,
            (value := score(rank, hit.score)),
            bm25=hit.score,
            parts=ScoreParts(words=value, words_rank=rank),
        )
        for rank, hit in enumerate(hits.hits, offset + 1)
    )
    return HybridRanking(tuple(found), hits.total, hits.exact)


def _by_meaning(hits: EngineHits, usual: float | None, offset: int) -> HybridRanking:
    nothing = usual or 0.0

    def score(cosine: float) -> float:
        return min(max((cosine - nothing) / (1 - nothing), 0.0), 1.0)

    found = (
        RankedRecord(
            hit.key,
            hit.row,
            (value := score(hit.score)),
            cosine=hit.score,
            parts=ScoreParts(meaning=value, meaning_rank=rank),
        )
        for rank, hit in enumerate(hits.hits, offset + 1)
    )
    return HybridRanking(tuple(found), hits.total, hits.exact)
