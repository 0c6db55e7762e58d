"""HTTP requests over TCP connections to judged addresses, with trusted certificates and turns for each host.

A name is resolved once, and only judged addresses are connected to. The connection keeps the name for the
header Host and for TLS, which checks the certificate against it.

Imported on the first fetch. httpcore2 is the lower half of httpx2 and is released with it. The upper half
does redirects, cookies, proxies and decompression, which the reader does itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import httpcore2

from tabane.errors import ReadError
from tabane.messages import say
from tabane.net.addresses import MOST_ADDRESSES, alternating, first_connection
from tabane.net.routes import UnreadableCertificates, trusting_context
from tabane.reader.fetching.interface import Policy, Resolver
from tabane.reader.fetching.responses import (
    TransientFetchError,
    accepted,
    broken,
    by_proxy,
    connecting,
    late,
    lookup,
    lowered,
    tls,
)
from tabane.reader.guard import Address, Guard, Target, address_of

if TYPE_CHECKING:
    from ssl import SSLContext

Source = Callable[[Address, int], Address | None]
"""Return the local address that packets to another would leave from; None if there is no route."""


class GuardedNetworkBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections to judged addresses alone; ``proxy`` is the one host that is not judged.

    ``inner`` opens them: it is given addresses, never names. Raises ReadError and Passing.
    """

    def __init__(
        self,
        guard: Guard,
        resolve: Resolver,
        source: Source,
        inner: httpcore2.AsyncNetworkBackend | None = None,
        *,
        proxy: httpcore2.URL | None = None,
    ) -> None:
        self._guard, self._resolve, self._source = guard, resolve, source
        self._proxy = (proxy.host.decode(), proxy.port) if proxy else None
        self._inner = inner or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to an address of ``host`` that the guard allows. Raises ReadError."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses_of(host, port)
                openings = [partial(self._open_address, address, port) for address in addresses]
                return await first_connection(openings, _close_stream)
        except (TimeoutError, httpcore2.ConnectTimeout):
            raise late(say("connecting to {host}", host=f"{host}:{port}"), timeout or 0) from None
        except httpcore2.ConnectError as error:
            raise connecting(error, host, port) from None

    async def _open_address(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return await self._inner.connect_tcp(str(address), port)

    async def _addresses_of(self, host: str, port: int) -> list[Address]:
        found = await self._resolve_host(host)
        if (host, port) == self._proxy:
            addresses = [address for text in found if (address := address_of(text)) is not None]
        else:
            addresses = self._guard.addresses(host, port, found)
            for address in addresses:
                self._guard.apart(host, address, port, self._source(address, port))
        if not addresses:
            raise lookup(socket.gaierror(socket.EAI_NONAME), host)
        return alternating(addresses, [address.version for address in addresses])[:MOST_ADDRESSES]

    async def _resolve_host(self, host: str) -> Sequence[str]:
        if address_of(host) is not None:
            return [host]
        try:
            return await self._resolve(host)
        except (OSError, UnicodeError) as error:
            raise lookup(error, host) from None


async def _close_stream(stream: httpcore2.AsyncNetworkStream) -> None:
    await stream.aclose()


def source(address: Address, port: int) -> Address | None:
    """Ask the system, which sends nothing for it."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), port))
            return address_of(probe.getsockname()[0])
    except OSError:
        return None


AT_ONCE = 8
"""Concurrent requests, to all hosts."""

PER_HOST = 2
"""Concurrent requests to one host."""

_SWEEP = 256


@dataclass(slots=True)
class _HostTurn:
    """State of one host: its running and waiting requests (``users``), and the time of its next turn."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PER_HOST))
    users: int = 0
    next: float = 0.0


class RequestTurns:
    """Hands out turns. ``clock`` is in seconds, from any point in time."""

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._clock, self._sleep = clock, sleep
        self._rows: dict[str, _HostTurn] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        """Return the number of hosts with state."""
        return len(self._rows)

    @asynccontextmanager
    async def turn(self, host: str, gap: float) -> AsyncIterator[None]:
        """Wait for a turn: ``gap`` seconds after the last request to ``host``, and within the limits of
        concurrency.
        """
        row = self._rows.setdefault(host, _HostTurn())
        row.users += 1
        try:
            async with row.places:
                await self._wait_for_turn(row, gap)
                async with self._places:
                    yield
        finally:
            row.users -= 1
            # Forget hosts without requests whose next turn is due.
            if len(self._rows) > _SWEEP:
                now = self._clock()
                self._rows = {host: row for host, row in self._rows.items() if row.users or row.next > now}

    async def _wait_for_turn(self, row: _HostTurn, gap: float) -> None:
        now = self._clock()
        begin = max(now, row.next)
        row.next = begin + gap
        if begin > now:
            await self._sleep(begin - now)


def trusted(ca: str | None) -> SSLContext:
    """Return the system's authorities and those in the file ``ca``. Reads files: some 20 ms.

    Raises ReadError, cause ``tls``, if a file cannot be read.
    """
    try:
        return trusting_context([ca] if ca else [])
    except UnreadableCertificates as error:
        raise ReadError(
            say(
                "the certificates in {path} cannot be read: {error}. Fix the setting reader_ca.",
                path=error.path,
                error=error.reason,
            ),
            "tls",
        ) from None


KEPT = 15.0
"""Seconds that a connection is kept for the next request to the same host."""


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """A response whose body was not read yet. Names of ``headers`` are lower case."""

    status: int
    headers: Mapping[str, str]
    stream: AsyncIterator[bytes]


class GuardedHttpClient:
    """Connections under one policy. Created off the event loop, because it reads certificates; used on it.

    ``encodings`` is the value of the header Accept-Encoding.
    """

    def __init__(self, policy: Policy, guard: Guard, resolve: Resolver, source: Source) -> None:
        self._policy = policy
        self.encodings = accepted()
        proxy = _proxy_of(policy.proxy) if policy.proxy else None
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted(policy.ca),
            proxy=proxy,
            max_connections=2 * AT_ONCE,
            max_keepalive_connections=AT_ONCE,
            keepalive_expiry=KEPT,
            http2=True,
            network_backend=GuardedNetworkBackend(guard, resolve, source, proxy=proxy.url if proxy else None),
        )

    @asynccontextmanager
    async def answer(self, target: Target, headers: Mapping[str, str]) -> AsyncIterator[StreamedResponse]:
        """The response to a GET, closed with the block. Raises ReadError and Passing."""
        request = self._request(target, headers)
        try:
            response = await self._pool.handle_async_request(request)
        except Exception as error:
            raise self._fetch_error(error, target) from None
        spent = False

        async def stream() -> AsyncGenerator[bytes]:
            nonlocal spent
            try:
                async with aclosing(response.aiter_stream()) as pieces:
                    async for data in pieces:
                        yield data
            except Exception as error:
                raise self._fetch_error(error, target) from None
            spent = True

        try:
            async with aclosing(stream()) as pieces:
                yield StreamedResponse(response.status, lowered(response.headers), pieces)
        finally:
            # Over HTTP/2 an unread response would keep filling the connection, so it is closed.
            await response.aclose()
            if not spent and response.extensions.get("http_version") == b"HTTP/2":
                await response.extensions["network_stream"].aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    def _request(self, target: Target, headers: Mapping[str, str]) -> httpcore2.Request:
        said = {"Host": target.authority, **headers}
        wait = self._policy
        return httpcore2.Request(
            b"GET",
            httpcore2.URL(
                scheme=target.scheme.encode(),
                host=target.host.encode(),
                port=target.port,
                target=target.path.encode(),
            ),
            headers=[(name.encode("ascii"), value.encode()) for name, value in said.items()],
            extensions={
                "timeout": {
                    "connect": wait.connect_timeout,
                    "read": wait.read_timeout,
                    "write": wait.read_timeout,
                    "pool": wait.timeout,
                }
            },
        )

    def _fetch_error(self, error: Exception, target: Target) -> Exception:
        if isinstance(error, (ReadError, TransientFetchError)):
            return error
        if (found := tls(error, target.authority)) is not None:
            return found
        if isinstance(error, httpcore2.ConnectTimeout):
            return late(say("connecting to {host}", host=target.authority), self._policy.connect_timeout)
        if isinstance(error, httpcore2.TimeoutException):
            return late(say("an answer of {host}", host=target.authority), self._policy.read_timeout)
        if isinstance(error, httpcore2.ProxyError):
            return by_proxy(error, target.authority)
        if isinstance(error, httpcore2.ConnectError):
            return connecting(error, target.host, target.port)
        return broken(error, target.authority)


def _proxy_of(url: str) -> httpcore2.Proxy:
    """Raises ReadError, cause ``connect``, if the setting cannot be used."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, {"http": 80, "https": 443}[parts.scheme]
        port = parts.port or port
        if not host:
            raise ValueError
    except (ValueError, KeyError):
        raise ReadError(
            say(
                "the setting reader_proxy must be an http:// or https:// URL; other proxies are "
                "not supported."
            ),
            "connect",
        ) from None
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    where = httpcore2.URL(scheme=parts.scheme.encode(), host=host.encode(), port=port, target=b"/")
    return httpcore2.Proxy(where, auth=auth)
