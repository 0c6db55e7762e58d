"""The outlet of MCP clients on a WebSocket: a bridge on another machine, or the client of an SDK."""

from __future__ import annotations

import asyncio

from tabane.hub.clients.outlet import ROOM, undelivered
from tabane.hub.clients.session import Session
from tabane.hub.http.websocket import WebSocket
from tabane.hub.local.handshake import DRAIN
from tabane.operations import Caller
from tabane.wire import websocket


class WebSocketOutlet:
    """The outlet of a session, which also takes the messages of a :class:`WebSocket`.

    If more than ``most`` bytes wait for the client, an answer becomes an error and a notification is
    dropped: one request fails, the connection stays. ``notes``: the client is a bridge, which is told when
    the hub drains.
    """

    def __init__(self, caller: Caller, most: int, *, notes: bool) -> None:
        self.caller, self._most, self._notes = caller, most, notes
        self._drains = False
        self._socket: WebSocket
        self._session: Session

    def open(self, socket: WebSocket, session: Session) -> None:
        """Set before the first message arrives."""
        self._socket, self._session = socket, session

    # -- incoming --------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Return False: the hub itself waits for the calls of its sessions."""
        return False

    @property
    def draining(self) -> bool:
        return self._drains

    @draining.setter
    def draining(self, drains: bool) -> None:
        if drains and not self._drains:
            self._drains = True
            self.drain()

    def receive(self, text: bytes, send: object) -> asyncio.Future[None]:
        """Give the session a message. It answers through the outlet."""
        # Line breaks between tokens would split the lines that servers on pipes get.
        self._session.receive(text.replace(b"\n", b" ").replace(b"\r", b" "))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def cancel(self) -> None:
        """Cancel everything: the client is gone, or about to be disconnected."""
        self._session.gone()

    # -- outgoing --------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        return self._socket.unsent

    @property
    def closed(self) -> bool:
        return self._socket.ending

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        if self._waits_with(line):
            line = undelivered(request_id, len(line), self.unsent, self.caller.lang)
        self._socket.tell(line)

    def tell(self, line: bytes, about: bytes | None) -> None:
        if not self._waits_with(line):
            self._socket.tell(line)

    def drain(self) -> None:
        if self._notes:
            self._socket.tell(DRAIN)

    def close(self, why: str) -> None:
        self._socket.close(websocket.GOING_AWAY, why)

    def _waits_with(self, line: bytes) -> bool:
        """Return whether more than the client's share would wait, if this line waited too.

        While little waits, a line is taken however long it is.
        """
        waiting = self.unsent
        return waiting > ROOM and waiting + len(line) > self._most
