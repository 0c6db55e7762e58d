"""Proxies and redirects of HTTP requests to upstreams; pure.

Proxies come from the environment:

    HTTP_PROXY, HTTPS_PROXY   the proxy for URLs of that scheme; ALL_PROXY if the scheme has none
    NO_PROXY                  hosts reached directly: names with all below them, host:port, addresses and
                              networks (10.0.0.0/8), * for all

A name in lower case takes precedence. This computer is always reached directly.

A request carries secrets and takes effect, so it follows a redirect only to a place that the user has named:
the same host and port, or the same host over https instead of http. A POST is sent again unchanged (307, 308)
or not at all: a 301, 302 or 303 would turn it into a GET, which no MCP server intends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tabane.errors import UpstreamUnavailable
from tabane.messages import say
from tabane.net.target import is_loopback

if TYPE_CHECKING:
    from yarl import URL

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
    if is_loopback(host) or _excepted(host.lower(), port, _variable("no_proxy", environ)):
        return None
    proxy = _variable(f"{scheme}_proxy", environ) or _variable("all_proxy", environ)
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _excepted(host: str, port: int, exceptions: str) -> bool:
    return any(_matches(host, port, word.strip().lower()) for word in exceptions.split(","))


def _matches(host: str, port: int, word: str) -> bool:
    if word == "*":
        return True
    if "/" in word:
        return _within(host, word)
    name, colon, digits = word.rpartition(":")
    if colon and digits.isdigit() and "]" not in digits and name.count(":") == 0:
        if int(digits) != port:
            return False
        word = name
    word = word.strip("[]").lstrip("*").lstrip(".")
    return bool(word) and (host == word or host.endswith("." + word))


def _within(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host.strip("[]")) in ip_network(network, strict=False)
    except ValueError:
        return False
