"""The browser's only way out: a proxy on loopback that connects where the guard allows.

A name is looked up once, its addresses are judged, and the connection is made to one of them. TLS is tunneled
to the site; plain HTTP is passed on one request at a time. The proxy requires a password, which the browser
gets only over its socket: other programs, and the browser's own background requests, get nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from httpcore2 import AsyncNetworkStream

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.network import GuardedNetworkBackend
from tabane.reader.fetching.responses import TransientFetchError
from tabane.reader.guard import Guard, Target
from tabane.reader.rendering.chromium import RenderLimits

log = logging.getLogger(__name__)

_HEAD = 65_536  # bytes
_PIECE = 65_536
_SILENCE = 60.0  # seconds
_AT_ONCE = 48  # connections
_MOST_REFUSED = 50  # hosts of which is remembered that they were refused

_LINE = re.compile(r"([A-Z]{1,20}) (\S{1,8000}) HTTP/1\.[01]")
_OF_THE_HOP = re.compile(rb"(?im)^(?:proxy-[a-z-]+|connection|keep-alive|te|trailer|upgrade)[ \t]*:[^\n]*\n")
_LENGTH = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*([0-9]{1,15})[ \t]*\r?$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding[ \t]*:")
_PASSWORD = re.compile(rb"(?im)^proxy-authorization[ \t]*:[ \t]*([^\r\n]*)")

_ASKS = b'HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm="tabane"\r\n'
_ENDS = b"Content-Length: 0\r\nConnection: close\r\nProxy-Connection: close\r\n\r\n"
_NO = b"HTTP/1.1 403 No\r\n" + _ENDS
_BAD = b"HTTP/1.1 400 What\r\n" + _ENDS
_OPEN = b"HTTP/1.1 200 Open\r\n\r\n"


class ProxyRequest(NamedTuple):
    """A request of the browser: a tunnel, or one exchange whose ``head`` is sent to the site."""

    target: Target
    tunnel: bool
    head: bytes = b""
    length: int = 0


class _BadProxyRequest(Exception):
    """A request that is none."""


class EgressProxy:
    """A proxy that is open within its ``async with`` block. The browser finds it at ``name`` and ``port`` and
    sends ``user`` and ``password``.

    ``refused`` has, by host, the reason of the guard's refusal; ``failed`` the other errors of connections.
    ``spent`` is set if a limit was reached: nothing passes after that.
    """

    def __init__(
        self, guard: Guard, network: GuardedNetworkBackend, limits: RenderLimits, connecting: float
    ) -> None:
        self._guard, self._network, self._connecting = guard, network, connecting
        self._traffic, self._connections = limits.traffic, limits.connections
        self.name = f"gate-{secrets.token_hex(16)}.invalid"
        self.user, self.password = "page", secrets.token_urlsafe(32)
        self._key = b"Basic " + base64.b64encode(f"{self.user}:{self.password}".encode())
        self.port = 0
        self.spent = False
        self.refused: dict[str, ReadError] = {}
        self.failed: dict[str, ReadError] = {}
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> EgressProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._busy) >= _AT_ONCE:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SILENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            match = _PASSWORD.search(head)
            if match is None or not secrets.compare_digest(match[1].strip(), self._key):
                writer.write(_ASKS + _ENDS)
                return
            await self._forward(head, reader, writer)
        except _BadProxyRequest:
            writer.write(_BAD)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match = _LINE.match(head.split(b"\r\n", 1)[0].decode("latin-1"))
        if match is None:
            raise _BadProxyRequest
        host = re.sub(r"^[a-z]+://", "", match[2], flags=re.IGNORECASE).partition("/")[0][:100]
        try:
            way = _allowed_request(head, self._guard)
            self._connections -= 1
            if self._connections < 0 or self.spent:
                self.spent = True
                raise ReadError(
                    say("the page opens more connections than are allowed for one page."), "large"
                )
            stream = await self._network.connect_tcp(way.target.host, way.target.port, self._connecting)
        except (ReadError, TransientFetchError) as error:
            cause = error.error if isinstance(error, TransientFetchError) else error
            log.info("a page's programs asked for %s: %s", host, cause)
            kept = self.refused if cause.cause in ("refused", "url", "scheme") else self.failed
            if len(kept) < _MOST_REFUSED:
                kept.setdefault(host, cause)
            if head.startswith(b"CONNECT "):
                writer.write(_NO)
            # In a tunnel, an answer would be taken for one of the site, so none is sent.
            return
        try:
            await self._join(way, reader, writer, stream)
        finally:
            await asyncio.shield(stream.aclose())

    async def _join(
        self,
        way: ProxyRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: AsyncNetworkStream,
    ) -> None:
        """Copy both directions, until the site closes its side, or the browser if that ends the exchange."""
        if way.tunnel:
            writer.write(_OPEN)
            up, length = b"", None
        else:
            up, length = way.head, way.length
        down = asyncio.create_task(self._copy_down(stream, writer, plain=not way.tunnel))
        sending = asyncio.create_task(_copy_up(reader, stream, up, length))
        try:
            done, _ = await asyncio.wait({down, sending}, return_when=asyncio.FIRST_COMPLETED)
            if down not in done and not way.tunnel:
                await down
        finally:
            down.cancel()
            sending.cancel()
            for end in await asyncio.gather(down, sending, return_exceptions=True):
                if isinstance(end, Exception):
                    log.debug("a connection of a page ended: %r", end)

    async def _copy_down(
        self, stream: AsyncNetworkStream, writer: asyncio.StreamWriter, *, plain: bool
    ) -> None:
        first = await _answer_head(stream, self._count_bytes) if plain else b""
        writer.write(first)
        while data := await stream.read(_PIECE, _SILENCE):
            self._count_bytes(data)
            writer.write(data)
            await writer.drain()

    def _count_bytes(self, data: bytes) -> None:
        self._traffic -= len(data)
        if self._traffic < 0:
            self.spent = True
            raise EOFError


def _allowed_request(head: bytes, guard: Guard) -> ProxyRequest:
    """Return the request, if the guard allows it. Raises ReadError, and _BadProxyRequest."""
    line, _, fields = head.partition(b"\r\n")
    match = _LINE.fullmatch(line.decode("latin-1"))
    if match is None:
        raise _BadProxyRequest
    method, what = match[1], match[2]
    if method == "CONNECT":
        host, colon, port = what.rpartition(":")
        if not colon or not port.isdigit() or "/" in host:
            raise _BadProxyRequest
        # The scheme is the one whose default port it is, because messages leave that out.
        scheme = "http" if port == "80" else "https"
        return ProxyRequest(guard.target(f"{scheme}://{what}/"), tunnel=True)
    target = guard.target(what)
    if target.scheme != "http" or _CHUNKED.search(fields):
        raise _BadProxyRequest
    lengths = {int(length) for length in _LENGTH.findall(fields)}
    if len(lengths) > 1:
        raise _BadProxyRequest
    fields = _OF_THE_HOP.sub(b"", fields)
    # The path as the browser wrote it; the host as it was judged.
    path = re.sub(r"^[A-Za-z]+://[^/?#]*", "", what)
    path = path if path.startswith("/") else "/" + path
    fields = re.sub(rb"(?im)^host[ \t]*:[^\n]*\n", b"", fields)
    begin = f"{method} {path} HTTP/1.1\r\nHost: {target.authority}\r\nConnection: close\r\n"
    return ProxyRequest(
        target, tunnel=False, head=begin.encode("latin-1") + fields, length=max(lengths, default=0)
    )


async def _copy_up(
    reader: asyncio.StreamReader, stream: AsyncNetworkStream, first: bytes, length: int | None
) -> None:
    """Copy what the browser sends, at most ``length`` bytes: the next request may be for another host."""
    if first:
        await stream.write(first, _SILENCE)
    left = length
    while left is None or left > 0:
        data = await reader.read(_PIECE if left is None else min(left, _PIECE))
        if not data:
            return
        left = None if left is None else left - len(data)
        await stream.write(data, _SILENCE)


async def _answer_head(stream: AsyncNetworkStream, counted: Callable[[bytes], None]) -> bytes:
    """Return the beginning of an answer, with its head saying that no other request goes this way."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            piece = await stream.read(_PIECE, _SILENCE)
            counted(piece)
            if not piece or len(data) > _HEAD:
                raise EOFError
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        status = head[9:12]
        if not head.startswith(b"HTTP/1.") or not status.isdigit():
            raise EOFError
        if status[:1] != b"1":
            line, _, fields = head.partition(b"\r\n")
            fields = _OF_THE_HOP.sub(b"", fields + b"\r\n")
            return line + b"\r\n" + fields + b"Connection: close\r\n\r\n" + rest
        data = rest  # early news, of which the browser has no need
