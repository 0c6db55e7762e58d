"""Clients of a hub with a given access, over each face, that keep all bytes which they are given."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from tabane.hub.clients.session import LineOutlet
from tabane.hub.rpc.dispatcher import RpcSession
from tabane.operations import Caller, Door, Face
from tabane.operations.caller import Access
from tabane.settings import Mode
from tabane.wire.websocket import WebSocketMessage
from tests.e2e.access.world import World
from tests.harness.http_hub import MODERN, HttpClient, modern, request
from tests.harness.rpc_hub import WebSocketClient
from tests.harness.running_hub import ENVELOPE, SOON, Json

_numbers = count(1)


class Talk(Protocol):
    """A connected client. ``heard`` is everything that it was given so far."""

    heard: bytearray

    async def ask(self, method: str, params: Json | None = None) -> bytes:
        """Send a request; return its answer."""
        ...

    async def aclose(self) -> None: ...


class LineTalk:
    """A client that exchanges lines over a socket. ``modern``: each request carries the envelope."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, modern: bool = False
    ) -> None:
        self.heard = bytearray()
        self._reader, self._writer, self._modern = reader, writer, modern

    async def ask(self, method: str, params: Json | None = None) -> bytes:
        number = next(_numbers)
        self.send(method, params, number)
        return await asyncio.wait_for(self._answer_to(number), SOON)

    def send(self, method: str, params: Json | None = None, number: int | None = None) -> None:
        given = {**(params or {}), "_meta": ENVELOPE} if self._modern else params or {}
        message: Json = {"jsonrpc": "2.0", "method": method, "params": given}
        if number is not None:
            message["id"] = number
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _answer_to(self, number: int) -> bytes:
        while True:
            line = await self._reader.readline()
            assert line, "the hub has hung up"
            self.heard += line
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return line

    async def aclose(self) -> None:
        self._writer.close()


async def _sockets() -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the hub's descriptor of a connection, and our end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 28)
    return theirs.detach(), reader, writer


async def line_session(
    world: World, access: Access, mode: Mode = "search", version: str = "2025-06-18"
) -> LineTalk:
    """Return an MCP session over a socket, past its handshake."""
    hub, (fd, reader, writer) = world.hub, await _sockets()
    caller = Caller("local", Face.MCP, f"test-{next(_numbers)}", access=access)
    outlet = LineOutlet(hub.loop, lingers=False)
    session = hub.sessions.begin(caller, mode, outlet)
    outlet.open(session, hub.batch, fd, fd, max_line=1 << 20, max_outbox=1 << 24)
    talk = LineTalk(reader, writer, modern=version == MODERN)
    if version == MODERN:
        await talk.ask("server/discover")
    else:
        client = {"name": "test", "version": "1"}
        await talk.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})
        talk.send("notifications/initialized")
    return talk


async def program(world: World, access: Access, door: Door | None = None) -> LineTalk:
    """Return a program on the hub's socket, which calls operations."""
    hub, (fd, reader, writer) = world.hub, await _sockets()
    caller = Caller("local", Face.RPC, f"test-{next(_numbers)}", access=access, connected=True)
    closed: Callable[[Any], None] = lambda session: hub.jobs.session_ended(caller.session)  # noqa: E731
    RpcSession(hub.loop, hub.batch, fd, door or world.served.door.rpc, caller, closed).start()
    return LineTalk(reader, writer)


class PostTalk:
    """A client that posts each request, with an identity in its header. ``modern`` as for a line."""

    def __init__(self, peer: HttpClient, path: str, authorization: str | None, *, modern: bool) -> None:
        self.heard = bytearray()
        self._peer, self._path, self._modern = peer, path, modern
        self._headers: dict[str, str | None] = {"authorization": authorization}

    async def begin(self, version: str) -> None:
        """Begin a session of the handshake era."""
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        answer = await self._peer.post(request("initialize", params, 0), self._path, **self._headers)
        assert answer.status == 200, answer
        self.heard += answer.body
        self._headers["mcp_session_id"] = answer.headers["mcp-session-id"]
        if version != "2025-03-26":
            self._headers["mcp_protocol_version"] = version

    async def ask(self, method: str, params: Json | None = None) -> bytes:
        message, headers = request(method, params, next(_numbers)), dict(self._headers)
        if self._modern:
            message, mirrored = modern(message)
            headers |= mirrored
        answer = await self._peer.begin(message, self._path, **headers)
        body = answer.body
        if answer.streams:
            body = await self._last(message["id"])
        self.heard += body
        return body

    async def _last(self, number: int) -> bytes:
        """Return the answer at the end of a stream."""
        while True:
            message = await self._peer.message()
            line = json.dumps(message).encode() + b"\n"
            if message.get("id") == number and "method" not in message:
                while await self._peer.event() is not None:
                    pass
                return line
            self.heard += line

    async def aclose(self) -> None:
        self._peer.close()


class FrameTalk:
    """A program, or with the subprotocol ``mcp`` an assistant, on a WebSocket."""

    def __init__(self, frames: WebSocketClient) -> None:
        self.heard = bytearray()
        self._frames = frames

    async def ask(self, method: str, params: Json | None = None) -> bytes:
        number = next(_numbers)
        self._frames.send(request(method, params, number))
        while True:
            event = await self._frames.event()
            assert isinstance(event, WebSocketMessage), event
            self.heard += event.data + b"\n"
            message = json.loads(event.data)
            if message.get("id") == number and "method" not in message:
                return event.data

    async def aclose(self) -> None:
        self._frames.close()
