"""Room on the disk of a home: a reserve that lets a hub start, read and delete when the disk is full.

A database needs some space even to read or to delete. When a disk is nearly full, a hub makes a file of some
megabytes, and removes it once the disk is full. Without one, it removes old logs and what is made again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from tabane.messages import Message, say

log = logging.getLogger(__name__)

RESERVE = "reserve"
SIZE = 4 << 20

FULL = 1 << 20
"""Free bytes below which the disk counts as full."""

_LEAST = 256 << 10
"""Free bytes without which a database cannot delete."""

_ENOUGH, _LOW = 4 * SIZE, 1 << 30
"""Free bytes between which a reserve is made."""


def free_bytes(folder: Path) -> int | None:
    """Return how much a user may still write on the disk of a folder; None if that is not known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


class DiskRoom:
    """The room on the disk of a home, whose reserve :meth:`look` makes or gives up. Blocks for a moment."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._was_full = False

    def look(self) -> None:
        """Make the reserve if there is little room left; give it up if the disk is full."""
        free = free_bytes(self._home)
        if free is None:
            return
        reserve = self._home / RESERVE
        if free >= _ENOUGH:
            self._was_full = False
            if free < _LOW:
                _make(reserve)
            elif free > 2 * _LOW and reserve.exists():
                reserve.unlink(missing_ok=True)
        elif free < FULL and not self._was_full:
            self._was_full = True
            self._give_up(reserve)
            log.error("%s", self.sentence())

    def _give_up(self, reserve: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            reserve.unlink()
            return
        for path in self._expendable():
            with contextlib.suppress(OSError):
                path.unlink()
                log.warning("removed to make room: %s", path)

    def _expendable(self) -> Iterator[Path]:
        """Yield rotated logs, and files that were put aside because they were damaged."""
        yield from self._home.glob("logs/*.log.[0-9]*")
        yield from self._home.glob("logs/servers/*.log.[0-9]*")
        yield from self._home.glob("*.broken")

    def problem(self) -> Message | None:
        """Return the sentence for people if the disk is full, None if it is not."""
        free = free_bytes(self._home)
        full = free is not None and (free < FULL or (self._was_full and free < SIZE + FULL))
        return self.sentence() if full else None

    def sentence(self) -> Message:
        if (free_bytes(self._home) or 0) < _LEAST:
            return say(
                "The disk that holds {home} is full. Reading works; nothing can be stored or deleted. Free "
                "some space there: no restart is needed.",
                home=self._home,
            )
        return say(
            "The disk that holds {home} is full. Reading and deleting work; new documents, posts and log "
            "entries may be lost. Free some space there: no restart is needed.",
            home=self._home,
        )


def _make(reserve: Path) -> None:
    """Make a reserve that takes space on the disk, unless there is one."""
    if reserve.exists():
        return
    try:
        with open(reserve, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(bytes(SIZE))
    except OSError as error:
        log.debug("no reserve: %s", error)
        with contextlib.suppress(OSError):
            reserve.unlink()
