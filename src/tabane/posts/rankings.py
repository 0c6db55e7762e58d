"""Rankings of posts: newest first, nearest first, or by keywords and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tabane.posts.duplicates import PostCandidates, RankedPost
from tabane.search.engine import Collection, Order, VectorQuery
from tabane.search.filters import And, Filter, Not
from tabane.search.hybrid import RankedRecord as Hit
from tabane.search.hybrid import hybrid
from tabane.search.meaning import HybridQuery
from tabane.search.models import Models
from tabane.search.pipeline import judged
from tabane.search.queries import sense
from tabane.search.records import Record


class NewestPosts:
    """Matching posts, newest first, those without a time last. All have the same score."""

    def __init__(self, collection: Collection, where: Filter) -> None:
        self._collection, self._where = collection, where

    async def best(self, without: Filter, limit: int) -> PostCandidates:
        where = And((self._where, Not(without)))
        page = await self._collection.select(where, order=(Order("at", descending=True),), limit=limit)
        return PostCandidates([_dated(each.record) for each in page.records], page.after is not None)

    async def placed(self, records: Sequence[Record], best: Sequence[RankedPost]) -> list[RankedPost | None]:
        return [_dated(record) for record in records]


def _dated(record: Record) -> RankedPost:
    at = record.fields.get("at")
    return RankedPost((0.0, -at if isinstance(at, int | float) else math.inf, record.key), 1.0, record)


class NearestPosts:
    """Matching posts, the most similar first."""

    def __init__(self, collection: Collection, query: VectorQuery, where: Filter) -> None:
        self._collection, self._query, self._where = collection, query, where

    async def best(self, without: Filter, limit: int) -> PostCandidates:
        hits = (await self._collection.nearest(self._query, And((self._where, Not(without))), limit)).hits
        records = await self._collection.get([hit.key for hit in hits])
        there = [
            _scored(hit.score, record)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]
        return PostCandidates(there, len(hits) == limit)

    async def placed(self, records: Sequence[Record], best: Sequence[RankedPost]) -> list[RankedPost | None]:
        scores = await self._collection.similarities(self._query, [record.key for record in records])
        return [
            None if score is None else _scored(score, record)
            for score, record in zip(scores, records, strict=True)
        ]


def _scored(score: float, record: Record) -> RankedPost:
    return RankedPost((0.0, -score, record.key), score, record)


class HybridPosts:
    """Matching posts by keywords and vectors: at most 1,000.

    A post that replaces a newer duplicate gets its score. Hits of a second query come after those of the
    first one, because scores of two fusions are not comparable.
    """

    def __init__(
        self,
        collection: Collection,
        models: Models,
        query: HybridQuery,
        where: Filter,
    ) -> None:
        self._collection, self._models, self._query, self._where = collection, models, query, where
        self._round = 0
        self._least = math.inf

    async def best(self, without: Filter, limit: int) -> PostCandidates:
        where = And((self._where, Not(without)))
        query = self._query
        ranking = await hybrid(
            self._collection, query.words, query.vectors, where, limit, fusion=query.fusion, usual=query.usual
        )
        hits: Sequence[Hit] = ranking.hits
        records = await self._collection.get([hit.key for hit in hits])
        if not self._round:  # what comes in a second round is not read: it stands behind the first
            hits, records = await self._judged(hits, records)
        found: list[RankedPost] = []
        for rank, (hit, record) in enumerate(zip(hits, records, strict=True)):
            if record is not None:
                self._least = min(self._least, hit.score)
                found.append(
                    RankedPost((self._round, rank, record.key), self._least, record, hit.cosine, hit.bm25)
                )
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

    async def placed(self, records: Sequence[Record], best: Sequence[RankedPost]) -> list[RankedPost | None]:
        return [each._replace(record=record) for record, each in zip(records, best, strict=True)]
