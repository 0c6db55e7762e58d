"""Routes of requests: TLS contexts, proxies, and the places to which a redirect may lead.

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

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from tabane.errors import ConfigurationError, TabaneError, UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.target import Target, is_loopback
from tabane.settings.files import read_private

if TYPE_CHECKING:
    from ssl import SSLContext

    from yarl import URL

log = logging.getLogger(__name__)

AddressPolicy = Callable[[str, str], Message | None]
"""Returns why a host is not connected to at an address; None if it is."""


class Route(NamedTuple):
    """How connections to an origin are made.

    ``tls`` returns the context of the next connection with TLS, to the origin or to ``proxy``. ``policy``
    judges each address of the origin before the connection to it; a proxy resolves names itself.
    """

    tls: Callable[[], SSLContext]
    proxy: URL | None = None
    policy: AddressPolicy | None = None


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


class UnreadableCertificates(Exception):
    """A file of authorities that cannot be read, and the reason."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(path)
        self.path, self.reason = path, error.strerror or str(error)


def trusting_context(own: Sequence[str], others: Iterable[str] = ()) -> SSLContext:
    """Return a TLS context that trusts the system's authorities, and those in files. Reads files: some 20 ms.

    Raises UnreadableCertificates for those in ``own``; what cannot be read of ``others`` is logged.
    """
    import ssl

    trusted, own = ssl.create_default_context(), list(own)
    for path in others:
        folder = os.path.isdir(path)
        try:
            trusted.load_verify_locations(None if folder else path, path if folder else None)
        except OSError as error:
            log.warning("the certificates in %s cannot be read: %s", path, error.strerror or error)
    if not trusted.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        own += [path for path in _BUNDLES if os.path.exists(path)][:1]
    for path in own:
        try:
            trusted.load_verify_locations(cafile=path)
        except OSError as error:
            raise UnreadableCertificates(path, error) from None
    return trusted


def context(target: Target, environment: Mapping[str, str]) -> SSLContext:
    """Return the TLS context: it trusts the system's authorities, the environment's, and the server's ``ca``.

    Raises UpstreamUnavailable if ``ca`` or ``SSL_CERT_FILE`` cannot be read. Other variables may be about
    another program, and what cannot be read of them is logged.
    """
    import ssl

    own = [path for path in (environment.get("SSL_CERT_FILE"), target.ca) if path]
    others = [path for path in _certificate_paths(environment) if path not in own]
    try:
        trusted = trusting_context(own, others)
    except UnreadableCertificates as error:
        raise UpstreamUnavailable(say(
            "the certificates in {path} cannot be read: {error}",
            path=error.path, error=error.reason)) from None  # fmt: skip
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

UNCHANGED = frozenset({307, 308})
"""Redirects after which a POST is sent again as it is."""

_HTTPS = 443


def redirect_url(url: URL, location: str) -> URL:
    """Return the absolute URL that a header ``Location`` names. Raises UpstreamError."""
    from yarl import URL

    try:
        target = url.join(URL(location)).with_fragment(None)
        if not target.host:  # it is decoded here
            raise ValueError
    except ValueError:
        raise UpstreamError(say("the server at {host} redirects to an invalid URL.", host=url.host)) from None
    return target


def redirect_target(server: str, method: str, status: int, url: URL, target: URL) -> URL:
    """Return where to send the request next. Raises UpstreamUnavailable if the redirect is not followed.

    ``target`` is the absolute URL that the answer named.
    """
    if method == "POST" and status not in UNCHANGED:
        raise UpstreamUnavailable(say(
                "{server!n} redirects to {origin} in a way that loses the request body ({status}). If that "
                'address is right, set "url" to it.',
            server=server, origin=origin_text(target), status=status))  # fmt: skip
    if not is_same_origin(url, target):
        raise UpstreamUnavailable(say(
                "{server!n} redirects to another site, {origin}. Nothing was sent there, because it would "
                'receive data meant for {own}. If that site is right, set "url" to it.',
            server=server, origin=origin_text(target), own=origin_text(url)))  # fmt: skip
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


def origin_text(url: URL) -> str:
    """Return scheme, host and port of a URL, for messages."""
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


def environment_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for a URL, as :func:`proxy_for`. Raises ValueError if it is no URL."""
    at = urlsplit(url)
    return proxy_for(at.scheme, at.hostname or "", at.port or (80 if at.scheme == "http" else 443), environ)


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


def parse_proxy(url: str) -> URL:
    """Return the URL of a proxy. Raises ValueError if a connection to it cannot be made."""
    from yarl import URL

    found = URL(url)
    if found.scheme not in ("http", "https") or not found.host:
        raise ValueError("the URL of a proxy must start with http:// or https://")
    return found


def basic_authorization(user: str | None, password: str | None) -> str:
    """Return the value of the header that carries a user and a password."""
    from base64 import b64encode

    return "Basic " + b64encode(f"{user or ''}:{password or ''}".encode()).decode()
