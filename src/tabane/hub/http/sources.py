"""Sources of requests: where each comes from, and limits for each source.

The origin of a request is its connection, or the client that a trusted proxy names. Addresses are keys of
bounded tables: token buckets, and failed attempts to show who one is, which are answered the later the more
there are.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
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


FREE = 3
"""Failures of a source that are answered at once: a client with an old token fails once or twice."""

FIRST_DELAY, LONGEST_DELAY = 0.1, 4.0
"""Seconds before the next answer to a failure; the delay doubles with each."""

FORGIVEN = 15.0
"""Seconds without a failure after which one of them is forgotten."""

MOST_COUNTED = 16
"""Failures that count, so that a source is forgiven in minutes whatever it did."""

MOST_HELD, MOST_HELD_OF_SOURCE = 256, 4
"""Answers that wait at the same time. A further failure is answered at once, with 429."""


class SourceFailures(NamedTuple):
    """The failures of a source that are not forgiven yet, and when they were counted."""

    counted: float
    since: float


class FailedAttempts:
    """Counts failures by source. ``on_refused`` is called with the source and the reason of each.

    ``counts`` has the refusals by reason, for the metrics. A valid key is not slowed down by the failures
    of others at its address: only answers to failures wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_refused: Callable[[str, str], None]) -> None:
        self._loop, self._on_refused = loop, on_refused
        self._failures: OrderedDict[str, SourceFailures] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def waiting(self) -> int:
        """Return the number of answers that wait."""
        return self._waiting

    def delay(self, source: str) -> float:
        """Return the seconds that the answer to a failure of that source waits now."""
        over = self._count(source) - FREE
        return 0.0 if over <= 0 else min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (over - 1))

    def crowded(self, source: str) -> bool:
        """Return whether a further failure of that source would get no place to wait."""
        return self._waiting >= MOST_HELD or self._held[source] >= MOST_HELD_OF_SOURCE

    def missing(self) -> None:
        """Count a request that showed nothing: no attempt, so nobody is slowed down or reported."""
        self.counts["missing"] += 1

    async def fail(self, source: str, reason: str) -> float | None:
        """Count a failure, and wait. Return None; the seconds until the next attempt if nothing may wait."""
        self._add(source)
        delay = self.delay(source)
        if delay and self.crowded(source):
            self.counts["limited"] += 1
            return delay
        self.counts[reason] += 1
        self._on_refused(source, reason)
        if delay:
            await self._wait_out(source, delay)
        return None

    def note(self, source: str, reason: str) -> None:
        """Count a failure that is answered at once, in another way."""
        self._add(source)
        self.counts[reason] += 1

    def _add(self, source: str) -> None:
        count = min(MOST_COUNTED, self._count(source) + 1)
        self._failures.pop(source, None)
        self._failures[source] = SourceFailures(count, self._loop.time())
        if len(self._failures) > MOST_SOURCES:
            self._failures.popitem(last=False)

    async def _wait_out(self, source: str, delay: float) -> None:
        self._held[source] += 1
        self._waiting += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._waiting -= 1
            self._held[source] -= 1
            if not self._held[source]:
                del self._held[source]

    def _count(self, source: str) -> float:
        found = self._failures.get(source)
        if found is None:
            return 0.0
        return max(0.0, found.counted - (self._loop.time() - found.since) / FORGIVEN)


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
        address, proto, named = self._last_untrusted(hops)
        https = proto == "https"
        return RequestOrigin(address or peer, https or private, https, named or host, True, claimed=True)

    def _last_untrusted(self, hops: Sequence[ProxyHop]) -> ProxyHop:
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
    values = {name: _header_items(pairs, name) for name in _X}
    protos = {proto.lower() for proto in values["x-forwarded-proto"]}
    # A proxy appends or replaces; only if all say https was no part of the way without TLS.
    proto = None if not protos else "https" if protos == {"https"} else "http"
    host = values["x-forwarded-host"][-1] if values["x-forwarded-host"] else None
    addresses = [_address(text) for text in values["x-forwarded-for"]] or [None]
    return [ProxyHop(address, proto, host) for address in addresses]


def _forwarded(pairs: Sequence[tuple[str, str]]) -> list[ProxyHop]:
    hops = []
    for element in _elements(",".join(value for name, value in pairs if name == "forwarded")):
        matches = [match for match in map(_pair, _pairs(element)) if match]
        values = {match[1].lower(): _unquote(match[2]) for match in matches}
        proto, host = values.get("proto"), values.get("host")
        hops.append(ProxyHop(_address(values.get("for", "")), proto.lower() if proto else None, host))
    return hops or [ProxyHop(None, None, None)]


def _header_items(pairs: Sequence[tuple[str, str]], name: str) -> list[str]:
    values = (part.strip() for given, value in pairs if given == name for part in value.split(","))
    return [value for value in values if value]


def _unquote(text: str) -> str:
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
