"""Removal of old files of the audit log.

A clock may jump, forward by years if the one of the hardware is wrong. After a gap in the log, its age counts
from before the gap, until the log has gone on for a week.

The removal is recorded before files are deleted, with the mac at which the rest of the log begins. So the
verification distinguishes it from files that somebody deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from tabane.audit.entry import LONGEST_LINE, AuditFile, audit_files, decode_entry

DAY = 86_400.0

_CONFIRMED = 7 * DAY
"""Seconds of log after a gap, from which on the clock is believed."""


class OldFiles(NamedTuple):
    """Files to remove, and where the rest begins: the seq of its first entry and the mac before that."""

    files: list[AuditFile]
    begins: int
    previous: str


def old_files(folder: str, most: int, days: int, now: Callable[[], float] = time.time) -> OldFiles | None:
    """Return the files that are beyond the number or the age; None if there is none. Raises OSError.

    The newest file stays in any case.
    """
    files = audit_files(folder)
    count = max(0, len(files) - most)
    if days:
        oldest = _without_jump(files, now(), max(3.0, days / 8 + 2) * DAY) - days * DAY
        while count < len(files) - 1 and os.path.getmtime(files[count].path) < oldest:
            count += 1
    if not count:
        return None
    first = files[count]
    with open(first.path, "rb") as file:
        try:
            previous = decode_entry(file.readline(LONGEST_LINE)).previous
        except ValueError:
            return None  # a damaged file: whoever verifies the log must see it
    return OldFiles(files[:count], first.first, previous)


def _without_jump(files: list[AuditFile], now: float, longest: float) -> float:
    """Return the time by which the log grows old: ``now`` without gaps over ``longest`` that end lately.

    Raises OSError.
    """
    times = [time for file in files for time in (began_at(file), os.path.getmtime(file.path))]
    jumped = 0.0
    for before, after in pairwise([*times, now]):
        if after - before > longest and now - after < _CONFIRMED:
            jumped += after - before
    return now - jumped


def began_at(file: AuditFile) -> float:
    """Return when a file was begun, in seconds since 1970; if its first line is damaged, when it was written.

    Raises OSError.
    """
    with open(file.path, "rb") as opened:
        try:
            return datetime.fromisoformat(decode_entry(opened.readline(LONGEST_LINE)).time).timestamp()
        except ValueError:
            return os.fstat(opened.fileno()).st_mtime


def remove(files: list[AuditFile]) -> None:
    """Delete the files, oldest first, so that what remains is always the end of the log."""
    for file in files:
        os.unlink(file.path)
