"""Calls that an earlier hub has made in a session over HTTP, and that go on in this one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from tabane.errors import UpstreamUnavailable
from tabane.messages import say
from tabane.servers.server import Server
from tabane.upstreams.call import Call, SessionPosition, UpstreamReply
from tabane.upstreams.connection import UpstreamConnection
from tabane.upstreams.conversation import CallPosition

if TYPE_CHECKING:
    from collections.abc import Callable

TICK = 0.25
"""Seconds between checks of deadlines, and of the end of the call."""


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
