"""Names looked up once: every address of a host, for the guard to judge."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, best first. Raises OSError (gaierror) where there are none."""

MOST = 32
"""Lookups under way at once. The system gives up on one that hangs after some 30 s, whoever waits."""


class Names:
    """The system's resolver: hosts file, DNS, whatever the computer is set up for.

    Each lookup is a thread of its own that nobody waits for at the end: it cannot be stopped, and a pool of
    threads would be held up by those that hang.
    """

    def __init__(self) -> None:
        self._under_way = threading.BoundedSemaphore(MOST)

    async def __call__(self, host: str) -> list[str]:
        if not self._under_way.acquire(blocking=False):
            raise socket.gaierror(socket.EAI_AGAIN, "too many lookups are under way")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()
        threading.Thread(target=self._look, args=(host, loop, found), name="lookup", daemon=True).start()
        return await found

    def _look(self, host: str, loop: asyncio.AbstractEventLoop, found: asyncio.Future[list[str]]) -> None:
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
            tell = partial(_tell, found, addresses)
        except (OSError, UnicodeError) as error:
            tell = partial(_fail, found, error)
        finally:
            self._under_way.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell)


def _tell(found: asyncio.Future[list[str]], what: list[str]) -> None:
    if not found.done():
        found.set_result(what)


def _fail(found: asyncio.Future[list[str]], what: Exception) -> None:
    if not found.done():
        found.set_exception(what)
