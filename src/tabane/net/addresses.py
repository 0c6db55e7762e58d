"""Connections to the addresses of a host, each judged before it is connected to.

A name is resolved once, and connected to at an address that was judged: another answer to a second question
cannot lead elsewhere. Addresses are tried side by side, each some time after the one before (RFC 8305).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any, TypeVar

from tabane.messages import Message, say
from tabane.net.routes import AddressPolicy

T = TypeVar("T")

AFTER = 0.25
"""Seconds before the next address is tried beside those that have not answered yet (RFC 8305, 5)."""

MOST_ADDRESSES = 6
"""Addresses that are tried at all."""

_Entry = tuple[socket.AddressFamily, Any]


class AddressRefused(Exception):
    """No address of a host may be connected to. ``why`` is the reason for the first."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


async def connected_socket(host: str, port: int, policy: AddressPolicy | None) -> socket.socket:
    """Return a socket that is connected to a host, at an address that the policy allows; None allows all.

    Raises AddressRefused, OSError, and UnicodeError if the name cannot be one of a host.
    """
    entries = _literal_entry(host, port) or await _resolved(host, port)
    if policy is not None:
        refusals = [policy(host, str(address[0])) for _, address in entries]
        allowed = [entry for entry, why in zip(entries, refusals, strict=True) if why is None]
        if entries and not allowed:
            raise AddressRefused(refusals[0] or say("private"))
        entries = allowed
    if not entries:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    families = alternating(entries, [family for family, _ in entries])
    return await first_connection(
        [partial(_connect, *entry) for entry in families[:MOST_ADDRESSES]], _close_socket
    )


def _literal_entry(host: str, port: int) -> list[_Entry]:
    """Return the entry of an address; empty for a name, and for an address with a zone."""
    try:
        version = ip_address(host).version if "%" not in host else 0
    except ValueError:
        version = 0
    if version == 4:
        return [(socket.AF_INET, (host, port))]
    return [(socket.AF_INET6, (host, port, 0, 0))] if version else []


async def _resolved(host: str, port: int) -> list[_Entry]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


async def _connect(family: socket.AddressFamily, address: Any) -> socket.socket:
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.setblocking(False)
        await asyncio.get_running_loop().sock_connect(link, address)
    except BaseException:
        link.close()
        raise
    return link


async def _close_socket(link: socket.socket) -> None:
    link.close()


async def first_connection(
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
        await _cancel_attempts(tasks, won, close)
    if won is None:
        raise failed[-1]
    return won.result()


async def _cancel_attempts(
    tasks: set[asyncio.Task[T]], won: asyncio.Task[T] | None, close: Callable[[T], Awaitable[None]]
) -> None:
    """End the attempts that are left; if that is canceled, nobody takes the connection that has won."""
    for task in tasks:
        task.cancel()
    try:
        for made in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(made, BaseException):
                await close(made)
    except asyncio.CancelledError:
        if won is not None:
            await close(won.result())
        raise


def alternating(items: Sequence[T], families: Sequence[int]) -> list[T]:
    """Return the items so that their families take turns, beginning with that of the first (RFC 8305, 4)."""
    kin = [item for item, family in zip(items, families, strict=True) if family == families[0]]
    others = [item for item, family in zip(items, families, strict=True) if family != families[0]]
    return [item for pair in zip_longest(kin, others) for item in pair if item is not None]
