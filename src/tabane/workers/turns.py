"""Turns of requests: fair between keys, in lanes, so that slow requests leave room for quick ones."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum, auto

from msgspec import Struct

from tabane.errors import WorkerBusy
from tabane.messages import say


class Lane(IntEnum):
    """What is known of a request: its key's last one was quick, there was none that was, or it is slow."""

    PROVEN = auto()
    NEW = auto()
    SLOW = auto()


class Capacity(Struct, frozen=True):
    """Limits of turns.

    ``turns`` are held at once, ``each`` by one key, and ``slow`` by slow requests (None: by any).
    ``reserved`` of them are only for requests of keys whose last one was quick. ``waiting`` requests of one
    key may wait, and ``size`` bytes of requests may wait or be in work in all.
    """

    turns: int = 2
    each: int = 1
    waiting: int = 64
    size: int = 256_000_000
    slow: int | None = None
    reserved: int = 0


class WorkerTurn(Struct, eq=False):
    """A turn that waits or is held."""

    key: str
    lane: Lane
    granted: asyncio.Future[None]


class FairTurns:
    """Grants turns in the order of the waiting keys. Use it on one event loop only."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._taken: Counter[str] = Counter()
        self._lanes: Counter[Lane] = Counter()
        self._waiting: OrderedDict[tuple[str, Lane], deque[WorkerTurn]] = OrderedDict()
        self._size = 0

    @property
    def waiting(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(
        self, key: str, size: int, patience: float | None = None, lane: Lane = Lane.NEW
    ) -> AsyncIterator[WorkerTurn]:
        """Wait for a turn, at most ``patience`` seconds, and hold it. Raises WorkerBusy.

        ``size`` is the request's, in bytes: it counts until the turn is over.
        """
        waiting = sum(len(self._waiting.get((key, lane), ())) for lane in Lane)
        if self._size + size > self._capacity.size or waiting >= self._capacity.waiting:
            raise WorkerBusy(say("Too much work is waiting already. Try again later."))
        self._size += size
        try:
            turn = await self._granted(key, lane, patience)
            try:
                yield turn
            finally:
                self._release(turn)
        finally:
            self._size -= size

    def slow_down(self, turn: WorkerTurn) -> bool:
        """Move a turn that is held to the slow lane; return False if that lane is full."""
        if turn.lane is not Lane.SLOW:
            if not self._is_slow_free():
                return False
            self._lanes[turn.lane] -= 1
            self._lanes[Lane.SLOW] += 1
            turn.lane = Lane.SLOW
        return True

    def _is_slow_free(self) -> bool:
        return self._capacity.slow is None or self._lanes[Lane.SLOW] < self._capacity.slow

    async def _granted(self, key: str, lane: Lane, patience: float | None) -> WorkerTurn:
        turn = WorkerTurn(key, lane, asyncio.get_running_loop().create_future())
        self._waiting.setdefault((key, lane), deque()).append(turn)
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

    def _withdraw(self, turn: WorkerTurn) -> None:
        if turn.granted.done() and not turn.granted.cancelled():
            self._release(turn)  # granted at the moment when its request was canceled
            return
        queue = self._waiting.get((turn.key, turn.lane))
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.key, turn.lane]

    def _release(self, turn: WorkerTurn) -> None:
        self._taken[turn.key] -= 1
        self._lanes[turn.lane] -= 1
        if not self._taken[turn.key]:
            del self._taken[turn.key]
        self._grant()

    def _grant(self) -> None:
        while self._taken.total() < self._capacity.turns:
            free = next((waiting for waiting in self._waiting if self._is_free(*waiting)), None)
            if free is None:
                return
            queue = self._waiting[free]
            turn = queue.popleft()
            self._waiting.move_to_end(free)
            if not queue:
                del self._waiting[free]
            if not turn.granted.done():
                self._taken[turn.key] += 1
                self._lanes[turn.lane] += 1
                turn.granted.set_result(None)

    def _is_free(self, key: str, lane: Lane) -> bool:
        if self._taken[key] >= self._capacity.each:
            return False
        if lane is Lane.PROVEN:
            return True
        others = self._lanes[Lane.NEW] + self._lanes[Lane.SLOW]
        is_open = others < self._capacity.turns - self._capacity.reserved
        return is_open and (lane is Lane.NEW or self._is_slow_free())
