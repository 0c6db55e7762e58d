"""The reranker of the settings, opened on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

from tabane.errors import ModelUnavailable, TabaneError
from tabane.hub.models.model_opener import ModelOpener, RecentFailures
from tabane.hub.models.open_models import OpenModel, OpenModels
from tabane.search.embedding.embedder import NoModel

if TYPE_CHECKING:
    from tabane.search.embedding.reranking import FoundReranker, LocalReranker, RerankerChoice


class HubReranker:
    """Implements :class:`tabane.search.models.Reranker`.

    At most one model is open, whatever the settings name.
    """

    def __init__(
        self, opening: ModelOpener, environ: Mapping[str, str], errors: int | None, remembered: float
    ) -> None:
        self._opening, self._environ, self._errors = opening, environ, errors
        self._remembered = remembered
        self._shelf: OpenModels[FoundReranker, LocalReranker] = OpenModels(1)
        self._chosen: dict[RerankerChoice, FoundReranker] = {}
        self._failures = RecentFailures()
        self._turn = asyncio.Lock()

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return scores as :class:`~tabane.search.models.Reranker`.

        One that failed is not tried again for a while.
        """
        standing = await self._standing()
        async with self._shelf.using(standing) as reranker:
            return await reranker.score(query, texts)

    @property
    def open(self) -> OpenModel[FoundReranker, LocalReranker] | None:
        """Return the one that is open now."""
        return next(iter(self._shelf.standing), None)

    def look_again(self) -> None:
        """Forget failures and choices, because something has changed."""
        self._failures.clear()
        self._chosen.clear()

    async def close(self) -> None:
        await self._shelf.close()

    async def _standing(self) -> OpenModel[FoundReranker, LocalReranker]:
        sources = await self._opening.sources()
        wanted = sources.reranker()
        async with self._turn:
            failed = self._failures.get(wanted)
            if failed is not None:
                raise ModelUnavailable(failed.reason)
            try:
                found = self._chosen.get(wanted) or await sources.find_reranker(wanted)
                self._chosen = {wanted: found}
                return await self._shelf.open(found, self._starting(found), lambda _: found.model)
            except TabaneError as error:
                self._failures.add(wanted, NoModel(error.message), self._remembered)
                raise

    def _starting(self, found: FoundReranker) -> Callable[[], Coroutine[None, None, LocalReranker]]:
        async def start() -> LocalReranker:
            return await found.open(self._environ, self._errors)

        return start
