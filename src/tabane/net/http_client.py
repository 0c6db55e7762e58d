"""The HTTP client for one server at a URL: its connections, TLS, proxy, cookies and redirects.

Requests over plain connections, as to servers on this computer, go through
:class:`~tabane.net.plain_http_client.PlainHttpClient`. Everything else goes through aiohttp,
which costs 16 MB and a third of a second to import, and is imported with the first such request.

TLS follows the files of authorities and of the client's certificate. Proxies come from the environment:

    HTTP_PROXY, HTTPS_PROXY   the proxy for URLs of that scheme; ALL_PROXY if the scheme has none
    NO_PROXY                  hosts reached directly: names with all below them, host:port, addresses and
                              networks (10.0.0.0/8), * for all

A name in lower case takes precedence. This computer is always reached directly.

A request carries secrets and takes effect, so it follows a redirect only to a place that the user has named:
the same host and port, or the same host over https instead of http. A POST is sent again unchanged (307, 308)
or not at all: a 301, 302 or 303 would turn it into a GET, which no MCP server intends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from tabane import __version__
from tabane.errors import ConfigurationError, TabaneError, UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.http_responses import HttpConnectionBroken, HttpUnreachable, UpstreamHttpResponse, system_text
from tabane.net.target import Target, is_loopback
from tabane.settings.files import read_private

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

    from tabane.net.plain_http_client import OnAnswer, PlainHttpClient, PlainHttpConnection, PlainHttpResponse

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at the files."""

_NAMED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR")
"""Variables of files and folders of authorities. Each is set for some programs, and applies here too."""

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")

_Stamps = tuple[tuple[int, int, int] | None, ...]


class UpstreamTls:
    """The TLS context of a server's next connection. It follows its files; broken ones are not used.

    Raises UpstreamUnavailable if a file cannot be used from the start.
    """

    def __init__(self, target: Target, environment: Mapping[str, str]) -> None:
        self._target, self._environment = target, environment
        own = [path for path in (target.ca, target.cert, target.key) if path]
        self._files = [*_certificate_paths(environment), *own]
        self._stamps = self._certificate_stamps()
        self._context = context(target, environment)
        self._looked = time.monotonic()

    def context(self) -> SSLContext:
        """Return the context for a request, which opens a connection if none fits."""
        now = time.monotonic()
        if self._files and now - self._looked >= LOOK:
            self._looked = now
            stamps = self._certificate_stamps()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._context = context(self._target, self._environment)
                except TabaneError as error:
                    log.error("%s: the certificates before stay in use: %s", self._target.name, error)
                else:
                    log.info("%s: new connections use the changed certificates", self._target.name)
        return self._context

    def _certificate_stamps(self) -> _Stamps:
        return tuple(map(_file_stamp, self._files))


def context(target: Target, environment: Mapping[str, str]) -> SSLContext:
    """Return the TLS context: it trusts the system's authorities, the environment's, and the server's ``ca``.

    Raises UpstreamUnavailable if ``ca`` or ``SSL_CERT_FILE`` cannot be read. Other variables may be about
    another program, and what cannot be read of them is logged.
    """
    import ssl

    trusted = ssl.create_default_context()
    given = environment.get("SSL_CERT_FILE")
    own = [path for path in (given, target.ca) if path]
    for path in _certificate_paths(environment):
        if path not in own:
            folder = os.path.isdir(path)
            try:
                trusted.load_verify_locations(None if folder else path, path if folder else None)
            except (OSError, ssl.SSLError) as error:
                log.warning("the certificates in %s cannot be read: %s", path, error.strerror or error)
    if not trusted.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        own += [path for path in _BUNDLES if os.path.exists(path)][:1]
    for path in own:
        try:
            trusted.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise UpstreamUnavailable(say(
                "the certificates in {path} cannot be read: {error}",
                path=path, error=error.strerror or error)) from None  # fmt: skip
    if not target.verify:
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    if target.cert:
        _show_certificate(trusted, target.cert, target.key or target.cert)
    return trusted


def _certificate_paths(environment: Mapping[str, str]) -> list[str]:
    """Return the files and folders of authorities that the environment names, each once."""
    values = [environment.get(name, "") for name in _NAMED]
    paths = [path for value in values for path in value.split(os.pathsep) if os.path.isabs(path)]
    return list(dict.fromkeys(paths))


def _show_certificate(trusted: SSLContext, certificate: str, key: str) -> None:
    """Let the context show a certificate. Raises UpstreamUnavailable."""
    try:
        read_private(key)
        trusted.load_cert_chain(certificate, key, password=_no_password)
    except FileNotFoundError:
        missing = certificate if os.path.exists(key) else key
        raise UpstreamUnavailable(
            say('there is no file {path}. Check "cert" and "key" in its "tls".', path=missing)
        ) from None
    except ConfigurationError as error:
        raise UpstreamUnavailable(error.message) from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error).replace("_", " ").lower()
        raise UpstreamUnavailable(
            say(
                'the certificate {certificate} with the key {key} cannot be used: {reason}. Check "cert" and '
                '"key" in its "tls": both must be PEM files, the key without a password.',
                certificate=certificate,
                key=key,
                reason=reason,
            )
        ) from None


def _no_password() -> bytes:
    # Without this, OpenSSL would ask on the terminal.
    return b""


def _file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST = 5
"""Redirects of one request that are followed."""

_AS_IT_IS = frozenset({307, 308})
_HTTPS = 443


def redirect_target(server: str, method: str, status: int, url: URL, target: URL) -> URL:
    """Return where to send the request next. Raises UpstreamUnavailable if the redirect is not followed.

    ``target`` is the absolute URL that the answer named.
    """
    if method == "POST" and status not in _AS_IT_IS:
        raise UpstreamUnavailable(say(

                "{server!n} redirects to {origin} in a way that loses the request body ({status}). If that "
                'address is right, set "url" to it.',
            server=server, origin=_origin(target), status=status))  # fmt: skip
    if not is_same_origin(url, target):
        raise UpstreamUnavailable(say(

                "{server!n} redirects to another site, {origin}. Nothing was sent there, because it would "
                'receive data meant for {own}. If that site is right, set "url" to it.',
            server=server, origin=_origin(target), own=_origin(url)))  # fmt: skip
    return target


def is_permanent(status: int, url: URL, target: URL) -> bool:
    """Return whether to send later requests to the target: a permanent move, or only a slash missing."""
    return status == 308 or url.path.rstrip("/") == target.path.rstrip("/")


def is_same_origin(url: URL, target: URL) -> bool:
    """Return whether a request for ``url`` may be sent to ``target``."""
    if target.host is None or target.host != url.host:
        return False
    if target.scheme == url.scheme:
        return target.port == url.port
    return url.scheme == "http" and target.scheme == "https" and target.port in (_HTTPS, url.port)


def _origin(url: URL) -> str:
    return f"{url.scheme}://{url.host}" + (f":{url.explicit_port}" if url.explicit_port else "")


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy, None if the server is reached directly."""
    exceptions = [word.strip().lower() for word in _variable("no_proxy", environ).split(",")]
    if is_loopback(host) or any(_matches(host.lower(), port, word) for word in exceptions):
        return None
    proxy = _variable(f"{scheme}_proxy", environ) or _variable("all_proxy", environ)
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _matches(host: str, port: int, word: str) -> bool:
    if word == "*":
        return True
    if "/" in word:
        from ipaddress import ip_address, ip_network

        try:
            return ip_address(host.strip("[]")) in ip_network(word, strict=False)
        except ValueError:
            return False
    name, colon, digits = word.rpartition(":")
    if colon and digits.isdigit() and "]" not in digits and name.count(":") == 0:
        if int(digits) != port:
            return False
        word = name
    word = word.strip("[]").lstrip("*").lstrip(".")
    return bool(word) and (host == word or host.endswith("." + word))


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
        # Plain HTTP, as of servers on this computer, needs no authorities: reading all takes noticeable time.
        may_need_tls = self.url.scheme == "https" or self._target.ca or self._target.cert
        self._tls = UpstreamTls(self._target, self._environment) if may_need_tls else None
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

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"tabane/{__version__}", **self._target.headers}
        if self.url.user is not None and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = _basic_authorization(self.url)
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
            return await self._follow_redirects(method, headers, body, url, begun)
        again = False
        while True:
            used = {} if begun is not None else await self._credentials.headers()
            response = await self._follow_redirects(method, {**headers, **used}, body, url, begun)
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

    async def _follow_redirects(
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
            target = redirect_target(
                self._target.name, method, response.status, at, _redirect_url(at, location)
            )
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
                **self._proxy_route(url, headers),
            )
            # The event loop reads less at once from that connection, if its transport allows it.
            transport: Any = response.connection.transport if response.connection else None
            if hasattr(transport, "max_size"):
                transport.max_size = READ_SIZE
            return response
        except (ClientError, OSError, TimeoutError) as error:
            raise _connection_error(error, url) from None
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

    def _proxy_route(self, url: URL, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the proxy, if any, and the headers. Credentials for the proxy go to the proxy only."""
        proxy = self._proxies.get(url.scheme)
        if proxy is None:
            return {"headers": headers}
        if proxy.user is None:
            return {"headers": headers, "proxy": proxy}
        named = {"Proxy-Authorization": _basic_authorization(proxy)}
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


def _redirect_url(url: URL, location: str) -> URL:
    from yarl import URL

    try:
        return url.join(URL(location)).with_fragment(None)
    except ValueError:
        raise UpstreamError(say("the server at {host} redirects to an invalid URL.", host=url.host)) from None


def _basic_authorization(url: URL) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def _connection_error(error: Exception, url: URL) -> HttpUnreachable | HttpConnectionBroken:
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
        return HttpUnreachable(_unreachable_message(error, host), untrusted=untrusted)
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


def _unreachable_message(error: Any, host: str) -> Message:
    from aiohttp import client_exceptions as http

    if isinstance(error, http.ClientConnectorCertificateError):
        return say(

                "the certificate of {host} is not trusted ({error}). If your own authority signed "
                'it, set "ca" to its PEM file.', host=host,
            error=_verification_error(error.certificate_error))  # fmt: skip
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


def _verification_error(error: Any) -> str:
    return str(getattr(error, "verify_message", "") or error)
