"""Token measures for the model of the settings, by files that are present. It never waits for a download."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tabane.errors import TabaneError
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.hub.models.model_opener import ModelOpener
    from tabane.hub.models.model_sources import MakeFinder
    from tabane.search.chunking.chunk import Measure
    from tabane.search.embedding.token_counting import TokenCounter

log = logging.getLogger(__name__)

REMEMBERED = 30.0
"""Seconds for which a measure is answered without looking again."""


class TokenMeasures:
    """Measures for the model of the settings. Several threads may use it.

    Texts are cut for the model that is open, else for the one in the cache or a folder. One that would have
    to be downloaded first is estimated from its family.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        environ: Mapping[str, str],
        opening: ModelOpener,
        errors: int | None = None,
        make_finder: MakeFinder | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._environ, self._opening = settings, environ, opening
        self._errors, self._make_finder, self._clock = errors, make_finder, clock
        self._turn = threading.Lock()
        self._known: tuple[Settings, float, Measure] | None = None
        self._counters: dict[str, TokenCounter] = {}
        self._closed = False

    def measure(self) -> Measure:
        """Return the measure, as :meth:`tabane.search.models.Models.measure`."""
        with self._turn:
            settings = self._settings()
            if self._known and self._known[0] is settings and self._clock() < self._known[1]:
                return self._known[2]
            with ThreadPoolExecutor(1) as thread:  # whoever calls may have an event loop of its own
                found = thread.submit(asyncio.run, self._look()).result()
            self._known = settings, self._clock() + REMEMBERED, found
            return found

    def close(self) -> None:
        """End the processes that count. What is measured from now on is estimated."""
        self._closed = True
        for counter in list(self._counters.values()):
            counter.close()

    async def _look(self) -> Measure:
        # Imported with the first text that is cut: a hub that only forwards needs none of it.
        from tabane.hub.models.model_sources import ModelSources
        from tabane.search.embedding import token_counting

        sources = ModelSources(self._settings, self._environ, self._make_finder)
        try:
            found = await sources.at_hand(self._opening.opened)
        except (TabaneError, OSError) as error:
            log.warning("tokens are estimated: %s", error)
            return token_counting.estimated(None)
        if found is None:
            return token_counting.estimated(None)
        tokenizer = token_counting.tokenizer_in(found.spec.folder) if found.spec else None
        if tokenizer is None or self._closed:
            return token_counting.estimated(found.recipe)
        return token_counting.exact(found.recipe, self._counter(tokenizer))

    def _counter(self, tokenizer: str) -> TokenCounter:
        from tabane.search.embedding.token_counting import TokenCounter

        if tokenizer not in self._counters:
            self._counters[tokenizer] = TokenCounter(tokenizer, self._environ, self._errors)
        return self._counters[tokenizer]
