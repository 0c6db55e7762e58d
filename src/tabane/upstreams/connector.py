"""Connections to servers by transport: child processes, streamable HTTP, and HTTP with SSE.

A server with a sandbox runs, and is downloaded, in its cage or container.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Raw

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server, target_of
from tabane.servers.server_keys import SandboxProfile
from tabane.upstreams.call import Call, StdioTransport, UpstreamTransport
from tabane.upstreams.handshake import HubChain
from tabane.upstreams.launching.package_downloads import (
    NetworkProbe,
    OnProgress,
    PackageDownloads,
    PreparedStart,
    StartPreparation,
)
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
    from tabane.guard.cages.cages import CagedStart, Cages
    from tabane.guard.cages.limits import GroupFiles
    from tabane.net.http_client import RequestCredentials, UpstreamHttpClient
    from tabane.upstreams.connection import UpstreamConnection
    from tabane.upstreams.conversation import Conversation
    from tabane.upstreams.processes.stderr import StderrLog


GRACE = 2.0
"""Seconds from end of file to SIGTERM, and from there to SIGKILL."""

GOODBYE = 2.0
"""Seconds to wait until a server at a URL has been notified of the end."""


class CagedDownloads:
    """Prepares starts as ``inner`` does, of servers as ``dressed`` returns them for their cage."""

    def __init__(self, inner: StartPreparation, dressed: Callable[[Server], Server]) -> None:
        self._inner, self._dressed = inner, dressed

    async def prepare(self, server: Server, on_progress: OnProgress) -> PreparedStart:
        return await self._inner.prepare(self._dressed(server), on_progress)

    def ended(self, server: Server, failure: Message | None) -> None:
        try:
            dressed = self._dressed(server)
        except UpstreamUnavailable:
            return  # nothing was prepared
        self._inner.ended(dressed, failure)

    def limits_changed(self) -> None:
        self._inner.limits_changed()


class ConnectedCages:
    """Cages, and traces for learning them. ``cages`` returns the builder; None if there is none.

    ``environment`` is the hub's.
    """

    def __init__(self, cages: Callable[[], Cages] | None, environment: Mapping[str, str]) -> None:
        self._cages, self._environment = cages, environment
        self._traces: dict[str, tuple[str, Path]] = {}

    def _builder(self) -> Cages:
        if self._cages is None:
            raise UpstreamUnavailable(say("A server with a sandbox can only be started by a hub."))
        return self._cages()

    def dressed(self, server: Server) -> Server:
        """Return a server as it is downloaded and started: changed if it has a cage or a container."""
        if server.sandbox is None and not server.image and server.name not in self._traces:
            return server
        return self._builder().dressed(server)

    def build(self, server: Server, profile: SandboxProfile, env: Mapping[str, str]) -> CagedStart:
        """Return how to start a dressed server in its cage. Blocks. Raises UpstreamUnavailable."""
        return self._builder().build(server, profile, env)

    def build_download(self, server: Server, command: Sequence[str], env: Mapping[str, str]) -> CagedStart:
        """Return how to run a command that downloads what a dressed server runs. Blocks."""
        return self._builder().build_download(server, command, env)

    def remove(self, groups: Sequence[GroupFiles]) -> None:
        """Remove the control groups of a server that has ended. Blocks."""
        self._builder().remove(groups)

    def container_problem(self) -> Message | None:
        """Return why containers cannot be run here; None if they can."""
        return self._builder().container_problem()

    def describe(self, server: Server) -> dict[str, Any] | None:
        """Return the cage of a server for programs; None if it has none. Blocks."""
        if server.sandbox is None and not server.image:
            return None
        return self._builder().describe(server)

    def pin(self, servers: Sequence[Server]) -> None:
        """Record where the paths of sandboxes lead that a person has written. Blocks."""
        for server in servers:
            if server.sandbox is not None:
                self._builder().pin(server)

    def private_folder(self, name: str) -> Path:
        """Return the folder of caches and temporary files of a caged server."""
        return self._builder().private_folder(name)

    def trace(self, server: Server) -> Path:
        """Let the next starts of a server be traced, without its cage. Return the file of it. Blocks."""
        from tabane.guard.cages.learning import find_tracer  # needed only to learn

        program = find_tracer(self._environment)
        file = self._builder().new_trace(server.name)
        self._traces[server.name] = program, file
        return file

    def untrace(self, name: str) -> None:
        """Let the next starts of a server be usual ones."""
        self._traces.pop(name, None)

    def traced(self, name: str, argv: Sequence[str]) -> list[str] | None:
        """Return the command that traces a server; None if it is not being traced."""
        if name not in self._traces:
            return None
        from tabane.guard.cages.learning import traced

        program, file = self._traces[name]
        return traced(program, str(file), argv)


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
