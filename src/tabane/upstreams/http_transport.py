"""The streamable HTTP transport: each request is a POST, its answer JSON or a stream of events.

For both eras. Requests to a modern upstream have headers that repeat parts of the body, and no state. A
legacy upstream may have a session (:mod:`~tabane.upstreams.http_session`). A call is one request with its
retries, from the first attempt to the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from tabane.errors import LoginRequired, TabaneError, UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_failures import HttpConnectionBroken, HttpFailure, HttpUnreachable, ResponseTooLong
from tabane.net.http_responses import (
    EVENTS,
    JSON,
    Done,
    StreamPosition,
    error_body,
    error_in,
    kind_of,
    one_line,
    read,
)
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.upstreams.call import Call, SessionPosition
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import KINDS
from tabane.upstreams.http_session import (
    BUSY,
    INITIALIZED,
    OTHER_KIND,
    POSTED,
    HttpRetryPolicy,
    UpstreamHttpSession,
    UpstreamSessionExpired,
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
from tabane.wire import json
from tabane.wire.era import MODERN, Era
from tabane.wire.headers import METHOD, VERSION, param_headers, standard_headers
from tabane.wire.http import retry_after
from tabane.wire.rpc import TRACEPARENT, trace_headers

if TYPE_CHECKING:
    from tabane.net.http_connections import HttpConnection, HttpResponse


log = logging.getLogger(__name__)

LONGEST_AWAY = 5.0
"""Seconds that a call waits for a connection to a server that still answers other calls."""

_NO_ANSWER = frozenset({202, 204})
_RESUMPTIONS = 3

OnLegacyServer = Callable[[Call, bytes, Era, int], None]
"""Takes an ``initialize`` that only a server of the old kind (HTTP with SSE) can answer, and the status."""


@dataclass(slots=True)
class HttpEndpoint:
    """State that the calls to one server share. ``on_legacy`` is None if the user configured this transport.

    ``unreached`` is called when no connection could be made, and returns whether the server is gone.
    """

    name: str
    conversation: Conversation
    client: UpstreamHttpClient
    session: UpstreamHttpSession
    limit: int
    redact: Callable[[str], str]
    on_legacy: OnLegacyServer | None
    unreached: Callable[[HttpUnreachable], bool]
    closed: bool = False


class ServerBusy(Exception):
    """The server is too busy to accept a request now."""

    def __init__(self, status: int, seconds: float | None) -> None:
        super().__init__(status)
        self.status, self.seconds = status, seconds


class UpstreamHttpRequest:
    """One call and the state of its attempts.

    ``sent``: the server may have received it. ``away``: it waits to try a connection again.
    """

    __slots__ = (
        "_connection",
        "_endpoint",
        "_on_begun",
        "_position",
        "_response",
        "_since",
        "away",
        "call",
        "era",
        "line",
        "sent",
        "task",
    )

    def __init__(self, endpoint: HttpEndpoint, call: Call, line: bytes, era: Era) -> None:
        self.call, self.line, self.era = call, line, era
        self.sent = self.away = False
        self.task: asyncio.Task[None] | None = None
        self._endpoint = endpoint
        self._position = StreamPosition()
        self._since: float | None = None
        self._connection: HttpConnection | None = None
        self._response: HttpResponse | HttpFailure | None = None
        self._on_begun: Callable[[UpstreamHttpRequest], None] | None = None

    def begin(self, on_begun: Callable[[UpstreamHttpRequest], None]) -> bool:
        """Send the call at once, without a task, if that takes no wait; else return False.

        ``on_begun`` is called when its response has arrived. If the call is not over then, :meth:`run` goes
        on with it.
        """
        if self.era is not Era.MODERN or self.lasting:
            return False
        try:
            self._connection = self._endpoint.client.send_at_once(self._headers(), self.line, self._arrived)
        except ValueError:
            return False
        self._on_begun = on_begun
        self.sent = self._connection is not None
        return self.sent

    def give_up(self) -> None:
        """Cancel the call: its connection or its task ends."""
        if self.task is not None:
            self.task.cancel()
            if self._response is not None and not isinstance(self._response, HttpFailure):
                self._response.release()  # the task may never have run
        elif self._connection is not None:
            self._connection.give_up(self._arrived)

    def _arrived(self, found: HttpResponse | HttpFailure) -> None:
        self._connection = None
        try:
            if isinstance(found, HttpFailure) or not self._settled(found):
                self._response = found
        except Exception:
            log.exception("%s: a call failed inside Tabane", self._endpoint.name)
            self._endpoint.conversation.fail(self.call.number, failed_inside(self._endpoint.name))
        assert self._on_begun is not None  # set where it was sent
        self._on_begun(self)

    def _settled(self, response: HttpResponse) -> bool:
        """Return whether a response was a whole JSON message, which is taken."""
        if response.status != 200 or kind_of(response) != JSON or "Set-Cookie" in response.headers:
            return False
        text = response.content.peek()
        if text is None or text[:1] != b"{":
            return False
        self._endpoint.conversation.receive(one_line(text), self.call.number)
        if not self.call.over:
            self._endpoint.conversation.fail(self.call.number, self._not_answered())
        return True

    @property
    def lasting(self) -> bool:
        """Return whether it is a subscription, which has no answer until it ends."""
        return self.call.method == b"subscriptions/listen"

    async def run(self) -> None:
        """Send the call until it is answered or has failed."""
        endpoint, number = self._endpoint, self.call.number
        try:
            await (self._subscribed() if self.lasting else self._run_until_answered())
        except TabaneError as failure:
            endpoint.conversation.fail(number, failure)
        except Exception:
            # Every caller gets an answer, also if there is a defect here.
            log.exception("%s: a call failed inside Tabane", endpoint.name)
            endpoint.conversation.fail(number, failed_inside(endpoint.name))

    async def _run_until_answered(self) -> None:
        endpoint, patience = self._endpoint, HttpRetryPolicy(self.call.safe)
        expired: str | None = None
        while not (self.call.over or endpoint.closed):
            try:
                if expired is not None:
                    await self._renew(expired)
                    expired = None
                await self._attempt()
            except HttpUnreachable as fault:
                await self._wait_for(fault)
            except HttpConnectionBroken as fault:
                await self._resume()
                if not self.call.over and not patience.survives_break():
                    raise broken_in_flight(self._endpoint.name, fault.problem) from None
            except ServerBusy as fault:
                delay = patience.wait(fault.status, fault.seconds)
                if delay is None:
                    raise busy(self._endpoint.name, fault.status, fault.seconds) from None
                await asyncio.sleep(delay)
            except UpstreamSessionExpired as fault:
                expired = fault.used
                if not patience.survives_expiry():
                    raise UpstreamUnavailable(
                        say("{server!n} loses its sessions at once.", server=endpoint.name)
                    ) from None

    @property
    def last_event(self) -> str:
        """Return the id of the last event of the call's stream; empty if the server gives none."""
        return self._position.last_id

    @last_event.setter
    def last_event(self, last_id: str) -> None:
        self._position.last_id = last_id

    async def run_on(self) -> None:
        """Read the rest of a stream that an earlier hub began to read."""
        endpoint, number = self._endpoint, self.call.number
        try:
            await self._resume()
        except TabaneError as failure:
            endpoint.conversation.fail(number, failure)
        if not self.call.over:
            problem = say("the stream ended before the response")
            endpoint.conversation.fail(number, broken_in_flight(endpoint.name, problem))

    async def _subscribed(self) -> None:
        """Read one stream of a subscription to its end. The subscriber opens the next one."""
        try:
            await self._attempt()
        except HttpUnreachable as fault:
            if not self._endpoint.unreached(fault):
                raise UpstreamUnavailable(fault.problem) from None
        except HttpConnectionBroken as fault:
            raise broken_in_flight(self._endpoint.name, fault.problem) from None
        except ServerBusy as fault:
            raise busy(self._endpoint.name, fault.status, fault.seconds) from None

    # -- one try ---------------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """Send the call once and read the response. Raises the errors of HTTP, and UpstreamError."""
        call, session = self.call, self._endpoint.session
        if self.era is Era.LEGACY and call.method != b"initialize":
            await session.settled()
            session.keep(call.method, call.params, self.line)
        headers, used = self._headers(), session.id
        self.sent = True
        begun, self._response = self._response, None
        if isinstance(begun, HttpFailure):
            raise begun
        response = await self._endpoint.client.send("POST", headers, self.line, begun=begun)
        self._since = None
        try:
            if response.status >= 300 or response.status in _NO_ANSWER:
                await self._handle_error_status(response, used)
            else:
                await self._read_response(response)
        finally:
            response.release()

    def _headers(self) -> dict[str, str]:
        call, headers = self.call, dict(POSTED)
        if self.era is Era.MODERN:
            headers.update(standard_headers(call.method.decode(), call.params, eras.MODERN))
            if call.mirrored:
                headers.update(param_headers(call.mirrored, call.params.get("arguments", Raw(b"{}"))))
        elif call.method != b"initialize":
            headers.update(self._endpoint.session.headers())
        if TRACEPARENT in call.meta:
            headers.update(trace_headers(call.meta))
        return headers

    async def _read_response(self, response: HttpResponse) -> None:
        call, endpoint = self.call, self._endpoint

        def take(message: bytes) -> Done:
            if call.method == b"initialize":
                endpoint.session.introduced(self.line, response, message)
            waits = endpoint.conversation.receive(message, call.number)
            return call.over if waits is None else over_after(waits)

        async def over_after(waits: asyncio.Future[None]) -> bool:
            await waits
            return call.over

        try:
            oversized, turns = endpoint.conversation.oversized, endpoint.client.turns
            await read(response, endpoint.limit, take, self._position, oversized, turns)
        except ResponseTooLong as large:
            endpoint.conversation.oversized(large.head)
            raise UpstreamError(say(

                    "The response of {server!n} is larger than the message limit ({megabytes} MiB). "
                    "Request less data.",
                server=endpoint.name, megabytes=endpoint.limit >> 20)) from None  # fmt: skip
        if call.over:
            return
        if kind_of(response) == EVENTS:
            raise HttpConnectionBroken(say("the stream ended before the response"))
        raise self._not_answered()

    def _not_answered(self) -> UpstreamError:
        return UpstreamError(say(
            "{server!n} answered {method} with something that is not a response to it.",
            server=self._endpoint.name, method=self.call.method.decode()))  # fmt: skip

    async def _handle_error_status(self, response: HttpResponse, used: str) -> None:
        """Handle an error status: raise its error, or answer the call."""
        call, endpoint, status = self.call, self._endpoint, response.status
        text = await error_body(response)
        error = error_in(text)
        if self.era is Era.LEGACY and used and call.method != b"initialize":
            await self._check_session(status, text, error, used)
        if status in BUSY:
            raise ServerBusy(status, retry_after(response.headers.get("Retry-After"), time.time()))
        if error is not None and status not in (401, 403):
            waits = endpoint.conversation.receive(json.error_line(b"%d" % call.number, error), call.number)
            if waits is not None:
                await waits
        elif call.method == b"initialize" and status in OTHER_KIND and endpoint.on_legacy is not None:
            endpoint.on_legacy(call, self.line, self.era, status)
        elif status in _NO_ANSWER:
            raise UpstreamError(say(
                "{server!n} accepted {method} but does not answer it ({status}).",
                server=endpoint.name, method=call.method.decode(), status=status))  # fmt: skip
        else:
            said = shown_text(text, endpoint.redact)
            raise refusal(endpoint.name, status, said, call.method, named_http=endpoint.on_legacy is None)

    async def _check_session(self, status: int, text: bytes, error: bytes | None, used: str) -> None:
        """Raise UpstreamSessionExpired if the server no longer knows the session and did not act on the call.

        After a failure inside the server (500), it is asked whether it knows the session. If not, the session
        is replaced, so that the next call works.
        """
        if is_expired(status, text, error):
            raise UpstreamSessionExpired(used)
        if status < 500 or status in BUSY or not await self._endpoint.session.is_lost(used):
            return
        if self.call.safe or speaks_of_session(text):
            raise UpstreamSessionExpired(used)
        with contextlib.suppress(HttpUnreachable):
            await self._renew(used)

    # -- what goes wrong -------------------------------------------------------------------------

    async def _resume(self) -> None:
        """Resume a broken stream if the server numbers its events (legacy only)."""
        failures, position = 0, self._position
        while self.era is Era.LEGACY and position.last_id and failures < _RESUMPTIONS and not self.call.over:
            await asyncio.sleep(0.2 * (1 + failures) if position.wait is None else max(0.02, position.wait))
            count = position.count
            try:
                response = await self._endpoint.session.resume(position)
            except (HttpUnreachable, HttpConnectionBroken):
                failures += 1
                continue
            except LoginRequired:
                return  # the call has begun, so it must not fail as one that can be made again after a login
            try:
                if response.status not in (200, *BUSY):
                    return
                if response.status == 200 and kind_of(response) == EVENTS:
                    await self._read_response(response)
            except HttpConnectionBroken:
                pass
            finally:
                response.release()
            # A server that sends a retry time closes its streams on purpose.
            if position.count == count and (position.wait is None or response.status != 200):
                failures += 1

    async def _renew(self, used: str) -> None:
        try:
            await self._endpoint.session.renew(used)
        except (HttpConnectionBroken, UpstreamError) as fault:
            # The server did nothing in the lost session. If no new one can be had, it is unreachable.
            problem = fault.problem if isinstance(fault, HttpConnectionBroken) else fault.message
            raise HttpUnreachable(problem) from None

    async def _wait_for(self, fault: HttpUnreachable) -> None:
        """Wait for a connection while the server still answers others; else the server is gone."""
        now = asyncio.get_running_loop().time()
        since = self._since = now if self._since is None else self._since
        self.away = True
        if self._endpoint.unreached(fault):
            return
        if now - since > LONGEST_AWAY:
            raise cannot_connect(self._endpoint.name, fault.problem)
        await asyncio.sleep(min(0.05 + (now - since) / 2, 1.0))
        self.away = False


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
        """Return whether the connection has ended."""
        return self._endpoint.closed

    # -- what is sent ----------------------------------------------------------------------------

    def request(self, call: Call, line: bytes, era: Era) -> None:
        """Send a request with POST."""
        request = self._requests[call.number] = UpstreamHttpRequest(self._endpoint, call, line, era)
        if not request.begin(self._take_response):
            self._run_in_task(request)

    def _take_response(self, request: UpstreamHttpRequest) -> None:
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
        """Send a notification or an answer with POST, in the background."""
        if line == INITIALIZED:
            self._session.settle()
        elif self._session.version:
            self._note(self._post(line))
        elif (method := _notified(line)) is not None:
            self._note(self._post_modern(line, method))

    def cancel(self, call: Call, line: bytes) -> None:
        """Cancel a request: end its stream, and notify the server if its era wants that."""
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
        """Return where a call is in its session, so that it can outlive this hub; None if it cannot."""
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
        """Take no more requests, and end the session."""
        if not self.closed and self._farewell is None:
            self._farewell = self._loop.create_task(self._session.end())

    async def finished(self, seconds: float) -> None:
        """Wait until the server was notified of the end, at most so many seconds."""
        if self._farewell is not None:
            await asyncio.wait([self._farewell], timeout=seconds)
            self._farewell.cancel()

    def close(self, why: str) -> None:
        """End the connection."""
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
