"""Connections to servers by transport: child processes, streamable HTTP, and HTTP with SSE.

A server with a sandbox runs, and is downloaded, in its cage or container. What a transport needs is loaded
with the first server that has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.messages import Message
from tabane.servers.server import Server
from tabane.upstreams.connection import StartPreparation, UpstreamConnection
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import HubChain
from tabane.upstreams.launching.start_preparation import ConnectedCages, DownloadLimits
from tabane.upstreams.processes.child_environment import (
    EnvironmentNames,
    child_environment,
    environment_names,
)
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.guard.cages.cages import Cages
    from tabane.net.http_client import RequestCredentials
    from tabane.upstreams.launching.package_downloads import NetworkProbe
    from tabane.upstreams.stdio_connection import ChildStarts


class Connector:
    """Starts servers, or connects to them.

    ``environment`` is the hub's own: child processes get a few of its variables, and it names proxies.
    ``logs`` is the folder for the stderr of child processes, ``max_line`` the limit for the bytes of a
    message, ``downloads`` the limits of downloads. ``preparation`` makes servers ready to be started.
    ``extensions`` returns those of the protocol that a server is told of that all clients share. ``chain``
    recognizes this hub among its servers. ``credentials`` returns those of a login at a server; None if it is
    used without one. ``cages`` returns the builder of cages; it is called only for a server that has a
    sandbox or an image.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: LineBatch,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        max_line: int,
        downloads: DownloadLimits,
        extensions: Callable[[], Members] = dict,
        chain: HubChain | None = None,
        credentials: Callable[[Server], RequestCredentials | None] = lambda server: None,
        cages: Callable[[], Cages] | None = None,
        network: NetworkProbe | None = None,
    ) -> None:
        self.cages = ConnectedCages(cages)
        self._extensions, self._chain, self._credentials = extensions, chain, credentials
        self._loop, self._batch, self._processes = loop, batch, processes
        self._logs, self._environment, self._max_line = logs, environment, max_line
        self._starts: ChildStarts | None = None
        self.preparation = StartPreparation(processes, logs, environment, downloads, self.cages, network)

    def obstacle(self, server: Server) -> Message | None:
        """Return why the server cannot be started, as far as that is known without a start. Blocks.

        Returns None if there is no obstacle, or if it cannot be known: for a server at a URL, and for a
        command that depends on the client's folder.
        """
        from tabane.upstreams.processes.launch_errors import obstacle

        if server.transport != "stdio" or (server.needs_folder and "${" in f"{server.command}{server.cwd}"):
            return None
        if server.image:
            return self.cages.builder.container_problem()
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
            server = self.cages.dress(server)
        conversation = Conversation(
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
        if server.transport != "stdio":
            from tabane.upstreams.remote_connection import connect_remote  # HTTP, with the first such server

            login = self._credentials(server)
            return connect_remote(server, conversation, self._environment, login, self._max_line)
        if self._starts is None:
            from tabane.upstreams.stdio_connection import ChildStarts  # with the first child process

            self._starts = ChildStarts(
                self._processes, self._batch, self.cages, self._environment, self._logs, self._max_line
            )
        return await self._starts.start(server, conversation)
