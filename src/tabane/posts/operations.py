"""The operations on posts: their table, their handlers, and their streams."""

from __future__ import annotations

import asyncio
import base64
import io
import struct
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple

from tabane.errors import BadArguments, ModelMissing
from tabane.messages import say
from tabane.operations import Caller, NoParameters, StreamPart
from tabane.posts import table as given
from tabane.posts.post import DUPLICATE_FIELD, Post, comparable_user, duplicate_key, post_of
from tabane.posts.query import LOG_TYPES, UserFilter, by_user, parsed, terms
from tabane.posts.searching import Missing, Pair, PostAnswer, PostSearch, PostStream, nothing_missing
from tabane.posts.statistics import Census, PostAuthor, Statistics, TagCount, suggested, timeline
from tabane.posts.table import PostRows, Row, post_row
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import Collection, Order
from tabane.search.records import And, Equal, Filter, Not, encodable
from tabane.search.snippets import marks
from tabane.search.source import Models, explained
from tabane.wire import json
from tabane.wire.cursors import CursorCodec

_NEWEST_FIRST = (Order("at", descending=True),)
_TOP_K = 10


class CountedPlace(NamedTuple):
    """The last entry of a page of users or tags."""

    posts: int
    name: str


_PLACES = CursorCodec("post_counts", CountedPlace)


def _page_row(post: Post) -> Row:
    return post_row(post) | {"at": post.at}


def _counted_page(
    entries: Sequence[PostAuthor | TagCount],
    prefix: str,
    params: given.ListCounted,
    member: str,
    comparable: Callable[[str], str],
) -> Row:
    """Return a page of the entries whose names begin with the prefix. Takes 0.1 s for 200,000 names."""
    fits = [each for each in entries if comparable(each.name).startswith(prefix)] if prefix else entries
    begin = 0
    if params.cursor is not None:
        try:
            after = _PLACES.decode(params.cursor)
        except ValueError:
            message = say("the cursor does not belong to this selection and order. Start again without it")
            raise BadArguments(message, "cursor") from None
        begin = bisect_right(fits, (-after.posts, after.name), key=lambda each: (-each.posts, each.name))
    page = fits[begin : begin + params.limit]
    more = begin + params.limit < len(fits)
    return {
        "results": [{member: each.name, "post_count": each.posts} for each in page],
        "total": len(fits),
        "next_cursor": _PLACES.encode(CountedPlace(page[-1].posts, page[-1].name)) if more else None,
    }


SERVER_TYPE = "TwilogServer"
"""The name of this server in get_status: clients of the original twilog server accept no other name."""

_LIMIT = 50
_CONTENT = "content"


class Archive:
    """The posts of one collection. ``zone`` is the time zone of timestamps without one, as it is set now.

    ``ready`` says whether the archive answers already; ``collection`` opens it if needed; ``missing``
    returns how much of it is embedded.
    """

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        zone: Callable[[], tzinfo],
        *,
        ready: Callable[[], bool] | None = None,
        missing: Missing = nothing_missing,
    ) -> None:
        self._collection, self._models, self._zone, self._ready = collection, models, zone, ready
        self.statistics = Statistics()
        self.searching = PostSearch(collection, models, self.statistics, zone, missing)

    # Searching

    async def search_similar(self, caller: Caller, params: given.SearchSimilar) -> PostRows:
        """Return the posts nearest to a query."""
        settings = params.merged()
        answer = await self.searching.similar(
            await self._collection(),
            params.query,
            settings.options(),
            settings.top_k or _TOP_K,
            settings.diversity or 0.0,
        )
        return _ranked_rows(answer, params.query)

    async def search_posts_by_text(self, caller: Caller, params: given.SearchText) -> PostRows:
        """Return the posts that contain words, newest first."""
        answer = await self.searching.holding(
            await self._collection(),
            params.search_term,
            params.source or "content",
            params.conditions(),
            params.limit or _LIMIT,
        )
        return PostRows([post_row(hit.item) for hit in answer.hits], params.search_term, answer.warning)

    async def get_related_posts(self, caller: Caller, params: given.RelatedPosts) -> PostRows:
        """Return the posts nearest to a post."""
        post_id = int(params.post_id)
        answer = await self.searching.related(
            await self._collection(), post_id, params.options(), params.top_k or _TOP_K
        )
        return _ranked_rows(answer, str(post_id))

    async def vector_search(self, caller: Caller, params: given.VectorSearch) -> AsyncIterator[StreamPart]:
        """Pairs of post and score, best first, 20,000 at a time; ``start_rank`` is the first one's rank."""
        ranking = await self.searching.all(await self._collection(), params.query, params.options())
        async for part in ranking_parts(ranking, params.top_k):
            yield part

    # As a program shows posts to a person

    async def find_posts(self, caller: Caller, params: given.FindPosts) -> Row:
        """Return the best posts, each with the spans to mark in its content and the parts of its score."""
        answer = await self.searching.similar(
            await self._collection(),
            params.query,
            params.options(),
            params.top_k or _TOP_K,
            params.diversity or 0.0,
        )
        query, unfinished = parsed(params.query), params.keywords == "typing"
        results = []
        for rank, hit in enumerate(answer.hits, 1):
            spans = marks(hit.item.content, answer.terms, query.terms.includes, unfinished=unfinished)
            row: Row = {"rank": rank, "score": hit.score, "post": _page_row(hit.item), "marks": spans}
            results.append(row | {"why": explained(hit)})
        page: Row = {"results": results}
        if answer.warning is not None:
            page["warning"] = answer.warning.render(caller.lang)
        return page

    async def list_posts(self, caller: Caller, params: given.ListPosts) -> Row:
        """Return posts newest first, those without a time last, and how many match (first page only)."""
        collection = await self._collection()
        where = await self.searching.having(collection, params.conditions(), params.search_term)
        if params.duplicates_of is not None:
            post_id = int(params.duplicates_of)
            (record,) = await collection.get([str(post_id)])
            if record is None:
                raise BadArguments(
                    say("post_id: there is no post {post_id}", post_id=post_id), "duplicates_of"
                )
            where = And((where, Equal(DUPLICATE_FIELD, duplicate_key(post_of(record)))))
        page = await collection.select(where, order=_NEWEST_FIRST, after=params.cursor, limit=params.limit)
        words = terms(params.search_term or "").includes
        results = []
        for stored in page.records:
            post = post_of(stored.record)
            results.append(
                {"post": _page_row(post), "marks": marks(post.content, (), words) if words else ()}
            )
        answer: Row = {"results": results, "next_cursor": page.after}
        return answer if params.cursor else answer | {"total": await collection.count(where)}

    async def list_post_users(self, caller: Caller, params: given.ListCounted) -> Row:
        """Return users with their numbers of posts, most posts first."""
        users = (await self.statistics.census(await self._collection())).users
        prefix = comparable_user(params.prefix or "")
        return await asyncio.to_thread(_counted_page, users, prefix, params, "user", comparable_user)

    async def list_post_tags(self, caller: Caller, params: given.ListCounted) -> Row:
        """Return tags with their numbers of posts, most posts first."""
        tags = await self.statistics.tags(await self._collection())
        prefix = (params.prefix or "").casefold()
        return await asyncio.to_thread(_counted_page, tags, prefix, params, "tag", str.casefold)

    # Counting

    async def get_user_stats(self, caller: Caller, params: given.UserStats) -> PostRows:
        """Return the users with most posts."""
        census = await self._census()
        users = census.users[: params.limit or _LIMIT]
        return PostRows([{"user": user.name, "post_count": user.posts} for user in users])

    async def get_database_stats(self, caller: Caller, params: NoParameters) -> Row:
        """Return the size and the period of the archive."""
        census = await self._census()
        return {
            "total_posts": census.posts,
            "total_users": len(census.users),
            "date_range": {"earliest": census.earliest, "latest": census.latest},
        }

    async def get_user_list(self, caller: Caller, params: NoParameters) -> list[str]:
        """Return the names of all users."""
        return [user.name for user in (await self._census()).users]

    async def suggest_users(self, caller: Caller, params: given.SuggestUsers) -> Mapping[str, list[str]]:
        """Return the nearest names for each unknown name."""
        return await suggested(await self._census(), params.user_list)

    async def get_timeline(self, caller: Caller, params: given.Timeline) -> PostRows:
        """Count posts by period, in order. ``user``: only this user's posts."""
        collection, unit = await self._collection(), params.unit or "month"
        where = await self.searching.having(collection, params.conditions(), params.search_term)
        if params.user is not None:
            where = And((where, by_user(UserFilter(includes=[params.user]), {})))
        census = await self.statistics.census(collection)
        counts = await timeline(collection, where, census.span, unit, self._zone())
        return PostRows([{"period": period, "post_count": count} for period, count in counts])

    async def get_post_facets(self, caller: Caller, params: given.Facet) -> PostRows:
        """Count the most frequent values among the matching posts."""
        collection, limit = await self._collection(), params.limit or _LIMIT
        where = await self.searching.having(collection, params.conditions(), params.search_term)
        if params.field == "user":
            where = And((where, Not(Equal("user", ""))))  # posts without a user
        counts = await collection.facet(params.field, where, limit)
        names: Mapping[Any, str] = {}
        if params.field == "user":
            census = await self.statistics.census(collection)
            names = {comparable_user(user.name): user.name for user in census.users}
        elif params.field == "log_type":
            names = {value: name for name, value in LOG_TYPES.items() if isinstance(name, str)}
        return PostRows([{"value": names.get(value, value), "post_count": count} for value, count in counts])

    async def get_status(self, caller: Caller, params: given.Status) -> Row:
        """Return the state of the archive, its model and its size."""
        collection = await self._collection()
        census, model = await self.statistics.census(collection), _model_of(collection)
        return {
            "status": "running",
            "ready": self._ready is None or self._ready(),
            "server_type": SERVER_TYPE,
            "model": model.partition("#")[0] or None,
            "data_stats": {
                "total_posts": census.posts,
                "total_users": len(census.users),
                "total_summaries": census.summaries,
                "total_tags": census.tags,
            },
        }

    # Single posts

    async def get_post(self, caller: Caller, params: given.OnePost) -> Row:
        """Return a post. Raises BadArguments if there is none with that id."""
        (record,) = await (await self._collection()).get([str(int(params.post_id))])
        if record is None:
            message = say("post_id: there is no post {post_id}", post_id=params.post_id)
            raise BadArguments(message, "post_id")
        return post_row(post_of(record))

    async def embed_text(self, caller: Caller, params: given.EmbedText) -> Row:
        """Embed a text as a query, with the archive's model or else with the model in the settings."""
        text, model = encodable(params.text, "text"), _model_of(await self._collection())
        if not model:
            embedder = await self._models.wanted()
            if isinstance(embedder, NoModel):
                raise ModelMissing(embedder.reason)
            model = embedder.fingerprint
        vector = await self._models.query(model, text)
        if not isinstance(vector, bytes):
            raise ModelMissing(vector.reason)
        return {"vector": base64.b64encode(safetensors("vector", vector)).decode()}

    async def export_posts(self, caller: Caller, params: given.ExportPosts) -> AsyncIterator[StreamPart]:
        """Stream the text in parts, which are written one after the other."""
        collection = await self._collection()
        where = (await self.searching.chosen(collection, params.conditions())).all
        async for text in exported(collection, where, params.format or "jsonl"):
            yield StreamPart({"data": text}, True)
        yield StreamPart({"data": ""}, False)

    async def _census(self) -> Census:
        return await self.statistics.census(await self._collection())


def _model_of(collection: Collection) -> str:
    """Return the model of the vectors of the contents; empty if there are no vectors."""
    return next((space.model for space in collection.spaces if space.name == _CONTENT), "")


def safetensors(name: str, vector: bytes) -> bytes:
    """Return a safetensors file with one tensor: ``vector`` is float32, little-endian, [1, dimension]."""
    tensor = {"dtype": "F32", "shape": [1, len(vector) // 4], "data_offsets": [0, len(vector)]}
    head = json.encode({name: tensor})
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + vector


def _ranked_rows(answer: PostAnswer, query: str) -> PostRows:
    rows = []
    for rank, hit in enumerate(answer.hits, 1):
        row: Row = {"rank": rank, "score": hit.score, "post": post_row(hit.item)}
        # If ranks were fused, only the cosine says how similar the post is.
        rows.append(row if hit.cosine is None else row | {"cosine": hit.cosine})
    return PostRows(rows, query, answer.warning)


Format = Literal["csv", "jsonl"]
PAGE = 200
LONGEST_PART = 150_000
"""Characters of a part: less than 1 MiB on the wire, whatever the characters are."""


def csv_lines(posts: Sequence[Post]) -> str:
    """Write posts as in twilog.csv: id, URL, timestamp, content with HTML entities, kind. No header."""
    import csv
    import html  # its table of entities is large

    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for post in posts:
        content = html.escape(post.content, quote=False)
        writer.writerow((post.post_id, post.url, post.timestamp, content, post.log_type))
    return text.getvalue()


def json_lines(posts: Sequence[Post]) -> str:
    return "".join(json.encode(post_row(post)).decode() + "\n" for post in posts)


WRITERS: Mapping[Format, Callable[[Sequence[Post]], str]] = {"csv": csv_lines, "jsonl": json_lines}


async def exported(collection: Collection, where: Filter, form: Format) -> AsyncIterator[str]:
    """Yield the matching posts in order of keys, as text in parts that fit into a message.

    A post that is written meanwhile may be included or not. Every other post is included once.
    """
    after: str | None = None
    while True:
        page = await collection.select(where, after=after, limit=PAGE)
        text = WRITERS[form]([post_of(stored.record) for stored in page.records])
        for first in range(0, len(text), LONGEST_PART):
            yield text[first : first + LONGEST_PART]
        after = page.after
        if after is None:
            return


CHUNK = 20_000
"""Pairs of a part: less than 1 MiB of JSON."""


async def ranking_parts(whole: PostStream, most: int | None) -> AsyncIterator[StreamPart]:
    """Yield the ranking, or its first ``most`` pairs, as ``data`` with the rank of the first.

    At least one part.
    """
    total = whole.total if most is None else min(whole.total, most)
    chunks = _chunk_count(total)
    number, sent = 0, 0
    async for pairs in _fill_chunks(whole, total):
        number += 1
        value = {"data": pairs, "chunk": number, "total_chunks": chunks, "start_rank": sent + 1}
        yield StreamPart(value, number < chunks)
        sent += len(pairs)


def _chunk_count(total: int) -> int:
    return max(1, -(-total // CHUNK))


async def _fill_chunks(whole: PostStream, total: int) -> AsyncIterator[list[Pair]]:
    """Yield exactly as many parts as ``total`` needs.

    If posts were deleted meanwhile, the last parts have fewer.
    """
    waiting: list[Pair] = []
    left, room = _chunk_count(total), total
    async for pairs in whole.pairs:
        pairs = pairs[:room]
        room -= len(pairs)
        waiting = [*waiting, *pairs] if waiting else pairs
        while len(waiting) >= CHUNK and left:
            yield waiting[:CHUNK]
            waiting, left = waiting[CHUNK:], left - 1
        if not room:
            break
    while left:
        yield waiting
        waiting, left = [], left - 1
