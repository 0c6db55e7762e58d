"""Which redirects are followed; pure.

A request carries secrets and takes effect, so it goes nowhere that the user has not named: the same
host and port, or the same host over https in place of http. A POST is sent again as it is (307, 308)
or not at all: a 301, 302 or 303 would make it a GET, which no MCP server means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabane.errors import UpstreamUnavailable
from tabane.messages import say

if TYPE_CHECKING:
    from yarl import URL

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST = 5
"""Redirects of one request that are followed."""

_AS_IT_IS = frozenset({307, 308})
_HTTPS = 443


def followed(server: str, method: str, status: int, url: URL, target: URL) -> URL:
    """Where to send the request next. Raises UpstreamUnavailable where the redirect is not followed.

    ``target`` is the absolute URL that the answer named.
    """
    if method == "POST" and status not in _AS_IT_IS:
        raise UpstreamUnavailable(say(
            "{server} redirects to {origin} in a way that loses what was sent ({status}). If that is the "
            "server, set \"url\" to where it is.",
            server=server, origin=_origin(target), status=status))  # fmt: skip
    if not same_place(url, target):
        raise UpstreamUnavailable(say(
            "{server} redirects to another place, {origin}; nothing was sent there, since it would get "
            "what is meant for {own}. If that is the server, set \"url\" to it.",
            server=server, origin=_origin(target), own=_origin(url)))  # fmt: skip
    return target


def stays(status: int, url: URL, target: URL) -> bool:
    """Whether later requests go to the target at once: it moved for good, or a slash was all that lacked."""
    return status == 308 or url.path.rstrip("/") == target.path.rstrip("/")


def same_place(url: URL, target: URL) -> bool:
    """Whether what is meant for ``url`` may be sent to ``target``."""
    if target.host is None or target.host != url.host:
        return False
    if target.scheme == url.scheme:
        return target.port == url.port
    return url.scheme == "http" and target.scheme == "https" and target.port in (_HTTPS, url.port)


def _origin(url: URL) -> str:
    return f"{url.scheme}://{url.host}" + (f":{url.explicit_port}" if url.explicit_port else "")
