"""The hub's log: a rotating file of the user's alone, and standard error where somebody watches."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
from collections.abc import Iterable

from tabane.gateway.servers.redaction import Redactor

_PIPE = 4096

TRACE = 5
_SILENT = logging.CRITICAL + 10
_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "silent": _SILENT,
}


class Redacting(logging.Formatter):
    """Lines with a time, a level and a place, in which no secret stands and which nobody can forge."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redactor = Redactor()

    def hide(self, values: Iterable[str]) -> None:
        """From now on these values are hidden, in place of those before."""
        self._redactor = Redactor(values)

    def format(self, record: logging.LogRecord) -> str:
        # Redacted first: a secret of several lines is known as it stands.
        return self._redactor.text(super().format(record)).replace("\n", "\n    ")


class RotatingFile(logging.Handler):
    """A file that becomes ``.1`` when it has ``size`` bytes, and so on up to ``count`` files; each 0600.

    :class:`logging.handlers.RotatingFileHandler` does the same, and costs 2 MB to import. A log that
    cannot be written (a full disk) is no reason to fail: the line is lost.
    """

    def __init__(self, path: str, size: int, count: int) -> None:
        super().__init__()
        self._path, self._size, self._count = path, size, count
        self._fd = self._open()
        self._written = os.fstat(self._fd).st_size

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return
        with contextlib.suppress(OSError):
            if self._written and self._written + len(line) > self._size:
                self._rotate()
            self._written += os.write(self._fd, line)

    def close(self) -> None:
        with self.lock or contextlib.nullcontext():
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        super().close()

    def _rotate(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._count))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        if self._count == 1:
            os.truncate(self._path, 0)
        # The old one is given up for a new one alone: its number may be a client's the next moment.
        old, self._fd = self._fd, self._open()
        os.close(old)
        self._written = 0

    def _open(self) -> int:
        return os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )


class StandardError(logging.Handler):
    """Standard error, which may be a pipe that nobody reads: a line that would have to wait is lost."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return
        poll = select.poll()
        with contextlib.suppress(OSError, ValueError):
            fd = sys.stderr.fileno()
            poll.register(fd, select.POLLOUT)
            # As much as a pipe that can be written takes without waiting (PIPE_BUF).
            for start in range(0, len(line), _PIPE):
                if not any(event & select.POLLOUT for _, event in poll.poll(0)):
                    return
                os.write(fd, line[start : start + _PIPE])


class Logs:
    """The logging of one hub: set up by making it, taken down by :meth:`close`."""

    def __init__(self, path: str, level: str, size: int, count: int, *, aloud: bool) -> None:
        logging.addLevelName(TRACE, "TRACE")
        self._formatter = Redacting()
        self._root = logging.getLogger()
        self._handlers: list[logging.Handler] = [RotatingFile(path, size, count)]
        if aloud:
            self._handlers.append(StandardError())
        for handler in self._handlers:
            handler.setFormatter(self._formatter)
            self._root.addHandler(handler)
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

    def close(self) -> None:
        for handler in self._handlers:
            self._root.removeHandler(handler)
            handler.close()
