"""Word of changes below folders: from the system where it gives it, else none, so that one has to look.

The system's word is a hint: it names paths where something may be different. What is different, a look says.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

log = logging.getLogger(__name__)

GATHERED, QUIET = 400, 100
"""Milliseconds that changes are gathered for at most, and after which nothing more seems to come."""


class Notices(Protocol):
    """Word of changes, until it is closed."""

    async def next(self, seconds: float) -> set[str]:
        """Absolute paths where something may have changed; none where that time passed without any."""
        ...

    def close(self) -> None: ...


class Looking:
    """No word at all: the time passes, and whoever asked looks for themselves."""

    async def next(self, seconds: float) -> set[str]:
        await asyncio.sleep(seconds)
        return set()

    def close(self) -> None:
        pass


class Native:
    """The system's own word, by the library watchfiles.

    On Linux each folder is watched by itself, so that those left out cost nothing; elsewhere all of the
    first one, with everything below it. Raises OSError where the system has no room for so many.
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


def notices(folders: Sequence[str]) -> Notices:
    """Word of changes in these folders, in which those below them are named too. Blocks."""
    try:
        return Native(folders)
    except (OSError, ImportError) as error:
        log.warning("changes in %s folders are looked for again and again: %s", len(folders), error)
        return Looking()
