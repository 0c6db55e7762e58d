"""A file for each package that is downloaded: whether it is downloaded now, and whether that was finished.

The file is locked while a download runs, by all hubs and commands of this user, and the kernel releases the
lock however its owner ends. A file that says ``downloading`` and that nobody has locked is the trace of a
download that was cut off: what it left in the cache is suspect.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

JournalState = Literal["none", "downloading", "done", "suspect"]
"""``suspect``: the package was downloaded, but its program failed for a file that is missing."""

_STATES: tuple[JournalState, ...] = ("downloading", "done", "suspect")


def journal_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the journals, in the user's cache folder: caches are shared by all homes."""
    base = environment.get("XDG_CACHE_HOME") or ""
    if os.path.isabs(base):
        return Path(base, "tabane", "downloads")
    home = environment.get("HOME") or ""
    return Path(home, ".cache", "tabane", "downloads") if os.path.isabs(home) else None


class DownloadJournal:
    """The journal of one package. All methods block, for the time of a file operation; they raise OSError.

    ``identity`` is what decides what is downloaded and to where; only its hash is kept.
    """

    def __init__(self, folder: Path, identity: object) -> None:
        name = hashlib.sha256(json.dumps(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.path = folder / f"{name}.json"
        self._file: int | None = None

    def state(self) -> JournalState:
        """Return what the file says; ``none`` without a file, and if it cannot be read."""
        try:
            found = json.loads(self.path.read_bytes()[:4096])["state"]
        except (OSError, ValueError, TypeError, KeyError):
            return "none"
        return found if found in _STATES else "none"

    def age(self) -> float:
        """Return the seconds since the file was written; infinite without one."""
        try:
            return time.time() - self.path.stat().st_mtime
        except OSError:
            return float("inf")

    def lock(self) -> bool:
        """Take the lock, unless another holds it. Return whether it is held now."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    def write(self, state: JournalState) -> None:
        """Write the state, on disk when this returns. The lock must be held."""
        if self._file is not None:
            text = json.dumps({"state": state, "pid": os.getpid(), "at": round(time.time())}).encode()
            os.pwrite(self._file, text.ljust(128), 0)
            os.fsync(self._file)

    def note(self, state: JournalState) -> None:
        """Write the state if nobody holds the lock; a download that runs decides by itself."""
        if self.lock():
            try:
                self.write(state)
            finally:
                self.release()

    def release(self) -> None:
        """Release the lock, if it is held."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)
