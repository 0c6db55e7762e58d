"""A model for tests that needs no files: a text means its letters, each of which is a direction."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence

from tabane.search.embedding.embedder import Kind, Take

DIMENSION = 256
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def direction(seed: int, dimension: int = DIMENSION) -> list[float]:
    """A direction without any order, the same each time."""
    source = random.Random(seed)
    return [source.gauss(0, 1) for _ in range(dimension)]


def packed_unit(values: Sequence[float]) -> bytes:
    """Values as a float32 vector of length one."""
    length = math.sqrt(sum(value * value for value in values))
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


_DIRECTIONS = {letter: direction(seed) for seed, letter in enumerate(_LETTERS)}
_NOTHING = direction(-1)


def vector(text: str) -> bytes:
    """The directions of a text's letters, by how often each of them comes."""
    counts = {letter: text.lower().count(letter) for letter in _LETTERS}
    sums = [
        sum(count * _DIRECTIONS[letter][place] for letter, count in counts.items() if count)
        for place in range(DIMENSION)
    ]
    return packed_unit(sums if any(sums) else _NOTHING)


class Lettered:
    """An embedder. ``fails`` is raised instead of an answer; ``texts`` are those that it embedded."""

    def __init__(self, fingerprint: str = "test/letters#1") -> None:
        self.fingerprint = fingerprint
        self.dimension = DIMENSION
        self.texts: list[str] = []
        self.fails: Exception | None = None

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        await take(range(len(texts)), await self.embed(texts, kind))

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        if self.fails is not None:
            raise self.fails
        self.texts += texts
        return [vector(text) for text in texts]

    async def close(self) -> None:
        return
