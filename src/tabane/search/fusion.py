"""Fusion of several rankings into one, and diversity of a ranking; pure.

Scores of different measures are never added directly: BM25 has no upper bound, and the zero of a cosine has
no meaning. Ranks need no calibration (:func:`reciprocal_ranks`). Scores that are scaled to 0..1 keep the
distance between two hits (:func:`convex`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Hashable)

K = 60
"""Dampens the first ranks. The value is that of the paper, and later work confirmed it."""


class Scale(Struct, frozen=True):
    """The scores that become 0 and 1.

    ``nothing`` becomes 0, as does every lower score: 0 for BM25, the cosine between unrelated texts. ``most``
    becomes 1: a cosine of 1, or the BM25 of a text with every word. If a ranking has a higher score, that
    one becomes 1. None: the worst or the best score of the ranking itself.
    """

    nothing: float | None = None
    most: float | None = None


_OWN = Scale()


class CosineWeight(NamedTuple):
    """The weight of the cosine in 0..1 beside BM25, which has the rest.

    ``covered`` is the weight if a text has all words of the query: then words know best. ``uncovered`` is the
    weight if no text has any of them. Between both, the weight is in proportion.
    """

    covered: float = 0.5
    uncovered: float = 0.7

    def at(self, coverage: float) -> float:
        """Return the weight if the best text has that share of the query's words, by their rarity."""
        share = min(max(coverage, 0.0), 1.0)
        return self.uncovered + (self.covered - self.uncovered) * share


class ScoreParts(NamedTuple):
    """The parts of the score of a hit. ``words`` and ``meaning`` add up to it, before any reranking.

    ``words_rank`` and ``meaning_rank`` are the ranks from 1 in the two rankings that were fused; None: the
    hit was not among their best. ``ranked`` is the rank before a reranker moved the hit; None: none did.
    ``fusion`` is empty if there was only one ranking.
    """

    words: float = 0.0
    meaning: float = 0.0
    words_rank: int | None = None
    meaning_rank: int | None = None
    fusion: str = ""
    ranked: int | None = None


def reciprocal_ranks(rankings: Sequence[Sequence[T]], k: int = K) -> list[tuple[T, float]]:
    """Fuse rankings by reciprocal ranks: score each item by the sum of 1 / (k + rank), ranks from 1.

    The sum is divided by that of an item that is first in every ranking, so scores are in 0..1. Best first;
    equal scores are in the order of rankings and of ranks. An item that occurs twice in a ranking has its
    best rank there. Scores of the rankings are not compared, and the result is no measure of relevance.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank
    learning methods", SIGIR 2009.
    """
    sums: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            sums[item] = sums.get(item, 0.0) + 1 / (k + rank)
    most = len(rankings) / (k + 1)
    return _best_first({item: min(score / most, 1.0) for item, score in sums.items()})


def convex(
    rankings: Sequence[Mapping[T, float]], weights: Sequence[float], scales: Sequence[Scale] = ()
) -> list[tuple[T, float]]:
    """Fuse rankings by the weighted mean of their scores, each ranking scaled to 0..1 first.

    ``scales`` has one :class:`Scale` for each ranking. Without scales, the worst and the best score of a
    ranking become 0 and 1. An item that is not in a ranking counts 0 there. Weights are positive, and are
    divided by their sum. Best first; equal scores are in the order of rankings. Raises ValueError if the
    number of weights, or of scales if there are any, is not that of rankings, or a weight is not positive.

    Source: Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """
    if len(weights) != len(rankings) or any(not weight > 0 for weight in weights):
        raise ValueError("as many positive weights as rankings are needed")
    total = sum(weights)
    scale_of_each = scales or (_OWN,) * len(rankings)
    sums: dict[T, float] = {}
    for ranking, weight, scale in zip(rankings, weights, scale_of_each, strict=True):
        for item, score in stretched(ranking, scale).items():
            sums[item] = sums.get(item, 0.0) + score * weight / total
    return _best_first({item: min(score, 1.0) for item, score in sums.items()})


def stretched(scores: Mapping[T, float], scale: Scale = _OWN) -> dict[T, float]:
    """Return the scores scaled to 0..1. By their own scale, the worst is 0, the best 1; equal ones are 1."""
    if not scores:
        return {}
    low = min(scores.values()) if scale.nothing is None else scale.nothing
    high = max(scores.values()) if scale.most is None else max(scale.most, *scores.values())
    if not high > low:
        return dict.fromkeys(scores, 1.0 if scale.nothing is None else 0.0)
    width = high - low
    if width == float("inf"):
        # The difference of two finite numbers may be infinite; that of their halves is not.
        return {item: max(score / 2 - low / 2, 0.0) / (high / 2 - low / 2) for item, score in scores.items()}
    return {item: min(max((score - low) / width, 0.0), 1.0) for item, score in scores.items()}


def diverse(
    ranked: Sequence[tuple[T, float]], alike: Callable[[T, T], float], limit: int, relevance: float = 0.7
) -> list[T]:
    """Choose items by maximal marginal relevance: first the best, then each relevant and different one.

    ``ranked`` has scores in 0..1. ``alike`` returns the similarity of two items in 0..1, and is called at
    most ``limit`` times for each item. ``relevance`` in 0..1 is the weight of the score; the rest is the
    weight of the similarity to items that are chosen already. With 1 the order is that of the ranking.

    Source: Carbonell, Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and
    Producing Summaries", SIGIR 1998.
    """
    left = dict(ranked)
    nearest = dict.fromkeys(left, 0.0)
    chosen: list[T] = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda item: relevance * left[item] - (1 - relevance) * nearest[item])
        del left[best]
        chosen.append(best)
        for item in left:
            nearest[item] = max(nearest[item], alike(best, item))
    return chosen


def _best_first(scores: Mapping[T, float]) -> list[tuple[T, float]]:
    return sorted(scores.items(), key=lambda entry: -entry[1])
