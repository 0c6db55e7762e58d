"""The process with the index of the audit log: ``python -m tabane.audit.index_worker``.

It catches up with the log before it answers. If that takes long, it says so after a moment, and the hub asks
again: so a long catch-up is not lost, and does not exceed the limits of a request.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from tabane.audit.index import AuditIndex, EntrySearch, repair
from tabane.audit.index_requests import (
    EntryCounts,
    EntryQuery,
    IndexAnswer,
    IndexRequest,
    IndexTask,
    NewestEntry,
    UsageDays,
    UsageOfDay,
    UsageQuery,
    answered,
    decode_index_request,
    encode_index,
)
from tabane.workers.serving import serve

STEP = 0.5
"""Seconds of catching up in one request."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class IndexWorker:
    """Keeps the index open, and answers requests."""

    def __init__(self, step: float = STEP) -> None:
        self._step = step
        self._index: AuditIndex | None = None

    def respond(self, body: bytes) -> bytes:
        """Return the answer to a request, both encoded. An error of the database is an answer too."""
        request = decode_index_request(body)
        try:
            return encode_index(self._answer_request(request))
        except sqlite3.Error as error:
            self._close_index()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                repair(request.folder)
                return encode_index(IndexAnswer(False))
            full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
            return encode_index(IndexAnswer(False, error=str(error), full=full))
        except OSError as error:
            self._close_index()
            return encode_index(IndexAnswer(False, error=error.strerror or str(error)))

    def _answer_request(self, request: IndexRequest) -> IndexAnswer:
        index = self._open_index(request)
        if not index.catch_up(self._step):
            return IndexAnswer(False, behind=index.behind)
        return answered(perform(index, request.task))

    def _open_index(self, request: IndexRequest) -> AuditIndex:
        index = self._index
        if index is not None:
            if index.in_place and (index.folder, index.zone) == (request.folder, request.zone):
                return index
            self._close_index()
        self._index = AuditIndex(request.folder, request.zone)
        return self._index

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def perform(index: AuditIndex, task: IndexTask) -> Any:
    """Return the answer to a task, from an index that has caught up."""
    if isinstance(task, EntryQuery):
        with EntrySearch(index, task.filter) as search:
            return search.page(task)
    if isinstance(task, EntryCounts):
        with EntrySearch(index, task.filter) as search:
            return search.counts(task)
    if isinstance(task, UsageQuery):
        return index.rollups.used_tools(task) if task.used_tools else index.rollups.find(task)
    if isinstance(task, UsageDays):
        return index.rollups.days()
    if isinstance(task, UsageOfDay):
        return index.rollups.of_day(task.day, task.after, task.limit)
    return index.last if isinstance(task, NewestEntry) else None


if __name__ == "__main__":
    serve(IndexWorker().respond, nice=5)
