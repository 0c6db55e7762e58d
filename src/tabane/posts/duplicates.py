"""Removal of duplicates from a ranking of posts: the oldest stays, in its own place.

It works over any engine: a few more hits than wanted are requested, each hit is replaced by its oldest
duplicate, and the groups seen so far are excluded from the next query. The result is exactly the ranking of
the oldest posts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tabane.search.engine import MOST_AT_ONCE, Collection, Order
from tabane.search.filters import EVERYTHING, And, Equal, Filter, In, Not
from tabane.search.records import Record

MOST_SETTLED = 20_000
"""Groups that are looked at for one answer. Beyond them the answer is what was found."""


class RankedPost(NamedTuple):
    """A post in a ranking. ``place`` puts it in order, the lowest first; no two have the same."""

    place: tuple[float, float, str]
    score: float
    record: Record
    cosine: float | None = None
    bm25: float | None = None


class PostCandidates(NamedTuple):
    """The best, in order of places, and whether there are more."""

    hits: list[RankedPost]
    more: bool


class PostRanking(Protocol):
    """A ranking of posts."""

    async def best(self, without: Filter, limit: int) -> PostCandidates:
        """Return the best posts that do not match ``without``. ``limit`` is at most 1,000."""
        ...

    async def placed(self, records: Sequence[Record], best: Sequence[RankedPost]) -> list[RankedPost | None]:
        """Where other posts stand, None for one that cannot be ranked. ``best`` are twins of theirs."""
        ...


async def without_duplicates(
    collection: Collection, source: PostRanking, own: Filter, wanted: int
) -> list[RankedPost]:
    """Return the best posts, none of which has an older duplicate that matches too.

    ``own`` are the conditions that duplicates may differ in: a duplicate that fails them does not count.
    """
    found: list[RankedPost] = []
    settled: set[str] = set()
    limit = wanted + wanted // 8 + 8
    while True:
        limit = min(limit, MOST_AT_ONCE)
        hits, more = await source.best(In("twin", tuple(settled)) if settled else Not(EVERYTHING), limit)
        found += await _older(collection, source, own, hits)
        settled.update(_twin(hit.record) for hit in hits)
        # What is not known yet stands behind the last hit.
        certain = [each for each in found if not more or (hits and each.place <= hits[-1].place)]
        if not more or len(certain) >= wanted:
            return sorted(certain)[:wanted]
        if len(settled) > MOST_SETTLED:
            return sorted(found)[:wanted]
        limit *= 2


_BY_AGE = Order("at")


def _twin(record: Record) -> str:
    return str(record.fields.get("twin", ""))


def _age(record: Record) -> tuple[float, str]:
    """The older comes first: as the engine orders by time, with what has none at the end."""
    at = record.fields.get("at")
    return (at if isinstance(at, int | float) else math.inf), record.key


async def _older(
    collection: Collection, source: PostRanking, own: Filter, hits: Sequence[RankedPost]
) -> list[RankedPost]:
    """Of each group that has a hit, the oldest post."""
    groups: dict[str, list[RankedPost]] = {}
    for hit in hits:
        groups.setdefault(_twin(hit.record), []).append(hit)
    oldest = {twin: min(group, key=lambda hit: _age(hit.record)) for twin, group in groups.items()}
    if not groups:
        return []
    firsts = await collection.firsts("twin", _BY_AGE, And((In("twin", tuple(groups)), own)))
    elsewhere = {
        str(twin): key
        for twin, key in firsts.items()
        if twin in oldest and key != oldest[str(twin)].record.key
    }
    if not elsewhere:
        return list(oldest.values())
    records = [each for each in await collection.get(list(elsewhere.values())) if each is not None]
    best = [groups[_twin(record)][0] for record in records]
    for record, placed in zip(records, await source.placed(records, best), strict=True):
        twin = _twin(record)
        if placed is None:
            placed = await _oldest(collection, source, own, groups[twin][0], oldest[twin])
        oldest[twin] = placed
    return list(oldest.values())


async def _oldest(
    collection: Collection, source: PostRanking, own: Filter, best: RankedPost, known: RankedPost
) -> RankedPost:
    """The oldest twin that the ranking can have: one by one, from the first to the one that is known."""
    where, after = And((Equal("twin", _twin(best.record)), own)), None
    while True:
        page = await collection.select(where, order=(_BY_AGE,), after=after, limit=MOST_AT_ONCE)
        records = [each.record for each in page.records]
        older = [record for record in records if _age(record) < _age(known.record)]
        for placed in await source.placed(older, [best] * len(older)):
            if placed is not None:
                return placed
        after = page.after
        if after is None or len(older) < len(records):
            return known
