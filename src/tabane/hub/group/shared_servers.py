"""Servers that one hub of a group runs for all: which hub that is, and links from the others to it.

A hub that needs such a server claims it in the shared state. It gets it if no hub has it, or the one that has
it is gone or leaving. Otherwise it opens a link to the hub that has it. So a server moves when it is needed.
:mod:`tabane.hub.group.server_relay` is the other side of a link.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.errors import StoreError, UpstreamUnavailable
from tabane.group.membership import BEAT, GroupMember, HubGroup
from tabane.group.signatures import ForgedRequest, ForwardedRequest, LinkFrames, LinkHead, body_digest, signed
from tabane.hub.group.group_routing import CONNECT_TIMEOUT, FORWARDED, client_session
from tabane.hub.group.server_relay import ServerRelay, failure_in
from tabane.hub.http.programs import LINK_HEAD, Admission, switching
from tabane.hub.http.request import HttpRequest, refusal
from tabane.messages import Message, say
from tabane.operations import LOCAL, Caller, Face
from tabane.servers.server import Server
from tabane.upstreams.call import Call, InputBacklogFull, SessionPosition, UpstreamTransport
from tabane.upstreams.connection import UpstreamConnection
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.upstream import Upstream
from tabane.wire import websocket
from tabane.wire.era import Era

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

log = logging.getLogger(__name__)

LINKS = "/group/s/"
"""The beginning of the path at which another hub reaches a server of this one."""

HEARTBEAT = 10.0
"""Seconds between two pings. The other hub has to answer one within half of them."""

MOST_WAITING = 128 << 20
"""Bytes that may wait for the other hub. Above it, calls are refused."""


class LinkTransport(UpstreamTransport):
    """Carries a conversation to the hub that runs the server. Ends with the connection."""

    closed = exact = mirrors_arguments = False

    def __init__(
        self,
        session: ClientSession,
        socket: ClientWebSocketResponse,
        frames: LinkFrames,
        conversation: Conversation,
    ) -> None:
        self._session, self._socket, self._frames = session, socket, frames
        self._conversation = conversation
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._tasks = [asyncio.ensure_future(work) for work in (self._write(), self._read())]
        self._ending: asyncio.Task[None] | None = None

    # -- outgoing --------------------------------------------------------------------------------

    def request(self, call: Call, line: bytes, era: Era) -> None:
        head = LinkHead(session=call.session, client=call.client, holder=call.holder, timeout=call.timeout)
        if self._waiting and self._waiting + len(line) > MOST_WAITING:
            raise InputBacklogFull
        self._send(head, line)

    def tell(self, line: bytes, about: int | None = None) -> None:
        if not self._waiting or self._waiting + len(line) <= MOST_WAITING:
            self._send(LinkHead(), line)

    def cancel(self, call: Call, line: bytes) -> None:
        self.tell(line)

    def position_of(self, call: Call) -> SessionPosition | None:
        return None

    def end_input(self) -> None:
        """Do nothing: the server goes on for others."""

    def close(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._ending = asyncio.ensure_future(self._end())
        self._conversation.lost(why)

    async def ended(self) -> None:
        """Wait until the connection is closed."""
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        try:
            await self._socket.close()
        finally:
            await self._session.close()

    def _send(self, head: LinkHead, line: bytes) -> None:
        data = self._frames.sealed(head, line.rstrip(b"\n"))
        self._waiting += len(data)
        self._outbox.put_nowait(data)

    async def _write(self) -> None:
        while True:
            data = await self._outbox.get()
            try:
                await self._socket.send_bytes(data)
            except OSError:
                return  # the reader sees the end
            self._waiting -= len(data)

    # -- incoming --------------------------------------------------------------------------------

    async def _read(self) -> None:
        from aiohttp import WSMsgType

        why = "the connection to the hub that runs it was lost"
        try:
            async for message in self._socket:
                if message.type is WSMsgType.TEXT:
                    await self._take_message(message.data.encode())
                elif message.type is WSMsgType.BINARY:
                    await self._take_message(message.data)
                else:
                    break
        except ForgedRequest:
            why = "the link to the hub that runs it is broken"
        finally:
            self.close(why)

    async def _take_message(self, data: bytes) -> None:
        head, line = self._frames.opened(data)
        if head.failure:
            self._conversation.fail(*failure_in(head.failure, line))
        elif (waits := self._conversation.receive(line, head.call or None)) is not None:
            await waits


class LinkedConnection(UpstreamConnection):
    """A connection to a server that the hub ``member`` runs."""

    def __init__(self, conversation: Conversation, transport: LinkTransport, member: GroupMember) -> None:
        self.conversation, self.member = conversation, member
        self._transport = transport

    @property
    def pid(self) -> int:
        return 0

    def lost(self) -> None:
        """End it, because its hub is gone: calls in flight are answered with UpstreamDied."""
        self._transport.close("the hub that ran it has gone")

    async def stop(self) -> Message:
        self._transport.close("it was stopped")
        await self._transport.ended()
        return say("the connection to the hub that runs it was closed")

    async def failure(self, how: Message) -> Message:
        return how


async def linked(
    group: HubGroup, member: GroupMember, server: str, conversation: Conversation, max_line: int
) -> LinkedConnection | None:
    """Open a link to a server that another hub runs. Return None if that hub cannot be reached."""
    from aiohttp import ClientError, ClientWSTimeout

    path = LINKS + quote(server, safe="")
    request = ForwardedRequest(
        group.me.id, member.id, group.next_number(), group.now, "", False, body_digest(b"")
    )
    signature = signed(group.key, request, "GET", path, ())
    session = client_session()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            socket = await session.ws_connect(
                member.address + path,
                headers={FORWARDED: signature},
                heartbeat=HEARTBEAT,
                max_msg_size=max_line + LINK_HEAD,
                timeout=ClientWSTimeout(ws_close=1.0),
            )
    except (ClientError, TimeoutError, OSError) as error:
        await session.close()
        log.info("hub %s at %s cannot be reached: %s", member.id, member.address, type(error).__name__)
        return None
    except BaseException:
        await session.close()
        raise
    frames = LinkFrames(group.key, signature, runs=False)
    transport = conversation.transport = LinkTransport(session, socket, frames, conversation)
    return LinkedConnection(conversation, transport, member)


PATIENCE = 15.0
"""Seconds for the hub that runs a server to be reachable, or to be known as gone."""


class SharedServers:
    """Connects to the servers of one hub's gateway; those that are not shared are its own matter.

    ``max_line`` is the limit for the bytes of a message.
    """

    def __init__(self, group: HubGroup, gateway: Gateway, max_line: int) -> None:
        self._group, self._gateway, self._max_line = group, gateway, max_line
        self._start = gateway.context.connect
        self._mine: set[str] = set()
        self._count = 0
        self._watching = False
        gateway.context.connect = self.connect
        gateway.runs_at = self.runs_at

    def runs_at(self, server: str) -> str:
        """Return the address of the hub that runs a server for all; empty if none is known to."""
        member = self._group.member(self._group.runner(server))
        return member.address if member is not None and member.serves else ""

    # -- connections of this hub -----------------------------------------------------------------

    async def connect(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> UpstreamConnection:
        """Start a server, or open a link to the hub that runs it. Raises UpstreamUnavailable."""
        if server.run != "group":
            return await self._start(server, on_notice, on_closed)
        if not self._watching:
            self._watching = True
            self._gateway.spawn(self._look_after())
        until = self._gateway.loop.time() + PATIENCE
        while True:
            member = await self._find_runner(server.name, until)
            if member is not None and member.id == self._group.me.id:
                self._mine.add(server.name)
                return await self._start(server, on_notice, on_closed)
            if member is not None:
                conversation = self._conversation(server, on_notice, on_closed)
                found = await linked(self._group, member, server.name, conversation, self._max_line)
                if found is not None:
                    return found
            await self._await_news(server.name, until)

    async def _find_runner(self, server: str, until: float) -> GroupMember | None:
        """Return the hub that runs a server from now on; None if it is not known."""
        group = self._group
        while not group.connected:
            await self._await_news(server, until)
        try:
            runner = await group.state.claim_server(server, group.me.id)
        except StoreError as error:
            raise UpstreamUnavailable(error.message) from None
        return group.me if runner == group.me.id else group.member(runner)

    async def _await_news(self, server: str, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._group.news()
        except TimeoutError:
            raise UpstreamUnavailable(self._unreachable(server)) from None

    def _unreachable(self, server: str) -> Message:
        if self._group.joined:
            return say(
                "The hub that runs {server!n} for the group cannot be reached: {address}",
                server=server,
                address=self.runs_at(server) or "?",
            )
        problem = self._group.problem
        return problem.message if problem else say("This hub has not joined its group yet.")

    def _conversation(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> Conversation:
        return Conversation(
            server.name,
            self._gateway.loop,
            on_notice=on_notice,
            on_closed=on_closed,
            max_line=self._max_line,
        )

    # -- links of other hubs ---------------------------------------------------------------------

    def asked_by(self, request: HttpRequest) -> bool:
        """Return whether a request is for a link to a server."""
        return request.path.startswith(LINKS)

    def admit(self, request: HttpRequest) -> Admission:
        """Admit a request of another hub, which is signed, to become a link. Raises RefusedRequest."""
        fault = websocket.fault_in(request.method, request.headers)
        if fault:
            raise refusal(400, fault)
        assert request.forwarded is not None
        group, server = self._group, unquote(request.path.removeprefix(LINKS))
        self._count += 1
        # The other hub has checked what its caller may do.
        caller = Caller(LOCAL.holder, Face.MCP, f"link-{self._count}", access=LOCAL)
        frames = LinkFrames(group.key, request.headers[FORWARDED], runs=True)
        relay = ServerRelay(server, request.forwarded.sender, caller, frames, lambda: self._instance(server))
        return Admission(caller, switching(request.headers["sec-websocket-key"]), link=relay)

    def _instance(self, name: str) -> Upstream:
        """Return the instance for other hubs. Raises TabaneError if this hub does not run the server."""
        server = self._gateway.servers.get(name)
        if server is None or server.run != "group":
            raise UpstreamUnavailable(
                say(
                    'The hub that runs {server!n} for the group has it without "run": "group" in its servers '
                    "file, or not at all. Give all hubs the same file.",
                    server=name,
                )
            )
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        return self._gateway.instance(name)

    # -- servers that move -----------------------------------------------------------------------

    async def _look_after(self) -> None:
        while True:
            try:
                async with asyncio.timeout(BEAT):
                    await self._group.news()
            except TimeoutError:
                pass
            for server in list(self._gateway.servers.values()):
                if server.run == "group":
                    # The calls at a hub that is leaving finish there; later ones go to another hub.
                    for instance in self._gateway.instances(server.name):
                        connection = instance.connection
                        if not isinstance(connection, LinkedConnection):
                            continue
                        member = self._group.member(connection.member.id)
                        if member is None or not member.alive:
                            connection.lost()
                        elif not member.serves:
                            self._gateway.replace_instances(server.name)
            try:
                await self._look_at_own()
            except StoreError as error:
                log.warning("it is not known who runs the servers of the group: %s", error)

    async def _look_at_own(self) -> None:
        """Give up what another hub has taken or may take, and what is not in the servers file any more."""
        group, gateway = self._group, self._gateway
        for name in list(self._mine) if group.connected else ():
            server = gateway.servers.get(name)
            if server is None or server.disabled or server.run != "group":
                self._mine.discard(name)
                await group.state.release_server(name, group.me.id)
            elif not group.in_touch or await self._was_taken(name):
                self._mine.discard(name)
                log.warning("this hub stops %s, which another hub of the group may run", name)
                for instance in gateway.instances(name):
                    instance.reconnect()

    async def _was_taken(self, name: str) -> bool:
        group = self._group
        if group.runner(name) in ("", group.me.id) or group.me.state == "leaving":
            return False
        # What was seen with the last heartbeat may be older than the claim.
        return await group.state.claim_server(name, group.me.id) != group.me.id
