"""One ranking made of several; pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

K = 60
"""Dampens the first ranks. The value of the paper, which later work found no reason to change."""


def reciprocal_ranks(rankings: Sequence[Sequence[T]], k: int = K) -> list[tuple[T, float]]:
    """Reciprocal rank fusion: each item with the sum of 1 / (k + its rank), ranks counted from 1.

    Best first; equal sums in the order of rankings and of ranks. It compares no scores, so rankings by
    different measures may be fused; its own score is no measure of relevance either.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank
    learning methods", SIGIR 2009.
    """
    sums: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            sums[item] = sums.get(item, 0.0) + 1 / (k + rank)
    return sorted(sums.items(), key=lambda entry: -entry[1])
