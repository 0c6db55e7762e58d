"""Public addresses of the internet: all others are refused.

The lists are those of the IANA registries of special-purpose addresses (RFC 6890 and its updates). IPv6 is
judged the other way round: only what is global unicast, 2000::/3, can be public at all (RFC 4291, 2.4), and
an IPv4 address inside an IPv6 address is judged as IPv4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)

from tabane.messages import Message, say

Address = IPv4Address | IPv6Address

_LOOPBACK = say("loopback: this computer itself")
_PRIVATE = say("private")
_LINK = say("link-local")
_SHARED = say("shared by a provider (CGNAT)")
_MULTICAST = say("multicast")
_UNSPECIFIED = say("unspecified")
_DOCUMENTS = say("for documentation alone")
_METADATA = say("of a cloud's own service")
_RESERVED = say("reserved")

_IPV4: tuple[tuple[IPv4Network, Message], ...] = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", _UNSPECIFIED),
        ("10.0.0.0/8", _PRIVATE),
        ("100.64.0.0/10", _SHARED),
        ("127.0.0.0/8", _LOOPBACK),
        ("168.63.129.16/32", _METADATA),  # public by its number, yet answered by the host of an Azure machine
        ("169.254.0.0/16", _LINK),
        ("172.16.0.0/12", _PRIVATE),
        ("192.0.0.0/24", _RESERVED),
        ("192.0.2.0/24", _DOCUMENTS),
        ("192.88.99.0/24", _RESERVED),
        ("192.168.0.0/16", _PRIVATE),
        ("198.18.0.0/15", _RESERVED),
        ("198.51.100.0/24", _DOCUMENTS),
        ("203.0.113.0/24", _DOCUMENTS),
        ("224.0.0.0/4", _MULTICAST),
        ("240.0.0.0/4", _RESERVED),  # 255.255.255.255, broadcast, is the last of them
    )
)

_IPV6: tuple[tuple[IPv6Network, Message], ...] = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", _UNSPECIFIED),
        ("::1/128", _LOOPBACK),
        ("2001::/23", _RESERVED),  # Teredo, ORCHID, benchmarks: relays and names, no places
        ("2001:db8::/32", _DOCUMENTS),
        ("3fff::/20", _DOCUMENTS),
        ("fc00::/7", _PRIVATE),
        ("fe80::/10", _LINK),
        ("fec0::/10", _PRIVATE),
        ("ff00::/8", _MULTICAST),
    )
)
_GLOBAL = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214, 6.1: the upper half of an interface that holds IPv4


def fault(address: Address) -> Message | None:
    """Return why ``address`` is not public, in a few words; None if it is public."""
    if isinstance(address, IPv4Address):
        return _within(address, _IPV4)
    if (kind := _within(address, _IPV6)) is not None:
        return kind
    inner = list(_embedded(address))
    if (kind := next((kind for one in inner if (kind := fault(one))), None)) is not None:
        return kind
    return None if address in _GLOBAL or address in _NAT64 or address in _MAPPED else _RESERVED


def address_of(text: str) -> Address | None:
    """Parse ``text`` as an address, without brackets or zone; None if it is not one."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _within(
    address: Address, networks: Iterable[tuple[IPv4Network | IPv6Network, Message]]
) -> Message | None:
    return next((kind for network, kind in networks if address in network), None)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that packets to ``address`` may end at."""
    low = int(address) & 0xFFFF_FFFF
    if address in _MAPPED or address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(low)
    if address in _6TO4:
        yield IPv4Address((int(address) >> 80) & 0xFFFF_FFFF)
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(low)
