"""A started upstream, and the protocol of starting one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw

from tabane.messages import Message
from tabane.servers.server import Server
from tabane.upstreams.conversation import Conversation


class UpstreamConnection(Protocol):
    """A started upstream: its conversation, and the process behind it if there is one."""

    conversation: Conversation

    @property
    def pid(self) -> int: ...

    async def stop(self) -> Message:
        """Close its input, then send signals, until nothing is left of it. Return how it ended."""
        ...

    async def failure(self, how: Message) -> Message:
        """Return how it ended together with the cause and the fix, as far as its output shows them."""
        ...


Connect = Callable[[Server, Callable[[str, Raw], None], Callable[[str], None]], Awaitable[UpstreamConnection]]
"""Starts a server. The two callables get its notices, and the reason when its connection is over."""
