"""Connection of a client over HTTP: that of uvicorn, with limits on sizes and times."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from asyncio import BaseTransport, Transport
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Literal, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from tabane.hub.http.door import HttpWaits
from tabane.hub.http.programs import Admission
from tabane.hub.http.request import HttpRequest, RefusedRequest
from tabane.wire import json

MOST_HEAD = 64 << 10
"""Bytes of a request line and its headers."""

MOST_HEADERS = 128
MOST_URL = 8 << 10

LINGER = 2.0
"""Seconds that a client has to read why it was refused, before its connection is closed."""

LARGEST = 64 << 10
"""Bytes of a body that are worth a copy to save a packet."""

_HEAD = b"HTTP/1.1 "

# What uvicorn logs of a client's mistakes would let any client fill the log.
quiet = logging.getLogger("tabane.hub.http.uvicorn")
quiet.setLevel(logging.ERROR)


# Clients that would rather speak HTTP/2 say so beside a request that is good as it is (Java's does), but
# httptools stops at the body of one. What is not understood is to be passed over (RFC 9110, 7.8).
_upgrade = re.compile(rb"(?i)(?<=\n)upgrade(?=:(?![ \t]*websocket))")


class _ParsingStopped(Exception):
    """Stops the parser. The answer to the client is remembered by then."""


class ConnectionOwner(Protocol):
    """The server, as its connections know it."""

    @property
    def config(self) -> Config: ...

    @property
    def state(self) -> ServerState: ...

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


class HeadJoiningTransport:
    """Joins the head of a response to its body, to save a packet and a wake-up of the client.

    A head waits for what is written after it in the same turn of the loop, and no longer. Whatever else a
    transport does, the one underneath does.
    """

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    @property
    def plain(self) -> asyncio.Transport:
        """Return the underlying transport, for a connection that has left HTTP."""
        self._flush()
        return self._transport

    def write(self, data: bytes) -> None:
        if self._head and len(data) <= LARGEST:
            data, self._head = self._head + data, b""
        elif self._head:
            self._flush()
        elif data.startswith(_HEAD) and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def write_eof(self) -> None:
        self._flush()
        end_writing(self._transport)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def end_writing(transport: Transport) -> None:
    """Let the client know that nothing follows, and read what it still sends.

    TLS has no half of a connection to close: there, its own end is sent, and waits for the client's.
    """
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


class HttpConnection(HttpToolsProtocol):
    """``on_lost`` is called once, when the client goes away while a response is on its way to it."""

    def __init__(self, server: ConnectionOwner) -> None:
        super().__init__(server.config, server.state, {}, server.loop)
        self.logger, self.access_log = quiet, False
        self.on_lost: Callable[[], None] | None = None
        self._server = server
        self._reading: Literal["head", "body", ""] = "head"
        self._since = server.loop.time()
        self._head = self._count = 0
        self._refusal: tuple[int, str] | None = None
        self._over = False
        self._admission: Admission | None = None
        self._asked = False

    # -- what the transport says -----------------------------------------------------------------

    def connection_made(self, transport: BaseTransport) -> None:
        joining = HeadJoiningTransport(cast("Transport", transport), self._server.loop)
        super().connection_made(joining)  # type: ignore[arg-type]
        if self._server.full:
            self._close_with(503, "The hub has as many connections as it takes.", b"retry-after: 5\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.lost()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost:
            on_lost()

    def data_received(self, data: bytes) -> None:
        if self._over or self.transport.is_closing():
            return
        now = self._server.loop.time()
        if b"pgrade:" in data and self._reading != "body":
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _upgrade.sub(b"passed-over", head) + end + rest
        if self._reading == "head":
            self._head += len(data)
        elif self._reading == "body":
            self._since = now
        super().data_received(data)
        if self._over or self.transport.is_closing():
            return
        if self._reading == "head" and self._head > MOST_HEAD:
            self._close_with(431, f"the headers of a request may have {MOST_HEAD} bytes")
        elif not self._reading and not self.answering and self.timeout_keep_alive_task is None:
            self._await_head(now)  # Line breaks between two requests end the wait for the next.

    # -- what the parser says --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._server.refresh()
        self._admission, self._asked = None, False
        self._await_head(self._server.loop.time())
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["tabane.connection"] = self

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MOST_URL:
            self._refuse(414, f"a URL may have {MOST_URL} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MOST_HEADERS:
            self._refuse(431, f"a request may have {MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._reading = "body"
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reading = ""
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.on_lost = None
        if not self._reading and self.cycle is not None and self.cycle.response_complete:
            # An idle connection keeps nothing of its last request.
            self.scope = self.headers = self.cycle = None  # type: ignore[assignment]

    def _should_upgrade_to_ws(self) -> bool:
        # One that may not is answered as the request that it is as well, with the reason.
        if not self._asked:
            self._asked = True
            self._admission = self._admitted()
        return self._admission is not None

    def _admitted(self) -> Admission | None:
        scope = {
            **self.scope,
            "path": self.url.partition(b"?")[0].decode("latin-1"),
            "raw_path": self.url.partition(b"?")[0],
            "tabane.connection": self,
        }
        try:
            return self._server.admit(HttpRequest(scope, _nothing, _nothing))
        except RefusedRequest:
            return None

    def handle_websocket_upgrade(self) -> None:
        assert self._admission is not None  # else it were none
        self._upgrade_to(self._admission)

    def become(self, admission: Admission) -> None:
        """Turn into the WebSocket of a request that was admitted after a wait."""
        if self.cycle.disconnected or self.transport.is_closing():
            return
        self.cycle.disconnected = True  # for uvicorn: nothing more is answered on it as HTTP
        self.on_lost = None
        self._upgrade_to(admission)

    def _upgrade_to(self, admission: Admission) -> None:
        self._over = True
        self.connections.discard(self)
        transport = cast("HeadJoiningTransport", self.transport).plain
        transport.write(admission.head)
        self._server.upgraded(transport, admission)

    def _unsupported_upgrade_warning(self) -> None:
        # The parser has stopped within this request: what follows on the connection is not to be read.
        self._over, self._since = True, math.inf
        self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        status, text = self._refusal or (400, "this is not a request of HTTP/1.1")
        self._close_with(status, text)

    # -- what the server asks --------------------------------------------------------------------

    @property
    def answering(self) -> bool:
        """Return whether a request waits for its response."""
        return bool(self.pipeline) or (self.cycle is not None and not self.cycle.response_complete)

    @property
    def unsent(self) -> int:
        """Return the bytes of responses that the client has not read."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def overdue(self, now: float) -> None:
        """Close a connection whose request takes too long to arrive."""
        waits = self._server.waits
        if self._over:
            if now - self._since > LINGER:
                self.transport.abort()
        elif self._reading and now - self._since > (waits.head if self._reading == "head" else waits.body):
            self._close_with(408, "the request did not arrive in time")

    def _await_head(self, now: float) -> None:
        self._reading, self._since, self._head, self._count = "head", now, 0, 0

    def _refuse(self, status: int, text: str) -> None:
        self._refusal = status, text
        raise _ParsingStopped(text)

    def _close_with(self, status: int, text: str, headers: bytes = b"") -> None:
        # Another response would corrupt the one that is on its way: such a connection just ends.
        if not self.answering or not (self.cycle and self.cycle.response_started):
            body = json.error_line(None, json.error_object(-32600, text))
            head = b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n"
            self.transport.write(head % (STATUS_LINE[status], len(body), headers) + body)
            # Closing now, with bytes unread, would reset the connection, and the answer be lost.
            self._over, self._since = True, self._server.loop.time()
            self.transport.write_eof()
        else:
            self.transport.close()

    def __hash__(self) -> int:
        return id(self)


async def _nothing(message: Any = None) -> None:
    raise AssertionError("who asks to become a WebSocket is neither read nor answered")


def date_header(now: float) -> tuple[bytes, bytes]:
    """Return the Date header of a response. The time is in seconds since the epoch."""
    return b"date", formatdate(now, usegmt=True).encode()


def wall_clock() -> int:
    return int(time.time())
