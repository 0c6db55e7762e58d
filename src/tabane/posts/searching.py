"""Searches of the post archive, from the typed query to the ranked posts."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import NamedTuple, TypeVar

from msgspec import Struct, structs

from tabane.errors import BadArguments, ModelMissing
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.posts import query
from tabane.posts.post import DUPLICATE_FIELD, Post, duplicate_key, post_of
from tabane.posts.query import (
    LONGEST_QUERY,
    Mode,
    PostConditions,
    PostFilters,
    PostQuery,
    PostSearchOptions,
    PostTerms,
    Source,
    available,
    bar_is_text,
    checked_weights,
    escaped_meaning,
    parsed,
    source_of,
    spaces_of,
    terms,
    vector_query,
)
from tabane.posts.statistics import Statistics
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.engine import (
    MOST_AT_ONCE,
    Collection,
    JoinedRecords,
    LexicalQuery,
    ListedKeys,
    NearestRequest,
    Order,
    Ranks,
    VectorQuery,
    demanding,
)
from tabane.search.fusion import ScoreParts
from tabane.search.interpretations import interpretations
from tabane.search.pipeline import (
    HybridQuery,
    Incomplete,
    Meaning,
    RankedRecord,
    diversified,
    embedded_query,
    hybrid,
    hybrid_query,
    judged,
    meaning_of,
    words_alone,
)
from tabane.search.pipeline import RankedRecord as Hit
from tabane.search.records import (
    EVERYTHING,
    LONGEST_NEEDLE,
    NOTHING,
    And,
    Equal,
    Filter,
    In,
    Not,
    Record,
    encodable,
)
from tabane.search.respelling import respelled
from tabane.search.source import (
    HitCard,
    Models,
    Reference,
    SearchAnswer,
    SearchHit,
    SearchRequest,
    joined,
)
from tabane.search.typed_query import is_pasted, marked_terms, sense, shortened, typed, words_of

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


async def best_posts(
    collection: Collection, source: HybridPosts | JoinedRanking, own: Filter, limit: int
) -> list[RankedPost]:
    """Return the best posts :func:`without_duplicates`, by joined requests if the ranking allows it."""
    if isinstance(source, HybridPosts):
        return await without_duplicates(collection, source, own, limit)
    return await collection.together(
        lambda posts: without_duplicates(posts, source, own, limit),
        long=source.long,
        first=source.first(_first_limit(limit)),
    )


async def without_duplicates(
    posts: JoinedRecords, source: PostRanking, own: Filter, most: int
) -> list[RankedPost]:
    """Return the best posts, none of which has an older duplicate that matches too.

    ``own`` are the conditions that duplicates may differ in: a duplicate that fails them does not count.
    """
    oldest: list[RankedPost] = []
    settled: set[str] = set()
    limit = _first_limit(most)
    while True:
        seen = In(DUPLICATE_FIELD, tuple(settled)) if settled else NOTHING
        hits, more = await source.best(posts, seen, limit)
        oldest += await _oldest_of_groups(posts, source, own, hits)
        settled.update(_duplicate_key(hit.record) for hit in hits)
        # Posts that are not known yet rank after the last hit.
        certain = [each for each in oldest if not more or (hits and each.place <= hits[-1].place)]
        if not more or len(certain) >= most:
            return sorted(certain)[:most]
        if len(settled) > MOST_SETTLED:
            return sorted(oldest)[:most]
        limit = min(2 * limit, MOST_AT_ONCE)


def _first_limit(limit: int) -> int:
    """Return how many hits are requested at first: a few more, because some are duplicates."""
    return min(limit + limit // 8 + 8, MOST_AT_ONCE)


_BY_AGE = Order("at")


def _duplicate_key(record: Record) -> str:
    return str(record.fields.get(DUPLICATE_FIELD, ""))


def _age(record: Record) -> tuple[float, str]:
    """Return the sort key by age: oldest first, posts without a time last, as the engine orders them."""
    at = record.fields.get("at")
    return (at if isinstance(at, int | float) else math.inf), record.key


async def _oldest_of_groups(
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
            placed = await _oldest_ranked(posts, source, own, groups[group][0], oldest[group])
        oldest[group] = placed
    return list(oldest.values())


async def _oldest_ranked(
    posts: JoinedRecords, source: PostRanking, own: Filter, best: RankedPost, youngest: RankedPost
) -> RankedPost:
    """Return the oldest duplicate that can be ranked. Tries them from the oldest to the known one."""
    where, after = And((Equal(DUPLICATE_FIELD, _duplicate_key(best.record)), own)), None
    while True:
        page = await posts.select(where, order=(_BY_AGE,), after=after, limit=MOST_AT_ONCE)
        records = [each.record for each in page.records]
        older = [record for record in records if _age(record) < _age(youngest.record)]
        for placed in await source.placed(posts, older, [best] * len(older)):
            if placed is not None:
                return placed
        after = page.after
        if after is None or len(older) < len(records):
            return youngest


class NewestPosts:
    """Matching posts, newest first, those without a time last. All have the same score."""

    def __init__(self, where: Filter) -> None:
        self._where = where

    @property
    def long(self) -> bool:
        """Return whether a request takes more than some milliseconds."""
        return demanding(None, self._where)

    def first(self, limit: int) -> None:
        """Return None: no vectors are compared."""

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        """Return the best posts that do not match ``without``."""
        page = await posts.select(
            _excluding(without, self._where), order=(Order("at", descending=True),), limit=limit
        )
        return PostCandidates([_dated_post(each.record) for each in page.records], page.after is not None)

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        """Return these posts with their places."""
        return [_dated_post(record) for record in records]


def _excluding(without: Filter, where: Filter) -> Filter:
    return where if without == NOTHING else And((where, Not(without)))


def _dated_post(record: Record) -> RankedPost:
    at = record.fields.get("at")
    return RankedPost((0.0, -at if isinstance(at, int | float) else math.inf, record.key), 1.0, record)


class NearestPosts:
    """Matching posts, the most similar first."""

    def __init__(self, query: VectorQuery, where: Filter) -> None:
        self._query, self._where = query, where

    @property
    def long(self) -> bool:
        """Return whether a request takes more than some milliseconds."""
        return demanding(self._query, self._where)

    def first(self, limit: int) -> NearestRequest:
        """Return the request for the nearest records."""
        return NearestRequest(self._query, self._where, limit)

    async def best(self, posts: JoinedRecords, without: Filter, limit: int) -> PostCandidates:
        """Return the best posts that do not match ``without``."""
        hits = (await posts.nearest(self._query, _excluding(without, self._where), limit)).hits
        records = await posts.get([hit.key for hit in hits])
        ranked = [
            _scored_post(hit.score, record)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]
        return PostCandidates(ranked, len(hits) == limit)

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        """Return these posts with their places."""
        scores = await posts.similarities(self._query, [record.key for record in records])
        return [
            None if score is None else _scored_post(score, record)
            for score, record in zip(scores, records, strict=True)
        ]


def _scored_post(score: float, record: Record) -> RankedPost:
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
        """Return the best posts that do not match ``without``."""
        where = _excluding(without, self._where)
        query = self._query
        ranking = await hybrid(
            self._collection,
            query.words,
            query.vectors,
            where,
            limit,
            usual=query.usual,
            ahead=query.ahead,
        )
        hits: Sequence[Hit] = ranking.hits
        records = await posts.get([hit.key for hit in hits])
        # Hits of a second round are not reranked: they come after the first ones.
        if self._reranks and not self._round:
            by_key = {record.key: record for record in records if record is not None}
            texts = {key: record.texts.get("content", "") for key, record in by_key.items()}
            question = sense(self._query.words) if self._query.words else ""
            order = await judged(self._models, question, hits, texts)
            hits, records = order, [by_key.get(hit.key) for hit in order]
        ranked: list[RankedPost] = []
        for rank, (hit, record) in enumerate(zip(hits, records, strict=True)):
            if record is not None:
                self._least = min(self._least, hit.score)
                place = (self._round, rank, record.key)
                ranked.append(RankedPost(place, self._least, record, hit.cosine, hit.bm25, hit.parts))
        self._round += 1
        return PostCandidates(ranked, len(hits) == limit)

    async def placed(
        self, posts: JoinedRecords, records: Sequence[Record], best: Sequence[RankedPost]
    ) -> list[RankedPost | None]:
        """Return these posts with their places."""
        return [each._replace(record=record) for record, each in zip(records, best, strict=True)]


JoinedRanking = NewestPosts | NearestPosts
"""Rankings that can be joined into one request for records."""

PostRanking = JoinedRanking | HybridPosts
"""Rankings of posts.

``best`` returns the best posts that do not match ``without``; its ``limit`` is at most 1,000. ``placed``
returns other posts with their places, None for a post that cannot be ranked; its ``best`` are the best-ranked
duplicates of the posts.
"""

_MOST = 0.5  # share of posts with a vector from which on vectors alone rank, whatever the query
_LEAST_PASTED = 20  # characters of a pasted text: what is shorter, such as C++, is a query as before
_WIDER = 5  # times as many posts, of which diverse ones are chosen

Pair = tuple[int, float]
"""A post's number and its score."""

Block = TypeVar("Block", Ranks, ListedKeys)


PostAnswer = SearchAnswer[Post]


class PostStream(Struct, frozen=True):
    """A ranking of all posts: pairs as they come, and how many there will be."""

    total: int
    pairs: AsyncIterator[list[Pair]]


Missing = Callable[[Collection, Sequence[str]], Awaitable[Incomplete | None]]
"""Returns how much of these spaces is embedded; None if all of it is."""


async def nothing_missing(collection: Collection, spaces: Sequence[str]) -> None:
    """Report that every post has a vector."""


class PostSearch:
    """The posts of one archive as a search source. Requests are checked here."""

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        statistics: Statistics,
        zone: Callable[[], tzinfo],
        missing: Missing = nothing_missing,
    ) -> None:
        self._collection, self._models, self._statistics, self._zone = collection, models, statistics, zone
        self._missing = missing

    async def search(self, caller: Caller, request: SearchRequest) -> PostAnswer:
        """Return the best posts by keywords and vectors. A bar in the query has no special meaning."""
        if not request.query.strip():
            return SearchAnswer()
        options = PostSearchOptions("hybrid", keywords=request.keywords, exact=request.exact)
        text = escaped_meaning(request.query)
        return await self.similar(await self._collection(), text, options, request.limit)

    def card(self, item: Post) -> HitCard:
        """Return a post as a search over everything shows it."""
        key = str(item.post_id)
        title = " ".join(filter(None, (f"@{item.user}" if item.user else "", item.timestamp)))
        return HitCard(key, title or key, item.content, Reference("get_post", {"post_id": key}))

    async def similar(
        self,
        collection: Collection,
        text: str,
        options: PostSearchOptions,
        top_k: int,
        diversity: float = 0.0,
    ) -> PostAnswer:
        """Return the posts nearest to ``V|T``, without duplicates. Raises BadArguments and ModelError.

        ``diversity`` in 0..1 is how much a post must differ from the posts before it. It needs a V: posts are
        then chosen one by one from five times as many.
        """
        query, remark_of_bar = _read_query(text)
        weights = checked_weights(options.mode, options.weights)
        chosen = await self.chosen(collection, options.conditions)
        chosen = _narrow_to_terms(chosen, query.terms, source_of(options.mode))
        spread = bool(diversity and query.meaning)
        most = min(top_k * _WIDER, MOST_AT_ONCE) if spread else top_k
        words = words_of(SearchRequest(query.meaning, 0, keywords=options.keywords))
        found: PostAnswer = SearchAnswer()
        for reading in await interpretations(collection, words, chosen.all, exact=options.exact):
            spelled = await respelled(collection, reading.words, chosen.all)
            source, warning = await self._choose_ranking(
                collection, options, weights, query.meaning, spelled, chosen.all
            )
            posts = await best_posts(collection, source, chosen.own, most)
            if spread:
                posts = await _diversify(collection, posts, top_k, diversity)
            remark = reading.remark if isinstance(source, HybridPosts) else None
            answer = _answer_of(posts, collection, joined(remark, warning))
            answer = replace(answer, terms=marked_terms(spelled))
            if answer.hits or reading.remark is None:
                found = answer
            if answer.hits:
                break
        return replace(found, warning=joined(remark_of_bar, found.warning))

    async def holding(
        self, collection: Collection, text: str, source: Source, conditions: PostConditions, limit: int
    ) -> PostAnswer:
        """Return the posts that contain the terms of T, newest first, without duplicates."""
        words = _check_terms(terms(encodable(text, "search_term")), "search_term")
        if not words:
            raise _empty_query_error("search_term")
        chosen = _narrow_to_terms(await self.chosen(collection, conditions), words, source)
        posts = await best_posts(collection, NewestPosts(chosen.all), chosen.own, limit)
        return _answer_of(posts, collection)

    async def all(self, collection: Collection, text: str, options: PostSearchOptions) -> PostStream:
        """Return every post that can be compared with V and contains T, in order, with duplicates.

        Without V: newest first, all with score 1.0. Mode hybrid ranks the best 1,000 only.
        """
        query, _ = _read_query(text)
        weights = checked_weights(options.mode, options.weights)
        chosen = await self.chosen(collection, options.conditions)
        where = _narrow_to_terms(chosen, query.terms, source_of(options.mode)).all
        if not query.meaning:
            blocks = collection.listing(Order("at", descending=True), where)
            return await _stream_of(blocks, lambda block: [(int(key), 1.0) for key in block.keys])
        if options.mode == "hybrid":
            words = await respelled(collection, typed(query.meaning), where)
            source, _ = await self._hybrid_ranking(collection, words, where)
            hits = (await source.best(collection, NOTHING, MOST_AT_ONCE)).hits
            return PostStream(len(hits), _single_block([(int(hit.record.key), hit.score) for hit in hits]))
        vectors = await self._query_vectors(collection, options.mode, weights, query.meaning)
        if isinstance(vectors, NoModel):
            raise _model_missing_error(options.mode, vectors.reason)
        return await _stream_of(
            collection.ranking(vectors, where),
            lambda block: list(zip(map(int, block.keys), block.similarities, strict=True)),
        )

    async def related(
        self, collection: Collection, post_id: int, options: PostSearchOptions, top_k: int
    ) -> PostAnswer:
        """Return the posts nearest to one, by its vectors; if it has none, by its words."""
        record = (await collection.get([str(post_id)]))[0]
        if record is None:
            raise BadArguments(say("post_id: there is no post {post_id}", post_id=post_id), "post_id")
        post = post_of(record)
        weights = checked_weights(options.mode, options.weights)
        others = Not(Equal(DUPLICATE_FIELD, duplicate_key(post)))
        chosen = (await self.chosen(collection, options.conditions)).narrowed(shared=others)
        vectors: dict[str, bytes] = {}
        for space in spaces_of(options.mode):
            if space in {each.name for each in collection.spaces}:
                vector = (await collection.vectors([record.key], space))[0]
                vectors |= {} if vector is None else {space: vector}
        source: HybridPosts | JoinedRanking
        missing = await self._missing(collection, spaces_of(options.mode))
        warning = missing.state if missing else None
        mixed = options.mode == "hybrid" or (options.mode_is_default and missing is not None)
        if len(vectors) == len(spaces_of(options.mode)) and not mixed:
            source = NearestPosts(vector_query(options.mode, weights, vectors), chosen.all)
        else:
            query = HybridQuery(LexicalQuery(post.content))
            if mixed and vectors:
                query = hybrid_query(
                    LexicalQuery(post.content), Meaning(VectorQuery(vectors), incomplete=missing)
                )
            if not vectors:
                warning = say(
                    "This post has no vectors for mode {mode}, so posts with the same keywords are listed.",
                    mode=options.mode,
                )
            source = HybridPosts(collection, self._models, query, chosen.all)
            warning = query.warning or warning
        return _answer_of(await best_posts(collection, source, chosen.own, top_k), collection, warning)

    async def having(
        self, collection: Collection, conditions: PostConditions, search_term: str | None
    ) -> Filter:
        """Return the filter of posts that fulfill the conditions, and contain the terms of T if it is given.

        Raises :class:`BadArguments`.
        """
        where = (await self.chosen(collection, conditions)).all
        words = _check_terms(terms(encodable(search_term or "", "search_term")), "search_term")
        return And((where, words.filter("content")))

    async def chosen(self, collection: Collection, conditions: PostConditions) -> PostFilters:
        """Return the filters of the conditions. Raises :class:`BadArguments`."""
        users = conditions.users
        wants_counts = users.threshold_min is not None or users.threshold_max is not None
        counts = (await self._statistics.census(collection)).counts if wants_counts else {}
        return PostFilters(
            shared=query.by_user(users, counts),
            own=And(
                (
                    query.by_date(conditions.dates, self._zone()),
                    query.by_tags(conditions.tags),
                    query.by_log_type(conditions.log_types),
                )
            ),
        )

    async def _choose_ranking(
        self,
        collection: Collection,
        options: PostSearchOptions,
        weights: tuple[float, ...] | None,
        meaning: str,
        words: LexicalQuery,
        where: Filter,
    ) -> tuple[HybridPosts | JoinedRanking, Message | None]:
        """Choose how posts are ranked, by vectors of ``meaning`` or by ``words``.

        A requested mode is used, with a warning if it misleads.

        Without a requested mode, vectors alone rank if all posts have one and the query is not pasted, and
        keywords if the model is missing. A model that cannot read the query is worth a warning, and changes
        no scores. ``words`` is the meaning as keywords, with other spellings.
        """
        if not meaning:
            return NewestPosts(where), None
        if options.keywords is not None:
            finished = options.keywords == "only"
            if not finished:
                words = words_of(SearchRequest(meaning, 0, keywords=options.keywords))
            return HybridPosts(collection, self._models, HybridQuery(words), where, reranks=finished), None
        if options.mode == "hybrid":
            return await self._hybrid_ranking(collection, words, where)
        meaning = words.spelled or meaning
        warning, fits = await self._doubt_vectors(collection, options.mode, meaning)
        # The names and messages of a pasted text are exact, and models know few of them.
        pasted = len(meaning) >= _LEAST_PASTED and is_pasted(meaning)
        if options.mode_is_default and (not fits or pasted):
            return await self._hybrid_ranking(collection, words, where)
        vectors = await self._query_vectors(collection, options.mode, weights, meaning)
        if isinstance(vectors, NoModel):
            if not options.mode_is_default:
                raise _model_missing_error(options.mode, vectors.reason)
            query = HybridQuery(words, warning=words_alone(vectors.reason).reason)
            return HybridPosts(collection, self._models, query, where), query.warning
        return NearestPosts(vectors, where), warning

    async def _doubt_vectors(
        self, collection: Collection, mode: Mode, meaning: str
    ) -> tuple[Message | None, bool]:
        """Return what speaks against ranking by these vectors alone, and whether they fit anyway."""
        spaces = {space.name: space.model for space in collection.spaces}
        names = spaces_of(mode)
        if not set(names) <= spaces.keys():
            return None, False
        unread = next((spaces[name] for name in names if not reads(spaces[name], meaning)), None)
        missing = await self._missing(collection, names)
        if unread is not None:
            warning = say(
                "{model} reads English only, so these posts may not fit. Mode hybrid also looks for "
                "keywords.",
                model=unread.partition("#")[0],
            )
            return warning, missing is None or missing.share >= _MOST
        return (None, True) if missing is None else (missing.state, False)

    async def _query_vectors(
        self, collection: Collection, mode: Mode, weights: tuple[float, ...] | None, meaning: str
    ) -> VectorQuery | NoModel:
        """Return the query as vectors, or why no model makes them. Raises BadArguments without vectors."""
        spaces = {space.name: space for space in collection.spaces}
        if not set(spaces_of(mode)) <= spaces.keys():
            raise BadArguments(
                say(
                    "mode: the archive has no vectors for {mode}. Available modes: {modes}. For "
                    "keywords only, use search_posts_by_text.",
                    mode=mode,
                    modes=", ".join(available(list(spaces))),
                ),
                "mode",
            )
        vectors: dict[str, bytes] = {}
        for name in spaces_of(mode):
            vector = await self._models.query(spaces[name].model, meaning)
            if not isinstance(vector, bytes):
                return vector
            vectors[name] = vector
        return vector_query(mode, weights, vectors)

    async def _hybrid_ranking(
        self, collection: Collection, words: LexicalQuery, where: Filter
    ) -> tuple[HybridPosts, Message | None]:
        """Rank by keywords and vectors. Without vectors or a model: by keywords alone, with a warning."""
        query = HybridQuery(words)
        if sense(words):
            embedded = self._query_meaning(collection, sense(words))
            query = await embedded_query(collection, words, where, embedded)
        return HybridPosts(collection, self._models, query, where), query.warning

    async def _query_meaning(self, collection: Collection, text: str) -> Meaning | NoModel:
        names = spaces_of("hybrid")
        spaces = {space.name: space.model for space in collection.spaces}
        missing = await self._missing(collection, names)
        if not set(names) <= spaces.keys():
            if missing or not await collection.count(EVERYTHING):
                return Meaning(None, incomplete=missing)
            return NoModel(say("Results match keywords only: there are no vectors yet."))
        meaning = await meaning_of(text, {name: spaces[name] for name in names}, self._models)
        return meaning if isinstance(meaning, NoModel) else meaning._replace(incomplete=missing)


async def _diversify(
    collection: Collection, wide: Sequence[RankedPost], top_k: int, diversity: float
) -> list[RankedPost]:
    """Return the best posts with different contents, by vectors; without vectors, the best posts."""
    if "content" not in {space.name for space in collection.spaces}:
        return list(wide[:top_k])
    by_key = {each.record.key: each for each in wide}
    ranked = [RankedRecord(key, 0, min(max(each.score, 0.0), 1.0)) for key, each in by_key.items()]
    return [by_key[hit.key] for hit in await diversified(collection, "content", ranked, top_k, 1 - diversity)]


def _read_query(text: str) -> tuple[PostQuery, Message | None]:
    """Return ``V|T`` as it is read, and what its answer says about that. Raises BadArguments."""
    text = encodable(text[:LONGEST_QUERY], "query")
    if bar_is_text(text):
        whole = PostQuery(shortened(text.strip()), PostTerms())
        return whole, say("The bar (|) in the query is read as text: no terms follow it.")
    query = parsed(text)
    query = structs.replace(query, meaning=shortened(query.meaning))
    _check_terms(query.terms, "query")
    if not query.meaning and not query.terms:
        raise _empty_query_error("query")
    return query, None


def _empty_query_error(parameter: str) -> BadArguments:
    return BadArguments(say("{parameter}: the search query is empty.", parameter=parameter), parameter)


def _check_terms(words: PostTerms, parameter: str) -> PostTerms:
    if any(len(term) > LONGEST_NEEDLE for term in (*words.includes, *words.excludes)):
        message = say(
            "{parameter}: a term has at most {most} {most:character|characters}",
            parameter=parameter,
            most=LONGEST_NEEDLE,
        )
        raise BadArguments(message, parameter)
    return words


def _narrow_to_terms(chosen: PostFilters, words: PostTerms, source: Source) -> PostFilters:
    """Add the terms to the filters.

    Duplicates have the same content, so a filter on the content is shared.
    """
    held = words.filter(source)
    return chosen.narrowed(shared=held) if source == "content" else chosen.narrowed(own=held)


def _answer_of(
    posts: Sequence[RankedPost], collection: Collection, warning: Message | None = None
) -> PostAnswer:
    hits = [SearchHit(post_of(each.record), each.score, each.cosine, each.bm25, each.parts) for each in posts]
    return SearchAnswer(hits, warning=joined(warning, collection.remark))


def _model_missing_error(mode: Mode, reason: Message) -> ModelMissing:
    return ModelMissing(
        say(
            "{reason} Mode {mode} needs a model. Without one, use mode hybrid or "
            "search_posts_by_text (keywords only).",
            reason=reason,
            mode=mode,
        )
    )


async def _stream_of(blocks: AsyncIterator[Block], pairs_of: Callable[[Block], list[Pair]]) -> PostStream:
    first = await anext(blocks, None)
    if first is None:
        return PostStream(0, _single_block([]))

    async def pairs() -> AsyncIterator[list[Pair]]:
        yield pairs_of(first)
        async for block in blocks:
            yield pairs_of(block)

    return PostStream(first.total, pairs())


async def _single_block(pairs: list[Pair]) -> AsyncIterator[list[Pair]]:
    yield pairs
