"""Client of one server over kept connections without TLS and without a proxy.

It does what requests to servers on this computer and in its network need, in a fraction of the time of a
general client. :class:`~tabane.net.http_client.UpstreamHttpClient` sends the others.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections import deque
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tabane.messages import Message, say
from tabane.net.content_coding import ACCEPTED
from tabane.net.http_faults import HttpConnectionBroken, HttpUnreachable, system_text
from tabane.net.plain_http_connection import OnAnswer, PlainHttpConnection, PlainHttpResponse

if TYPE_CHECKING:
    from yarl import URL

EYEBALLS = 0.25
"""Seconds after which the next address of a name is tried beside the one before (RFC 8305)."""

_REPEATABLE = frozenset(("DELETE", "GET"))
"""Methods of requests that are sent again if the server closed a kept connection meanwhile."""

_FRAMING = frozenset(("connection", "content-length", "expect", "transfer-encoding", "upgrade"))

_forbidden = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]").search
_number = re.compile(r"\[Errno (\d+)\]").search


def is_plain(url: URL, headers: Mapping[str, str]) -> bool:
    """Return whether this client can send the requests to a URL. ``headers`` are those of the user."""
    return url.scheme == "http" and all(name.lower() not in _FRAMING for name in headers)


class PlainHttpClient:
    """Sends requests to the host and port of ``url``. ``headers`` are those of every request.

    At most ``most`` connections are open; a request waits for one for ``patience`` seconds. An idle one is
    kept for ``keep`` seconds. To be made inside the running loop.
    """

    def __init__(
        self, url: URL, headers: Mapping[str, str], *, most: int, patience: float, keep: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._host, self._port = url.raw_host or "", url.port or 80
        self.named = not _is_address(self._host)
        """Whether the host has a name: cookies are kept for names only."""
        self._place = f"{url.host}:{url.port}"
        self._most, self._patience, self._keep = most, patience, keep
        general = {
            "Host": url.host_port_subcomponent or "",
            "Accept": "*/*",
            "Accept-Encoding": ACCEPTED,
            **headers,
        }
        self._lines = {name.lower(): f"{name}: {value}" for name, value in general.items()}
        self._idle: list[PlainHttpConnection] = []
        self._open: set[PlainHttpConnection] = set()
        self._dialing = 0
        self._waiting: deque[asyncio.Future[PlainHttpConnection | None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def serves(self, url: URL) -> bool:
        """Return whether requests to a URL go over these connections."""
        return url.scheme == "http" and url.port == self._port and url.raw_host == self._host

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> PlainHttpResponse:
        """Return the response to one request. Its body is not read yet, and the caller releases it.

        ``target`` is path and query of the URL, quoted. Raises HttpUnreachable and HttpConnectionBroken, and
        ValueError if a header cannot be sent.
        """
        head = self._head(method, target, headers, body)
        connection = self._kept()
        if connection is not None:
            try:
                return await _exchange(connection, head, body or b"")
            except HttpConnectionBroken:
                if connection.received or method not in _REPEATABLE:
                    raise
        return await _exchange(await self._connected(), head, body or b"")

    def send_at_once(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer
    ) -> PlainHttpConnection | None:
        """Send a request over a kept connection, which is returned; None if there is none.

        ``on_answer`` is called once, with its response or failure, unless the connection is told to give up.
        Raises ValueError if a header cannot be sent.
        """
        head = self._head(method, target, headers, body)
        connection = self._kept()
        if connection is not None:
            connection.send(head, body, on_answer)
        return connection

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
        return f"{method} {target} HTTP/1.1\n{head}\n\n".replace("\n", "\r\n").encode()

    # -- connections -----------------------------------------------------------------------------

    def _kept(self) -> PlainHttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connected(self) -> PlainHttpConnection:
        """Return a new connection, or a kept one once as many are open as may be."""
        try:
            async with asyncio.timeout(self._patience):
                while not self._closed and len(self._open) + self._dialing >= self._most:
                    handed = await self._freed()
                    if handed is not None and handed.usable:
                        return handed
                return await self._dialed()
        except TimeoutError as error:
            if error.errno is None:
                raise HttpUnreachable(
                    say("no connection to {host} within {seconds:g} s",
                        host=self._place, seconds=self._patience)) from None  # fmt: skip
            raise HttpUnreachable(self._unreached(error)) from None
        except OSError as error:
            raise HttpUnreachable(self._unreached(error)) from None

    async def _dialed(self) -> PlainHttpConnection:
        self._check_open()
        self._dialing += 1
        try:
            _, connection = await self._loop.create_connection(
                lambda: PlainHttpConnection(self._loop, self._place, self._open.add, self._free, self._lost),
                self._host,
                self._port,
                happy_eyeballs_delay=EYEBALLS,
            )
        finally:
            self._dialing -= 1
            self._wake(None)
        self._check_open(connection)
        return connection

    def _check_open(self, connection: PlainHttpConnection | None = None) -> None:
        """Raise HttpConnectionBroken, and end a connection that was made, if the client was closed."""
        if self._closed:
            if connection is not None:
                connection.abort()
            raise HttpConnectionBroken(say("the connection was closed"))

    async def _freed(self) -> PlainHttpConnection | None:
        """Wait for a connection that is free; None if another one may be made now."""
        waiter: asyncio.Future[PlainHttpConnection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                handed = waiter.result()
                self._free(handed) if handed is not None else self._wake(None)
            raise

    def _wake(self, connection: PlainHttpConnection | None) -> bool:
        """Let the request that has waited longest go on. Return whether there was one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _free(self, connection: PlainHttpConnection) -> None:
        if self._closed:
            connection.abort()
        elif not (self._waiting and self._wake(connection)):
            connection.since = self._loop.time()
            self._idle.append(connection)
            if self._sweep is None:
                self._sweep = self._loop.call_later(self._keep, self._swept)

    def _swept(self) -> None:
        """Close the connections that were idle for too long. The first in the list is idle for longest."""
        oldest = self._loop.time() - self._keep
        while self._idle and self._idle[0].since <= oldest:
            self._idle.pop(0).abort()
        self._sweep = None
        if self._idle:
            self._sweep = self._loop.call_at(self._idle[0].since + self._keep, self._swept)

    def _lost(self, connection: PlainHttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake(None)

    def _unreached(self, error: OSError) -> Message:
        reason = system_text(error)
        if isinstance(error, socket.gaierror):
            return say("the name {host} does not exist: {error}", host=self._host, error=reason)
        several = _number(reason)
        if error.errno is None and several is not None:
            # Of several addresses: the first reason, without the addresses.
            reason = system_text(OSError(int(several[1]), ""))
        return say("{host} cannot be reached: {error}", host=self._place, error=reason)


async def _exchange(connection: PlainHttpConnection, head: bytes, body: bytes) -> PlainHttpResponse:
    answer: asyncio.Future[PlainHttpResponse] = connection.loop.create_future()

    def settle(found: PlainHttpResponse | HttpConnectionBroken) -> None:
        if answer.done():
            return
        if isinstance(found, HttpConnectionBroken):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    connection.send(head, body, settle)
    try:
        return await answer
    except asyncio.CancelledError:
        connection.give_up(settle)
        raise


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
