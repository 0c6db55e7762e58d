"""Several workers of one kind: started on demand, used in fair turns, ended when they are idle.

A pool may have two lanes. A request that has used more than its quick CPU time moves to the slow lane: it
gets a lower priority, or waits until another slow one has finished. So quick requests always find a worker.

Turns are fair between keys: one with many requests delays only its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import IntEnum, auto

from msgspec import Struct

from tabane.errors import WorkerBusy, WorkerEnded, WorkerUnavailable
from tabane.messages import say
from tabane.workers.worker import STARTS, Program, RestartPolicy, Worker, loop_time


class Lane(IntEnum):
    """The expected speed of a request: the last one of its key was quick, none was yet, or it is slow."""

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
            turn = WorkerTurn(key, lane, asyncio.get_running_loop().create_future())
            self._waiting.setdefault((key, lane), deque()).append(turn)
            self._grant_turns()
            try:
                async with asyncio.timeout(patience):
                    await turn.granted
            except BaseException as error:
                self._withdraw_turn(turn)
                if isinstance(error, TimeoutError):
                    raise WorkerBusy(say("Too much work is waiting already. Try again later.")) from None
                raise
            try:
                yield turn
            finally:
                self._release_turn(turn)
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

    def _withdraw_turn(self, turn: WorkerTurn) -> None:
        if turn.granted.done() and not turn.granted.cancelled():
            self._release_turn(turn)  # granted at the moment when its request was canceled
            return
        queue = self._waiting.get((turn.key, turn.lane))
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.key, turn.lane]

    def _release_turn(self, turn: WorkerTurn) -> None:
        self._taken[turn.key] -= 1
        self._lanes[turn.lane] -= 1
        if not self._taken[turn.key]:
            del self._taken[turn.key]
        self._grant_turns()

    def _grant_turns(self) -> None:
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


_SLOW_FOR = 60.0  # seconds for which requests of a key begin in the slow lane after a slow one
_MOST_KEYS = 1_000


class LaneMemory:
    """The lanes in which requests begin, by what was seen of their keys. Use it on one event loop."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[Lane, float]] = OrderedDict()

    def lane(self, key: str) -> Lane:
        """Return the lane in which a request of this key begins."""
        lane, at = self._seen.get(key, (Lane.NEW, 0.0))
        expired = lane is Lane.SLOW and loop_time() - at > _SLOW_FOR
        return Lane.NEW if expired else lane

    def note(self, key: str, lane: Lane) -> None:
        """Note the lane that the last request of a key belonged to."""
        self._seen[key] = (lane, loop_time())
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KEYS:
            self._seen.popitem(last=False)


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
                self._lower_priority()
            self._look_in(self._quick)

    @property
    def lane(self) -> Lane:
        """The lane that the request belonged to, by what it has used so far."""
        if self.slow or self._worker.pid is None:
            return Lane.SLOW if self.slow else Lane.NEW
        return Lane.PROVEN if self._worker.seconds - self._begun < self._proven else Lane.NEW

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(seconds, _LOOK), self._look_at_time)

    def _look_at_time(self) -> None:
        left = self._quick - (self._worker.seconds - self._begun)
        if left > 0:
            self._look_in(left)
            return
        self.slow = True
        if self._turns.slow_down(self._turn):
            self._lower_priority()
        else:
            self.displaced = True
            self._worker.kill()

    def _lower_priority(self) -> None:
        self.lowered = True
        self._worker.lower_priority()


class Budget(Struct, frozen=True):
    """Limits of one request: ``seconds`` of CPU time, ``deadline`` by the clock after it began.

    ``patience`` is the seconds it may wait for its turn, None for any. ``tries`` is how many processes it
    may crash: a process that crashed for another reason must not cost a request. ``quick`` is the seconds of
    CPU time after which it is slow, None for never.
    """

    seconds: float = 10.0
    deadline: float = 60.0
    patience: float | None = None
    tries: int = 2
    quick: float | None = None


class _Displaced(Exception):
    """A request became slow while the slow lane was full. It has to begin again in that lane."""


class Pool:
    """Workers that run one program. Use it on one event loop only.

    ``idle`` is the seconds after which a worker without work is ended.
    """

    def __init__(self, program: Program, capacity: Capacity | None = None, *, idle: float = 300.0) -> None:
        self._program, self._idle = program, idle
        self._turns = FairTurns(capacity or Capacity())
        self._memory = LaneMemory()
        self._resting: dict[Worker, asyncio.TimerHandle] = {}
        self._busy: set[Worker] = set()
        self._restarts = RestartPolicy()
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [worker.pid for worker in (*self._busy, *self._resting) if worker.pid is not None]

    @property
    def busy(self) -> list[int]:
        """The ids of those at work."""
        return [worker.pid for worker in self._busy if worker.pid is not None]

    async def ask(self, body: bytes, budget: Budget, *, key: str = "", lane: Lane = Lane.PROVEN) -> bytes:
        """Return a worker's answer. Requests of one ``key`` never use all workers at once.

        ``lane`` is the best one in which it may begin: a request that will take long is not for the others.
        Raises WorkerBusy, WorkerUnavailable, WorkerSpent, WorkerEnded; ValueError for a body beyond LONGEST.
        """
        lane = max(lane, self._memory.lane(key)) if budget.quick is not None else Lane.NEW
        try:
            return await self._ask_in_turn(body, budget, key, lane)
        except _Displaced:
            return await self._ask_in_turn(body, budget, key, Lane.SLOW)

    async def close(self) -> None:
        """End all workers; their requests fail."""
        self._closed = True
        for worker in self._busy:
            worker.kill()
        for worker in list(self._resting):
            self._retire_worker(worker)
        await self._empty.wait()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _ask_in_turn(self, body: bytes, budget: Budget, key: str, lane: Lane) -> bytes:
        async with self._turns.turn(key, len(body), budget.patience, lane) as turn:
            for left in reversed(range(budget.tries)):
                try:
                    return await self._answer_with_worker(body, budget, turn)
                except WorkerEnded:
                    if not left or self._closed:
                        self._check_open()
                        raise
        raise AssertionError("a budget without tries")

    async def _answer_with_worker(self, body: bytes, budget: Budget, turn: WorkerTurn) -> bytes:
        worker = await self._ready_worker()
        try:
            with self._watch_request(worker, budget, turn) as watch:
                answer = await worker.ask(body, seconds=budget.seconds, deadline=budget.deadline)
        except BaseException as error:
            await self._bury_worker(worker)
            if isinstance(error, WorkerEnded) and watch.displaced:
                raise _Displaced from None
            raise
        self._remove_busy(worker)
        if worker.usable and not watch.lowered and not self._closed:
            timer = asyncio.get_running_loop().call_later(self._idle, self._retire_worker, worker)
            self._resting[worker] = timer
        else:  # a priority cannot be raised again
            self._end_later(worker)
        return answer

    @contextmanager
    def _watch_request(self, worker: Worker, budget: Budget, turn: WorkerTurn) -> Iterator[QuickWatch]:
        watch = QuickWatch(worker, budget.quick, turn, self._turns)
        try:
            yield watch
        finally:
            watch.stop()
            if budget.quick is not None:
                self._memory.note(turn.key, watch.lane)

    async def _ready_worker(self) -> Worker:
        """Return a free worker; start one if none is free."""
        self._check_open()
        while self._resting:
            worker, timer = self._resting.popitem()
            timer.cancel()
            if worker.usable:
                self._busy.add(worker)
                self._empty.clear()
                return worker
            self._end_later(worker)
        for left in reversed(range(STARTS)):
            await self._restarts.pause()
            try:
                return await self._start_worker()
            except WorkerUnavailable:
                if not left or self._closed:
                    raise
        raise AssertionError("no tries")

    async def _start_worker(self) -> Worker:
        self._check_open()
        worker = Worker(self._program)
        self._busy.add(worker)
        self._empty.clear()
        try:
            await worker.start()
            self._check_open()
        except BaseException as error:
            await self._bury_worker(worker)
            if isinstance(error, WorkerUnavailable):
                self._restarts.failed()
            raise
        self._restarts.succeeded()
        return worker

    def _check_open(self) -> None:
        if self._closed:
            raise WorkerUnavailable(say("The worker processes are stopping."))

    def _retire_worker(self, worker: Worker) -> None:
        self._resting.pop(worker).cancel()
        self._end_later(worker)

    async def _bury_worker(self, worker: Worker) -> None:
        """Kill a worker and wait for its end, so that its memory is free for the next one."""
        worker.kill()
        try:
            await asyncio.shield(self._end_later(worker))
        finally:
            self._remove_busy(worker)

    def _remove_busy(self, worker: Worker) -> None:
        self._busy.discard(worker)
        if not self._busy:
            self._empty.set()

    def _end_later(self, worker: Worker) -> asyncio.Task[None]:
        ending = asyncio.get_running_loop().create_task(worker.end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending
