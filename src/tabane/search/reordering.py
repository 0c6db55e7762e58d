"""Diversity and reranking of a ranking before it is shown."""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import mul

from tabane.errors import ModelError
from tabane.search.engine import SearchableVectors
from tabane.search.fusion import diverse
from tabane.search.hybrid import RankedRecord
from tabane.search.models import Models, Reranker

log = logging.getLogger(__name__)

RERANKED = 30
"""Hits that a reranker reads: each costs as much as embedding its text."""


async def diversified(
    collection: SearchableVectors,
    space: str,
    ranked: Sequence[RankedRecord],
    limit: int,
    relevance: float = 0.7,
) -> list[RankedRecord]:
    """The best ``limit`` hits that do not say the same again and again, by maximal marginal relevance.

    ``relevance`` in 0..1 is how much the score counts against likeness in ``space``, 1 the ranking as it
    is. A hit without a vector is like no other. At most 1,000 hits; each of the chosen is compared with
    all, off the event loop.
    """
    known = await collection.vectors([hit.key for hit in ranked], space)
    by_key = {hit.key: hit for hit in ranked}
    units = {hit.key: _unit(vector) for hit, vector in zip(ranked, known, strict=True) if vector is not None}
    scores = [(hit.key, hit.score) for hit in ranked]
    chosen = await asyncio.to_thread(diverse, scores, _likeness(units), limit, relevance)
    return [by_key[key] for key in chosen]


def _likeness(units: Mapping[str, array[float]]) -> Callable[[str, str], float]:
    def alike(one: str, other: str) -> float:
        if one not in units or other not in units:
            return 0.0
        return max(math.fsum(map(mul, units[one], units[other])), 0.0)

    return alike


def _unit(vector: bytes) -> array[float]:
    numbers = array("f", vector)
    length = math.hypot(*numbers)
    return array("f", (number / length for number in numbers))


async def judged(
    models: Models, query: str, ranked: Sequence[RankedRecord], texts: Mapping[str, str]
) -> Sequence[RankedRecord]:
    """The ranking after the reranker of the settings has read its first hits; as it is where there is none.

    A reranker that fails costs its order, not the answer: the log says so.
    """
    reranker = models.reranker()
    if reranker is None or not query:
        return ranked
    try:
        return await reranked(reranker, query, ranked, texts)
    except ModelError as error:
        log.warning("not reranked: %s", error)
        return ranked


async def reranked(
    reranker: Reranker, query: str, ranked: Sequence[RankedRecord], texts: Mapping[str, str]
) -> list[RankedRecord]:
    """The first :data:`RERANKED` hits in the order of a model that reads question and text together.

    ``texts`` are those of the hits by key; one that has none stays behind those that have. What is further
    down keeps its place. Scores stay those of the ranking, given out again in the new order, so that they
    still fall.
    """
    first, rest = list(ranked[:RERANKED]), list(ranked[RERANKED:])
    read = [hit.key for hit in first if texts.get(hit.key)]
    scores = dict(zip(read, await reranker.score(query, [texts[key] for key in read]), strict=True))
    order = sorted(first, key=lambda hit: -scores.get(hit.key, -math.inf))
    return [replace(hit, score=place.score) for hit, place in zip(order, first, strict=True)] + rest
