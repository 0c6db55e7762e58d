"""Connections to servers by transport: child processes, streamable HTTP, and HTTP with SSE."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Raw

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server, target_of
from tabane.upstreams.call import Call, StdioTransport, UpstreamTransport
from tabane.upstreams.connected_cages import ConnectedCages
from tabane.upstreams.hub_chain import HubChain
from tabane.upstreams.launching.caged_downloads import CagedDownloads
from tabane.upstreams.launching.network_probe import NetworkProbe
from tabane.upstreams.launching.package_downloads import PackageDownloads
from tabane.upstreams.processes.child_environment import (
    EnvironmentNames,
    child_environment,
    environment_names,
)
from tabane.upstreams.processes.processes import ChildProcess, ChildProcesses
from tabane.wire.channel import LineBatch, LineChannel
from tabane.wire.era import Era
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.guard.cages.cages import Cages
    from tabane.net.http_client import UpstreamHttpClient
    from tabane.net.http_credentials import RequestCredentials
    from tabane.upstreams.connection import UpstreamConnection
    from tabane.upstreams.conversation import Conversation
    from tabane.upstreams.processes.stderr import StderrLog

GRACE = 2.0
"""Seconds from end of file to SIGTERM, and from there to SIGKILL."""

GOODBYE = 2.0
"""Seconds to wait until a server at a URL has been notified of the end."""


class Connector:
    """Starts servers, or connects to them.

    ``environment`` is the hub's own: child processes get a few of its variables, and it names proxies.
    ``logs`` is the folder for the stderr of child processes, ``max_line`` the limit for the bytes of a
    message. ``downloads`` returns the time for one download in seconds, and how many may run at the same
    time. ``preparation`` makes servers ready to be started. ``extensions`` returns those of the protocol that
    a server is told of that all clients share. ``chain`` recognizes this hub among its servers.
    ``credentials`` returns those of a login at a server; None if it is used without one. ``cages`` returns
    the builder of cages; it is called only for a server that has a sandbox or an image.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: LineBatch,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        max_line: int,
        downloads: Callable[[], tuple[float, int]],
        extensions: Callable[[], Members] = dict,
        chain: HubChain | None = None,
        credentials: Callable[[Server], RequestCredentials | None] = lambda server: None,
        cages: Callable[[], Cages] | None = None,
        network: NetworkProbe | None = None,
    ) -> None:
        self.cages = ConnectedCages(cages, environment)
        self._extensions, self._chain, self._credentials = extensions, chain, credentials
        self._loop, self._batch, self._processes = loop, batch, processes
        self._logs, self._environment, self._max_line = logs, environment, max_line
        self.preparation = CagedDownloads(
            PackageDownloads(
                loop, processes, logs, environment, downloads, self.cages.build_download, network
            ),
            self.cages.dressed,
        )

    def obstacle(self, server: Server) -> Message | None:
        """Return why the server cannot be started, as far as that is known without a start. Blocks.

        Returns None if there is no obstacle, or if it cannot be known: for a server at a URL, and for a
        command that depends on the client's folder.
        """
        from tabane.upstreams.processes.launch_errors import obstacle

        if server.transport != "stdio" or (server.needs_folder and "${" in f"{server.command}{server.cwd}"):
            return None
        if server.image:
            return self.cages.container_problem()
        environment = child_environment(self._environment, server.env, server.inherit)
        return obstacle(server.command, environment, server.cwd)

    def passed(self, server: Server) -> EnvironmentNames:
        """Return which variables of the hub the server gets. None for a server at a URL."""
        if server.transport != "stdio":
            return EnvironmentNames()
        return environment_names(self._environment, server.env, server.inherit)

    async def __call__(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> UpstreamConnection:
        """Start a server, or prepare a connection to its URL. Raises UpstreamUnavailable if it cannot."""
        if server.transport == "stdio":
            return await self._start(server, on_notice, on_closed)
        return self._connect(server, on_notice, on_closed)

    async def _start(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> StdioConnection:
        from tabane.upstreams.processes.stderr import StderrLog

        server = self.cages.dressed(server)
        environment = child_environment(self._environment, server.env, server.inherit)
        child = await self._spawn(server, environment)
        redact = Redactor(server.secrets).text
        stderr = StderrLog(self._loop, child.stderr_fd, self._logs, server.name, redact)
        conversation = self._conversation(server, on_notice, on_closed)
        channel = self._channel(child, conversation)
        conversation.transport = StdioTransport(channel)
        # The keeper reports the end too: a grandchild may hold stdout open. What the child wrote before its
        # end is still read.
        child.exited.add_done_callback(lambda exit: channel.finish(str(exit.result())))
        return StdioConnection(server, conversation, child, stderr, redact)

    async def _spawn(self, server: Server, environment: Mapping[str, str]) -> ChildProcess:
        """Start the process of a dressed server, in its cage if it has one."""
        from tabane.upstreams.processes.launch_errors import obstacle

        argv = [server.command, *server.args]
        if (traced := self.cages.traced(server.name, argv)) is not None:
            return await self._processes.spawn(traced, environment, server.cwd)
        if server.sandbox is None:
            return await self._processes.spawn(argv, environment, server.cwd)
        why = await asyncio.to_thread(obstacle, server.command, dict(environment), server.cwd)
        if why is not None:
            raise UpstreamUnavailable(why)
        start = await asyncio.to_thread(self.cages.build, server, server.sandbox, environment)

        def remove() -> None:
            self._loop.run_in_executor(None, self.cages.remove, start.groups)

        try:
            child = await self._processes.spawn(start.argv, start.env, server.cwd, start.orders)
        except BaseException:
            remove()
            raise
        if start.groups:
            child.gone.add_done_callback(lambda _: remove())
        return child

    def _channel(self, child: ChildProcess, conversation: Conversation) -> LineChannel:
        channel = LineChannel(
            self._loop,
            self._batch,
            child.stdout_fd,
            child.stdin_fd,
            on_line=conversation.receive,
            on_close=conversation.lost,
            on_oversized=conversation.oversized,
            max_line=self._max_line,
            # An upstream may not read before its answer is taken: never wait for each other.
            pause_at=None,
        )
        channel.start()
        return channel

    def _connect(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> RemoteConnection:
        from tabane.net.http_client import UpstreamHttpClient
        from tabane.upstreams.http_transport import StreamableHttpTransport
        from tabane.upstreams.sse_transport import SseTransport

        client = UpstreamHttpClient(target_of(server), self._environment, self._credentials(server))
        conversation = self._conversation(server, on_notice, on_closed)

        def sse(posted: int = 0) -> SseTransport:
            return SseTransport(server, conversation, client, self._loop, self._max_line, posted)

        def on_legacy(call: Call, line: bytes, era: Era, status: int) -> None:
            """Continue with HTTP with SSE, since the server takes no requests by streamable HTTP."""
            conversation.transport = sse(status)
            conversation.transport.request(call, line, era)

        if server.transport == "sse":
            conversation.transport = sse()
        else:
            fallback = None if server.transport_given else on_legacy
            conversation.transport = StreamableHttpTransport(
                server, conversation, client, self._loop, self._max_line, fallback
            )
        return RemoteConnection(conversation, client)

    def _conversation(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> Conversation:
        from tabane.upstreams.conversation import Conversation

        return Conversation(
            server.name,
            self._loop,
            on_notice=on_notice,
            on_closed=on_closed,
            max_line=self._max_line,
            roots=server.roots,
            capabilities=server.capabilities,
            extensions=self._extensions(),
            chain=self._chain,
        )


class StdioConnection:
    """A running child process with its conversation and its stderr."""

    def __init__(
        self,
        server: Server,
        conversation: Conversation,
        child: ChildProcess,
        stderr: StderrLog,
        redact: Callable[[str], str],
    ) -> None:
        self.conversation = conversation
        self._server, self._child, self._stderr, self._redact = server, child, stderr, redact

    @property
    def pid(self) -> int:
        return self._child.pid

    async def stop(self) -> Message:
        """Close stdin, send SIGTERM to its group after 2 s and SIGKILL after 2 more; return how it ended."""
        self.conversation.end_input()
        exit = await self._child.stop(GRACE)
        self.conversation.close("it was stopped")
        self._stderr.close()
        return exit.describe()

    async def failure(self, how: Message) -> Message:
        """Return how it ended, with the cause that its stderr and what it wrote instead of MCP show."""
        from tabane.upstreams.launching.failure_causes import failed_start

        server = self._server
        said = [self._redact(line) for line in self.conversation.strange_lines]
        lines = self._stderr.lines()
        # Dozens of patterns over a hundred lines take longer than the loop may be held.
        return await asyncio.to_thread(
            failed_start, how, server.name, server.command, server.args, lines, said
        )


class HttpUpstreamTransport(UpstreamTransport, Protocol):
    """A transport over HTTP. ``problem`` is what ended it, None if nothing went wrong."""

    problem: Message | None

    async def finished(self, seconds: float) -> None:
        """Wait until the server was notified of the end, at most so many seconds."""
        ...


class RemoteConnection:
    """A connection to a server at a URL. It has no process here, and leaves nothing once it is closed."""

    def __init__(self, conversation: Conversation, client: UpstreamHttpClient) -> None:
        self.conversation = conversation
        self._client = client

    @property
    def pid(self) -> int:
        return 0

    async def stop(self) -> Message:
        """End the session if there is one, and close every connection. Return why it ended."""
        transport = cast("HttpUpstreamTransport", self.conversation.transport)
        self.conversation.end_input()
        await transport.finished(GOODBYE)
        self.conversation.close("it was stopped")
        await self._client.close()
        return transport.problem or say("the connection was closed")

    async def failure(self, how: Message) -> Message:
        return how
