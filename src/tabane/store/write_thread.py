"""The writing thread: waiting jobs are committed together, and answered when they are on disk.

Each job runs in a savepoint: if it fails, it is undone without affecting the others. A commit includes the
jobs that are already waiting, for at most 2 ms or 100 rows. It never waits for more.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from tabane.engines.input_checks import MOST_ROWS
from tabane.store import failures
from tabane.store.clean_points import CleanPoints

MOST_WAITING = 1000
LONGEST_GROUP = 0.002  # seconds

Work = Callable[[sqlite3.Connection], Any]


@dataclass(slots=True)
class WriteJob:
    """Work, its number of rows, and a function that gets its result between commit and answer."""

    work: Work
    rows: int
    committed: Callable[[Any], None] | None
    answer: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None


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

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: WriteJob) -> Future[Any]:
        """Queue the job. Raises StoreBusy if too much waits, StoreError after close."""
        with self._gate:
            if not self._open:
                raise failures.closed(self._path)
            if self._waiting.qsize() >= MOST_WAITING:
                raise failures.busy(self._path)
            self._waiting.put(job)
        return job.answer

    def close(self) -> None:
        """Finish waiting jobs, then end the thread. After that, the caller may use the connection."""
        with self._gate:
            if self._open:
                self._open = False
                self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._held or self._waiting.get()) is not None:
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
            if job.answer.set_running_or_notify_cancel():
                group.append(job)
                if not self._run(job):
                    break
            job = self._next(rows, deadline)
        self._finish(group)

    def _next(self, rows: int, deadline: float) -> WriteJob | None:
        if time.monotonic() > deadline or self._waiting.empty():
            return None
        job = self._waiting.get()
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
        if error is None:
            job.answer.set_result(job.result)
        else:
            job.answer.set_exception(error)

    def _rollback(self) -> None:
        for companion in self.companions:
            companion.lost()
        # SQLite may have rolled back already; the error that matters is the first.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
