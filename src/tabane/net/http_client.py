"""The HTTP client for one server at a URL: its credentials, cookies and redirects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from yarl import URL

from tabane import __version__
from tabane.errors import UpstreamUnavailable
from tabane.messages import say
from tabane.net.cookies import CookieJar
from tabane.net.http_connections import HttpConnection, HttpConnections, HttpResponse, OnAnswer
from tabane.net.http_failures import HttpConnectionBroken
from tabane.net.routes import (
    MOST,
    REDIRECTS,
    Route,
    UpstreamTls,
    basic_authorization,
    is_permanent,
    parse_proxy,
    proxy_for,
    redirect_target,
    redirect_url,
)
from tabane.net.target import Target

if TYPE_CHECKING:
    from ssl import SSLContext


class RequestCredentials(Protocol):
    """Credentials of one server, which may change between two requests."""

    def sends_none(self) -> bool:
        """Return whether requests carry none, as far as that is known without a wait."""
        ...

    async def headers(self) -> Mapping[str, str]:
        """Return the headers to send. Raises LoginRequired, and UpstreamUnavailable."""
        ...

    async def refused(
        self, used: Mapping[str, str], status: int, challenges: Sequence[str], *, again: bool
    ) -> bool:
        """Return whether to send a request that was refused (401 or 403) once more.

        ``used`` are the headers that it carried, ``challenges`` those that say what would be accepted.
        ``again``: it was sent once more already. Raises as :meth:`headers` does.
        """
        ...


BESIDES = 16 + 256
"""Connections besides those of calls at work: calls that wait for a client (256 at most), streams, answers to
questions, the hub's own requests."""

_REFUSED = frozenset((401, 403))


class UpstreamHttpClient:
    """Sends HTTP requests to one server over its own connections, without the cookies of others.

    ``environment`` is the hub's: it names proxies and, with ``SSL_CERT_FILE``, a bundle of authorities.
    ``credentials`` are those of a login; None if the server is used without one. To be made inside the
    running loop. Raises UpstreamUnavailable if the server's configuration cannot be used.
    """

    def __init__(
        self, target: Target, environment: Mapping[str, str], credentials: RequestCredentials | None = None
    ) -> None:
        self._target, self._environment, self._credentials = target, environment, credentials
        try:
            self.url = URL(target.url)
            if self.url.scheme not in ("http", "https") or not self.url.host:
                raise ValueError
        except ValueError:
            raise UpstreamUnavailable(say("its URL must start with http:// or https://.")) from None
        self.url = self.url.with_fragment(None)
        self._proxies = self._known_proxies()
        self._common = self._headers()
        self.url = self.url.with_user(None).with_password(None)
        self._tls: UpstreamTls | None = None
        # Plain HTTP, as of servers on this computer, needs no authorities: reading all takes noticeable time.
        if self.url.scheme == "https" or self._target.ca or self._target.cert:
            self._context()
        self._origins: dict[tuple[str, str | None, int | None], HttpConnections] = {}
        self._own = self._connections(self.url)
        self._cookies: CookieJar | None = None
        self._closed = False
        self.turns = asyncio.Lock()
        """Turns of this server's streams that have data to read."""

    def _context(self) -> SSLContext:
        """Return the TLS context of the next connection. Raises UpstreamUnavailable."""
        if self._tls is None:
            self._tls = UpstreamTls(self._target, self._environment)
        return self._tls.context()

    def _connections(self, url: URL) -> HttpConnections:
        """Return the connections to the origin of a URL: a redirect may lead from http to https."""
        origin = (url.scheme, url.raw_host, url.port)
        found = self._origins.get(origin)
        if found is None:
            found = self._origins[origin] = HttpConnections(
                url,
                self._common,
                Route(self._context, self._proxies.get(url.scheme)),
                most=self._target.max_concurrency + BESIDES,
            )
        return found

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"tabane/{__version__}", **self._target.headers}
        if self.url.user is not None and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = basic_authorization(self.url.user, self.url.password)
        return headers

    def send_at_once(
        self, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer
    ) -> HttpConnection | None:
        """Post a request over a kept connection, if that takes no wait; else return None.

        ``on_answer`` takes its response, which is not followed if it is a redirect, or its failure.
        """
        if self._credentials is not None and not self._credentials.sends_none():
            return None
        if self._cookies is not None:
            headers = self._cookies.added(headers, self.url)
        return self._own.send_at_once("POST", self.url.raw_path_qs, headers, body, on_answer)

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: URL | None = None,
        begun: HttpResponse | None = None,
    ) -> HttpResponse:
        """Return the response to one request. Its body is not read yet, and the caller releases it.

        Redirects to the same place are followed. ``begun`` is the response if the request was sent at once.
        Raises :class:`HttpUnreachable`,
        :class:`HttpConnectionBroken`, UpstreamUnavailable if a redirect is not followed, and LoginRequired.
        """
        if self._credentials is None:
            return await self._follow_redirects(method, headers, body, url, begun)
        again = False
        while True:
            used = {} if begun is not None else await self._credentials.headers()
            response = await self._follow_redirects(method, {**headers, **used}, body, url, begun)
            begun = None
            if response.status not in _REFUSED or not await self._sends_again(response, used, again=again):
                return response
            again = True

    async def _sends_again(self, response: HttpResponse, used: Mapping[str, str], *, again: bool) -> bool:
        """Return whether to send a refused request once more. The server did not act on it."""
        assert self._credentials is not None
        challenges = response.headers.getall("WWW-Authenticate", ())
        try:
            sends = await self._credentials.refused(used, response.status, challenges, again=again)
        except BaseException:
            response.release()
            raise
        if sends:
            response.release()
        return sends

    async def _follow_redirects(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        url: URL | None,
        begun: HttpResponse | None,
    ) -> HttpResponse:
        at = self.url if url is None else url
        for _ in range(MOST + 1):
            response = await self._send_once(method, headers, body, at, begun)
            begun = None
            location = response.headers.get("Location") if response.status in REDIRECTS else None
            if location is None:
                return response
            response.release()
            target = redirect_target(
                self._target.name, method, response.status, at, redirect_url(at, location)
            )
            if url is None and is_permanent(response.status, at, target):
                self.url, self._own = target, self._connections(target)
            at = target
        raise UpstreamUnavailable(
            say("{server!n} redirects too many times ({count}).", server=self._target.name, count=MOST)
        )

    async def _send_once(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        url: URL,
        begun: HttpResponse | None,
    ) -> HttpResponse:
        if begun is not None:
            response = begun
        elif self._closed:
            raise HttpConnectionBroken(say("the connection was closed"))
        else:
            if self._cookies is not None:
                headers = self._cookies.added(headers, url)
            response = await self._connections(url).send(method, url.raw_path_qs, headers, body)
        if "Set-Cookie" in response.headers:
            self._keep_cookies(response, url)
        return response

    def _keep_cookies(self, response: HttpResponse, url: URL) -> None:
        if self._cookies is None:
            own = next((value for name, value in self._common.items() if name.lower() == "cookie"), "")
            self._cookies = CookieJar(own)
        self._cookies.take(response.headers.getall("Set-Cookie"), url)

    def _known_proxies(self) -> dict[str, URL]:
        """Return the proxy by scheme: a redirect may change http to https, but never back, nor the host."""
        host, port = self.url.host or "", self.url.port or 0
        given = {
            scheme: self._target.proxy or proxy_for(scheme, host, port, self._environment)
            for scheme in {self.url.scheme, "https"}
        }
        try:
            return {scheme: parse_proxy(proxy) for scheme, proxy in given.items() if proxy}
        except ValueError:
            raise UpstreamUnavailable(
                say("the proxy URL for {server!n} cannot be parsed.", server=self._target.name)
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connections in self._origins.values():
            connections.close()
