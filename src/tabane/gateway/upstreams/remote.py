"""A connection to an upstream at a URL: no process of ours, and nothing left of it once it is closed."""

from __future__ import annotations

from typing import Protocol, cast

from tabane.gateway.upstreams.conversation import Conversation
from tabane.gateway.upstreams.http_client import UpstreamHttpClient
from tabane.gateway.upstreams.transport import UpstreamTransport
from tabane.messages import Message, say

GOODBYE = 2.0
"""Seconds that a server is given to take notice of the end."""


class RemoteCarrier(UpstreamTransport, Protocol):
    """A carrier over HTTP. ``problem`` is what ended it, None where nothing went wrong."""

    problem: Message | None

    async def finished(self, seconds: float) -> None:
        """Wait until the goodbye was said, at most so long."""
        ...


class RemoteConnection:
    """What the instance that supervises it needs of a server at a URL."""

    def __init__(self, conversation: Conversation, dialler: UpstreamHttpClient) -> None:
        self.conversation = conversation
        self._dialler = dialler

    @property
    def pid(self) -> int:
        return 0

    async def stop(self) -> Message:
        """Say goodbye where there is a session, and close every connection. Why it was over."""
        carrier = cast("RemoteCarrier", self.conversation.carrier)
        self.conversation.end_input()
        await carrier.finished(GOODBYE)
        self.conversation.close("it was stopped")
        await self._dialler.close()
        return carrier.problem or say("the connection was closed")

    def last_words(self) -> str:
        return ""
