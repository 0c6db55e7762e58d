"""Handlers of the operations on posts, and their streams. They are declared in :mod:`tabane.posts.table`."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal

from tabane.errors import BadArguments, ModelMissing
from tabane.messages import say
from tabane.operations import Caller, StreamPart
from tabane.posts import parameters as given
from tabane.posts import rendered_text
from tabane.posts.browsing import PostBrowser
from tabane.posts.filtering import LOG_TYPES, UserFilter, by_user
from tabane.posts.post import Post, comparable_user, post_of
from tabane.posts.rendered_text import PostRows, Row
from tabane.posts.searching import Missing, Pair, PostAnswer, PostSearch, PostStream, nothing_missing
from tabane.posts.statistics import Statistics, suggested, timeline
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import Collection
from tabane.search.filters import And, Equal, Filter, Not
from tabane.search.models import Models
from tabane.search.records import encodable
from tabane.wire import json

SERVER_TYPE = "TwilogServer"
"""The name of this server in get_status: clients of the original twilog server accept no other name."""

_TOP_K, _LIMIT = 10, 50
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
        ready: Callable[[], bool] = lambda: True,
        missing: Missing = nothing_missing,
    ) -> None:
        self._collection, self._models, self._zone, self._ready = collection, models, zone, ready
        self.statistics = Statistics(collection)
        self.searching = PostSearch(collection, models, self.statistics, zone, missing)
        self.browsing = PostBrowser(collection, self.searching, self.statistics)

    # Searching

    async def search_similar(self, caller: Caller, params: given.SearchSimilar) -> PostRows:
        settings = params.merged()
        answer = await self.searching.similar(
            params.query, settings.options(), settings.top_k or _TOP_K, settings.diversity or 0.0
        )
        return _ranked(answer, params.query)

    async def search_posts_by_text(self, caller: Caller, params: given.SearchText) -> PostRows:
        answer = await self.searching.holding(
            params.search_term, params.source or "content", params.conditions(), params.limit or _LIMIT
        )
        return PostRows(
            [rendered_text.row(found.item) for found in answer.hits], params.search_term, answer.warning
        )

    async def get_related_posts(self, caller: Caller, params: given.RelatedPosts) -> PostRows:
        post_id = int(params.post_id)
        answer = await self.searching.related(post_id, params.options(), params.top_k or _TOP_K)
        return _ranked(answer, str(post_id))

    async def vector_search(self, caller: Caller, params: given.VectorSearch) -> AsyncIterator[StreamPart]:
        """Pairs of post and score, best first, 20,000 at a time; ``start_rank`` is the first one's rank."""
        ranking = await self.searching.all(params.query, params.options())
        async for part in ranking_parts(ranking, params.top_k):
            yield part

    # Counting

    async def get_user_stats(self, caller: Caller, params: given.UserStats) -> PostRows:
        census = await self.statistics.census()
        users = census.users[: params.limit or _LIMIT]
        return PostRows([{"user": user.name, "post_count": user.posts} for user in users])

    async def get_database_stats(self, caller: Caller, params: given.NoPostParameters) -> Row:
        census = await self.statistics.census()
        return {
            "total_posts": census.posts,
            "total_users": len(census.users),
            "date_range": {"earliest": census.earliest, "latest": census.latest},
        }

    async def get_user_list(self, caller: Caller, params: given.NoPostParameters) -> list[str]:
        return [user.name for user in (await self.statistics.census()).users]

    async def suggest_users(self, caller: Caller, params: given.SuggestUsers) -> Mapping[str, list[str]]:
        return await suggested(await self.statistics.census(), params.user_list)

    async def get_timeline(self, caller: Caller, params: given.Timeline) -> PostRows:
        """Count posts by period, in order. ``user``: only this user's posts."""
        where = await self.searching.having(params.conditions(), params.search_term)
        if params.user is not None:
            where = And((where, by_user(UserFilter(includes=[params.user]), {})))
        census = await self.statistics.census()
        collection, unit = await self._collection(), params.unit or "month"
        found = await timeline(collection, where, census.span, unit, self._zone())
        return PostRows([{"period": period, "post_count": count} for period, count in found])

    async def get_post_facets(self, caller: Caller, params: given.Facet) -> PostRows:
        """Count the most frequent values among the matching posts."""
        where = await self.searching.having(params.conditions(), params.search_term)
        collection, limit = await self._collection(), params.limit or _LIMIT
        if params.field == "user":
            where = And((where, Not(Equal("user", ""))))  # posts without a user
        found = await collection.facet(params.field, where, limit)
        names: Mapping[Any, str] = {}
        if params.field == "user":
            names = {comparable_user(user.name): user.name for user in (await self.statistics.census()).users}
        elif params.field == "log_type":
            names = {value: name for name, value in LOG_TYPES.items() if isinstance(name, str)}
        return PostRows([{"value": names.get(value, value), "post_count": count} for value, count in found])

    async def get_status(self, caller: Caller, params: given.Status) -> Row:
        census = await self.statistics.census()
        model = await self._model()
        return {
            "status": "running",
            "ready": self._ready(),
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
        (record,) = await (await self._collection()).get([str(int(params.post_id))])
        if record is None:
            message = say("post_id: there is no post {post_id}", post_id=params.post_id)
            raise BadArguments(message, "post_id")
        return rendered_text.row(post_of(record))

    async def embed_text(self, caller: Caller, params: given.EmbedText) -> Row:
        """Embed a text as a query, with the archive's model or else with the model in the settings."""
        text, model = encodable(params.text, "text"), await self._model()
        if not model:
            wanted = await self._models.wanted()
            if isinstance(wanted, NoModel):
                raise ModelMissing(wanted.reason)
            model = wanted.fingerprint
        vector = await self._models.query(model, text)
        if not isinstance(vector, bytes):
            raise ModelMissing(vector.reason)
        return {"vector": base64.b64encode(safetensors("vector", vector)).decode()}

    async def export_posts(self, caller: Caller, params: given.ExportPosts) -> AsyncIterator[StreamPart]:
        """Stream the text in parts, which are written one after the other."""
        where = (await self.searching.chosen(params.conditions())).all
        collection = await self._collection()
        async for text in exported(collection, where, params.format or "jsonl"):
            yield StreamPart({"data": text}, True)
        yield StreamPart({"data": ""}, False)

    async def _model(self) -> str:
        """Return the model of the vectors of the contents; empty if there are no vectors."""
        spaces = {space.name: space.model for space in (await self._collection()).spaces}
        return spaces.get(_CONTENT, "")


def safetensors(name: str, vector: bytes) -> bytes:
    """Return a safetensors file with one tensor: ``vector`` is float32, little-endian, [1, dimension]."""
    described = {"dtype": "F32", "shape": [1, len(vector) // 4], "data_offsets": [0, len(vector)]}
    head = json.encode({name: described})
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + vector


def _ranked(answer: PostAnswer, asked: str) -> PostRows:
    rows = []
    for rank, found in enumerate(answer.hits, 1):
        row: Row = {"rank": rank, "score": found.score, "post": rendered_text.row(found.item)}
        # If ranks were fused, only the cosine says how similar the post is.
        rows.append(row if found.cosine is None else row | {"cosine": found.cosine})
    return PostRows(rows, asked, answer.warning)


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
    return "".join(json.encode(rendered_text.row(post)).decode() + "\n" for post in posts)


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
    chunks = _chunks(total)
    number, sent = 0, 0
    async for pairs in _cut(whole, total):
        number += 1
        value = {"data": pairs, "chunk": number, "total_chunks": chunks, "start_rank": sent + 1}
        yield StreamPart(value, number < chunks)
        sent += len(pairs)


def _chunks(total: int) -> int:
    return max(1, -(-total // CHUNK))


async def _cut(whole: PostStream, total: int) -> AsyncIterator[list[Pair]]:
    """Yield exactly as many parts as ``total`` needs.

    If posts were deleted meanwhile, the last parts have fewer.
    """
    waiting: list[Pair] = []
    left, room = _chunks(total), total
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
