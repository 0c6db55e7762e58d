"""Response to a POST or GET of MCP: one JSON text, or a stream of events, with a journal to resume it.

A message before the answer turns the response into a stream of events; a slow answer does so too. Each
request has one task, which sleeps on one future. One :class:`Pulse` sends the keep-alives
of all streams and turns slow answers into streams.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tabane.hub.http.request import JSON_HEAD, HeaderList, HttpReply, HttpRequest
from tabane.wire.http import EVENTS
from tabane.wire.sse import KEEP_ALIVE


class _JournalEvent(NamedTuple):
    stream: int
    number: int
    event: bytes


class Journal:
    """The last events of a session: at most ``most`` of them, with at most ``most_bytes`` in all.

    The id of an event names its stream and its number in the session. A client that reconnects sends the
    last id that it has seen, and gets the later events of that stream.
    """

    __slots__ = ("_bytes", "_kept", "most", "most_bytes")

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: deque[_JournalEvent] = deque()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Return the number of bytes in the journal."""
        return self._bytes

    def keep(self, stream: int, number: int, event: bytes) -> None:
        """Remember an event. One that alone exceeds the limit is not kept, nor are the events before it."""
        self._kept.append(_JournalEvent(stream, number, event))
        self._bytes += len(event)
        while len(self._kept) > self.most or self._bytes > self.most_bytes:
            self._bytes -= len(self._kept.popleft().event)

    def after(self, stream: int, number: int) -> list[bytes]:
        """Return the events of a stream after its event of that number, the oldest first."""
        return [kept.event for kept in self._kept if kept.stream == stream and kept.number > number]

    def forget(self, stream: int) -> None:
        """Drop the events of a stream."""
        self._kept = deque(kept for kept in self._kept if kept.stream != stream)
        self._bytes = sum(len(kept.event) for kept in self._kept)


def event_id(stream: int, number: int) -> str:
    """Return the id of an event: the number of its stream, and its own."""
    return f"{stream}-{number}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Return stream and number of an event's id; None if it is not one of ours."""
    stream, dash, number = text.partition("-")
    # Bounded before they are converted: a number may be as long as a header.
    if not dash or len(text) > 40 or not (stream.isascii() and number.isascii()):
        return None
    if not (stream.isdigit() and number.isdigit()):
        return None
    return int(stream), int(number)


KEEP_ALIVE_EVERY = 15.0
"""Seconds of silence on a stream, after which a comment is sent for the proxies on the way."""

BEAT = 1.0

STREAM_HEAD: HeaderList = [
    (b"content-type", EVENTS.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class PulseListener(Protocol):
    """A response that waits, and is checked each second."""

    def beat(self, now: float) -> None: ...


class Pulse:
    """One timer for everything that waits; it stops while nothing does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, every: float = BEAT) -> None:
        self.loop = loop
        self._every = every
        self._waiting: set[PulseListener] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: PulseListener) -> None:
        """Call a listener at each beat."""
        self._waiting.add(one)
        if self._timer is None:
            self._timer = self.loop.call_later(self._every, self._beat)

    def discard(self, one: PulseListener) -> None:
        """Call a listener no longer."""
        self._waiting.discard(one)

    @property
    def beats(self) -> bool:
        """Return whether another beat is scheduled."""
        return self._timer is not None

    def close(self) -> None:
        """Stop, and forget all listeners."""
        self._waiting.clear()
        if self._timer:
            self._timer.cancel()

    def _beat(self) -> None:
        now = self.loop.time()
        for one in list(self._waiting):
            one.beat(now)
        self._timer = self.loop.call_later(self._every, self._beat) if self._waiting else None


class Stream:
    """The response to one request, written as messages come.

    ``patience`` is how many seconds an answer may take before the response becomes a stream of events
    (None: it waits). ``opening`` gives what such a stream begins with; a ``mute`` one never becomes one,
    since its client takes JSON alone. ``limit`` bounds the bytes that
    wait for a client that reads too slowly: one that lets more pile up is cut off.
    """

    __slots__ = (
        "_future",
        "_limit",
        "_lost",
        "_patience",
        "_pending",
        "_pulse",
        "_replied",
        "_reply",
        "_request",
        "_since",
        "_size",
        "begun",
        "finished",
        "head",
        "mute",
        "opening",
    )

    def __init__(self, request: HttpRequest, pulse: Pulse, limit: int, *, patience: float | None) -> None:
        self._request, self._pulse, self._limit, self._patience = request, pulse, limit, patience
        self.opening: Callable[[], bytes] | None = None
        self.mute = False
        self._pending: list[bytes] = []
        self._size = 0
        self._reply: HttpReply | None = None
        self._replied = False
        self._future: asyncio.Future[None] | None = None
        self._since = pulse.loop.time()
        self._lost = False
        self.head: HeaderList = []
        """Headers of this response besides its type's."""
        self.begun = False
        """Whether it is a stream of events by now."""
        self.finished = False

    @property
    def lost(self) -> bool:
        """Return whether the client is gone, or was disconnected."""
        return self._lost

    @property
    def unsent(self) -> int:
        """Bytes that the client has not read yet."""
        return 0 if self._lost else self._size + self._request.line.unsent

    def event(self, event: bytes, *, due: bool = False) -> None:
        """Send an encoded event; from here on, the response is a stream.

        An event that is ``due``, an answer, is taken however much waits: its sender limits that.
        """
        if self.finished or self._lost:
            return
        self.begin()
        self._push(event, due=due)

    def begin(self) -> None:
        """Make the response a stream of events, if it is none yet."""
        if not self.begun and not self.finished:
            self.begun = True
            self._push(self.opening() if self.opening else b"")

    def answer(self, status: int, line: bytes) -> None:
        """Send the whole answer as JSON, if the response is not a stream yet."""
        self.reply(HttpReply(status, line, JSON_HEAD))

    def reply(self, reply: HttpReply) -> None:
        """Send the whole answer: at once if :meth:`run` waits for it, so in the turn in which it came."""
        if self.finished or self.begun:
            return
        if self._future is not None and not self._lost:
            self._replied = self._request.reply_at_once(self._with_head(reply))
        if not self._replied:
            self._reply = reply
        self.finish()

    def finish(self) -> None:
        """End the response after what waits."""
        if not self.finished:
            self.finished = True
            self._wake()

    async def run(self) -> bool:
        """Write until finished. Return whether the client stayed connected to the end."""
        line = self._request.line
        line.on_lost = self._on_lost
        try:
            while not self._lost:
                if self._replied:
                    return True
                if self._reply is not None:
                    await self._request.reply(self._with_head(self._reply))
                    return not self._lost
                if self._pending or self.finished:
                    if await self._write():
                        return not self._lost
                    continue
                self._future = self._pulse.loop.create_future()
                self._pulse.add(self)
                try:
                    await self._future
                finally:
                    self._future = None
            return False
        finally:
            line.on_lost = None
            self._pulse.discard(self)

    def beat(self, now: float) -> None:
        """Send a keep-alive. Called each second while the response waits."""
        if self._request.headers:
            self._request.forget()
        quiet = now - self._since
        if not self.begun:
            if self._patience is not None and quiet >= self._patience:
                self.begin()
                self._push(KEEP_ALIVE if not self._size else b"")
        elif quiet >= KEEP_ALIVE_EVERY and not self._pending and not self._request.line.unsent:
            self._push(KEEP_ALIVE)

    async def _write(self) -> bool:
        """Send what waits. Return whether that was the end."""
        if not self._request.status:
            await self._request.start(200, [*STREAM_HEAD, *self.head, *self._request.extra])
        last = self.finished
        chunk = b"".join(self._pending)
        self._pending.clear()
        self._size = 0
        self._since = self._pulse.loop.time()
        await self._request.send(chunk, more=not last)
        return last

    def _push(self, data: bytes, *, due: bool = False) -> None:
        # One message may be as long as it is; what counts is what was not read when it came.
        if not due and self._size + self._request.line.unsent > self._limit:
            self._request.line.transport.abort()
            self._on_lost()
            return
        self._pending.append(data)
        self._size += len(data)
        self._wake()

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _on_lost(self) -> None:
        self._lost = True
        self._pending.clear()
        self._size = 0
        self._wake()

    def _with_head(self, reply: HttpReply) -> HttpReply:
        return reply._replace(headers=[*reply.headers, *self.head]) if self.head else reply
