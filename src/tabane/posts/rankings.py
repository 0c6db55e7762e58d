"""Rankings of posts, and the removal of duplicates from them.

Posts rank by time, by similarity, or by keywords and vectors. Of several duplicates the oldest post stays,
with its own rank. The removal works with any ranking. It requests a few more hits than needed, replaces each
hit by its oldest duplicate, and excludes the groups seen so far from the next request. The result is exactly
the ranking of the oldest posts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tabane.posts.post import DUPLICATE_FIELD
from tabane.search.engine import (
    MOST_AT_ONCE,
    Collection,
    JoinedRecords,
    NearestRequest,
    Order,
    VectorQuery,
    demanding,
)
from tabane.search.filters import NOTHING, And, Equal, Filter, In, Not
from tabane.search.fusion import ScoreParts
from tabane.search.hybrid import RankedRecord as Hit
from tabane.search.hybrid import hybrid
from tabane.search.meaning import HybridQuery
from tabane.search.models import Models
from tabane.search.pipeline import judged
from tabane.search.queries import sense
from tabane.search.records import Record

MOST_SETTLED = 20_000
"""Groups of duplicates that are examined for one answer. After that, the answer is what was found so far."""


class RankedPost(NamedTuple):
    """A post in a ranking. ``place`` puts it in order, the lowest first; no two have the same."""

    place: tuple[float, float, str]
    score: float
    record: Record
    cosine: float | None = None
    bm25: float | None = None
    parts: ScoreParts | None = None


class PostCandidates(NamedTuple):
    """The best, in order of places, and whether there are more."""

    hits: list[RankedPost]
    more: bool


class PostRanking(Protocol):
    """A ranking of posts. ``posts`` answers the requests for records that it makes."""

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        """Return the best posts that do not match ``without``. ``limit`` is at most 1,000."""
        ...

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        """Return other posts with their places, None for a post that cannot be ranked.

        ``best``: for each post, its best-ranked duplicate.
        """
        ...


class JoinedRanking(PostRanking, Protocol):
    """A ranking that waits for nothing but its requests for records."""

    @property
    def long(self) -> bool:
        """Return whether these take more than some milliseconds."""
        ...

    def first(self, limit: int) -> NearestRequest | None:
        """Return the request for the nearest records that the best ``limit`` posts begin with, if any."""
        ...


async def best_posts(
    collection: Collection, source: HybridPosts | JoinedRanking, own: Filter, wanted: int
) -> list[RankedPost]:
    """Return the best posts :func:`without_duplicates`, by joined requests if the ranking allows it."""
    if isinstance(source, HybridPosts):
        return await without_duplicates(collection, source, own, wanted)
    return await collection.together(
        lambda posts: without_duplicates(posts, source, own, wanted),
        long=source.long,
        first=source.first(_first_limit(wanted)),
    )


async def without_duplicates(
    posts: JoinedRecords, source: PostRanking, own: Filter, wanted: int
) -> list[RankedPost]:
    """Return the best posts, none of which has an older duplicate that matches too.

    ``own`` are the conditions that duplicates may differ in: a duplicate that fails them does not count.
    """
    found: list[RankedPost] = []
    settled: set[str] = set()
    limit = _first_limit(wanted)
    while True:
        seen = In(DUPLICATE_FIELD, tuple(settled)) if settled else NOTHING
        hits, more = await source.best(posts, seen, limit)
        found += await _older(posts, source, own, hits)
        settled.update(_duplicate_key(hit.record) for hit in hits)
        # Posts that are not known yet rank after the last hit.
        certain = [each for each in found if not more or (hits and each.place <= hits[-1].place)]
        if not more or len(certain) >= wanted:
            return sorted(certain)[:wanted]
        if len(settled) > MOST_SETTLED:
            return sorted(found)[:wanted]
        limit = min(2 * limit, MOST_AT_ONCE)


def _first_limit(wanted: int) -> int:
    """Return how many hits are requested at first: a few more, because some are duplicates."""
    return min(wanted + wanted // 8 + 8, MOST_AT_ONCE)


_BY_AGE = Order("at")


def _duplicate_key(record: Record) -> str:
    return str(record.fields.get(DUPLICATE_FIELD, ""))


def _age(record: Record) -> tuple[float, str]:
    """Return the sort key by age: oldest first, posts without a time last, as the engine orders them."""
    at = record.fields.get("at")
    return (at if isinstance(at, int | float) else math.inf), record.key


async def _older(
    posts: JoinedRecords, source: PostRanking, own: Filter, hits: Sequence[RankedPost]
) -> list[RankedPost]:
    """Return the oldest post of each group that has a hit."""
    groups: dict[str, list[RankedPost]] = {}
    for hit in hits:
        groups.setdefault(_duplicate_key(hit.record), []).append(hit)
    oldest = {key: min(group, key=lambda hit: _age(hit.record)) for key, group in groups.items()}
    if not groups:
        return []
    where = And((In(DUPLICATE_FIELD, tuple(groups)), own))
    firsts = await posts.firsts(DUPLICATE_FIELD, _BY_AGE, where)
    elsewhere = {
        str(group): key
        for group, key in firsts.items()
        if group in oldest and key != oldest[str(group)].record.key
    }
    if not elsewhere:
        return list(oldest.values())
    records = [each for each in await posts.get(list(elsewhere.values())) if each is not None]
    best = [groups[_duplicate_key(record)][0] for record in records]
    for record, placed in zip(records, await source.placed(posts, records, best), strict=True):
        group = _duplicate_key(record)
        if placed is None:
            placed = await _oldest(posts, source, own, groups[group][0], oldest[group])
        oldest[group] = placed
    return list(oldest.values())


async def _oldest(
    posts: JoinedRecords, source: PostRanking, own: Filter, best: RankedPost, known: RankedPost
) -> RankedPost:
    """Return the oldest duplicate that can be ranked. Tries them from the oldest to the known one."""
    where, after = And((Equal(DUPLICATE_FIELD, _duplicate_key(best.record)), own)), None
    while True:
        page = await posts.select(where, order=(_BY_AGE,), after=after, limit=MOST_AT_ONCE)
        records = [each.record for each in page.records]
        older = [record for record in records if _age(record) < _age(known.record)]
        for placed in await source.placed(posts, older, [best] * len(older)):
            if placed is not None:
                return placed
        after = page.after
        if after is None or len(older) < len(records):
            return known


class NewestPosts:
    """Matching posts, newest first, those without a time last. All have the same score."""

    def __init__(self, where: Filter) -> None:
        self._where = where

    @property
    def long(self) -> bool:
        return demanding(None, self._where)

    def first(self, limit: int) -> None:
        return None

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        page = await posts.select(
            _outside(without, self._where), order=(Order("at", descending=True),), limit=limit
        )
        return PostCandidates([_dated(each.record) for each in page.records], page.after is not None)

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        return [_dated(record) for record in records]


def _outside(without: Filter, where: Filter) -> Filter:
    return where if without == NOTHING else And((where, Not(without)))


def _dated(record: Record) -> RankedPost:
    at = record.fields.get("at")
    return RankedPost((0.0, -at if isinstance(at, int | float) else math.inf, record.key), 1.0, record)


class NearestPosts:
    """Matching posts, the most similar first."""

    def __init__(self, query: VectorQuery, where: Filter) -> None:
        self._query, self._where = query, where

    @property
    def long(self) -> bool:
        return demanding(self._query, self._where)

    def first(self, limit: int) -> NearestRequest:
        return NearestRequest(self._query, self._where, limit)

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        hits = (await posts.nearest(self._query, _outside(without, self._where), limit)).hits
        records = await posts.get([hit.key for hit in hits])
        there = [
            _scored(hit.score, record)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]
        return PostCandidates(there, len(hits) == limit)

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        scores = await posts.similarities(self._query, [record.key for record in records])
        return [
            None if score is None else _scored(score, record)
            for score, record in zip(scores, records, strict=True)
        ]


def _scored(score: float, record: Record) -> RankedPost:
    return RankedPost((0.0, -score, record.key), score, record, parts=ScoreParts(meaning=score))


class HybridPosts:
    """Matching posts by keywords and vectors: at most 1,000.

    A post that replaces a newer duplicate gets its score. Hits of a second query come after those of the
    first one, because scores of two fusions are not comparable. Without ``reranks``, no reranker reads them.
    """

    def __init__(
        self,
        collection: Collection,
        models: Models,
        query: HybridQuery,
        where: Filter,
        *,
        reranks: bool = True,
    ) -> None:
        self._collection, self._models, self._query, self._where = collection, models, query, where
        self._reranks = reranks
        self._round = 0
        self._least = math.inf

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        where = _outside(without, self._where)
        query = self._query
        ranking = await hybrid(
            self._collection,
            query.words,
            query.vectors,
            where,
            limit,
            fusion=query.fusion,
            usual=query.usual,
            weight=query.weight,
        )
        hits: Sequence[Hit] = ranking.hits
        records = await posts.get([hit.key for hit in hits])
        # Hits of a second round are not reranked: they come after the first ones.
        if self._reranks and not self._round:
            hits, records = await self._judged(hits, records)
        found: list[RankedPost] = []
        for rank, (hit, record) in enumerate(zip(hits, records, strict=True)):
            if record is not None:
                self._least = min(self._least, hit.score)
                place = (self._round, rank, record.key)
                found.append(RankedPost(place, self._least, record, hit.cosine, hit.bm25, hit.parts))
        self._round += 1
        return PostCandidates(found, len(hits) == limit)

    async def _judged(
        self, hits: Sequence[Hit], records: Sequence[Record | None]
    ) -> tuple[Sequence[Hit], list[Record | None]]:
        there = {record.key: record for record in records if record is not None}
        texts = {key: record.texts.get("content", "") for key, record in there.items()}
        asked = sense(self._query.words) if self._query.words else ""
        order = await judged(self._models, asked, hits, texts)
        return order, [there.get(hit.key) for hit in order]

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        return [each._replace(record=record) for record, each in zip(records, best, strict=True)]
