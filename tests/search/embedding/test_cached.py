"""Nothing is embedded twice, and what was kept before a death is not embedded again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ModelUnavailable
from tabane.messages import Message
from tabane.search.embedding.embedder import CachedEmbedder, Kind, Take, key


class Kept:
    def __init__(self) -> None:
        self.vectors: dict[bytes, bytes] = {}

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.vectors.get(name) for name in keys]

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        self.vectors.update(vectors)


class Counting:
    """An embedder that remembers what it was asked, and fails after so many texts."""

    def __init__(self, fingerprint: str = "f", after: int = 1_000_000) -> None:
        self.fingerprint, self.dimension = fingerprint, 1
        self.asked: list[str] = []
        self.after = after

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        await take(range(len(texts)), await self.embed(texts, kind))

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        await asyncio.sleep(0)
        if len(self.asked) + len(texts) > self.after:
            raise ModelUnavailable(Message("gone"))
        self.asked += texts
        return [f"{kind} {text}".encode() for text in texts]

    async def close(self) -> None:
        return


@given(st.lists(st.text(max_size=3), max_size=30), st.lists(st.text(max_size=3), max_size=30))
async def test_each_text_is_embedded_once_and_answered_each_time(first: list[str], second: list[str]) -> None:
    inner, kept = Counting(), Kept()
    for texts in (first, second, first):
        found = await CachedEmbedder(inner, kept).embed(texts)
        assert found == [f"document {text}".encode() for text in texts]
    assert sorted(inner.asked) == sorted({*first, *second})


def test_another_model_another_kind_and_another_text_are_no_match() -> None:
    names = {key(model, kind, text) for model in "fg" for kind in ("topic", "document") for text in "ab"}
    assert len(names) == 8
    assert {len(name) for name in names} == {32}


async def test_queries_are_not_kept() -> None:
    inner, kept = Counting(), Kept()
    for _ in range(2):
        await CachedEmbedder(inner, kept).embed(["q"], "query")
    assert inner.asked == ["q", "q"]
    assert kept.vectors == {}


async def test_vectors_are_handed_over_part_by_part() -> None:
    taken: list[tuple[int, bytes]] = []
    parts: list[int] = []

    async def take(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
        parts.append(len(positions))
        taken.extend(zip(positions, vectors, strict=True))

    texts = [f"{number % 900}" for number in range(1000)]
    kept = Kept()
    for _ in range(2):  # the second time from the cache
        await CachedEmbedder(Counting(), kept).embed_parts(texts, take)
        assert sorted(taken) == [(at, f"document {text}".encode()) for at, text in enumerate(texts)]
        assert len(parts) > 3
        taken.clear()
        parts.clear()


async def test_what_was_kept_before_a_failure_is_not_embedded_again() -> None:
    texts = [f"text {number}" for number in range(2000)]
    kept = Kept()
    broken = Counting(after=1100)
    with pytest.raises(ModelUnavailable):
        await CachedEmbedder(broken, kept).embed(texts)
    assert 0 < len(kept.vectors) <= 1100
    whole = Counting()
    before = len(kept.vectors)
    assert len(await CachedEmbedder(whole, kept).embed(texts)) == 2000
    assert len(whole.asked) == 2000 - before
