"""Embedder: the interface of every source of vectors, and an embedder with a cache.

Texts go in, float32 vectors of length one come out.

Batches of texts of similar length, bounded by the memory that they need in a model.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from tabane.messages import Message

MOST_TEXTS = 64
"""Texts of a batch: more of them, however short, bring no more speed."""


def slices(sizes: Sequence[int], texts: int, total: int, *, padded: bool = False) -> list[list[int]]:
    """Return the positions of ``sizes``, each once, in parts of similar size, the largest first.

    A part has at most ``texts`` positions, and at most ``total`` as the sum of their sizes, except for a
    single one that is larger. ``padded``: each counts as much as the longest of its part, and at least 1.
    Equal sizes stay in their order.
    """
    parts: list[list[int]] = []
    room = size = 0
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        size = size if padded else sizes[position]
        if not parts or len(parts[-1]) >= texts or room < size:
            parts.append([])
            room, size = total, max(sizes[position], int(padded))
        parts[-1].append(position)
        room -= size
    return parts


Kind = Literal["query", "document", "topic"]
"""The role of a text: a question, something to be found by one, or the name of a subject."""

BYTES = 4  # of a component: float32, little-endian


class NoModel(Struct, frozen=True):
    """The reason why there is no model."""

    reason: Message


Take = Callable[[Sequence[int], Sequence[bytes]], Awaitable[None]]
"""Gets the positions of some texts, and their vectors. The next part may be embedded meanwhile."""


class Embedder(Protocol):
    """One model, ready for requests.

    Failure policy: :class:`~tabane.errors.ModelError` if the model cannot answer. A call returns vectors for
    all of its texts or for none. Canceling a call affects no other call.
    """

    @property
    def fingerprint(self) -> str:
        """Return a name for everything that vectors depend on.

        Vectors of two fingerprints cannot be compared.
        """
        ...

    @property
    def dimension(self) -> int:
        """Return the number of components of a vector."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text, in order: ``dimension`` float32, little-endian, L2-normalized.

        The prefix that the model needs for ``kind`` is added here. Texts longer than the model accepts are
        cut at their end. Queries overtake documents.
        """
        ...

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts, and call ``take`` with each part of them. Each text is in one part.

        Raises the errors of :meth:`embed`, after as many texts as possible were taken.
        """
        ...

    async def close(self) -> None:
        """Release the model. Calls in progress fail. May be called twice."""
        ...


async def collect_vectors(embedder: Embedder, texts: Sequence[str], kind: Kind) -> list[bytes]:
    """Return the vectors that an embedder hands over in parts, in the order of the texts."""
    vectors = [b""] * len(texts)

    async def take(positions: Sequence[int], part: Sequence[bytes]) -> None:
        for position, vector in zip(positions, part, strict=True):
            vectors[position] = vector

    await embedder.embed_parts(texts, take, kind)
    return vectors


def clean(text: str) -> str:
    """Return the text as it is embedded and hashed: lone surrogates, which have no UTF-8, become ``?``."""
    return text.encode("utf-8", "replace").decode()


async def together(parts: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all parts. The first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


_TEXTS, _CHARACTERS = 256, 500_000  # looked up, embedded and kept as one
_UNDER_WAY = 3  # such parts: while one is embedded, the next is looked up and the last is kept


class VectorCache(Protocol):
    """Storage of vectors by keys of 32 bytes. What :meth:`put` acknowledged should outlive the process."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the vector of each key, None if there is none."""
        ...

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Store vectors with their keys."""
        ...


def key(fingerprint: str, kind: Kind, text: str) -> bytes:
    """Return 32 bytes for everything that a vector depends on: model and recipe, kind, and clean text."""
    return hashlib.sha256(f"{fingerprint}\0{kind}\0{text}".encode()).digest()


class CachedEmbedder:
    """Embedder that asks the cache first. Queries are not stored, since they are rarely repeated.

    A call that failed, even with its process, continues from the part it had reached when it is repeated.
    """

    def __init__(self, embedder: Embedder, vectors: VectorCache) -> None:
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.embedder, self._vectors = embedder, vectors

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text: of documents from the cache, if it has them."""
        if kind == "query":
            return await self.embedder.embed(texts, kind)
        return await collect_vectors(self, texts, kind)

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts that the cache lacks, and hand over all vectors in parts."""
        places: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            places.setdefault(clean(text), []).append(position)
        distinct = list(places)
        room = asyncio.Semaphore(_UNDER_WAY)

        async def take_texts(part: Sequence[str], vectors: Sequence[bytes]) -> None:
            pairs = list(zip(part, vectors, strict=True))
            await take(
                [position for text, _ in pairs for position in places[text]],
                [vector for text, vector in pairs for _ in places[text]],
            )

        async def embed(part: Sequence[str]) -> None:
            async with room:
                await self._part(part, kind, take_texts)

        parts = slices([len(text) for text in distinct], _TEXTS, _CHARACTERS)
        await together(embed([distinct[position] for position in part]) for part in parts)

    async def close(self) -> None:
        """Close the embedder. The cache stays open."""
        await self.embedder.close()

    async def _part(
        self,
        texts: Sequence[str],
        kind: Kind,
        take_texts: Callable[[Sequence[str], Sequence[bytes]], Awaitable[None]],
    ) -> None:
        """Hand over vectors from the cache, then the others as soon as they are embedded and stored."""
        names = {text: key(self.fingerprint, kind, text) for text in texts}
        stored = await self._vectors.get(list(names.values()))
        cached = [(text, vector) for text, vector in zip(texts, stored, strict=True) if vector is not None]
        if cached:
            await take_texts([text for text, _ in cached], [vector for _, vector in cached])
        missing = [text for text, vector in zip(texts, stored, strict=True) if vector is None]

        async def store(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
            part = [missing[position] for position in positions]
            await self._vectors.put(
                [(names[text], vector) for text, vector in zip(part, vectors, strict=True)]
            )
            await take_texts(part, vectors)

        if missing:
            await self.embedder.embed_parts(missing, store, kind)
