"""A listener on this computer to which a browser returns after a login (RFC 8252, 7.3), and its page.

The page loads nothing, and has no secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import ClassVar

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.messages import Lang, Message, say

_STYLE = (
    "body{font:1rem/1.6 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}"
    "h1{font-size:1.4rem}:root{color-scheme:light dark}"
)


class CallbackPage(Struct, frozen=True):
    """A page with a title and a sentence. ``fine``: the login is done."""

    fine: bool
    title: Message
    text: Message
    lang: Lang

    HEADERS: ClassVar[Mapping[str, str]] = {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin",
    }

    def html(self) -> bytes:
        title, text = (escape(part.render(self.lang)) for part in (self.title, self.text))
        return (
            f'<!doctype html><html lang="{self.lang}"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{text}</p></body></html>"
        ).encode()


def done_page(server: str, lang: Lang) -> CallbackPage:
    """Return the page of a login that worked."""
    return CallbackPage(
        True,
        say("You are logged in"),
        say("Tabane can now use {server!n}. You can close this page.", server=server),
        lang,
    )


def failed_page(why: Message, lang: Lang) -> CallbackPage:
    """Return the page of a login that failed."""
    return CallbackPage(False, say("The login failed"), why, lang)


def unknown_page(lang: Lang) -> CallbackPage:
    """Return the page for a browser that returns without a login that waits for it."""
    return CallbackPage(
        False,
        say("This login is not known"),
        say(
            "It was finished already, has expired, or was begun elsewhere. Begin again with: tabane servers "
            "login"
        ),
        lang,
    )


def page_language(accepted: str) -> Lang:
    """Return the language of a page for the header Accept-Language: that of its first known entry."""
    for entry in accepted[:500].split(","):
        word = entry.partition(";")[0].strip().lower()
        if word.startswith("ja"):
            return "ja"
        if word.startswith("en"):
            return "en"
    return "en"


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
