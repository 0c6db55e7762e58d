"""The writing thread of a store: waiting jobs are committed together, and answered when they are committed.

Each job runs in a savepoint: if it fails, it is undone without affecting the others. If the connection is
lost, the jobs run once more, unless their commit was made: the server is asked by the number of the
transaction, so nothing is written twice.

Space of deleted rows is given back beside it (VACUUM): the server's own autovacuum looks once a minute, and
meanwhile a table that is filled and emptied grows by all that passes through it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, sql

from tabane.engine.input_checks import ALONE, MOST_ROWS
from tabane.engine.team.postgres import connections
from tabane.engine.team.postgres.connections import LostCommit, SilentServer
from tabane.engine.team.postgres.database import MaintenanceThread, PostgresDatabase
from tabane.errors import StoreReadOnly

log = logging.getLogger(__name__)

MOST_WAITING = 1000
_LONGEST_GROUP = 0.002  # seconds
_SETTLING = 15.0  # seconds until a transaction whose connection was lost must have ended
_PAUSE = 0.05  # seconds between two questions


Work = Callable[[psycopg.Connection], Any]


@dataclass(slots=True)
class CommitJob:
    """Work, its number of rows, and a function that gets its result between commit and answer."""

    work: Work
    rows: int
    committed: Callable[[Any], None] | None = None
    answer: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None


class CommitThread:
    """Owns the writing connection, which is made with the first job.

    ``longest``: seconds of a statement, if they are fewer than those of the database.
    """

    def __init__(self, database: PostgresDatabase, longest: float | None = None) -> None:
        self._database, self._longest = database, longest
        self._connection: psycopg.Connection | None = None
        self._waiting: queue.SimpleQueue[CommitJob | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._open = True
        self._held: CommitJob | None = None
        self._maintenance = MaintenanceThread(database, "postgres-vacuum")
        self._thread = threading.Thread(target=self._work, name="postgres-writer", daemon=True)
        self._thread.start()

    def submit(self, job: CommitJob) -> Future[Any]:
        """Queue the job. Raises StoreBusy if too much waits, StoreError after close."""
        with self._gate:
            if not self._open:
                raise connections.closed(self._database.place)
            if self._waiting.qsize() >= MOST_WAITING:
                raise connections.busy(self._database.place)
            self._waiting.put(job)
        return job.answer

    def tidy(self, work: Callable[[psycopg.Connection], Sequence[sql.Identifier]]) -> None:
        """Attempt work that returns tables with many deleted rows, whose space is given back afterwards."""
        self.attempt(work, lambda tables: self._maintenance.submit(self._vacuum, tables))

    def _vacuum(self, tables: Sequence[sql.Identifier]) -> None:
        """Give space back, within the time of a statement. The rest is left to the server's autovacuum."""
        try:
            with self._maintenance.connected() as connection:
                for table in tables:
                    connection.execute(sql.SQL("VACUUM (SKIP_LOCKED) {}").format(table))
        except psycopg.Error as error:
            if self._maintenance.is_open:
                log.info("space of deleted rows is left to autovacuum: %s", error)

    def attempt(self, work: Work, committed: Callable[[Any], None] | None = None) -> None:
        """Queue work that nobody waits for, unless much waits. If it fails, it is left for another time."""
        job = CommitJob(work, ALONE, committed)
        with self._gate:
            if self._open and self._waiting.qsize() < MOST_WAITING // 2:
                self._waiting.put(job)

    def close(self) -> None:
        """Finish waiting jobs, then end the thread and its connection."""
        self._database.hurry()
        with self._gate:
            if self._open:
                self._open = False
                self._waiting.put(None)
        self._thread.join()
        self._maintenance.close()

    def _work(self) -> None:
        while (job := self._held or self._waiting.get()) is not None:
            self._held = None
            group = [each for each in self._collect_group(job) if each.answer.set_running_or_notify_cancel()]
            if group:
                self._write_group(group)
        self._disconnect()

    def _collect_group(self, first: CommitJob) -> list[CommitJob]:
        """Return the job with waiting jobs that fit into its commit."""
        group, rows, deadline = [first], first.rows, time.monotonic() + _LONGEST_GROUP
        while rows < MOST_ROWS and time.monotonic() < deadline and not self._waiting.empty():
            job = self._waiting.get()
            if job is None:
                self._waiting.put(None)  # the end mark: read again after this commit
                break
            if rows + job.rows > MOST_ROWS:
                self._held = job
                break
            group.append(job)
            rows += job.rows
        return group

    def _write_group(self, group: list[CommitJob]) -> None:
        lost: BaseException | None = None
        try:
            if not self._commit_group(group, last=False):
                self._commit_group(group, last=True)
        except BaseException as error:
            self._disconnect()
            lost = connections.store_error(error, self._database.place)
        if any(isinstance(job.error, StoreReadOnly) for job in group):
            self._disconnect()  # another primary may have taken over
        for job in group:
            self._answer_job(job, job.error or lost)

    def _commit_group(self, group: list[CommitJob], *, last: bool) -> bool:
        """Return False if the connection was lost, and nothing was written. Raises psycopg's errors."""
        transaction = None
        try:
            connection = self._connect()
            transaction = self._run_jobs(connection, group)
            connection.commit()
        except psycopg.Error as error:
            self._disconnect()
            if transaction is not None and _is_cut(error) and self._was_committed(transaction):
                return True
            if last or not (connections.is_lost(error) or isinstance(error, errors.DeadlockDetected)):
                raise
            return False
        return True

    def _run_jobs(self, connection: psycopg.Connection, group: list[CommitJob]) -> str | None:
        """Run the jobs in one transaction. Return its number; None if it wrote nothing."""
        alone = len(group) == 1
        if not alone:
            connection.execute("SELECT 1")  # begins the transaction, in which each job has a savepoint
        for job in group:
            job.error = job.result = None
            try:
                if alone:
                    job.result = job.work(connection)
                else:
                    with connection.transaction():
                        job.result = job.work(connection)
            except Exception as error:
                if _is_cut(error) or isinstance(error, errors.DeadlockDetected):
                    raise
                job.error = connections.store_error(error, self._database.place)
                if alone:
                    connection.rollback()
        found = connection.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
        return found[0] if found else None

    def _was_committed(self, transaction: str) -> bool:
        """Ask a new connection. Raises LostCommit if the server does not know the transaction."""
        deadline = time.monotonic() + _SETTLING
        while True:
            try:
                connection = self._connect()
                found = connection.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone()
                connection.rollback()
                status: str | None = found[0] if found else None
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise LostCommit from None
                self._disconnect()
                status = "in progress"
            except psycopg.Error:  # its number is in the future: another server, which never saw it
                raise LostCommit from None
            if status in ("committed", "aborted"):
                return status == "committed"
            if status is None or time.monotonic() > deadline:
                raise LostCommit
            time.sleep(_PAUSE)

    def _connect(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.reconnect(self._longest)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _answer_job(self, job: CommitJob, error: BaseException | None) -> None:
        if error is None and job.committed is not None:
            try:
                job.committed(job.result)
            except BaseException as raised:
                error = raised
        if error is None:
            job.answer.set_result(job.result)
        else:
            job.answer.set_exception(error)


def _is_cut(error: BaseException) -> bool:
    """Return whether the connection cannot be used any more, so that it does not tell what was committed."""
    return connections.is_lost(error) or isinstance(error, SilentServer)
