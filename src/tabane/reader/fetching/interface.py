"""Interface of fetching: its policy, its result, and the resolver of names."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from tabane import __version__
from tabane.messages import Message
from tabane.reader.cookies import CookieJar
from tabane.reader.guard import Target


@dataclass(frozen=True, slots=True)
class FetchedResource:
    """A complete response. ``url`` is the final URL; names of ``headers`` are lower case.

    ``media_type`` is lower case, without parameters, "" if the server sent none; ``charset`` is that of the
    header only. ``body`` is empty if ``status`` is 304: the cached copy is still valid. ``warnings``: what a
    person should know about the fetch. ``partial``: the time was over before the body was complete.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    media_type: str = ""
    charset: str | None = None
    warnings: tuple[Message, ...] = ()
    partial: bool = False


class Fetcher(Protocol):
    """Fetches the resource at a URL, under the guard."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        """Follow redirects to the end and read the body, decompressed.

        Every hop is judged by the guard, by robots.txt if the settings say so, and within the limits of time
        and size. ``headers`` are sent only to the host of ``url``, never to another that it redirects to.
        Status 200 to 299 and 304 are answers; others raise ReadError with cause ``status`` (429 and 503:
        ``rate``), which the adapter may handle.
        """
        ...


class SentCookies:
    """Imported cookies of one read, which begins at ``origin``. ``sent``: whether any left the machine."""

    def __init__(self, jar: CookieJar, origin: str) -> None:
        self.jar, self.origin, self.sent = jar, origin, False

    def header(self, at: Target, now: float) -> str | None:
        """Return the value of the header Cookie for a request that is about to be sent."""
        value = self.jar.header(at, now)
        self.sent = self.sent or value is not None
        return value


MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of fetching. Limits of one rendered page. Times are seconds, sizes bytes.

    ``allowed``: hosts that may be reached although they are not public (see guard.AllowedHosts). ``ports``:
    the ports allowed on public hosts. ``max_bytes`` limits a body as transferred and as decompressed.
    ``timeout`` is for a whole read, with its redirects, retries and waits for a turn. ``connect_timeout``
    applies once to lookup and connect, and once to TLS. ``read_timeout`` is the longest silence of a server.
    ``longest_wait`` is the longest wait before a retry that a server may ask for; ``backoff`` is the first
    wait if it asks for none. ``gap`` is the time between the starts of two requests to a host. ``robots``:
    whether robots.txt is obeyed; a person's own request is not a crawl. ``ca``: a PEM file of authorities
    that are trusted in addition to the system's.

    ``proxy`` is the URL of an HTTP proxy (http:// or https://); the proxy settings of the environment are
    never used. A proxy bypasses a part of the guard: it looks up names itself, so their addresses are not
    known here. Then only names and literal addresses are judged, and the proxy has to keep private networks
    closed.
    """

    allowed: tuple[str, ...] = ()
    ports: tuple[int, ...] = (80, 443, 8080, 8443)
    max_bytes: int = 20 * MB
    timeout: float = 30.0
    connect_timeout: float = 10.0
    read_timeout: float = 15.0
    redirects: int = 10
    retries: int = 2
    backoff: float = 0.5
    longest_wait: float = 5.0
    gap: float = 0.25
    robots: bool = False
    robots_timeout: float = 10.0
    user_agent: str = f"Tabane/{__version__} (a reader that a person runs at home)"
    ca: str | None = None
    proxy: str | None = None

    @property
    def product(self) -> str:
        """Return the name that robots.txt calls the reader by: the product of the User-Agent."""
        return self.user_agent.partition("/")[0].partition(" ")[0]


Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, best first. Raises OSError (gaierror) if there are none."""

MOST_LOOKUPS = 32
"""Concurrent lookups. The system gives up on one that hangs after about 30 s."""


class SystemResolver:
    """The system's resolver: hosts file, DNS, or as the computer is configured.

    Each lookup has its own thread, which is not joined at exit: it cannot be stopped, and lookups that hang
    would block a pool of threads.
    """

    def __init__(self) -> None:
        self._under_way = threading.BoundedSemaphore(MOST_LOOKUPS)

    async def __call__(self, host: str) -> list[str]:
        if not self._under_way.acquire(blocking=False):
            raise socket.gaierror(socket.EAI_AGAIN, "too many lookups are under way")
        addresses: Future[list[str]] = Future()
        threading.Thread(target=self._look_up, args=(host, addresses), name="lookup", daemon=True).start()
        return await asyncio.wrap_future(addresses)

    def _look_up(self, host: str, addresses: Future[list[str]]) -> None:
        answer: list[str] | Exception
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            answer = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except (OSError, UnicodeError) as error:
            answer = error
        finally:
            self._under_way.release()
        if not addresses.set_running_or_notify_cancel():
            return  # nobody waits any more
        if isinstance(answer, Exception):
            addresses.set_exception(answer)
        else:
            addresses.set_result(answer)
