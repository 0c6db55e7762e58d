"""Fusion of several rankings into one, and diversity of a ranking; pure.

Scores of different measures are never added as they are: BM25 has no upper bound, a cosine has no zero
that means something. Ranks need no calibration (:func:`reciprocal_ranks`); scores that are stretched to
0..1 keep how far apart two hits are (:func:`convex`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

K = 60
"""Dampens the first ranks. The value of the paper, which later work found no reason to change."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What scores mean. ``nothing``: 0 of BM25, a cosine between strangers; all below is worth no more.

    ``most`` is what one can ask for: a cosine of 1, BM25 of a text with every word; what is better takes
    its place. None: the worst, or the best, of the ranking itself, however good or bad that is.
    """

    nothing: float | None = None
    most: float | None = None


_OWN = Scale()


def reciprocal_ranks(rankings: Sequence[Sequence[T]], k: int = K) -> list[tuple[T, float]]:
    """Reciprocal rank fusion: each item with the sum of 1 / (k + its rank), ranks counted from 1.

    The sum is divided by what an item that is first everywhere has, so scores are in 0..1. Best first;
    equal scores in the order of rankings and of ranks. An item that comes twice in a ranking has its best
    rank there. It compares no scores, and its own score is no measure of relevance either.

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
    """Convex combination: the weighted mean of scores, each ranking stretched to 0..1 first.

    ``scales`` say for each ranking what counts 0 and 1, as :func:`stretched` has it; without any, its worst
    and its best. An item that a ranking has not counts 0 there. Weights are positive, and count by their
    share of the sum. Best first, equal scores in the order of rankings. Raises ValueError where there are
    not as many weights as rankings, or scales where there are any, or a weight is not positive.

    Source: Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """
    if len(weights) != len(rankings) or any(not weight > 0 for weight in weights):
        raise ValueError("as many positive weights as rankings are needed")
    total = sum(weights)
    known = scales or (_OWN,) * len(rankings)
    sums: dict[T, float] = {}
    for ranking, weight, scale in zip(rankings, weights, known, strict=True):
        for item, score in stretched(ranking, scale).items():
            sums[item] = sums.get(item, 0.0) + score * weight / total
    return _best_first({item: min(score, 1.0) for item, score in sums.items()})


def stretched(scores: Mapping[T, float], scale: Scale = _OWN) -> dict[T, float]:
    """Scores in 0..1 by a scale: by their own, the worst is 0, the best 1; 1 for all where they are equal."""
    if not scores:
        return {}
    low = min(scores.values()) if scale.nothing is None else scale.nothing
    high = max(scores.values()) if scale.most is None else max(scale.most, *scores.values())
    if not high > low:
        return dict.fromkeys(scores, 1.0 if scale.nothing is None else 0.0)
    width = high - low
    if width == float("inf"):
        # The difference of two finite numbers may be none: halves do the same.
        return {item: max(score / 2 - low / 2, 0.0) / (high / 2 - low / 2) for item, score in scores.items()}
    return {item: min(max((score - low) / width, 0.0), 1.0) for item, score in scores.items()}


def diverse(
    ranked: Sequence[tuple[T, float]], alike: Callable[[T, T], float], limit: int, relevance: float = 0.7
) -> list[T]:
    """Maximal marginal relevance: the best item, then again and again the one that is relevant and new.

    ``ranked`` has scores in 0..1; ``alike`` says how alike two items are, in 0..1; ``relevance`` in 0..1
    is how much the score counts against the likeness to what was chosen already: 1 is the ranking as it
    is. ``alike`` is asked at most ``limit`` times for each item.

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
