"""TCP connections to judged addresses: a name is resolved once, and only judged addresses are connected to.

The connection keeps the name for the header Host and for TLS, which checks the certificate against it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import httpcore2

from tabane.messages import say
from tabane.reader.fetching.fetch_errors import connecting, late, lookup
from tabane.reader.fetching.interface import Resolver
from tabane.reader.guard import Address, Guard, address_of

T = TypeVar("T")

AFTER = 0.25
"""Seconds before the next address is tried beside those that have not answered yet (RFC 8305, 5)."""

MOST = 6
"""Addresses that are tried at all."""


async def first(
    openings: Sequence[Callable[[], Coroutine[Any, Any, T]]],
    close: Callable[[T], Awaitable[None]],
    after: float = AFTER,
) -> T:
    """Return the first connection that succeeds; later ones are closed.

    Raises the last error if all fail.
    """
    waiting = list(openings)
    tasks: set[asyncio.Task[T]] = set()
    failed: list[BaseException] = []
    won: asyncio.Task[T] | None = None
    try:
        while won is None and (waiting or tasks):
            if waiting:
                tasks.add(asyncio.create_task(waiting.pop(0)()))
            done, _ = await asyncio.wait(
                tasks, timeout=after if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            won = next((task for task in done if task.exception() is None), None)
            failed += [error for task in done if (error := task.exception()) is not None]
            tasks -= {task for task in done if task.exception() is not None} | {won}
    finally:
        await _left(tasks, close)
    if won is None:
        raise failed[-1]
    return won.result()


async def _left(tasks: set[asyncio.Task[T]], close: Callable[[T], Awaitable[None]]) -> None:
    for task in tasks:
        task.cancel()
    for made in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(made, BaseException):
            await close(made)


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
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
                openings = [partial(self._opened, address, port) for address in addresses]
                return await first(openings, _closed)
        except (TimeoutError, httpcore2.ConnectTimeout):
            raise late(say("connecting to {host}", host=f"{host}:{port}"), timeout or 0) from None
        except httpcore2.ConnectError as error:
            raise connecting(error, host, port) from None

    async def _opened(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return await self._inner.connect_tcp(str(address), port)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        found = await self._found(host)
        if (host, port) == self._proxy:
            addresses = [address for text in found if (address := address_of(text)) is not None]
        else:
            addresses = self._guard.addresses(host, port, found)
            for address in addresses:
                self._guard.apart(host, address, port, self._source(address, port))
        if not addresses:
            raise lookup(socket.gaierror(socket.EAI_NONAME), host)
        return alternating(addresses)[:MOST]

    async def _found(self, host: str) -> Sequence[str]:
        if address_of(host) is not None:
            return [host]
        try:
            return await self._resolve(host)
        except (OSError, UnicodeError) as error:
            raise lookup(error, host) from None


async def _closed(stream: httpcore2.AsyncNetworkStream) -> None:
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


def alternating(addresses: Sequence[Address]) -> list[Address]:
    """Return the families take turns, beginning with that of the first (RFC 8305, 4)."""
    kin = [address for address in addresses if address.version == addresses[0].version]
    others = [address for address in addresses if address.version != addresses[0].version]
    pairs = zip_longest(kin, others)
    return [address for pair in pairs for address in pair if address is not None]
