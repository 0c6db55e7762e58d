"""Connections of a bridge: lines over non-blocking descriptors, signals, and connectors to a hub."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from tabane.hub.local import endpoint
from tabane.hub.local.connector import HubConnection, HubConnector
from tabane.wire.channel import LineSplitter

if TYPE_CHECKING:
    from tabane.hub.local.handshake import Hello

CHUNK = 1 << 16
_GATHERED = 64


class LinePeer:
    """Lines over a reading and a writing descriptor, which may be the same.

    ``unsent`` counts the bytes that wait to be written. A line longer than ``max_line`` bytes is
    dropped; its head is kept in ``oversized``. ``ended`` is set when the peer announces that it closes.
    """

    ended = False
    translates = False
    """Whether this side answers some requests itself, see :meth:`answered`."""

    def __init__(self, read_fd: int, write_fd: int, max_line: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self.unsent = 0
        self.oversized: list[bytes] = []
        self._splitter = LineSplitter(max_line)
        self._outbox: deque[bytes] = deque()
        self._begun = 0

    def limit(self, max_line: int) -> None:
        """Set another limit for lines, from the next one on; an incomplete line is kept."""
        splitter = LineSplitter(max_line)
        splitter.feed(self._splitter.end())
        self._splitter = splitter

    def read(self) -> list[bytes] | None:
        """Return the lines that have arrived, None at the end of file. Raises OSError if the peer is gone."""
        try:
            chunk = os.read(self.read_fd, CHUNK)
        except BlockingIOError:
            return []
        return self.feed(chunk) if chunk else None

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that these bytes complete; the beginnings of too long ones go to ``oversized``."""
        lines = self._splitter.feed(chunk)
        if self._splitter.oversized:
            self.oversized += self._splitter.oversized
            self._splitter.oversized = []
        return lines

    def rest(self) -> bytes:
        """Return the bytes after the last newline: a line as well, if the stream has ended properly."""
        return self._splitter.end()

    def send(self, line: bytes) -> None:
        """Queue a line, given without its newline. :meth:`flush` writes."""
        self._outbox.append(line + b"\n")
        self.unsent += len(line) + 1

    def answered(self) -> list[bytes]:
        """Return lines that answer a request without the peer; for sides that translate."""
        return []

    def flush(self) -> None:
        """Write as much as the peer takes without waiting. Raises OSError if the peer is gone."""
        outbox = self._outbox
        while outbox:
            try:
                count = self._write()
            except BlockingIOError:
                return
            if count == self.unsent:
                outbox.clear()
                self.unsent = self._begun = 0
            else:
                self._written(count)

    def not_begun(self) -> list[bytes]:
        """Return the queued lines, without their newlines, if no byte of them was written."""
        return [line[:-1] for line in islice(self._outbox, 1 if self._begun else 0, None)]

    def close(self) -> None:
        """Close both descriptors."""
        for fd in {self.read_fd, self.write_fd}:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _write(self) -> int:
        first = self._outbox[0]
        if len(self._outbox) == 1 and not self._begun:
            return os.write(self.write_fd, first)
        rest = memoryview(first)[self._begun :]
        return os.writev(self.write_fd, [rest, *islice(self._outbox, 1, _GATHERED)])

    def _written(self, count: int) -> None:
        self.unsent -= count
        count += self._begun
        while self._outbox and count >= len(self._outbox[0]):
            count -= len(self._outbox.popleft())
        self._begun = count


class BridgeConnector(Protocol):
    """Connects a bridge, and connects it again when needed."""

    hello: Hello

    def connect(self) -> HubConnection | None:
        """Try once. Returns None if no hub serves now. Raises HubUnreachable if a retry cannot help."""
        ...

    def reach(self) -> HubConnection:
        """Return a hub that serves. Raises HubUnreachable."""
        ...

    def side(self, connection: HubConnection) -> LinePeer:
        """Return the lines of an established connection."""
        ...

    def stacks(self, pid: int) -> str | None:
        """Return the file with the stacks of the hub of that process id, if its watchdog ended it."""
        ...


class LocalBridgeConnector(HubConnector):
    """The hub of a home on this machine."""

    def side(self, connection: HubConnection) -> LinePeer:
        return LinePeer(connection.fd, connection.fd, connection.welcome.max_line)

    def stacks(self, pid: int) -> str | None:
        logs = self.endpoint.logs
        return endpoint.file_of(logs, pid) if endpoint.was_stuck(logs, pid) else None


class BridgeStopped(Exception):
    """The bridge has to end now: the client is gone, or a second signal came."""


class Signals:
    """SIGTERM, SIGINT and SIGHUP as something to poll for: ``fd`` can be read once one has come.

    ``interrupted`` is whether one was Ctrl+C.
    """

    def __init__(self) -> None:
        self.fd, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self.interrupted = False
        signal.signal(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True

    def pause(self, seconds: float, fd: int = -1) -> None:
        """Wait for ``seconds``, or until ``fd`` can be read. Raises :class:`BridgeStopped` at a signal."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if fd >= 0:
            poll.register(fd, select.POLLIN)
        if any(found == self.fd for found, _ in poll.poll(seconds * 1000)):
            raise BridgeStopped
