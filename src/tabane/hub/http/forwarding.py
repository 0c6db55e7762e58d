"""The origin of a request: its connection, or the client that a trusted proxy names; pure.

Proxies describe the client in ``Forwarded`` (RFC 7239) or in ``X-Forwarded-For``, ``-Proto`` and ``-Host``.
Anyone can send these headers, so only those of a trusted proxy are read. In a chain of proxies, the client is
the last address that is not a trusted proxy: everything before it is what the client itself claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from tabane.hub.http.sources import is_loopback

MOST_HOPS = 32
"""Proxies in a row that are followed."""

UNKNOWN = "unknown"

_X = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
_CLAIMS = frozenset((*_X, "forwarded", "x-real-ip"))

_pair = re.compile(r'\s*([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^\s",;]*)\s*').fullmatch
_elements = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+').findall
_pairs = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*")+').findall


class AmbiguousOrigin(Exception):
    """A trusted proxy sent both kinds of headers, so one of them may be the client's own."""


class RequestOrigin(NamedTuple):
    """The origin of a request: the client's address, and whether others could read it on its way.

    ``secure``: it came over TLS, or on a way that is private. ``tls``: over TLS all the way. ``host`` is the
    name by which the client reached the hub. ``proxied``: a trusted proxy sent it.
    ``claimed``: its peer says that it forwards it, so it is no program of this machine.
    """

    address: str
    secure: bool
    tls: bool
    host: str | None
    proxied: bool = False
    claimed: bool = False

    @property
    def local(self) -> bool:
        """Return whether a program of this machine sent it, as far as can be known."""
        return not (self.proxied or self.claimed) and is_loopback(self.address)


class TrustedProxies:
    """The proxies whose headers are believed. ``plain``: clients may reach them without TLS."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network], *, plain: bool = False) -> None:
        self._networks, self._plain = tuple(networks), plain

    def __contains__(self, address: object) -> bool:
        if not self._networks or not isinstance(address, str):
            return False
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found.version == network.version and found in network for network in self._networks)

    def origin(
        self, peer: str, tls: bool, headers: Mapping[str, str], pairs: Sequence[tuple[str, str]]
    ) -> RequestOrigin:
        """Return where a request comes from. ``pairs`` are all headers, with lower-case names.

        Raises AmbiguousOrigin.
        """
        host = headers.get("host")
        claimed = not _CLAIMS.isdisjoint(headers)
        if peer not in self:
            return RequestOrigin(peer, tls or is_loopback(peer), tls, host, claimed=claimed)
        private = self._plain or is_loopback(peer)
        if not claimed:
            return RequestOrigin(peer, private, False, host, proxied=True)
        if "forwarded" in headers and any(name in headers for name in _X):
            raise AmbiguousOrigin
        hops = _forwarded(pairs) if "forwarded" in headers else _x_forwarded(pairs)
        address, proto, named = self._client(hops)
        https = proto == "https"
        return RequestOrigin(address or peer, https or private, https, named or host, True, claimed=True)

    def _client(self, hops: Sequence[ProxyHop]) -> ProxyHop:
        """Return the last hop that is not a trusted proxy; the first one if all are."""
        found = ProxyHop(None, None, None)
        for hop in list(reversed(hops))[:MOST_HOPS]:
            # The connection to the outermost trusted proxy is the one that counts.
            found = ProxyHop(hop.address, hop.proto or found.proto, hop.host or found.host)
            if hop.address is None or hop.address not in self:
                break
        return found


class ProxyHop(NamedTuple):
    """The statement of one proxy about the peer that sent it the request; None where it makes none."""

    address: str | None
    proto: str | None
    host: str | None


def _x_forwarded(pairs: Sequence[tuple[str, str]]) -> list[ProxyHop]:
    said = {name: _listed(pairs, name) for name in _X}
    protos = {proto.lower() for proto in said["x-forwarded-proto"]}
    # A proxy appends or replaces; only if all say https was no part of the way without TLS.
    proto = None if not protos else "https" if protos == {"https"} else "http"
    host = said["x-forwarded-host"][-1] if said["x-forwarded-host"] else None
    addresses = [_address(text) for text in said["x-forwarded-for"]] or [None]
    return [ProxyHop(address, proto, host) for address in addresses]


def _forwarded(pairs: Sequence[tuple[str, str]]) -> list[ProxyHop]:
    hops = []
    for element in _elements(",".join(value for name, value in pairs if name == "forwarded")):
        matches = [match for match in map(_pair, _pairs(element)) if match]
        said = {match[1].lower(): _unquoted(match[2]) for match in matches}
        proto, host = said.get("proto"), said.get("host")
        hops.append(ProxyHop(_address(said.get("for", "")), proto.lower() if proto else None, host))
    return hops or [ProxyHop(None, None, None)]


def _listed(pairs: Sequence[tuple[str, str]], name: str) -> list[str]:
    values = (part.strip() for given, value in pairs if given == name for part in value.split(","))
    return [value for value in values if value]


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def _address(text: str) -> str | None:
    """Return the address in ``1.2.3.4``, ``1.2.3.4:80``, ``2001:db8::1`` or ``[2001:db8::1]:80``."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return None
