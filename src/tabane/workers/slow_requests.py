"""Detection of slow requests, and their way into the slow lane."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from tabane.workers.turns import FairTurns, Lane, WorkerTurn
from tabane.workers.worker import Worker

_SLOW_FOR = 60.0  # seconds for which requests of a key begin in the slow lane after a slow one
_MOST_KEYS = 1_000


class LaneMemory:
    """The lanes in which requests begin, by what was seen of their keys. Use it on one event loop."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[Lane, float]] = OrderedDict()

    def lane(self, key: str) -> Lane:
        """Return the lane in which a request of this key begins."""
        lane, at = self._seen.get(key, (Lane.NEW, 0.0))
        expired = lane is Lane.SLOW and _now() - at > _SLOW_FOR
        return Lane.NEW if expired else lane

    def note(self, key: str, lane: Lane) -> None:
        """Note the lane that the last request of a key belonged to."""
        self._seen[key] = (lane, _now())
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KEYS:
            self._seen.popitem(last=False)


def _now() -> float:
    return asyncio.get_running_loop().time()


_PROVEN = 0.25
"""Share of its quick CPU time below which a request shows that those of its key are quick."""
_FRESH = 3.0  # times that the first request of a worker may take, because it imports what it needs
_LOOK = 0.05  # seconds at least between two looks at a worker's CPU time


class QuickWatch:
    """Watches a request in work, and moves it to the slow lane once it has used its ``quick`` CPU time.

    ``slow``: it used it. ``displaced``: the lane was full, and the worker was killed. ``lowered``: the
    worker's priority was lowered.
    """

    def __init__(self, worker: Worker, quick: float | None, turn: WorkerTurn, turns: FairTurns) -> None:
        self._worker, self._quick, self._turn, self._turns = worker, quick or 0.0, turn, turns
        self._begun = worker.seconds
        self._proven = self._quick * _PROVEN * (_FRESH if worker.is_fresh else 1.0)
        self.slow = self.displaced = self.lowered = False
        self._timer: asyncio.TimerHandle | None = None
        if quick is not None:
            if turn.lane is Lane.SLOW:
                self._lower()
            self._look_in(self._quick)

    @property
    def lane(self) -> Lane:
        """Return the lane that the request belonged to, by what it has used so far."""
        if self.slow or self._worker.pid is None:
            return Lane.SLOW if self.slow else Lane.NEW
        return Lane.PROVEN if self._worker.seconds - self._begun < self._proven else Lane.NEW

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
