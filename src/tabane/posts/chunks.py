"""All posts in order, in the parts that the wire wants."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tabane.operations import StreamPart
from tabane.posts.searching import Pair, Whole

CHUNK = 20_000
"""Pairs of a part: less than 1 MiB of JSON."""


async def parts(whole: Whole, most: int | None) -> AsyncIterator[StreamPart]:
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


async def _cut(whole: Whole, total: int) -> AsyncIterator[list[Pair]]:
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
