"""Posts for programs that show the archive: newest first in pages, found with reasons, users and tags."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations import Caller
from tabane.posts import parameters as given
from tabane.posts import rendered_text
from tabane.posts.post import DUPLICATE_FIELD, Post, comparable_user, duplicate_key, post_of
from tabane.posts.query import parsed, terms
from tabane.posts.rendered_text import Row
from tabane.posts.searching import PostSearch
from tabane.posts.statistics import PostAuthor, Statistics, TagCount
from tabane.search.engine import Collection, Order
from tabane.search.filters import And, Equal, Filter
from tabane.search.queries import marked_terms, typed
from tabane.search.snippets import marks
from tabane.search.source import explained
from tabane.wire.cursors import CursorCodec

_NEWEST_FIRST = (Order("at", descending=True),)
_TOP_K = 10


class CountedPlace(NamedTuple):
    """The last entry of a page of users or tags."""

    posts: int
    name: str


_PLACES = CursorCodec("post_counts", CountedPlace)


class PostBrowser:
    """The posts of one archive, as a program shows them to a person."""

    def __init__(
        self, collection: Callable[[], Awaitable[Collection]], searching: PostSearch, statistics: Statistics
    ) -> None:
        self._collection, self._searching, self._statistics = collection, searching, statistics

    async def find_posts(self, caller: Caller, params: given.FindPosts) -> Row:
        """Return the best posts, each with the spans to mark in its content and the parts of its score."""
        answer = await self._searching.similar(
            params.query, params.options(), params.top_k or _TOP_K, params.diversity or 0.0
        )
        query, unfinished = parsed(params.query), params.keywords == "typing"
        words = marked_terms(typed(query.meaning))
        results = []
        for rank, hit in enumerate(answer.hits, 1):
            spans = marks(hit.item.content, words, query.terms.includes, unfinished=unfinished)
            shown: Row = {"rank": rank, "score": hit.score, "post": _row(hit.item), "marks": spans}
            results.append(shown | {"why": explained(hit)})
        found: Row = {"results": results}
        if answer.warning is not None:
            found["warning"] = answer.warning.render(caller.lang)
        return found

    async def list_posts(self, caller: Caller, params: given.ListPosts) -> Row:
        """Return posts newest first, those without a time last, and how many match (first page only)."""
        collection = await self._collection()
        where = await self._searching.having(params.conditions(), params.search_term)
        if params.duplicates_of is not None:
            where = And((where, await _same_as(collection, int(params.duplicates_of))))
        page = await collection.select(where, order=_NEWEST_FIRST, after=params.cursor, limit=params.limit)
        held = terms(params.search_term or "").includes
        results = []
        for stored in page.records:
            post = post_of(stored.record)
            results.append({"post": _row(post), "marks": marks(post.content, (), held) if held else ()})
        found: Row = {"results": results, "next_cursor": page.after}
        return found if params.cursor else found | {"total": await collection.count(where)}

    async def list_post_users(self, caller: Caller, params: given.ListCounted) -> Row:
        """Return users with their numbers of posts, most posts first."""
        users = (await self._statistics.census()).users
        prefix = comparable_user(params.prefix or "")
        return await asyncio.to_thread(_counted_page, users, prefix, params, "user", comparable_user)

    async def list_post_tags(self, caller: Caller, params: given.ListCounted) -> Row:
        """Return tags with their numbers of posts, most posts first."""
        tags = await self._statistics.tags()
        prefix = (params.prefix or "").casefold()
        return await asyncio.to_thread(_counted_page, tags, prefix, params, "tag", str.casefold)


def _row(post: Post) -> Row:
    return rendered_text.row(post) | {"at": post.at}


async def _same_as(collection: Collection, post_id: int) -> Filter:
    (record,) = await collection.get([str(post_id)])
    if record is None:
        raise BadArguments(say("post_id: there is no post {post_id}", post_id=post_id), "duplicates_of")
    return Equal(DUPLICATE_FIELD, duplicate_key(post_of(record)))


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
