"""One process per file: a lock held while it is open, and a mark that says how the last one ended.

The lock is a file beside the database, never deleted: a lock on a file that somebody replaced would
guard nothing. The kernel lets go of it however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from tabane.store import failures

_CLEAN = b"closed\n"
_OPEN = b"open  \n"


class DatabaseLock:
    """The lock, held. ``clean``: whether who held it before closed the database, or nobody ever did."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.clean = os.pread(fd, len(_OPEN), 0) != _OPEN

    @classmethod
    def acquire(cls, path: str) -> DatabaseLock:
        """Lock the database at ``path``. Raises StoreLocked, StoreReadOnly, StoreFull."""
        fd = -1
        try:
            fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if isinstance(error, BlockingIOError):
                raise failures.locked(path) from None
            raise failures.from_system(error, path) from error

    def begin(self) -> None:
        """Mark the database as open: who finds that mark knows that the process died."""
        os.pwrite(self._fd, _OPEN, 0)

    def release(self, *, clean: bool) -> None:
        if clean:
            # On a full disk the mark stays, and the next one looks closer than it needs to.
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _CLEAN, 0)
        os.close(self._fd)
