"""The HTTP client for one server at a URL: its connections, TLS, proxy, cookies and redirects.

Requests over plain connections, as to servers on this computer, go through
:class:`~tabane.net.plain_http_client.PlainHttpClient`. Everything else goes through aiohttp,
which costs 16 MB and a third of a second to import, and is imported with the first such request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tabane import __version__
from tabane.errors import UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.http_credentials import RequestCredentials
from tabane.net.http_faults import HttpConnectionBroken, HttpUnreachable, system_text
from tabane.net.http_response import UpstreamHttpResponse
from tabane.net.http_routing import MOST, REDIRECTS, is_permanent, proxy_for, redirect_target
from tabane.net.http_tls import UpstreamTls
from tabane.net.target import Target

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

    from tabane.net.plain_http_client import PlainHttpClient
    from tabane.net.plain_http_connection import OnAnswer, PlainHttpConnection, PlainHttpResponse

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to be made, TLS and proxy included."""

KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than the five after which common servers close one."""

BESIDES = 16 + 256
"""Connections besides those of calls at work: calls that wait for a client (256 at most), streams, answers to
questions, the hub's own requests."""

LARGEST_HEADER = 64 << 10

_REFUSED = frozenset((401, 403))

READ_SIZE = 8 << 10
"""Bytes of one read of a body: a server may send chunks of one byte, each of which takes work."""


class UpstreamHttpClient:
    """Sends HTTP requests to one server over its own connections, without the cookies of others.

    ``environment`` is the hub's: it names proxies and, with ``SSL_CERT_FILE``, a bundle of authorities.
    ``credentials`` are those of a login; None if the server is used without one. To be made inside the
    running loop. Raises UpstreamUnavailable if the server's configuration cannot be used.
    """

    def __init__(
        self, target: Target, environment: Mapping[str, str], credentials: RequestCredentials | None = None
    ) -> None:
        from yarl import URL

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
        self._tls = UpstreamTls(self._target, self._environment) if self._may_need_tls() else None
        self._plain = self._plain_client()
        self._keeps_cookies = False
        self._session: ClientSession | None = None
        self._closed = False
        self.turns = asyncio.Lock()
        """Turns of this server's streams that have data to read."""

    @property
    def _most(self) -> int:
        return self._target.max_concurrency + BESIDES

    def _plain_client(self) -> PlainHttpClient | None:
        """Return the client for requests without TLS; None if they need more than it can do."""
        from tabane.net.plain_http_client import PlainHttpClient, is_plain

        if "http" in self._proxies or not is_plain(self.url, self._common):
            return None
        return PlainHttpClient(
            self.url, self._common, most=self._most, patience=CONNECT_TIMEOUT, keep=KEEP_ALIVE
        )

    async def _opened(self) -> ClientSession:
        """Return the session of aiohttp, which is opened on first use. Raises HttpConnectionBroken."""
        if self._session is None:
            # The import takes a tenth of a second and more, in which others are served.
            await asyncio.to_thread(import_module, "aiohttp")
        if self._closed:
            raise HttpConnectionBroken(say("the connection was closed"))
        if self._session is None:
            self._session = self._open_session()
        return self._session

    def _open_session(self) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        return ClientSession(
            connector=TCPConnector(limit=self._most, keepalive_timeout=KEEP_ALIVE),
            headers=self._common,
            timeout=ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_connect=CONNECT_TIMEOUT),
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )

    def _may_need_tls(self) -> bool:
        # Plain HTTP, as of servers on this computer, needs no authorities: reading all takes noticeable time.
        return self.url.scheme == "https" or bool(self._target.ca or self._target.cert)

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"tabane/{__version__}", **self._target.headers}
        if self.url.user is not None and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = _basic(self.url)
        return headers

    def send_at_once(
        self, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer
    ) -> PlainHttpConnection | None:
        """Post a request over a kept connection, if that takes no wait; else return None.

        ``on_answer`` takes its response, which is not followed if it is a redirect, or its failure.
        """
        plain = self._plain
        if plain is None or self._keeps_cookies or not plain.serves(self.url):
            return None
        if self._credentials is not None and not self._credentials.sends_none():
            return None
        return plain.send_at_once("POST", self.url.raw_path_qs, headers, body, on_answer)

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: URL | None = None,
        begun: PlainHttpResponse | None = None,
    ) -> UpstreamHttpResponse:
        """Return the response to one request. Its body is not read yet, and the caller closes it.

        Redirects to the same place are followed. ``begun`` is the response if the request was sent at once.
        Raises :class:`HttpUnreachable`,
        :class:`HttpConnectionBroken`, UpstreamUnavailable if a redirect is not followed, and LoginRequired.
        """
        if self._credentials is None:
            return await self._followed(method, headers, body, url, begun)
        again = False
        while True:
            used = {} if begun is not None else await self._credentials.headers()
            response = await self._followed(method, {**headers, **used}, body, url, begun)
            begun = None
            if response.status not in _REFUSED or not await self._sends_again(response, used, again=again):
                return response
            again = True

    async def _sends_again(
        self, response: UpstreamHttpResponse, used: Mapping[str, str], *, again: bool
    ) -> bool:
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

    async def _followed(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        url: URL | None,
        begun: PlainHttpResponse | None,
    ) -> UpstreamHttpResponse:
        at = self.url if url is None else url
        for _ in range(MOST + 1):
            response = await self._send_once(method, headers, body, at, begun)
            begun = None
            location = response.headers.get("Location") if response.status in REDIRECTS else None
            if location is None:
                return response
            response.release()
            target = redirect_target(self._target.name, method, response.status, at, _joined(at, location))
            if url is None and is_permanent(response.status, at, target):
                self.url = target
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
        begun: PlainHttpResponse | None,
    ) -> UpstreamHttpResponse:
        plain = self._plain
        if plain is None or (begun is None and (self._keeps_cookies or not plain.serves(url))):
            return await self._send_by_session(method, headers, body, url)
        response = begun or await plain.send(method, url.raw_path_qs, headers, body)
        if "Set-Cookie" in response.headers and plain.named:
            await self._keep_cookies(response, url)
        return response

    async def _send_by_session(
        self, method: str, headers: Mapping[str, str], body: bytes | None, url: URL
    ) -> ClientResponse:
        session = await self._opened()
        from aiohttp import ClientError

        try:
            response = await session.request(
                method,
                url,
                data=body,
                allow_redirects=False,
                ssl=self._tls.context() if self._tls else True,
                **self._route(url, headers),
            )
            _limit_reads(response)
            return response
        except (ClientError, OSError, TimeoutError) as error:
            raise _failure(error, url) from None
        except RuntimeError as error:
            # The session was closed meanwhile.
            raise HttpConnectionBroken(say("{error}", error=error)) from None

    async def _keep_cookies(self, response: UpstreamHttpResponse, url: URL) -> None:
        """Keep the cookies of a response, and send later requests by the client that sends them back."""
        try:
            jar = (await self._opened()).cookie_jar
        except BaseException:
            response.release()
            raise
        jar.update_cookies_from_headers(response.headers.getall("Set-Cookie"), url)
        self._keeps_cookies = len(jar) > 0

    def _route(self, url: URL, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the proxy, if any, and the headers. Credentials for the proxy go to the proxy only."""
        proxy = self._proxies.get(url.scheme)
        if proxy is None:
            return {"headers": headers}
        if proxy.user is None:
            return {"headers": headers, "proxy": proxy}
        named = {"Proxy-Authorization": _basic(proxy)}
        proxy = proxy.with_user(None).with_password(None)
        if url.scheme == "https":
            return {"headers": headers, "proxy": proxy, "proxy_headers": named}
        return {"headers": {**headers, **named}, "proxy": proxy}

    def _known_proxies(self) -> dict[str, URL]:
        """Return the proxy by scheme: a redirect may change http to https, but never the host."""
        from yarl import URL

        host, port = self.url.host or "", self.url.port or 0
        given = {
            scheme: self._target.proxy or proxy_for(scheme, host, port, self._environment)
            for scheme in ("http", "https")
        }
        try:
            return {scheme: URL(proxy) for scheme, proxy in given.items() if proxy}
        except ValueError:
            raise UpstreamUnavailable(
                say("the proxy URL for {server!n} cannot be parsed.", server=self._target.name)
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._plain is not None:
            self._plain.close()
        if self._session is not None:
            await self._session.close()


def _limit_reads(response: ClientResponse) -> None:
    """Reduce how much the event loop reads at once from that connection, if its transport allows it."""
    transport: Any = response.connection.transport if response.connection else None
    if hasattr(transport, "max_size"):
        transport.max_size = READ_SIZE


def _joined(url: URL, location: str) -> URL:
    from yarl import URL

    try:
        return url.join(URL(location)).with_fragment(None)
    except ValueError:
        raise UpstreamError(say("the server at {host} redirects to an invalid URL.", host=url.host)) from None


def _basic(url: URL) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def _failure(error: Exception, url: URL) -> HttpUnreachable | HttpConnectionBroken:
    """Describe a failure without secrets: of URLs only the host is named."""
    from aiohttp import client_exceptions as http

    host = f"{url.host}:{url.port}"
    if isinstance(error, http.ClientHttpProxyError):
        return HttpUnreachable(
            say("the proxy does not connect to {host} ({status})", host=host, status=error.status)
        )
    if isinstance(error, http.ConnectionTimeoutError):
        return HttpUnreachable(
            say("no connection to {host} within {seconds:g} s", host=host, seconds=CONNECT_TIMEOUT)
        )
    if isinstance(error, http.ClientConnectorError):
        untrusted = isinstance(error, http.ClientConnectorCertificateError)
        return HttpUnreachable(_unreached(error, host), untrusted=untrusted)
    if isinstance(error, http.InvalidURL):
        return HttpUnreachable(say("the URL cannot be used"))
    if isinstance(error, http.ClientResponseError):
        return HttpConnectionBroken(say("{host} answered with something that is not HTTP", host=host))
    if getattr(error, "reason", None) in _CERTIFICATE_ALERTS:
        return HttpUnreachable(_certificate_wanted(host, error))
    if isinstance(error, http.ServerDisconnectedError):
        return HttpConnectionBroken(say("{host} closed the connection", host=host))
    return HttpConnectionBroken(
        say("the connection to {host} broke: {error}", host=host, error=system_text(error))
    )


_CERTIFICATE_ALERTS = frozenset(
    (
        *("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE"),
        *("SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
    )
)
"""OpenSSL's names of the alerts of a server that does not accept a client's certificate, or misses it."""


def _certificate_wanted(host: str, error: Exception) -> Message:
    return say(
        "{host} does not accept the client certificate, or requires one ({error}). Set "
        '"tls": {{"cert": FILE, "key": FILE}} to a certificate that it accepts.',
        host=host,
        error=system_text(error),
    )


def _unreached(error: Any, host: str) -> Message:
    from aiohttp import client_exceptions as http

    if isinstance(error, http.ClientConnectorCertificateError):
        return say(

                "the certificate of {host} is not trusted ({error}). If your own authority signed "
                'it, set "ca" to its PEM file.', host=host,
            error=_verification(error.certificate_error))  # fmt: skip
    if getattr(error.os_error, "reason", None) in _CERTIFICATE_ALERTS:
        return _certificate_wanted(host, error.os_error)
    if error.ssl is not False and isinstance(error.os_error, ConnectionResetError):
        return say(
            "{host} closed the connection during the TLS handshake. If it requires a client certificate, "
            'set "tls": {{"cert": FILE, "key": FILE}}.',
            host=host,
        )
    if isinstance(error, http.ClientSSLError):
        return say("no TLS connection to {host}: {error}", host=host, error=system_text(error.os_error))
    if isinstance(error, http.ClientProxyConnectionError):
        return say("the proxy {host} cannot be reached: {error}",
                   host=f"{error.host}:{error.port}", error=system_text(error.os_error))  # fmt: skip
    if isinstance(error, http.ClientConnectorDNSError):
        return say(
            "the name {host} does not exist: {error}", host=error.host, error=system_text(error.os_error)
        )
    return say("{host} cannot be reached: {error}", host=host, error=system_text(error.os_error))


def _verification(error: Any) -> str:
    return str(getattr(error, "verify_message", "") or error)
