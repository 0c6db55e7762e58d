"""Pace of requests to an embedding server: texts of a request and requests at once, learned from answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FIRST_TEXTS = 4
"""Texts of the first request. A fast server gets the most after three answers, a slow one is not overrun."""

COMFORTABLE = 2.0
"""Seconds that a request should take at most: a query that waits behind it still gets its answer in time."""

_PARTS = 8  # of the timeout: a request that takes one of them is not quick either


class RequestPace:
    """Room for requests to one server.

    ``texts`` is how many a request may carry. It doubles with each quick answer until one takes longer than
    it should. It halves with each timeout, after which it grows by one at a time. Several requests run at the
    same time only while all answers are quick. ``timeout`` is the seconds of one request.
    """

    def __init__(self, most_texts: int, most_requests: int, timeout: float) -> None:
        self.texts, self.requests = min(FIRST_TEXTS, most_texts), 1
        self.unanswered = 0
        """Timeouts since the last answer."""
        self._most_texts, self._most_requests = most_texts, most_requests
        self._goal = min(COMFORTABLE, timeout / _PARTS)
        self._careful = False  # there was a timeout
        self._running = 0
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Wait until one more request may run, and count it during the block."""
        async with self._room:
            await self._room.wait_for(lambda: self._running < self.requests)
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            async with self._room:
                self._room.notify_all()

    def answered(self, texts: int, seconds: float) -> None:
        """Learn from an answer to a request with so many texts."""
        self.unanswered = 0
        fitting = max(1, int(texts * self._goal / max(seconds, 1e-6)))
        if seconds > self._goal:
            self.texts, self.requests = min(self.texts, fitting), 1
        elif texts >= self.texts:
            grown = self.texts + 1 if self._careful else 2 * self.texts
            self.texts = max(self.texts, min(grown, fitting, self._most_texts))
            if 2 * seconds <= self._goal:
                self.requests = min(self.requests + 1, self._most_requests)

    def timed_out(self, texts: int) -> None:
        """Learn that a request with so many texts got no answer in time."""
        self.unanswered += 1
        self.texts, self.requests, self._careful = max(1, min(self.texts, texts // 2)), 1, True

    def declined(self) -> None:
        """Learn that the server asks for fewer requests."""
        self.requests = 1
