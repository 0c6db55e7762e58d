"""Where HTTP requests to one server go, and which hosts are this computer; pure.

It is loaded early, so it imports nothing that costs time.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Target(NamedTuple):
    """One server at a URL, as the HTTP client needs it.

    ``max_concurrency`` is how many calls may be in flight. ``headers`` go with each request. ``proxy`` is the
    URL of its proxy, if not the environment's. ``ca`` is the path of a file of authorities that are trusted
    besides the system's. ``cert`` and ``key`` are the files of the certificate that the server is shown.
    ``verify`` is whether its own certificate is verified.
    """

    name: str
    url: str
    max_concurrency: int
    headers: Mapping[str, str] = _NO_HEADERS
    proxy: str = ""
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True

    def __repr__(self) -> str:
        return f"Target({self.name!r})"


def is_loopback(host: str) -> bool:
    """Return whether a host is this computer: by name or by address."""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    from ipaddress import ip_address  # needed only for a server at a URL

    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False
