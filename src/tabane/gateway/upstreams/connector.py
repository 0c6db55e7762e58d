"""How a server is reached, by its transport: a process of ours, streamable HTTP, or HTTP with SSE."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from msgspec import Raw

from tabane.gateway.processes.launch_errors import obstacle
from tabane.gateway.processes.processes import ChildProcesses, child_environment
from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.call import Call
from tabane.gateway.upstreams.conversation import Conversation
from tabane.gateway.upstreams.stdio import StdioConnector
from tabane.gateway.upstreams.upstream import UpstreamConnection
from tabane.messages import Message
from tabane.wire.channel import Batch
from tabane.wire.era import Era


class Connector:
    """Starts or dials servers. ``environment`` is the hub's own: children get a few names of it, and it
    names proxies; ``logs`` is the folder for what children write to stderr, ``max_line`` the most bytes
    of a message.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Batch,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        max_line: int,
    ) -> None:
        self._loop, self._environment, self._max_line = loop, environment, max_line
        self._stdio = StdioConnector(loop, batch, processes, logs, environment, max_line)

    def obstacle(self, server: Server) -> Message | None:
        """Return why the server cannot be started, as far as that is known without a start. Blocks.

        Returns None if there is no obstacle, or if it cannot be known: for a server at a URL, and for a
        command that depends on the client's folder.
        """
        if server.transport != "stdio" or (server.needs_folder and "${" in f"{server.command}{server.cwd}"):
            return None
        environment = child_environment(self._environment, server.env)
        return obstacle(server.command, environment, server.cwd)

    async def __call__(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> UpstreamConnection:
        """Start or dial a server. Raises UpstreamUnavailable where that cannot be."""
        if server.transport == "stdio":
            return await self._stdio(server, on_notice, on_closed)
        # The HTTP client is large; a hub whose servers are all processes goes without. Importing it takes a
        # tenth of a second and more, in which others are served.
        await asyncio.to_thread(import_module, "aiohttp")
        from tabane.gateway.upstreams.http_client import UpstreamHttpClient
        from tabane.gateway.upstreams.remote import RemoteConnection
        from tabane.gateway.upstreams.sse_transport import SseTransport

        dialler = UpstreamHttpClient(server, self._environment)
        conversation = Conversation(
            server.name,
            self._loop,
            on_notice=on_notice,
            on_closed=on_closed,
            max_line=self._max_line,
            roots=server.roots,
            capabilities=server.capabilities,
        )
        if server.transport == "sse":
            conversation.carrier = SseTransport(server, conversation, dialler, self._loop, self._max_line)
            return RemoteConnection(conversation, dialler)
        from tabane.gateway.upstreams.http_transport import StreamableHttpTransport

        def old(call: Call, line: bytes, era: Era) -> None:
            """It takes no requests where streamable HTTP has them: it may be of the kind before that."""
            conversation.carrier = SseTransport(server, conversation, dialler, self._loop, self._max_line)
            conversation.carrier.request(call, line, era)

        conversation.carrier = StreamableHttpTransport(
            server, conversation, dialler, self._loop, self._max_line, None if server.transport_given else old
        )
        return RemoteConnection(conversation, dialler)
