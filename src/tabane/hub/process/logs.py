"""The hub's log: a rotating file of the user's alone, and standard error where somebody watches."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable

from tabane.gateway.processes.log_files import RotatingFile
from tabane.gateway.servers.redaction import Redactor
from tabane.hub.process.log_budget import LogBudget

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


class RedactingFormatter(logging.Formatter):
    """Lines with a time, a level and a place, in which no secret stands and which nobody can forge."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redactor = Redactor()

    def hide(self, values: Iterable[str]) -> None:
        """From now on these values are hidden, in place of those before."""
        self._redactor = Redactor(values)

    def format(self, record: logging.LogRecord) -> str:
        # Cut before and after: redacting megabytes takes long, and half a secret is not recognized.
        text = super().format(record)[: 2 * MOST_CHARACTERS]
        # Redacted before lines are indented: a secret of several lines is recognized only as it was.
        text = self._redactor.text(text)
        if len(text) > MOST_CHARACTERS:
            text = text[:MOST_CHARACTERS] + " …"
        return text.replace("\n", "\n    ")


class BudgetedHandler(logging.Handler):
    """Passes each entry that the budget admits, formatted and cut, to each of ``outputs``."""

    def __init__(self, outputs: Iterable[Callable[[bytes], None]], budget: LogBudget) -> None:
        super().__init__()
        self._outputs, self._budget = tuple(outputs), budget

    def emit(self, record: logging.LogRecord) -> None:
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

    def hide(self, secrets: Iterable[str]) -> None:
        """Secrets that must not stand in the log, in whatever spelling."""
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
        # A log that cannot be written (a full disk) is no reason to fail: the line is lost.
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
