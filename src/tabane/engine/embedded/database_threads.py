"""The two threads of a database: one reads, one writes.

The reading thread: short queries run between the blocks of a long one. Two reading threads would compete
for one interpreter: each would be slower, and both together no faster. So there is one thread, and long
work calls :func:`give_way` between its blocks. Waiting short work then runs at once, on another
connection, so each piece of work has its own snapshot. Work declared as long waits for other long work.
Short work gives way to none: what waits is as short. Never call :func:`give_way` while holding a lock.

The writing thread: waiting jobs are committed together, and answered when they are on disk. Each job runs
in a savepoint: if it fails, it is undone without affecting the others. A commit includes the jobs that
are already waiting, for at most 2 ms or 100 rows. It never waits for more.

A :class:`LongWrite` is a job of many commits. It works until others wait, at most 20 ms, then its rows
are committed together with those of the others, and it waits behind them for its next turn.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from tabane.engine.embedded import failures
from tabane.engine.embedded.clean_points import CleanPoints
from tabane.engine.input_checks import ALONE, MOST_ROWS

SLICE = 0.004  # seconds that work runs before it gives way
_MOST_BETWEEN = 16  # short queries that run between two slices

_VALUES = 500  # of one query


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


MOST_WAITING = 1000
LONGEST_GROUP = 0.002  # seconds
LONGEST_TURN = 0.02  # seconds of a long write, where nobody waits
_SHORTEST_TURN = 0.002  # seconds: a commit has its price

Work = Callable[[sqlite3.Connection], Any]


class LongWrite(Protocol):
    """Work of many commits."""

    def step(self, connection: sqlite3.Connection, turn: WriteTurn) -> Any:
        """Do some of the work. If it fails, the rest is not done."""
        ...

    @property
    def done(self) -> bool:
        """Return whether nothing is left to do, or nobody wants it any more."""
        ...


@dataclass(slots=True)
class WriteJob:
    """Work, its number of rows, and a function that gets its result between commit and answer."""

    work: Work
    rows: int
    committed: Callable[[Any], None] | None
    answer: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None
    long: LongWrite | None = None  # of which ``work`` is a step


class CommitCompanion(Protocol):
    """Another file, written in the same thread, that must be on disk before each commit.

    ``ahead`` writes it to disk; its errors undo the commit. ``settled``: the commit succeeded. ``lost``: the
    commit failed, so the data written for it is unused.
    """

    def ahead(self) -> None: ...

    def settled(self) -> None: ...

    def lost(self) -> None: ...


class WriteThread:
    """Owns the writing connection from :meth:`start` until :meth:`close` returns."""

    def __init__(self, connection: sqlite3.Connection, path: str, points: CleanPoints) -> None:
        self._connection = connection
        self._path = path
        self._points = points
        self.companions: list[CommitCompanion] = []
        self._waiting: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"store-writer {path}", daemon=True)
        self._gate = threading.Lock()
        self._open = True
        self._held: WriteJob | None = None  # taken from the queue, too big for the commit it was taken for
        self._short = 0  # jobs in the queue that are no long writes

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: WriteJob) -> Future[Any]:
        """Queue the job. Raises StoreBusy if too much waits, StoreError after close."""
        with self._gate:
            if not self._open:
                raise failures.closed(self._path)
            if self._waiting.qsize() >= MOST_WAITING:
                raise failures.busy(self._path)
            self._put(job)
        return job.answer

    def submit_long(self, work: LongWrite, committed: Callable[[Any], None]) -> Future[Any]:
        """Queue work of many commits. ``committed`` gets the result of each step.

        Raises as :meth:`submit`.
        """
        job = WriteJob(lambda connection: work.step(connection, WriteTurn(self)), ALONE, committed, long=work)
        return self.submit(job)

    @property
    def pressed(self) -> bool:
        """Return whether a short job waits."""
        return self._short > 0

    def _put(self, job: WriteJob) -> None:
        self._short += job.long is None
        self._waiting.put(job)

    def _taken(self) -> WriteJob | None:
        job = self._waiting.get()
        if job is not None and job.long is None:
            with self._gate:
                self._short -= 1
        return job

    def close(self) -> None:
        """Finish waiting jobs, then end the thread. After that, the caller may use the connection."""
        with self._gate:
            if self._open:
                self._open = False
                self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._held or self._taken()) is not None:
            self._held = None
            self._group(job)
            self._points.committed(self._connection)

    def _group(self, first: WriteJob) -> None:
        """Commit the job together with waiting jobs that fit."""
        group: list[WriteJob] = []
        rows, deadline = 0, time.monotonic() + LONGEST_GROUP
        job: WriteJob | None = first
        while job is not None:
            rows += job.rows
            if job.answer.running() or job.answer.set_running_or_notify_cancel():
                group.append(job)
                if not self._run(job):
                    break
            if job.long is not None:  # short jobs that came meanwhile need no commit of their own
                rows, deadline = 0, time.monotonic() + LONGEST_GROUP
            job = self._next(rows, deadline)
        self._finish(group)

    def _next(self, rows: int, deadline: float) -> WriteJob | None:
        if time.monotonic() > deadline or self._waiting.empty():
            return None
        job = self._taken()
        if job is None:
            self._waiting.put(None)  # the end mark: read again after this commit
        elif rows + job.rows > MOST_ROWS:
            self._held = job
            return None
        return job

    def _run(self, job: WriteJob) -> bool:
        """Run the work in its savepoint. Return False if the whole transaction is lost."""
        connection = self._connection
        try:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            connection.execute("SAVEPOINT work")
            job.result = job.work(connection)
            connection.execute("RELEASE work")
        except BaseException as error:
            job.error = failures.storage_error(error, self._path)
            return self._undo()
        return True

    def _undo(self) -> bool:
        """Undo only the last work. Return False if SQLite rolled back the whole transaction."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO work")
                self._connection.execute("RELEASE work")
                return True
        except sqlite3.Error:
            self._rollback()
        return False

    def _finish(self, group: list[WriteJob]) -> None:
        lost: BaseException | None = None
        try:
            if self._connection.in_transaction:
                for companion in self.companions:
                    companion.ahead()
                self._connection.execute("COMMIT")
                for companion in self.companions:
                    companion.settled()
            else:
                lost = next((job.error for job in reversed(group) if job.error), None)
        except BaseException as error:
            self._rollback()
            lost = failures.storage_error(error, self._path)
        for job in group:
            self._answer(job, job.error or lost)

    def _answer(self, job: WriteJob, error: BaseException | None) -> None:
        if error is None and job.committed is not None:
            try:
                job.committed(job.result)
            except BaseException as raised:
                error = raised
        if error is not None:
            job.answer.set_exception(error)
        elif job.long is None or job.long.done:
            job.answer.set_result(job.result)
        else:
            self._continue(job)

    def _continue(self, job: WriteJob) -> None:
        """Let a long write wait for its next turn. At the end of the thread, it fails."""
        with self._gate:
            if self._open:
                self._put(job)
                return
        job.answer.set_exception(failures.closed(self._path))

    def _rollback(self) -> None:
        for companion in self.companions:
            companion.lost()
        # SQLite may have rolled back already; the error that matters is the first.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


class WriteTurn:
    """A turn of a long write, which begins now."""

    def __init__(self, thread: WriteThread) -> None:
        self._thread = thread
        self._began = time.monotonic()

    @property
    def over(self) -> bool:
        """Return whether it should end now. At least one row is written in each turn."""
        spent = time.monotonic() - self._began
        return spent >= (_SHORTEST_TURN if self._thread.pressed else LONGEST_TURN)


TOGETHER = 16  # rows of a statement


class RowInserts:
    """Rows for one table, in the order they were added. They are in the table after :meth:`flush`.

    Everything runs inside a transaction of the caller's.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        self._marks = f"({', '.join('?' * len(columns))})"
        self._values: list[Any] = []
        self._rows = 0

    def add(self, *values: Any) -> None:
        """Add a row, a value for each column."""
        self._values += values
        self._rows += 1
        if self._rows == TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Insert the rows that are not in the table yet."""
        if self._rows:
            statement = self._statement + ", ".join([self._marks] * self._rows)
            self._connection.execute(statement, self._values)
            self._values, self._rows = [], 0
