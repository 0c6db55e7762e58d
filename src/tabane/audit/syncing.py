"""Writing of the audit log to disk, in a thread.

Entries that wait for the disk at the same time are written by one ``fdatasync``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from tabane.audit.head import HeadFile
from tabane.errors import AuditError
from tabane.messages import say

INTERVAL = 0.5
"""Seconds that written entries wait for further ones; an entry is on disk within a second."""


_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class DiskSync:
    """Writes files and head to disk. Call it on the event loop; the thread starts with the first entry.

    ``last`` returns the seq of the last written entry, and ``failed`` is called on the loop with an error of
    the disk.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        head: HeadFile,
        last: Callable[[], int],
        failed: Callable[[OSError], None],
        *,
        strict: bool,
    ) -> None:
        self._loop, self._head, self._last, self._failed = loop, head, last, failed
        self.strict = strict
        self._fd = -1
        self._dirty = self._closing = False
        self._since = 0.0
        self._syncing: float | None = None
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._jobs: deque[Callable[[], None]] = deque()
        self._fds: deque[int] = deque()
        self._thread: threading.Thread | None = None

    @property
    def lag(self) -> float:
        """Return the seconds since the oldest entry was written that may not be on disk; 0 without one."""
        syncing = self._syncing
        oldest = syncing if syncing is not None else self._since if self._dirty else None
        return 0.0 if oldest is None else time.monotonic() - oldest

    def use(self, fd: int) -> None:
        """Take over an open file that entries are written to. The thread closes the file before it."""
        self._fds.append(fd)
        self._fd = fd

    def written(self) -> None:
        """Tell that an entry was written. Costs nothing while the thread already knows of one."""
        if not self._dirty:
            self._since = time.monotonic()
            self._dirty = True
            self._notify()

    def on_disk(self, seq: int) -> asyncio.Future[None]:
        """Return a future that is done when the entry is on disk. It raises AuditError if the disk fails."""
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(_seen)  # a refused call is answered without waiting for it
        self._waiting.append((seq, future))
        self._hurry.set()
        self._notify()
        return future

    def later(self, job: Callable[[], None]) -> None:
        """Run a function in the thread, after everything written so far is on disk."""
        self._jobs.append(job)
        self._hurry.set()
        self._notify()

    def close(self) -> None:
        """Write everything to disk, and end the thread. Blocks as long as the disk takes."""
        self._closing = True
        self._hurry.set()
        self._notify()
        if self._thread is not None:
            self._thread.join()

    def _notify(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="audit-sync", daemon=True)
            self._thread.start()
        self._wake.set()

    def _work(self) -> None:
        while not self._closing:
            self._wake.wait()
            if not self.strict:
                self._hurry.wait(INTERVAL)
            self._wake.clear()
            self._hurry.clear()
            self._round()
        self._round()
        while self._fds:
            os.close(self._fds.popleft())

    def _round(self) -> None:
        self._syncing = self._since if self._dirty else None
        self._dirty = False
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        error, seq = self._sync()
        self._syncing = None
        self._answer(error, seq)
        for job in jobs:
            with contextlib.suppress(OSError):
                job()

    def _sync(self) -> tuple[OSError | None, int]:
        """Return the error of the disk, if there was one, and the seq up to which entries are on disk."""
        try:
            while len(self._fds) > 1:
                _to_disk(self._fds[0])
                os.close(self._fds.popleft())
            seq = self._last()
            if self._fds:
                _to_disk(self._fds[0])
            if len(self._fds) > 1:  # a new file was begun meanwhile
                return self._sync()
            self._head.sync()
        except OSError as error:
            return error, self._last()
        return None, seq

    def _answer(self, error: OSError | None, seq: int) -> None:
        done: list[asyncio.Future[None]] = []
        while self._waiting and self._waiting[0][0] <= seq:
            done.append(self._waiting.popleft()[1])
        if not done and error is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._settle, done, error)

    def _settle(self, futures: list[asyncio.Future[None]], error: OSError | None) -> None:
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(disk_error(error))
        if error is not None:
            self._failed(error)


def _seen(future: asyncio.Future[None]) -> None:
    """Take note of an error that nobody may wait for."""
    if not future.cancelled():
        future.exception()


def disk_error(error: OSError) -> AuditError:
    """Return the error of a call that could not be recorded."""
    return AuditError(
        say(
            "The audit log cannot be written ({reason}), so calls are refused. Free some space on the disk, "
            "or set audit_full to drop.",
            reason=error.strerror or str(error),
        )
    )
