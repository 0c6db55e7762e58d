"""The streamable HTTP transport: each request is a POST, its answer JSON or a stream of events.

For both eras. Requests to a modern upstream have headers that repeat parts of the body, and no state. A
legacy upstream may have a session (:mod:`~tabane.upstreams.http_session`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping

from msgspec import UNSET

from tabane.errors import UpstreamError, UpstreamUnavailable
from tabane.messages import Message
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_faults import HttpConnectionBroken, HttpUnreachable
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.upstreams.call import Call, SessionPosition
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import KINDS
from tabane.upstreams.http_request import HttpEndpoint, OnLegacyServer, UpstreamHttpRequest
from tabane.upstreams.http_session import INITIALIZED, POSTED, UpstreamHttpSession
from tabane.wire import json
from tabane.wire.era import MODERN, Era
from tabane.wire.headers import METHOD, VERSION

log = logging.getLogger(__name__)

MOST_NOTES = 256
"""Notifications and answers to questions that are under way at the same time."""


class StreamableHttpTransport:
    """Carries a conversation over HTTP. ``on_legacy`` is None if the user configured this transport.

    A server that cannot be reached counts as gone once no other call is in flight. Then the calls that wait
    for a connection go back to their owners, and the conversation is lost.
    """

    exact = mirrors_arguments = True

    def __init__(
        self,
        server: Server,
        conversation: Conversation,
        client: UpstreamHttpClient,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        on_legacy: OnLegacyServer | None,
    ) -> None:
        self.problem: Message | None = None
        self._conversation, self._client, self._loop = conversation, client, loop
        self._requests: dict[int, UpstreamHttpRequest] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._farewell: asyncio.Task[None] | None = None
        self._session = UpstreamHttpSession(
            server.name,
            client,
            loop,
            limit,
            conversation.receive,
            self._stream_unreached,
            self._session_replaced,
        )
        redact = Redactor(server.secrets).text
        self._endpoint = HttpEndpoint(
            server.name, conversation, client, self._session, limit, redact, on_legacy, self._unreached
        )

    @property
    def closed(self) -> bool:
        return self._endpoint.closed

    # -- what is sent ----------------------------------------------------------------------------

    def request(self, call: Call, line: bytes, era: Era) -> None:
        request = self._requests[call.number] = UpstreamHttpRequest(self._endpoint, call, line, era)
        if not request.begin(self._begun):
            self._run_in_task(request)

    def _begun(self, request: UpstreamHttpRequest) -> None:
        """Handle the response to a call that was sent without a task."""
        if request.call.over or self.closed:
            self._requests.pop(request.call.number, None)
        else:
            self._run_in_task(request)

    def _run_in_task(self, request: UpstreamHttpRequest) -> None:
        request.task = self._loop.create_task(self._run(request, request.call.number))

    async def _run(self, request: UpstreamHttpRequest, number: int) -> None:
        try:
            await request.run()
        finally:
            self._requests.pop(number, None)
            if not self.closed:
                self._session.outlasting.discard(number)

    def tell(self, line: bytes, about: int | None = None) -> None:
        if line == INITIALIZED:
            self._session.settle()
        elif self._session.version:
            self._note(self._post(line))
        elif (method := _notified(line)) is not None:
            self._note(self._post_modern(line, method))

    def cancel(self, call: Call, line: bytes) -> None:
        request = self._requests.get(call.number)
        if request is None:
            return
        if request.task is None or request.era is Era.MODERN or not request.sent:
            # Closing the stream cancels the request.
            request.give_up()
            if request.task is None:
                self._requests.pop(call.number, None)
        elif not self._note(self._give_up(request.task, line)):
            request.task.cancel()

    def position_of(self, call: Call) -> SessionPosition | None:
        request, session = self._requests.get(call.number), self._session
        if request is None or request.era is not Era.LEGACY or not (session.id and request.last_event):
            return None
        session.outlasting.add(call.number)
        return SessionPosition(session.id, session.version, request.last_event, call.number)

    def adopt(self, call: Call, position: SessionPosition) -> None:
        """Go on with a call that an earlier hub made in a session which is still there."""
        self._session.id, self._session.version = position.session, position.version
        request = self._requests[call.number] = UpstreamHttpRequest(self._endpoint, call, b"", Era.LEGACY)
        request.last_event, request.sent = position.last_event, True
        request.task = self._loop.create_task(self._run_adopted(request, call.number))

    async def _run_adopted(self, request: UpstreamHttpRequest, number: int) -> None:
        try:
            await request.run_on()
        finally:
            self._requests.pop(number, None)
            self._session.outlasting.discard(number)

    def _note(self, sending: Coroutine[None, None, None]) -> bool:
        """Send a message without a reply in the background; return False if too many wait."""
        if self.closed or len(self._notes) >= MOST_NOTES:
            sending.close()
            name, count = self._endpoint.name, len(self._notes)
            log.warning("%s: a notification was dropped, since %d wait already", name, count)
            return False
        task = self._loop.create_task(sending)
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        return True

    async def _post(self, line: bytes) -> None:
        """Post a notification or the answer to a request of the server: there is no reply to it."""
        try:
            await self._session.settled()
            used = self._session.id
            if await self._posted(line) == 404 and used:
                await self._session.renew(used)
                await self._posted(line)
        except (HttpUnreachable, HttpConnectionBroken, UpstreamError) as fault:
            log.warning("%s did not get a notification: %s", self._endpoint.name, fault)

    async def _post_modern(self, line: bytes, method: str) -> None:
        """Post a notification to a server without sessions."""
        try:
            await self._posted(line, {VERSION: MODERN, METHOD: method})
        except (HttpUnreachable, HttpConnectionBroken, UpstreamError) as fault:
            log.warning("%s did not get a notification: %s", self._endpoint.name, fault)

    async def _posted(self, line: bytes, headers: Mapping[str, str] | None = None) -> int:
        headers = self._session.headers() if headers is None else headers
        response = await self._client.send("POST", {**POSTED, **headers}, line)
        response.release()
        if response.status >= 400:
            log.warning("%s refused a notification (%d)", self._endpoint.name, response.status)
        return response.status

    async def _give_up(self, task: asyncio.Task[None], line: bytes) -> None:
        try:
            await self._post(line)
        finally:
            task.cancel()

    # -- a server that was lost, and one that is there again -------------------------------------

    def _stream_unreached(self, fault: HttpUnreachable) -> None:
        """Handle a stream of server messages that cannot be opened any more."""
        self._unreached(fault)

    def _unreached(self, fault: HttpUnreachable) -> bool:
        """Return whether the server is gone: it takes no connection, and nothing is in flight there."""
        requests = [request for request in self._requests.values() if not request.lasting]
        if self.closed or not all(request.away for request in requests):
            return self.closed
        self.problem = fault.problem
        # Each call goes to the front of the queue, so put back the last one first.
        for request in reversed(requests):
            self._conversation.unsent(request.call.number, UpstreamUnavailable(fault.problem))
        self.close(str(fault.problem))
        return True

    def _session_replaced(self) -> None:
        """Read all lists again: a server that lost the session may have been restarted, with other lists."""
        peer = self._conversation.peer
        for kind in KINDS:
            if peer is not None and peer.has(kind):
                self._conversation.receive(json.notification_line(f"notifications/{kind}/list_changed"))

    # -- the end ---------------------------------------------------------------------------------

    def end_input(self) -> None:
        if not self.closed and self._farewell is None:
            self._farewell = self._loop.create_task(self._session.end())

    async def finished(self, seconds: float) -> None:
        """Wait until the server was notified of the end, at most so many seconds."""
        if self._farewell is not None:
            await asyncio.wait([self._farewell], timeout=seconds)
            self._farewell.cancel()

    def close(self, why: str) -> None:
        if self.closed:
            return
        self._endpoint.closed = True
        self._session.close()
        current = asyncio.current_task(self._loop)
        for request in list(self._requests.values()):
            if request.task is None or request.task is not current:
                request.give_up()
        for task in self._notes:
            if task is not current:
                task.cancel()
        self._conversation.lost(why)


def _notified(line: bytes) -> str | None:
    """Return the method of a notification; None for any other message."""
    frame = json.decode_frame(line)
    return str(frame.method) if frame.id is UNSET and frame.method is not UNSET else None
