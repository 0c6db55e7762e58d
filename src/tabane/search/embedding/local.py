"""A model that runs on this machine, in the embedding process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tabane.search.embedding.batching import slices
from tabane.search.embedding.embedder import BYTES, Kind, clean
from tabane.search.embedding.parts import together
from tabane.search.embedding.process import ModelProcess
from tabane.search.embedding.recipe import Recipe

_TEXTS, _CHARACTERS = 256, 500_000  # handed to the process at once
_UNDER_WAY = 2  # such parts: one that runs, one that waits, so that the process never does
_QUERIES = 16  # texts; more at once are no question that somebody waits for


class LocalEmbedder:
    """An :class:`~tabane.search.embedding.embedder.Embedder` over a process. Made by :meth:`open`."""

    def __init__(self, recipe: Recipe, process: ModelProcess, dimension: int) -> None:
        self.recipe = recipe
        self.dimension = dimension
        self.fingerprint = recipe.fingerprint(dimension)
        self._process = process
        self._room = asyncio.Semaphore(_UNDER_WAY)

    @classmethod
    async def open(cls, recipe: Recipe, process: ModelProcess) -> LocalEmbedder:
        """Load the model. Raises as :meth:`Process.ask` does; the process is closed then."""
        try:
            return cls(recipe, process, await process.dimension())
        except BaseException:
            await process.close()
            raise

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does: an idle one ends, and is started again."""
        return self._process.pid

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        prefix = self.recipe.prefix(kind)
        prepared = [prefix + clean(text) for text in texts]
        if kind == "query" and len(prepared) <= _QUERIES:
            return self._cut(await self._process.ask(prepared, urgent=True))
        found: list[bytes] = [b""] * len(prepared)
        parts = slices([len(text) for text in prepared], _TEXTS, _CHARACTERS)
        await together(self._part(prepared, part, found) for part in parts)
        return found

    async def close(self) -> None:
        await self._process.close()

    async def _part(self, texts: Sequence[str], part: Sequence[int], found: list[bytes]) -> None:
        async with self._room:
            answer = await self._process.ask([texts[position] for position in part])
        for position, vector in zip(part, self._cut(answer), strict=True):
            found[position] = vector

    def _cut(self, vectors: bytes) -> list[bytes]:
        width = self.dimension * BYTES
        return [vectors[start : start + width] for start in range(0, len(vectors), width)]
