"""The stderr of upstream servers: a small log for each, with its last lines for error messages.

Everything is limited: a line is cut, the file rotates, memory holds the last lines. A server that floods is
slowed down, and only parts of its output are kept. Secrets are hidden before anything is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
from binascii import crc32
from collections import deque
from collections.abc import Callable, Iterable

from tabane.upstreams.processes.log_files import LinesAfter, RotatingFile, last_lines, lines_after, log_end

log = logging.getLogger(__name__)

FILE_LIMIT = 1 << 20
"""Bytes at which a log becomes NAME.log.1 and a new one is begun."""

LINE_LIMIT = 4096
"""Characters of a line that are kept."""

KEPT_LINES = 100
"""Lines that are held in memory."""

RATE, BURST = 256 << 10, 1 << 20
"""Bytes per second that are logged in the long run, and the maximum at once."""

_CHUNK = 1 << 15  # bytes read in one go, between which the loop does other things
_OVERLAP = 1024  # bytes read beyond the limit of a line: no longer secret is cut in two there
_CUT = LINE_LIMIT + _OVERLAP
_LINE_COST = 32  # bytes that a line costs besides its own: its time, and the work
_PAUSE = 0.01  # seconds of rest after each chunk of a flood
_SAMPLE = 4096  # bytes of such a chunk that are looked at
_AT_REST = 0.1  # seconds of silence after which a line without end is shown: half of it may be half a secret
_LAST_WORDS = 10, 1000  # lines and characters for an error message

_SAFE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|.)?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def file_name(server: str) -> str:
    """Return the name of a server's log: safe for any server name, and unique also if case is ignored."""
    if _SAFE.fullmatch(server):
        return f"{server}.log"
    readable = _UNSAFE.sub("_", server).strip("._-")[:48] or "server"
    return f"{readable}-{crc32(server.encode('utf-8', 'surrogatepass')):08x}.log"


def plain(text: str) -> str:
    """Return lines without colors and other terminal sequences, each as it looks after its last ``\r``."""
    text = _CONTROL.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class StderrLines:
    """Collects bytes and returns the complete lines, each with whether it was cut."""

    def __init__(self) -> None:
        self._part = bytearray()
        self._skipping = False  # the rest of a line that was cut

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Return the lines that have ended with this data, and whether each was cut."""
        ended, newline, rest = data.rpartition(b"\n")
        lines = []
        if newline:
            ended = bytes(self._part) + ended
            lines = [(line[:_CUT], len(line) > _CUT) for line in ended.split(b"\n")]
            if self._skipping:
                del lines[0]
            self.skip()
        if not self._skipping:
            self._part += rest
        if len(self._part) > _CUT:
            lines.append((bytes(self._part[:_CUT]), True))
            self._part.clear()
            self._skipping = True
        return lines

    def rest(self) -> list[tuple[bytes, bool]]:
        """Return the received part of a line that has not ended."""
        return [(bytes(self._part), False)] if self._part else []

    def skip(self) -> None:
        """Forget the received part of a line: the bytes that follow belong to another."""
        self._part.clear()
        self._skipping = False


def readable(lines: Iterable[tuple[bytes, bool]], redact: Callable[[str], str]) -> list[str]:
    """Return lines as text with secrets hidden, at once for secrets of several lines."""
    lines = list(lines)
    if not lines:
        return []
    whole = b"\n".join([line for line, _ in lines]).decode("utf-8", "replace")
    texts = plain(redact(whole)).split("\n")
    cuts = [cut for _, cut in lines]
    if len(texts) != len(cuts):  # a secret of several lines became one word
        cuts = [any(cuts)] * len(texts)
    return [_short(text, cut) for text, cut in zip(texts, cuts, strict=True)]


def _short(text: str, cut: bool) -> str:
    if cut:  # its end may be the first half of a secret
        text = text[:-_OVERLAP]
    return text[:LINE_LIMIT] + " …" if cut or len(text) > LINE_LIMIT else text


class StderrRateLimit:
    """A limit of bytes per second, and of bytes at once after a pause."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._then = burst, now

    def take(self, size: int, now: float) -> bool:
        """Return whether ``size`` bytes at time ``now`` (seconds) are within the limit; if so, count them."""
        self._left = min(self._burst, self._left + (now - self._then) * self._rate)
        self._then = now
        if self._left < size:
            return False
        self._left -= size
        return True


class ServerLogFile:
    """A server's log in ``folder`` and one predecessor, both readable only by the user."""

    def __init__(self, folder: str | os.PathLike[str], server: str) -> None:
        self.path = os.path.join(folder, file_name(server))
        self._file = RotatingFile(self.path, FILE_LIMIT, 2, keep_open=False)
        self._complained = False

    def append(self, lines: Iterable[str]) -> None:
        """Append lines with the time. If the file cannot be written, they are lost, with one warning."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ")
        text = "".join(f"{stamp}{line}\n" for line in lines).encode("utf-8", "replace")
        try:
            try:
                self._file.append(text)
            except FileNotFoundError:
                # Create logs/servers if it is missing. A home that was deleted is not created again.
                folder = os.path.dirname(self.path)
                if os.path.isdir(os.path.dirname(os.path.dirname(folder))):
                    os.makedirs(folder, 0o700, exist_ok=True)
                self._file.append(text)
        except OSError as error:
            if not self._complained:
                log.warning("cannot write %s: %s", self.path, error.strerror)
            self._complained = True

    def last(self, count: int) -> list[str]:
        """Return the last ``count`` lines, also from the predecessor if this file has fewer."""
        return self.end(count).lines

    def end(self, count: int) -> LinesAfter:
        """Return the last ``count`` lines, and the cursor behind them."""
        found = log_end(self.path, count)
        with contextlib.suppress(OSError):
            before = last_lines(f"{self.path}.1", count - len(found.lines))[0]
            found = found._replace(lines=before + found.lines)
        return found

    def after(self, cursor: str, count: int) -> LinesAfter:
        """Return at most ``count`` lines behind a cursor."""
        return lines_after(self.path, cursor, count)


class StderrLog:
    """Reads a child's stderr, non-blocking ``fd``, into the log of ``server`` in ``folder``.

    The object owns the descriptor, and closes it at its end or in :meth:`close`. ``redact`` hides secrets in
    text of whole lines.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        folder: str | os.PathLike[str],
        server: str,
        redact: Callable[[str], str],
    ) -> None:
        self._loop, self._fd, self._redact = loop, fd, redact
        self._file = ServerLogFile(folder, server)
        self._lines = StderrLines()
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._allowance = StderrRateLimit(RATE, BURST, loop.time())
        self._left_out = 0  # bytes of a flood since the last line that was logged
        self._heard = loop.time()
        self._rest: asyncio.TimerHandle | None = None
        self._open = True
        loop.add_reader(fd, self._readable)

    def lines(self) -> list[str]:
        """Return the last lines that were written so far; an unfinished line, such as a prompt, counts."""
        self._drain()
        if self._loop.time() - self._heard < _AT_REST:
            return list(self._kept)
        return [*self._kept, *readable(self._lines.rest(), self._redact)][-KEPT_LINES:]

    def last_words(self) -> str:
        """Return the last few lines with content, for an error message; empty if there are none."""
        count, characters = _LAST_WORDS
        said = [line for line in self.lines() if line.strip()]
        return "\n".join(said[-count:])[-characters:]

    def close(self) -> None:
        """Read the available data, and close the descriptor. May be called twice."""
        self._drain()
        self._end()

    def _readable(self) -> None:
        data = self._read_pipe()
        if data and not self._take(data):
            self._loop.remove_reader(self._fd)
            self._rest = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        self._rest = None
        self._loop.add_reader(self._fd, self._readable)

    def _read_pipe(self) -> bytes:
        """Return the available data; empty if there is none now or any more."""
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._end()
        return data

    def _drain(self) -> None:
        for _ in range(4):  # a pipe holds 64 KiB
            if not self._open or not (data := self._read_pipe()):
                return
            self._take(data)

    def _take(self, data: bytes) -> bool:
        """Keep a chunk, or only its end in a flood. Return whether all was kept."""
        self._heard = self._loop.time()
        if self._allowance.take(len(data) + _LINE_COST * data.count(b"\n"), self._heard):
            self._keep(self._lines.feed(data), logged=True)
            return True
        sample = data[-_SAMPLE:].partition(b"\n")[2]
        self._left_out += len(data)
        self._lines.skip()
        self._keep(self._lines.feed(sample), logged=False)
        return False

    def _keep(self, lines: list[tuple[bytes, bool]], logged: bool) -> None:
        texts = readable(lines, self._redact)
        self._kept.extend(texts)
        if logged and self._left_out:
            texts.insert(0, f"[{self._left_out} bytes left out: more than {RATE >> 10} KiB a second]")
            self._left_out = 0
        if logged and texts:
            self._file.append(texts)

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._keep(self._lines.rest(), logged=True)
        self._lines.skip()
