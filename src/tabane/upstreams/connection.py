"""Connections to upstreams as their owners see them: how one starts, its limits, and an adopted call.

An adopted call was made by an earlier hub in a session over HTTP, and goes on in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw, Struct

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.upstreams.call import Call, SessionPosition, UpstreamReply
from tabane.upstreams.conversation import CallPosition, Conversation

DOWNLOAD_WAIT = 5.0
"""Seconds that a call waits for a download. After that its answer says how far the download is."""

TICK = 0.25
"""Seconds between checks of deadlines, and of the end of an adopted call."""


class UpstreamConnection(Protocol):
    """A started upstream: its conversation, and the process behind it if there is one."""

    conversation: Conversation

    @property
    def pid(self) -> int: ...

    async def stop(self) -> Message:
        """Close its input, then send signals, until nothing is left of it. Return how it ended."""
        ...

    async def failure(self, how: Message) -> Message:
        """Return how it ended together with the cause and the fix, as far as its output shows them."""
        ...


Connect = Callable[[Server, Callable[[str, Raw], None], Callable[[str], None]], Awaitable[UpstreamConnection]]
"""Starts a server. The two callables get its notices, and the reason when its connection is over."""


class UpstreamLimits(Struct, frozen=True):
    """Limits of the instances of one server, and how many there may be; times in seconds.

    ``downloads`` is the number of packages that are downloaded at the same time, for all servers together.

    An instance that not all clients share is ended after ``instance_idle`` without a call. The limits of
    lists are the number and bytes of items of one list, and the bytes of all lists of a server.
    """

    start_timeout: float = 60.0
    download_timeout: float = 600.0
    downloads: int = 4
    probe_timeout: float = 1.5
    restart_first: float = 1.0
    restart_max: float = 30.0
    circuit_failures: int = 5
    circuit_wait: float = 60.0
    queue_length: int = 1000
    instance_idle: float = 600.0
    instances: int = 64
    list_items: int = 5_000
    list_size: int = 8 << 20
    catalogue_size: int = 16 << 20


class CallHolder(Protocol):
    """Whoever carries a call to a server: an instance, or the connection of an earlier hub's call."""

    server: Server

    def submit(self, call: Call) -> None: ...

    def cancel(self, call: Call, reason: str) -> None: ...

    def position_of(self, call: Call) -> CallPosition | None:
        """Return where a call is, and its open questions; None if it ends with the hub."""
        ...


class AdoptedCall:
    """A connection for one call of an earlier hub. It ends with the call, and the session with it.

    ``screen`` has the answer to the call looked at for credentials.
    """

    def __init__(
        self,
        server: Server,
        connection: UpstreamConnection,
        screen: Callable[[Server, Call], None],
        on_over: Callable[[], None],
    ) -> None:
        self.server, self.connection = server, connection
        self._screen, self._on_over = screen, on_over
        self._loop = asyncio.get_running_loop()
        self._watching: asyncio.Task[None] | None = None

    def begin(self, call: Call, position: SessionPosition) -> None:
        """Go on with the call: read the rest of its stream."""
        from tabane.upstreams.http_transport import StreamableHttpTransport

        self._screen(self.server, call)
        conversation = self.connection.conversation
        conversation.adopt(call, position.number, position.version)
        assert isinstance(conversation.transport, StreamableHttpTransport)  # the only one with positions
        conversation.transport.adopt(call, position)
        self._watching = self._loop.create_task(self._watch())

    def submit(self, call: Call) -> None:
        """Refuse another call: this connection is for one."""
        why = say("{server!n} runs no other call in that session.", server=self.server.name)
        call.answer(UpstreamReply(failure=UpstreamUnavailable(why)))

    def cancel(self, call: Call, reason: str) -> None:
        call.done = True
        self.connection.conversation.cancel(call, reason)

    def position_of(self, call: Call) -> CallPosition | None:
        return self.connection.conversation.position_of(call)

    async def close(self) -> None:
        """Let go of the connection; the session stays if its call is still open."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _watch(self) -> None:
        conversation = self.connection.conversation
        try:
            while conversation.in_flight:
                await asyncio.sleep(TICK)
                conversation.expire(self._loop.time())
        finally:
            self._on_over()
            await self.connection.stop()
