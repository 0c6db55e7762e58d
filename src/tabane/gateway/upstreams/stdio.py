"""An upstream over stdio: a child process, its conversation, and its stderr."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Raw

from tabane.gateway.processes.processes import ChildProcess, ChildProcesses, child_environment
from tabane.gateway.processes.stderr import StderrLog
from tabane.gateway.servers.redaction import Redactor
from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.conversation import Conversation
from tabane.gateway.upstreams.transport import StdioTransport
from tabane.messages import Message
from tabane.wire.channel import Batch, LineChannel

GRACE = 2.0
"""Seconds from end of file to SIGTERM, and from there to SIGKILL."""


class StdioConnection:
    """A running child: what the instance that supervises it needs of it."""

    def __init__(self, conversation: Conversation, child: ChildProcess, stderr: StderrLog) -> None:
        self.conversation = conversation
        self._child, self._stderr = child, stderr

    @property
    def pid(self) -> int:
        return self._child.pid

    async def stop(self) -> Message:
        """End of file; after two seconds SIGTERM to its group, after two more SIGKILL. How it ended."""
        self.conversation.end_input()
        exit = await self._child.stop(GRACE)
        self.conversation.close("it was stopped")
        self._stderr.close()
        return exit.describe()

    def last_words(self) -> str:
        return self._stderr.last_words()


class StdioConnector:
    """Starts upstreams over stdio. ``environment`` is the hub's own; children get a few names of it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Batch,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        max_line: int,
    ) -> None:
        self._loop, self._batch, self._processes = loop, batch, processes
        self._logs, self._environment, self._max_line = logs, environment, max_line

    async def __call__(
        self, server: Server, on_notice: Callable[[str, Raw], None], on_closed: Callable[[str], None]
    ) -> StdioConnection:
        """Start a child. Raises UpstreamUnavailable where it cannot be started."""
        child = await self._processes.spawn(
            [server.command, *server.args], child_environment(self._environment, server.env), server.cwd
        )
        stderr = StderrLog(
            self._loop, child.stderr_fd, self._logs, server.name, Redactor(server.secrets).text
        )
        conversation = Conversation(
            server.name,
            self._loop,
            on_notice=on_notice,
            on_closed=on_closed,
            max_line=self._max_line,
            roots=server.roots,
            capabilities=server.capabilities,
        )
        channel = self._channel(child, conversation)
        conversation.carrier = StdioTransport(channel)
        # Death is noticed by the keeper's word too: a grandchild may hold stdout open. What the child
        # wrote before its end is still read.
        child.exited.add_done_callback(lambda exit: channel.finish(str(exit.result())))
        return StdioConnection(conversation, child, stderr)

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
