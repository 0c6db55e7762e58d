"""The side of a link at a hub that uses a server which another hub of the group runs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from tabane.group.link_frames import LinkFrames, LinkHead
from tabane.group.membership import HubGroup
from tabane.group.signatures import ForgedRequest, ForwardedRequest, body_digest, signed
from tabane.group.state import GroupMember
from tabane.hub.group.group_client import CONNECT_TIMEOUT, FORWARDED, client_session
from tabane.hub.group.link_failures import failure_in
from tabane.hub.http.programs import LINK_HEAD
from tabane.messages import Message, say
from tabane.upstreams.call import Call, InputBacklogFull, SessionPosition
from tabane.upstreams.conversation import Conversation
from tabane.wire.era import Era

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

log = logging.getLogger(__name__)

LINKS = "/group/s/"
"""The beginning of the path at which another hub reaches a server of this one."""

HEARTBEAT = 10.0
"""Seconds between two pings, half of which the other hub has to answer one."""

MOST_WAITING = 128 << 20
"""Bytes that may wait for the other hub. Above it, calls are refused."""


class LinkTransport:
    """Carries a conversation to the hub that runs the server. Ends with the connection."""

    exact = mirrors_arguments = False

    def __init__(
        self,
        session: ClientSession,
        socket: ClientWebSocketResponse,
        frames: LinkFrames,
        conversation: Conversation,
    ) -> None:
        self.closed = False
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
                    await self._received(message.data.encode())
                elif message.type is WSMsgType.BINARY:
                    await self._received(message.data)
                else:
                    break
        except ForgedRequest:
            why = "the link to the hub that runs it is broken"
        finally:
            self.close(why)

    async def _received(self, data: bytes) -> None:
        head, line = self._frames.opened(data)
        if head.failure:
            self._conversation.fail(*failure_in(head.failure, line))
        elif (waits := self._conversation.receive(line, head.call or None)) is not None:
            await waits


class LinkedConnection:
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
    said = ForwardedRequest(
        group.me.id, member.id, group.next_number(), group.now, "", False, body_digest(b"")
    )
    signature = signed(group.key, said, "GET", path, ())
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
