"""The session of a legacy upstream over HTTP: started by ``initialize``, replaced when lost.

A server that was restarted, or that ended the session, refuses requests in it without acting on them. Then a
new session is started and the refused request is sent again. Callers do not notice. The rules for failed
requests, and for sending one again, are pure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET

from tabane.errors import UpstreamDied, UpstreamError, UpstreamOverloaded, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_failures import HttpConnectionBroken, HttpUnreachable
from tabane.net.http_responses import (
    EVENTS,
    JSON,
    Done,
    StreamPosition,
    kind_of,
    read,
)
from tabane.upstreams.handshake import UpstreamRefused
from tabane.wire import json
from tabane.wire.era import METHOD_NOT_FOUND
from tabane.wire.headers import VERSION
from tabane.wire.json import InvalidJson, Members

if TYPE_CHECKING:
    from tabane.net.http_connections import HttpResponse


log = logging.getLogger(__name__)

OTHER_KIND = frozenset({400, 404, 405})
"""Statuses with which a server of the old kind (HTTP with SSE) answers ``initialize`` by POST."""

_NOT_OURS = frozenset({401, 402, 403, 407})
_SHOWN = 200
_READ = 4096


def is_expired(status: int, text: bytes, error: bytes | None) -> bool:
    """Return whether a request was refused because the server no longer knows its session.

    The specification prescribes 404, and some servers answer 410. Many answer 400, and say "session" in the
    text or the message of the error; those on the TypeScript SDK say "not initialized" after a restart.
    """
    if status == 404 and error is not None:
        return bool(json.decode(error).get("code") != METHOD_NOT_FOUND)
    return status in (404, 410) or (status == 400 and speaks_of_session(text))


def speaks_of_session(text: bytes) -> bool:
    """Return whether the body of an error is about the session."""
    said = text[:_READ].lower()
    return b"session" in said or b"not initialized" in said


def refusal(
    server: str, status: int, text: str, method: bytes, *, named_http: bool, posted: int = 0
) -> UpstreamError:
    """Return the error for a status without an answer. ``text`` is the server's own text, redacted.

    ``named_http`` is whether the user configured the server as streamable HTTP, not the old kind. ``posted``
    is the status of the first request, if the old kind was only tried after it.
    """
    if posted and status in OTHER_KIND:
        return UpstreamError(say(
            "{server!n} does not accept requests at its URL (HTTP status {status}). Check the path of the "
            "URL: it often ends in /mcp or /sse.", server=server, status=posted))  # fmt: skip
    if status in (401, 403):
        return UpstreamUnavailable(say(
            "{server!n} requires credentials, or does not accept those it was sent ({status}). Set its "
            "\"headers\", such as \"Authorization\": \"Bearer ${{TOKEN}}\", and run: tabane secrets set "
            "TOKEN. If it has a login, set \"oauth\": true.", server=server, status=status))  # fmt: skip
    if method == b"server/discover" and status not in _NOT_OURS and status < 502:
        # An older server that does not know the method. It works, in the legacy era.
        return UpstreamRefused(METHOD_NOT_FOUND, _plain(server, status, text))
    if method == b"initialize" and status in (404, 405) and named_http:
        return UpstreamError(say(
            "{server!n} does not accept requests at its URL ({status}). If it uses the old transport "
            "(HTTP with SSE), "
'set "type": "sse".', server=server, status=status))  # fmt: skip
    return UpstreamError(_plain(server, status, text))


def busy(server: str, status: int, seconds: float | None) -> UpstreamError:
    """Return the error of a request that the server was too busy for, after all attempts."""
    if seconds is not None:
        what = say("{server!n} is busy ({status}). Try again in {seconds:.0f} s.",
                   server=server, status=status, seconds=seconds)  # fmt: skip
    else:
        what = say("{server!n} is busy ({status}). Try again later.", server=server, status=status)
    return UpstreamOverloaded(what) if status == 429 else UpstreamUnavailable(what)


def broken_in_flight(server: str, why: Message) -> UpstreamDied:
    """Return the error of a call whose connection broke before its answer arrived."""
    return UpstreamDied(say(
        "The connection to {server!n} broke during the call ({why}). It is not known whether the call "
        "took effect: "
"check before you call again.", server=server, why=why))  # fmt: skip


def cannot_connect(server: str, why: Message) -> UpstreamUnavailable:
    """Return the error of a call for which no connection could be made."""
    return UpstreamUnavailable(say("{server!n} accepts no more calls: {why}.", server=server, why=why))


def shown_text(body: bytes, redact: Callable[[str], str]) -> str:
    """Return the body of an error for a message; empty for HTML, which may repeat the request."""
    return "" if b"<" in body[:512] else redact(body.decode(errors="replace"))


def failed_inside(server: str) -> UpstreamError:
    """Return the error of a call that failed because of a defect in Tabane."""
    return UpstreamError(
        say("{server!n}: the call failed inside Tabane. The log has the reason: tabane logs", server=server)
    )


def _plain(server: str, status: int, text: str) -> Message:
    text = " ".join(text.split())[:_SHOWN]
    if text:
        return say(
            "{server!n} answered with HTTP status {status}: {text}", server=server, status=status, text=text
        )
    return say("{server!n} answered with HTTP status {status}.", server=server, status=status)


BUSY = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses after which another attempt may succeed."""

_NOT_BEGUN = frozenset({408, 425, 429})
_MOST_WAIT = 5.0
_FIRST_WAIT = 0.5
_TRIES = 2
_RENEWALS = 2


class HttpRetryPolicy:
    """The remaining attempts of one request. ``safe``: it may be sent twice.

    A request is sent again if the server certainly did not act on it, or if sending it twice does no harm. In
    all other cases the caller decides, since only the caller knows whether doing it twice does harm.
    """

    __slots__ = ("_breaks", "_renewals", "_safe", "_tries", "_waited")

    def __init__(self, safe: bool) -> None:
        self._safe = safe
        self._breaks = 1 if safe else 0
        self._tries = _TRIES
        self._renewals = _RENEWALS
        self._waited = 0.0

    def survives_break(self) -> bool:
        """Return whether to send it again after the connection broke: once, if that is safe."""
        self._breaks -= 1
        return self._breaks >= 0

    def survives_expiry(self) -> bool:
        """Return whether to send it again in a new session, because the old one is unknown."""
        self._renewals -= 1
        return self._renewals >= 0

    def wait(self, status: int, retry_after: float | None) -> float | None:
        """Return the seconds to wait after a busy server's answer; None if it is not sent again.

        After a 503 with Retry-After, the server has not begun to act. A 503 without it, like 502 and 504, may
        come from a proxy that lost the connection.
        """
        begun = status not in _NOT_BEGUN and not (status == 503 and retry_after is not None)
        delay = _FIRST_WAIT * (1 + _TRIES - self._tries) if retry_after is None else max(0.05, retry_after)
        if (begun and not self._safe) or not self._tries or self._waited + delay > _MOST_WAIT:
            return None
        self._tries -= 1
        self._waited += delay
        return delay


POSTED: Mapping[str, str] = {"Accept": f"{JSON}, {EVENTS}", "Content-Type": JSON}
INITIALIZED = json.notification_line("notifications/initialized")

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds before a stream that broke is opened again; twice as long each time."""

LASTING = 5.0
"""Seconds after which a stream counts as one that had worked."""

MOST_KEPT = 1024
"""Requests that are repeated in a new session: the log level, and subscriptions."""

_ID = "Mcp-Session-Id"

PING = b'{"jsonrpc":"2.0","id":"tabane-ping","method":"ping"}'


class UpstreamSessionExpired(Exception):
    """A request was refused because the server does not know the session ``used``."""

    def __init__(self, used: str) -> None:
        super().__init__("the session is not known any more")
        self.used = used


class UpstreamHttpSession:
    """One legacy session. ``id`` is empty if the server has none, ``version`` until it is negotiated.

    ``receive`` gets messages that the server sends unprompted. ``on_unreached`` is called when the stream for
    these cannot be opened, ``on_replaced`` when a new session has replaced a lost one.
    """

    def __init__(
        self,
        name: str,
        client: UpstreamHttpClient,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        receive: Callable[[bytes], asyncio.Future[None] | None],
        on_unreached: Callable[[HttpUnreachable], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self.id = self.version = ""
        self._name, self._client, self._loop, self._limit = name, client, loop, limit
        self._receive, self._on_unreached, self._on_replaced = receive, on_unreached, on_replaced
        self._introduction = b""
        self._kept: dict[bytes, bytes] = {}
        self._settling: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._stream: asyncio.Task[None] | None = None
        self._closed = False
        self.outlasting: set[int] = set()
        """Calls that go on after the hub has ended, so that the session must not end with it."""

    def headers(self) -> dict[str, str]:
        """Return the headers of each request within the session."""
        headers = {VERSION: self.version} if self.version else {}
        if self.id:
            headers[_ID] = self.id
        return headers

    # -- the beginning ---------------------------------------------------------------------------

    def introduced(self, line: bytes, response: HttpResponse, answer: bytes) -> None:
        """Begin the session if ``answer``, to the ``initialize`` in ``line``, is a result."""
        version = _version(answer)
        if version is not None:
            self._introduction, self.version = line, version
            self.id = response.headers.get(_ID, "")

    def settle(self) -> None:
        """Notify the server in the background that the hub is ready; other requests wait for that."""
        self._settling = self._loop.create_task(self._settle())

    async def settled(self) -> None:
        """Wait until the server was notified that the hub is ready."""
        if self._settling is not None:
            await asyncio.shield(self._settling)

    async def _settle(self) -> None:
        try:
            response = await self._client.send("POST", {**POSTED, **self.headers()}, INITIALIZED)
        except (HttpUnreachable, HttpConnectionBroken, UpstreamError) as fault:
            log.warning("%s: %s", self._name, fault)
        else:
            response.release()
            self._stream = self._loop.create_task(self._listen())
        self._settling = None

    def keep(self, method: bytes, params: Members, line: bytes) -> None:
        """Remember a request that changes the state of the session, to repeat it in the next session."""
        if method == b"logging/setLevel":
            self._kept[method] = line
        elif method == b"resources/subscribe" and len(self._kept) < MOST_KEPT:
            self._kept[bytes(params.get("uri", b""))] = line
        elif method == b"resources/unsubscribe":
            self._kept.pop(bytes(params.get("uri", b"")), None)

    async def is_lost(self, used: str) -> bool:
        """Return whether the server refuses a ping in the session ``used``. False if it cannot be reached."""
        if self.id != used:
            return True
        try:
            response = await self._client.send("POST", {**POSTED, **self.headers()}, PING)
        except (HttpUnreachable, HttpConnectionBroken, UpstreamError):
            return False
        response.release()
        return response.status >= 400 and response.status not in BUSY

    # -- renewal ---------------------------------------------------------------------------------

    async def renew(self, used: str) -> None:
        """Begin a new session in place of ``used``, once for all requests that found it lost.

        Raises HttpUnreachable, HttpConnectionBroken and UpstreamError.
        """
        if self.id == used:
            await asyncio.shield(self._renewal())

    def _renewal(self) -> asyncio.Task[None]:
        if self._renewing is None:
            self._renewing = self._loop.create_task(self._replace())
            self._renewing.add_done_callback(self._renewed)
        return self._renewing

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # The waiting requests get the error. If none waits any more, it is ignored.

    async def _replace(self) -> None:
        log.info("%s: the session was lost; starting a new one", self._name)
        self._stop_listening()
        await self._introduce()
        await self._settle()
        for line in list(self._kept.values()):
            await self._tell_again(line)
        self._on_replaced()

    async def _introduce(self) -> None:
        response = await self._client.send("POST", POSTED, self._introduction)
        found: list[str] = []

        def take(message: bytes) -> bool:
            found.extend(filter(None, [_version(message)]))
            return bool(found)

        try:
            if response.status == 200:
                await read(response, self._limit, take, StreamPosition(), self._too_long)
        finally:
            response.release()
        identity = response.headers.get(_ID, "")
        if found != [self.version] or identity == self.id:
            raise UpstreamUnavailable(
                say(
                    "its session was lost, and a new session could not be started ({status})",
                    status=response.status,
                )
            )
        self.id = identity

    async def _tell_again(self, line: bytes) -> None:
        try:
            response = await self._client.send("POST", {**POSTED, **self.headers()}, line)
            try:
                await read(response, self._limit, lambda message: True, StreamPosition(), self._too_long)
            finally:
                response.release()
        except (HttpUnreachable, HttpConnectionBroken, UpstreamError) as fault:
            log.warning("%s: what it was told before could not be told again: %s", self._name, fault)

    # -- unprompted messages of the server ----------------------------------------------------------

    async def _listen(self) -> None:
        """Keep open the stream of unprompted messages; some servers have none (405)."""
        position, wait, opened = StreamPosition(), FIRST_WAIT, False
        while not self._closed:
            began = self._loop.time()
            try:
                status = await self._read_stream(position)
                if status in (404, 410) and opened:
                    self._renewal()
                    return
                if status != 200 and status not in BUSY:
                    return
                opened = opened or status == 200
            except HttpUnreachable as fault:
                self._on_unreached(fault)
            except HttpConnectionBroken:
                pass
            except UpstreamError as fault:
                log.warning("%s: %s", self._name, fault)
                return
            wait = FIRST_WAIT if self._loop.time() - began > LASTING else min(wait * 2, LONGEST_WAIT)
            await asyncio.sleep(wait if position.wait is None else max(position.wait, 0.05))

    async def _read_stream(self, position: StreamPosition) -> int:
        """Read one stream to its end. Return its status, 415 if it is not a stream of events."""
        response = await self.resume(position)
        try:
            if response.status == 200:
                if kind_of(response) != EVENTS:
                    return 415
                await read(
                    response, self._limit, self._take_message, position, self._too_long, self._client.turns
                )
            return response.status
        finally:
            response.release()

    def _take_message(self, message: bytes) -> Done:
        waits = self._receive(message)
        return False if waits is None else _read_on_after(waits)

    def _too_long(self, head: bytes) -> None:
        log.warning("%s: a message of more than %d bytes was dropped", self._name, self._limit)

    async def resume(self, position: StreamPosition) -> HttpResponse:
        """Return the stream from ``position`` on; a new stream if there is no position."""
        headers = {"Accept": EVENTS, **self.headers()}
        if position.last_id:
            headers["Last-Event-ID"] = position.last_id
        return await self._client.send("GET", headers)

    # -- the end ---------------------------------------------------------------------------------

    async def end(self) -> None:
        """Notify the server that the session is no longer needed."""
        self._stop_listening()
        if self.id and not self.outlasting:
            try:
                response = await self._client.send("DELETE", self.headers())
                response.release()
            except (HttpUnreachable, HttpConnectionBroken, UpstreamError) as fault:
                log.debug("%s: %s", self._name, fault)

    def close(self) -> None:
        """Stop everything that is in progress."""
        self._closed = True
        self._stop_listening()
        for task in (self._settling, self._renewing):
            if task is not None:
                task.cancel()

    def _stop_listening(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and stream is not asyncio.current_task():
            stream.cancel()


def _version(message: bytes) -> str | None:
    """Return the protocol version in the result of ``initialize``; None in any other message."""
    try:
        result = json.decode_frame(message).result
        return None if result is UNSET else json.text(json.fields(result).get("protocolVersion"))
    except InvalidJson:
        return None


async def _read_on_after(waits: asyncio.Future[None]) -> bool:
    await waits
    return False
