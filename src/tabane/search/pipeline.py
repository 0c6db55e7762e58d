"""The search pipeline over a collection: hybrid ranking by words and vectors, diversity, items."""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import mul
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct, structs

from tabane.errors import ModelError, ModelMissing
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import family_of, is_latin, reads
from tabane.search.engine import (
    MOST_AT_ONCE,
    Collection,
    EngineHit,
    EngineHits,
    JoinedRecords,
    LexicalQuery,
    NearestRequest,
    VectorQuery,
    demanding,
)
from tabane.search.fusion import CHANCE_RANK, K, Rise, ScoreParts, diverse, fused, scaled, weight_of_words
from tabane.search.interpretations import Interpretation, interpretations
from tabane.search.records import EVERYTHING, And, Filter, In, Not, Record
from tabane.search.respelling import respelled, search_words
from tabane.search.source import (
    HitCard,
    Keywords,
    Models,
    Reranker,
    SearchAnswer,
    SearchHit,
    SearchRequest,
    joined,
)
from tabane.search.typed_query import TextTest, demands, is_pasted, marked_terms, sense, words_of
from tabane.workers.time_slices import thread_slices

T = TypeVar("T")

DEPTH = 100
"""Least number of hits that are taken from each ranking. Deeper hits of both gain nothing by fusion."""


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


class WordsAhead:
    """A search by words that runs while the query is embedded: the model is a process of its own."""

    def __init__(self, collection: Collection, words: LexicalQuery, where: Filter) -> None:
        self._asked = words, where
        self._search: asyncio.Task[EngineHits] | None = asyncio.create_task(
            search_words(collection, words, where, DEPTH)
        )

    async def take(self, words: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits | None:
        """Return the hits, once. None if they were taken, or are those of another search."""
        search, self._search = self._search, None
        if search is None:
            return None
        if (words, where) != self._asked or limit + offset > DEPTH:
            search.cancel()
            return None
        found = await search
        return structs.replace(found, hits=found.hits[offset : offset + limit])

    def close(self) -> None:
        """End the search, if nobody took its hits."""
        if self._search is not None:
            self._search.cancel()
            self._search = None


async def hybrid(
    collection: Collection,
    words: LexicalQuery | None,
    meaning: VectorQuery | None,
    where: Filter,
    limit: int,
    offset: int = 0,
    *,
    depth: int = DEPTH,
    usual: float | None = None,
    conditions: LexicalQuery | None = None,
    ahead: WordsAhead | None = None,
) -> HybridRanking:
    """Return the best records that match ``where`` and are found by words, by vectors, or both.

    ``usual`` is the cosine between unrelated texts, if it was measured for the model
    (:class:`~tabane.search.embedding.model_families.CosineBaseline`). It is scored 0. If only words or only
    vectors are given, theirs is the ranking. If both are given, :func:`~tabane.search.fusion.weight_of_words`
    says how much each counts. Measured on English and Japanese sets by benchmarks/search/hybrid.py.
    ``meaning.threshold`` applies to hits that only vectors found.
    Phrases and exclusions apply to all hits; without words, those of ``conditions``. If both are given,
    ``total`` is the number of candidates, because nearest vectors have no end. ``ahead`` may have the hits by
    words already.

    Raises the errors of :meth:`~tabane.search.engine.Collection.search` and ``nearest``.
    """
    if words is not None:
        looked, skipped = limit, offset
        if meaning is not None:
            looked, skipped = min(max(depth, limit + offset), MOST_AT_ONCE), 0
        # One after the other: in parallel, two threads compete for the interpreter and take longer.
        lexical = await ahead.take(words, where, looked, skipped) if ahead else None
        if lexical is None:
            lexical = await search_words(collection, words, where, looked, skipped)
        if meaning is None:
            return _by_words(lexical, offset)
        both = _HybridSearch(collection, words, meaning, where, looked)
        return await both.ranked(lexical, limit, offset, usual)
    if meaning is not None and conditions is not None and TextTest(conditions):
        request = NearestRequest(meaning, And((where, demands(conditions))), limit + offset)
        found = await _allowed_nearest(collection, request, conditions)
        return _by_meaning(structs.replace(found, hits=found.hits[offset:]), usual, offset)
    if meaning is not None:
        return _by_meaning(await collection.nearest(meaning, where, limit, offset), usual, offset)
    return HybridRanking()


_PASTED = 0.75
"""Least weight of the words of a pasted text: names and messages in it are exact, and models know few."""


class _HybridSearch(Struct, frozen=True):
    collection: Collection
    words: LexicalQuery
    meaning: VectorQuery
    where: Filter
    looked: int

    async def ranked(
        self, lexical: EngineHits, limit: int, offset: int, usual: float | None
    ) -> HybridRanking:
        # A hit below the page in both rankings cannot rise into it. So proven are the page, and the first
        # hits, which decide the weights.
        meaning = structs.replace(self.meaning, proven=max(limit + offset, CHANCE_RANK))
        request = NearestRequest(meaning, And((self.where, demands(self.words))), self.looked)
        nearest, found = await self.collection.together(
            lambda records: self._compare_candidates(records, request, lexical),
            long=demanding(request.query, request.where) or bool(self.words.exclude),
            first=request,
        )
        latin = is_latin(self.words.spelled or self.words.text)
        least = _PASTED if is_pasted(self.words.text) else 0.0
        parts = _score_parts(found, lexical, nearest, usual, latin=latin, least=least)
        exact = lexical.exact and max(len(lexical.hits), len(nearest.hits)) < self.looked
        page = list(parts.items())[offset : offset + limit]
        scored = (
            replace(found[key], score=min(each.words + each.meaning, 1.0), parts=each) for key, each in page
        )
        return HybridRanking(tuple(scored), len(found), exact)

    async def _compare_candidates(
        self, records: JoinedRecords, request: NearestRequest, lexical: EngineHits
    ) -> tuple[EngineHits, dict[str, RankedRecord]]:
        """Return the nearest records, and these and the lexical hits by key, with cosines."""
        nearest = await _allowed_nearest(records, request, self.words)
        found = {hit.key: RankedRecord(hit.key, hit.row, 0.0, bm25=hit.score) for hit in lexical.hits}
        for near in nearest.hits:
            known = found.get(near.key)
            # A record that was replaced between the two searches has a row in each: the later one counts.
            row = max(near.row, known.row) if known else near.row
            found[near.key] = RankedRecord(near.key, row, 0.0, near.score, known.bm25 if known else None)
        lacking = [hit.key for hit in found.values() if hit.cosine is None]
        for first in range(0, len(lacking), MOST_AT_ONCE):
            part = lacking[first : first + MOST_AT_ONCE]
            cosines = await records.similarities(self.meaning, part)
            for key, cosine in zip(part, cosines, strict=True):
                found[key] = RankedRecord(key, found[key].row, 0.0, cosine, found[key].bm25)
        return nearest, found


_TESTED = 2_000_000
"""Characters of texts that are tested for phrases and exclusions, about a second. Other hits are left out."""


async def _allowed_nearest(
    records: JoinedRecords, request: NearestRequest, words: LexicalQuery
) -> EngineHits:
    """Return the nearest records that the phrases and exclusions of a query allow, whole words.

    If exclusions take too many of them, the engine's most are read once.
    """
    test = TextTest(words)
    nearest = await records.nearest(request.query, request.where, request.limit)
    if not test:
        return nearest
    allowed, left = await _allowed_hits(records, nearest, test, request.limit, _TESTED)
    if left > 0 and len(allowed.hits) < len(nearest.hits) == request.limit < MOST_AT_ONCE:
        deeper = await records.nearest(request.query, request.where, MOST_AT_ONCE)
        allowed, _ = await _allowed_hits(records, deeper, test, request.limit, left)
    return allowed


async def _allowed_hits(
    records: JoinedRecords, found: EngineHits, test: TextTest, limit: int, left: int
) -> tuple[EngineHits, int]:
    """Return the first hits whose texts pass a test, at most ``limit``.

    ``left`` characters of texts are tested; returned is how many of them remain.
    """
    allowed: list[EngineHit] = []
    for first in range(0, len(found.hits), DEPTH):
        part = found.hits[first : first + DEPTH]
        there = await records.get([hit.key for hit in part])
        texts = {record.key: list(record.texts.values()) for record in there if record is not None}
        passed, left = await _in_thread(partial(_passing, test, texts, left))
        allowed += (hit for hit in part if hit.key in passed)
        if len(allowed) >= limit or left <= 0:
            break
    whole = found.exact and left > 0 and len(allowed) <= limit
    return structs.replace(found, hits=tuple(allowed[:limit]), exact=whole), left


def _passing(test: TextTest, texts: Mapping[str, Sequence[str]], most: int) -> tuple[set[str], int]:
    """Return the keys whose texts pass a test, and how many characters of ``most`` are left."""
    passed, pause = set[str](), thread_slices()
    for key, each in texts.items():
        if most <= 0:
            break
        most -= sum(map(len, each))
        if test.accepts(each):
            passed.add(key)
        pause()
    return passed, most


async def _in_thread(work: Callable[[], T]) -> T:
    """Return the result of work off the event loop: here, if this is a thread in which an engine reads."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    return await asyncio.to_thread(work)


def _score_parts(
    found: Mapping[str, RankedRecord],
    lexical: EngineHits,
    nearest: EngineHits,
    usual: float | None,
    *,
    latin: bool,
    least: float = 0.0,
) -> dict[str, ScoreParts]:
    """Return the parts of the score of each record that was found, best first.

    ``least`` is the least weight of the words. All parts are multiplied by the same number in 0..1, so that
    the best score is low if even the best record has few of the words and is not near in meaning.
    """
    cosines = {key: hit.cosine for key, hit in found.items() if hit.cosine is not None}
    nothing = min(cosines.values(), default=0.0) if usual is None else usual
    bm25 = {hit.key: hit.score for hit in lexical.hits}
    ceiling = lexical.ceiling or max(bm25.values(), default=1.0)
    said = Rise.of([score / ceiling for score in bm25.values()], fewer=0.0)
    meant = Rise.of([hit.score - nothing for hit in nearest.hits], fewer=0.5)
    weight = max(weight_of_words(said, meant, latin=latin), least if bm25 else 0.0)
    width = 1 - nothing
    level = weight * min(said.best, 1.0) + (1 - weight) * (min(meant.best / width, 1.0) if width > 0 else 1.0)
    close: dict[str, float | None] = {**dict.fromkeys(found), **scaled(cosines, nothing)}
    words_ranks, meaning_ranks = (
        {hit.key: rank for rank, hit in enumerate(hits.hits, 1)} for hits in (lexical, nearest)
    )
    return {
        key: ScoreParts(level * words, level * near, words_ranks.get(key), meaning_ranks.get(key), "scaled")
        for key, (words, near) in fused(
            scaled(bm25, 0.0), close, weight, outstanding=said.is_outstanding
        ).items()
    }


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
    the model. ``incomplete``: not every record has a vector.
    """

    query: VectorQuery | None
    usual: float | None = None
    noise: float | None = None
    incomplete: Incomplete | None = None


class HybridQuery(NamedTuple):
    """A query by keywords and vectors. Without ``words`` or ``vectors``, the other one ranks alone.

    ``usual``, ``conditions`` and ``ahead`` are parameters of :func:`~tabane.search.pipeline.hybrid`.
    ``warning`` says why hits may be missing.
    """

    words: LexicalQuery | None
    vectors: VectorQuery | None = None
    usual: float | None = None
    warning: Message | None = None
    conditions: LexicalQuery | None = None
    ahead: WordsAhead | None = None


async def embedded_query(
    collection: Collection, words: LexicalQuery, where: Filter, embedded: Awaitable[Meaning | NoModel]
) -> HybridQuery:
    """Return a query by keywords and vectors. Its words are searched while it is ``embedded``."""
    ahead = WordsAhead(collection, words, where)
    try:
        return hybrid_query(words, await embedded)._replace(ahead=ahead)
    except BaseException:
        ahead.close()
        raise


def hybrid_query(words: LexicalQuery, found: Meaning | NoModel) -> HybridQuery:
    """Return how vectors take part in a search by keywords and vectors."""
    if isinstance(found, NoModel):
        return HybridQuery(words, warning=found.reason)
    incomplete = found.incomplete
    if found.query is None or (incomplete is not None and not incomplete.share):
        return HybridQuery(words, warning=incomplete.warning if incomplete else None)
    query = structs.replace(found.query, threshold=found.noise)
    return HybridQuery(words, query, found.usual, incomplete.warning if incomplete else None)


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
    found = Meaning(VectorQuery(vectors))
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

SearchMode = Literal["hybrid", "vector", "lexical"]

QueryVectors = Callable[[Collection, str, Iterable[str]], Awaitable[Meaning | NoModel]]
"""Returns a text as vectors for these spaces of a collection, or why there are none."""

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
        words = words_of(request)
        if not sense(words):
            return SearchAnswer()
        collection = await self._collection()
        keywords, exact = request.keywords, request.exact
        return await self.ranked(collection, words, self.where, request.limit, keywords=keywords, exact=exact)

    async def ranked(
        self,
        collection: Collection,
        words: LexicalQuery,
        where: Filter,
        limit: int,
        mode: SearchMode = "hybrid",
        keywords: Keywords | None = None,
        *,
        exact: bool = False,
    ) -> SearchAnswer[T]:
        """Return the best items for words that make sense. Raises ModelMissing if mode vector lacks a model.

        ``keywords`` and ``exact`` are those of :class:`~tabane.search.source.SearchRequest`.
        """
        nothing: SearchAnswer[T] = SearchAnswer()
        for reading in await interpretations(collection, words, where, exact=exact):
            answer = await self._read_as(collection, reading, where, limit, mode, keywords)
            if answer.hits:
                return answer
            if reading.remark is None:
                nothing = answer
        return nothing

    async def _read_as(
        self,
        collection: Collection,
        reading: Interpretation,
        where: Filter,
        limit: int,
        mode: SearchMode,
        keywords: Keywords | None,
    ) -> SearchAnswer[T]:
        """Return the best items for one reading of a query."""
        words = await respelled(collection, reading.words, where)
        query = await self._query(collection, words, where, "lexical" if keywords else mode)
        asked = "" if keywords == "typing" else sense(words)  # what nobody finished is not reranked
        hits: list[SearchHit[T]] = []
        for _ in range(_TRIES):
            groups = await self._groups(collection, query, asked, where, limit)
            hits = await self.read(collection, groups)
            if len(hits) == len(groups):  # otherwise one of them was replaced meanwhile
                break
        warning = joined(reading.remark, joined(query.warning, collection.remark))
        return SearchAnswer(hits, marked_terms(words), warning, usual=query.usual)

    async def _query(
        self, collection: Collection, words: LexicalQuery, where: Filter, mode: SearchMode
    ) -> HybridQuery:
        if mode == "lexical":
            return HybridQuery(words)
        embedded = self._vectors(collection, sense(words), self.spaces)
        if mode == "hybrid":
            return await embedded_query(collection, words, where, embedded)
        found = await embedded
        if isinstance(found, NoModel):
            raise ModelMissing(
                say(
                    "{reason} Mode {mode} needs a model; hybrid works without one.",
                    reason=found.reason,
                    mode=mode,
                )
            )
        warning = found.incomplete.state if found.incomplete else None
        return HybridQuery(None, found.query, found.usual, warning, words)

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
        groups = self._group_hits(hits)
        if len(groups) < limit and len(hits) == depth:
            depth = MOST_AT_ONCE
            hits = await self._hits(collection, query, asked, where, depth)
            groups = self._group_hits(hits)
        found, names = dict(groups), set[str]()
        for _ in range(_ROUNDS):
            if len(found) >= limit or len(hits) < depth:
                break
            firsts = await records_of(collection, [group[0].key for group in groups.values()])
            names |= {str(record.fields[self.group_field]) for record in firsts.values()}
            others = And((where, Not(In(self.group_field, tuple(sorted(names))))))
            hits = await self._hits(collection, query, asked, others, depth)
            groups = self._group_hits(hits)
            # In their order: scores of two fusions are not comparable.
            found |= {name: group for name, group in groups.items() if name not in found}
        return list(found.values())[:limit]

    def _group_hits(self, hits: Sequence[RankedRecord]) -> dict[str, list[RankedRecord]]:
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
            usual=query.usual,
            conditions=query.conditions,
            ahead=query.ahead,
        )
        if self._models.reranker() is None or not asked:
            return ranking.hits
        records = await records_of(collection, [hit.key for hit in ranking.hits[:RERANKED]])
        texts = {key: self.text(record) for key, record in records.items()}
        return await judged(self._models, asked, ranking.hits, texts)


async def records_of(collection: Collection, keys: Sequence[str]) -> Mapping[str, Record]:
    """Return the records that exist of these keys. At most 1,000 keys."""
    return {record.key: record for record in await collection.get(keys) if record is not None}


async def diversified(
    collection: Collection,
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
    units = {
        hit.key: _unit_vector(vector) for hit, vector in zip(ranked, known, strict=True) if vector is not None
    }
    scores = [(hit.key, hit.score) for hit in ranked]

    def alike(one: str, other: str) -> float:
        if one not in units or other not in units:
            return 0.0
        return max(math.fsum(map(mul, units[one], units[other])), 0.0)

    chosen = await asyncio.to_thread(diverse, scores, alike, limit, relevance)
    return [by_key[key] for key in chosen]


def _unit_vector(vector: bytes) -> array[float]:
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
