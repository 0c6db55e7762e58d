"""What the rest of Tabane sees of models: embedders by the name of what they made, and a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tabane.search.embedding.embedder import Embedder, NoModel

if TYPE_CHECKING:
    from tabane.search.chunking.chunk import Measure


class Reranker(Protocol):
    """A model that reads a question and a text together. Slower than vectors, and a better judge."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers ``query``, in 0..1, in their order. Higher is better.

        Texts longer than the model takes are cut at their end. Raises ModelError and its kinds.
        """
        ...


class Models(Protocol):
    """The models that there are. Each is opened when it is first needed, and once."""

    async def wanted(self) -> Embedder | NoModel:
        """The model that the settings name: for what is embedded from now on. Vectors are kept by text."""
        ...

    async def serving(self, model: str) -> Embedder | NoModel:
        """The model whose fingerprint this is, for vectors that it made.

        An id without ``#`` (an imported archive's) is served by that model at any revision. The reason
        of a :class:`NoModel` says what mends it.
        """
        ...

    async def query(self, model: str, text: str) -> bytes | NoModel:
        """One question as a vector of that model. Never raises ModelError, never waits for long."""
        ...

    def reranker(self) -> Reranker | None:
        """The reranker of the settings, opened with its first question; None where there is none."""
        ...

    def measure(self) -> Measure:
        """What texts are to be measured with that are cut for the model of the settings, as it is now.

        By the model's own tokenizer where its file is on this machine, else an estimate. Never raises,
        fetches or starts a model; reads a few files, and is therefore to be called off the event loop.
        """
        ...
