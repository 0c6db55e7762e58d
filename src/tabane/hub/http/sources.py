"""Sources of connections and requests: addresses as keys of bounded tables, and token buckets over them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

MOST_SOURCES = 4096
"""Sources that are remembered. The one that was quiet longest is forgotten first."""

MOST_ADDRESSES = 1024
"""Addresses whose kind is remembered: each request asks about that of its connection."""

_SITE = 64
"""Bits of an IPv6 address that a provider gives to one customer, who has all addresses below it."""


@lru_cache(MOST_ADDRESSES)
def source_of(address: str) -> str:
    """Return the name of a source: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return str(found)
    return f"{IPv6Address(int(found) >> (128 - _SITE) << (128 - _SITE))}/{_SITE}"


@lru_cache(MOST_ADDRESSES)
def is_loopback(address: str) -> bool:
    """Return whether an address is this machine's own."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


class ExposedPeer(NamedTuple):
    """A peer whose requests were refused because others could read them, and how many. See RequestOrigin."""

    address: str
    proxied: bool
    requests: int


class SourceBuckets:
    """Token buckets by source: ``burst`` at once, then ``rate`` a second. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float], rate: float, burst: float) -> None:
        self._clock, self._rate, self._burst = clock, rate, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, source: str) -> bool:
        """Take one token of a source. Return False if there is none."""
        now = self._clock()
        level, since = self._levels.pop(source, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        fits = level >= 1
        self._levels[source] = (level - 1 if fits else level, now)
        if len(self._levels) > MOST_SOURCES:
            self._levels.popitem(last=False)
        return fits
