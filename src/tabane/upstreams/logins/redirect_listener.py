"""A listener on this computer to which a browser returns after a login (RFC 8252, 7.3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from tabane.errors import ConfigurationError
from tabane.messages import Lang, say
from tabane.upstreams.logins.callback_page import CallbackPage, page_language

HOST = "localhost"
PATH = "/callback"
_ADDRESSES = ("127.0.0.1", "::1")
_LARGEST = 24 << 10
_PATIENCE = 10.0
_MOST = 16

OnReturn = Callable[[str, Lang], Awaitable[CallbackPage]]
"""Takes the query of the URL to which a browser returned, and returns the page for it."""


class RedirectListener:
    """Listens on a port of this computer until it is closed. ``url`` is where the browser has to return."""

    def __init__(self, servers: list[asyncio.Server], port: int) -> None:
        self._servers, self.port = servers, port
        self.url = f"http://{HOST}:{port}{PATH}"

    @classmethod
    async def open(cls, port: int, on_return: OnReturn, *, required: bool) -> RedirectListener:
        """Listen on that port; on any free one if it is 0, or taken and not ``required``.

        Raises ConfigurationError if it cannot listen.
        """
        connections = _Connections(on_return)
        for wanted in dict.fromkeys((port,) if required else (port, 0)):
            with contextlib.suppress(OSError):
                first = await asyncio.start_server(connections.serve, _ADDRESSES[0], wanted, limit=_LARGEST)
                found: int = first.sockets[0].getsockname()[1]
                servers = [first]
                with contextlib.suppress(OSError):  # a computer without IPv6
                    second = await asyncio.start_server(
                        connections.serve, _ADDRESSES[1], found, limit=_LARGEST
                    )
                    servers.append(second)
                return cls(servers, found)
        raise ConfigurationError(
            say("The port {port} for the return of the browser is in use by another program.", port=port)
        )

    def close(self) -> None:
        """Listen no more. A connection that is being answered gets its answer."""
        for server in self._servers:
            server.close()


class _Connections:
    def __init__(self, on_return: OnReturn) -> None:
        self._on_return = on_return
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST:
                async with asyncio.timeout(_PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                page = await self._answer(head)
                writer.write(page)
                async with asyncio.timeout(_PATIENCE):
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.partition(" ")[0]
        headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        path, _, query = target.partition("?")
        host = headers.get("host", "").rpartition(":")[0]
        if path != PATH or host not in (HOST, *_ADDRESSES, "[::1]"):
            return _response("404 Not Found", b"")
        if method != "GET":
            return _response("405 Method Not Allowed", b"")
        page = await self._on_return(query, page_language(headers.get("accept-language", "")))
        return _response("200 OK" if page.fine else "400 Bad Request", page.html())


def _response(status: str, body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in CallbackPage.HEADERS.items())]
    lines += [f"content-length: {len(body)}", "connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
