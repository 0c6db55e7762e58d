"""Searches of the post archive, from the typed query to the posts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import tzinfo

from msgspec import Struct, field

from tabane.errors import BadArguments, ModelMissing
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.posts import filtering
from tabane.posts.filtering import DateFilter, LogType, PostFilters, UserFilter
from tabane.posts.post import DUPLICATE_FIELD, Post, duplicate_key, post_of
from tabane.posts.query import (
    Mode,
    PostQuery,
    PostTerms,
    Source,
    available,
    checked_weights,
    escaped_meaning,
    parsed,
    source_of,
    spaces_of,
    terms,
    vector_query,
)
from tabane.posts.rankings import (
    HybridPosts,
    JoinedRanking,
    NearestPosts,
    NewestPosts,
    RankedPost,
    best_posts,
)
from tabane.posts.statistics import Statistics
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.engine import MOST_AT_ONCE, Collection, LexicalQuery, Order, VectorQuery
from tabane.search.filters import LONGEST_NEEDLE, NOTHING, And, Equal, Filter, Not
from tabane.search.hybrid import RankedRecord
from tabane.search.meaning import HybridQuery, Incomplete, Meaning, hybrid_query, meaning_of, words_alone
from tabane.search.models import Models
from tabane.search.pipeline import diversified, words_of
from tabane.search.queries import marked_terms, sense, typed
from tabane.search.records import encodable
from tabane.search.source import (
    HitCard,
    Keywords,
    Reference,
    SearchAnswer,
    SearchHit,
    SearchRequest,
    joined,
)

_MOST = 0.5  # share of posts with a vector from which on vectors alone rank, whatever the query
_WIDER = 5  # times as many posts, of which diverse ones are chosen

Pair = tuple[int, float]
"""A post's number and its score."""


class PostConditions(Struct, frozen=True):
    """Conditions on posts, as they were requested."""

    users: UserFilter = field(default_factory=UserFilter)
    dates: DateFilter = field(default_factory=DateFilter)
    tags: tuple[str, ...] = ()
    log_types: tuple[LogType, ...] = ()


class PostSearchOptions(Struct, frozen=True):
    """The requested ranking of posts: mode, weights, and filter.

    ``mode_is_default``: the caller did not choose the mode. Then keywords take part while some posts have
    no vector. With ``keywords``, the mode has no effect.
    """

    mode: Mode = "content"
    weights: tuple[float, ...] | None = None
    conditions: PostConditions = field(default_factory=PostConditions)
    mode_is_default: bool = False
    keywords: Keywords | None = None


PostAnswer = SearchAnswer[Post]


class PostStream(Struct, frozen=True):
    """A ranking of all posts: pairs as they come, and how many there will be."""

    total: int
    pairs: AsyncIterator[list[Pair]]


Missing = Callable[[Sequence[str]], Awaitable[Incomplete | None]]
"""Returns how much of these spaces is embedded; None if all of it is."""


async def nothing_missing(spaces: Sequence[str]) -> None:
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
        options = PostSearchOptions("hybrid", keywords=request.keywords)
        answer = await self.similar(escaped_meaning(request.query), options, request.limit)
        return replace(answer, terms=marked_terms(typed(request.query)))

    def card(self, item: Post) -> HitCard:
        key = str(item.post_id)
        title = " ".join(filter(None, (f"@{item.user}" if item.user else "", item.timestamp)))
        return HitCard(key, title or key, item.content, Reference("get_post", {"post_id": key}))

    async def similar(
        self, text: str, options: PostSearchOptions, top_k: int, diversity: float = 0.0
    ) -> PostAnswer:
        """Return the posts nearest to ``V|T``, without duplicates. Raises BadArguments and ModelError.

        ``diversity`` in 0..1 is how much a post must differ from the posts before it. It needs a V: posts are
        then chosen one by one from five times as many.
        """
        query = _asked(text)
        weights = checked_weights(options.mode, options.weights)
        collection = await self._collection()
        chosen = _holding(await self.chosen(options.conditions), query.terms, source_of(options.mode))
        source, warning = await self._source(collection, options, weights, query.meaning, chosen.all)
        if not (diversity and query.meaning):
            return _answer(await best_posts(collection, source, chosen.own, top_k), collection, warning)
        wide = await best_posts(collection, source, chosen.own, min(top_k * _WIDER, MOST_AT_ONCE))
        return _answer(await _diverse(collection, wide, top_k, diversity), collection, warning)

    async def holding(self, text: str, source: Source, conditions: PostConditions, limit: int) -> PostAnswer:
        """Return the posts that contain the terms of T, newest first, without duplicates."""
        wanted = _checked(terms(encodable(text, "search_term")), "search_term")
        if not wanted:
            raise _unasked("search_term")
        collection = await self._collection()
        chosen = _holding(await self.chosen(conditions), wanted, source)
        return _answer(await best_posts(collection, NewestPosts(chosen.all), chosen.own, limit), collection)

    async def all(self, text: str, options: PostSearchOptions) -> PostStream:
        """Return every post that can be compared with V and contains T, in order, with duplicates.

        Without V: newest first, all with score 1.0. Mode hybrid ranks the best 1,000 only.
        """
        query = _asked(text)
        weights = checked_weights(options.mode, options.weights)
        collection = await self._collection()
        where = _holding(await self.chosen(options.conditions), query.terms, source_of(options.mode)).all
        if not query.meaning:
            return await _newest(collection, where)
        if options.mode == "hybrid":
            source, _ = await self._both(collection, typed(query.meaning), where)
            hits = (await source.best(collection, NOTHING, MOST_AT_ONCE)).hits
            return PostStream(len(hits), _once([(int(hit.record.key), hit.score) for hit in hits]))
        asked = await self._question(collection, options.mode, weights, query.meaning)
        blocks = collection.ranking(asked, where)
        first = await anext(blocks, None)
        if first is None:
            return PostStream(0, _once([]))

        async def pairs() -> AsyncIterator[list[Pair]]:
            yield list(zip(map(int, first.keys), first.similarities, strict=True))
            async for block in blocks:
                yield list(zip(map(int, block.keys), block.similarities, strict=True))

        return PostStream(first.total, pairs())

    async def related(self, post_id: int, options: PostSearchOptions, top_k: int) -> PostAnswer:
        """Return the posts nearest to one, by its vectors; if it has none, by its words."""
        collection = await self._collection()
        record = (await collection.get([str(post_id)]))[0]
        if record is None:
            raise BadArguments(say("post_id: there is no post {post_id}", post_id=post_id), "post_id")
        post = post_of(record)
        weights = checked_weights(options.mode, options.weights)
        others = Not(Equal(DUPLICATE_FIELD, duplicate_key(post)))
        chosen = (await self.chosen(options.conditions)).narrowed(shared=others)
        vectors: dict[str, bytes] = {}
        for space in spaces_of(options.mode):
            if space in {each.name for each in collection.spaces}:
                vector = (await collection.vectors([record.key], space))[0]
                vectors |= {} if vector is None else {space: vector}
        source: HybridPosts | JoinedRanking
        missing = await self._missing(spaces_of(options.mode))
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
        return _answer(await best_posts(collection, source, chosen.own, top_k), collection, warning)

    async def having(self, conditions: PostConditions, search_term: str | None) -> Filter:
        """Return the filter of posts that fulfill the conditions, and contain the terms of T if it is given.

        Raises :class:`BadArguments`.
        """
        where = (await self.chosen(conditions)).all
        wanted = _checked(terms(encodable(search_term or "", "search_term")), "search_term")
        return And((where, wanted.filter("content")))

    async def chosen(self, conditions: PostConditions) -> PostFilters:
        """Return the filters of the conditions. Raises :class:`BadArguments`."""
        users = conditions.users
        wants_counts = users.threshold_min is not None or users.threshold_max is not None
        counts = (await self._statistics.census()).counts if wants_counts else {}
        return PostFilters(
            shared=filtering.by_user(users, counts),
            own=And(
                (
                    filtering.by_date(conditions.dates, self._zone()),
                    filtering.by_tags(conditions.tags),
                    filtering.by_log_type(conditions.log_types),
                )
            ),
        )

    async def _source(
        self,
        collection: Collection,
        options: PostSearchOptions,
        weights: tuple[float, ...] | None,
        meaning: str,
        where: Filter,
    ) -> tuple[HybridPosts | JoinedRanking, Message | None]:
        """Choose how posts are ranked. A requested mode is used, with a warning if it misleads.

        Without a requested mode, vectors alone rank if all posts have one, and keywords if the model is
        missing. A model that cannot read the query is worth a warning, and changes no scores.
        """
        if not meaning:
            return NewestPosts(where), None
        if options.keywords is not None:
            words = words_of(SearchRequest(meaning, 0, keywords=options.keywords))
            finished = options.keywords == "only"
            return HybridPosts(collection, self._models, HybridQuery(words), where, reranks=finished), None
        if options.mode == "hybrid":
            return await self._both(collection, typed(meaning), where)
        warning, fits = await self._doubt(collection, options.mode, meaning)
        if options.mode_is_default and not fits:
            return await self._both(collection, typed(meaning), where)
        asked = await self._vectors(collection, options.mode, weights, meaning)
        if isinstance(asked, NoModel):
            if not options.mode_is_default:
                raise _modelless(options.mode, asked.reason)
            query = HybridQuery(typed(meaning), warning=words_alone(asked.reason).reason)
            return HybridPosts(collection, self._models, query, where), query.warning
        return NearestPosts(asked, where), warning

    async def _doubt(self, collection: Collection, mode: Mode, meaning: str) -> tuple[Message | None, bool]:
        """Return what speaks against ranking by these vectors alone, and whether they fit anyway."""
        spaces = {space.name: space.model for space in collection.spaces}
        wanted = spaces_of(mode)
        if not set(wanted) <= spaces.keys():
            return None, False
        unread = next((spaces[name] for name in wanted if not reads(spaces[name], meaning)), None)
        missing = await self._missing(wanted)
        if unread is not None:
            return _weak(unread), missing is None or missing.share >= _MOST
        return (None, True) if missing is None else (missing.state, False)

    async def _question(
        self, collection: Collection, mode: Mode, weights: tuple[float, ...] | None, meaning: str
    ) -> VectorQuery:
        found = await self._vectors(collection, mode, weights, meaning)
        if isinstance(found, NoModel):
            raise _modelless(mode, found.reason)
        return found

    async def _vectors(
        self, collection: Collection, mode: Mode, weights: tuple[float, ...] | None, meaning: str
    ) -> VectorQuery | NoModel:
        """Return the query as vectors, or why no model makes them. Raises BadArguments without vectors."""
        spaces = {space.name: space for space in collection.spaces}
        if not set(spaces_of(mode)) <= spaces.keys():
            raise _unavailable(mode, list(spaces))
        vectors: dict[str, bytes] = {}
        for name in spaces_of(mode):
            vector = await self._models.query(spaces[name].model, meaning)
            if not isinstance(vector, bytes):
                return vector
            vectors[name] = vector
        return vector_query(mode, weights, vectors)

    async def _both(
        self, collection: Collection, words: LexicalQuery, where: Filter
    ) -> tuple[HybridPosts, Message | None]:
        """Rank by keywords and vectors. Without vectors or a model: by keywords alone, with a warning."""
        query = HybridQuery(words)
        if sense(words):
            query = hybrid_query(words, await self._meaning(collection, sense(words)))
        return HybridPosts(collection, self._models, query, where), query.warning

    async def _meaning(self, collection: Collection, text: str) -> Meaning | NoModel:
        wanted = spaces_of("hybrid")
        spaces = {space.name: space.model for space in collection.spaces}
        missing = await self._missing(wanted)
        if not set(wanted) <= spaces.keys():
            return Meaning(None, incomplete=missing) if missing else _no_vectors()
        found = await meaning_of(text, {name: spaces[name] for name in wanted}, self._models)
        return found if isinstance(found, NoModel) else found._replace(incomplete=missing)


def _weak(model: str) -> Message:
    return say(
        "{model} reads English only, so these posts may not fit. Mode hybrid also looks for keywords.",
        model=model.partition("#")[0],
    )


def _no_vectors() -> NoModel:
    return NoModel(say("Results match keywords only: there are no vectors yet."))


async def _diverse(
    collection: Collection, wide: Sequence[RankedPost], top_k: int, diversity: float
) -> list[RankedPost]:
    """Return the best posts with different contents, by vectors; without vectors, the best posts."""
    if "content" not in {space.name for space in collection.spaces}:
        return list(wide[:top_k])
    by_key = {each.record.key: each for each in wide}
    ranked = [RankedRecord(key, 0, min(max(each.score, 0.0), 1.0)) for key, each in by_key.items()]
    return [by_key[hit.key] for hit in await diversified(collection, "content", ranked, top_k, 1 - diversity)]


def _asked(text: str) -> PostQuery:
    query = parsed(encodable(text, "query"))
    _checked(query.terms, "query")
    if not query.meaning and not query.terms:
        raise _unasked("query")
    return query


def _unasked(parameter: str) -> BadArguments:
    return BadArguments(say("{parameter}: the search query is empty.", parameter=parameter), parameter)


def _checked(wanted: PostTerms, parameter: str) -> PostTerms:
    if any(len(term) > LONGEST_NEEDLE for term in (*wanted.includes, *wanted.excludes)):
        message = say(
            "{parameter}: a term has at most {most} {most:character|characters}",
            parameter=parameter,
            most=LONGEST_NEEDLE,
        )
        raise BadArguments(message, parameter)
    return wanted


def _holding(chosen: PostFilters, wanted: PostTerms, source: Source) -> PostFilters:
    """Add the terms to the filters.

    Duplicates have the same content, so a filter on the content is shared.
    """
    held = wanted.filter(source)
    return chosen.narrowed(shared=held) if source == "content" else chosen.narrowed(own=held)


def _answer(
    found: Sequence[RankedPost], collection: Collection, warning: Message | None = None
) -> PostAnswer:
    hits = [SearchHit(post_of(each.record), each.score, each.cosine, each.bm25, each.parts) for each in found]
    return SearchAnswer(hits, warning=joined(warning, collection.remark))


def _unavailable(mode: Mode, spaces: Sequence[str]) -> BadArguments:
    return BadArguments(
        say(
            "mode: the archive has no vectors for {mode}. Available modes: {modes}. For "
            "keywords only, use search_posts_by_text.",
            mode=mode,
            modes=", ".join(available(spaces)),
        ),
        "mode",
    )


def _modelless(mode: Mode, reason: Message) -> ModelMissing:
    return ModelMissing(
        say(
            "{reason} Mode {mode} needs a model. Without one, use mode hybrid or "
            "search_posts_by_text (keywords only).",
            reason=reason,
            mode=mode,
        )
    )


async def _newest(collection: Collection, where: Filter) -> PostStream:
    blocks = collection.listing(Order("at", descending=True), where)
    first = await anext(blocks, None)
    if first is None:
        return PostStream(0, _once([]))

    async def pairs() -> AsyncIterator[list[Pair]]:
        yield [(int(key), 1.0) for key in first.keys]
        async for block in blocks:
            yield [(int(key), 1.0) for key in block.keys]

    return PostStream(first.total, pairs())


async def _once(pairs: list[Pair]) -> AsyncIterator[list[Pair]]:
    yield pairs
