"""Notices of changes below folders: from the operating system if it gives them, else by polling.

A notice is a hint: it names paths where something may be different. Comparing the files tells what is.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

log = logging.getLogger(__name__)

_SILENT: Final = frozenset(
    ("9p", "afs", "cifs", "drvfs", "nfs", "nfs4", "prl_fs", "smb3", "vboxsf", "virtiofs")
)

GATHERED, QUIET = 400, 100
"""Milliseconds that changes are gathered for at most, and after which nothing more seems to come."""


class ChangeNotices(Protocol):
    """Word of changes, until it is closed."""

    async def next(self, seconds: float) -> set[str]:
        """Absolute paths where something may have changed; none where that time passed without any."""
        ...

    def close(self) -> None: ...


class PollingNotices:
    """No notices: the time passes, and the caller compares the files."""

    async def next(self, seconds: float) -> set[str]:
        await asyncio.sleep(seconds)
        return set()

    def close(self) -> None:
        pass


class SystemNotices:
    """The system's own word, by the library watchfiles.

    On Linux each folder is watched by itself, so that those left out cost nothing; elsewhere all of the
    first one, with everything below it. Raises OSError if the system has no room for so many.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        # Where nothing is watched, the library is not loaded: 6 MB and 40 ms.
        from watchfiles._rust_notify import RustNotify

        each = sys.platform == "linux"
        self._notify = RustNotify(list(folders) if each else [folders[0]], False, False, 0, not each, True)
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, "watch")  # its own: it waits for as long as nothing happens

    async def next(self, seconds: float) -> set[str]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._notify.watch, GATHERED, QUIET, max(1, int(seconds * 1000)), self._stop
        )
        return {path for _, path in found} if isinstance(found, set) else set()

    def close(self) -> None:
        self._stop.set()
        self._thread.submit(self._notify.close)
        self._thread.shutdown(wait=False)


def gives_no_word(path: str, mounts: Iterable[str]) -> bool:
    """Return whether a path is on a file system that does not say what others change; pure.

    ``mounts`` are the lines of /proc/mounts, those that hide others last.
    """
    found = ""
    place = ""
    for line in mounts:
        _, at, kind, *_ = line.split(" ")
        at = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), at)
        if (path == at or path.startswith(at.rstrip("/") + "/")) and len(at) >= len(place):
            place, found = at, kind
    return found in _SILENT or found.startswith("fuse.")


def _mounts() -> list[str]:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []  # not Linux


def notices(folders: Sequence[str]) -> ChangeNotices:
    """Word of changes in these folders, in which those below them are named too. Blocks.

    Raises FileNotFoundError if one of them is gone by now.
    """
    if gives_no_word(folders[0], _mounts()):
        log.info("%s is on a file system that does not tell of changes: they are looked for", folders[0])
        return PollingNotices()
    try:
        return SystemNotices(folders)
    except FileNotFoundError:
        raise
    except (OSError, ImportError) as error:
        log.warning("changes in %s folders are looked for again and again: %s", len(folders), error)
        return PollingNotices()
