"""Search of tools by meaning: vectors of queries, and of the catalog's tools in the background.

The work begins with the first search, so that a hub that only forwards starts no model. Words answer as long
as a vector is missing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from tabane.errors import TabaneError
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads

if TYPE_CHECKING:
    from tabane.catalog.tools.vector_table import ToolGist
    from tabane.search.embedding.embedder import Embedder

log = logging.getLogger(__name__)

PATIENCE = 0.3
"""Seconds that a search waits for the vector of its query: enough unless the model is being opened.

The searches after it do not wait, until the model has answered.
"""

_BATCH = 16
_MOST_TEXT = 2_000
_RETRY = 30.0  # seconds until a model that failed is tried again
_MOST_PENDING = 32  # queries whose vectors are still being made; more searches use words alone


_MOST_SENTENCES = 4
_SHORTEST = 8  # characters; half of that in Japanese, which needs fewer
_BETWEEN = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|,? (?:and )?(?:then|after that|afterwards|finally),? "
    r"|(?:それから|その後|次に|そして)、?|(?<=[てで])、"
)


def sentences(text: str) -> list[str]:
    """Return the sentences or steps of a query, if it has two to four.

    A task of several steps is near to no tool as a whole. To search for each step apart and merge the
    results found less on public sets: most sentences only explain another.
    """
    pieces = [piece.strip(" ,、") for piece in _BETWEEN.split(text[:_MOST_TEXT])]
    found = [piece for piece in pieces if len(piece) >= (_SHORTEST if piece.isascii() else _SHORTEST // 2)]
    return found if 2 <= len(found) <= _MOST_SENTENCES else []


class ToolEmbedding(Protocol):
    """The models by which tools are compared with a query, as :class:`tabane.search.models.Models`."""

    async def for_tools(self) -> Sequence[Embedder] | NoModel: ...

    async def query(self, model: str, text: str) -> bytes | NoModel: ...


class ToolVectorStore(Protocol):
    """Vectors by model and key of the text, in the file of the index."""

    async def missing(self, model: str, most: int) -> list[ToolGist]:
        """Return texts without a vector, those of the newest tools first."""
        ...

    async def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None: ...

    async def clear(self, models: Sequence[str]) -> None:
        """Delete what belongs to no other model than these, and what is too old."""
        ...


class QueryMeaning(Struct, frozen=True):
    """Vectors of a query and its sentences by model, as far as they are there.

    ``available``: there is a model for it.
    """

    vectors: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    available: bool = False


class ToolMeaning:
    """Vectors for the search of tools. ``embedding`` is None if there are no models. For one event loop."""

    def __init__(
        self,
        embedding: Callable[[], ToolEmbedding] | None,
        store: ToolVectorStore,
        patience: float = PATIENCE,
        retry: float = _RETRY,
    ) -> None:
        self._embedding, self._store, self._patience, self._retry = embedding, store, patience, retry
        self._pending: set[asyncio.Task[bytes | NoModel]] = set()
        self._late: set[str] = set()  # models that did not answer in time, and have not answered since
        self._filling: asyncio.Task[None] | None = None
        self._filled: tuple[str, ...] = ()  # the models that have a vector of each tool
        self._next_try = 0.0

    async def of_query(self, text: str) -> QueryMeaning:
        """Return the vectors of a query that are there in time. The others are made for the next query."""
        if self._embedding is None or not text.strip():
            return QueryMeaning()
        embedding = self._embedding()
        models = await embedding.for_tools()
        if isinstance(models, NoModel):
            return QueryMeaning()
        self._fill_soon(models)
        if len(self._pending) > _MOST_PENDING:
            return QueryMeaning(available=True)
        names = [model.fingerprint for model in models if reads(model.fingerprint, text)]
        asked = [(name, part) for name in names for part in (text, *sentences(text))]
        if not asked:
            return QueryMeaning()
        tasks = {pair: asyncio.ensure_future(embedding.query(*pair)) for pair in asked}
        for (name, _), task in tasks.items():
            self._pending.add(task)
            task.add_done_callback(partial(self._answered, name))
        await self._wait(tasks)
        made = {pair: task.result() for pair, task in tasks.items() if task.done()}
        vectors: dict[str, list[bytes]] = {}
        for (name, part), vector in made.items():
            if isinstance(vector, bytes) and (part == text or name in vectors):
                vectors.setdefault(name, []).append(vector)
        # A model that failed is no model; one that takes long will be there.
        return QueryMeaning(vectors, bool(vectors) or len(made) < len(tasks))

    async def _wait(self, tasks: Mapping[tuple[str, str], asyncio.Task[bytes | NoModel]]) -> None:
        """Wait for the models that are not late already, and note those that are late now."""
        prompt = {task: name for (name, _), task in tasks.items() if name not in self._late}
        if prompt:
            _, pending = await asyncio.wait(prompt, timeout=self._patience)
            self._late |= {prompt[task] for task in pending}

    def _answered(self, model: str, task: asyncio.Task[bytes | NoModel]) -> None:
        self._pending.discard(task)
        self._late.discard(model)

    def changed(self) -> None:
        """Take note that tools came: their vectors are made with the next search."""
        self._filled = ()

    async def close(self) -> None:
        """End the work in the background."""
        tasks = [*self._pending, *([self._filling] if self._filling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fill_soon(self, models: Sequence[Embedder]) -> None:
        loop = asyncio.get_running_loop()
        if self._filling is not None and not self._filling.done():
            return
        names = tuple(model.fingerprint for model in models)
        if names != self._filled and loop.time() >= self._next_try:
            self._filled = names
            self._filling = loop.create_task(self._fill(models))

    async def _fill(self, models: Sequence[Embedder]) -> None:
        try:
            for model in models:
                await self._fill_model(model)
            await self._store.clear([model.fingerprint for model in models])
        except (TabaneError, OSError, ValueError) as error:
            log.warning("tools are found by keywords for now: %s", error)
            self._filled = ()
            self._next_try = asyncio.get_running_loop().time() + self._retry

    async def _fill_model(self, model: Embedder) -> None:
        while gists := await self._store.missing(model.fingerprint, _BATCH):
            vectors = await model.embed([gist.text for gist in gists], "document")
            pairs = [(gist.key, vector) for gist, vector in zip(gists, vectors, strict=True)]
            await self._store.put(model.fingerprint, pairs)
