"""Sessions over HTTP in the handshake era: many responses, and streams that can be resumed.

Sessions are limited in number, and end when they are idle.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Callable, Iterable, Iterator

from tabane.hub.clients.outlet import ROOM, Outlet, undelivered
from tabane.hub.clients.session import ClientSessions, Session
from tabane.hub.context import HubContext
from tabane.hub.http.authentication import has_ended
from tabane.hub.http.gate import HttpGate
from tabane.hub.http.request import HttpReply, HttpRequest, PostedMessage, refusal
from tabane.hub.http.stream import Journal, Pulse, Stream, event_id, parse_event_id
from tabane.settings import Mode
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.http import AcceptedTypes
from tabane.wire.sse import encode_event

log = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds that an answer may take before its response becomes a stream, which can be resumed."""

RETRY = 1000
"""Milliseconds after which a client connects again to a stream that broke."""

PRIMED = "2025-11-25"
"""The first version with events that have an id but no data."""

MOST_KEPT, MOST_KEPT_BYTES = 256, 1 << 20
"""Events of responses kept for a client that comes back, and their bytes."""

MOST_WAITING, MOST_WAITING_BYTES = 64, 64 << 10
"""Of what belongs to no request: events kept until the client listens."""

KEPT_FOR = 60.0
"""Seconds that the events of a response are kept after its end, since nobody says that they arrived."""

CANCELLED = -32800
"""The answer to a canceled request, since its response has to end (as in the SDKs)."""

_LISTENING = 0


class _PostResponse:
    """A response that answers the requests of one POST: ``waiting`` are the ids still to be answered."""

    __slots__ = ("answers", "batch", "ended", "number", "resumable", "stream", "waiting")

    def __init__(self, number: int, waiting: set[bytes], stream: Stream, batch: bool) -> None:
        self.number, self.waiting, self.batch = number, waiting, batch
        self.stream: Stream | None = stream
        self.answers: list[bytes] = []
        self.resumable = False
        """Whether the client was given an event's id, by which it can ask for the rest."""
        self.ended: float | None = None


class ResumableSession(Outlet):
    """The outlet of a session, and the session itself. It knows which response belongs to each request."""

    __slots__ = (
        "_behind",
        "_count",
        "_current",
        "_delivered",
        "_journal",
        "_listening",
        "_loop",
        "_over",
        "_posts",
        "_pulse",
        "_requests",
        "_streams",
        "_unheard",
        "_with_events",
        "dismissed",
        "id",
        "limit",
        "owner",
        "session",
        "used",
    )

    session: Session

    def __init__(self, session_id: str, pulse: Pulse, limit: int, owner: str) -> None:
        self.id, self.limit, self.owner = session_id, limit, owner
        self.dismissed: Callable[[ResumableSession, str], None] = ResumableSession.close
        """Called with the session and the reason when a person disconnects the client."""
        self.used = pulse.loop.time()
        self._pulse, self._loop = pulse, pulse.loop
        self._count = self._posts = self._delivered = 0
        self._behind = False
        self._requests: dict[bytes, _PostResponse] = {}
        self._streams: dict[int, _PostResponse] = {}
        self._journal: Journal | None = None
        self._unheard: Journal | None = None
        self._listening: Stream | None = None
        self._current: _PostResponse | None = None
        self._over = False

    # -- the outlet --------------------------------------------------------------------------------

    transport = "http"

    @property
    def unsent(self) -> int:
        streams = {post.stream for post in self._streams.values()} | {self._listening}
        return sum(stream.unsent for stream in streams if stream)

    @property
    def closed(self) -> bool:
        return self._over

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        post = self._requests.pop(request_id, None) if request_id is not None else None
        post = post or (self._current if request_id is None else None)
        if post is None:
            return
        stream = post.stream
        if request_id is None:
            post.waiting.clear()
        else:
            post.waiting.discard(request_id)
        if post.resumable or (stream and stream.begun):
            self._send_event(
                post, self._fit_answer(request_id, line, stream.unsent if stream else 0), due=True
            )
        elif post.batch:
            # They wait for the last of them, whether or not the client reads.
            post.answers.append(self._fit_answer(request_id, line, sum(map(len, post.answers))))
        elif stream:
            stream.answer(200 if request_id is not None else 400, line)
        if not post.waiting:
            self._end_response(post)

    def tell(self, line: bytes, about: bytes | None) -> None:
        post = self._requests.get(about) if about is not None else None
        if post is not None:
            self._send_event(post, line)
        elif not self._over:
            self._say_to_listener(line)

    def drain(self) -> None:
        return

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        return False

    def close(self, why: str) -> None:
        """End every response: those that have not begun, with an error."""
        self.end(refusal(503, why, (b"retry-after", b"1")).reply)

    def dismiss(self, why: str) -> None:
        self.dismissed(self, why)

    def end(self, reply: HttpReply) -> None:
        """End the session, with this answer for the responses that have not begun."""
        self._over = True
        for post in list(self._streams.values()):
            if post.stream:
                post.stream.reply(reply)
            self._end_response(post)
        if self._listening:
            self._listening.finish()

    # -- requests in -------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Return whether it is in use: a call is in flight, or a stream is open."""
        attached = any(post.stream for post in self._streams.values())
        return bool(self._listening or attached or self.session.in_flight)

    def touch(self) -> None:
        """Note that the client is connected, or was until now."""
        self.used = self._loop.time()

    def knows(self, ids: Iterable[bytes]) -> bool:
        """Return whether one of these ids is in use."""
        return any(name in self._requests for name in ids)

    async def post(
        self,
        request: HttpRequest,
        message: PostedMessage,
        ids: set[bytes],
        kinds: AcceptedTypes,
        *,
        fresh: bool = False,
    ) -> None:
        """Take the message of a POST, and answer it. ``ids`` are its requests, each of them not in use."""
        patience = PATIENCE if kinds.events else None
        stream = Stream(request, self._pulse, self.limit, patience=patience)
        self._posts += 1
        post = _PostResponse(self._posts, ids, stream, message.batch)
        stream.opening = lambda: self._opening_events(post)
        stream.mute = not kinds.events
        if fresh:
            stream.head = [(b"mcp-session-id", self.id.encode())]
        for name in ids:
            self._requests[name] = post
        self._streams[post.number] = post
        if ids and not kinds.json:
            stream.begin()
        self._current = post
        try:
            if message.batch:
                self.session.receive(message.line)
            else:
                self.session.take(message.first, message.params, message.meta)
        finally:
            self._current = None
        try:
            if not ids and not stream.finished:
                self._end_response(post)
                stream.reply(HttpReply(202))
            await stream.run()
        finally:
            self._detach(post, stream)

    def cancelled(self, request_id: bytes) -> None:
        """End the response of a request that the client has canceled, if the session does not answer it."""
        if request_id in self._requests:
            error = json.error_object(CANCELLED, "Request cancelled")
            self.answer(request_id, json.error_line(request_id, error), False)

    async def listen(self, request: HttpRequest) -> None:
        """Answer a GET: with what belongs to no request, or the rest of a stream that broke.

        Raises RefusedRequest.
        """
        last = request.headers.get("last-event-id")
        place = parse_event_id(last) if last else (_LISTENING, self._delivered)
        if place is None:
            raise refusal(400, "Last-Event-ID: not an event of this session")
        number, seen = place
        stream = Stream(request, self._pulse, self.limit, patience=None)
        stream.opening = lambda: self._prime(number, seen)
        if number == _LISTENING:
            await self._serve_listener(stream, seen, resumed=bool(last))
        else:
            await self._resume(stream, number, seen)

    def tidy(self, now: float) -> None:
        """Drop events that were kept long enough."""
        for number, post in list(self._streams.items()):
            if post.ended is not None and now - post.ended > KEPT_FOR:
                self._drop(number)

    # -- responses of POSTs ------------------------------------------------------------------------

    def _send_event(self, post: _PostResponse, line: bytes, *, due: bool = False) -> None:
        stream = post.stream
        if stream and stream.mute:
            return
        if stream:
            stream.begin()
        if not post.resumable:
            return  # Nobody will ever ask for it.
        event = self._keep_event(post, line)
        if stream:
            stream.event(event, due=due)

    def _fit_answer(self, request_id: bytes | None, line: bytes, waiting: int) -> bytes:
        """Return the answer, or the error that replaces it if its client has too much to read already."""
        if waiting <= ROOM or waiting + len(line) <= self.limit:
            return line
        return undelivered(request_id, len(line), waiting, self.session.caller.lang)

    def _keep_event(self, post: _PostResponse, line: bytes) -> bytes:
        self._count += 1
        event = encode_event(line, event_id(post.number, self._count))
        if self._journal is None:
            self._journal = Journal(MOST_KEPT, MOST_KEPT_BYTES)
        self._journal.keep(post.number, self._count, event)
        return event

    def _opening_events(self, post: _PostResponse) -> bytes:
        """Return what a response begins with that has become a stream."""
        post.resumable = True
        opening = [
            self._prime(post.number, self._count),
            *(self._keep_event(post, line) for line in post.answers),
        ]
        post.answers = []
        return b"".join(opening)

    def _prime(self, number: int, seen: int) -> bytes:
        if (self.session.version or "") < PRIMED:
            return b""
        return encode_event(b"", event_id(number, seen), RETRY)

    def _end_response(self, post: _PostResponse) -> None:
        """End a response: all its requests are answered, or will not be."""
        for name in post.waiting:
            self._requests.pop(name, None)
        post.waiting.clear()
        stream = post.stream
        if stream and post.answers:
            stream.answer(200, b"[" + b",".join(line.rstrip(b"\n") for line in post.answers) + b"]\n")
        post.answers = []
        if stream and (stream.begun or stream.mute):
            stream.finish()
        if post.resumable:
            post.ended = self._loop.time()
        else:
            self._drop(post.number)

    def _detach(self, post: _PostResponse, stream: Stream) -> None:
        """Detach a response that has ended or lost its client. The requests continue."""
        self.touch()
        if post.stream is stream:
            post.stream = None

    def _drop(self, number: int) -> None:
        self._streams.pop(number, None)
        if self._journal is not None:
            self._journal.forget(number)

    async def _resume(self, stream: Stream, number: int, seen: int) -> None:
        post = self._streams.get(number)
        if post is None:
            raise refusal(400, "Last-Event-ID: that stream is over, and is kept no longer")
        before, post.stream = post.stream, stream
        if before:
            before.finish()  # The client knows better than we do that it broke.
        stream.begin()
        for event in self._journal.after(number, seen) if self._journal else ():
            stream.event(event)
        if post.ended is not None:
            stream.finish()
        try:
            await stream.run()
        finally:
            self._detach(post, stream)

    # -- what belongs to no request ----------------------------------------------------------------

    def _say_to_listener(self, line: bytes) -> None:
        self._count += 1
        event = encode_event(line, event_id(_LISTENING, self._count))
        if self._unheard is None:
            self._unheard = Journal(MOST_WAITING, MOST_WAITING_BYTES)
        self._unheard.keep(_LISTENING, self._count, event)
        listening = self._listening
        if listening is None or listening.lost:
            return
        if listening.unsent > self.limit // 2:
            self._behind = True
            return
        # What was held back goes first: of a client, no later event may hide an earlier one.
        events = self._unheard.after(_LISTENING, self._delivered) if self._behind else [event]
        self._behind = False
        self._delivered = self._count
        for each in events:
            listening.event(each)

    async def _serve_listener(self, stream: Stream, seen: int, *, resumed: bool) -> None:
        before = self._listening
        if before and not (resumed or before.lost):
            raise refusal(409, "this session has a stream for what belongs to no request already")
        self._listening = stream
        if before:
            before.finish()
        stream.begin()
        for event in self._unheard.after(_LISTENING, seen) if self._unheard else ():
            stream.event(event)
        self._delivered, self._behind = self._count, False
        try:
            await stream.run()
        finally:
            self.touch()
            if self._listening is stream:
                self._listening = None


LONGEST_LOOK = 30.0
"""Most seconds between two checks for sessions that are idle too long."""


class HttpSessions:
    """Sessions by ids that nobody can guess. If there are too many, the one idle longest is ended."""

    def __init__(self, context: HubContext, gate: HttpGate, clients: ClientSessions, pulse: Pulse) -> None:
        self._context, self._gate, self._clients, self._pulse = context, gate, clients, pulse
        self._loop = pulse.loop
        self._by_id: dict[str, ResumableSession] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = self.evicted = 0
        self.name_new: Callable[[], str] = _random_name
        """Returns the id of a new session."""
        self.on_end: Callable[[ResumableSession], None] = _ignore
        """Called with each session that has ended."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ResumableSession]:
        return iter(self._by_id.values())

    def make(self, request: HttpRequest, mode: Mode) -> ResumableSession:
        """Create a session. Raises RefusedRequest if there are too many, and none of them is idle."""
        return self._begin_session(request, mode, self.name_new())

    def take(self, request: HttpRequest, name: str, mode: Mode, messages: Iterable[bytes]) -> None:
        """Go on with a session of another hub: ``messages`` of the client bring it to its state.

        Raises RefusedRequest as :meth:`make`.
        """
        taken = self._begin_session(request, mode, name)
        for line in messages:
            taken.session.receive(line)  # it was answered before: the outlet knows no such request
        taken.session.sees_others()

    def _begin_session(self, request: HttpRequest, mode: Mode, name: str) -> ResumableSession:
        settings = self._context.settings
        if len(self._by_id) >= settings.http_sessions:
            self._make_room()
        self._count += 1
        created = ResumableSession(name, self._pulse, settings.outbox, request.owner)
        assert request.access is not None  # identified before
        caller = self._gate.caller(request, f"http-{self._count}", request.access)
        created.session = self._clients.begin(caller, mode, created, Era.LEGACY)
        created.dismissed = self.end
        self._by_id[name] = created
        self._look_later()
        return created

    def find(self, name: str | None, owner: str) -> ResumableSession:
        """Return a session by its id, for the identity that made it.

        Raises RefusedRequest: 400 without an id, 404 if there is no such session, or it is another's.
        """
        if not name:
            raise refusal(400, "Mcp-Session-Id is missing: begin with initialize, and send the id it gives")
        found = self._by_id.get(name)
        if found is None or found.owner != owner:
            raise refusal(404, "Mcp-Session-Id: no such session, or it has ended; begin with initialize")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_id

    def get(self, name: str) -> ResumableSession | None:
        """Return a session by its id, whoever asks."""
        return self._by_id.get(name)

    def end(self, session: ResumableSession, why: str) -> None:
        """Cancel what it has in flight, end its streams, forget it."""
        if self._by_id.pop(session.id, None) is None:
            return
        self.on_end(session)
        log.info("session %s over HTTP ended: %s", session.session.caller.session, why)
        gone: HttpReply = refusal(404, f"the session has ended: {why}").reply
        session.end(gone)
        session.session.gone()

    def end_revoked(self) -> None:
        """End the sessions of keys that were revoked or have expired."""
        for session in list(self):
            if has_ended(session.session.caller.access):
                self.end(session, "its key or token is no longer valid")

    def close(self) -> None:
        """End all sessions."""
        if self._timer:
            self._timer.cancel()
        for session in list(self._by_id.values()):
            session.close("the hub ended")
            self.end(session, "the hub ended")

    def _make_room(self) -> None:
        idle = min((one for one in self if not one.busy), key=lambda one: one.used, default=None)
        if idle is None:
            text = "the hub has as many sessions as it takes, and all of them are in use"
            raise refusal(503, text, (b"retry-after", b"30"))
        self.evicted += 1
        self.end(idle, "it was idle longest when another client came")

    def _look_later(self) -> None:
        if self._timer is None and self._by_id:
            limit = self._context.settings.http_idle * 60
            self._timer = self._loop.call_later(min(LONGEST_LOOK, limit / 2), self._end_idle)

    def _end_idle(self) -> None:
        self._timer = None
        now, limit = self._loop.time(), self._context.settings.http_idle * 60
        for session in list(self):
            session.tidy(now)
            if now - session.used > limit and not session.busy:
                self.expired += 1
                self.end(session, "it was idle")
        self._look_later()


def _random_name() -> str:
    return base64.urlsafe_b64encode(os.urandom(24)).decode()


def _ignore(session: ResumableSession) -> None:
    return
