"""Rules for which hosts a caged server may connect to. Everything here is pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address


@dataclass(frozen=True, slots=True)
class HostRule:
    """One entry of the list of hosts: a name, an address, or all names below one; 0 for any port."""

    name: str
    below: bool
    port: int

    def allows(self, host: str, port: int) -> bool:
        if self.port and port != self.port:
            return False
        return host.endswith("." + self.name) if self.below else host == self.name


class HostRules:
    """The list of hosts of one server, as it is written in the servers file."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._rules = [_rule(host) for host in hosts]

    def allows(self, host: str, port: int) -> bool:
        """Return whether the server may connect to a host, by name or address, at that port."""
        name = normal(host)
        return any(rule.allows(name, port) for rule in self._rules)

    def refusal(
        self, host: str, address: str, port: int, not_public: Callable[[str], str | None]
    ) -> str | None:
        """Return why a name may not be resolved to that address; None if it may.

        An address that is not public is allowed only if it is listed itself, or if the name is that of this
        computer: otherwise a name could be made to point into the user's own network.
        """
        why = not_public(address)
        if why is None or self.allows(address, port):
            return None
        if normal(host) == "localhost" and ip_address(address.partition("%")[0]).is_loopback:
            return None
        return why


def normal(host: str) -> str:
    """Return a host in the form in which it is compared: lower case, without brackets and final dot."""
    name = host.strip().lower().strip("[]").rstrip(".")
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _rule(text: str) -> HostRule:
    name, port = text, 0
    head, colon, tail = text.rpartition(":")
    # The colons of an address without brackets are its own.
    if colon and tail.isdigit() and (":" not in head or head.endswith("]")):
        name, port = head, int(tail)
    below = name.startswith("*.")
    return HostRule(normal(name[2:] if below else name), below, port)
