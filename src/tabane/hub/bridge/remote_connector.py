"""Connection to a hub over TCP: MCP in a WebSocket, with a key or the hub's token, and TLS if the URL says.

A server that does not speak MCP in its WebSocket is treated as an archive. Such servers are the original
twilog server, and a hub to which the client does not show the token.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import time
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from tabane.hub.bridge.connections import BridgeConnector, LinePeer
from tabane.hub.bridge.websocket_peer import WebSocketPeer
from tabane.hub.local import lock
from tabane.hub.local.connector import HubConnection, HubUnreachable, Pause
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello, Welcome, lang_of, say
from tabane.hub.local.known_hubs import known_hub, read_token
from tabane.wire import websocket

SCHEMES = ("ws", "http", "wss", "https")
PORT, TLS_PORT = 8765, 443

PROTOCOLS = ("tabane.mcp", "mcp")
"""Subprotocols whose messages are MCP. The first also carries the notes of a hub to a bridge."""

MODE_HEADER, PROFILE_HEADER, SERVER_HEADER = "Tabane-Mode", "Tabane-Profile", "Tabane-Server"

LIMIT = 5.0
"""Seconds to connect, including the time that a restarting hub needs."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries."""

MAX_LINE = 64 << 20
GRACE = 10.0

_MOST_HEAD = 64 << 10
_STEP = 0.02
_MODES = ("search", "light", "full", "code")
_TRANSIENT = (b"503", b"502", b"504")


class HubAddress(NamedTuple):
    """The address of a hub over TCP. ``mode``, ``profile`` and ``server`` are those in the URL's path."""

    url: str
    host: str
    port: int
    path: str
    mode: str | None
    profile: str | None = None
    server: str | None = None
    tls: bool = False

    @property
    def place(self) -> str:
        """Return host and port as a header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.tls and self.port == TLS_PORT else f"{host}:{self.port}"


def address_of(url: str) -> HubAddress | None:
    """Parse ``ws://host:port``, ``https://host/mcp`` and the like; return None for any other kind of URL.

    Raises HubUnreachable if the address cannot be used.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        return None
    tls = scheme in ("wss", "https")
    try:
        parts = urllib.parse.urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port or (TLS_PORT if tls else PORT)
    except ValueError:
        host, port = None, PORT
    if not host or any(character <= " " for character in url):
        raise HubUnreachable(say("{url}: an address must be ws://host:port or wss://host.", url=url), "url")
    path = parts.path or "/"
    mode, profile, server = _named_in(path)
    path = "/" if path.startswith("/mcp") else path
    return HubAddress(url, host, port, path, mode, profile, server, tls)


def _named_in(path: str) -> tuple[str | None, str | None, str | None]:
    """Return mode, profile and server in ``/mcp/full``, ``/mcp/p/team/full`` or ``/mcp/s/github``."""
    parts = path.strip("/").split("/")
    if parts[0] != "mcp":
        return None, None, None
    profile, rest = _name_after("p", parts[1:])
    server, rest = _name_after("s", rest)
    return (rest[0] if rest and rest[0] in _MODES else None), profile, server


def _name_after(what: str, parts: list[str]) -> tuple[str | None, list[str]]:
    if parts[:1] == [what] and len(parts) > 1:
        return urllib.parse.unquote(parts[1]), parts[2:]
    return None, parts


class RemoteBridgeConnector(BridgeConnector):
    """Connects to the hub at an address, and connects again after it was lost."""

    def __init__(
        self, address: HubAddress, hello: Hello, home: Endpoint, environ: Mapping[str, str], pause: Pause
    ) -> None:
        self.hello, self._address, self._pause = hello, address, pause
        known = known_hub(home.home, address.host, address.port, tls=address.tls)
        self._home, self._given = home, environ.get("TABANE_TOKEN") or known.key
        self._environ, self._authority = environ, known.authority
        self._texts: Mapping[str, str] = {}
        self._speaks_mcp = True

    def connect(self) -> HubConnection | None:
        self._texts = {}
        return self._try(time.monotonic() + LIMIT)

    def reach(self) -> HubConnection:
        self._texts = {}
        deadline = time.monotonic() + LIMIT
        wait = FIRST_PAUSE
        while True:
            found = self._try(deadline)
            if found:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise HubUnreachable(self._texts or self._timeout_texts(), "absent")
            self._pause(min(wait, left), -1)
            wait = min(2 * wait, LONGEST_PAUSE)

    def side(self, connection: HubConnection) -> LinePeer:
        if self._speaks_mcp:
            return WebSocketPeer(connection.fd, connection.welcome.max_line)
        from tabane.hub.bridge.archive_peer import ArchivePeer  # only if the server does not speak MCP

        return ArchivePeer(connection.fd, connection.welcome.max_line, lang_of(self.hello.lang))

    def stacks(self, pid: int) -> str | None:
        """Return None: the logs of that hub are on another machine."""
        return None

    # -- one attempt -----------------------------------------------------------------------------

    def _try(self, deadline: float) -> HubConnection | None:
        for family, place in self._resolve(deadline):
            peer = self._open_socket(family, place, deadline)
            if peer is None:
                continue
            token = self._find_token(peer)
            try:
                peer = self._with_tls(peer, deadline)
                found = self._open_websocket(peer, token, deadline)
            except OSError as error:
                self._texts = self._failure_texts(error)
                found = None
            except BaseException:
                peer.close()
                raise
            if found is not None:
                return HubConnection(peer.detach(), Welcome("", 0, max_line=MAX_LINE, grace=GRACE), found)
            peer.close()
        return None

    def _with_tls(self, peer: socket.socket, deadline: float) -> socket.socket:
        """Return a socket with TLS if the address asks for it. Raises HubUnreachable and OSError."""
        if not self._address.tls:
            return peer
        from tabane.hub.local.tls_tunnel import TlsFailure, client_context, secured  # only for TLS

        try:
            context = client_context(self._environ, self._authority)
            return secured(peer, self._address.host, context, deadline, self._pause)
        except TlsFailure as failure:
            peer.close()
            what = say("No TLS connection to {url}: {why}", url=self._address.url, why=failure)
            raise HubUnreachable(what, "tls") from None

    def _resolve(self, deadline: float) -> list[tuple[int, tuple[str, int]]]:
        """Return socket families and addresses of the host. The resolver has no limit of its own."""
        import threading

        found: list[tuple[int, tuple[str, int]]] = []
        failed: list[OSError] = []

        def resolve() -> None:
            try:
                given = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
                found.extend((family, place[:2]) for family, _, _, _, place in given)  # type: ignore[misc]
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=resolve, daemon=True)
        thread.start()
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(_STEP)
            self._pause(0, -1)
        if failed:
            self._texts = self._failure_texts(failed[0])
        elif not found:
            self._texts = self._texts or self._timeout_texts()
        return list(found)

    def _open_socket(self, family: int, place: tuple[str, int], deadline: float) -> socket.socket | None:
        peer = socket.socket(family, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            _keep_alive(peer)
            number = peer.connect_ex(place)
            poll = select.poll()
            poll.register(peer, select.POLLOUT)
            while not poll.poll(0):
                if time.monotonic() >= deadline:
                    self._texts = self._texts or self._timeout_texts()
                    peer.close()
                    return None
                self._pause(_STEP, -1)
            number = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not number:
                return peer
            raise OSError(number, os.strerror(number))
        except OSError as error:
            self._texts = self._failure_texts(error)
            peer.close()
            return None
        except BaseException:
            peer.close()
            raise

    def _open_websocket(self, peer: socket.socket, token: str | None, deadline: float) -> bytes | None:
        """Open a WebSocket. Return the bytes after the answer; None if another attempt may help."""
        key = base64.b64encode(os.urandom(16)).decode()
        peer.sendall(self._request(key, token))
        received = b""
        while b"\r\n\r\n" not in received and len(received) < _MOST_HEAD:
            if (left := deadline - time.monotonic()) <= 0:
                break
            self._pause(left, peer.fileno())
            try:
                chunk = peer.recv(_MOST_HEAD)
            except BlockingIOError:
                continue
            if not chunk:
                break
            received += chunk
        head, found, rest = received.partition(b"\r\n\r\n")
        if not found:
            late = time.monotonic() >= deadline
            self._texts = (self._texts or self._timeout_texts()) if late else say(
                "The server at {url} closed the connection without an answer. Check that this is "
                "the address of a hub.",
                url=self._address.url,
            )  # fmt: skip
            return None
        lines = head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if head.startswith(b"HTTP/1.1 101") and headers.get("sec-websocket-accept") == websocket.accept_of(
            key
        ):
            self._speaks_mcp = headers.get("sec-websocket-protocol") in PROTOCOLS
            return rest
        status = head.partition(b"\r\n")[0]
        if status.split(b" ")[1:2] and status.split(b" ")[1] in _TRANSIENT:
            self._texts = self._status(status)
            return None
        raise self._turned_away(status)

    def _request(self, key: str, token: str | None) -> bytes:
        address, mode = self._address, self.hello.mode or self._address.mode
        profile = self.hello.profile or address.profile
        server = self.hello.server or address.server
        lines = [
            f"GET {address.path} HTTP/1.1",
            f"Host: {address.place}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            f"Sec-WebSocket-Version: {websocket.VERSION}",
            f"Sec-WebSocket-Protocol: {', '.join(PROTOCOLS)}",
            f"Accept-Language: {lang_of(self.hello.lang)}",
            *([f"Authorization: Bearer {token}"] if token else []),
            *([f"{MODE_HEADER}: {mode}"] if mode else []),
            *([f"{PROFILE_HEADER}: {profile}"] if profile else []),
            *([f"{SERVER_HEADER}: {server}"] if server else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")

    # -- the token -------------------------------------------------------------------------------

    def _find_token(self, peer: socket.socket) -> str | None:
        """Return TABANE_TOKEN or the key that is kept for the hub, or this home's token for its own hub."""
        if self._given:
            return self._given if self._given.isprintable() and self._given.isascii() else None
        host, port = peer.getpeername()[:2]
        if not (host.startswith("127.") or host == "::1"):
            return None
        from tabane.hub.rpc.tcp_peers import TABLES, SocketAddress, uid_of_listener

        if any(map(os.path.exists, TABLES)):
            # The process at that port may belong to another user, who must not get the token.
            if uid_of_listener(SocketAddress(host, port)) != os.getuid():
                return None
        elif not lock.held(self._home.lock):
            return None
        return read_token(os.path.join(self._home.home, "token"))

    # -- messages --------------------------------------------------------------------------------

    def _turned_away(self, status: bytes) -> HubUnreachable:
        if status.split(b" ")[1:2] == [b"401"]:
            return HubUnreachable(say(
                "The hub at {url} does not accept the token or key. Set TABANE_TOKEN to an API key of "
                "the hub, or to the contents of the file token in its TABANE_HOME.",
                url=self._address.url), "token")  # fmt: skip
        return HubUnreachable(self._status(status), "stranger")

    def _status(self, status: bytes) -> dict[str, str]:
        why = status.decode("latin-1")[:200]
        return say("The server at {url} is not a hub: {why}", url=self._address.url, why=why)

    def _failure_texts(self, error: OSError) -> dict[str, str]:
        if isinstance(error, ConnectionRefusedError):
            return say(
                "The server at {url} is not running. On that machine, run: tabane start",
                url=self._address.url,
            )
        why = error.strerror or str(error)
        return say("The server at {url} cannot be reached: {why}", url=self._address.url, why=why)

    def _timeout_texts(self) -> dict[str, str]:
        return say(
            "The connection to {url} timed out after {seconds} {seconds:second|seconds}. Check the "
            "address, and check that the hub is running there: tabane status",
            url=self._address.url,
            seconds=int(LIMIT),
        )


def _keep_alive(peer: socket.socket) -> None:
    """Let the system detect within a minute that a server is gone without a message."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 20),
        ("TCP_KEEPALIVE", 20),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
    ):
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
