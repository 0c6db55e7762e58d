"""Requests in a group of hubs: each is answered by the hub that has its session, call, task or result.

Any hub takes any request. It checks host, origin and credentials, and passes on what another hub has. That
one believes only what is signed with the key of the group. It never passes a request on again.
:class:`GroupClient` passes one request on, and streams its response back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import UNSET

from tabane.errors import StoreError
from tabane.group.marks import may_name_a_hub, named_hub, with_mark, without_mark
from tabane.group.membership import LARGEST_SESSION, GroupMember, HubGroup, StoredSession
from tabane.group.signatures import (
    ForgedRequest,
    ForwardedRequest,
    SeenRequests,
    body_digest,
    checked,
    hub_of_session,
    session_digest,
    session_name,
    signed,
)
from tabane.hub.http.gate import HttpGate
from tabane.hub.http.legacy import HttpSessions, ResumableSession
from tabane.hub.http.request import HeaderList, HttpReply, HttpRequest, RefusedRequest, RequesterGone, refusal
from tabane.hub.http.routing import RequestRouting
from tabane.hub.http.stream import parse_event_id
from tabane.settings import Mode
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.http import accepted
from tabane.wire.json import JsonRpcFrame
from tabane.wire.rpc import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

log = logging.getLogger(__name__)

FORWARDED = "tabane-forwarded"
"""The header with the signature of a request that another hub of the group has checked."""

MOVED = "tabane-moved"
"""The header of the answer of a hub that does not have what a request is for any more."""

MOST = 4096
"""Requests that are passed on at the same time."""

CONNECT_TIMEOUT = 3.0
QUIET = 45.0
"""Seconds that a stream may be silent: hubs send a comment after 15."""

KEEP_ALIVE = 30.0
"""Seconds that an idle connection is kept: less than the 75 after which a hub closes it."""

WHOLE = 64 << 10
"""Bytes of a response up to which it is read before it is sent on."""

Outcome = Literal["answered", "unreachable", "moved"]

_PASSED = frozenset(
    (
        "accept",
        "accept-language",
        "authorization",
        "content-type",
        "last-event-id",
        TRACEPARENT,
        TRACESTATE,
    )
)
_RETURNED = frozenset((b"content-type", b"cache-control", b"mcp-session-id", b"retry-after", b"allow"))


def signed_headers(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the headers that another hub needs. The signature covers them."""
    for name, value in pairs:
        if name in _PASSED or name.startswith("mcp-"):
            yield name, value


class GroupClient:
    """Passes requests on. Made inside the running loop; its connections are kept between requests."""

    def __init__(self, group: HubGroup) -> None:
        self._group = group
        self._session: ClientSession | None = None
        self._open = 0

    async def pass_on(self, request: HttpRequest, member: GroupMember, body: bytes) -> Outcome:
        """Answer a request with the response of another hub, unless that one cannot be reached, or does not
        have what the request is for: then nothing was done. Raises RefusedRequest and RequesterGone.
        """
        if self._open >= MOST:
            raise refusal(503, "too many requests are passed on to other hubs", (b"retry-after", b"1"))
        self._open += 1
        work = asyncio.ensure_future(self._answer_from(request, member, body))
        request.line.on_lost = work.cancel
        try:
            return await work
        except asyncio.CancelledError:
            if work.cancelled():
                raise RequesterGone from None
            work.cancel()
            raise
        finally:
            self._open -= 1
            request.line.on_lost = None

    async def close(self) -> None:
        """Close the connections to other hubs."""
        if self._session is not None:
            await self._session.close()

    async def _answer_from(self, request: HttpRequest, member: GroupMember, body: bytes) -> Outcome:
        from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError

        try:
            response = await self._send(request, member, body)
        except (ClientConnectorError, ConnectionTimeoutError):
            return "unreachable"
        except (ClientError, TimeoutError) as error:
            raise _connection_broke(member, error) from None
        async with response:
            if MOVED in response.headers:
                return "moved"
            try:
                await _return(request, response)
            except (ClientError, TimeoutError) as error:
                if not request.status:
                    raise _connection_broke(member, error) from None
                request.line.transport.abort()  # the client sees that its response is not complete
                raise RequesterGone from None
        return "answered"

    async def _send(self, request: HttpRequest, member: GroupMember, body: bytes) -> ClientResponse:
        from aiohttp import ClientTimeout
        from multidict import CIMultiDict
        from yarl import URL

        if self._session is None:
            self._session = client_session()
        # Of credentials, only an access token of OAuth is passed on: it says what its holder may do.
        token = request.access is not None and request.access.holder.startswith("oauth:")
        headers = [pair for pair in signed_headers(request.pairs) if token or pair[0] != "authorization"]
        signature = self._signature(request, member, headers, body)
        streams = accepted(request.headers.get("accept")).events
        return await self._session.request(
            request.method,
            URL(member.address + request.raw_path, encoded=True),
            data=body or None,
            headers=CIMultiDict([*headers, (FORWARDED, signature)]),
            allow_redirects=False,
            timeout=ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT, sock_read=QUIET if streams else None
            ),
        )

    def _signature(
        self, request: HttpRequest, member: GroupMember, headers: list[tuple[str, str]], body: bytes
    ) -> str:
        group, access = self._group, request.access
        assert access is not None  # identified before
        forwarded = ForwardedRequest(
            group.me.id,
            member.id,
            group.next_number(),
            group.now,
            access.holder,
            request.page,
            body_digest(body),
        )
        return signed(group.key, forwarded, request.method, request.raw_path, headers)


def client_session() -> ClientSession:
    """Return a client for requests to other hubs, which adds no headers that a signature would miss."""
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector

    return ClientSession(
        connector=TCPConnector(limit=MOST, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        auto_decompress=False,
    )


async def _return(request: HttpRequest, response: ClientResponse) -> None:
    """Send the response of another hub to the client as it comes."""
    headers: HeaderList = [
        (name.lower(), value) for name, value in response.raw_headers if name.lower() in _RETURNED
    ]
    length = response.content_length
    if response.status == 204 or (length is not None and length <= WHOLE):
        await request.reply(HttpReply(response.status, await response.read(), headers))
        return
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await request.start(response.status, [*headers, *request.extra])
    async for chunk in response.content.iter_any():
        await request.send(chunk, more=True)
    await request.send(b"", more=False)


def _connection_broke(member: GroupMember, error: BaseException) -> Exception:
    log.warning("hub %s at %s did not answer: %s", member.id, member.address, error or type(error).__name__)
    text = "The hub that works on this request has gone. It is not known whether the request took effect."
    return refusal(502, text)


PATIENCE = 15.0
"""Seconds that a request waits for its hub to be reachable, or to be known as gone."""

RESTARTING = 60.0
"""Seconds after its last heartbeat in which a hub may come back, with its tasks and some of its calls."""

MOST_MOVED = 10_000
"""Sessions that are remembered as taken by another hub."""

KEPT_METHODS = frozenset(("logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""Requests that change the state of a session. Another hub repeats them when it takes the session."""

_MODES: tuple[Mode, ...] = get_args(Mode)


class GroupRouting(RequestRouting):
    """Finds the hub of each request over HTTP, and takes the sessions of hubs that have gone."""

    def __init__(self, group: HubGroup, gate: HttpGate, sessions: HttpSessions) -> None:
        self._group, self._gate, self._sessions = group, gate, sessions
        self._client = GroupClient(group)
        self._seen = SeenRequests()
        self._moved: OrderedDict[str, str] = OrderedDict()
        self._messages: dict[str, tuple[bytes, ...]] = {}
        self._writing: set[asyncio.Task[None]] = set()
        sessions.name_new = lambda: session_name(group.key, group.me.id)
        sessions.on_end = self._drop_session
        group.on_lapse = self._drop_taken

    @property
    def joined(self) -> bool:
        return self._group.joined

    @property
    def hubs(self) -> int:
        return len(self._group.report()["hubs"])

    @property
    def draining(self) -> bool:
        """Return whether the hub is about to end, so that new clients should go to another one."""
        return self._group.me.state != "ready"

    async def close(self) -> None:
        """Finish what is written, and close the connections to other hubs."""
        if self._writing:
            await asyncio.wait(self._writing)
        await self._client.close()

    # -- requests of other hubs ------------------------------------------------------------------

    def admits(self, request: HttpRequest) -> bool:
        """Return whether another hub of the group passes this request on, and has checked it.

        Raises RefusedRequest if that is claimed and not true.
        """
        text = request.headers.get(FORWARDED)
        if text is None:
            return False
        self._require_joined()
        group = self._group
        headers = signed_headers(request.pairs)
        try:
            forwarded = checked(group.key, text, request.method, request.raw_path, headers)
            self._seen.take(forwarded, group.me.id, group.now)
        except ForgedRequest:
            raise refusal(403, f"{FORWARDED}: no hub of this group has signed this request") from None
        request.forwarded, request.page = forwarded, forwarded.page
        return True

    # -- where a request goes --------------------------------------------------------------------

    async def passes(self, request: HttpRequest, era: Era, frame: JsonRpcFrame | None, body: bytes) -> bool:
        """Answer a request at the hub that it is for. Return False if that is this one.

        ``frame`` is the message of a POST. Raises RefusedRequest and RequesterGone.
        """
        self._require_joined()
        if era is Era.LEGACY and (name := request.headers.get("mcp-session-id")):
            return await self._passes_session(request, name, frame, body)
        if era is Era.MODERN and frame is not None and may_name_a_hub(body):
            member = self._hub_named_in(frame)
            if member is not None and member.id != self._group.me.id:
                return await self._passes_to(request, member, frame, body)
        return await self._hands_on(request, body)

    def marked(self, line: bytes) -> bytes:
        """Return an answer of this hub, whose mark is put before the state of a server."""
        return with_mark(line, self._group.me.mark)

    def unmarked(self, line: bytes) -> bytes:
        """Return a request for this hub, with the state of a server as that made it."""
        return without_mark(line, self._group.marks)

    def note(self, session: ResumableSession, method: object, line: bytes) -> None:
        """Keep a message for the hub that may take this session: its first one, and those that change it."""
        before = self._messages.get(session.id, ())
        messages = (*before, line)
        if method == "initialize" or (method in KEPT_METHODS and before):
            if sum(map(len, messages)) > LARGEST_SESSION:
                self._drop_session(session)
                return
            self._messages[session.id] = messages
            stored = StoredSession(
                session_digest(session.id), self._group.me.id, session.owner, session.session.mode, messages
            )
            self._write(self._group.state.keep_session(stored))

    async def _passes_session(
        self, request: HttpRequest, name: str, frame: JsonRpcFrame | None, body: bytes
    ) -> bool:
        group = self._group
        if name in self._sessions and group.keeps_sessions:
            return False
        hub = hub_of_session(group.key, name)
        if hub is None:
            return False  # it is refused as one that does not exist
        if group.me.state == "leaving" and not (_follows_a_call(frame) and name in self._sessions):
            if request.forwarded:
                raise _moved()
            return await self._hands_on(request, body)
        return await self._passes_to_owner(request, name, hub, frame, body)

    async def _passes_to_owner(
        self, request: HttpRequest, name: str, hub: str, frame: JsonRpcFrame | None, body: bytes
    ) -> bool:
        """Answer a request at the hub that has its session, or take the session if that hub is gone."""
        group, follows = self._group, _follows_a_call(frame)
        until = asyncio.get_running_loop().time() + PATIENCE
        while name not in self._sessions:
            member = group.member(self._moved.get(name, hub))
            outcome: Outcome = "moved"
            if member is not None and member.id != group.me.id and (member.serves or follows):
                if request.forwarded:
                    raise _moved()
                outcome = await self._client.pass_on(request, member, body)
            if outcome == "answered":
                return True
            if outcome == "moved" and not await self._claim_session(request, name, frame):
                return False
            if outcome == "unreachable" or (member is not None and self._moved.get(name, hub) == member.id):
                await self._wait(until)
                follows = False
        return False

    async def _claim_session(self, request: HttpRequest, name: str, frame: JsonRpcFrame | None) -> bool:
        """Take a session whose hub is gone, or find out who has it. Return False if it has ended."""
        me = self._group.me.id
        try:
            stored = await self._group.state.claim_session(session_digest(name), me)
        except StoreError as error:
            log.warning("a session could not be taken: %s", error)
            raise _refusal_for_now("the database of the group cannot be reached") from None
        if stored is None or stored.owner != request.owner:
            return False
        if stored.hub != me:
            self._moved[name] = stored.hub
            self._moved.move_to_end(name)
            if len(self._moved) > MOST_MOVED:
                self._moved.popitem(last=False)
            return True
        if name in self._sessions:
            return True  # another request was faster
        if not _may_go_on(request, frame):
            self._write(self._group.state.drop_session(stored.digest, me))
            return False
        mode = stored.mode
        self._sessions.take(request, name, next(one for one in _MODES if one == mode), stored.messages)
        self._messages[name] = stored.messages
        self._moved.pop(name, None)
        log.info("a session of a hub that has gone goes on here")
        return True

    def _hub_named_in(self, frame: JsonRpcFrame) -> GroupMember | None:
        """Return the hub whose handle a request has. Raises RefusedRequest if hub and call are gone."""
        if frame.method is UNSET or frame.params is UNSET:
            return None
        named = named_hub(str(frame.method), json.fields(frame.params))
        if named is None or named.mark == self._group.me.mark:
            return None
        member = self._group.marked(named.mark)
        if member is None or member.serves:
            return member
        if named.kind in ("call", "task") and member.age < RESTARTING:
            raise _refusal_for_now("the hub that has this restarts")
        if named.kind != "call":
            return None
        text = "requestState: the hub that waited for this answer has ended; call again without it"
        request_id = None if frame.id is UNSET else bytes(frame.id)
        raise refusal(400, text, code=eras.INVALID_PARAMS, request_id=request_id)

    async def _passes_to(
        self, request: HttpRequest, member: GroupMember, frame: JsonRpcFrame, body: bytes
    ) -> bool:
        until = asyncio.get_running_loop().time() + PATIENCE
        while not request.forwarded:
            if await self._client.pass_on(request, member, body) == "answered":
                return True
            await self._wait(until)
            found = self._hub_named_in(frame)
            if found is None or found.id == self._group.me.id:
                return False
            member = found
        return False

    async def _hands_on(self, request: HttpRequest, body: bytes) -> bool:
        """Pass a request that arrives after this hub has left the group to another hub."""
        if self._group.me.state != "leaving" or request.forwarded:
            return False
        other = self._group.another()
        return other is not None and await self._client.pass_on(request, other, body) == "answered"

    async def _wait(self, until: float) -> None:
        """Wait until the hubs were looked for again. Raises RefusedRequest if it took too long."""
        try:
            async with asyncio.timeout_at(until):
                await self._group.news()
        except TimeoutError:
            raise _refusal_for_now("the hub that has this cannot be reached") from None

    def _require_joined(self) -> None:
        if not self._group.joined:
            raise _refusal_for_now("this hub has not joined its group yet")

    # -- sessions in the shared state ------------------------------------------------------------

    def _drop_session(self, session: ResumableSession) -> None:
        known = self._messages.pop(session.id, None)
        if known is not None and self._group.keeps_sessions:
            self._write(self._group.state.drop_session(session_digest(session.id), self._group.me.id))

    async def _drop_taken(self) -> None:
        """End the sessions that other hubs have taken while this one had no heartbeat."""
        mine = {session_digest(name): name for name in self._messages}
        try:
            lost = await self._group.state.lost_sessions(list(mine), self._group.me.id)
        except StoreError as error:
            log.warning("it is not known which sessions other hubs have taken: %s", error)
            return
        for digest in lost:
            session = self._sessions.get(mine[digest])
            self._messages.pop(mine[digest], None)
            if session is not None:
                self._sessions.end(session, "another hub has taken it")

    def _write(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_log_failure(work))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)


async def _log_failure(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except StoreError as error:
        log.warning("a session is not known to the other hubs: %s", error)


def _follows_a_call(frame: JsonRpcFrame | None) -> bool:
    """Return whether a message belongs to a call that runs: an answer to its question, or its end."""
    return frame is not None and (frame.method is UNSET or frame.method == "notifications/cancelled")


def _may_go_on(request: HttpRequest, frame: JsonRpcFrame | None) -> bool:
    """Return whether a request makes sense in a session that has lost its streams and questions."""
    if request.method == "POST":
        return frame is not None and frame.method is not UNSET
    place = parse_event_id(request.headers.get("last-event-id", "0-0"))
    return place is not None and place[0] == 0


def _refusal_for_now(text: str) -> RefusedRequest:
    return refusal(503, f"{text[0].upper()}{text[1:]}. Send the request again.", (b"retry-after", b"1"))


def _moved() -> RefusedRequest:
    return RefusedRequest(HttpReply(421, b"", [(MOVED.encode(), b"1")]))
