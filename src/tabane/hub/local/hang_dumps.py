"""Dumps of hubs that stopped responding: one file for each process, beside the log.

A running hub has its own file, which is empty. A file with content holds the stacks of a hub that its
watchdog ended. Uses only the standard library, because a bridge reads it too.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

KEPT = 3
"""Number of dumps that are kept; older ones are deleted at startup."""

LIMIT = 64 << 10
"""Bytes of a dump that are read. 100 threads of 100 frames are more than any hub has."""

_NAME = re.compile(r"stuck-([0-9]{1,10})\.txt")


class HangDump(NamedTuple):
    """The stacks of a hub that stopped responding: its process, the file, and when it was written."""

    pid: int
    path: str
    written: float

    def text(self) -> str:
        """Return the stacks as text. Raises OSError."""
        with open(self.path, "rb") as file:
            return file.read(LIMIT).decode("utf-8", "replace").strip()


def file_of(logs: str, pid: int) -> str:
    """Return the path of the dump of one process."""
    return os.path.join(logs, f"stuck-{pid}.txt")


def was_stuck(logs: str, pid: int) -> bool:
    """Return whether that hub stopped responding and was ended by its watchdog."""
    try:
        return os.stat(file_of(logs, pid)).st_size > 0
    except OSError:
        return False


def dumps(logs: str) -> list[HangDump]:
    """Return the dumps in a folder, the newest first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            with contextlib.suppress(OSError):
                if match and entry.stat(follow_symlinks=False).st_size:
                    written = entry.stat(follow_symlinks=False).st_mtime
                    found.append(HangDump(int(match[1]), entry.path, written))
    return sorted(found, key=lambda dump: dump.written, reverse=True)


def tidy(logs: str) -> None:
    """Delete the files of hubs that ended otherwise, and all dumps but the newest.

    Only the holder of the home's lock may call it: the file of a running hub is empty.
    """
    kept = {dump.path for dump in dumps(logs)[:KEPT]}
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.path not in kept:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
