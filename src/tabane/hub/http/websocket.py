"""WebSocket of one client: frames in, requests out to a receiver, answers no faster than the client reads."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from tabane.hub.clients.outlet import ROOM, Outlet, undelivered
from tabane.hub.clients.session import Session
from tabane.hub.context import HubContext
from tabane.hub.http.authentication import has_ended
from tabane.hub.local.handshake import DRAIN, END
from tabane.hub.rpc.dispatcher import ClientGone, Send
from tabane.operations import Caller
from tabane.wire import json, rpc, websocket
from tabane.wire.websocket import (
    Event,
    Fault,
    OversizedMessage,
    WebSocketClosed,
    WebSocketDecoder,
    WebSocketMessage,
    WebSocketPing,
)

log = logging.getLogger(__name__)

AHEAD = 1 << 20
"""Bytes that may wait for a client. Above it, no further answer is computed; one more may be added."""

MOST_HELD = 32 << 20
"""Bytes of messages in progress. Further messages are not read yet."""

SLICE, MOST_IN_SLICE = 0.002, 16
"""Seconds, and messages, that are begun for one client before others get their turn."""

DEAF = 3
"""Pings in a row without any response, after which a client counts as gone."""

LINGER = 2.0
"""Seconds that a client has to read why its connection ends, and to confirm it."""


class Receiver(Protocol):
    """Takes the messages of one connection. ``draining`` is set if nothing new may begin.

    ``on_held`` is called when :attr:`holding` changes.
    """

    caller: Caller
    draining: bool
    on_held: Callable[[], None]

    @property
    def holding(self) -> bool:
        """Return whether the client is over its limits, so that it is not read on."""
        ...

    @property
    def busy(self) -> bool: ...

    def receive(self, text: bytes, send: Send) -> asyncio.Future[None]:
        """Begin to answer a message; done when its bytes are no longer needed."""
        ...

    def cancel(self) -> None: ...


class WebSocket(asyncio.Protocol):
    """The connection of one client. ``limit`` is in bytes of a message.

    Where more waits for the client than :data:`AHEAD`, or more of what it sent is worked on than
    :data:`MOST_HELD`, it is not read on. ``on_lost`` is called once, when the connection is gone.
    """

    def __init__(
        self,
        dispatcher: Receiver,
        limit: int,
        context: HubContext,
        on_lost: Callable[[WebSocket], None],
    ) -> None:
        self.dispatcher = dispatcher
        self._limit, self._context, self._on_lost = limit, context, on_lost
        self._decoder = WebSocketDecoder(limit, masked=True)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._writable = asyncio.Event()
        self._writable.set()
        self._inbox: deque[Event] = deque()
        self._delivering: asyncio.Handle | None = None
        dispatcher.on_held = self._read_or_not
        self._held = 0
        self._ending = self._broken = False
        self._heard, self._missed, self._unsent = True, 0, 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Return whether a request is open, or an answer is not read yet."""
        return bool(self._inbox or self.dispatcher.busy or self._transport.get_write_buffer_size())

    @property
    def ending(self) -> bool:
        """Return whether nothing more is sent."""
        return self._ending

    @property
    def unsent(self) -> int:
        """Return the bytes that the client has not read."""
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    def tell(self, line: bytes) -> None:
        """Send a line at once, however much waits; as binary if it is not valid text."""
        if not self._ending:
            payload = line.rstrip(b"\n")
            opcode = websocket.TEXT if websocket.is_text(payload) else websocket.BINARY
            self._transport.write(websocket.frame(payload, opcode))

    def close(self, code: int, reason: str) -> None:
        """Send why it ends; the connection closes when the client confirms, or soon."""
        if not self._ending:
            self._end_with(websocket.close_frame(code, reason))

    def abort(self) -> None:
        """Close the connection now; what is unsent is lost."""
        self._transport.abort()

    # -- what the transport says -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and begin to send pings."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=AHEAD)
        self._timer = self._loop.call_later(self._context.settings.ping_interval, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = True
        if self._timer:
            self._timer.cancel()
        self._inbox.clear()
        self.dispatcher.cancel()
        self._writable.set()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._broken:
            return
        try:
            self._inbox.extend(self._decoder.feed(data))
            if self._delivering is None:
                self._deliver()
        except Fault as fault:
            self._end_with_fault(fault)

    def _end_with_fault(self, fault: Fault) -> None:
        log.info("a client violated the WebSocket protocol: %s", fault)
        while self._inbox:
            self._take_event(self._inbox.popleft())
        self._broken = True
        self.close(fault.code, fault.reason)
        # Its closing frame cannot be recognized within the broken data; its end of file can.
        if self._transport.can_write_eof():  # not in TLS, where the end of the connection is awaited
            self._transport.write_eof()

    def _deliver(self) -> None:
        """Begin what the client asks for, for a slice of time. The rest waits for the loop's next turn."""
        self._delivering = None
        until, inbox = self._loop.time() + SLICE, self._inbox
        for _ in range(MOST_IN_SLICE):
            if not inbox or self.dispatcher.holding or self._loop.time() > until:
                break
            self._take_event(inbox.popleft())
        self._read_or_not()

    def eof_received(self) -> None:
        # Nobody reads answers any more: asyncio closes the transport.
        return

    def pause_writing(self) -> None:
        self._writable.clear()
        self._read_or_not()

    def resume_writing(self) -> None:
        """Continue with answers, now that the client has read enough."""
        self._writable.set()
        self._read_or_not()

    # -- what the client says ----------------------------------------------------------------------

    def _take_event(self, event: Event) -> None:
        if isinstance(event, WebSocketClosed):
            if not self._ending:
                self._ending = True
                self._transport.write(websocket.close_frame(event.code))
            self._transport.close()
        elif self._ending:
            return
        elif isinstance(event, WebSocketMessage):
            self._take_message(event.data)
        elif isinstance(event, OversizedMessage):
            self._write(rpc.oversized(json.id_in(event.head), self._limit))
        elif isinstance(event, WebSocketPing):
            self._transport.write(websocket.frame(event.data, websocket.PONG))

    def _take_message(self, data: bytes) -> None:
        if has_ended(self.dispatcher.caller.access):
            self.close(websocket.POLICY, "the key or token of this connection is no longer valid")
            return
        self._held += len(data)
        self._read_or_not()
        task = self.dispatcher.receive(data, self._send)
        task.add_done_callback(lambda _: self._release(len(data)))

    def _release(self, size: int) -> None:
        self._held -= size
        self._read_or_not()

    # -- what the client is told -------------------------------------------------------------------

    async def _send(self, line: bytes) -> None:
        # Each waiting sender checks again: the first one to write may fill the room.
        while not self._writable.is_set():
            await self._writable.wait()
        if self._ending:
            raise ClientGone
        self._write(line)
        await self._writable.wait()

    def _write(self, line: bytes) -> None:
        self._transport.write(websocket.frame(memoryview(line).toreadonly()[: len(line.rstrip(b"\n"))]))

    def _end_with(self, frame: bytes) -> None:
        """Send the last frame, and wait for the client's, or for it to hang up, but not for long."""
        self._ending = True
        self.dispatcher.cancel()
        self._writable.set()
        self._transport.write(frame)
        self._transport.resume_reading()
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(LINGER, self._transport.abort)

    # -- whether the client is there ---------------------------------------------------------------

    def _read_or_not(self) -> None:
        if self._ending or self._transport.is_closing():
            return
        holding = self.dispatcher.holding
        if self._inbox and not holding and self._delivering is None:
            self._delivering = self._loop.call_soon(self._deliver)
        if self._writable.is_set() and self._held <= MOST_HELD and not self._inbox and not holding:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _tick(self) -> None:
        """Send a ping, and check whether the client showed a sign of life since the last one."""
        unsent = self._transport.get_write_buffer_size()
        # One that we do not read cannot be heard; one that takes what it is sent is alive.
        unread = self._inbox or self.dispatcher.holding or self._held > MOST_HELD
        alive = self._heard or bool(unread) or unsent != self._unsent
        self._missed = 0 if alive else self._missed + 1
        if self._missed >= DEAF:
            log.info("a client on a WebSocket does not respond any more")
            self._transport.abort()
            return
        self._heard, self._unsent = False, unsent
        if self._writable.is_set():
            self._transport.write(websocket.frame(b"", websocket.PING))
        self._timer = self._loop.call_later(self._context.settings.ping_interval, self._tick)


class WebSocketOutlet(Outlet):
    """The outlet of a session, which also takes the messages of a :class:`WebSocket`.

    If more than ``most`` bytes wait for the client, an answer becomes an error and a notification is
    dropped: one request fails, the connection stays. ``notes``: the client is a bridge, which gets a note
    when the hub drains.
    """

    def __init__(self, caller: Caller, most: int, *, notes: bool) -> None:
        self.caller, self._most, self._notes = caller, most, notes
        self.on_held: Callable[[], None] = lambda: None
        self._drains = False
        self._socket: WebSocket
        self._session: Session

    def open(self, socket: WebSocket, session: Session) -> None:
        """Set before the first message arrives."""
        self._socket, self._session = socket, session
        session.on_held = lambda: self.on_held()

    # -- incoming ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Return False: the hub itself waits for the calls of its sessions."""
        return False

    @property
    def holding(self) -> bool:
        return self._session.held > 0

    @property
    def draining(self) -> bool:
        return self._drains

    @draining.setter
    def draining(self, drains: bool) -> None:
        if drains and not self._drains:
            self._drains = True
            self.drain()

    def receive(self, text: bytes, send: object) -> asyncio.Future[None]:
        """Give the session a message. It answers through the outlet."""
        # Line breaks between tokens would split the lines that servers on pipes get.
        self._session.receive(text.replace(b"\n", b" ").replace(b"\r", b" "))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def cancel(self) -> None:
        """Cancel everything: the client is gone, or about to be disconnected."""
        self._session.gone()

    # -- outgoing ----------------------------------------------------------------------------------

    transport = "websocket"

    @property
    def unsent(self) -> int:
        return self._socket.unsent

    @property
    def closed(self) -> bool:
        return self._socket.ending

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        if self._waits_with(line):
            line = undelivered(request_id, len(line), self.unsent, self.caller.lang)
        self._socket.tell(line)

    def tell(self, line: bytes, about: bytes | None) -> None:
        if not self._waits_with(line):
            self._socket.tell(line)

    def drain(self) -> None:
        if self._notes:
            self._socket.tell(DRAIN)

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        return False  # unlike a Unix socket, TCP may lose the last lines of a process that is killed

    def close(self, why: str) -> None:
        self._socket.close(websocket.GOING_AWAY, why)

    def dismiss(self, why: str) -> None:
        if self._notes:
            self._socket.tell(END)
        self.close(why)

    def _waits_with(self, line: bytes) -> bool:
        """Return whether more than the client's share would wait, if this line waited too.

        While little waits, a line is taken however long it is.
        """
        waiting = self.unsent
        return waiting > ROOM and waiting + len(line) > self._most
