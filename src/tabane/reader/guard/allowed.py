"""Hosts that a person lets the reader reach, though they are not public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from tabane.errors import ConfigurationError, ReadError
from tabane.messages import say
from tabane.reader.guard.addresses import Address
from tabane.reader.guard.urls import target

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of what is allowed: a name, every name under one, or a network; at one port, or at any."""

    name: str = ""
    under: bool = False
    network: Network | None = None
    port: int | None = None


class Allowed:
    """What is allowed: ``wiki.lan``, ``*.lan``, ``nas.lan:8080``, ``10.1.0.0/16``, ``[fd00::1]:80``.

    A name is reached whatever address it has; an address or network, whatever name leads to it. Without a
    port any port is meant. Raises ConfigurationError where an entry cannot be read.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = tuple(_entry(text.strip()) for text in entries if text.strip())

    def name(self, host: str, port: int) -> bool:
        """Whether ``host``, in ASCII and lower case, is allowed by name."""
        return any(
            entry.port in (None, port)
            and (host.endswith("." + entry.name) if entry.under else host == entry.name)
            for entry in self._entries
            if entry.network is None
        )

    def address(self, address: Address, port: int) -> bool:
        """Whether ``address`` is. One of IPv4 written as IPv6 is that of IPv4."""
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(
            entry.network is not None and entry.port in (None, port) and plain in entry.network
            for entry in self._entries
        )

    def networks(self, port: int) -> bool:
        """Whether any address is allowed at ``port``: then it takes a name's addresses to judge it."""
        return any(entry.network is not None and entry.port in (None, port) for entry in self._entries)


def _entry(text: str) -> Entry:
    try:
        if "/" in text:
            network, port = _cut(text)
            return Entry(network=ip_network(network), port=port)
        under = text.startswith("*.")
        found = target("http://" + text.removeprefix("*."))
        if found.path != "/" or (under and found.address is not None):
            raise ValueError
    except (ValueError, ReadError):
        why = say(
            "{entry} is no host that the reader may be let to reach: write a name, *.name, an address or a "
            "network (10.1.0.0/16), with :port where one port is meant.",
            entry=repr(text),
        )
        raise ConfigurationError(why) from None
    port = found.port if _names_port(text) else None
    if found.address is not None:
        return Entry(network=ip_network(found.address), port=port)
    return Entry(name=found.host, under=under, port=port)


def _names_port(text: str) -> bool:
    return ":" in text.rpartition("]")[2]


def _cut(text: str) -> tuple[str, int | None]:
    """A network and its port: ``10.0.0.0/8:80``, ``[fd00::]/8:80``, ``fd00::/8``."""
    network, _, length = text.rpartition("/")
    length, colon, port = length.partition(":")
    return f"{network.strip('[]')}/{length}", int(port) if colon else None
