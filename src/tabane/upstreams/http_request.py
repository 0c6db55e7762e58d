"""One call over streamable HTTP, with its retries, from the first attempt to the answer.

Each call handles broken connections, busy servers and lost sessions for itself. It is sent again if the
server cannot have acted on it, or if repeating it does no harm. It is answered once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.errors import LoginRequired, TabaneError, UpstreamError, UpstreamUnavailable
from tabane.messages import say
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_faults import HttpConnectionBroken, HttpUnreachable
from tabane.net.http_responses import (
    EVENTS,
    JSON,
    Done,
    ResponseTooLong,
    StreamPosition,
    after,
    error_body,
    error_in,
    kind_of,
    one_line,
    read,
)
from tabane.upstreams.call import Call
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.http_failures import (
    BUSY,
    OTHER_KIND,
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
from tabane.upstreams.http_session import POSTED, UpstreamHttpSession, UpstreamSessionExpired
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.headers import param_headers, standard_headers
from tabane.wire.retry_after import retry_after
from tabane.wire.trace_context import TRACEPARENT, trace_headers

if TYPE_CHECKING:
    from tabane.net.http_response import UpstreamHttpResponse
    from tabane.net.plain_http_connection import PlainHttpConnection, PlainHttpResponse

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
        "_begun",
        "_connection",
        "_endpoint",
        "_on_begun",
        "_position",
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
        self._connection: PlainHttpConnection | None = None
        self._begun: PlainHttpResponse | HttpConnectionBroken | None = None
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
            if self._begun is not None and not isinstance(self._begun, HttpConnectionBroken):
                self._begun.release()  # the task may never have run
        elif self._connection is not None:
            self._connection.give_up(self._arrived)

    def _arrived(self, found: PlainHttpResponse | HttpConnectionBroken) -> None:
        self._connection = None
        try:
            if isinstance(found, HttpConnectionBroken) or not self._settled(found):
                self._begun = found
        except Exception:
            log.exception("%s: a call failed inside Tabane", self._endpoint.name)
            self._endpoint.conversation.fail(self.call.number, failed_inside(self._endpoint.name))
        assert self._on_begun is not None  # set where it was sent
        self._on_begun(self)

    def _settled(self, response: PlainHttpResponse) -> bool:
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
            await (self._subscribed() if self.lasting else self._answered())
        except TabaneError as failure:
            endpoint.conversation.fail(number, failure)
        except Exception:
            # Every caller gets an answer, also if there is a defect here.
            log.exception("%s: a call failed inside Tabane", endpoint.name)
            endpoint.conversation.fail(number, failed_inside(endpoint.name))

    async def _answered(self) -> None:
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
                await self._wait_while(fault, patience)
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
        begun, self._begun = self._begun, None
        if isinstance(begun, HttpConnectionBroken):
            raise begun
        response = await self._endpoint.client.send("POST", headers, self.line, begun=begun)
        self._since = None
        try:
            if response.status >= 300 or response.status in _NO_ANSWER:
                await self._refused(response, used)
            else:
                await self._read(response)
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

    async def _read(self, response: UpstreamHttpResponse) -> None:
        call, endpoint = self.call, self._endpoint

        def take(message: bytes) -> Done:
            if call.method == b"initialize":
                endpoint.session.introduced(self.line, response, message)
            waits = endpoint.conversation.receive(message, call.number)
            return call.over if waits is None else after(waits, lambda: call.over)

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

    async def _refused(self, response: UpstreamHttpResponse, used: str) -> None:
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
                    await self._read(response)
            except HttpConnectionBroken:
                pass
            finally:
                response.close()
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

    async def _wait_while(self, fault: ServerBusy, patience: HttpRetryPolicy) -> None:
        delay = patience.wait(fault.status, fault.seconds)
        if delay is None:
            raise busy(self._endpoint.name, fault.status, fault.seconds)
        await asyncio.sleep(delay)
