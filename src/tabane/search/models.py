"""The interface of the models: embedders by the fingerprint of their vectors, a reranker, a measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tabane.search.embedding.embedder import Embedder, NoModel

if TYPE_CHECKING:
    from tabane.search.chunking.cutting import Measure


class Reranker(Protocol):
    """A model that reads a query and a text together: slower than vectors, and more accurate."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers ``query``, in 0..1, in their order. Higher is better.

        Texts that are longer than the model accepts are cut at their end. Raises ModelError and its kinds.
        """
        ...


class Models(Protocol):
    """The models of the hub. Each is opened once, on first use."""

    async def wanted(self) -> Embedder | NoModel:
        """Return the model of the settings, for texts that are embedded now. Vectors are cached by text."""
        ...

    async def serving(self, model: str) -> Embedder | NoModel:
        """Return the model with this fingerprint, for vectors that it made.

        An id without ``#`` (of an imported archive) is served by that model at any revision. The reason of a
        :class:`NoModel` says how to fix it.
        """
        ...

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        """Return the models by which tools are compared with a query: one, or several to be averaged.

        Returns at once: it starts no process and waits for no download. A process starts with the first text.
        """
        ...

    async def query(self, model: str, text: str) -> bytes | NoModel:
        """Return a query as a vector of that model. Never raises ModelError, never waits for long."""
        ...

    def reranker(self) -> Reranker | None:
        """Return the reranker of the settings, which is opened by its first query; None if there is none."""
        ...

    def measure(self) -> Measure:
        """Return the measure for texts that are cut for the current model of the settings.

        It is the model's own tokenizer if its file is on this machine, else an estimate. Never raises an
        error, downloads or starts a model. Reads a few files, so call it off the event loop.
        """
        ...
