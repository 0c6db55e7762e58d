"""Connection of a client over HTTP/1.1, with limits on sizes and times. The parser is that of httptools."""

from __future__ import annotations

import asyncio
import math
import re
import time
from asyncio import BaseTransport, Transport
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Literal, Protocol, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from tabane.hub.http.door import HttpWaits
from tabane.hub.http.exchange import AsgiApp, HttpExchange, status_line
from tabane.hub.http.programs import Admission
from tabane.hub.http.request import HttpRequest, RefusedRequest
from tabane.wire import json

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


class ConnectionOwner(Protocol):
    """The server, as its connections know it."""

    @property
    def app(self) -> AsgiApp: ...

    @property
    def open_connections(self) -> set[Any]: ...

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks of requests, which nothing else keeps."""
        ...

    @property
    def date(self) -> bytes:
        """Return the line of the header Date."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def waits(self) -> HttpWaits: ...

    @property
    def full(self) -> bool:
        """Return whether the limit of connections is reached."""
        ...

    def refresh(self) -> None:
        """Let responses have the current time."""
        ...

    def admit(self, request: HttpRequest) -> Admission | None:
        """Admit a request to become a WebSocket, and return its client; None if that takes a wait.

        Raises RefusedRequest.
        """
        ...

    def upgraded(self, transport: asyncio.Transport, admission: Admission) -> None:
        """Serve a connection as a WebSocket from here on."""
        ...

    def lost(self) -> None:
        """Note that a connection is gone."""
        ...


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

    def __init__(self, server: ConnectionOwner) -> None:
        self.on_lost: Callable[[], None] | None = None
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

    # -- what the transport says -----------------------------------------------------------------

    def connection_made(self, transport: BaseTransport) -> None:
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
        """Answer a client that has only closed its own half. Any other is gone, and its call is cancelled."""
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
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
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

    # -- what the parser says --------------------------------------------------------------------

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

    # -- one request after the other -------------------------------------------------------------

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

    # -- WebSockets ------------------------------------------------------------------------------

    def _becomes_websocket(self) -> bool:
        # One that may not is answered as the request that it is as well, with the reason.
        if not self._asks_for_websocket():
            return False
        if not self._asked:
            self._asked = True
            self._admission = self._admitted()
        return self._admission is not None

    def _asks_for_websocket(self) -> bool:
        named = dict(self._headers)
        tokens = [token.lower().strip() for token in named.get(b"connection", b"").split(b",")]
        return b"upgrade" in tokens and named.get(b"upgrade", b"").lower() == b"websocket"

    def _admitted(self) -> Admission | None:
        try:
            return self._server.admit(HttpRequest(self._scope(), _nothing, _nothing))
        except RefusedRequest:
            return None

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

    # -- what the server asks --------------------------------------------------------------------

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
    return int(time.time())
