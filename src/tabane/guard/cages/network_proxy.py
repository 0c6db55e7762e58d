"""A proxy to a list of hosts, for a server whose own network is empty, and the rules for these hosts.

It speaks HTTP: CONNECT, and requests for plain http:// addresses. Names are resolved here, outside of the
cage, and a name that leads to an address that is not public is refused. What is refused is written to
standard error, which is the server's log. One thread serves one connection.
"""

from __future__ import annotations

import array
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

CONNECTIONS = 64
"""Connections at the same time. Others wait."""

HEAD_LIMIT = 32 << 10
"""Bytes of the head of a request."""

HEAD_PATIENCE = 30.0
"""Seconds until the head of a request has to be there."""

CONNECT_PATIENCE = 20.0
"""Seconds for a connection to the host."""

IDLE = 600.0
"""Seconds after which a connection on which nothing is sent is closed."""

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class HostRule:
    """One entry of the list of hosts: a name, an address, or all names below one; 0 for any port."""

    name: str
    below: bool
    port: int

    def allows(self, host: str, port: int) -> bool:
        """Return whether the rule allows a host and port."""
        if self.port and port != self.port:
            return False
        return host.endswith("." + self.name) if self.below else host == self.name


class HostRules:
    """The list of hosts of one server, as it is written in the servers file."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._rules = [_read_rule(host) for host in hosts]

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


def _read_rule(text: str) -> HostRule:
    name, port = text, 0
    head, colon, tail = text.rpartition(":")
    # The colons of an address without brackets are its own.
    if colon and tail.isdigit() and (":" not in head or head.endswith("]")):
        name, port = head, int(tail)
    below = name.startswith("*.")
    return HostRule(normal(name[2:] if below else name), below, port)


class _ProxyRefusal(Exception):
    """A request that is refused: the status for the server, and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class NetworkProxy:
    """Serves connections. ``not_public`` returns why an address is not one of the public internet."""

    def __init__(self, policy: HostRules, not_public: Callable[[str], str | None]) -> None:
        self._policy, self._not_public = policy, not_public
        self._places = threading.Semaphore(CONNECTIONS)

    def run(self, listener: socket.socket) -> None:
        """Serve a listening socket until it fails."""
        while True:
            self._places.acquire()
            client, _ = listener.accept()
            threading.Thread(target=self._handle_client, args=(client,), daemon=True).start()

    def _handle_client(self, client: socket.socket) -> None:
        try:
            with client:
                self._serve(client)
        except OSError:
            return  # one of both sides has ended
        finally:
            self._places.release()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(HEAD_PATIENCE)
        try:
            head, rest = _read_head(client)
            host, port, first = target(head)
            upstream = self._connect_upstream(host, port)
        except _ProxyRefusal as refused:
            print(f"sandbox: {refused.why}", file=sys.stderr, flush=True)
            body = f"{refused.why}\n".encode()
            client.sendall(
                f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            return
        with upstream:
            if first:
                upstream.sendall(first + rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if rest:
                    upstream.sendall(rest)
            _pump_bytes(client, upstream)

    def _connect_upstream(self, host: str, port: int) -> socket.socket:
        if not self._policy.allows(host, port):
            raise _ProxyRefusal("403 Forbidden", f"{host}:{port} is not among the hosts of this server")
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise _ProxyRefusal("502 Bad Gateway", f"{host} cannot be resolved") from None
        why = f"{host}:{port} does not answer"
        for family, kind, protocol, _, address in found:
            refusal = self._policy.refusal(host, str(address[0]), port, self._not_public)
            if refusal is not None:
                why = f"{host} leads to {address[0]}, which is not public ({refusal})"
                continue
            try:
                upstream = socket.socket(family, kind, protocol)
                try:
                    upstream.settimeout(CONNECT_PATIENCE)
                    upstream.connect(address)
                except OSError:
                    upstream.close()
                    raise
                return upstream
            except OSError:
                continue
        raise _ProxyRefusal("403 Forbidden" if "not public" in why else "502 Bad Gateway", why)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, and what was sent behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            raise _ProxyRefusal("431 Request Header Fields Too Large", "the head of a request is too long")
        more = client.recv(_CHUNK)
        if not more:
            raise OSError("the server has closed the connection")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


_CONNECTION_FIELDS = frozenset(
    {"host", "connection", "proxy-connection", "keep-alive", "proxy-authorization"}
)


def target(head: bytes) -> tuple[str, int, bytes]:
    """Return host and port of a request, and the head to send there; an empty one for CONNECT.

    Raises _ProxyRefusal if it is not a request to a proxy.
    """
    line, _, fields = head.decode("latin-1").partition("\r\n")
    words = line.split(" ")
    if len(words) != 3:
        raise _ProxyRefusal("400 Bad Request", "a request cannot be read")
    method, where, version = words
    try:
        parts = urlsplit(f"//{where}" if method == "CONNECT" else where)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or (method == "CONNECT" and not port) or (method != "CONNECT" and parts.scheme != "http"):
        raise _ProxyRefusal("400 Bad Request", f"{method} {where[:200]} is not a request to a proxy")
    if method == "CONNECT":
        return host, port or 443, b""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [
        field
        for field in fields.split("\r\n")
        if field and field.partition(":")[0].strip().lower() not in _CONNECTION_FIELDS
    ]
    own = [f"Host: {parts.netloc.rpartition('@')[2]}", "Connection: close"]
    lines = [f"{method} {path} {version}", *own, *kept]
    return host, port or 80, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _pump_bytes(client: socket.socket, upstream: socket.socket) -> None:
    """Carry bytes in both directions until both sides have ended, or nothing was sent for a while."""
    other = {client: upstream, upstream: client}
    open_ = [client, upstream]
    for side in open_:
        side.settimeout(IDLE)
    while open_:
        ready, _, _ = select.select(open_, [], [], IDLE)
        if not ready:
            return
        for side in ready:
            data = side.recv(_CHUNK)
            if data:
                other[side].sendall(data)
                continue
            open_.remove(side)
            other[side].shutdown(socket.SHUT_WR)


def serve(policy: HostRules, not_public: Callable[[str], str | None]) -> None:
    """Serve the listening socket that comes over descriptor 0."""
    with socket.socket(fileno=0) as channel:
        size = array.array("i").itemsize
        _, rights, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(size))
        if not rights:
            return  # the server was not started
        listener = socket.socket(fileno=int.from_bytes(rights[0][2][:size], sys.byteorder))
    NetworkProxy(policy, not_public).run(listener)
