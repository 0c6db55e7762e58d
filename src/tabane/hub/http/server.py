"""What is imported with the first connection: uvicorn, the application, and one pulse for all streams."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from uvicorn.config import Config
from uvicorn.server import ServerState

from tabane.hub.http.app import App
from tabane.hub.http.connection import Connection, date_header, wall_clock
from tabane.hub.http.stream import Pulse

if TYPE_CHECKING:
    from tabane.hub.http.door import HttpDoor
    from tabane.hub.http.programs import Admission

KEEP_ALIVE = 75
"""Seconds that a connection may be idle between two requests."""

SPARE = 256
"""Connections beyond one for each session: requests beside its stream, health checks, the metrics."""

_FLUSH = 0.01


class Server:
    """Takes connections from a listening socket and has the application answer their requests.

    ``most`` is how many connections there may be for the sake of open files.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, door: HttpDoor, most: int) -> None:
        self.loop, self._door, self._most, self.waits = loop, door, most, door.waits
        self.pulse = Pulse(loop)
        self.app = App(door, self.pulse)
        self.config = Config(
            self.app,
            http=Connection,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self.config.load()
        self.state = ServerState()
        self._listening: asyncio.Server | None = None
        self._second = 0
        self._look: asyncio.TimerHandle | None = None

    async def listen(self, listening: socket.socket) -> None:
        """Accept from now on, beginning with who waits already."""
        self._listening = await self.loop.create_server(
            lambda: Connection(self), sock=listening, backlog=1024
        )
        self._look = self.loop.call_later(self.waits.look, self._looked)

    @property
    def full(self) -> bool:
        return self.connections > min(2 * self._door.settings.http_sessions + SPARE, self._most)

    @property
    def connections(self) -> int:
        return len(self.state.connections) + len(self.app.programs.sockets)

    def refresh(self) -> None:
        """See that responses are given the time of now."""
        now = wall_clock()
        if now != self._second:
            self._second, self.state.default_headers = now, [date_header(now)]

    def upgraded(self, transport: asyncio.Transport, admission: Admission) -> None:
        """A connection is a WebSocket from here on."""
        opened = self.app.programs.opened(admission)
        transport.set_protocol(opened)
        opened.connection_made(transport)

    def lost(self) -> None:
        """A connection is gone."""
        self._door.touch()

    async def close(self, limit: float) -> None:
        """Take no more connections; end those there are, at most ``limit`` seconds from now.

        The responses were ended before: what is left of them is sent.
        """
        if self._look:
            self._look.cancel()
        if self._listening:
            self._listening.close()
        end = self.loop.time() + limit
        await self.app.close()
        while self._sends() and self.loop.time() < end:  # noqa: ASYNC110  (transports tell nothing)
            await asyncio.sleep(_FLUSH)
        for connection in self._open():
            # What is not read by now would keep the process from ending.
            (connection.transport.abort if connection.unsent else connection.transport.close)()
        for one in list(self.app.programs.sockets):
            one.abort()
        self.pulse.close()

    def _sends(self) -> bool:
        return bool(self.app.programs.sockets) or any(one.answering or one.unsent for one in self._open())

    def _open(self) -> list[Connection]:
        return [one for one in self.state.connections if isinstance(one, Connection)]

    def _looked(self) -> None:
        now = self.loop.time()
        for connection in self._open():
            connection.overdue(now)
        self._look = self.loop.call_later(self.waits.look, self._looked) if self._listening else None
