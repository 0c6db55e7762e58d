"""Several workers of one kind: started on demand, used in fair turns, ended when they are idle."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tabane.errors import WorkerBusy, WorkerEnded, WorkerUnavailable
from tabane.messages import say
from tabane.workers.worker import STARTS, Program, RestartPolicy, Worker


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


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one request: ``seconds`` of CPU time, ``deadline`` by the clock after it began.

    ``patience`` is the seconds it may wait for its turn, None for any. ``tries`` is how many processes it
    may crash: a process that crashed for another reason must not cost a request.
    """

    seconds: float = 10.0
    deadline: float = 60.0
    patience: float | None = None
    tries: int = 2


class Pool:
    """Workers that run one program. Use it on one event loop only.

    ``idle`` is the seconds after which a worker without work is ended.
    """

    def __init__(self, program: Program, capacity: Capacity | None = None, *, idle: float = 300.0) -> None:
        self._program, self._idle = program, idle
        self._turns = FairTurns(capacity or Capacity())
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

    async def ask(self, body: bytes, budget: Budget, *, key: str = "") -> bytes:
        """Return a worker's answer. Requests of one ``key`` never use all workers at once.

        Raises WorkerBusy, WorkerUnavailable, WorkerSpent, WorkerEnded; ValueError for a body beyond LONGEST.
        """
        async with self._turns.turn(key, len(body), budget.patience):
            for left in reversed(range(budget.tries)):
                try:
                    return await self._answer(body, budget)
                except WorkerEnded:
                    if not left or self._closed:
                        self._check_open()
                        raise
        raise AssertionError("a budget without tries")

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

    async def _answer(self, body: bytes, budget: Budget) -> bytes:
        worker = await self._ready()
        try:
            answer = await worker.ask(body, seconds=budget.seconds, deadline=budget.deadline)
        except BaseException:
            await self._bury(worker)
            raise
        self._busy_no_more(worker)
        if worker.usable and not self._closed:
            self._rest(worker)
        else:
            self._end_later(worker)
        return answer

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
