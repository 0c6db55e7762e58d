"""The distance of the audit log's index from the log, checked now and then, so that no usage is lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from tabane.audit.entry import USAGE, audit_files

LARGEST_LAG = 50_000
"""Entries that are written before the index reads them without being asked."""

_LOOK = 15.0  # seconds between two looks
_DAY = 86_400.0


class IndexFollowing:
    """Lets the index catch up from now on when it is far behind, or was not read for a day.

    Without that, usage of days that nobody asks about would be lost with the files of the log. ``newest``
    returns the seq of the newest entry, and ``catch_up_soon`` returns at once.
    """

    def __init__(self, folder: str, newest: Callable[[], int], catch_up_soon: Callable[[], None]) -> None:
        self._folder, self._newest, self._catch_up_soon = folder, newest, catch_up_soon
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        read = self._newest()
        while True:
            await asyncio.sleep(_LOOK)
            seq = self._newest()
            if seq - read >= LARGEST_LAG or (seq and _is_old(self._folder)):
                read = seq
                self._catch_up_soon()


def _is_old(folder: str) -> bool:
    """Return whether the index was not written for a day, nor the log begun within it."""
    names = (USAGE, f"{USAGE}-wal")
    times = [when for name in names if (when := _written(os.path.join(folder, name)))]
    if not times:
        times = [_written(file.path) for file in audit_files(folder)[:1]]
    return bool(times) and time.time() - max(times) > _DAY


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
