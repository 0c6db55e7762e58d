"""Connections to servers at a URL, over streamable HTTP or HTTP with SSE.

This is loaded with the first of them, since it brings an HTTP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, cast

from tabane.messages import Message, say
from tabane.net.http_client import RequestCredentials, UpstreamHttpClient
from tabane.servers.server import Server, target_of
from tabane.upstreams.call import Call, UpstreamTransport
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.http_transport import StreamableHttpTransport
from tabane.upstreams.sse_transport import SseTransport
from tabane.wire.era import Era

GOODBYE = 2.0
"""Seconds to wait until a server at a URL has been notified of the end."""


def connect_remote(
    server: Server,
    conversation: Conversation,
    environment: Mapping[str, str],
    credentials: RequestCredentials | None,
    max_line: int,
) -> RemoteConnection:
    """Return a connection to a server at a URL. ``environment`` names proxies, ``max_line`` is in bytes."""
    loop = asyncio.get_running_loop()
    client = UpstreamHttpClient(target_of(server), environment, credentials)

    def sse(posted: int = 0) -> SseTransport:
        return SseTransport(server, conversation, client, loop, max_line, posted)

    def on_legacy(call: Call, line: bytes, era: Era, status: int) -> None:
        """Continue with HTTP with SSE, since the server takes no requests by streamable HTTP."""
        conversation.transport = sse(status)
        conversation.transport.request(call, line, era)

    if server.transport == "sse":
        conversation.transport = sse()
    else:
        fallback = None if server.transport_given else on_legacy
        conversation.transport = StreamableHttpTransport(
            server, conversation, client, loop, max_line, fallback
        )
    return RemoteConnection(conversation, client)


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
        """Return 0."""
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
        """Return ``how``: there is no output that shows a cause."""
        return how
