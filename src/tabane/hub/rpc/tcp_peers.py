"""Owners of TCP sockets on this machine, and processes that listen, from the kernel's tables. Linux only."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tabane.hub.local.connector import COMMAND
from tabane.messages import Message, say
from tabane.settings import Settings

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
    wanted = {(local, remote) for local in _table_address(peer) for remote in _table_address(own)}
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
    return next((found[one] for one in (*_table_address(place), *anywhere) if one in found), None)


def _table_address(place: SocketAddress) -> tuple[str, ...]:
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


MOST_LINKS = 1 << 17
"""Open files of processes that are checked."""

LEAVING = 30.0
"""Seconds for which a hub whose home was deleted may keep the port."""

WORDS, WORD = 3, 60
"""Words of a command that are shown, and characters of each. Flags are left out: they may hold secrets."""

_GONE = " (deleted)"
_LOOK = 0.1


class PortOccupant(NamedTuple):
    """The listening process. ``pid`` is 0 if another user's; ``home`` is that of a hub, or empty."""

    pid: int
    command: str = ""
    home: str = ""

    @property
    def homeless(self) -> bool:
        """Return whether it is a hub with a deleted home. Such a hub ends within seconds."""
        return self.home.endswith(_GONE)

    @property
    def name(self) -> Message:
        if not self.pid:
            return say("another user's process")
        if self.home:
            return say("the hub of {home} (process {pid})", home=self.home, pid=self.pid)
        return say("process {pid} ({command})", pid=self.pid, command=self.command or "?")


def find_occupant(port: int) -> PortOccupant | None:
    """Return the process that listens at the port, on any address; None if nobody does or it is not known."""
    sockets = {link for table in TABLES for link in _listening_sockets(table, port)}
    if not sockets:
        return None
    pid = next((pid for pid, link in _open_files() if link in sockets), None)
    if pid is None:
        return PortOccupant(0)
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).decode(errors="replace").split("\0")
    except OSError:
        words = []
    shown: list[str] = []
    for word in words[:WORDS]:
        if not word or word.startswith("--") or (shown and "=" in word):
            break
        shown.append(os.path.basename(word)[:WORD])
    return PortOccupant(
        pid, " ".join(shown), _working_folder(pid) if {"tabane", COMMAND} <= set(words) else ""
    )


def refusal(host: str, port: int, error: OSError | None = None) -> Message:
    """Return why a hub cannot listen there: ``error``; without, a process that listens there now."""
    if error is None or error.errno == errno.EADDRINUSE:
        found = find_occupant(port)
        return say(
            "HTTP is not available: port {port} of {host} is used by {who}. End that process, "
            "choose another port (--port, TABANE_PORT), or turn HTTP off (--no-http, "
            "TABANE_HTTP=false).",
            port=port,
            host=host,
            who=found.name if found else say("another process"),
        )
    return say(
        "HTTP is not available: {host}, port {port}: {reason}. Check the settings host and port.",
        host=host,
        port=port,
        reason=error.strerror,
    )


def await_port(settings: Settings) -> None:
    """Wait while a hub with a deleted home has the port, at most as long as it may take to end."""
    deadline = time.monotonic() + LEAVING
    while port_is_taken(settings.host, settings.port):
        found = find_occupant(settings.port)
        if found is None or not found.homeless or time.monotonic() > deadline:
            return
        time.sleep(_LOOK)


def port_is_taken(host: str, port: int) -> bool:
    """Return whether another process listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1" if host == "localhost" else host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _listening_sockets(table: str, port: int) -> Iterator[str]:
    """Yield the sockets that listen at the port, as the links of open files name them."""
    with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and fields[1].endswith(f":{port:04X}"):
                yield f"socket:[{fields[9]}]"


def _open_files() -> Iterator[tuple[int, str]]:
    """Yield process and target of each open file that this user may see, up to a limit."""
    left = MOST_LINKS
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{name}/fd"):
                left -= 1
                if left < 0:
                    return
                with contextlib.suppress(OSError):
                    yield int(name), os.readlink(f"/proc/{name}/fd/{fd}")


def _working_folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "?"
