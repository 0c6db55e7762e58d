"""The lock of a home, held for as long as its hub lives, with a note that names the hub.

A hub never deletes the file, because a lock on a replaced file protects nothing. A process that takes the
lock checks that the file is still at its path, and a hub checks again now and then (:attr:`Lock.lost`). The
kernel releases the lock however the hub ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any, NamedTuple


class OwnFile:
    """The file at ``path`` at the moment this is made. Raises OSError if there is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._status = os.lstat(path)

    @property
    def there(self) -> bool:
        """Return whether the path still leads to this very file."""
        return same_file(self.path, self._status)

    def unlink(self) -> None:
        """Delete the file, if it is still this one. Raises OSError."""
        if self.there:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)


def same_file(path: str, status: os.stat_result) -> bool:
    """Return whether the file at ``path`` is the one of that status; False if there is none."""
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


HAND = "hand"
BRIDGE = "bridge"
STANDALONE = "standalone"


class LockHolder(NamedTuple):
    """The note in the lock file: the hub that runs, or the last that did.

    ``started_by`` is ``hand``, ``bridge`` or ``standalone``; ``flags`` are those it was started
    with; ``socket`` is where it listens. ``ended`` is why it ended (``stop``, ``restart``,
    ``replace``, ``idle`` …), None while it runs and after a death that it did not mean.
    """

    pid: int
    version: str
    started_by: str
    flags: tuple[str, ...] = ()
    started: float = 0.0
    socket: str = ""
    ended: str | None = None

    @property
    def to_be_continued(self) -> bool:
        """Whether the next hub stands in for this one, with its flags: it did not mean to end."""
        return self.ended in (None, "restart", "replace")


class HomeLock:
    """The lock, held. Let go of by :meth:`release`, or by the end of the process."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self._path = fd, path

    def write(self, holder: LockHolder | None) -> None:
        """Leave a note for who finds the lock held; None for no note."""
        text = json.dumps(holder._asdict()).encode() if holder else b""
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        os.close(self._fd)

    @property
    def lost(self) -> bool:
        """Return whether the file was deleted or replaced, so that nobody finds this hub any more."""
        return not same_file(self._path, os.fstat(self._fd))


def acquire(path: str) -> HomeLock | None:
    """Return the lock; None if another process holds it. Raises OSError, as for a folder that is missing."""
    while True:
        lock = _locked(path)
        if lock is None or not lock.lost:
            return lock
        lock.release()  # deleted between opening and locking


def _locked(path: str) -> HomeLock | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return HomeLock(fd, path)


def held(path: str) -> bool:
    """Whether a hub holds the lock now: running, starting, or about to end."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two who ask at once do not take each other for a hub.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_holder(path: str) -> LockHolder | None:
    """The note in the lock file, None where there is none that can be read."""
    try:
        with open(path, "rb") as file:
            note: dict[str, Any] = json.loads(file.read(1 << 16))
        return LockHolder(
            pid=int(note["pid"]),
            version=str(note["version"]),
            started_by=str(note["started_by"]),
            flags=tuple(str(flag) for flag in note["flags"]),
            started=float(note["started"]),
            socket=str(note["socket"]),
            ended=note["ended"] and str(note["ended"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
