"""What did not work a moment ago, and is not tried again before another has passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from tabane.search.embedding.embedder import NoModel

MOST = 100


class RecentFailures:
    """Why there is no model, for so many seconds each; the oldest are forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, tuple[float, NoModel]] = {}

    def get(self, what: Hashable) -> NoModel | None:
        """Why it failed, while that is to be believed."""
        until, why = self._known.get(what, (0.0, None))
        return why if self._clock() < until else None

    def add(self, what: Hashable, why: NoModel, seconds: float) -> NoModel:
        self._known.pop(what, None)
        self._known[what] = self._clock() + seconds, why
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return why

    def clear(self) -> None:
        """Try everything again."""
        self._known.clear()
