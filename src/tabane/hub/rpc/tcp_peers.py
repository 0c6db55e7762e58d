"""Owners of TCP sockets on this machine, from the kernel's tables."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from collections.abc import Iterable
from typing import NamedTuple

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""The file in which Linux lists the connections of this network namespace (proc_pid_net(5))."""


_LISTENING = "0A"


class SocketAddress(NamedTuple):
    """One end of a connection."""

    host: str
    port: int


def uid_of_peer(peer: SocketAddress, own: SocketAddress) -> int | None:
    """Return the user of the socket at ``peer``; None if it is not known, or on another machine."""
    for table in TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            uid = uid_in(lines, peer, own)
            if uid is not None:
                return uid
    return None


def uid_in(lines: Iterable[str], peer: SocketAddress, own: SocketAddress) -> int | None:
    """Return the user of the socket that leads from ``peer`` to ``own``, in a kernel table; pure."""
    wanted = {(local, remote) for local in _written(peer) for remote in _written(own)}
    for line in lines:
        fields = line.split()
        if len(fields) > 7 and (fields[1], fields[2]) in wanted:
            return int(fields[7])
    return None


def uid_of_listener(place: SocketAddress) -> int | None:
    """Return the user of the process that listens at ``place``; None if there is none, or it is not known."""
    rows: list[str] = []
    for table in TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            rows += lines
    return listener_in(rows, place)


def listener_in(rows: Iterable[str], place: SocketAddress) -> int | None:
    """Return the user of the socket that accepts connections to ``place``, from the kernel's tables; pure.

    A socket of that exact address has priority over one of any address.
    """
    port = f":{place.port:04X}"
    found: dict[str, int] = {}
    for row in rows:
        fields = row.split()
        if len(fields) > 7 and fields[3] == _LISTENING and fields[1].endswith(port):
            found.setdefault(fields[1], int(fields[7]))
    anywhere = (f"{'0' * digits}{port}" for digits in (8, 32))
    return next((found[one] for one in (*_written(place), *anywhere) if one in found), None)


def _written(place: SocketAddress) -> tuple[str, ...]:
    """Format an address as in the tables: hexadecimal words of 32 bits, in this machine's byte order."""
    address = ipaddress.ip_address(place.host)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    packed = [address.packed]
    if isinstance(address, ipaddress.IPv4Address):
        # The form of the peer of a socket for both families.
        packed.append(bytes(10) + b"\xff\xff" + address.packed)
    return tuple(f"{_words(one)}:{place.port:04X}" for one in packed)


def _words(packed: bytes) -> str:
    step = -1 if sys.byteorder == "little" else 1
    return "".join(packed[at : at + 4][::step].hex() for at in range(0, len(packed), 4)).upper()
