"""Line channels over file descriptors, for stdio and the Unix socket.

Reads and writes happen in the readiness callbacks of the event loop, without streams or tasks between: a
forwarded call is two reads and two writes. Lines that are sent while a batch of lines is handled are written
together when the batch ends.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    Handled = asyncio.Future[None] | None

READ_SIZE = 1 << 16
"""Bytes of one read: smaller than the size at which an allocator maps memory for each read."""

HEAD_SIZE = 4096

SLICE = 0.002
"""Seconds for which the lines of one peer are handled before the loop turns to the others."""


MOST_LATER = 64
"""Pieces of work that a batch may put off: they are short, but not counted in the slice."""


Later = Callable[[Callable[[], object]], object]
"""Does some short work soon, as :meth:`LineBatch.later` does."""


def at_once(work: Callable[[], object]) -> None:
    """Do work that could be put off: the plain :data:`Later`."""
    work()


class LineSplitter:
    """Splits bytes into whole lines; pure.

    ``feed`` returns the lines that a chunk completes, without their newline; blank lines are left out. A line
    longer than ``limit`` bytes is dropped while it is read: its first 4,096 bytes (or ``limit``, if that is
    less) are appended to ``oversized``, so that its owner can be notified. However the stream is cut into
    chunks, the lines are the same, and at most ``limit`` bytes and a chunk are held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # Small parts are put together first: a peer that drips single bytes must not cost 40 each.
        self._parts: list[bytes] = []
        self._drops = bytearray()
        self._dropping = False
        self.oversized: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that these bytes complete, without those that are too long."""
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and (self._size or self._dropping or len(chunk) > self._limit):
            lines = [self._finish(line) for line in lines]
        if tail:
            self._keep(tail)
        for line in lines:
            if not line or line.isspace():
                return [line for line in lines if line and not line.isspace()]
        return lines

    def end(self) -> bytes:
        """Return the text after the last newline when the stream has ended; empty if it is blank."""
        line = self._finish(b"")
        return b"" if line.isspace() else line

    def _keep(self, part: bytes) -> None:
        if self._dropping:
            return
        self._size += len(part)
        if len(part) >= HEAD_SIZE:
            self._gather_drops()
            self._parts.append(part)
        else:
            self._drops += part
            if len(self._drops) >= HEAD_SIZE:
                self._gather_drops()
        if self._size > self._limit:
            self._drop()

    def _gather_drops(self) -> None:
        if self._drops:
            self._parts.append(bytes(self._drops))
            self._drops.clear()

    def _drop(self) -> None:
        self._gather_drops()
        # One of two consecutive parts is HEAD_SIZE long, so the first two contain the head.
        head = b"".join(part[:HEAD_SIZE] for part in self._parts[:2])
        self.oversized.append(head[: min(HEAD_SIZE, self._limit)])
        self._parts, self._size, self._dropping = [], 0, True

    def _finish(self, part: bytes) -> bytes:
        self._keep(part)
        self._gather_drops()
        line = b"".join(self._parts)
        self._parts, self._size, self._dropping = [], 0, False
        return line


class LineBatch:
    """Collects the channels written to while lines are handled, and flushes them at the end.

    After that comes the work that no message has to wait for, see :meth:`later`. ``is_behind`` is whether so
    much of it waits that it should be done before more lines are handled.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._dirty: list[LineChannel] = []
        self._later: list[Callable[[], object]] = []
        self.is_behind = False

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            if self._dirty:
                dirty, self._dirty = self._dirty, []
                for channel in dirty:
                    channel.flush()
            if self._later:
                self._catch_up()

    def add(self, channel: LineChannel) -> bool:
        """Return whether the channel will be flushed later; False if no batch is open."""
        if self._depth:
            self._dirty.append(channel)
            return True
        return False

    def later(self, work: Callable[[], object]) -> None:
        """Do some short work after the flush, and before the next line is read; now if no batch is open."""
        if self._depth:
            self._later.append(work)
            self.is_behind = len(self._later) >= MOST_LATER
        else:
            work()

    def _catch_up(self) -> None:
        self.is_behind = False
        while self._later:
            later, self._later = self._later, []
            for work in later:
                try:
                    work()
                except Exception:
                    import logging  # a bridge, which also uses this module, needs no log

                    logging.getLogger(__name__).exception("work after a batch of lines failed")


class LineChannel:
    """A two-way line stream over one or two non-blocking file descriptors.

    ``on_line`` gets each line. ``on_oversized`` gets the head of a line longer than ``max_line``, after the
    whole lines that were read with it. ``on_close`` is called once, with the reason: the peer has gone, the
    outbox exceeded ``max_outbox`` bytes, or :meth:`close` was called. What a callback raises goes to the
    loop's exception handler, and the next line is read. If ``on_line`` returns a future, the next line is
    handled, and more is read, when that future is done.

    End of file closes the channel, unless there is an ``on_end``. That is called instead, once; what was sent
    is still written, and the owner closes the channel.

    If the outbox holds more than ``pause_at`` bytes, reading stops until it has drained: a peer that does not
    read cannot ask for more. This is for a peer that sends requests. For a peer that answers requests give
    None: it must be read even while it does not read, or both wait forever.

    ``unsent`` is how many bytes wait in the outbox.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: LineBatch,
        read_fd: int,
        write_fd: int,
        *,
        on_line: Callable[[bytes], Handled],
        on_close: Callable[[str], None],
        on_oversized: Callable[[bytes], None] | None = None,
        on_end: Callable[[], None] | None = None,
        max_line: int = 64 << 20,
        max_outbox: int = 256 << 20,
        pause_at: int | None = 1 << 20,
    ) -> None:
        self._loop, self._batch = loop, batch
        self._read_fd, self._write_fd = read_fd, write_fd
        self._on_line, self._on_close, self._on_oversized = on_line, on_close, on_oversized
        self._on_end = on_end
        self._splitter = LineSplitter(max_line)
        self._max_outbox = max_outbox
        self._pause_at = max_outbox if pause_at is None else pause_at
        self._outbox: deque[bytes | memoryview] = deque()
        self.unsent = 0
        self._started = self._writing = self._reading = self._dirty = False
        self._inbox: deque[bytes] = deque()
        self._held: Handled = None
        self._ended = False
        self._last_word: str | None = None
        self.closed = False

    def start(self) -> None:
        """Start to read."""
        self._started = True
        self._resume()

    def send(self, line: bytes) -> None:
        """Queue a line (with its newline). It is dropped if the channel is closed or no longer writes."""
        if self.closed or self._write_fd == -1:
            return
        self._outbox.append(line)
        self.unsent += len(line)
        if self.unsent > self._max_outbox:
            self.close("the peer does not read: its outbox is full")
        elif self._writing:
            if self.unsent > self._pause_at:
                self._pause()
        elif not self._dirty:
            self._dirty = self._batch.add(self)
            if not self._dirty:
                self.flush()

    def flush(self) -> None:
        """Write what the descriptor accepts now; the rest when it is ready again."""
        self._dirty = False
        if not self.closed and not self._writing:
            self._write()

    def close(self, why: str) -> None:
        """Stop reading and writing, close the descriptors, and call ``on_close`` once."""
        if self.closed:
            return
        self.closed = True
        self._pause()
        self._stop_writing()
        for fd in {self._read_fd, self._write_fd} - {-1}:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._call(self._on_close, why)

    def end_writing(self) -> None:
        """Send end of file to the peer, if writing has a descriptor of its own.

        Bytes that the peer does not accept at once are dropped. What the peer sends is still read.
        """
        if self._write_fd not in (self._read_fd, -1):
            self.flush()
        if not self.closed and self._write_fd not in (self._read_fd, -1):
            self._stop_writing()
            with contextlib.suppress(OSError):
                os.close(self._write_fd)
            self._write_fd = -1
            self._resume()

    def finish(self, why: str) -> None:
        """Close after all received bytes are handled: the peer sends nothing more."""
        if self._last_word is None and not self.closed:
            self._last_word = why
            self._loop.call_soon(self._read_rest)

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._read_fd)
            self._reading = False

    def _resume(self) -> None:
        if self._started and not (self._reading or self.closed or self._inbox or self._held):
            self._loop.add_reader(self._read_fd, self._readable)
            self._reading = True

    def _readable(self) -> None:
        try:
            chunk = os.read(self._read_fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            if self._last_word is not None:
                self.close(self._last_word)
            return
        except OSError as error:
            self.close(os.strerror(error.errno or 0))
            return
        if chunk:
            self._inbox.extend(self._splitter.feed(chunk))
        else:
            self._inbox.append(self._splitter.end())
            self._ended = True
        self._handle()

    def _read_rest(self) -> None:
        if not (self.closed or self._inbox or self._held or self._ended):
            self._readable()

    def _handle(self) -> None:
        """Handle lines for a slice of time; the rest waits for the loop's next turn."""
        if self.closed or self._held:
            return
        with self._batch:
            self._deliver()
        plain = self._reading and not (self._inbox or self._held or self._ended or self.closed)
        if not plain or self._last_word is not None:
            self._go_on()

    def _go_on(self) -> None:
        if self.closed:
            self._inbox.clear()
        elif self._held:
            self._pause()
        elif self._inbox:
            self._pause()
            self._loop.call_soon(self._handle)
        else:
            self._handled()

    def _handled(self) -> None:
        """Continue after all received lines are handled: read on, or end."""
        if self._ended:
            if self._on_end is None:
                self.close(self._last_word or "end of file")
            elif not self.closed:
                self._pause()
                self._started = False
                self._call(lambda _: self._on_end and self._on_end(), None)
            return
        if self._last_word is not None:
            self._loop.call_soon(self._read_rest)
        if not (self._writing and self.unsent > self._pause_at):
            self._resume()

    def _deliver(self) -> None:
        inbox = self._inbox
        until = monotonic() + SLICE if len(inbox) > 1 else 0.0
        while inbox and not self.closed:
            line = inbox.popleft()
            try:
                waits = self._on_line(line) if line else None
            except Exception as error:
                self._report(error)
                waits = None
            if waits is not None and not waits.done():
                self._held = waits
                waits.add_done_callback(self._release)
                return
            if inbox and (monotonic() > until or self._batch.is_behind):
                return
        if self._splitter.oversized:
            heads, self._splitter.oversized = self._splitter.oversized, []
            for head in heads:
                if self._on_oversized and not self.closed:
                    self._call(self._on_oversized, head)

    def _release(self, waited: asyncio.Future[None]) -> None:
        if not waited.cancelled() and (error := waited.exception()) is not None:
            self._loop.call_exception_handler({"message": "handling a line", "exception": error})
        self._held = None
        self._handle()

    def _call(self, callback: Callable[[Any], Any], value: object) -> Any:
        try:
            return callback(value)
        except Exception as error:
            self._report(error)
            return None

    def _report(self, error: Exception) -> None:
        self._loop.call_exception_handler({"message": "a line channel's callback", "exception": error})

    def _write(self) -> None:
        outbox = self._outbox
        while outbox:
            data = outbox.popleft() if len(outbox) == 1 else self._gather()
            try:
                written = os.write(self._write_fd, data)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError as error:
                self.close(os.strerror(error.errno or 0))
                return
            self.unsent -= written
            if written < len(data):
                # A view: what remains of a large line is not copied at every write.
                outbox.appendleft(memoryview(data)[written:])
                self._wait_writable()
                return
        if self._writing:
            self._stop_writing()
            self._resume()

    def _gather(self) -> bytes | memoryview:
        parts = [self._outbox.popleft()]
        size = len(parts[0])
        while self._outbox and size < READ_SIZE:
            parts.append(self._outbox.popleft())
            size += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._write_fd, self._write)
        if self.unsent > self._pause_at:
            self._pause()

    def _stop_writing(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._write_fd)
            self._writing = False
        self._outbox.clear()
        self.unsent = 0
