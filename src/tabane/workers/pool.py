"""Several workers of one kind: started on demand, used in fair turns, ended when they are idle.

A pool may have two lanes. A request that has used more than its quick CPU time moves to the slow lane: it
gets a lower priority, or waits until another slow one has finished. So quick requests always find a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from tabane.errors import WorkerEnded, WorkerUnavailable
from tabane.messages import say
from tabane.workers.slow_requests import LaneMemory, QuickWatch
from tabane.workers.turns import Capacity, FairTurns, Lane, WorkerTurn
from tabane.workers.worker import STARTS, Program, RestartPolicy, Worker


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
        """Return the ids of the running processes."""
        return [worker.pid for worker in (*self._busy, *self._resting) if worker.pid is not None]

    @property
    def busy(self) -> list[int]:
        """Return the ids of those at work."""
        return [worker.pid for worker in self._busy if worker.pid is not None]

    async def ask(self, body: bytes, budget: Budget, *, key: str = "", lane: Lane = Lane.PROVEN) -> bytes:
        """Return a worker's answer. Requests of one ``key`` never use all workers at once.

        ``lane`` is the best one in which it may begin: a request that will take long is not for the others.
        Raises WorkerBusy, WorkerUnavailable, WorkerSpent, WorkerEnded; ValueError for a body beyond LONGEST.
        """
        lane = max(lane, self._memory.lane(key)) if budget.quick is not None else Lane.NEW
        try:
            return await self._in_turn(body, budget, key, lane)
        except _Displaced:
            return await self._in_turn(body, budget, key, Lane.SLOW)

    async def close(self) -> None:
        """End all workers; their requests fail."""
        self._closed = True
        for worker in self._busy:
            worker.kill()
        for worker in list(self._resting):
            self._retire(worker)
        await self._empty.wait()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _in_turn(self, body: bytes, budget: Budget, key: str, lane: Lane) -> bytes:
        async with self._turns.turn(key, len(body), budget.patience, lane) as turn:
            for left in reversed(range(budget.tries)):
                try:
                    return await self._answer(body, budget, turn)
                except WorkerEnded:
                    if not left or self._closed:
                        self._check_open()
                        raise
        raise AssertionError("a budget without tries")

    async def _answer(self, body: bytes, budget: Budget, turn: WorkerTurn) -> bytes:
        worker = await self._ready()
        try:
            with self._watch(worker, budget, turn) as watch:
                answer = await worker.ask(body, seconds=budget.seconds, deadline=budget.deadline)
        except BaseException as error:
            await self._bury(worker)
            if isinstance(error, WorkerEnded) and watch.displaced:
                raise _Displaced from None
            raise
        self._busy_no_more(worker)
        if worker.usable and not watch.lowered and not self._closed:
            self._rest(worker)
        else:  # a priority cannot be raised again
            self._end_later(worker)
        return answer

    @contextmanager
    def _watch(self, worker: Worker, budget: Budget, turn: WorkerTurn) -> Iterator[QuickWatch]:
        watch = QuickWatch(worker, budget.quick, turn, self._turns)
        try:
            yield watch
        finally:
            watch.stop()
            if budget.quick is not None:
                self._memory.note(turn.key, watch.lane)

    async def _ready(self) -> Worker:
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
                return await self._started()
            except WorkerUnavailable:
                if not left or self._closed:
                    raise
        raise AssertionError("no tries")

    async def _started(self) -> Worker:
        self._check_open()
        worker = Worker(self._program)
        self._busy.add(worker)
        self._empty.clear()
        try:
            await worker.start()
            self._check_open()
        except BaseException as error:
            await self._bury(worker)
            if isinstance(error, WorkerUnavailable):
                self._restarts.failed()
            raise
        self._restarts.succeeded()
        return worker

    def _check_open(self) -> None:
        if self._closed:
            raise WorkerUnavailable(say("The worker processes are stopping."))

    def _rest(self, worker: Worker) -> None:
        timer = asyncio.get_running_loop().call_later(self._idle, self._retire, worker)
        self._resting[worker] = timer

    def _retire(self, worker: Worker) -> None:
        self._resting.pop(worker).cancel()
        self._end_later(worker)

    async def _bury(self, worker: Worker) -> None:
        """Kill a worker and wait for its end, so that its memory is free for the next one."""
        worker.kill()
        try:
            await asyncio.shield(self._end_later(worker))
        finally:
            self._busy_no_more(worker)

    def _busy_no_more(self, worker: Worker) -> None:
        self._busy.discard(worker)
        if not self._busy:
            self._empty.set()

    def _end_later(self, worker: Worker) -> asyncio.Task[None]:
        ending = asyncio.get_running_loop().create_task(worker.end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending
