"""Connections to upstreams as their owners see them: preparation, start, limits, and an adopted call.

An adopted call was made by an earlier hub in a session over HTTP, and goes on in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Raw, Struct

from tabane.errors import LoginRequired, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.upstreams.call import Call, CallScreening, SessionPosition, UpstreamReply
from tabane.upstreams.conversation import CallPosition, Conversation
from tabane.upstreams.launching.start_preparation import (
    ConnectedCages,
    DownloadLimits,
    OnProgress,
    PreparedStart,
)
from tabane.upstreams.processes.processes import ChildProcesses

if TYPE_CHECKING:
    from tabane.upstreams.http_transport import StreamableHttpTransport
    from tabane.upstreams.launching.package_downloads import NetworkProbe, PackageDownloads
    from tabane.upstreams.logins.logins import ServerLogins

DOWNLOAD_WAIT = 5.0
"""Seconds that a call waits for a download. After that its answer says how far the download is."""

TICK = 0.25
"""Seconds between checks of deadlines, and of the end of an adopted call."""


class UpstreamConnection(Protocol):
    """A started upstream: its conversation, and the process behind it if there is one."""

    conversation: Conversation

    @property
    def pid(self) -> int:
        """Return the pid of the process; 0 if it has none here."""
        ...

    async def stop(self) -> Message:
        """Close its input, then send signals, until nothing is left of it. Return how it ended."""
        ...

    async def failure(self, how: Message) -> Message:
        """Return how it ended together with the cause and the fix, as far as its output shows them."""
        ...


Connect = Callable[[Server, Callable[[str, Raw], None], Callable[[str], None]], Awaitable[UpstreamConnection]]
"""Starts a server. The two callables get its notices, and the reason when its connection is over."""


class UpstreamState(Enum):
    """State of an instance."""

    IDLE = "idle"
    DOWNLOADING = "downloading"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    OPEN = "circuit open"
    LOGIN = "login required"
    STOPPED = "stopped"


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

    @property
    def downloading(self) -> DownloadLimits:
        """Return the limits of downloads."""
        return DownloadLimits(self.download_timeout, self.downloads)


class StartPreparation:
    """Makes servers ready to be started: downloads what they run, unless it is there.

    ``environment`` is the hub's. ``logs`` is the folder of the servers' logs. A server with a sandbox is
    downloaded in its cage too: packages bring programs that run while they are installed.
    """

    def __init__(
        self,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        limits: DownloadLimits,
        cages: ConnectedCages,
        network: NetworkProbe | None = None,
    ) -> None:
        self._processes, self._logs, self._environment = processes, logs, environment
        self._limits, self._cages, self._network = limits, cages, network
        self._started: PackageDownloads | None = None

    async def prepare(self, server: Server, on_progress: OnProgress) -> PreparedStart:
        """Download what the server runs, unless it is there. ``on_progress`` is called once it has to be.

        Raises UpstreamUnavailable if it takes longer than the time for a download. A step that fails
        otherwise raises nothing: the start itself shows whether the package can be had.
        """
        dressed = self._cages.dress(server)
        if dressed.transport != "stdio":
            return PreparedStart(dressed)
        return await self._downloads().prepare(dressed, on_progress)

    def ended(self, server: Server, failure: Message | None) -> None:
        """Note how the start went that was prepared; ``failure`` is None if the server works."""
        try:
            dressed = self._cages.dress(server)
        except UpstreamUnavailable:
            return  # nothing was prepared
        if dressed.transport == "stdio":
            self._downloads().ended(dressed, failure)

    def use_limits(self, limits: DownloadLimits) -> None:
        """Apply other limits, also to the downloads that wait for a place."""
        self._limits = limits
        if self._started is not None:
            self._started.use_limits(limits)

    def _downloads(self) -> PackageDownloads:
        if self._started is None:
            # with the first server that is a program
            from tabane.upstreams.launching.package_downloads import PackageDownloads

            self._started = PackageDownloads(
                self._processes, self._logs, self._environment, self._limits, self._cages, self._network
            )
        return self._started


class UpstreamContext:
    """Shared objects and limits of all instances of a hub.

    ``connect`` starts a server, or connects to where it runs. ``limits`` is replaced as a whole while
    instances run: do not keep it. ``starts`` bounds how many servers start at the same time. ``preparation``
    downloads what a server runs. ``logins`` knows which servers require a login. ``screening`` looks for
    credentials in calls.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        limits: UpstreamLimits,
        starts: asyncio.Semaphore,
        preparation: StartPreparation | None = None,
        logins: ServerLogins | None = None,
        screening: CallScreening | None = None,
    ) -> None:
        self.loop, self.connect, self.limits, self.starts = loop, connect, limits, starts
        self.preparation, self.logins, self.screening = preparation, logins, screening

    def awaited_login(self, server: str) -> LoginRequired | None:
        """Return the error of a server that requires a login; None if it requires none."""
        return self.logins.needed(server) if self.logins is not None else None


class CallHolder(Protocol):
    """Whoever carries a call to a server: an instance, or the connection of an earlier hub's call."""

    server: Server

    def submit(self, call: Call) -> None:
        """Send a call. It is always answered."""
        ...

    def cancel(self, call: Call, reason: str) -> None:
        """Drop a call: it gets no reply. The upstream is notified if the call was sent."""
        ...

    def position_of(self, call: Call) -> CallPosition | None:
        """Return where a call is, and its open questions; None if it ends with the hub."""
        ...


class AdoptedCall:
    """A connection for one call of an earlier hub. It ends with the call, and the session with it.

    ``screening`` looks for credentials in the answer. ``on_over`` is called when the call has ended.
    """

    def __init__(
        self,
        server: Server,
        connection: UpstreamConnection,
        screening: CallScreening,
        on_over: Callable[[AdoptedCall], None],
    ) -> None:
        self.server, self.connection = server, connection
        self._screening, self._on_over = screening, on_over
        self._loop = asyncio.get_running_loop()
        self._watching: asyncio.Task[None] | None = None

    def begin(self, call: Call, position: SessionPosition) -> None:
        """Go on with the call: read the rest of its stream."""
        self._screening.screen(self.server, call)
        conversation = self.connection.conversation
        conversation.adopt(call, position.number, position.version)
        transport = cast("StreamableHttpTransport", conversation.transport)  # it alone has positions
        transport.adopt(call, position)
        self._watching = self._loop.create_task(self._watch())

    def submit(self, call: Call) -> None:
        """Refuse another call: this connection is for one."""
        why = say("{server!n} runs no other call in that session.", server=self.server.name)
        call.answer(UpstreamReply(failure=UpstreamUnavailable(why)))

    def cancel(self, call: Call, reason: str) -> None:
        """Drop the call, and notify the server."""
        call.done = True
        self.connection.conversation.cancel(call, reason)

    def position_of(self, call: Call) -> CallPosition | None:
        """Return where the call is, and its open questions."""
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
            self._on_over(self)
            await self.connection.stop()
