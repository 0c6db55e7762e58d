"""Whether a server at a URL can be asked as it is configured; pure.

What is wrong here is wrong before anything is sent: a URL of another scheme, a header that would be two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tabane.gateway.servers.server import Server
from tabane.messages import Message, say

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS = re.compile(r"[\r\n\0]")
_OURS = frozenset(
    ("connection", "content-length", "content-type", "accept", "transfer-encoding", "mcp-session-id")
)

_HUB_PORT = 8765


@dataclass(frozen=True, slots=True)
class ServerUrlFault:
    """What is wrong, and the key that it stands under."""

    key: str
    why: Message


def unusable(server: Server, values: Iterable[str]) -> ServerUrlFault | None:
    """Why a server at a URL cannot be asked, None where it can. ``values`` are those of its headers.

    Secrets are not repeated in what it says.
    """
    if not is_web(server.url):
        return ServerUrlFault("url", say("its URL is not one of http:// or https://."))
    if server.proxy and not is_web(server.proxy):
        return ServerUrlFault(
            "proxy", say("the proxy is not a URL of http:// or https://; no others are supported.")
        )
    for name, value in zip(server.headers, values, strict=True):
        if not _NAME.fullmatch(name):
            return ServerUrlFault("headers", say('"{name}" is no name of a header.', name=name))
        if name.lower() in _OURS or name.lower().startswith("mcp-"):
            return ServerUrlFault("headers", say("the header {name} is set by Tabane itself.", name=name))
        if _BREAKS.search(value):
            why = say("the header {name} is more than one line. Was it copied with a line break?", name=name)
            return ServerUrlFault("headers", why)
    return None


def is_web(url: str) -> bool:
    """Whether a URL is one of HTTP that names a host."""
    from urllib.parse import urlsplit  # needed where there is a server at a URL

    if _BREAKS.search(url) or " " in url.strip():
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a host is this computer: by name or by address."""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    from ipaddress import ip_address  # needed where a server is at a URL

    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def tells_secrets(server: Server) -> bool:
    """Whether a server is sent secrets over a network on which others can read them."""
    from urllib.parse import urlsplit

    if server.transport == "stdio" or not is_web(server.url):
        return False
    parts = urlsplit(server.url)
    return parts.scheme == "http" and bool(server.secrets) and not is_loopback(parts.hostname or "")


def is_hub(url: str) -> bool:
    """Whether a URL is that of a hub on this computer, as it is where nobody has set another port."""
    from urllib.parse import urlsplit

    if not is_web(url):
        return False
    parts = urlsplit(url)
    own = parts.port == _HUB_PORT and is_loopback(parts.hostname or "")
    return own and (parts.path.rstrip("/") == "/mcp" or parts.path.startswith("/mcp/"))
