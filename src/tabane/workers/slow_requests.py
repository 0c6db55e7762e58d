"""Detection of slow requests, and their way into the slow lane."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from tabane.workers.turns import FairTurns, Turn
from tabane.workers.worker import Worker

_SLOW_FOR = 60.0  # seconds for which requests of a key begin in the slow lane after a slow one
_MOST_SLOW_KEYS = 1_000


class SlowKeys:
    """Keys whose last request was slow: their next ones begin in the slow lane. Use it on one event loop."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return self._until.get(key, 0.0) > asyncio.get_running_loop().time()

    def note(self, key: str, slow: bool) -> None:
        """Note whether the last request of a key was slow."""
        self._until.pop(key, None)
        if slow:
            self._until[key] = asyncio.get_running_loop().time() + _SLOW_FOR
            if len(self._until) > _MOST_SLOW_KEYS:
                self._until.popitem(last=False)


_LOOK = 0.05  # seconds at least between two looks at a worker's CPU time


class QuickWatch:
    """Watches a request in work, and moves it to the slow lane once it has used its ``quick`` CPU time.

    ``slow``: it used it. ``displaced``: the lane was full, and the worker was killed. ``lowered``: the
    worker's priority was lowered.
    """

    def __init__(self, worker: Worker, quick: float | None, turn: Turn, turns: FairTurns) -> None:
        self._worker, self._quick, self._turn, self._turns = worker, quick or 0.0, turn, turns
        self._begun = worker.seconds
        self.slow = self.displaced = self.lowered = False
        self._timer: asyncio.TimerHandle | None = None
        if quick is not None:
            if turn.slow:
                self._lower()
            self._look_in(self._quick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(seconds, _LOOK), self._look)

    def _look(self) -> None:
        left = self._quick - (self._worker.seconds - self._begun)
        if left > 0:
            self._look_in(left)
            return
        self.slow = True
        if self._turns.slow_down(self._turn):
            self._lower()
        else:
            self.displaced = True
            self._worker.kill()

    def _lower(self) -> None:
        self.lowered = True
        self._worker.lower_priority()
