"""Streams of posts: the ranking of all in parts, and the archive as CSV or JSON lines."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal

from tabane.operations import StreamPart
from tabane.posts.post import Post, post_of
from tabane.posts.rendered_text import row
from tabane.posts.searching import Pair, PostStream
from tabane.search.engine import Collection
from tabane.search.filters import Filter
from tabane.wire import json

Format = Literal["csv", "jsonl"]
PAGE = 200
LONGEST_PART = 150_000
"""Characters of a part: less than 1 MiB on the wire, whatever they are."""


def csv_lines(posts: Sequence[Post]) -> str:
    """As twilog.csv has them: number, address, timestamp, content with its entities, kind; no header."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for post in posts:
        content = html.escape(post.content, quote=False)
        writer.writerow((post.post_id, post.url, post.timestamp, content, post.log_type))
    return text.getvalue()


def json_lines(posts: Sequence[Post]) -> str:
    return "".join(json.encode(row(post)).decode() + "\n" for post in posts)


WRITERS: Mapping[Format, Callable[[Sequence[Post]], str]] = {"csv": csv_lines, "jsonl": json_lines}


async def exported(collection: Collection, where: Filter, form: Format) -> AsyncIterator[str]:
    """The posts that are meant, in order of keys, as text in parts that are no longer than a message may be.

    A post that is written meanwhile is in it or not; all others are, once.
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


async def parts(whole: PostStream, most: int | None) -> AsyncIterator[StreamPart]:
    """The ranking, or its first ``most``, as ``data`` with the rank of the first pair; one part at least."""
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
    """As many parts as ``total`` makes; posts that went meanwhile are missing from the last ones."""
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
