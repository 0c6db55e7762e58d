"""What carries a conversation: a line channel to a process, or requests over HTTP."""

from __future__ import annotations

from typing import Protocol

from tabane.gateway.upstreams.call import Call
from tabane.wire.channel import LineChannel
from tabane.wire.era import Era


class InputBacklogFull(Exception):
    """The upstream does not read its input, and nothing more is kept for it."""


class UpstreamTransport(Protocol):
    """Takes a conversation's messages to an upstream; what comes back goes to its ``receive``."""

    exact: bool
    """Whether it tells to which call a question belongs."""

    @property
    def closed(self) -> bool: ...

    def request(self, call: Call, line: bytes, era: Era) -> None:
        """Send a request; ``call.number`` is its id. ``fail`` gets the errors of this request only.

        Raises :class:`InputBacklogFull`.
        """
        ...

    def tell(self, line: bytes, about: int | None = None) -> None:
        """Send a notification, or the answer to a question that came while call ``about`` ran."""
        ...

    def cancel(self, call: Call, line: bytes) -> None:
        """Give a request up. ``line`` is the notification that says so, if that is the way."""
        ...

    def end_input(self) -> None:
        """Say that nothing more will be asked: a well-behaved upstream ends by itself."""
        ...

    def close(self, why: str) -> None:
        """End the connection; the conversation is told with ``lost``, once."""
        ...


class StdioTransport:
    """A line channel as a transport: one stream for everything.

    ``most`` bytes may wait for an upstream that does not read. Above that, requests are refused, and
    messages that nobody waits for are dropped.
    """

    __slots__ = ("_channel", "_most")
    exact = False

    def __init__(self, channel: LineChannel, most: int = 128 << 20) -> None:
        self._channel, self._most = channel, most

    @property
    def closed(self) -> bool:
        return self._channel.closed

    def request(self, call: Call, line: bytes, era: Era) -> None:
        if not self._takes(line):
            raise InputBacklogFull
        self._channel.send(line)

    def tell(self, line: bytes, about: int | None = None) -> None:
        if self._takes(line):
            self._channel.send(line)

    def cancel(self, call: Call, line: bytes) -> None:
        self.tell(line)

    def _takes(self, line: bytes) -> bool:
        waiting = self._channel.unsent
        return not waiting or waiting + len(line) <= self._most

    def end_input(self) -> None:
        self._channel.end_writing()

    def close(self, why: str) -> None:
        self._channel.close(why)
