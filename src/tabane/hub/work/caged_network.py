"""The program beside a caged server that connects it to the hosts it may reach, and to no others."""

from __future__ import annotations

import sys
from ipaddress import ip_address

from tabane.guard.cages.network_proxy import HostRules, serve
from tabane.reader.guard import fault


def main() -> None:
    """Serve the socket that comes over descriptor 0, for the hosts of the arguments, until it is killed."""
    serve(HostRules(sys.argv[2:]), _refusal)


def _refusal(address: str) -> str | None:
    """Return why an address is not public; None if it is."""
    why = fault(ip_address(address.partition("%")[0]))
    return why.render("en") if why else None
