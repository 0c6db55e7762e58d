"""The HTTP with SSE transport of protocol version 2024-11-05.

One stream (GET) carries everything that the server sends. Its first event is the address for requests (POST).
If the stream breaks, the connection is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from tabane.errors import TabaneError, UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_failures import HttpConnectionBroken, HttpUnreachable
from tabane.net.http_responses import (
    EVENTS,
    JSON,
    Done,
    StreamPosition,
    error_body,
    error_in,
    kind_of,
    one_line,
    read_events,
)
from tabane.net.routes import is_same_origin, redirect_url
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.upstreams.call import Call, SessionPosition
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import UpstreamRefused
from tabane.upstreams.http_session import (
    BUSY,
    HttpRetryPolicy,
    broken_in_flight,
    busy,
    cannot_connect,
    failed_inside,
    is_expired,
    refusal,
    shown_text,
    speaks_of_session,
)
from tabane.wire import era as eras
from tabane.wire.era import Era
from tabane.wire.http import retry_after
from tabane.wire.sse import Event

if TYPE_CHECKING:
    from yarl import URL

    from tabane.net.http_connections import HttpResponse

log = logging.getLogger(__name__)

MOST_NOTES = 256
"""Notifications and answers to questions that are under way at the same time."""

_RETRIES = (0.1, 0.4, 1.0)
"""Seconds before a request without a connection is tried again while the stream is open."""


class SseTransport:
    """Carries a conversation over one stream, and posts requests.

    ``posted`` is the status of a request by streamable HTTP that was tried before; 0 if none was.
    """

    exact = mirrors_arguments = False

    def __init__(
        self,
        server: Server,
        conversation: Conversation,
        client: UpstreamHttpClient,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        posted: int = 0,
    ) -> None:
        self._tried = posted
        self.problem: Message | None = None
        self._name, self._conversation, self._client = server.name, conversation, client
        self._loop, self._limit = loop, limit
        self._redact = Redactor(server.secrets).text
        self._endpoint: asyncio.Future[URL] = loop.create_future()
        # If nothing is sent, nobody retrieves the exception of a missing address.
        self._endpoint.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._calls: dict[int, Call] = {}
        self._posted: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._stream = loop.create_task(self._run())

    @property
    def closed(self) -> bool:
        """Return whether the connection has ended."""
        return self._closed

    # -- what is sent ----------------------------------------------------------------------------

    def request(self, call: Call, line: bytes, era: Era) -> None:
        """Send a request with POST."""
        if era is Era.MODERN:
            unknown = say("{server!n} uses an older transport.", server=self._name)
            self._conversation.fail(call.number, UpstreamRefused(eras.METHOD_NOT_FOUND, unknown))
            return
        # Forget answered calls, from time to time: a call does not notify when it is answered.
        if len(self._calls) > 2 * self._conversation.in_flight + 64:
            self._calls = {number: call for number, call in self._calls.items() if not call.over}
            self._posted &= self._calls.keys()
        self._calls[call.number] = call
        self._begin(self._carry(call, line))

    def tell(self, line: bytes, about: int | None = None) -> None:
        """Send a notification or an answer with POST, in the background."""
        if len(self._tasks) < MOST_NOTES + len(self._calls):
            self._begin(self._note(line))
        else:
            log.warning("%s: a notification was dropped, since many wait already", self._name)

    def cancel(self, call: Call, line: bytes) -> None:
        """Send the notification that a request is canceled."""
        if call.number in self._calls:
            self.tell(line)

    def position_of(self, call: Call) -> SessionPosition | None:
        """Return None: a call ends with its stream."""
        return None

    def end_input(self) -> None:
        """Do nothing: the end of the stream ends the connection."""

    async def finished(self, seconds: float) -> None:
        """Return at once: the server is not notified of the end."""

    def close(self, why: str) -> None:
        """End the connection."""
        if self._closed:
            return
        self._closed = True
        current = asyncio.current_task(self._loop)
        for task in (self._stream, *self._tasks):
            if task is not current:
                task.cancel()
        if not self._endpoint.done():
            self._endpoint.set_exception(UpstreamUnavailable(self.problem or say("{why}", why=why)))
        self._conversation.lost(why)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, call: Call, line: bytes) -> None:
        try:
            await self._post_until_accepted(call, line)
        except TabaneError as failure:
            self._conversation.fail(call.number, failure)
        except Exception:
            log.exception("%s: a call failed inside Tabane", self._name)
            self._conversation.fail(call.number, failed_inside(self._name))

    async def _post_until_accepted(self, call: Call, line: bytes) -> None:
        """Post a request until the server accepts it. Raises its error."""
        patience, waits = HttpRetryPolicy(call.safe), iter(_RETRIES)
        while not (call.over or self._closed):
            try:
                await self._post(call, line)
                return
            except HttpUnreachable as fault:
                wait = next(waits, None)
                if wait is None:
                    raise cannot_connect(self._name, fault.problem) from None
                await asyncio.sleep(wait)
            except HttpConnectionBroken as fault:
                if not patience.survives_break():
                    raise broken_in_flight(self._name, fault.problem) from None

    async def _post(self, call: Call, line: bytes) -> None:
        patience = HttpRetryPolicy(call.safe)
        while True:
            response = await self._send(line)
            self._posted.add(call.number)
            try:
                if response.status < 300:
                    return
                body = await error_body(response)
                if call.method != b"initialize" and self._is_lost(response.status, body):
                    self._posted.discard(call.number)
                    self.problem = say("its session was lost")
                    self._break()
                    return
                text = shown_text(body, self._redact)
                if response.status not in BUSY:
                    raise refusal(self._name, response.status, text, call.method, named_http=False)
                import time

                seconds = retry_after(response.headers.get("Retry-After"), time.time())
                delay = patience.wait(response.status, seconds)
                if delay is None:
                    raise busy(self._name, response.status, seconds)
            finally:
                response.release()
            await asyncio.sleep(delay)

    def _is_lost(self, status: int, body: bytes) -> bool:
        failed = status >= 500 and status not in BUSY
        return is_expired(status, body, error_in(body)) or (failed and speaks_of_session(body))

    async def _send(self, line: bytes) -> HttpResponse:
        endpoint = await asyncio.shield(self._endpoint)
        return await self._client.send("POST", {"Content-Type": JSON}, line, endpoint)

    async def _note(self, line: bytes) -> None:
        try:
            response = await self._send(line)
            response.release()
        except (HttpUnreachable, HttpConnectionBroken, TabaneError) as fault:
            log.warning("%s did not get a notification: %s", self._name, fault)

    # -- what comes in ---------------------------------------------------------------------------

    async def _run(self) -> None:
        """Read the stream to its end, which ends the connection."""
        try:
            self.problem = await self._read_stream()
        except (HttpUnreachable, HttpConnectionBroken) as fault:
            self.problem = fault.problem
        except TabaneError as failure:
            self.problem = failure.message
        self._break()

    async def _read_stream(self) -> Message:
        response = await self._client.send("GET", {"Accept": EVENTS})
        try:
            if response.status != 200:
                text = shown_text(await error_body(response), self._redact)
                raise refusal(self._name, response.status, text, b"", named_http=False, posted=self._tried)
            if kind_of(response) != EVENTS:
                if self._tried:
                    raise refusal(self._name, 405, "", b"", named_http=False, posted=self._tried)
                return say("it answers with {kind}, which is not an event stream", kind=kind_of(response))
            await read_events(
                response, self._limit, self._event, StreamPosition(), self._conversation.oversized
            )
            return say("it closed its stream")
        finally:
            response.release()

    def _event(self, event: Event) -> Done:
        if event.event == "endpoint":
            self._take_endpoint(event.data)
        elif event.event == "message" and event.data:
            waits = self._conversation.receive(one_line(event.data))
            if waits is not None:
                return self._closed_after(waits)
        return self._closed

    async def _closed_after(self, waits: asyncio.Future[None]) -> bool:
        await waits
        return self._closed

    def _take_endpoint(self, data: bytes) -> None:
        if self._endpoint.done():
            return
        try:
            endpoint = redirect_url(self._client.url, data.decode().strip())
        except (ValueError, UpstreamError):
            raise UpstreamUnavailable(
                say("{server!n} gives an invalid URL for requests.", server=self._name)
            ) from None
        if not is_same_origin(self._client.url, endpoint):
            # Requests to that address contain secrets.
            raise UpstreamUnavailable(say(
                "{server!n} asks for requests at another site, {host}. Nothing was sent there.",
                server=self._name, host=endpoint.host))  # fmt: skip
        self._endpoint.set_result(endpoint)

    def _break(self) -> None:
        """Handle the end of the stream: calls not sent yet, or safe to repeat, are sent again once."""
        if self._closed:
            return
        problem = self.problem or say("it closed its stream")
        for number, call in reversed(list(self._calls.items())):
            if not call.over and (number not in self._posted or call.safe):
                call.safe = call.safe and number not in self._posted
                self._conversation.unsent(number, UpstreamUnavailable(problem))
        self.close(str(problem))
