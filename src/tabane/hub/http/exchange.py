"""One request over HTTP/1.1 and its response, as the application sees them: the calls of ASGI.

A whole answer is written at once (:meth:`HttpExchange.whole`). Everything else goes through ``receive`` and
``send``, which wait while the client does not send or read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, Protocol

log = logging.getLogger(__name__)

MOST_WAITING = 64 << 10
"""Bytes of a body that wait for the application. Above that, nothing more is read from the client."""

LARGEST = 64 << 10
"""Bytes of a body that are worth a copy to save a packet."""

_BODILESS = frozenset((204, 304))
_FAILED = b"Internal Server Error"

_forbidden = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


class ExchangeConnection(Protocol):
    """The connection, as its requests know it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def date(self) -> bytes:
        """Return the line of the header Date."""
        ...

    @property
    def write_paused(self) -> bool: ...

    async def drained(self) -> None:
        """Wait until the client has read enough."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def completed(self) -> None:
        """Go on after a response was written to its end."""
        ...


class HttpExchange:
    """A request whose headers have arrived. ``expects``: the client sends the body when it is told to.

    ``keep_alive``: the connection may stay. ``head``: the method is HEAD, so the response has no body.
    """

    __slots__ = (
        "_chunked", "_connection", "_expects", "_head", "_joined", "_left", "_news", "_parts", "_size",
        "_waiter", "complete", "disconnected", "keep_alive", "more_body", "scope", "started",
    )  # fmt: skip

    def __init__(
        self, connection: ExchangeConnection, scope: Any, *, head: bool, keep_alive: bool, expects: bool
    ) -> None:
        self.scope: Any = scope
        """What the application gets; taken when it is called."""
        self.keep_alive = keep_alive
        self.disconnected = self.started = self.complete = False
        self.more_body = True
        self._connection, self._head, self._expects = connection, head, expects
        self._parts: list[bytes] = []
        self._size = self._left = 0
        self._news = self._chunked = False
        self._waiter: asyncio.Future[None] | None = None
        self._joined = b""

    # -- the request -----------------------------------------------------------------------------

    def feed(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > MOST_WAITING:
            self._connection.pause_reading()
        self._stir()

    def finish(self) -> None:
        """Note that the body has arrived to its end."""
        self.more_body = False
        self._stir()

    def disconnect(self) -> None:
        """Note that the client is gone."""
        if not self.complete:
            self.disconnected = True
        self._stir()

    async def run(self, app: AsgiApp) -> None:
        """Let the application answer. Whatever it does, the client gets an answer or the end."""
        scope, self.scope = self.scope, None
        try:
            await app(scope, self.receive, self.send)
        except BaseException as error:
            log.error("a request over HTTP failed", exc_info=error)
            if self.started:
                self._close()
            else:
                await self._fail()
            return
        if not self.started and not self.disconnected:
            log.error("a request over HTTP was not answered")
            await self._fail()
        elif not self.complete and not self.disconnected:
            log.error("a response over HTTP was not completed")
            self._close()

    async def receive(self) -> dict[str, Any]:
        """Return the next part of the body, or that the client is gone, as a message of ASGI."""
        if self._expects and not self._connection.transport.is_closing():
            self._expects = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.disconnected and not self.complete:
            self._connection.resume_reading()
            while not self._news:
                await self._arrival()
            self._news = False
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def _arrival(self) -> None:
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _stir(self) -> None:
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the response ----------------------------------------------------------------------------

    def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer. Return False, with nothing done, if that takes a wait."""
        if self.started or self._connection.write_paused:
            return False
        if self.disconnected:
            return True
        head = self._begun(status, headers)
        if self._head:
            body = b""
        elif self._chunked or len(body) != self._left:
            raise RuntimeError("a whole answer has its length")
        if len(body) <= LARGEST:
            self._connection.transport.write(head + body)
        else:
            self._connection.transport.write(head)
            self._connection.transport.write(body)
        self._left = 0
        self._completed()
        return True

    async def send(self, message: Any) -> None:
        """Send a message of ASGI: the head of the response, or a part of its body."""
        if self._connection.write_paused and not self.disconnected:
            await self._connection.drained()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.started:
            # Waits for what is written in the same turn of the loop, to save a packet and a wake-up.
            self._joined = self._begun(message["status"], message.get("headers", ()))
            self._connection.loop.call_soon(self.flush)
        elif message["type"] == "http.response.body" and self.started and not self.complete:
            self._send_part(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"unexpected message {message['type']}")

    def flush(self) -> None:
        """Write the head of the response if it still waits for the body."""
        if self._joined:
            joined, self._joined = self._joined, b""
            self._connection.transport.write(joined)

    def _begun(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the response. Raises RuntimeError if a header cannot be sent."""
        self.started, self._expects = True, False
        lines, length, chunked, closes = [_STATUS_LINES[status], self._connection.date], -1, False, False
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            lower = name.lower()
            if lower == b"content-length":
                length = int(value)
            elif lower == b"transfer-encoding":
                chunked = value.lower() == b"chunked"
            elif lower == b"connection" and b"close" in value.lower():
                closes = True
        self.keep_alive = self.keep_alive and not closes
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        bodiless = self._head or status in _BODILESS
        self._chunked = chunked or (length < 0 and not bodiless)
        if self._chunked and not chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        self._left = 0 if self._chunked or length < 0 else length
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) - (not self._connection.date) or _forbidden(head):
            raise RuntimeError("a header has a character that may not be sent")
        return head + b"\r\n"

    def _send_part(self, body: bytes, *, more: bool) -> None:
        if self._head:
            self._left, body = 0, b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif len(body) > self._left:
            raise RuntimeError("the body is longer than its announced length")
        else:
            self._left -= len(body)
        if self._joined and len(body) <= LARGEST:
            body, self._joined = self._joined + body, b""
        self.flush()
        if body:
            self._connection.transport.write(body)
        if not more:
            if self._left:
                raise RuntimeError("the body is shorter than its announced length")
            self._completed()

    def _completed(self) -> None:
        self.complete = True
        self._stir()
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.completed()

    async def _fail(self) -> None:
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(_FAILED)),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _FAILED, "more_body": False})

    def _close(self) -> None:
        self.flush()
        self._connection.transport.close()


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_STATUS_LINES = {status: _status_line(status) for status in range(100, 600)}


def status_line(status: int) -> bytes:
    """Return the first line of a response."""
    return _STATUS_LINES[status]
