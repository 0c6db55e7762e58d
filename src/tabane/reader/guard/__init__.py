"""The guard: which URLs and addresses may be reached, so that the reader opens no way into private networks.

Pure: it judges given URLs and resolved addresses, or raises ReadError. The code that connects asks it about
every address, at every hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from tabane.errors import ConfigurationError, ReadError
from tabane.messages import Message, say
from tabane.reader.guard.addresses import Address, address_of, fault
from tabane.reader.guard.urls import Target, joined, target

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
        found = target("http://" + text.removeprefix("*."))
        if found.path != "/" or (under and found.address is not None):
            raise ValueError
    except (ValueError, ReadError):
        why = say(
            "{entry} is not a host that can be allowed. Write a name, *.name, an address or a "
            "network (10.1.0.0/16), and add :port to allow only one port.",
            entry=repr(text),
        )
        raise ConfigurationError(why) from None
    port = found.port if (":" in text.rpartition("]")[2]) else None
    if found.address is not None:
        return AllowedEntry(network=ip_network(found.address), port=port)
    return AllowedEntry(name=found.host, under=under, port=port)


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

    def addresses(self, host: str, port: int, found: Sequence[str]) -> list[Address]:
        """Return the addresses of ``host``, of which any may be connected to.

        One address that is not public refuses the whole name: an answer with both kinds is hostile, and which
        one is connected to would be chance. Values that are not addresses are ignored.
        """
        addresses = [address for text in found if (address := address_of(text)) is not None]
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

    def _judge_target(self, found: Target) -> Target:
        if self.names(found.host, found.port):
            return found
        if found.address is not None:
            self._judge(found.host, found.address, found.port)
        elif self._resolves and self._allowed.networks(found.port):
            return found  # decided by its addresses
        elif is_local(found.host):
            raise _refusal(
                say(
                    "{host} is a name in a local network, so the reader does not connect to it.",
                    host=found.host,
                ),
                found.host,
                found.port,
            )
        self._at_a_port(found.host, found.port)
        return found

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
