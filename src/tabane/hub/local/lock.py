"""Lock of a home, held as long as its hub runs, with a note on the hub; and files known by inode.

A hub never deletes the file, because a lock on a replaced file protects nothing. A process that takes the
lock checks that the file is still at its path, and a hub checks this regularly (:attr:`HomeLock.lost`).
The kernel releases the lock when the hub ends in any way.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any, NamedTuple


class OwnFile:
    """A file of this process, known by device and inode. Files that replace it are left alone.

    Raises OSError if there is no file at ``path``.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._status = os.lstat(path)

    @property
    def there(self) -> bool:
        """Return whether the path still leads to this very file."""
        return same_file(self.path, self._status)

    def unlink(self) -> None:
        """Delete the file, if it was not replaced. Raises OSError."""
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
    with; ``socket`` is the path of its socket. ``ended`` is why it ended (``stop``, ``restart``,
    ``replace``, ``idle`` …), None while it runs and after a crash.
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
        """Return whether the next hub continues this one with its flags: it did not end on purpose."""
        return self.ended in (None, "restart", "replace")


PASSED = "_TABANE_LOCK"
"""The variable with the descriptor of a lock that a process passes to the program that it becomes."""


class HomeLock:
    """The held lock. It is released by :meth:`release`, or by the end of the process."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self._path = fd, path

    def write(self, holder: LockHolder | None) -> None:
        """Write the note for processes that find the lock held; None for no note."""
        text = json.dumps(holder._asdict()).encode() if holder else b""
        # Whoever reads between the two finds blanks behind the note, not the end of a longer one.
        os.pwrite(self._fd, text.ljust(os.fstat(self._fd).st_size), 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        """Release the lock, so that another hub can take the home."""
        os.close(self._fd)

    def pass_on(self) -> dict[str, str]:
        """Return the variable by which the program that this process becomes keeps the lock."""
        os.set_inheritable(self._fd, True)
        return {PASSED: str(self._fd)}

    @property
    def lost(self) -> bool:
        """Return whether the file was deleted or replaced, so that no client finds this hub."""
        return not same_file(self._path, os.fstat(self._fd))


def acquire(path: str) -> HomeLock | None:
    """Return the lock; None if another process holds it. Raises OSError, such as for a missing folder."""
    while True:
        lock = _passed(path) or _locked(path)
        if lock is None or not lock.lost:
            return lock
        lock.release()  # deleted between opening and locking


def _passed(path: str) -> HomeLock | None:
    """Return the lock that this process held as another program; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        fd = int(os.environ.pop(PASSED, ""))
        os.set_inheritable(fd, False)
        if same_file(path, os.fstat(fd)):
            return HomeLock(fd, path)
    return None


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
    """Return whether a hub holds the lock now: running, starting, or about to end."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two processes that check at once do not mistake each other for a hub.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_holder(path: str) -> LockHolder | None:
    """Return the note in the lock file; None if there is none that can be read."""
    try:
        with open(path, "rb", buffering=0) as file:  # one read: a second one could be of the next note
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
