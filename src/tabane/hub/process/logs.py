"""Log of the hub: a rotating file that only the user can read, and standard error in the foreground.

Entries and bytes in a minute are limited for each cause, so a flood of any kind does not push older entries
out of the log. The cause of an entry is the server that it is about. The record names the server
(``extra={"server": name}``), or it comes from a room of servers, and then the first argument of the entry is
the server's name. Every other entry is counted with those of the same line of source.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tabane.servers.redaction import Redactor
from tabane.upstreams.processes.log_files import RotatingFile

_PIPE = 4096
"""Bytes that a writable pipe takes without waiting (PIPE_BUF)."""

TRACE = 5

MOST_CHARACTERS = 32 << 10
"""Characters of one entry; the rest is cut."""

_SILENT = logging.CRITICAL + 10
_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "silent": _SILENT,
}

MINUTE = 60.0


class RedactingFormatter(logging.Formatter):
    """Lines with a time, a level and a source, without secrets, and protected against forgery."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redactor = Redactor()

    def hide(self, values: Iterable[str]) -> None:
        """Hide these values from now on, instead of the earlier ones."""
        self._redactor = Redactor(values)

    def format(self, record: logging.LogRecord) -> str:
        # Cut before and after: redacting megabytes takes long, and half a secret is not recognized.
        text = super().format(record)[: 2 * MOST_CHARACTERS]
        # Redacted before lines are indented: a secret of several lines is recognized only as it was.
        text = self._redactor.text(text)
        if len(text) > MOST_CHARACTERS:
            text = text[:MOST_CHARACTERS] + " …"
        return text.replace("\n", "\n    ")


class LogLimit(NamedTuple):
    """Entries and bytes in a minute."""

    entries: int
    bytes: int


OF_SERVER = LogLimit(60, 32 << 10)
"""Limit for one server."""

OF_PLACE = LogLimit(300, 256 << 10)
"""Limit for one line of source, for all causes together."""

MOST_CAUSES = 1024
"""Causes that are counted separately; further ones share one count."""

_SERVERS = ("tabane.servers.", "tabane.net.", "tabane.upstreams.", "tabane.guard.", "tabane.catalog.")
"""Beginnings of the names of loggers whose first argument is the name of a server."""


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
                if cause.server:
                    text, about = "%s: … %d more messages of this server were suppressed", cause.server
                else:
                    text, about = "%s: … %d more messages of this kind were suppressed", cause.place
                yield logging.LogRecord(
                    __name__, logging.WARNING, __file__, 0, text, (about, suppressed), None
                )

    def _count(self, cause: LogCause) -> _LogCauseCount:
        if cause not in self._counts and len(self._counts) >= MOST_CAUSES:
            cause = _OTHERS
        return self._counts.setdefault(cause, _LogCauseCount(self._clock()))


def cause_of(record: logging.LogRecord) -> LogCause:
    """Return the server that an entry is about, or the line of source that wrote it."""
    server = getattr(record, "server", None)
    if not isinstance(server, str) and record.name.startswith(_SERVERS):
        server = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if isinstance(server, str) and server:
        return LogCause(server[:100])
    return LogCause("", f"{record.name}:{record.lineno}")


class BudgetedHandler(logging.Handler):
    """Passes each entry that the budget admits, formatted and cut, to each of ``outputs``."""

    def __init__(self, outputs: Iterable[Callable[[bytes], None]], budget: LogBudget) -> None:
        super().__init__()
        self._outputs, self._budget = tuple(outputs), budget

    def emit(self, record: logging.LogRecord) -> None:
        """Write an entry, if the budget of its cause admits it."""
        self._sum_up()
        if self._budget.admits(record):
            self._budget.spend(record, self._write(record))

    def sum_up(self, *, all: bool = False) -> None:
        """Write how many entries were suppressed in the minutes that are over, or in all."""
        with self.lock or contextlib.nullcontext():
            self._sum_up(all=all)

    def _sum_up(self, *, all: bool = False) -> None:
        for summary in self._budget.ended(all=all):
            self._write(summary)

    def _write(self, record: logging.LogRecord) -> int:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return 0
        for output in self._outputs:
            output(line)
        return len(line)


class HubLogs:
    """The logging of one hub: set up by making it, taken down by :meth:`close`."""

    def __init__(
        self,
        path: str,
        level: str,
        size: int,
        count: int,
        *,
        aloud: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        logging.addLevelName(TRACE, "TRACE")
        self._formatter = RedactingFormatter()
        self._root = logging.getLogger()
        self._file = RotatingFile(path, size, count, keep_open=True)
        outputs = [self._to_file, _aloud] if aloud else [self._to_file]
        self._handler = BudgetedHandler(outputs, LogBudget(clock))
        self._handler.setFormatter(self._formatter)
        self._root.addHandler(self._handler)
        self.set_level(level)
        logging.raiseExceptions = False

    def set_level(self, level: str) -> None:
        """Write entries of that severity and above from now on."""
        self._root.setLevel(_LEVELS[level])
        # asyncio's own debug lines are about asyncio.
        logging.getLogger("asyncio").setLevel(max(logging.INFO, _LEVELS[level]))
        # Those of HTTP/2's compression are the headers of requests, with keys and cookies.
        logging.getLogger("hpack").setLevel(max(logging.INFO, _LEVELS[level]))

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide secrets in the log, in every spelling."""
        self._formatter.hide(secrets)

    def sum_up(self) -> None:
        """Write how many entries were suppressed in the minutes that are over. Call it now and then."""
        self._handler.sum_up()

    def close(self) -> None:
        """Shut logging down; first write the summary of suppressed entries."""
        self._handler.sum_up(all=True)
        self._root.removeHandler(self._handler)
        self._handler.close()
        self._file.close()

    def _to_file(self, line: bytes) -> None:
        # A log that cannot be written (full disk) must not cause a failure: the line is lost.
        with contextlib.suppress(OSError):
            self._file.append(line)


def _aloud(line: bytes) -> None:
    """Write to standard error. It may be a pipe that nobody reads: a line that would have to wait is lost."""
    poll = select.poll()
    with contextlib.suppress(OSError, ValueError):
        fd = sys.stderr.fileno()
        poll.register(fd, select.POLLOUT)
        for start in range(0, len(line), _PIPE):
            if not any(event & select.POLLOUT for _, event in poll.poll(0)):
                return
            os.write(fd, line[start : start + _PIPE])
