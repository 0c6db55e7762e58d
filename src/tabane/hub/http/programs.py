"""JSON-RPC over HTTP: programs that become a WebSocket, and programs that post one message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol, cast, get_args

from msgspec import structs

from tabane.hub.http.authentication import has_ended
from tabane.hub.http.door import HttpDoor
from tabane.hub.http.gate import SUBPROTOCOL, HttpGate, token_in
from tabane.hub.http.request import (
    HeaderList,
    HttpReply,
    HttpRequest,
    RequesterGone,
    answer_reply,
    refusal,
    traced,
)
from tabane.hub.http.websocket import Receiver, WebSocket, WebSocketOutlet
from tabane.hub.rpc.dispatcher import MOST_ANSWER, ClientGone, Dispatcher
from tabane.operations import Caller
from tabane.settings import Mode
from tabane.wire import rpc, websocket
from tabane.wire.http import is_json, offered

RPC = "/rpc"
SOCKETS = frozenset({"/", RPC})
"""Paths of WebSockets; an original twilog client requests /."""

MOST_MESSAGE = 16 << 20
"""Bytes of a message from a program over the network."""

LINK_HEAD = 64 << 10
"""Bytes of a message between hubs beside its line."""

MCP_PROTOCOLS = ("tabane.mcp", "mcp")
"""Subprotocols whose messages are MCP: that of a bridge, and that of other MCP clients over a WebSocket."""

SESSION = "post"
"""Begins the session name of all clients of one identity that post. Servers of one client and parts of long
results belong to it."""

SERVER_HEADER = "tabane-server"
"""Names the server that an MCP client over WebSocket wants to be connected to alone."""

PROFILE_HEADER = "tabane-profile"
"""Names the profile of a WebSocket or of a posted message, whose path names none."""

ENDED = "the key or token of this connection is no longer valid"

STALLED = 60.0
"""Seconds that a client may leave a part of a streamed answer unread."""

NDJSON_HEAD: HeaderList = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]

_LOOK = 0.01


class LinkReceiver(Receiver, Protocol):
    """Takes the messages of another hub of the group."""

    def open(self, socket: WebSocket) -> None:
        """Take the connection, before its first message arrives."""
        ...


class Admission(NamedTuple):
    """A request that becomes a WebSocket: the client, and the head of the response.

    ``mode`` is how tools are disclosed if the messages are MCP, None if they are JSON-RPC. ``notes`` says
    whether the client is a bridge, which reads the hub's notes between its messages. ``link`` takes the
    messages if the client is another hub of the group.
    """

    caller: Caller
    head: bytes
    mode: Mode | None = None
    notes: bool = False
    link: LinkReceiver | None = None


class HttpPrograms:
    """Admits programs, and knows the connected ones."""

    def __init__(self, door: HttpDoor, gate: HttpGate) -> None:
        self._door, self._hub, self._gate = door, door.hub, gate
        self.sockets: set[WebSocket] = set()
        self._posts: dict[Dispatcher, HttpRequest] = {}
        self._count = 0
        self._draining = False

    @property
    def limit(self) -> int:
        """Return the length limit of a message in bytes."""
        return min(MOST_MESSAGE, self._hub.settings.max_line)

    @property
    def here(self) -> bool:
        """Whether a program is connected, or waits for an answer."""
        return bool(self.sockets or self._posts)

    # -- WebSocket ---------------------------------------------------------------------------------

    def admit_now(self, request: HttpRequest) -> Admission | None:
        """Admit a request to become a WebSocket, and return its client.

        Return None if that takes a wait: to identify the client, or to slow down its refusal.
        Raises RefusedRequest.
        """
        self._gate.check(request)
        protocols = self._check_upgrade(request)
        request.access = self._gate.known(request)
        if request.access is None and token_in(request) is not None:
            return None
        return self._admission(request, protocols)

    async def admit(self, request: HttpRequest) -> Admission:
        """Identify and admit a request that the gate has checked. Raises RefusedRequest."""
        protocols = self._check_upgrade(request)
        await self._gate.identify(request)
        return self._admission(request, protocols)

    def _check_upgrade(self, request: HttpRequest) -> list[str]:
        """Return the subprotocols that a request for a WebSocket offers. Raises RefusedRequest."""
        if request.path not in SOCKETS:
            raise refusal(404, "there is no WebSocket at this path; it is at / and at /rpc")
        headers = request.headers
        if headers.get("sec-websocket-version") != websocket.VERSION:
            version = (b"sec-websocket-version", websocket.VERSION.encode())
            raise refusal(426, "Sec-WebSocket-Version: 13 is spoken here", version)
        fault = websocket.fault_in(request.method, headers)
        if fault:
            raise refusal(400, fault)
        if self._hub.sessions.draining or self._draining:
            raise refusal(503, "The hub is stopping.", (b"retry-after", b"1"))
        if len(self.sockets) >= self._hub.settings.max_sessions:
            text = "the hub has as many WebSockets as it takes (the setting max_sessions)"
            raise refusal(503, text, (b"retry-after", b"5"))
        return offered(headers.get("sec-websocket-protocol"))

    def _admission(self, request: HttpRequest, protocols: list[str]) -> Admission:
        headers, access = request.headers, request.access
        profile = headers.get(PROFILE_HEADER, "")
        if profile and access is not None:
            self._gate.enter_profile(request, profile)
            access = request.access
        server = headers.get(SERVER_HEADER, "")
        if server and access is not None and MCP_PROTOCOLS[0] in protocols:
            self._gate.enter_server(request, server)
            access = request.access
        self._count += 1
        key = headers["sec-websocket-key"]
        # Without the token, only the archive is served, as JSON-RPC. Then no subprotocol is chosen.
        spoken = next((one for one in protocols if one in MCP_PROTOCOLS), None) if access else None
        if spoken is None or access is None:
            caller = structs.replace(self._gate.program(request, f"ws-{self._count}", access), connected=True)
            return Admission(caller, switching(key, SUBPROTOCOL if SUBPROTOCOL in protocols else None))
        caller = self._gate.caller(request, f"ws-{self._count}", access)
        mode = cast("Mode", headers.get("tabane-mode"))
        mode = mode if mode in get_args(Mode) else self._hub.settings.mode
        return Admission(caller, switching(key, spoken), mode, spoken == MCP_PROTOCOLS[0])

    def opened(self, admission: Admission) -> WebSocket:
        """Return the connection of a request that was admitted."""
        if admission.link is not None:
            limit = self._hub.settings.max_line + LINK_HEAD
            linked = WebSocket(admission.link, limit, self._hub.context, self._forget)
            admission.link.open(linked)
            self.sockets.add(linked)
            return linked
        if admission.mode is not None:
            return self._open_session(admission, admission.mode)
        dispatcher = Dispatcher(self._door.rpc, admission.caller, MOST_ANSWER)
        opened = WebSocket(dispatcher, self.limit, self._hub.context, self._forget)
        self.sockets.add(opened)
        return opened

    def _open_session(self, admission: Admission, mode: Mode) -> WebSocket:
        """Serve a client of MCP: a session like any other, with the messages of a WebSocket."""
        settings = self._hub.settings
        outlet = WebSocketOutlet(admission.caller, settings.outbox, notes=admission.notes)
        opened = WebSocket(outlet, settings.max_line, self._hub.context, self._forget)
        outlet.open(opened, self._hub.sessions.begin(admission.caller, mode, outlet))
        self.sockets.add(opened)
        return opened

    def _forget(self, left: WebSocket) -> None:
        self.sockets.discard(left)
        self._hub.gateway.leave(left.dispatcher.caller.session)
        self._hub.jobs.session_ended(left.dispatcher.caller.session)
        self._door.touch()

    # -- POST --------------------------------------------------------------------------------------

    async def post(self, request: HttpRequest) -> None:
        """Answer the message that a POST carries. Raises RefusedRequest, BodyTooLarge and RequesterGone."""
        access = await self._gate.identify(request)
        profile = request.headers.get(PROFILE_HEADER, "")
        if profile and access is not None:
            self._gate.enter_profile(request, profile)
            access = request.access
        if not is_json(request.headers.get("content-type")):
            raise refusal(415, "Content-Type: application/json is what is read here")
        message = rpc.read(await request.body(self.limit))
        caller = traced(self._gate.program(request, f"{SESSION}:{request.owner}", access), request)
        dispatcher = Dispatcher(self._door.rpc, caller, MOST_ANSWER)
        self._posts[dispatcher] = request
        answering = _PostAnswer(request, dispatcher.streams(message))
        try:
            await _while_there(request, dispatcher.answer(message, answering.send))
            await answering.end()
        finally:
            self._posts.pop(dispatcher, None)

    # -- the end -----------------------------------------------------------------------------------

    def end_revoked(self) -> None:
        """End the connections and requests of keys that were revoked or have expired."""
        for socket in list(self.sockets):
            if has_ended(socket.dispatcher.caller.access):
                socket.close(websocket.POLICY, ENDED)
        for dispatcher, request in list(self._posts.items()):
            if has_ended(dispatcher.caller.access):
                request.line.transport.abort()

    def drain(self) -> None:
        """Begin nothing new: requests that come now are answered with an error."""
        self._draining = True
        for socket in self.sockets:
            socket.dispatcher.draining = True

    async def idle(self) -> None:
        """Wait until everything asked for was answered, and the answers taken."""
        while self._posts or any(socket.busy for socket in self.sockets):  # noqa: ASYNC110  (nothing tells)
            await asyncio.sleep(_LOOK)

    def close(self) -> None:
        """Close all WebSockets."""
        for socket in list(self.sockets):
            socket.close(websocket.GOING_AWAY, "the hub ended")


class _PostAnswer:
    """The response to a POST: one JSON text, or lines of them as they come."""

    def __init__(self, request: HttpRequest, streams: bool) -> None:
        self._request, self._streams = request, streams
        self._line: bytes | None = None

    async def send(self, line: bytes) -> None:
        """Take the next line. It is sent now if there are several."""
        if not self._streams:
            self._line = line
            return
        if not self._request.status:
            await self._request.start(200, [*NDJSON_HEAD, *self._request.extra])
        try:
            async with asyncio.timeout(STALLED):
                await self._request.send(line, more=True)
        except TimeoutError:
            self._request.line.transport.abort()
            raise ClientGone from None

    async def end(self) -> None:
        """End the response."""
        if self._streams:
            await self._request.send(b"", more=False)
        else:
            await self._request.reply(answer_reply(self._line) if self._line else HttpReply(204))


async def _while_there(request: HttpRequest, work: Coroutine[Any, Any, None]) -> None:
    """Do work unless the client goes away. Raises RequesterGone if it does."""
    task = asyncio.ensure_future(work)
    request.line.on_lost = task.cancel
    try:
        await task
    except ClientGone:
        raise RequesterGone from None
    except asyncio.CancelledError:
        if task.cancelled():
            raise RequesterGone from None
        task.cancel()
        raise
    finally:
        request.line.on_lost = None


def switching(key: str, named: str | None = None) -> bytes:
    """Return the head of the response to a request that becomes a WebSocket."""
    protocol = f"Sec-WebSocket-Protocol: {named}\r\n" if named else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {websocket.accept_of(key)}\r\n{protocol}\r\n"
    ).encode()
