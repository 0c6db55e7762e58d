"""Embedding of documents while they are stored. Chunks that take too long are embedded in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabane.documents.document import SPACE
from tabane.errors import BadArguments, ModelMissing, ModelUnavailable
from tabane.messages import Message, say
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.engine import Collection
from tabane.search.models import Models
from tabane.search.records import EmbeddingSpace

PATIENCE = 15.0
"""Seconds that the first put waits for a model to open."""

BRIEF = 1.0
"""Seconds that later puts wait for it after one put timed out. The model may be downloading."""

MOST = 64
"""Texts that a put waits for, about a second with a small model. More are embedded in the background."""

LONGEST = 20.0
"""Seconds that a put waits for its vectors: a client waits for an answer for at most a minute."""

_TRIES = 3


@dataclass(frozen=True, slots=True)
class PutVectors:
    """Result of embedding for a put: a vector for each text, or a warning with the reason why not.

    ``space`` is the space of the vectors at that time.
    """

    space: EmbeddingSpace | None = None
    vectors: Sequence[bytes] = ()
    warning: Message | None = None


def space_of(collection: Collection) -> EmbeddingSpace | None:
    """Return the space of the chunks' texts, None before anything was embedded."""
    return next((space for space in collection.spaces if space.name == SPACE), None)


class PutEmbedding:
    """Embeds with the model of the collection's vectors. The first available model becomes that model.

    ``named`` says whether the settings name a model. If a named model is not available, nothing is stored.
    If a model was only detected and is not available, documents are stored and found by keywords.
    """

    def __init__(
        self,
        models: Models,
        named: Callable[[], bool],
        *,
        patience: float = PATIENCE,
        longest: float = LONGEST,
    ) -> None:
        self._models, self._named = models, named
        self._patience, self._longest = patience, longest
        self._late = False

    async def embed_texts(self, collection: Collection, texts: Sequence[str]) -> PutVectors:
        """Return vectors for these texts, in their order. Without texts, the model is checked all the same.

        Raises ModelError if a named model is not available, or if a model fails on the texts.
        """
        for _ in range(_TRIES):
            embedder = await self._embedder(collection)
            if isinstance(embedder, NoModel):
                return PutVectors(space_of(collection), warning=embedder.reason)
            there = space_of(collection)
            if not self._named() and not all(reads(embedder.fingerprint, text) for text in texts):
                # Vectors of such texts would be noise. The background job checks each of them.
                return PutVectors(there, warning=_unread(embedder.fingerprint))
            space = EmbeddingSpace(SPACE, embedder.dimension, embedder.fingerprint)
            if there is not None:
                return await self._embedded(embedder, there, texts)
            try:
                await collection.add_space(space)
            except BadArguments:
                continue  # another call added a space with another model meanwhile
            return await self._embedded(embedder, space, texts)
        return PutVectors(warning=_not_ready())

    async def _embedder(self, collection: Collection) -> Embedder | NoModel:
        space = space_of(collection)
        try:
            async with asyncio.timeout(min(self._patience, BRIEF) if self._late else self._patience):
                found = await (self._models.wanted() if space is None else self._models.serving(space.model))
        except TimeoutError:
            self._late = True
            return NoModel(_not_ready())
        self._late = False
        if isinstance(found, NoModel) and self._named():
            raise ModelMissing(found.reason)
        return found

    async def _embedded(self, embedder: Embedder, space: EmbeddingSpace, texts: Sequence[str]) -> PutVectors:
        if not texts:
            return PutVectors(space)
        if len(texts) > MOST:
            return PutVectors(space, warning=too_much())
        try:
            async with asyncio.timeout(self._longest):
                return PutVectors(space, await embedder.embed(texts))
        except TimeoutError:
            return PutVectors(space, warning=too_much())
        except ModelUnavailable as error:
            if self._named():
                raise
            return PutVectors(space, warning=error.message)


def _not_ready() -> Message:
    return say("The embedding model is not ready yet. Until it is, search finds this by keywords only.")


def _unread(model: str) -> Message:
    return say(
        "{model} reads English only, so this document is found by keywords only.",
        model=model.partition("#")[0],
    )


def too_much() -> Message:
    return say(
        "Semantic search is still indexing this. Until that is done, search finds it by keywords only."
    )
