"""Budget of the log: entries and bytes that one cause may write in a minute.

The cause of an entry is the server that it is about. The record names the server (``extra={"server":
name}``), or it comes from the gateway, and then the first argument of the entry is the server's name. Every
other entry is counted with those of the same line of source. So a flood of any kind does not push older
entries out of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

MINUTE = 60.0


class LogLimit(NamedTuple):
    """Entries and bytes in a minute."""

    entries: int
    bytes: int


OF_SERVER = LogLimit(60, 32 << 10)
"""Limit for one server."""

OF_PLACE = LogLimit(300, 256 << 10)
"""Limit for one line of source, whatever the cause."""

MOST_CAUSES = 1024
"""Causes that are counted separately; further ones share one count."""

_GATEWAY = "tabane.gateway."


class LogCause(NamedTuple):
    """A server, or a line of source (``server`` is empty then)."""

    server: str
    place: str = ""


_OTHERS = LogCause("", "others")


class _LogCauseCount:
    """Entries and bytes of one cause in the minute that began at ``began``."""

    __slots__ = ("began", "bytes", "entries", "suppressed")

    def __init__(self, began: float) -> None:
        self.began, self.entries, self.bytes, self.suppressed = began, 0, 0, 0


class LogBudget:
    """Decides which entries are written, and sums up the others. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: dict[LogCause, _LogCauseCount] = {}

    def admits(self, record: logging.LogRecord) -> bool:
        """Return whether the entry is written; :meth:`spend` its size then."""
        cause = cause_of(record)
        count = self._count(cause)
        bound = OF_SERVER if cause.server else OF_PLACE
        if count.entries < bound.entries and count.bytes < bound.bytes:
            return True
        count.suppressed += 1
        return False

    def spend(self, record: logging.LogRecord, size: int) -> None:
        """Count an entry of ``size`` bytes that was written."""
        count = self._count(cause_of(record))
        count.entries += 1
        count.bytes += size

    def ended(self, *, all: bool = False) -> Iterator[logging.LogRecord]:
        """Forget the minutes that are over, and yield a summary of each in which something was suppressed."""
        now = self._clock()
        over = [cause for cause, count in self._counts.items() if all or now - count.began >= MINUTE]
        for cause in over:
            suppressed = self._counts.pop(cause).suppressed
            if suppressed:
                yield _summary(cause, suppressed)

    def _count(self, cause: LogCause) -> _LogCauseCount:
        if cause not in self._counts and len(self._counts) >= MOST_CAUSES:
            cause = _OTHERS
        return self._counts.setdefault(cause, _LogCauseCount(self._clock()))


def cause_of(record: logging.LogRecord) -> LogCause:
    """Return the server that an entry is about, or the line of source that wrote it."""
    server = getattr(record, "server", None)
    if not isinstance(server, str) and record.name.startswith(_GATEWAY):
        server = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if isinstance(server, str) and server:
        return LogCause(server[:100])
    return LogCause("", f"{record.name}:{record.lineno}")


def _summary(cause: LogCause, count: int) -> logging.LogRecord:
    if cause.server:
        text, about = "%s: … %d more messages of this server were suppressed", cause.server
    else:
        text, about = "%s: … %d more messages of this kind were suppressed", cause.place
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (about, count), None)
