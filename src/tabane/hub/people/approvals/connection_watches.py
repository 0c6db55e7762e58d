"""Connections whose callers want to know at once which approvals their own calls wait for."""

from __future__ import annotations

import asyncio

from tabane.errors import Conflict, HubError
from tabane.guard.approvals.approval import Approval
from tabane.messages import say

MOST = 256
"""Connections that watch at the same time."""


class ConnectionWatches:
    """Waits of connections for the next approval that one of their own calls needs.

    ``asks``: a person sits at the connection and is asked.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[str, tuple[asyncio.Future[Approval], bool]] = {}

    async def next(self, session: str, *, asks: bool) -> Approval:
        """Return the next approval that a call of this connection waits for.

        Raises Conflict if the connection waits already, and HubError if too many do.
        """
        if session in self._open:
            raise Conflict(say("This connection waits for its next approval already."))
        if len(self._open) >= MOST:
            raise HubError(say("Too many connections wait for their next approval ({limit}).", limit=MOST))
        asked: asyncio.Future[Approval] = self._loop.create_future()
        self._open[session] = asked, asks
        try:
            return await asked
        finally:
            del self._open[session]

    def has(self, session: str) -> bool:
        """Return whether a connection is told what its calls wait for."""
        return session in self._open

    def tell(self, session: str, approval: Approval) -> bool:
        """Tell a connection what its call waits for. Return whether a person is asked there."""
        asked, asks = self._open.get(session, (None, False))
        if asked is None or asked.done():
            return False
        asked.set_result(approval)
        return asks
