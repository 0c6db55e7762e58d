"""Child processes as connections: the start of a server that is a program, in its cage if it has one.

This is loaded with the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.upstreams.call import StdioTransport
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.launching.start_preparation import ConnectedCages
from tabane.upstreams.processes.child_environment import child_environment
from tabane.upstreams.processes.launch_errors import obstacle
from tabane.upstreams.processes.processes import ChildProcess, ChildProcesses
from tabane.upstreams.processes.stderr import StderrLog
from tabane.wire.channel import LineBatch, LineChannel

GRACE = 2.0
"""Seconds from end of file to SIGTERM, and from there to SIGKILL."""


class ChildStarts:
    """Starts servers as child processes. ``environment`` is the hub's, ``max_line`` bytes of a message."""

    def __init__(
        self,
        processes: ChildProcesses,
        batch: LineBatch,
        cages: ConnectedCages,
        environment: Mapping[str, str],
        logs: Path,
        max_line: int,
    ) -> None:
        self._processes, self._batch, self._cages, self._environment = processes, batch, cages, environment
        self._loop, self._logs, self._max_line = asyncio.get_running_loop(), logs, max_line

    async def start(self, server: Server, conversation: Conversation) -> StdioConnection:
        """Start a server as it is in its cage. Raises UpstreamUnavailable."""
        environment = child_environment(self._environment, server.env, server.inherit)
        child = await self._spawn(server, environment)
        redact = Redactor(server.secrets).text
        stderr = StderrLog(self._loop, child.stderr_fd, self._logs, server.name, redact)
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
        conversation.transport = StdioTransport(channel)
        # The keeper reports the end too: a grandchild may hold stdout open. What the child wrote before its
        # end is still read.
        child.exited.add_done_callback(lambda exit: channel.finish(str(exit.result())))
        return StdioConnection(server, conversation, child, stderr, redact)

    async def _spawn(self, server: Server, environment: Mapping[str, str]) -> ChildProcess:
        """Start the process of a dressed server, in its cage if it has one."""
        if server.sandbox is None:
            return await self._processes.spawn([server.command, *server.args], environment, server.cwd)
        why = await asyncio.to_thread(obstacle, server.command, dict(environment), server.cwd)
        if why is not None:
            raise UpstreamUnavailable(why)
        start = await asyncio.to_thread(self._cages.builder.build, server, server.sandbox, environment)

        def remove() -> None:
            self._loop.run_in_executor(None, self._cages.builder.remove, start.groups)

        try:
            child = await self._processes.spawn(start.argv, start.env, server.cwd, start.orders)
        except BaseException:
            remove()
            raise
        if start.groups:
            child.gone.add_done_callback(lambda _: remove())
        return child


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
        """Return the pid of the process."""
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
        from tabane.upstreams.launching.failure_causes import failed_start  # many rules

        server = self._server
        said = [self._redact(line) for line in self.conversation.strange_lines]
        lines = self._stderr.lines()
        # Dozens of patterns over a hundred lines take longer than the loop may be held.
        return await asyncio.to_thread(
            failed_start, how, server.name, server.command, server.args, lines, said
        )
