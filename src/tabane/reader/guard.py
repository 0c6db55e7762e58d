"""The guard: which URLs and addresses may be reached, so that the reader opens no way into private networks.

Pure: it judges given URLs and resolved addresses, or raises ReadError. The code that connects asks it about
every address, at every hop.

Addresses that are not public are refused. The lists are those of the IANA registries of special-purpose
addresses (RFC 6890 and its updates). IPv6 is judged the other way round: only what is global unicast,
2000::/3, can be public at all (RFC 4291, 2.4), and an IPv4 address inside an IPv6 address is judged as IPv4.

URLs are parsed once for the whole reader, so that no two parsers can disagree, and the reader connects to
exactly what was judged: hosts are normalized to ASCII and lower case, addresses to numbers. The rules are
those of browsers (https://url.spec.whatwg.org), except forms that are only used to deceive: credentials, and
hosts of bytes that no name has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import quote, unquote_to_bytes, urljoin

from tabane.errors import ConfigurationError, ReadError
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


LONGEST = 8_000
"""Characters of a URL."""

PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"//([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_PATH = "/:@!$&'()*+,;=~%-._[]|"
_QUERY = _PATH + "?"
_SPACE = "".join(map(chr, range(0x21)))
_BROKEN = str.maketrans("", "", "\t\r\n")  # a URL that was broken over lines


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. ``host`` is ASCII, lower case, without brackets or a final dot.

    ``address`` is set if the host is an address; ``host`` is then its canonical text. ``path`` is the path
    and query of a request, in ASCII.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None = None

    @property
    def authority(self) -> str:
        """Return host and port as in the header Host."""
        host = f"[{self.host}]" if self.address is not None and self.address.version == 6 else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as browsers write the origin of a page."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """Return the URL in the one way that it is written here; no fragment."""
        return self.origin + self.path


def target(url: str) -> Target:
    """Parse ``url``.

    Raises ReadError: ``url`` if it is not a URL, ``scheme`` if its scheme is neither http nor https.
    """
    url = url.strip(_SPACE).translate(_BROKEN)
    if len(url) > LONGEST:
        raise _bad_url(say("the URL is longer than {limit} {limit:character|characters}.", limit=LONGEST))
    if any("\ud800" <= character <= "\udfff" for character in url):
        raise _bad_url(say("the URL contains invalid characters."))
    match = _SCHEME.fullmatch(url)
    if match is None:
        raise _bad_url(say("this is not a URL: it must start with https:// or http://."))
    scheme = match[1].lower()
    if scheme not in PORTS:
        raise ReadError(
            say("only http and https URLs can be read; this one is {scheme}.", scheme=scheme), "scheme"
        )
    parts = _AUTHORITY.fullmatch(_forward_slashes(match[2]))
    if parts is None:
        raise _bad_url(say("this is not a URL: {scheme}: must be followed by // and a host.", scheme=scheme))
    host, port, address = _split_authority(parts[1], PORTS[scheme])
    query = "" if parts[3] is None else "?" + quote(parts[3], safe=_QUERY)
    return Target(scheme, host, port, _ascii_path(parts[2]) + query, address)


def joined(base: Target, location: str) -> Target:
    """Return the target of a redirect from ``base`` to ``location``. Raises as :func:`target`."""
    location = location.strip(_SPACE)
    if _SCHEME.fullmatch(location):
        return target(location)
    if (forward := _forward_slashes(location)).startswith("//"):
        return target(f"{base.scheme}:{forward}")
    try:
        return target(urljoin(base.url, forward))
    except ValueError:
        raise _bad_url(say("this is not a URL.")) from None


def _forward_slashes(rest: str) -> str:
    """Backward slashes before the query are slashes: a browser takes them for such."""
    end = re.search(r"[?#]", rest)
    at = end.start() if end else len(rest)
    return rest[:at].replace("\\", "/") + rest[at:]


def _ascii_path(path: str) -> str:
    """Return the path in ASCII, without dot segments; encoded characters stay encoded."""
    kept: list[str] = []
    segments = path.split("/")[1:] or [""]
    for number, segment in enumerate(segments):
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            kept = kept[:-1]
        elif plain != ".":
            kept.append(quote(segment, safe=_PATH))
        if plain in (".", "..") and number == len(segments) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def _split_authority(text: str, port: int) -> tuple[str, int, Address | None]:
    if "@" in text:
        raise _bad_url(say("the URL has a user name or password before its host. Remove it."))
    host, colon, digits = text.partition(":") if not text.startswith("[") else _split_bracketed(text)
    if colon and digits:
        if not re.fullmatch(r"[0-9]{1,5}", digits) or not 0 < int(digits) < 65536:
            raise _bad_url(say("the port in the URL is not a number from 1 to 65535."))
        port = int(digits)
    name, address = _host(host)
    return name, port, address


def _split_bracketed(text: str) -> tuple[str, str, str]:
    inside, bracket, rest = text.partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        raise _bad_url(say("the address in brackets in the URL cannot be parsed."))
    return inside + bracket, rest[:1], rest[1:]


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        address = None if "%" in text else address_of(text[1:-1])
        if address is None or address.version != 6:
            raise _bad_url(say("the address in brackets in the URL cannot be parsed."))
        return str(address), address
    name = _ascii_host(text).removesuffix(".")
    if not name:
        raise _bad_url(say("the URL has no host."))
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        number = _ipv4_of_number(name)
        return str(number), number
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _bad_url(say("the host {host} in the URL is not valid.", host=name[:80]))
    return name, None


def _ascii_host(host: str) -> str:
    """Return the host in ASCII and lower case, by UTS 46: full-width letters, digits and stops are plain
    ones.
    """
    try:
        host = unquote_to_bytes(host).decode() if "%" in host else host
        if host.isascii():
            return host.lower()
        import idna

        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return ".".join(
            label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")
            for label in plain.split(".")
        ).lower()
    except (UnicodeError, ValueError):  # IDNAError is a UnicodeError
        raise _bad_url(say("the host in the URL is not a valid name.")) from None


def _ipv4_of_number(host: str) -> Address:
    """Return an IPv4 address in any of the ways of inet_aton: 127.1, 0x7f.0.0.1, 017700000001, 2130706433."""
    parts = host.split(".")
    numbers = [_parse_digits(part) for part in parts]
    if len(parts) > 4 or any(number > 255 for number in numbers[:-1]):
        raise _no_address(host)
    if numbers[-1] >= 256 ** (5 - len(parts)):
        raise _no_address(host)
    value = numbers[-1] + sum(number << 8 * (3 - place) for place, number in enumerate(numbers[:-1]))
    address = address_of(".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)))
    assert address is not None
    return address


def _parse_digits(part: str) -> int:
    try:
        if part[:2].lower() == "0x":
            return int(part[2:] or "0", 16)
        return int(part, 8) if len(part) > 1 and part[0] == "0" else int(part, 10)
    except ValueError:
        raise _no_address(part) from None


def _no_address(host: str) -> ReadError:
    return _bad_url(
        say(
            "the host {host} in the URL is neither a valid address nor a name, because no name "
            "ends in a number.",
            host=host[:80],
        )
    )


def _bad_url(message: Message) -> ReadError:
    return ReadError(message, "url")


__all__ = ["Address", "Guard", "Target", "address_of", "fault", "is_local", "joined", "target"]


Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class AllowedEntry:
    """One entry of the allowed hosts: a name, every name under one, or a network; at one port or at any."""

    name: str = ""
    under: bool = False
    network: Network | None = None
    port: int | None = None


class AllowedHosts:
    """The allowed hosts: ``wiki.lan``, ``*.lan``, ``nas.lan:8080``, ``10.1.0.0/16``, ``[fd00::1]:80``.

    An allowed name may have any address; an allowed address or network may have any name. Without a port, any
    port is allowed. Raises ConfigurationError if an entry cannot be read.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = tuple(_parse_entry(text.strip()) for text in entries if text.strip())

    def name(self, host: str, port: int) -> bool:
        """Return whether ``host``, in ASCII and lower case, is allowed by name."""
        return any(
            entry.port in (None, port)
            and (host.endswith("." + entry.name) if entry.under else host == entry.name)
            for entry in self._entries
            if entry.network is None
        )

    def address(self, address: Address, port: int) -> bool:
        """Return whether ``address`` is. One of IPv4 written as IPv6 is that of IPv4."""
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(
            entry.network is not None and entry.port in (None, port) and plain in entry.network
            for entry in self._entries
        )

    def networks(self, port: int) -> bool:
        """Return whether any address is allowed at ``port``: then it takes a name's addresses to judge it."""
        return any(entry.network is not None and entry.port in (None, port) for entry in self._entries)


def _parse_entry(text: str) -> AllowedEntry:
    try:
        if "/" in text:
            network, port = _cut(text)
            return AllowedEntry(network=ip_network(network), port=port)
        under = text.startswith("*.")
        place = target("http://" + text.removeprefix("*."))
        if place.path != "/" or (under and place.address is not None):
            raise ValueError
    except (ValueError, ReadError):
        why = say(
            "{entry} is not a host that can be allowed. Write a name, *.name, an address or a "
            "network (10.1.0.0/16), and add :port to allow only one port.",
            entry=repr(text),
        )
        raise ConfigurationError(why) from None
    port = place.port if (":" in text.rpartition("]")[2]) else None
    if place.address is not None:
        return AllowedEntry(network=ip_network(place.address), port=port)
    return AllowedEntry(name=place.host, under=under, port=port)


def _cut(text: str) -> tuple[str, int | None]:
    """Return a network and its port: ``10.0.0.0/8:80``, ``[fd00::]/8:80``, ``fd00::/8``."""
    network, _, length = text.rpartition("/")
    length, colon, port = length.partition(":")
    return f"{network.strip('[]')}/{length}", int(port) if colon else None


_LOCAL = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa")
"""Names that are of no public network, wherever they lead (RFC 6761, 6762, 8375; ICANN's name collisions)."""


class Guard:
    """Accepts public hosts and those that the user allowed; refuses everything else.

    ``ports`` are the ports allowed on public hosts; an allowed entry has its own. ``resolves`` is False if a
    proxy looks up names: then only the name is judged, because its addresses are not known. A refusal is a
    ReadError with cause ``refused``.
    """

    def __init__(
        self, allowed: Iterable[str] = (), ports: Iterable[int] = (80, 443), *, resolves: bool = True
    ) -> None:
        self._allowed = AllowedHosts(allowed)
        self._ports = frozenset(ports)
        self._resolves = resolves

    def target(self, url: str) -> Target:
        """Return the target of ``url``, if it is allowed. Raises ReadError: url, scheme, refused."""
        return self._judge_target(target(url))

    def joined(self, base: Target, location: str) -> Target:
        """Return the target of a redirect, judged like any other URL."""
        return self._judge_target(joined(base, location))

    def addresses(self, host: str, port: int, texts: Sequence[str]) -> list[Address]:
        """Return the addresses of ``host``, of which any may be connected to.

        One address that is not public refuses the whole name: an answer with both kinds is hostile, and which
        one is connected to would be chance. Values that are not addresses are ignored.
        """
        addresses = [address for text in texts if (address := address_of(text)) is not None]
        if not self._allowed.name(host, port):
            for address in addresses:
                self._judge(host, address, port)
        return addresses

    def apart(self, host: str, address: Address, port: int, source: Address | None) -> None:
        """Refuse addresses of this computer and of its own network, even if their numbers are public.

        ``source`` is the address that packets to ``address`` leave from: if they are equal, it is this
        computer; within the same 64 bits of IPv6, it is a neighbor without a firewall between.
        """
        if source is None or self._allowed.name(host, port) or self.allows(address, port):
            return
        near = address == source or (
            address.version == 6 == source.version and int(address) >> 64 == int(source) >> 64
        )
        if near:
            raise _refusal(
                say("{host} leads to {address}, which is in this computer's own network, so the reader "
"does not connect to it.", host=host, address=address), host, port)  # fmt: skip

    def allows(self, address: Address, port: int) -> bool:
        """Return whether a person allowed this very address."""
        return self._allowed.address(address, port)

    def names(self, host: str, port: int) -> bool:
        """Return whether a person allowed this very host, by its name or its address."""
        address = address_of(host)
        return self._allowed.name(host, port) or (address is not None and self.allows(address, port))

    def _judge_target(self, place: Target) -> Target:
        if self.names(place.host, place.port):
            return place
        if place.address is not None:
            self._judge(place.host, place.address, place.port)
        elif self._resolves and self._allowed.networks(place.port):
            return place  # decided by its addresses
        elif is_local(place.host):
            raise _refusal(
                say(
                    "{host} is a name in a local network, so the reader does not connect to it.",
                    host=place.host,
                ),
                place.host,
                place.port,
            )
        self._at_a_port(place.host, place.port)
        return place

    def _judge(self, host: str, address: Address, port: int) -> None:
        if self.allows(address, port):
            return
        if (kind := fault(address)) is not None:
            raise _refusal(_not_public(host, address, kind), host, port)
        self._at_a_port(host, port)

    def _at_a_port(self, host: str, port: int) -> None:
        if port not in self._ports:
            ports = ", ".join(map(str, sorted(self._ports)))
            raise _refusal(
                say("the reader connects only to the ports {ports}, not to {port}.", ports=ports, port=port),
                host,
                port,
            )


def is_local(host: str) -> bool:
    """Return whether ``host`` is a name that only a local network knows."""
    return "." not in host or any(host == name or host.endswith("." + name) for name in _LOCAL)


def _not_public(host: str, address: Address, kind: Message) -> Message:
    if host == str(address):
        return say("{address} is not a public address ({kind}), so the reader does not connect to it.",
                   address=host, kind=kind)  # fmt: skip
    return say("{host} leads to {address}, which is not a public address ({kind}), so the reader "
"does not connect to it.", host=host, address=address, kind=kind)  # fmt: skip


def _refusal(why: Message, host: str, port: int) -> ReadError:
    entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ReadError(
        say(
            "{why} A person can allow it by adding {entry} to the setting reader_allow.", why=why, entry=entry
        ),
        "refused",
    )
