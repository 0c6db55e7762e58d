"""The search pipeline over a collection: query, rankings by words and meaning, diversity, items."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import mul
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct, structs

from tabane.errors import ModelError, ModelMissing
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import cosine_weight, family_of, reads
from tabane.search.engine import MOST_AT_ONCE, Collection, LexicalQuery, SearchableVectors, VectorQuery
from tabane.search.fusion import CosineWeight, diverse
from tabane.search.hybrid import DEPTH, Fusion, RankedRecord, hybrid, marked_terms, sense, typed
from tabane.search.models import Models, Reranker
from tabane.search.records import EVERYTHING, And, Filter, In, Not, Record
from tabane.search.source import HitCard, Keywords, SearchAnswer, SearchHit, SearchRequest, joined


class Incomplete(Struct, frozen=True):
    """A space in which some records have no vector. ``share`` in 0..1 have one; ``state`` is the message.

    ``tells``: the user should know. It is False for a few texts that the model cannot read. ``problem``
    prevents the rest from being embedded.
    """

    share: float
    state: Message
    tells: bool = True
    problem: Message | None = None

    @property
    def warning(self) -> Message | None:
        """Return the warning for results by keywords, or by keywords and vectors."""
        if not self.tells:
            return None
        if self.problem is not None and not self.share:
            return self.problem
        if self.share:
            return say("The rest is found by keywords only. {state}", state=self.state)
        return say("Results match keywords only. {state}", state=self.state)


class Meaning(NamedTuple):
    """A query as vectors.

    ``query`` is None if there is nothing to compare. ``usual`` is the cosine between unrelated texts, and
    ``noise`` the cosine below which a hit by vectors alone means nothing: None if nobody measured them for
    the model. ``incomplete``: not every record has a vector. ``weight`` is that of the cosine beside words.
    """

    query: VectorQuery | None
    usual: float | None = None
    noise: float | None = None
    incomplete: Incomplete | None = None
    weight: CosineWeight = CosineWeight()


class HybridQuery(NamedTuple):
    """A query by keywords and vectors. Without ``words`` or ``vectors``, the other one ranks alone.

    ``usual``, ``fusion`` and ``weight`` are parameters of :func:`~tabane.search.hybrid.hybrid`. ``warning``
    says why hits may be missing.
    """

    words: LexicalQuery | None
    vectors: VectorQuery | None = None
    usual: float | None = None
    fusion: Fusion = "scaled"
    warning: Message | None = None
    weight: CosineWeight = CosineWeight()


def hybrid_query(words: LexicalQuery, found: Meaning | NoModel) -> HybridQuery:
    """Return how vectors take part in a search by keywords and vectors.

    While some records have no vector, vectors only raise a record: see
    :data:`~tabane.search.hybrid.Fusion`. So no record falls behind because it has none yet.
    """
    if isinstance(found, NoModel):
        return HybridQuery(words, warning=found.reason)
    incomplete = found.incomplete
    if found.query is None or (incomplete is not None and not incomplete.share):
        return HybridQuery(words, warning=incomplete.warning if incomplete else None)
    query = structs.replace(found.query, threshold=found.noise)
    if incomplete is None:
        return HybridQuery(words, query, found.usual, weight=found.weight)
    return HybridQuery(words, query, found.usual, "partial", incomplete.warning, found.weight)


async def meaning_of(text: str, spaces: Mapping[str, str], models: Models) -> Meaning | NoModel:
    """Return the query as vectors for these spaces, each by the model of the space; or why there are none.

    ``spaces`` is name → model. A model that reads only English gets no query in another script: its vectors
    would be noise, which makes the results by words worse.
    """
    vectors: dict[str, bytes] = {}
    for name, model in spaces.items():
        if not reads(model, text):
            return words_alone(english_only(model))
        vector = await models.query(model, text)
        if isinstance(vector, NoModel):
            return words_alone(vector.reason)
        vectors[name] = vector
    baselines = {family.baseline for model in spaces.values() if (family := family_of(model))}
    baseline = baselines.pop() if len(baselines) == 1 else None
    found = Meaning(VectorQuery(vectors), weight=cosine_weight(spaces.values(), text))
    if baseline is None:
        return found
    return found._replace(usual=baseline.usual, noise=baseline.threshold)


def english_only(model: str) -> Message:
    """Return the warning that a model cannot read a query."""
    return say("{model} reads English only.", model=model.partition("#")[0])


def words_alone(reason: Message) -> NoModel:
    """Return the reason as a warning for results by keywords alone."""
    return NoModel(say("Results match keywords only: {reason}", reason=reason))


log = logging.getLogger(__name__)

RERANKED = 30
"""Hits that a reranker reads: each costs as much as embedding its text."""

T = TypeVar("T")

SearchMode = Literal["hybrid", "vector", "lexical"]

QueryVectors = Callable[[str, Iterable[str]], Awaitable[Meaning | NoModel]]
"""Returns a text as vectors for these spaces of a collection, or why there are none."""

_LAST_LETTER = re.compile(r"(?:^|(?<=\s))[A-Za-z0-9]$")
_TRIES = 3
_ROUNDS = 100  # in which groups that were found are excluded; each round finds at least one more group


class CollectionSource(ABC, Generic[T]):
    """A search source over the records of one collection.

    A subclass declares the spaces that are compared, which records may be hits, how a record reads as text,
    and how the items of the source are read and shown. If several records belong to one item, it also
    declares the field that names the item, and how the item is known by the key of a record.
    """

    spaces: ClassVar[Sequence[str]]
    where: ClassVar[Filter] = EVERYTHING
    group_field: ClassVar[str | None] = None

    def __init__(
        self, collection: Callable[[], Awaitable[Collection]], models: Models, vectors: QueryVectors
    ) -> None:
        self._collection, self._models, self._vectors = collection, models, vectors

    @abstractmethod
    def text(self, record: Record) -> str:
        """Return the text of a record that a reranker reads."""

    def group(self, key: str) -> str:
        """Return the name of an item from the key of one of its records."""
        return key

    @abstractmethod
    async def read(
        self, collection: Collection, groups: Sequence[Sequence[RankedRecord]]
    ) -> list[SearchHit[T]]:
        """Read the item of each group. Items that were replaced or deleted meanwhile are left out."""

    @abstractmethod
    def card(self, item: T) -> HitCard:
        """Return how an item reads in a list of several kinds."""

    async def search(self, caller: Caller, request: SearchRequest) -> SearchAnswer[T]:
        return await self.ranked(words_of(request), self.where, request.limit, keywords=request.keywords)

    async def ranked(
        self,
        words: LexicalQuery,
        where: Filter,
        limit: int,
        mode: SearchMode = "hybrid",
        keywords: Keywords | None = None,
    ) -> SearchAnswer[T]:
        """Return the best items. Raises ModelMissing if the mode is vector and there is no model.

        ``keywords`` is that of :class:`~tabane.search.source.SearchRequest`.
        """
        if not sense(words):
            return SearchAnswer()
        collection = await self._collection()
        query = await self._query(words, "lexical" if keywords else mode)
        asked = "" if keywords == "typing" else sense(words)  # what nobody finished is not reranked
        hits: list[SearchHit[T]] = []
        for _ in range(_TRIES):
            groups = await self._groups(collection, query, asked, where, limit)
            hits = await self.read(collection, groups)
            if len(hits) == len(groups):  # otherwise one of them was replaced meanwhile
                break
        warning = joined(query.warning, collection.remark)
        return SearchAnswer(hits, marked_terms(words), warning, usual=query.usual)

    async def _query(self, words: LexicalQuery, mode: SearchMode) -> HybridQuery:
        if mode == "lexical":
            return HybridQuery(words)
        found = await self._vectors(sense(words), self.spaces)
        if mode == "hybrid":
            return hybrid_query(words, found)
        if isinstance(found, NoModel):
            raise ModelMissing(
                say(
                    "{reason} Mode {mode} needs a model; hybrid works without one.",
                    reason=found.reason,
                    mode=mode,
                )
            )
        warning = found.incomplete.state if found.incomplete else None
        return HybridQuery(None, found.query, found.usual, warning=warning)

    async def _groups(
        self, collection: Collection, query: HybridQuery, asked: str, where: Filter, limit: int
    ) -> list[list[RankedRecord]]:
        """Return the hits of the best items, item by item, best first.

        More records are ranked until they belong to enough items. After that, items that were found are
        excluded.
        """
        if self.group_field is None:
            depth = limit if self._models.reranker() is None else max(limit, RERANKED)
            return [[hit] for hit in (await self._hits(collection, query, asked, where, depth))[:limit]]
        depth = DEPTH
        hits = await self._hits(collection, query, asked, where, depth)
        groups = self._grouped(hits)
        if len(groups) < limit and len(hits) == depth:
            depth = MOST_AT_ONCE
            hits = await self._hits(collection, query, asked, where, depth)
            groups = self._grouped(hits)
        found, names = dict(groups), set[str]()
        for _ in range(_ROUNDS):
            if len(found) >= limit or len(hits) < depth:
                break
            firsts = await records_of(collection, [group[0].key for group in groups.values()])
            names |= {str(record.fields[self.group_field]) for record in firsts.values()}
            others = And((where, Not(In(self.group_field, tuple(sorted(names))))))
            hits = await self._hits(collection, query, asked, others, depth)
            groups = self._grouped(hits)
            found |= {name: group for name, group in groups.items() if name not in found}
        return sorted(found.values(), key=lambda group: -group[0].score)[:limit]

    def _grouped(self, hits: Sequence[RankedRecord]) -> dict[str, list[RankedRecord]]:
        """Group hits by the keys of their records, without reading the records."""
        groups: dict[str, list[RankedRecord]] = {}
        for hit in hits:
            groups.setdefault(self.group(hit.key), []).append(hit)
        return groups

    async def _hits(
        self, collection: Collection, query: HybridQuery, asked: str, where: Filter, limit: int
    ) -> Sequence[RankedRecord]:
        """Rank records by keywords and vectors. If there is a reranker, it reorders the first ones."""
        ranking = await hybrid(
            collection,
            query.words,
            query.vectors,
            where,
            limit,
            fusion=query.fusion,
            usual=query.usual,
            weight=query.weight,
        )
        if self._models.reranker() is None or not asked:
            return ranking.hits
        records = await records_of(collection, [hit.key for hit in ranking.hits[:RERANKED]])
        texts = {key: self.text(record) for key, record in records.items()}
        return await judged(self._models, asked, ranking.hits, texts)


def words_of(request: SearchRequest) -> LexicalQuery:
    """Return a request as keywords. In a query that is being typed, the last word is a prefix.

    A last letter alone is no prefix: it begins a tenth of all words, and 220,000 posts take 0.1 s.
    """
    words = typed(request.query)
    if request.keywords != "typing":
        return words
    if _LAST_LETTER.search(words.text) is None:
        return structs.replace(words, prefix=True)
    return structs.replace(words, text=_LAST_LETTER.sub("", words.text) or words.text)


async def records_of(collection: Collection, keys: Sequence[str]) -> Mapping[str, Record]:
    """Return the records that exist of these keys. At most 1,000 keys."""
    return {record.key: record for record in await collection.get(keys) if record is not None}


async def diversified(
    collection: SearchableVectors,
    space: str,
    ranked: Sequence[RankedRecord],
    limit: int,
    relevance: float = 0.7,
) -> list[RankedRecord]:
    """Return the best ``limit`` hits that differ from each other, by maximal marginal relevance.

    ``relevance`` in 0..1 is the weight of the score; the rest is the weight of the similarity in ``space``.
    With 1 the order is that of the ranking. A hit without a vector is similar to no other. At most 1,000
    hits. Each chosen hit is compared with all, off the event loop.
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
    """Return the ranking in the order of the reranker of the settings; unchanged if there is none.

    If the reranker fails, the ranking is unchanged too, and a warning is logged.
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
    """Return the hits, the first :data:`RERANKED` in the order of a model that reads query and text together.

    ``texts`` are the texts of the hits by key. A hit without a text comes after those with one. Hits further
    down keep their place. The scores of the ranking are assigned again in the new order, so that they fall.
    """
    first, rest = list(ranked[:RERANKED]), list(ranked[RERANKED:])
    read = [hit.key for hit in first if texts.get(hit.key)]
    scores = dict(zip(read, await reranker.score(query, [texts[key] for key in read]), strict=True))
    places = {hit.key: rank for rank, hit in enumerate(first, 1)}
    order = sorted(first, key=lambda hit: -scores.get(hit.key, -math.inf))
    return [
        replace(hit, score=place.score, parts=hit.parts and hit.parts._replace(ranked=places[hit.key]))
        for hit, place in zip(order, first, strict=True)
    ] + rest
