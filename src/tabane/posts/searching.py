"""A question to the archive, from what was typed to the posts that answer it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import NamedTuple

from tabane.errors import BadArguments, ModelMissing
from tabane.messages import Message, say
from tabane.posts import filtering, modes
from tabane.posts.filtering import Chosen, DateFilter, LogType, UserFilter
from tabane.posts.folding import Ranked, Source, folded
from tabane.posts.modes import Mode
from tabane.posts.post import Post, post_of, twin
from tabane.posts.query import Query, Terms, parsed, terms
from tabane.posts.rankings import Both, Nearest, Newest
from tabane.posts.statistics import Statistics
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.engine import MOST_AT_ONCE, Collection, LexicalQuery, Order, VectorQuery
from tabane.search.filters import EVERYTHING, LONGEST_NEEDLE, And, Equal, Filter, Not
from tabane.search.hybrid import Found
from tabane.search.meaning import Incomplete, Meaning, Near, english_only, meaning_of, near
from tabane.search.models import Models
from tabane.search.queries import sense, typed
from tabane.search.records import encodable
from tabane.search.reordering import diversified

_WIDER = 5  # times as many posts, of which diverse ones are chosen

Pair = tuple[int, float]
"""A post's number and its score."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which posts are meant, as it was asked for."""

    users: UserFilter = field(default_factory=UserFilter)
    dates: DateFilter = field(default_factory=DateFilter)
    tags: tuple[str, ...] = ()
    log_types: tuple[LogType, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested ranking of posts: mode, weights, and filter.

    ``usual``: the caller did not choose the mode. Then keywords take part while some posts have no vector.
    """

    mode: Mode = "content"
    weights: tuple[float, ...] | None = None
    limits: Limits = field(default_factory=Limits)
    usual: bool = False


class Scored(NamedTuple):
    """A post that was found; ``cosine`` is there where the score is one of fused ranks."""

    score: float
    post: Post
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Posts, best first; ``warning`` says why they are not all that could be found."""

    hits: tuple[Scored, ...] = ()
    warning: Message | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """All that was found, in order: pairs as they come, and how many there will be."""

    total: int
    pairs: AsyncIterator[list[Pair]]


Missing = Callable[[Sequence[str]], Awaitable[Incomplete | None]]
"""Returns how much of these spaces is embedded; None if all of it is."""


async def whole(spaces: Sequence[str]) -> None:
    """Report that every post has a vector."""


class Searching:
    """The posts of one archive, found. All that is asked is checked here."""

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        statistics: Statistics,
        zone: Callable[[], tzinfo],
        missing: Missing = whole,
    ) -> None:
        self._collection, self._models, self._statistics, self._zone = collection, models, statistics, zone
        self._missing = missing

    async def similar(self, text: str, wish: Wish, top_k: int, diversity: float = 0.0) -> Answer:
        """The posts nearest to ``V|T``, twins folded. Raises BadArguments, and ModelError without a model.

        ``diversity`` in 0..1 is how much a post has to differ from those before it, where V has a meaning:
        they are chosen one after the other from a few times as many.
        """
        query = _asked(text)
        weights = modes.checked_weights(wish.mode, wish.weights)
        collection = await self._collection()
        chosen = _holding(await self.chosen(wish.limits), query.terms, modes.source_of(wish.mode))
        source, warning = await self._source(collection, wish, weights, query.meaning, chosen.all)
        if not (diversity and query.meaning):
            return Answer(_posts(await folded(collection, source, chosen.own, top_k)), warning)
        wide = await folded(collection, source, chosen.own, min(top_k * _WIDER, MOST_AT_ONCE))
        return Answer(_posts(await _diverse(collection, wide, top_k, diversity)), warning)

    async def holding(self, text: str, source: modes.Source, limits: Limits, limit: int) -> Answer:
        """The posts that hold the terms of T, newest first, twins folded."""
        wanted = _checked(terms(encodable(text, "search_term")), "search_term")
        if not wanted:
            raise _unasked("search_term")
        collection = await self._collection()
        chosen = _holding(await self.chosen(limits), wanted, source)
        return Answer(_posts(await folded(collection, Newest(collection, chosen.all), chosen.own, limit)))

    async def all(self, text: str, wish: Wish) -> Whole:
        """Every post that can be compared with V and holds T, in order; twins are not folded.

        Without V newest first, all with 1.0. Words and meaning together rank the best 1,000.
        """
        query = _asked(text)
        weights = modes.checked_weights(wish.mode, wish.weights)
        collection = await self._collection()
        where = _holding(await self.chosen(wish.limits), query.terms, modes.source_of(wish.mode)).all
        if not query.meaning:
            return await _newest(collection, where)
        if wish.mode == "hybrid":
            source, _ = await self._both(collection, typed(query.meaning), where)
            hits = (await source.best(Not(EVERYTHING), MOST_AT_ONCE)).hits
            return Whole(len(hits), _once([(int(hit.record.key), hit.score) for hit in hits]))
        asked = await self._question(collection, wish.mode, weights, query.meaning)
        blocks = collection.ranking(asked, where)
        first = await anext(blocks, None)
        if first is None:
            return Whole(0, _once([]))

        async def pairs() -> AsyncIterator[list[Pair]]:
            yield list(zip(map(int, first.keys), first.similarities, strict=True))
            async for block in blocks:
                yield list(zip(map(int, block.keys), block.similarities, strict=True))

        return Whole(first.total, pairs())

    async def related(self, post_id: int, wish: Wish, top_k: int) -> Answer:
        """The posts nearest to one, by the vectors it has; by its words where it has none."""
        collection = await self._collection()
        record = (await collection.get([str(post_id)]))[0]
        if record is None:
            raise BadArguments(say("post_id: there is no post {post_id}", post_id=post_id), "post_id")
        post = post_of(record)
        weights = modes.checked_weights(wish.mode, wish.weights)
        others = Not(Equal("twin", twin(post)))
        chosen = (await self.chosen(wish.limits)).narrowed(shared=others)
        vectors: dict[str, bytes] = {}
        for space in modes.spaces_of(wish.mode):
            if space in {each.name for each in collection.spaces}:
                vector = (await collection.vectors([record.key], space))[0]
                vectors |= {} if vector is None else {space: vector}
        source: Source
        missing = await self._missing(modes.spaces_of(wish.mode))
        warning = missing.state if missing else None
        mixed = wish.mode == "hybrid" or (wish.usual and missing is not None)
        if len(vectors) == len(modes.spaces_of(wish.mode)) and not mixed:
            source = Nearest(collection, modes.vector_query(wish.mode, weights, vectors), chosen.all)
        else:
            means = near(Meaning(VectorQuery(vectors), incomplete=missing)) if mixed and vectors else Near()
            if not vectors:
                warning = say(
                    "This post has no vectors for mode {mode}: posts with the same words are listed.",
                    mode=wish.mode,
                )
            source = Both(collection, self._models, LexicalQuery(post.content), means, chosen.all)
            warning = means.warning or warning
        return Answer(_posts(await folded(collection, source, chosen.own, top_k)), warning)

    async def chosen(self, limits: Limits) -> Chosen:
        """The filter of what is meant. Raises :class:`BadArguments`."""
        users = limits.users
        wants_counts = users.threshold_min is not None or users.threshold_max is not None
        counts = (await self._statistics.census()).counts if wants_counts else {}
        return Chosen(
            shared=filtering.by_user(users, counts),
            own=And(
                (
                    filtering.by_date(limits.dates, self._zone()),
                    filtering.by_tags(limits.tags),
                    filtering.by_log_type(limits.log_types),
                )
            ),
        )

    async def _source(
        self,
        collection: Collection,
        wish: Wish,
        weights: tuple[float, ...] | None,
        meaning: str,
        where: Filter,
    ) -> tuple[Source, Message | None]:
        """Choose how posts are ranked. A requested mode is used, with a warning if it misleads.

        Without a requested mode, vectors alone rank only if all posts have one, by a model that reads the
        query.
        """
        if not meaning:
            return Newest(collection, where), None
        if wish.mode == "hybrid":
            return await self._both(collection, typed(meaning), where)
        warning, fits = await self._doubt(collection, wish.mode, meaning)
        if wish.usual and not fits:
            return await self._both(collection, typed(meaning), where)
        asked = await self._question(collection, wish.mode, weights, meaning)
        return Nearest(collection, asked, where), warning

    async def _doubt(self, collection: Collection, mode: Mode, meaning: str) -> tuple[Message | None, bool]:
        """Return what speaks against ranking by these vectors alone, and whether they fit anyway."""
        spaces = {space.name: space.model for space in collection.spaces}
        wanted = modes.spaces_of(mode)
        if not set(wanted) <= spaces.keys():
            return None, False
        unread = next((spaces[name] for name in wanted if not reads(spaces[name], meaning)), None)
        if unread is not None:
            return english_only(unread), False
        missing = await self._missing(wanted)
        return (None, True) if missing is None else (missing.state, False)

    async def _question(
        self, collection: Collection, mode: Mode, weights: tuple[float, ...] | None, meaning: str
    ) -> VectorQuery:
        spaces = {space.name: space for space in collection.spaces}
        if not set(modes.spaces_of(mode)) <= spaces.keys():
            raise _unavailable(mode, list(spaces))
        vectors: dict[str, bytes] = {}
        for name in modes.spaces_of(mode):
            vector = await self._models.query(spaces[name].model, meaning)
            if not isinstance(vector, bytes):
                raise _modelless(mode, vector.reason)
            vectors[name] = vector
        return modes.vector_query(mode, weights, vectors)

    async def _both(
        self, collection: Collection, words: LexicalQuery, where: Filter
    ) -> tuple[Both, Message | None]:
        """By words and meaning; by words alone, with a warning, where there is no meaning to be had."""
        if not sense(words):
            return Both(collection, self._models, words, Near(), where), None
        wanted = modes.spaces_of("hybrid")
        spaces = {space.name: space.model for space in collection.spaces}
        missing = await self._missing(wanted)
        found: Meaning | NoModel
        if set(wanted) <= spaces.keys():
            asked = await meaning_of(sense(words), {name: spaces[name] for name in wanted}, self._models)
            found = asked if isinstance(asked, NoModel) else asked._replace(incomplete=missing)
        else:
            found = Meaning(None, incomplete=missing) if missing else _no_vectors()
        means = near(found)
        return Both(collection, self._models, words, means, where), means.warning


def _no_vectors() -> NoModel:
    return NoModel(say("Found by words alone: there are no vectors yet."))


async def _diverse(
    collection: Collection, wide: Sequence[Ranked], top_k: int, diversity: float
) -> list[Ranked]:
    """The best that say different things, by what their contents mean; as they are without vectors."""
    if "content" not in {space.name for space in collection.spaces}:
        return list(wide[:top_k])
    by_key = {each.record.key: each for each in wide}
    ranked = [Found(key, 0, min(max(each.score, 0.0), 1.0)) for key, each in by_key.items()]
    return [by_key[hit.key] for hit in await diversified(collection, "content", ranked, top_k, 1 - diversity)]


def _asked(text: str) -> Query:
    query = parsed(encodable(text, "query"))
    _checked(query.terms, "query")
    if not query.meaning and not query.terms:
        raise _unasked("query")
    return query


def _unasked(parameter: str) -> BadArguments:
    return BadArguments(say("{parameter}: no search query is given.", parameter=parameter), parameter)


def _checked(wanted: Terms, parameter: str) -> Terms:
    if any(len(term) > LONGEST_NEEDLE for term in (*wanted.includes, *wanted.excludes)):
        message = say(
            "{parameter}: a term has at most {most} characters", parameter=parameter, most=LONGEST_NEEDLE
        )
        raise BadArguments(message, parameter)
    return wanted


def _holding(chosen: Chosen, wanted: Terms, source: modes.Source) -> Chosen:
    """Twins have the same content, and so hold the same there."""
    held = wanted.filter(source)
    return chosen.narrowed(shared=held) if source == "content" else chosen.narrowed(own=held)


def _posts(found: Sequence[Ranked]) -> tuple[Scored, ...]:
    return tuple(Scored(each.score, post_of(each.record), each.cosine) for each in found)


def _unavailable(mode: Mode, spaces: Sequence[str]) -> BadArguments:
    return BadArguments(
        say(
            "mode: the archive has no vectors for {mode}. Modes available: {modes}; search_posts_by_text "
            "finds by text alone.",
            mode=mode,
            modes=", ".join(modes.available(spaces)),
        ),
        "mode",
    )


def _modelless(mode: Mode, reason: Message) -> ModelMissing:
    return ModelMissing(
        say(
            "{reason} Mode {mode} needs a model; mode hybrid and search_posts_by_text find by words without.",
            reason=reason,
            mode=mode,
        )
    )


async def _newest(collection: Collection, where: Filter) -> Whole:
    blocks = collection.listing(Order("at", descending=True), where)
    first = await anext(blocks, None)
    if first is None:
        return Whole(0, _once([]))

    async def pairs() -> AsyncIterator[list[Pair]]:
        yield [(int(key), 1.0) for key in first.keys]
        async for block in blocks:
            yield [(int(key), 1.0) for key in block.keys]

    return Whole(first.total, pairs())


async def _once(pairs: list[Pair]) -> AsyncIterator[list[Pair]]:
    yield pairs
