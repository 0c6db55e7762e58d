"""Embedder: the interface of every source of vectors, and an embedder with a cache.

Texts go in, float32 vectors of length one come out.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tabane.messages import Message
from tabane.search.embedding.batching import slices

Kind = Literal["query", "document", "topic"]
"""What a text is to the model: a question, something to be found by one, or the name of a subject."""

BYTES = 4  # of a component: float32, little-endian


@dataclass(frozen=True, slots=True)
class NoModel:
    """The reason why there is no model."""

    reason: Message


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

    async def close(self) -> None:
        """Release the model. Calls in progress fail. May be called twice."""
        ...


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

    async def embed(
        self, texts: Sequence[str], kind: Kind = "document", *, done: Callable[[int], None] | None = None
    ) -> list[bytes]:
        """Return vectors as :meth:`Embedder.embed` does.

        ``done`` gets the number of texts of each stored part.
        """
        if kind == "query":
            return await self.embedder.embed(texts, kind)
        places: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            places.setdefault(clean(text), []).append(position)
        found: list[bytes] = [b""] * len(texts)
        distinct = list(places)
        room = asyncio.Semaphore(_UNDER_WAY)

        async def fill(part: Sequence[str]) -> None:
            async with room:
                vectors = await self._part(part, kind)
            for text, vector in zip(part, vectors, strict=True):
                for position in places[text]:
                    found[position] = vector
            if done is not None:
                done(sum(len(places[text]) for text in part))

        parts = slices([len(text) for text in distinct], _TEXTS, _CHARACTERS)
        await together(fill([distinct[position] for position in part]) for part in parts)
        return found

    async def close(self) -> None:
        await self.embedder.close()

    async def _part(self, texts: Sequence[str], kind: Kind) -> list[bytes]:
        keys = [key(self.fingerprint, kind, text) for text in texts]
        known = dict(zip(keys, await self._vectors.get(keys), strict=True))
        missing = [(name, text) for name, text in zip(keys, texts, strict=True) if known[name] is None]
        if missing:
            made = await self.embedder.embed([text for _, text in missing], kind)
            kept = [(name, vector) for (name, _), vector in zip(missing, made, strict=True)]
            await self._vectors.put(kept)
            known.update(kept)
        return [known[name] or b"" for name in keys]
