"""Whose process is at the other end of a TCP connection within this machine; from the kernel's table."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from collections.abc import Iterable
from typing import NamedTuple

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""Where Linux lists the connections of this network namespace (proc_pid_net(5))."""


class Place(NamedTuple):
    """One end of a connection."""

    host: str
    port: int


def uid_of_peer(peer: Place, own: Place) -> int | None:
    """The user whose socket is at ``peer``; None where the platform does not tell, or it is elsewhere."""
    for table in TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            uid = uid_in(lines, peer, own)
            if uid is not None:
                return uid
    return None


def uid_in(lines: Iterable[str], peer: Place, own: Place) -> int | None:
    """The user of the socket that leads from ``peer`` to ``own``, in a table of the kernel's; pure."""
    wanted = {(local, remote) for local in _written(peer) for remote in _written(own)}
    for line in lines:
        fields = line.split()
        if len(fields) > 7 and (fields[1], fields[2]) in wanted:
            return int(fields[7])
    return None


def _written(place: Place) -> tuple[str, ...]:
    """A place as the tables have it: words of 32 bits in this machine's order, in hexadecimal."""
    address = ipaddress.ip_address(place.host)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    packed = [address.packed]
    if isinstance(address, ipaddress.IPv4Address):
        # A socket for both families shows its peer so.
        packed.append(bytes(10) + b"\xff\xff" + address.packed)
    return tuple(f"{_words(one)}:{place.port:04X}" for one in packed)


def _words(packed: bytes) -> str:
    step = -1 if sys.byteorder == "little" else 1
    return "".join(packed[at : at + 4][::step].hex() for at in range(0, len(packed), 4)).upper()
