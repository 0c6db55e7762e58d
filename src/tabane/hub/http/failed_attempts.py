"""Failed attempts to show who one is: counted by source, and answered the later the more there are."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tabane.hub.http.sources import MOST_SOURCES

FREE = 3
"""Failures of a source that are answered at once: a client with an old token fails once or twice."""

FIRST_DELAY, LONGEST_DELAY = 0.1, 4.0
"""Seconds before the next answer to a failure; the delay doubles with each."""

FORGIVEN = 15.0
"""Seconds without a failure after which one of them is forgotten."""

MOST_COUNTED = 16
"""Failures that count, so that a source is forgiven in minutes whatever it did."""

MOST_HELD, MOST_HELD_OF_SOURCE = 256, 4
"""Answers that wait at the same time. A further failure is answered at once, with 429."""


class SourceFailures(NamedTuple):
    """The failures of a source that are not forgiven yet, and when they were counted."""

    counted: float
    since: float


class FailedAttempts:
    """Counts failures by source. ``on_refused`` is called with the source and the reason of each.

    ``counts`` has the refusals by reason, for the metrics. A valid key is not slowed down by the failures
    of others at its address: only answers to failures wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_refused: Callable[[str, str], None]) -> None:
        self._loop, self._on_refused = loop, on_refused
        self._failures: OrderedDict[str, SourceFailures] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def waiting(self) -> int:
        """Return the number of answers that wait."""
        return self._waiting

    def delay(self, source: str) -> float:
        """Return the seconds that the answer to a failure of that source waits now."""
        over = self._count(source) - FREE
        return 0.0 if over <= 0 else min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (over - 1))

    def crowded(self, source: str) -> bool:
        """Return whether a further failure of that source would get no place to wait."""
        return self._waiting >= MOST_HELD or self._held[source] >= MOST_HELD_OF_SOURCE

    def missing(self) -> None:
        """Count a request that showed nothing: no attempt, so nobody is slowed down or reported."""
        self.counts["missing"] += 1

    async def fail(self, source: str, reason: str) -> float | None:
        """Count a failure, and wait. Return None; the seconds until the next attempt if nothing may wait."""
        self._add(source)
        delay = self.delay(source)
        if delay and self.crowded(source):
            self.counts["limited"] += 1
            return delay
        self.counts[reason] += 1
        self._on_refused(source, reason)
        if delay:
            await self._wait(source, delay)
        return None

    def note(self, source: str, reason: str) -> None:
        """Count a failure that is answered at once, in another way."""
        self._add(source)
        self.counts[reason] += 1

    def _add(self, source: str) -> None:
        count = min(MOST_COUNTED, self._count(source) + 1)
        self._failures.pop(source, None)
        self._failures[source] = SourceFailures(count, self._loop.time())
        if len(self._failures) > MOST_SOURCES:
            self._failures.popitem(last=False)

    async def _wait(self, source: str, delay: float) -> None:
        self._held[source] += 1
        self._waiting += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._waiting -= 1
            self._held[source] -= 1
            if not self._held[source]:
                del self._held[source]

    def _count(self, source: str) -> float:
        found = self._failures.get(source)
        if found is None:
            return 0.0
        return max(0.0, found.counted - (self._loop.time() - found.since) / FORGIVEN)
