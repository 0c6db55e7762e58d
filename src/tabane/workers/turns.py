"""Fair turns at a few workers: keys take turns, and one key never has all workers."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tabane.errors import WorkerBusy
from tabane.messages import say


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of turns.

    ``turns`` are held at once, ``each`` by one key. ``waiting`` requests of one key may wait, and ``size``
    bytes of requests may wait or be in work in all.
    """

    turns: int = 2
    each: int = 1
    waiting: int = 64
    size: int = 256_000_000


@dataclass(slots=True, eq=False)
class _Waiting:
    key: str
    size: int
    granted: asyncio.Future[None] = field(repr=False)


class FairTurns:
    """Grants turns in the order of the waiting keys. Use it on one event loop only."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        self._size = 0

    @property
    def waiting(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, key: str, size: int, patience: float | None = None) -> AsyncIterator[None]:
        """Wait for a turn, at most ``patience`` seconds, and hold it. Raises WorkerBusy.

        ``size`` is the request's, in bytes: it counts until the turn is over.
        """
        if (
            self._size + size > self._capacity.size
            or len(self._waiting.get(key, ())) >= self._capacity.waiting
        ):
            raise WorkerBusy(say("Too much work is waiting already. Try again later."))
        self._size += size
        try:
            await self._granted(key, size, patience)
            try:
                yield
            finally:
                self._release(key)
        finally:
            self._size -= size

    async def _granted(self, key: str, size: int, patience: float | None) -> None:
        waiting = _Waiting(key, size, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, deque()).append(waiting)
        self._grant()
        try:
            async with asyncio.timeout(patience):
                await waiting.granted
        except BaseException as error:
            self._withdraw(waiting)
            if isinstance(error, TimeoutError):
                raise WorkerBusy(say("Too much work is waiting already. Try again later.")) from None
            raise

    def _withdraw(self, waiting: _Waiting) -> None:
        if waiting.granted.done() and not waiting.granted.cancelled():
            self._release(waiting.key)  # granted at the moment when its request was canceled
            return
        queue = self._waiting.get(waiting.key)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._waiting[waiting.key]

    def _release(self, key: str) -> None:
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        self._grant()

    def _grant(self) -> None:
        while self._taken.total() < self._capacity.turns:
            key = next((key for key in self._waiting if self._taken[key] < self._capacity.each), None)
            if key is None:
                return
            queue = self._waiting[key]
            waiting = queue.popleft()
            self._waiting.move_to_end(key)
            if not queue:
                del self._waiting[key]
            if not waiting.granted.done():
                self._taken[key] += 1
                waiting.granted.set_result(None)
