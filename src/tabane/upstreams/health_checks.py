"""Health checks of an instance, and the end of one that does not answer."""

from __future__ import annotations

from typing import Protocol

from tabane.errors import UpstreamError, UpstreamTimeout
from tabane.upstreams.connection import UpstreamConnection
from tabane.upstreams.upstream_state import UpstreamHealth, UpstreamState
from tabane.wire.era import Era


class CheckedInstance(Protocol):
    """An instance as its health checks see it."""

    state: UpstreamState
    vitals: UpstreamHealth

    @property
    def connection(self) -> UpstreamConnection | None: ...

    @property
    def in_flight(self) -> int: ...


class InstanceHealth:
    """Health checks of one instance."""

    def __init__(self, instance: CheckedInstance) -> None:
        self._instance = instance
        self._missed = 0

    async def look_after(self, timeout: float) -> None:
        """Check, and close the connection after two checks without an answer while no call is in flight.

        The server is then restarted as after any other end.
        """
        instance = self._instance
        self._missed = 0 if await self.check(timeout) else self._missed + 1
        connection = instance.connection
        if self._missed >= 2 and connection and not instance.in_flight:
            self._missed = 0
            connection.conversation.close("it did not answer two health checks")

    async def check(self, timeout: float) -> bool:
        """Return whether a running instance answers. One with calls in flight counts as healthy."""
        instance = self._instance
        vitals, connection = instance.vitals, instance.connection
        if (
            instance.state is not UpstreamState.READY
            or connection is None
            or connection.conversation.peer is None
        ):
            return False
        method = b"ping" if connection.conversation.peer.era is Era.LEGACY else b"server/discover"
        try:
            await connection.conversation.ask(method, {}, timeout=timeout)
            vitals.healthy = True
        except UpstreamTimeout:
            vitals.healthy = instance.in_flight > 0
        except UpstreamError:
            # An error is an answer too: the server works, even if it does not know ping.
            vitals.healthy = instance.connection is connection
        return vitals.healthy
