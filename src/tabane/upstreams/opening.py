"""Opening of a connection to a server: its handshake, its era, and why it failed."""

from __future__ import annotations

import asyncio

from tabane.errors import TabaneError, UpstreamDied, UpstreamError, UpstreamUnavailable
from tabane.upstreams.connection import UpstreamConnection
from tabane.upstreams.refusals import no_answer
from tabane.wire.era import Era


class ConnectionOpening:
    """Handshakes with one server. ``era`` is the era that it had last time, None if that is not known."""

    def __init__(self, era: Era | None) -> None:
        self._era = era

    async def open(self, connection: UpstreamConnection, patience: float, probe_timeout: float) -> None:
        """Do the handshake within ``patience`` seconds. Otherwise stop the server, and raise UpstreamError.

        ``probe_timeout`` is the seconds that a server has to show that it is modern.
        """
        try:
            async with asyncio.timeout(patience):
                peer = await connection.conversation.open(self._era, probe_timeout)
        except BaseException as error:
            if _may_be_era(error) and self._era is None:
                # A legacy server may have ended at a question it did not know.
                self._era = Era.LEGACY
            ended = await asyncio.shield(connection.stop())
            if isinstance(error, UpstreamDied):
                raise UpstreamError(await connection.failure(ended)) from None
            if isinstance(error, TabaneError):
                raise UpstreamError(await connection.failure(error.message)) from None
            if isinstance(error, TimeoutError):
                raise UpstreamError(await connection.failure(no_answer(patience))) from None
            raise
        self._era = peer.era


def _may_be_era(error: BaseException) -> bool:
    """Return whether a start may have failed because of the era; an unreachable server shows nothing."""
    return isinstance(error, UpstreamError) and not isinstance(error, UpstreamUnavailable)
