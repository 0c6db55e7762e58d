"""A blocking client of a hub at an address, over a WebSocket."""

from __future__ import annotations

import base64
import os
import select
import socket
import time
import urllib.parse

from tabane.errors import BadArguments, HubError
from tabane.hub.local.client import CONNECT_LIMIT, HubClient, HubDisconnected
from tabane.hub.local.connector import HubConnection
from tabane.hub.local.handshake import Welcome
from tabane.hub.local.known_hubs import KnownHub, known_hub
from tabane.messages import Message, say
from tabane.wire import json, websocket
from tabane.wire.json import InvalidJson
from tabane.wire.websocket import Fault, WebSocketClosed, WebSocketDecoder, WebSocketPing

SCHEMES = ("ws", "http", "wss", "https")
PORT, TLS_PORT = 8765, 443

MOST_MESSAGE = 64 << 20
"""Bytes of an answer: a hub sends less than 1 MiB."""

MOST_HEAD = 64 << 10


class WebSocketClient(HubClient):
    """A connection to a hub over TCP: a :class:`HubClient` in everything else."""

    def __init__(self, fd: int, rest: bytes) -> None:
        super().__init__(HubConnection(fd, Welcome(version="", pid=0), b""))
        self._decoder = WebSocketDecoder(MOST_MESSAGE, masked=False)
        self._lines = self._split(rest)

    def _send(self, line: bytes, deadline: float | None) -> None:
        self._write(line.rstrip(b"\n"), websocket.TEXT, deadline)

    def _write(self, payload: bytes, opcode: int, deadline: float | None) -> None:
        super()._send(websocket.frame(payload, opcode, os.urandom(4)), deadline)

    def _split(self, chunk: bytes) -> list[bytes]:
        lines: list[bytes] = []
        try:
            for event in self._decoder.feed(chunk):
                if isinstance(event, websocket.WebSocketMessage):
                    lines.append(event.data)
                elif isinstance(event, WebSocketPing):
                    self._write(event.data, websocket.PONG, time.monotonic() + CONNECT_LIMIT)
                elif isinstance(event, WebSocketClosed) and not lines:
                    raise HubDisconnected(
                        say("The hub closed the connection: {why}", why=event.reason or event.code)
                    )
        except Fault as fault:
            raise HubError(say("The hub's WebSocket response is not valid: {why}", why=fault)) from None
        return lines


def connect_to(
    url: str,
    token: str | None = None,
    lang: str = "",
    limit: float = CONNECT_LIMIT,
    home: str = "",
    authority: str | None = None,
) -> HubClient:
    """Return a client of the hub at ``ws://host:port/`` or ``wss://host/``; ``lang`` is for its answers.

    ``token`` is an API key of the hub, or its token, and ``authority`` the file of its authority. What is not
    given is what ``home`` keeps for that hub.

    Raises BadArguments if the address is not valid, and HubError if no hub answers there in ``limit``
    seconds, or with the hub's reason if it refuses.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadArguments(say("{url}: an address must be ws://host:port or wss://host.", url=url))
    tls = parts.scheme in ("wss", "https")
    try:
        place = parts.hostname, parts.port or (TLS_PORT if tls else PORT)
    except ValueError:
        raise BadArguments(say("{url}: an address must be ws://host:port or wss://host.", url=url)) from None
    known = known_hub(home, *place, tls=tls) if home else KnownHub(None, None)
    token, authority = token or known.key, authority or known.authority
    try:
        with _connected(place, limit, authority, tls=tls) as peer:
            rest = _upgrade(peer, parts, token, lang)
            peer.setblocking(False)
            return WebSocketClient(peer.detach(), rest)
    except OSError as error:
        why = error.strerror or error
        raise HubError(
            say(
                "There is no hub at {url}: {why}. Start one on that machine with: tabane start",
                url=url,
                why=why,
            )
        ) from None


def _connected(place: tuple[str, int], limit: float, authority: str | None, *, tls: bool) -> socket.socket:
    """Return a connection, inside TLS if asked. Raises HubError for a certificate, and OSError."""
    deadline = time.monotonic() + limit
    peer = socket.create_connection(place, timeout=limit)
    if not tls:
        return peer
    from tabane.hub.local.tls_tunnel import TlsFailure, client_context, secured  # only for TLS

    try:
        near = secured(peer, place[0], client_context(os.environ, authority), deadline, _wait_readable)
    except TlsFailure as failure:
        peer.close()
        address = f"{place[0]}:{place[1]}"
        raise HubError(say("No TLS connection to {url}: {why}", url=address, why=failure)) from None
    near.settimeout(limit)
    return near


def _wait_readable(seconds: float, fd: int) -> None:
    select.select([fd] if fd >= 0 else [], [], [], seconds)


def _upgrade(peer: socket.socket, url: urllib.parse.SplitResult, token: str | None, lang: str) -> bytes:
    """Ask for a WebSocket. Return what came after the answer. Raises HubError if it is refused."""
    key = base64.b64encode(os.urandom(16)).decode()
    # /mcp/p/NAME is the URL that an assistant has for a profile.
    parts = url.path.strip("/").split("/")
    profile = parts[2] if parts[:2] == ["mcp", "p"] and len(parts) > 2 else ""
    head = [
        f"GET {'/' if not url.path or url.path.startswith('/mcp') else url.path} HTTP/1.1",
        f"Host: {url.netloc.rpartition('@')[2]}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        f"Sec-WebSocket-Version: {websocket.VERSION}",
        *([f"Authorization: Bearer {token}"] if token else []),
        *([f"Accept-Language: {lang}"] if lang else []),
        *([f"Tabane-Profile: {profile}"] if profile else []),
    ]
    peer.sendall("\r\n".join([*head, "", ""]).encode())
    answer, rest = _head(peer)
    if answer.startswith(b"HTTP/1.1 101") and websocket.accept_of(key).encode() in answer:
        return rest
    raise HubError(_reason_of_refusal(peer, rest, answer.partition(b"\r\n")[0].decode("latin-1")))


def _head(peer: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < MOST_HEAD:
        chunk = peer.recv(1 << 16)
        if not chunk:
            break
        received += chunk
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _reason_of_refusal(peer: socket.socket, body: bytes, status: str) -> Message:
    """Return why a hub refuses; for another kind of server, its first line."""
    while len(body) < MOST_HEAD and (chunk := peer.recv(1 << 16)):
        body += chunk
    try:
        error = json.decode(json.fields(body)["error"])
        return say("The hub refused the connection: {why}", why=error["message"])
    except (InvalidJson, KeyError, TypeError):
        return say("The program that answers there is not a hub: {why}", why=status)
