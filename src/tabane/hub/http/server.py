"""The HTTP server of a hub, loaded with the first connection: connections, and the parts of the application.

Connections have limits on sizes and times. Their parser is that of httptools. :class:`HttpExchange` is one
request and its response, as the application sees them: the calls of ASGI.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import time
from asyncio import BaseTransport, Transport
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from tabane.hub.http.app import HttpApp, WebPages
from tabane.hub.http.authentication import Authenticator
from tabane.hub.http.door import HttpDoor, LoadedServer
from tabane.hub.http.gate import LOGIN_RETURN, HttpGate
from tabane.hub.http.legacy import HttpSessions
from tabane.hub.http.metrics import HttpMetrics
from tabane.hub.http.modern import SingleRequests
from tabane.hub.http.programs import Admission, HttpPrograms
from tabane.hub.http.request import HttpRequest, RefusedRequest
from tabane.hub.http.sources import ExposedPeer, FailedAttempts
from tabane.hub.http.stream import Pulse
from tabane.hub.http.tls import TlsEntrance
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.hub.http.routing import RequestRouting

log = logging.getLogger(__name__)


MOST_WAITING = 64 << 10
"""Bytes of a body that wait for the application. Above that, nothing more is read from the client."""

LARGEST = 64 << 10
"""Bytes of a body that are worth a copy to save a packet."""

_BODILESS = frozenset((204, 304))
_FAILED = b"Internal Server Error"

_forbidden = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


class HttpExchange:
    """A request whose headers have arrived. ``expects``: the client sends the body when it is told to.

    ``keep_alive``: the connection may stay. ``head``: the method is HEAD, so the response has no body.
    """

    __slots__ = (
        "_chunked", "_connection", "_expects", "_head", "_joined", "_left", "_news", "_parts", "_size",
        "_waiter", "complete", "disconnected", "keep_alive", "more_body", "scope", "started",
    )  # fmt: skip

    def __init__(
        self, connection: HttpConnection, scope: Any, *, head: bool, keep_alive: bool, expects: bool
    ) -> None:
        self.scope: Any = scope
        """Scope of ASGI for the application."""
        self.keep_alive = keep_alive
        self.disconnected = self.started = self.complete = False
        self.more_body = True
        self._connection, self._head, self._expects = connection, head, expects
        self._parts: list[bytes] = []
        self._size = self._left = 0
        self._news = self._chunked = False
        self._waiter: asyncio.Future[None] | None = None
        self._joined = b""

    # -- the request -------------------------------------------------------------------------------

    def feed(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > MOST_WAITING:
            self._connection.pause_reading()
        self._wake()

    def finish(self) -> None:
        """Note that the body has arrived to its end."""
        self.more_body = False
        self._wake()

    def disconnect(self) -> None:
        """Note that the client is gone."""
        if not self.complete:
            self.disconnected = True
        self._wake()

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
                self._waiter = self._connection.loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            self._news = False
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _wake(self) -> None:
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the response ------------------------------------------------------------------------------

    def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer. Return False, with nothing done, if that takes a wait."""
        if self.started or self._connection.write_paused:
            return False
        if self.disconnected:
            return True
        head = self._response_head(status, headers)
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
        self._note_completed()
        return True

    async def send(self, message: Any) -> None:
        """Send a message of ASGI: the head of the response, or a part of its body."""
        if self._connection.write_paused and not self.disconnected:
            await self._connection.drained()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.started:
            # Waits for what is written in the same turn of the loop, to save a packet and a wake-up.
            self._joined = self._response_head(message["status"], message.get("headers", ()))
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

    def _response_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
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
            self._note_completed()

    def _note_completed(self) -> None:
        self.complete = True
        self._wake()
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


MOST_HEAD = 64 << 10
"""Bytes of a request line and its headers."""

MOST_HEADERS = 128
MOST_URL = 8 << 10

LINGER = 2.0
"""Seconds that a client has to read why it was refused, before its connection is closed."""

READ_SIZE = 64 << 10
"""Bytes of one read. For more, the C library would get memory from the system each time, and give it back."""

_ASGI = {"version": "3.0", "spec_version": "2.3"}

# Clients that would rather speak HTTP/2 say so beside a request that is good as it is (Java's does), but
# httptools stops at the body of one. What is not understood is to be passed over (RFC 9110, 7.8).
_upgrade = re.compile(rb"(?i)(?<=\n)upgrade(?=:(?![ \t]*websocket))")


class _ParsingStopped(Exception):
    """Stops the parser. The answer to the client is remembered by then."""


def end_writing(transport: Transport) -> None:
    """Let the client know that nothing follows, and read what it still sends.

    TLS has no half of a connection to close: there, its own end is sent, and waits for the client's.
    """
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


class HttpConnection(asyncio.Protocol):
    """``on_lost`` is called once, when the client goes away while a response is on its way to it.

    Requests that come before the response to an earlier one wait in ``_pipeline``, and nothing more is read.
    """

    def __init__(self, server: HttpServer) -> None:
        self.on_lost: Callable[[], object] | None = None
        self.loop = server.loop
        self.write_paused = False
        self.transport: Transport = cast("Transport", None)
        self._server = server
        self._parser = HttpRequestParser(self)
        # Of requests that are sent one after the other, the first is answered also if the others are none.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._peer: tuple[str, int] | None = None
        self._own: tuple[str, int] | None = None
        self._scheme = "http"
        self._url, self._headers = b"", cast("list[tuple[bytes, bytes]]", [])
        self._expects = False
        self._exchange: HttpExchange | None = None
        self._fresh: HttpExchange | None = None
        self._pipeline: deque[HttpExchange] = deque()
        self._read_paused = False
        self._writable: asyncio.Future[None] | None = None
        self._reading: Literal["head", "body", ""] = "head"
        self._since = server.loop.time()
        self._idle = math.inf
        self._head = self._count = 0
        self._refusal: tuple[int, str] | None = None
        self._half_closed = False
        self._over = False
        self._admission: Admission | None = None
        self._asked = False

    # -- what the transport says -------------------------------------------------------------------

    def connection_made(self, transport: BaseTransport) -> None:
        """Take the transport, and begin to read requests."""
        self.transport = cast("Transport", transport)
        if hasattr(transport, "max_size"):
            cast("Any", transport).max_size = READ_SIZE
        self._peer, self._own = (
            _address(transport.get_extra_info(name)) for name in ("peername", "sockname")
        )
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._server.open_connections.add(self)
        if self._server.full:
            self._close_with(503, "The hub has as many connections as it takes.", b"retry-after: 5\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.open_connections.discard(self)
        for exchange in (self._exchange, *self._pipeline):
            if exchange is not None:
                exchange.disconnect()
        self.resume_writing()
        self._server.lost()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost:
            on_lost()

    def eof_received(self) -> bool:
        """Answer a client that has only closed its own half. Any other is gone, and its call is canceled."""
        exchange = self._exchange
        if (
            not self.answering
            or self._reading
            or self._over
            or exchange is None
            or not self._is_half_closed()
        ):
            return False  # the transport closes itself
        self._half_closed = True
        exchange.keep_alive = False
        return True

    def _is_half_closed(self) -> bool:
        return self._scheme == "http" and has_open_socket(self._peer, self._own)

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    async def drained(self) -> None:
        """Wait until the client has read enough."""
        while self.write_paused:
            if self._writable is None:
                self._writable = self.loop.create_future()
            await asyncio.shield(self._writable)

    def pause_reading(self) -> None:
        """Read no more until :meth:`resume_reading`."""
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._over or self.transport.is_closing():
            return
        now = self.loop.time()
        if b"pgrade:" in data and self._reading != "body":
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _upgrade.sub(b"passed-over", head) + end + rest
        if self._reading == "head":
            self._head += len(data)
        elif self._reading == "body":
            self._since = now
        self._idle = math.inf
        self._parse(data)
        self._begin()
        if self._over or self.transport.is_closing():
            return
        if self._reading == "head" and self._head > MOST_HEAD:
            self._close_with(431, f"the headers of a request may have {MOST_HEAD} bytes")
        elif not self._reading and not self.answering and self._idle == math.inf:
            self._await_head(now)  # Line breaks between two requests end the wait for the next.

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            if self._fresh is not None:
                self._fresh = self._exchange = None
            status, text = self._refusal or (400, "this is not a request of HTTP/1.1")
            self._close_with(status, text)
        except HttpParserUpgrade:
            if self._admission is not None and self._asks_for_websocket():
                self._upgrade_to(self._admission)
                return
            # The parser has stopped within this request: what follows on the connection is not to be read.
            self._over, self._since = True, math.inf
            if self._exchange is not None:
                self._exchange.keep_alive = False

    # -- what the parser says ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._server.refresh()
        self._admission, self._asked = None, False
        self._await_head(self.loop.time())
        self._url, self._headers, self._expects = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > MOST_URL:
            self._refuse(414, f"a URL may have {MOST_URL} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MOST_HEADERS:
            self._refuse(431, f"a request may have {MOST_HEADERS} headers")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._reading = "body"
        parser = self._parser
        if parser.should_upgrade() and self._becomes_websocket():
            return
        version = parser.get_http_version()
        scope = self._scope()
        exchange = HttpExchange(
            self,
            scope,
            head=scope["method"] == "HEAD",
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            expects=self._expects,
        )
        scope["http_version"], scope["tabane.whole"] = version, exchange.whole
        earlier, self._exchange = self._exchange, exchange
        if earlier is None or earlier.complete:
            # Begun with its body, if that comes in one piece with the head.
            self._fresh = exchange
        else:
            self.pause_reading()
            self._pipeline.append(exchange)

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None and not self._exchange.complete and self._admission is None:
            self._exchange.feed(body)

    def on_message_complete(self) -> None:
        self._reading = ""
        if self._exchange is not None and not self._exchange.complete and self._admission is None:
            self._exchange.finish()
        self._begin()

    def _scope(self) -> dict[str, Any]:
        """Return the scope of ASGI of the request whose head has arrived."""
        url = self._url
        if url[:1] == b"/" and b"#" not in url:
            raw_path, _, query = url.partition(b"?")
        else:
            parsed = parse_url(url)
            raw_path, query = parsed.path, parsed.query or b""
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "server": self._own,
            "client": self._peer,
            "scheme": self._scheme,
            "root_path": "",
            "headers": self._headers,
            "state": {},
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "tabane.connection": self,
        }

    # -- one request after the other ---------------------------------------------------------------

    def _begin(self) -> None:
        """Let the application answer the request that has just come, if there is one."""
        exchange, self._fresh = self._fresh, None
        if exchange is not None:
            self._start(exchange)

    def _start(self, exchange: HttpExchange) -> None:
        tasks = self._server.tasks
        task = self.loop.create_task(exchange.run(self._server.app))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def completed(self) -> None:
        """Go on after a response was written to its end."""
        self.on_lost = None
        if not self.transport.is_closing():
            self.resume_reading()
            if self._pipeline:
                self._start(self._pipeline.popleft())
            else:
                self._idle = self.loop.time()
        if not self._reading and self._exchange is not None and self._exchange.complete:
            # An idle connection keeps nothing of its last request.
            self._exchange, self._headers, self._url = None, [], b""

    # -- WebSockets --------------------------------------------------------------------------------

    def _becomes_websocket(self) -> bool:
        # One that may not is answered as the request that it is as well, with the reason.
        if not self._asks_for_websocket():
            return False
        if not self._asked:
            self._asked = True
            try:
                self._admission = self._server.admit(HttpRequest(self._scope(), _nothing, _nothing))
            except RefusedRequest:
                self._admission = None
        return self._admission is not None

    def _asks_for_websocket(self) -> bool:
        named = dict(self._headers)
        tokens = [token.lower().strip() for token in named.get(b"connection", b"").split(b",")]
        return b"upgrade" in tokens and named.get(b"upgrade", b"").lower() == b"websocket"

    def become(self, admission: Admission) -> None:
        """Turn into the WebSocket of a request that was admitted after a wait."""
        exchange = self._exchange
        if exchange is None or exchange.disconnected or self.transport.is_closing():
            return
        exchange.disconnected = True  # nothing more is answered on it as HTTP
        self.on_lost = None
        self._upgrade_to(admission)

    def _upgrade_to(self, admission: Admission) -> None:
        self._over = True
        self._server.open_connections.discard(self)
        self.transport.write(admission.head)
        self._server.upgraded(self.transport, admission)

    # -- what the server asks ----------------------------------------------------------------------

    @property
    def answering(self) -> bool:
        """Return whether a request waits for its response."""
        return bool(self._pipeline) or (self._exchange is not None and not self._exchange.complete)

    @property
    def date(self) -> bytes:
        """Return the line of the header Date."""
        return self._server.date

    @property
    def unsent(self) -> int:
        """Return the bytes of responses that the client has not read."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def overdue(self, now: float) -> None:
        """Close a connection that was idle for too long, or whose request takes too long to arrive."""
        waits = self._server.waits
        if self._half_closed and not self._is_half_closed():
            self.transport.abort()  # nothing is read any more, so that the transport does not notice
        elif self._over:
            if now - self._since > LINGER:
                self.transport.abort()
        elif now - self._idle > waits.idle:
            self.transport.close()
        elif self._reading and now - self._since > (waits.head if self._reading == "head" else waits.body):
            self._close_with(408, "the request did not arrive in time")

    def _await_head(self, now: float) -> None:
        self._reading, self._since, self._head, self._count = "head", now, 0, 0

    def _refuse(self, status: int, text: str) -> None:
        self._refusal = status, text
        raise _ParsingStopped(text)

    def _close_with(self, status: int, text: str, headers: bytes = b"") -> None:
        # Another response would corrupt the one that is on its way: such a connection just ends.
        if not self.answering or not (self._exchange and self._exchange.started):
            body = json.error_line(None, json.error_object(-32600, text))
            head = b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n"
            self.transport.write(head % (status_line(status), len(body), headers) + body)
            # Closing now, with bytes unread, would reset the connection, and the answer be lost.
            self._over, self._since = True, self._server.loop.time()
            end_writing(self.transport)
        else:
            self._exchange.flush()
            self.transport.close()


def has_open_socket(peer: tuple[str, int] | None, own: tuple[str, int] | None) -> bool:
    """Return whether the other end of a connection on this machine still has a socket that a process holds.

    The end of what a client sends says either that it has closed its half, or that it is gone. False where
    that cannot be told: for other machines, and on systems other than Linux. Source: proc_pid_net(5).
    """
    if peer is None or own is None or not (peer[0].startswith("127.") or peer[0] == "::1"):
        return False
    try:
        with open(
            "/proc/self/net/tcp6" if ":" in peer[0] else "/proc/self/net/tcp", encoding="ascii"
        ) as table:
            rows = (line.split() for line in table)
            ends = f":{peer[1]:04X}", f":{own[1]:04X}"
            return any(
                row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[9] != "0"
                for row in rows
                if len(row) > 9
            )
    except (OSError, ValueError):
        return False


async def _nothing(message: Any = None) -> None:
    raise AssertionError("who asks to become a WebSocket is neither read nor answered")


def _address(named: Any) -> tuple[str, int] | None:
    """Return address and port of one end of the connection; None if it has none."""
    return (str(named[0]), int(named[1])) if isinstance(named, (tuple, list)) and len(named) > 1 else None


def date_line(now: float) -> bytes:
    """Return the Date header of a response as a line. The time is in seconds since the epoch."""
    return b"date: %b\r\n" % formatdate(now, usegmt=True).encode()


def wall_clock() -> int:
    """Return the seconds since 1970, for the Date header."""
    return int(time.time())


SPARE = 256
"""Connections beyond one for each session: requests beside its stream, health checks, the metrics."""

_FLUSH = 0.01


class HttpServer(LoadedServer):
    """Takes connections from a listening socket and has the application answer their requests.

    ``most`` is the number of connections that the limit of open files allows.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, door: HttpDoor, most: int) -> None:
        self.loop, self._door, self._most, self.waits = loop, door, most, door.waits
        self.pulse = Pulse(loop)
        hub = door.hub

        def refused(source: str, reason: str) -> None:
            hub.audit.counters.count_auth_failure(reason)
            door.identities.refused(source, reason)

        attempts = FailedAttempts(loop, refused)
        authenticator = Authenticator(door.token, door.identities, attempts)
        self._gate = gate = HttpGate(hub.context, door.port, authenticator, hub.gateway)
        self._sessions = HttpSessions(hub.context, gate, hub.sessions, self.pulse)
        self._modern = SingleRequests(hub.context, gate, hub.sessions, hub.gateway, self.pulse)
        self._programs = HttpPrograms(door, gate)
        self._metrics = HttpMetrics(door, self._sessions, self._modern, self._programs, attempts)
        self._web = WebPages(door, gate, authenticator)
        logins = hub.gateway.logins
        assert logins is not None
        logins.hub_callback = lambda: door.root and door.root + LOGIN_RETURN
        self._routing: RequestRouting | None = None
        if door.routing is not None:
            self._routing = door.routing(gate, self._sessions)
            self._modern.marked = self._routing.marked
        self.app = HttpApp(
            door, gate, self._sessions, self._modern, self._programs, self._metrics, self._web, self._routing
        )
        self.open_connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.date = b""
        self._listening: asyncio.Server | TlsEntrance | None = None
        self._second = 0
        self._look: asyncio.TimerHandle | None = None
        self._revoked: asyncio.TimerHandle | None = None

    async def listen(self, listening: socket.socket) -> None:
        """Accept from now on, beginning with the clients that already wait."""
        tls = self._door.tls
        if tls is None:
            self._listening = await self.loop.create_server(self._connection, sock=listening, backlog=1024)
        else:
            self._listening = self._metrics.entrance = TlsEntrance(
                self.loop,
                listening,
                tls,
                self._connection,
                trusted=lambda address: address in self._gate.proxies,
                full=lambda: self.full,
            )
        self._look = self.loop.call_later(self.waits.look, self._check_overdue)
        self._revoked = self.loop.call_later(self.waits.revoked, self._end_revoked)

    def _connection(self) -> HttpConnection:
        """Return the protocol of a new connection, as asyncio asks for it."""
        return HttpConnection(self)

    @property
    def exposed(self) -> list[ExposedPeer]:
        """Peers whose requests are refused because they come without TLS."""
        return self._gate.exposed()

    @property
    def full(self) -> bool:
        """Whether no further connection is taken: the sessions or the open files are at their limit."""
        return self.connections > min(2 * self._door.settings.http_sessions + SPARE, self._most)

    @property
    def connections(self) -> int:
        """Number of open connections, also of those in their TLS handshake."""
        pending = self._listening.pending if isinstance(self._listening, TlsEntrance) else 0
        return len(self.open_connections) + len(self._programs.sockets) + pending

    @property
    def busy(self) -> bool:
        """Return whether there is any client: a session, or a request that is not answered yet."""
        return bool(len(self._sessions) or self._modern.in_flight or self._programs.here or self._web.streams)

    def drain(self) -> None:
        """Begin nothing new for programs: requests that come now are answered with an error."""
        self._programs.drain()

    async def idle(self) -> None:
        """Wait until what programs asked for was answered, and the answers taken."""
        await self._programs.idle()

    def admit(self, request: HttpRequest) -> Admission | None:
        """Admit a request to become a WebSocket, and return its client; None if that takes a wait.

        Raises RefusedRequest.
        """
        links, routing = self._door.server_links, self._routing
        if links is not None and routing is not None and links.asked_by(request) and routing.admits(request):
            linked: Admission = links.admit(request)
            return linked
        return self._programs.admit_now(request)

    def refresh(self) -> None:
        """Let responses have the current time."""
        now = wall_clock()
        if now != self._second:
            self._second, self.date = now, date_line(now)

    def upgraded(self, transport: asyncio.Transport, admission: Admission) -> None:
        """Serve a connection as a WebSocket from here on."""
        opened = self._programs.opened(admission)
        transport.set_protocol(opened)
        opened.connection_made(transport)

    def lost(self) -> None:
        """Note that a connection is gone."""
        self._door.touch()

    async def close(self, limit: float) -> None:
        """Take no more connections; end those there are, at most ``limit`` seconds from now.

        The responses were ended before: what is left of them is sent.
        """
        for timer in (self._look, self._revoked):
            if timer:
                timer.cancel()
        if self._listening:
            self._listening.close()
        end = self.loop.time() + limit
        await self.app.close()
        while self.loop.time() < end:
            if not (
                self._programs.sockets or any(one.answering or one.unsent for one in self._connections())
            ):
                break
            await asyncio.sleep(_FLUSH)  # transports tell nothing
        for connection in self._connections():
            # What is not read by now would keep the process from ending.
            (connection.transport.abort if connection.unsent else connection.transport.close)()
        for one in list(self._programs.sockets):
            one.abort()
        self.pulse.close()

    def _connections(self) -> list[HttpConnection]:
        return list(self.open_connections)

    def _end_revoked(self) -> None:
        for kind in (self._sessions, self._modern, self._programs):
            kind.end_revoked()
        self._revoked = self.loop.call_later(self.waits.revoked, self._end_revoked)

    def _check_overdue(self) -> None:
        now = self.loop.time()
        for connection in self._connections():
            connection.overdue(now)
        self._look = self.loop.call_later(self.waits.look, self._check_overdue) if self._listening else None
