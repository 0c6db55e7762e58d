"""The HTTP server, imported with the first connection: its connections and the parts of the application."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from tabane.hub.http.app import HttpApp, WebPages
from tabane.hub.http.authentication import Authenticator
from tabane.hub.http.connection import HttpConnection, date_line, wall_clock
from tabane.hub.http.door import HttpDoor, LoadedServer
from tabane.hub.http.gate import LOGIN_RETURN, HttpGate
from tabane.hub.http.legacy import HttpSessions
from tabane.hub.http.metrics import HttpMetrics
from tabane.hub.http.modern import SingleRequests
from tabane.hub.http.programs import Admission, HttpPrograms
from tabane.hub.http.request import HttpRequest
from tabane.hub.http.sources import ExposedPeer, FailedAttempts
from tabane.hub.http.stream import Pulse
from tabane.hub.http.tls import TlsEntrance

if TYPE_CHECKING:
    from tabane.hub.http.routing import RequestRouting

SPARE = 256
"""Connections beyond one for each session: requests beside its stream, health checks, the metrics."""

_FLUSH = 0.01


class HttpServer(LoadedServer):
    """Takes connections from a listening socket and has the application answer their requests.

    ``most`` is the number of connections that the limit of open files allows.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, door: HttpDoor, most: int) -> None:
        self.loop, self._door, self._most, self.waits = loop, door, most, door.waits
        self.pulse = Pulse(loop)
        hub = door.hub

        def refused(source: str, reason: str) -> None:
            hub.audit.telemetry.counters.count_auth_failure(reason)
            door.identities.on_refused(source, reason)

        attempts = FailedAttempts(loop, refused)
        authenticator = Authenticator(door.token, door.identities, attempts)
        self._gate = gate = HttpGate(hub.context, door.port, authenticator, hub.gateway)
        self._sessions = HttpSessions(hub.context, gate, hub.sessions, self.pulse)
        self._modern = SingleRequests(hub.context, gate, hub.sessions, hub.gateway, self.pulse)
        self._programs = HttpPrograms(door, gate)
        self._metrics = HttpMetrics(door, self._sessions, self._modern, self._programs, attempts)
        self._web = WebPages(door, gate, authenticator)
        logins = hub.gateway.logins
        assert logins is not None
        logins.hub_callback = lambda: door.root and door.root + LOGIN_RETURN
        self._routing: RequestRouting | None = None
        if door.routing is not None:
            self._routing = door.routing(gate, self._sessions)
            self._modern.marked = self._routing.marked
        self.app = HttpApp(
            door, gate, self._sessions, self._modern, self._programs, self._metrics, self._web, self._routing
        )
        self.open_connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.date = b""
        self._listening: asyncio.Server | TlsEntrance | None = None
        self._second = 0
        self._look: asyncio.TimerHandle | None = None
        self._revoked: asyncio.TimerHandle | None = None

    async def listen(self, listening: socket.socket) -> None:
        """Accept from now on, beginning with the clients that already wait."""
        tls = self._door.tls
        if tls is None:
            self._listening = await self.loop.create_server(self._connection, sock=listening, backlog=1024)
        else:
            self._listening = self._metrics.entrance = TlsEntrance(
                self.loop,
                listening,
                tls,
                self._connection,
                trusted=lambda address: address in self._gate.proxies,
                full=lambda: self.full,
            )
        self._look = self.loop.call_later(self.waits.look, self._looked)
        self._revoked = self.loop.call_later(self.waits.revoked, self._end_revoked)

    def _connection(self) -> HttpConnection:
        """Return the protocol of a new connection, as asyncio asks for it."""
        return HttpConnection(self)

    @property
    def exposed(self) -> list[ExposedPeer]:
        """Peers whose requests are refused because they come without TLS."""
        return self._gate.exposed()

    @property
    def full(self) -> bool:
        """Whether no further connection is taken: the sessions or the open files are at their limit."""
        return self.connections > min(2 * self._door.settings.http_sessions + SPARE, self._most)

    @property
    def connections(self) -> int:
        """Number of open connections, also of those in their TLS handshake."""
        pending = self._listening.pending if isinstance(self._listening, TlsEntrance) else 0
        return len(self.open_connections) + len(self._programs.sockets) + pending

    @property
    def busy(self) -> bool:
        """Return whether there is any client: a session, or a request that is not answered yet."""
        return bool(len(self._sessions) or self._modern.in_flight or self._programs.here or self._web.streams)

    def drain(self) -> None:
        """Begin nothing new for programs: requests that come now are answered with an error."""
        self._programs.drain()

    async def idle(self) -> None:
        """Wait until what programs asked for was answered, and the answers taken."""
        await self._programs.idle()

    def admit(self, request: HttpRequest) -> Admission | None:
        """Admit a request to become a WebSocket, and return its client; None if that takes a wait.

        Raises RefusedRequest.
        """
        links, routing = self._door.server_links, self._routing
        if links is not None and routing is not None and links.asked_by(request) and routing.admits(request):
            linked: Admission = links.admit(request)
            return linked
        return self._programs.admit_now(request)

    def refresh(self) -> None:
        """Let responses have the current time."""
        now = wall_clock()
        if now != self._second:
            self._second, self.date = now, date_line(now)

    def upgraded(self, transport: asyncio.Transport, admission: Admission) -> None:
        """Serve a connection as a WebSocket from here on."""
        opened = self._programs.opened(admission)
        transport.set_protocol(opened)
        opened.connection_made(transport)

    def lost(self) -> None:
        """Note that a connection is gone."""
        self._door.touch()

    async def close(self, limit: float) -> None:
        """Take no more connections; end those there are, at most ``limit`` seconds from now.

        The responses were ended before: what is left of them is sent.
        """
        for timer in (self._look, self._revoked):
            if timer:
                timer.cancel()
        if self._listening:
            self._listening.close()
        end = self.loop.time() + limit
        await self.app.close()
        while self.loop.time() < end:
            if not (self._programs.sockets or any(one.answering or one.unsent for one in self._open())):
                break
            await asyncio.sleep(_FLUSH)  # transports tell nothing
        for connection in self._open():
            # What is not read by now would keep the process from ending.
            (connection.transport.abort if connection.unsent else connection.transport.close)()
        for one in list(self._programs.sockets):
            one.abort()
        self.pulse.close()

    def _open(self) -> list[HttpConnection]:
        return list(self.open_connections)

    def _end_revoked(self) -> None:
        for kind in (self._sessions, self._modern, self._programs):
            kind.end_revoked()
        self._revoked = self.loop.call_later(self.waits.revoked, self._end_revoked)

    def _looked(self) -> None:
        now = self.loop.time()
        for connection in self._open():
            connection.overdue(now)
        self._look = self.loop.call_later(self.waits.look, self._looked) if self._listening else None
