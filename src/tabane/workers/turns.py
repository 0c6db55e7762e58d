"""Turns of requests: fair between keys, with a limit for slow ones."""

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

    ``turns`` are held at once, ``each`` by one key, and ``slow`` by slow requests (None: by any). ``waiting``
    requests of one key may wait, and ``size`` bytes of requests may wait or be in work in all.
    """

    turns: int = 2
    each: int = 1
    waiting: int = 64
    size: int = 256_000_000
    slow: int | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """A turn that waits or is held. ``slow``: it is one of the slow lane."""

    key: str
    slow: bool
    granted: asyncio.Future[None] = field(repr=False)


class FairTurns:
    """Grants turns in the order of the waiting keys. Use it on one event loop only."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._taken: Counter[str] = Counter()
        self._slow = 0
        self._waiting: OrderedDict[tuple[str, bool], deque[Turn]] = OrderedDict()
        self._size = 0

    @property
    def waiting(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(
        self, key: str, size: int, patience: float | None = None, *, slow: bool = False
    ) -> AsyncIterator[Turn]:
        """Wait for a turn, at most ``patience`` seconds, and hold it. Raises WorkerBusy.

        ``size`` is the request's, in bytes: it counts until the turn is over. ``slow``: of the slow lane.
        """
        waiting = len(self._waiting.get((key, False), ())) + len(self._waiting.get((key, True), ()))
        if self._size + size > self._capacity.size or waiting >= self._capacity.waiting:
            raise WorkerBusy(say("Too much work is waiting already. Try again later."))
        self._size += size
        try:
            turn = await self._granted(key, slow, patience)
            try:
                yield turn
            finally:
                self._release(turn)
        finally:
            self._size -= size

    def slow_down(self, turn: Turn) -> bool:
        """Move a turn that is held to the slow lane; return False if that lane is full."""
        if not turn.slow:
            if not self._is_slow_free():
                return False
            turn.slow = True
            self._slow += 1
        return True

    def _is_slow_free(self) -> bool:
        return self._capacity.slow is None or self._slow < self._capacity.slow

    async def _granted(self, key: str, slow: bool, patience: float | None) -> Turn:
        turn = Turn(key, slow, asyncio.get_running_loop().create_future())
        self._waiting.setdefault((key, slow), deque()).append(turn)
        self._grant()
        try:
            async with asyncio.timeout(patience):
                await turn.granted
        except BaseException as error:
            self._withdraw(turn)
            if isinstance(error, TimeoutError):
                raise WorkerBusy(say("Too much work is waiting already. Try again later.")) from None
            raise
        return turn

    def _withdraw(self, turn: Turn) -> None:
        if turn.granted.done() and not turn.granted.cancelled():
            self._release(turn)  # granted at the moment when its request was canceled
            return
        queue = self._waiting.get((turn.key, turn.slow))
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.key, turn.slow]

    def _release(self, turn: Turn) -> None:
        self._taken[turn.key] -= 1
        self._slow -= turn.slow
        if not self._taken[turn.key]:
            del self._taken[turn.key]
        self._grant()

    def _grant(self) -> None:
        while self._taken.total() < self._capacity.turns:
            lane = next((lane for lane in self._waiting if self._is_free(*lane)), None)
            if lane is None:
                return
            queue = self._waiting[lane]
            turn = queue.popleft()
            self._waiting.move_to_end(lane)
            if not queue:
                del self._waiting[lane]
            if not turn.granted.done():
                self._taken[turn.key] += 1
                self._slow += turn.slow
                turn.granted.set_result(None)

    def _is_free(self, key: str, slow: bool) -> bool:
        return self._taken[key] < self._capacity.each and (not slow or self._is_slow_free())
