"""The reading thread: short queries run between the blocks of a long one.

Two reading threads would compete for one interpreter: each would be slower, and both together no faster. So
there is one thread, and long work calls :func:`give_way` between its blocks. Waiting short work then runs at
once, on another connection, so each piece of work has its own snapshot. Work declared as long waits for other
long work. Short work gives way to none: what waits is as short. Never call :func:`give_way` while holding a
lock.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

SLICE = 0.004  # seconds that work runs before it gives way
_MOST_BETWEEN = 16  # short queries that run between two slices

_VALUES = 500  # of one query

Work = Callable[[sqlite3.Connection], Any]


class ReadConnection(sqlite3.Connection):
    """A connection of the reading thread, through which work can give way."""

    reader: ReadThread | None = None


def give_way(connection: sqlite3.Connection) -> None:
    """Run waiting short queries if the slice is over. The caller must not hold a lock."""
    if isinstance(connection, ReadConnection) and connection.reader is not None:
        connection.reader.give_way()


def select_among(
    connection: sqlite3.Connection, query: str, values: Sequence[Any], before: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query that ends with ``IN``, for any number of values. Pauses for others.

    ``before`` are the parameters that come before the values.
    """
    for first in range(0, len(values), _VALUES):
        part = values[first : first + _VALUES]
        places = ", ".join("?" * len(part))
        yield from connection.execute(f"{query} ({places})", (*before, *part)).fetchall()
        give_way(connection)


@dataclass(slots=True)
class _ReadJob:
    work: Work
    long: bool
    answer: Future[Any] = field(default_factory=Future)


class ReadThread:
    """A thread with its connections, which ``connect`` creates; ``run`` does work on one of them."""

    def __init__(
        self, name: str, connect: Callable[[], ReadConnection], run: Callable[[ReadConnection, Work], Any]
    ) -> None:
        self._connect, self._run = connect, run
        self._connections: list[ReadConnection] = []
        self._depth = 0
        self._long_running = False
        self._began = 0.0
        self._short: deque[_ReadJob] = deque()
        self._long: deque[_ReadJob] = deque()
        self._waiting: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True for each waiting item, False: end
        self._turn = False  # whether the next one is a long one, if both wait
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._started = False

    def submit(self, work: Work, *, long: bool = False) -> Future[Any]:
        """Submit work. Call it on the event loop."""
        if not self._started:
            self._started = True
            self._thread.start()
        job = _ReadJob(work, long)
        (self._long if long else self._short).append(job)
        self._waiting.put(True)
        return job.answer

    def close(self) -> None:
        """Finish waiting work, end the thread, close the connections."""
        if self._started:
            self._waiting.put(False)
            self._thread.join()
        for connection in self._connections:
            connection.close()

    # In the thread

    def _work(self) -> None:
        while self._waiting.get():
            job = self._next()
            if job is not None:
                self._answer(job)

    def _next(self) -> _ReadJob | None:
        """Take from both queues in turns. None: the job was done between the slices of another one."""
        first, second = (self._long, self._short) if self._turn else (self._short, self._long)
        for waiting in (first, second):
            if waiting:
                self._turn = waiting is self._short
                return waiting.popleft()
        return None

    def give_way(self) -> None:
        """See :func:`give_way`."""
        if not self._long_running or not self._short or time.monotonic() - self._began < SLICE:
            return
        if threading.current_thread() is not self._thread:
            return
        for _ in range(_MOST_BETWEEN):
            if not self._short:  # the work that was done here gave way itself
                break
            self._answer(self._short.popleft())
        self._began = time.monotonic()

    def _answer(self, job: _ReadJob) -> None:
        if not job.answer.set_running_or_notify_cancel():
            return
        before, self._long_running = self._long_running, job.long
        self._depth += 1
        self._began = time.monotonic()
        try:
            result = self._run(self._connection(), job.work)
        except BaseException as error:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)
        finally:
            self._depth -= 1
            self._long_running = before

    def _connection(self) -> ReadConnection:
        """Return the connection for the current depth."""
        if len(self._connections) < self._depth:
            connection = self._connect()
            connection.reader = self
            self._connections.append(connection)
        return self._connections[self._depth - 1]
