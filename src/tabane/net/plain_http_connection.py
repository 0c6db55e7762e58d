"""One kept connection to a server, without TLS and without a proxy: requests and responses of HTTP/1.1.

The parser is that of httptools. A connection carries one request at a time, and is free again when its
response was received to its end.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import Callable
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

from tabane.messages import Message, say
from tabane.net.content_coding import UnknownCoding, Unpacker
from tabane.net.http_faults import HttpConnectionBroken, system_text

READ_SIZE = 8 << 10
"""Bytes of one read: a server may send chunks of one byte, each of which takes work."""

LARGEST_HEAD = 128 << 10
"""Bytes of a response that may arrive without any of its body: status line, headers, trailers."""

MOST_HEADERS = 128

MOST_WAITING = 128 << 10
"""Bytes of a body that wait to be read. Above that, nothing more is taken from the server."""

_WITHOUT_BODY = frozenset((204, 304))


OnAnswer = Callable[["PlainHttpResponse | HttpConnectionBroken"], None]
"""Takes the response when its head has arrived, with what came of its body in that piece; or the error."""


class PlainHttpBody:
    """The body of a response, as it arrives."""

    __slots__ = ("_connection", "_failed", "_parts", "_size", "_unpacker", "_waiter", "_whole", "ended")

    def __init__(self, connection: PlainHttpConnection, unpacker: Unpacker | None) -> None:
        self._connection, self._unpacker = connection, unpacker
        self._parts: list[bytes] = []
        self._size = 0
        self._failed = self._whole = False
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False
        """Whether it was received to its end."""

    def feed(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > MOST_WAITING and not self._whole:
            self._connection.pause()
        self._wake()

    def finish(self) -> None:
        self.ended = True
        self._wake()

    def fail(self) -> None:
        """End it before its end: what has arrived can still be read."""
        self._failed = True
        self._wake()

    def at_eof(self) -> bool:
        """Return whether the whole body was read."""
        return self.ended and not self._parts and not (self._unpacker and self._unpacker.waiting)

    async def readany(self) -> bytes:
        """Return what has arrived, or what arrives next; empty at the end. Raises HttpConnectionBroken."""
        if self._unpacker is None:
            return await self._next()
        while packed := self._unpacker.waiting or await self._next():
            try:
                piece = self._unpacker.feed(packed)
            except zlib.error:
                if not self.ended:
                    self._connection.abort()
                raise _too_early() from None
            if piece:
                return piece
        return b""

    def peek(self) -> bytes | None:
        """Return the whole body, which can still be read, if all of it is there and it is not packed."""
        return b"".join(self._parts) if self.ended and self._unpacker is None else None

    async def whole(self) -> bytes:
        """Return the body as it was sent. Its announced length bounds it. Raises HttpConnectionBroken."""
        self._whole = True
        self._connection.resume()
        while not (self.ended or self._failed):
            await self._arrival()
        if not self.ended:
            raise _too_early()
        return self._taken()

    async def _next(self) -> bytes:
        while not (self._parts or self.ended or self._failed):
            await self._arrival()
        if self._parts:
            self._connection.resume()
            return self._taken()
        if not self.ended:
            raise _too_early()
        return b""

    def _taken(self) -> bytes:
        taken = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return taken

    async def _arrival(self) -> None:
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PlainHttpResponse:
    """A response whose body may still be on its way."""

    __slots__ = ("_connection", "content", "content_length", "headers", "status")

    def __init__(
        self,
        connection: PlainHttpConnection,
        status: int,
        headers: CIMultiDict[str],
        content: PlainHttpBody,
        content_length: int | None,
    ) -> None:
        self._connection, self.status, self.headers = connection, status, headers
        self.content, self.content_length = content, content_length

    async def read(self) -> bytes:
        """Return the whole body as it was sent. Raises HttpConnectionBroken."""
        return await self.content.whole()

    def release(self) -> None:
        """Give back the connection, which ends if the body was not received to its end."""
        if not self.content.ended:
            self._connection.abort()

    close = release


class PlainHttpConnection(asyncio.Protocol):
    """A connection. ``place`` is its host and port in messages.

    ``on_made``, ``on_free`` and ``on_lost`` are called when it is made, can carry another request, and ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        place: str,
        on_made: Callable[[PlainHttpConnection], None],
        on_free: Callable[[PlainHttpConnection], None],
        on_lost: Callable[[PlainHttpConnection], None],
    ) -> None:
        self.loop, self._place = loop, place
        self._on_made, self._on_free, self._on_lost = on_made, on_free, on_lost
        self.since = 0.0
        """The time of the loop since when it is idle."""
        self.received = False
        """Whether anything arrived since the last request."""
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser = HttpResponseParser(self)
        # As much as the other client forgives.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._on_answer: OnAnswer | None = None
        self._response: PlainHttpResponse | None = None
        self._body: PlainHttpBody | None = None
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._unread = 0
        self._framed = self._paused = self._complete = self._stays = False

    # -- one request -----------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        return not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, on_answer: OnAnswer) -> None:
        """Send a request. ``on_answer`` is called once, unless the request is given up."""
        self._on_answer, self._response = on_answer, None
        self._unread = 0
        self.received = self._complete = False
        if len(body) <= READ_SIZE:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def give_up(self, on_answer: OnAnswer) -> None:
        """End the connection if it still carries the request of ``on_answer``, which is no longer called."""
        if self._on_answer == on_answer:
            self._on_answer = None
            self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # -- what the transport says -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):
            cast("Any", transport).max_size = READ_SIZE
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self.received = True
        if self._on_answer is None:
            self.abort()  # the response to nothing
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._broken(say("{host} answered with something that is not HTTP", host=self._place))
            return
        on_answer, response, self._response = self._on_answer, self._response, None
        if self._complete:
            self._ended()
        if response is not None:
            on_answer(response)
        elif self._unread > LARGEST_HEAD:
            self._broken(say("{host} answered with something that is not HTTP", host=self._place))

    def eof_received(self) -> None:
        if self._body is not None and not self._framed:
            self._body.finish()
            self._body = None

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            problem = say("{host} closed the connection", host=self._place)
        else:
            problem = say("the connection to {host} broke: {error}",
                          host=self._place, error=system_text(exc))  # fmt: skip
        self._fail(problem)
        self._on_lost(self)

    # -- what the parser says --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError  # more than one response to a request
        self._headers = CIMultiDict()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body is not None:
            return  # a trailer
        if len(self._headers) >= MOST_HEADERS:
            raise ValueError
        self._headers.add(
            name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape").strip(" \t")
        )

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        headers, self._unread = self._headers, 0
        length = headers.get("Content-Length")
        chunked = "Transfer-Encoding" in headers
        self._framed = chunked or length is not None or status in _WITHOUT_BODY
        packing = headers.get("Content-Encoding", "").strip().lower()
        try:
            unpacker = Unpacker(packing) if packing and packing != "identity" else None
        except UnknownCoding:
            raise ValueError from None
        self._body = PlainHttpBody(self, unpacker)
        announced = int(length) if length is not None and length.isdecimal() and not chunked else None
        self._response = PlainHttpResponse(self, status, headers, self._body, announced)

    def on_body(self, part: bytes) -> None:
        self._unread = 0
        if self._body is not None:
            self._body.feed(part)

    def on_message_complete(self) -> None:
        if self._body is not None:
            self._complete, self._stays = True, self._parser.should_keep_alive()
            self._body.finish()

    # -- the end ---------------------------------------------------------------------------------

    def _ended(self) -> None:
        """Let the connection carry another request, if server and client agree."""
        self._on_answer = self._body = None
        self.resume()
        if self._stays and not self._transport.get_write_buffer_size() and self.usable:
            self._on_free(self)
        else:
            self._transport.abort()

    def _broken(self, problem: Message) -> None:
        self._fail(problem)
        self.abort()

    def _fail(self, problem: Message) -> None:
        on_answer, response, body = self._on_answer, self._response, self._body
        self._on_answer = self._response = self._body = None
        if body is not None:
            body.fail()
        if on_answer is not None and (response is not None or body is None):
            on_answer(response or HttpConnectionBroken(problem))


def _too_early() -> HttpConnectionBroken:
    return HttpConnectionBroken(say("the response ended too early"))
