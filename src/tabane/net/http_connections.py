"""Kept HTTP/1.1 connections to one origin: plain or over TLS, direct or through a proxy.

All requests of the hub go over them, except those of the reader and of groups of hubs. The parser is that of
httptools. A connection carries one request at a time, and is free again when its response was received to its
end. Bodies packed with gzip or deflate are unpacked piece by piece.

A proxy is asked for a tunnel (CONNECT) for https:// addresses, and gets the whole URL for http:// addresses.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

from tabane import __version__
from tabane.messages import say
from tabane.net.addresses import AddressRefused, connected_socket
from tabane.net.http_failures import (
    HttpConnectionBroken,
    HttpFailure,
    HttpUnreachable,
    certificate_wanted,
    handshake_failure,
    is_certificate_alert,
    system_text,
)
from tabane.net.routes import Route, basic_authorization

if TYPE_CHECKING:
    from yarl import URL

ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""

PIECE = 64 << 10
"""Bytes that are unpacked at a time: a small packed piece may hold a thousand times as much."""

_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_BITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8


class UnknownCoding(Exception):
    """The body is packed in a way that was not asked for."""


class Unpacker:
    """Unpacks one body. Raises UnknownCoding if its coding is not known."""

    __slots__ = ("_gzip", "_stream")

    def __init__(self, coding: str) -> None:
        self._gzip = coding in _GZIP
        if not self._gzip and coding != "deflate":
            raise UnknownCoding(coding)
        self._stream: zlib._Decompress | None = None

    @property
    def waiting(self) -> bytes:
        """Return what was fed and is not unpacked yet: feed it again."""
        return self._stream.unconsumed_tail if self._stream else b""

    def feed(self, packed: bytes) -> bytes:
        """Return up to ``PIECE`` unpacked bytes. Raises zlib.error."""
        if self._stream is None:
            self._stream = zlib.decompressobj(_GZIP_BITS if self._gzip else _deflate_bits(packed))
        if self._stream.eof:
            return b""  # what follows would be kept
        return self._stream.decompress(packed, PIECE)


def _deflate_bits(packed: bytes) -> int:
    # The standard means zlib's format. Many servers send the bare stream.
    return zlib.MAX_WBITS if packed[:1] and packed[0] & 15 == _ZLIB_METHOD else -zlib.MAX_WBITS


READ_SIZE = 8 << 10
"""Bytes of one read: a server may send chunks of one byte, each of which takes work.

Over TLS, asyncio hands on up to 256 KiB at once: 30 ms of work, if all are such chunks.
"""

LARGEST_HEAD = 128 << 10
"""Bytes of a response that may arrive without any of its body: status line, headers, trailers."""

MOST_HEADERS = 128

MOST_WAITING = 128 << 10
"""Bytes of a body that wait to be read. Above that, nothing more is taken from the server."""

_WITHOUT_BODY = frozenset((204, 304))


OnAnswer = Callable[["HttpResponse | HttpFailure"], None]
"""Takes the response when its head has arrived, with what came of its body in that piece; or the error."""


class HttpBody:
    """The body of a response, as it arrives."""

    __slots__ = ("_connection", "_failed", "_parts", "_size", "_unpacker", "_waiter", "_whole", "ended")

    def __init__(self, connection: HttpConnection, unpacker: Unpacker | None) -> None:
        self._connection, self._unpacker = connection, unpacker
        self._parts: list[bytes] = []
        self._size = 0
        self._failed = self._whole = False
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False
        """Whether it was received to its end."""

    def feed(self, part: bytes) -> None:
        """Add bytes that arrived; stop the connection from reading while too many wait."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > MOST_WAITING and not self._whole:
            self._connection.pause()
        self._wake()

    def finish(self) -> None:
        """Mark the body as complete."""
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
        return self._take_bytes()

    async def _next(self) -> bytes:
        while not (self._parts or self.ended or self._failed):
            await self._arrival()
        if self._parts:
            self._connection.resume()
            return self._take_bytes()
        if not self.ended:
            raise _too_early()
        return b""

    def _take_bytes(self) -> bytes:
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


class HttpResponse:
    """A response whose body may still be on its way."""

    __slots__ = ("_connection", "content", "content_length", "headers", "status")

    def __init__(
        self,
        connection: HttpConnection,
        status: int,
        headers: CIMultiDict[str],
        content: HttpBody,
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


class _NotOpen(asyncio.Transport):
    """The transport of a connection that is not made yet, or has ended."""

    def is_closing(self) -> bool:
        return True

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


_NOT_OPEN = _NotOpen()


class HttpConnection(asyncio.Protocol):
    """A connection. ``place`` is its host and port in messages.

    ``on_made``, ``on_free`` and ``on_lost`` are called when it is made, can carry another request, and ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        place: str,
        on_made: Callable[[HttpConnection], None],
        on_free: Callable[[HttpConnection], None],
        on_lost: Callable[[HttpConnection], None],
    ) -> None:
        self.loop, self._place = loop, place
        self._on_made, self._on_free, self._on_lost = on_made, on_free, on_lost
        self.since = 0.0
        """The time of the loop since when it is idle."""
        self.received = False
        """Whether anything arrived since the last request."""
        self._transport: asyncio.Transport = _NOT_OPEN
        self._parser = HttpResponseParser(self)
        # As much as common clients forgive.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._on_answer: OnAnswer | None = None
        self._response: HttpResponse | None = None
        self._body: HttpBody | None = None
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._unread = 0
        self._framed = self._paused = self._complete = self._stays = False
        self._unasked = False
        self.tls: ssl.SSLContext | None = None
        """The context of its TLS."""

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
        """Close the connection at once, if it is made; unsent bytes are lost."""
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
        """Set up the socket, and report that the connection is open."""
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):
            cast("Any", transport).max_size = READ_SIZE
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._on_made(self)
        if self._unasked:
            self.abort()

    def data_received(self, data: bytes) -> None:
        self.received = True
        if self._on_answer is None:  # the response to nothing
            self._unasked = True
            self.abort()
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._break_off()
            return
        on_answer, response, self._response = self._on_answer, self._response, None
        if self._complete:
            self._on_answer = self._body = None
            self.resume()
            if self._stays and not self._transport.get_write_buffer_size() and self.usable:
                self._on_free(self)
            else:
                self._transport.abort()
        if response is not None:
            on_answer(response)
        elif self._unread > LARGEST_HEAD:
            self._break_off()

    def eof_received(self) -> None:
        if self._body is not None and not self._framed:
            self._body.finish()
            self._on_answer = self._body = None

    def connection_lost(self, exc: Exception | None) -> None:
        problem: HttpFailure
        if exc is None:
            problem = HttpConnectionBroken(say("{host} closed the connection", host=self._place))
        elif not self._stays and is_certificate_alert(exc):  # before any response
            problem = HttpUnreachable(certificate_wanted(self._place, exc))
        else:
            problem = HttpConnectionBroken(say("the connection to {host} broke: {error}",
                                               host=self._place, error=system_text(exc)))  # fmt: skip
        self._fail_request(problem)
        self._on_lost(self)
        # Both hold this connection, and TLS has buffers of 280 KB: they would stay until the next collection.
        self._transport = _NOT_OPEN
        del self._parser

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
        self._body = HttpBody(self, unpacker)
        announced = int(length) if length is not None and length.isdecimal() and not chunked else None
        self._response = HttpResponse(self, status, headers, self._body, announced)

    def on_body(self, part: bytes) -> None:
        self._unread = 0
        if self._body is not None:
            self._body.feed(part)

    def on_message_complete(self) -> None:
        if self._body is not None:
            self._complete, self._stays = True, self._parser.should_keep_alive()
            self._body.finish()

    # -- the end ---------------------------------------------------------------------------------

    def _break_off(self) -> None:
        problem = say("{host} answered with something that is not HTTP", host=self._place)
        self._fail_request(HttpConnectionBroken(problem))
        self.abort()

    def _fail_request(self, problem: HttpFailure) -> None:
        on_answer, response, body = self._on_answer, self._response, self._body
        self._on_answer = self._response = self._body = None
        if body is not None:
            body.fail()
        if on_answer is not None and (response is not None or body is None):
            on_answer(response or problem)


def _too_early() -> HttpConnectionBroken:
    return HttpConnectionBroken(say("the response ended too early"))


_REPEATABLE = frozenset(("DELETE", "GET"))
"""Methods of requests that are sent again if the server closed a kept connection meanwhile."""

_FRAMING = frozenset(("content-length", "transfer-encoding"))
"""Headers that this client writes. Those of a user could contradict them."""

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to be made, TLS and proxy included."""

KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than the five after which common servers close one."""

LARGEST_TUNNEL_HEAD = 32 << 10
"""Bytes of a proxy's answer to CONNECT."""

_tunnel_status = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r\n|$)").match
_forbidden = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]").search


class HttpConnections:
    """Sends requests to the origin of ``url``. ``headers`` are those of every request.

    At most ``most`` connections are open; a request waits for one for ``patience`` seconds. An idle one is
    kept for ``keep`` seconds. To be made inside the running loop.
    """

    def __init__(
        self,
        url: URL,
        headers: Mapping[str, str],
        route: Route,
        *,
        most: int,
        patience: float = CONNECT_TIMEOUT,
        keep: float = KEEP_ALIVE,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._host, self._port = url.raw_host or "", url.port or 0
        self._place = f"{url.host}:{url.port}"
        self._route, self._context = route, None if url.scheme == "http" else route.tls()
        self._most, self._patience, self._keep = most, patience, keep
        general = {
            "Host": url.host_port_subcomponent or "",
            "Accept": "*/*",
            "Accept-Encoding": ACCEPTED,
            **headers,
        }
        self._whole = ""
        if route.proxy is not None and url.scheme == "http":
            self._whole = f"http://{url.host_port_subcomponent}"
            if route.proxy.user is not None:
                general["Proxy-Authorization"] = basic_authorization(route.proxy.user, route.proxy.password)
        self._lines = {name.lower(): f"{name}: {value}" for name, value in general.items()}
        for name in _FRAMING:
            self._lines.pop(name, None)
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._dialing = 0
        self._waiting: deque[asyncio.Future[HttpConnection | None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        """Return the response to one request. Its body is not read yet, and the caller releases it.

        ``target`` is path and query of the URL, quoted. Raises HttpUnreachable and HttpConnectionBroken, and
        ValueError if a header cannot be sent.
        """
        head = self._head(method, target, headers, body)
        connection = self._idle_connection()
        if connection is not None:
            try:
                return await _exchange(connection, head, body or b"")
            except HttpConnectionBroken:
                if connection.received or method not in _REPEATABLE:
                    raise
        return await _exchange(await self._connected(), head, body or b"")

    def send_at_once(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer
    ) -> HttpConnection | None:
        """Send a request over a kept connection, which is returned; None if there is none.

        ``on_answer`` is called once, with its response or failure, unless the connection is told to give up.
        Raises ValueError if a header cannot be sent.
        """
        head = self._head(method, target, headers, body)
        connection = self._idle_connection()
        if connection is not None:
            connection.send(head, body, on_answer)
        return connection

    def close_when_idle(self) -> None:
        """Close every connection as soon as it carries no request."""
        self._keep = 0
        if self._sweep is not None:
            self._sweep.cancel()
        self._close_idle()

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()
        while self._waiting:
            self._wake(None)

    def _head(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = self._lines.copy()
        for name, value in headers.items():
            lines[name.lower()] = f"{name}: {value}"
        if body is not None:
            lines["content-length"] = f"Content-Length: {len(body)}"
        head = "\n".join(lines.values())
        if _forbidden(head) or head.count("\n") != len(lines) - 1:
            raise ValueError("a header has a character that may not be sent")
        return f"{method} {self._whole}{target} HTTP/1.1\n{head}\n\n".replace("\n", "\r\n").encode()

    # -- connections -----------------------------------------------------------------------------

    def _idle_connection(self) -> HttpConnection | None:
        if self._context is not None:
            self._context = self._route.tls()
        oldest = self._loop.time() - self._keep  # the sweep comes late if the loop stood still
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.tls is self._context and connection.since >= oldest:
                return connection
            connection.abort()
        return None

    async def _connected(self) -> HttpConnection:
        """Return a new connection, or a kept one once as many are open as may be."""
        try:
            async with asyncio.timeout(self._patience):
                while not self._closed and len(self._open) + self._dialing >= self._most:
                    handed = await self._wait_for_connection()
                    if handed is not None:
                        if handed.usable and handed.tls is self._context:
                            return handed
                        handed.abort()
                self._check_open()
                self._dialing += 1
                try:
                    connection = await self._dial()
                finally:
                    self._dialing -= 1
                    self._wake(None)
                self._check_open(connection)
                return connection
        except TimeoutError:
            raise HttpUnreachable(
                say("no connection to {host} within {seconds:g} s",
                    host=self._place, seconds=self._patience)) from None  # fmt: skip

    async def _dial(self) -> HttpConnection:
        """Return a new connection. Raises HttpUnreachable, and TimeoutError of the caller."""
        proxy, context = self._route.proxy, self._context
        made = HttpConnection(self._loop, self._place, self._open.add, self._free, self._lost)
        made.tls = context
        if proxy is None:
            link = await self._socket(self._host, self._port)
            await self._secured(made, link, context, self._host, self._place)
            return made
        host = proxy.raw_host or ""
        outer = self._route.tls() if proxy.scheme == "https" else None
        link = await self._socket(host, proxy.port or 0)
        end = made if context is None else _Tunnel(self._loop, self._place, proxy)
        await self._secured(end, link, outer, host, f"{proxy.host}:{proxy.port}")
        if context is not None and isinstance(end, _Tunnel):
            await self._tunneled(end, made, context)
        return made

    async def _socket(self, host: str, port: int) -> socket.socket:
        """Return a connected socket. Addresses of the origin are judged, those of a proxy are not."""
        direct = self._route.proxy is None
        try:
            return await connected_socket(host, port, self._route.policy if direct else None)
        except AddressRefused as refused:
            raise HttpUnreachable(refused.why) from None
        except (OSError, UnicodeError) as error:
            reason = system_text(error)
            if not direct:
                problem = say(
                    "the proxy {host} cannot be reached: {error}", host=f"{host}:{port}", error=reason
                )
            elif isinstance(error, (socket.gaierror, UnicodeError)):
                problem = say("the name {host} does not exist: {error}", host=host, error=reason)
            else:
                problem = say("{host} cannot be reached: {error}", host=self._place, error=reason)
            raise HttpUnreachable(problem) from None

    async def _secured(
        self,
        protocol: HttpConnection | _Tunnel,
        link: socket.socket,
        context: ssl.SSLContext | None,
        host: str,
        place: str,
    ) -> None:
        """Hand a socket to a protocol, after the TLS handshake if there is a context."""
        try:
            name = host.rstrip(".") if context is not None else None
            await self._loop.create_connection(lambda: protocol, sock=link, ssl=context, server_hostname=name)
        except BaseException as error:
            protocol.abort()  # if the handshake was just done, asyncio would wait for the other end
            link.close()
            if isinstance(error, (OSError, UnicodeError)):
                raise handshake_failure(place, error) from None
            raise

    async def _tunneled(self, tunnel: _Tunnel, made: HttpConnection, context: ssl.SSLContext) -> None:
        """Open a tunnel through a proxy, and make the connection in it."""
        authority = f"[{self._host}]" if ":" in self._host else self._host
        try:
            await tunnel.open(f"{authority}:{self._port}")
            transport = await self._loop.start_tls(
                tunnel.transport, made, context, server_hostname=self._host.rstrip(".")
            )
            if transport is None or transport.is_closing():
                raise ConnectionResetError
        except BaseException as error:
            tunnel.abort()
            if isinstance(error, (OSError, UnicodeError)):
                raise handshake_failure(self._place, error) from None
            raise
        made.connection_made(transport)

    def _check_open(self, connection: HttpConnection | None = None) -> None:
        """Raise HttpConnectionBroken, and end a connection that was made, if the client was closed."""
        if self._closed:
            if connection is not None:
                connection.abort()
            raise HttpConnectionBroken(say("the connection was closed"))

    async def _wait_for_connection(self) -> HttpConnection | None:
        """Wait for a connection that is free; None if another one may be made now."""
        waiter: asyncio.Future[HttpConnection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                handed = waiter.result()
                self._free(handed) if handed is not None else self._wake(None)
            raise

    def _wake(self, connection: HttpConnection | None) -> bool:
        """Let the request that has waited longest go on. Return whether there was one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _free(self, connection: HttpConnection) -> None:
        if self._closed:
            connection.abort()
        elif not (self._waiting and self._wake(connection)):
            connection.since = self._loop.time()
            self._idle.append(connection)
            if self._sweep is None:
                self._sweep = self._loop.call_later(self._keep, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that were idle for too long. The first in the list is idle for longest."""
        oldest = self._loop.time() - self._keep
        while self._idle and self._idle[0].since <= oldest:
            self._idle.pop(0).abort()
        self._sweep = None
        if self._idle:
            self._sweep = self._loop.call_at(self._idle[0].since + self._keep, self._close_idle)

    def _lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake(None)


_CLOSED, _NOT_HTTP = 0, 1
"""In place of a status: the proxy closed the connection, or its answer is not understood."""


class _Tunnel(asyncio.Protocol):
    """The beginning of a connection to a proxy, until it answers CONNECT. ``place`` is the other end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, place: str, proxy: URL) -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._place, self._proxy, self._head = place, proxy, b""
        self._opened: asyncio.Future[int] = loop.create_future()

    async def open(self, authority: str) -> None:
        """Ask for the tunnel. Raises HttpUnreachable if the proxy does not open it."""
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", f"User-Agent: tabane/{__version__}"]
        if self._proxy.user is not None:
            lines.append(
                f"Proxy-Authorization: {basic_authorization(self._proxy.user, self._proxy.password)}"
            )
        self.transport.write("\r\n".join([*lines, "", ""]).encode())
        status = await self._opened
        if not 200 <= status < 300:
            proxy = f"{self._proxy.host}:{self._proxy.port}"
            if status == _CLOSED:
                problem = say("{host} closed the connection", host=proxy)
            elif status == _NOT_HTTP:
                problem = say("{host} answered with something that is not HTTP", host=proxy)
            else:
                problem = say(
                    "the proxy does not connect to {host} ({status})", host=self._place, status=status
                )
            raise HttpUnreachable(problem)

    def abort(self) -> None:
        """Close the connection at once, if it is made."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        found = _tunnel_status(head)
        if self._opened.done() or (not end and len(head) <= LARGEST_TUNNEL_HEAD):
            return
        # The other end speaks after the client: what follows the head is not of it.
        understood = found is not None and end and not (rest and found[1].startswith(b"2"))
        self._settle(int(found[1]) if found is not None and understood else _NOT_HTTP)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle(_CLOSED)

    def _settle(self, status: int) -> None:
        if not self._opened.done():
            self._opened.set_result(status)


async def _exchange(connection: HttpConnection, head: bytes, body: bytes) -> HttpResponse:
    answer: asyncio.Future[HttpResponse] = connection.loop.create_future()

    def settle(found: HttpResponse | HttpFailure) -> None:
        if answer.done():
            return
        if isinstance(found, HttpFailure):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    connection.send(head, body, settle)
    try:
        return await answer
    except asyncio.CancelledError:
        connection.give_up(settle)
        raise
