"""Hybrid search: one ranking by keywords and by vectors, over any engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tabane.search.engine import (
    MOST_AT_ONCE,
    EngineHits,
    LexicalQuery,
    SearchableTexts,
    SearchableVectors,
    VectorQuery,
)
from tabane.search.filters import And, Filter
from tabane.search.fusion import K, Scale, convex, reciprocal_ranks
from tabane.search.queries import demands

DEPTH = 100
"""Least number of hits that are taken from each ranking. Deeper hits of both gain nothing by fusion."""

Fusion = Literal["scaled", "rrf", "convex"]
"""How two rankings are fused.

scaled: by the mean of both scores, each scaled between its meaningful bounds. rrf: by ranks. convex: by the
scores, each ranking scaled between its own worst and best. Measured on English and Japanese sets (nDCG@10,
benchmarks/search/hybrid.py), scaled is above both rankings, or at most .017 below the better one. The others
are far worse if one ranking is much worse than the other.
"""

_MEANING = {"scaled": 0.5, "convex": 0.7}
"""The weight of the cosine; BM25 has the rest."""


class HybridSearchable(SearchableTexts, SearchableVectors, Protocol):
    """A collection that finds records by keywords and by vectors."""


@dataclass(frozen=True, slots=True)
class RankedRecord:
    """A record that was found. ``score`` is in 0..1 and only for ordering.

    ``cosine`` and ``bm25`` are the engine's own scores. None: there was no vector to compare, or no word was
    found. Only the cosine is a measure of relevance that does not depend on the other hits.
    """

    key: str
    row: int
    score: float
    cosine: float | None = None
    bm25: float | None = None


@dataclass(frozen=True, slots=True)
class HybridRanking:
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
) -> HybridRanking:
    """Return the best records that match ``where`` and are found by words, by vectors, or both.

    ``usual`` is the cosine between unrelated texts, if it was measured for the model
    (:class:`~tabane.search.embedding.model_families.CosineBaseline`). It is scored 0. If only words or only
    vectors are given, theirs is the ranking. ``meaning.threshold`` applies to hits that only vectors found.
    Phrases and exclusions apply to all hits. If both are given, ``total`` is the number of candidates,
    because nearest vectors have no end.

    Raises the errors of :meth:`~tabane.search.engine.SearchableTexts.search` and ``nearest``.
    """
    if words is not None and meaning is not None:
        looked = min(max(depth, limit + offset), MOST_AT_ONCE)
        both = _HybridSearch(collection, words, meaning, where, looked)
        return await both.ranked(limit, offset, fusion, usual)
    if words is not None:
        return _by_words(await collection.search(words, where, limit, offset), offset)
    if meaning is not None:
        return _by_meaning(await collection.nearest(meaning, where, limit, offset), usual)
    return HybridRanking()


@dataclass(frozen=True, slots=True)
class _HybridSearch:
    collection: HybridSearchable
    words: LexicalQuery
    meaning: VectorQuery
    where: Filter
    looked: int

    async def ranked(self, limit: int, offset: int, fusion: Fusion, usual: float | None) -> HybridRanking:
        # One after the other: in parallel, two threads compete for the interpreter and take longer.
        lexical = await self.collection.search(self.words, self.where, self.looked)
        # With plain cosines, a hit below the page in both rankings cannot rise into it, so only the page is
        # proven. Ranks and stretched scores depend on the whole depth.
        meaning = replace(self.meaning, proven=limit + offset if fusion == "scaled" else None)
        meant = And((self.where, demands(self.words)))
        nearest = await self.collection.nearest(meaning, meant, self.looked)
        found = await self._with_cosines(_merged(lexical, nearest))
        fused = _fused(found, lexical, nearest, fusion, usual)[offset : offset + limit]
        exact = lexical.exact and max(len(lexical.hits), len(nearest.hits)) < self.looked
        hits = (found[key] for key, _ in fused)
        scored = (
            RankedRecord(hit.key, hit.row, score, hit.cosine, hit.bm25)
            for hit, (_, score) in zip(hits, fused, strict=True)
        )
        return HybridRanking(tuple(scored), len(found), exact)

    async def _with_cosines(self, found: dict[str, RankedRecord]) -> dict[str, RankedRecord]:
        """Return the same records, with cosines also for those that only keywords found."""
        lacking = [hit.key for hit in found.values() if hit.cosine is None]
        if not lacking:
            return found
        cosines: list[float | None] = []
        for first in range(0, len(lacking), MOST_AT_ONCE):
            cosines += await self.collection.similarities(self.meaning, lacking[first : first + MOST_AT_ONCE])
        return found | {
            key: RankedRecord(key, found[key].row, 0.0, cosine, found[key].bm25)
            for key, cosine in zip(lacking, cosines, strict=True)
        }


def _merged(lexical: EngineHits, nearest: EngineHits) -> dict[str, RankedRecord]:
    found = {hit.key: RankedRecord(hit.key, hit.row, 0.0, bm25=hit.score) for hit in lexical.hits}
    for hit in nearest.hits:
        known = found.get(hit.key)
        # A record that was replaced between the two searches has a row in each: the later one counts.
        row = max(hit.row, known.row) if known else hit.row
        found[hit.key] = RankedRecord(hit.key, row, 0.0, hit.score, known.bm25 if known else None)
    return found


def _fused(
    found: dict[str, RankedRecord],
    lexical: EngineHits,
    nearest: EngineHits,
    fusion: Fusion,
    usual: float | None,
) -> list[tuple[str, float]]:
    if fusion == "rrf":
        return reciprocal_ranks([[hit.key for hit in hits.hits] for hits in (nearest, lexical)])
    weights = (_MEANING[fusion], 1 - _MEANING[fusion])
    bm25 = {hit.key: hit.score for hit in lexical.hits}
    if fusion == "convex":
        return convex([{hit.key: hit.score for hit in nearest.hits}, bm25], weights)
    cosines = {hit.key: hit.cosine for hit in found.values() if hit.cosine is not None}
    return convex([cosines, bm25], weights, [Scale(usual, 1.0), Scale(0.0, lexical.ceiling or None)])


def _by_words(hits: EngineHits, offset: int) -> HybridRanking:
    """Score by the share of what a text of usual length can reach; by ranks if that is unknown."""

    def score(rank: int, bm25: float) -> float:
        return min(bm25 / hits.ceiling, 1.0) if hits.ceiling else (K + 1) / (K + rank)

    found = (
        RankedRecord(hit.key, hit.row, score(rank, hit.score), bm25=hit.score)
        for rank, hit in enumerate(hits.hits, offset + 1)
    )
    return HybridRanking(tuple(found), hits.total, hits.exact)


def _by_meaning(hits: EngineHits, usual: float | None) -> HybridRanking:
    nothing = usual or 0.0

    def score(cosine: float) -> float:
        return min(max((cosine - nothing) / (1 - nothing), 0.0), 1.0)

    found = (RankedRecord(hit.key, hit.row, score(hit.score), cosine=hit.score) for hit in hits.hits)
    return HybridRanking(tuple(found), hits.total, hits.exact)
