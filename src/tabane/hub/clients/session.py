"""Sessions of MCP clients: each adapts between the era of its client and the hub's canonical requests.

Messages of a client come in through :meth:`Session.receive`, one at a time, over any transport. Messages to
the client go out through an outlet. :class:`ClientSessions` has the sessions of a hub: it begins them,
notifies their clients of changes, drains and closes them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_args

from msgspec import UNSET, Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.errors import (
    HubDraining,
    HubError,
    RateLimited,
    TabaneError,
    upgraded,
)
from tabane.hub.clients.asking import REPEATABLE, Asking
from tabane.hub.clients.calls import MOST_UNREAD, ClientCalls
from tabane.hub.clients.client_questions import (
    ClientQuestions,
    follow_roots,
    settle_roots,
    waits_for_roots,
)
from tabane.hub.clients.disclosure import FIXED
from tabane.hub.clients.outlet import ROOM, Outlet, too_large, undelivered
from tabane.hub.clients.questions.parking import HubQuestions
from tabane.hub.clients.server_access import (
    PresentProjects,
    ProjectAccess,
    ProjectOffers,
    ServerAccess,
    works_in,
)
from tabane.hub.clients.subscriptions import LISTS, ClientSubscriptions
from tabane.hub.context import HubContext
from tabane.hub.local.handshake import BEGUN, DRAIN, END, HELD, Hello
from tabane.hub.replacement import CodeReplacement
from tabane.messages import language, say
from tabane.operations import Caller, Face, OpenCall, ended
from tabane.servers.server import Server
from tabane.settings import Mode
from tabane.upstreams.call import ServerRequest
from tabane.wire import era as eras
from tabane.wire import json, rpc
from tabane.wire.channel import LineBatch, LineChannel
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members
from tabane.wire.negotiation import told_to_servers
from tabane.wire.questions import NOTHING, ON_PAGE, Features, features_of
from tabane.wire.rpc import TRACEPARENT, TRACESTATE
from tabane.workers.eager_start import own_task, start

if TYPE_CHECKING:
    from tabane.hub.people.access import HubAccess
    from tabane.hub.people.guards import HubGuards

log = logging.getLogger(__name__)

MOST_IN_FLIGHT = 4096
"""Requests of one client at the same time."""

MOST_IN_BATCH = 1000
"""Messages of one batch."""

LOOK = 1.0
"""Seconds between two looks whether the hub ends: then nothing is held back."""

BATCHED = "2025-03-26"
"""The one protocol version that has batches."""


class UnknownMethods(Protocol):
    """Messages of clients that are connected to one server alone, and that the hub does not know."""

    def handler(self, method: str) -> Handler | None:
        """Return what answers a request; None if the method cannot be passed on."""
        ...

    def notified(self, session: Session, method: str, params: Members) -> None:
        """Pass on a notification."""
        ...


class Session:
    """A client, from its first message to its last.

    ``caller`` says who it is, ``mode`` how tools are disclosed to it, ``outlet`` takes its messages.
    ``era`` is given where the transport tells it; else the first message settles it. ``key`` is the
    session's own name, which ``caller.session`` is not where one client has several (HTTP without
    sessions): such a session is ``shared``, and nothing of the client's ends with it. ``began`` and
    ``last_call`` are in seconds since 1970; ``requests`` is the number of calls.
    ``software`` is the version that the client says of itself.
    """

    __slots__ = (
        "_capabilities",
        "_closed",
        "_every",
        "_handlers",
        "_host",
        "_offers",
        "_subscriptions",
        "_tasks",
        "_told_version",
        "asking",
        "began",
        "caller",
        "calls",
        "era",
        "features",
        "held",
        "key",
        "last_call",
        "mode",
        "on_held",
        "outlet",
        "over",
        "preparing",
        "questions",
        "requests",
        "shared",
        "software",
        "version",
    )

    def __init__(
        self,
        host: ClientSessions,
        caller: Caller,
        mode: Mode,
        outlet: Outlet,
        era: Era | None = None,
        *,
        key: str = "",
        shared: bool = False,
    ) -> None:
        self._host, self.caller, self.mode, self.outlet, self.era = host, caller, mode, outlet, era
        self.key, self.shared = key or caller.session, shared
        self._every = host.direct if caller.server else host.handlers
        self._handlers: Mapping[str, Handler] = self._every[era] if era else {}
        self._offers = {kind: self._offers_of(kind) for kind in LISTS} if caller.server else {}
        self.began = time.time()
        self.last_call, self.requests = 0.0, 0
        self.version: str | None = None
        self.software = ""
        self.over = False
        self.held = self.preparing = 0
        self.on_held: Callable[[], None] | None = None
        self.questions: ClientQuestions | None = None
        self.calls = ClientCalls(self, host.questions.parked)
        self.asking = Asking(self, host.questions, host.gateway, host.approvals)
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._subscriptions: ClientSubscriptions | None = None
        self._told_version = host.gateway.catalog.version
        self._closed: asyncio.Future[None] | None = None
        self._capabilities, self.features = Raw(b"{}"), NOTHING

    @property
    def closed(self) -> asyncio.Future[None]:
        """Return a future that is done when the client is gone and its calls in flight are canceled."""
        if self._closed is None:
            self._closed = self._host.loop.create_future()
            if self.over:
                self._closed.set_result(None)
        return self._closed

    @property
    def in_flight(self) -> int:
        """Number of requests that are not answered yet."""
        return len(self.calls) + len(self._tasks)

    @property
    def open_requests(self) -> Iterator[tuple[str, bytes]]:
        """Requests that are not answered yet."""
        return ((self.key, request) for request in (*self.calls.in_flight, *self._tasks))

    @property
    def unsent(self) -> int:
        """Return the unread bytes of answers to the client, including answers in preparation."""
        return self.outlet.unsent + self.preparing

    def row(self) -> dict[str, Any]:
        """Return the session for people: who is connected, how and since when, and its calls."""
        access = self.caller.access
        return {
            "session": self.key,
            "client": self.caller.client,
            "version": self.software,
            "holder": access.label or access.holder,
            "mode": self.mode,
            "server": self.caller.server or None,
            "transport": self.outlet.transport,
            "since": self.began,
            "calls": self.requests,
            "last": self.last_call or None,
            "in_flight": self.in_flight,
        }

    def drain(self) -> None:
        """Ask the client to send no more requests here."""
        self.outlet.drain()

    def close(self, why: str) -> None:
        """End the subscriptions, and close the connection."""
        if self._subscriptions:
            self._subscriptions.end_all()
        self.outlet.close(why)

    def dismiss(self, why: str) -> None:
        """Disconnect the client because a person wants it. A bridge ends then, and does not come back."""
        if self._subscriptions:
            self._subscriptions.end_all()
        self.outlet.dismiss(why)
        self.gone()

    def gone(self) -> None:
        """Cancel everything that the client waits for: it is gone."""
        if self.over:
            return
        self.over = True
        self.calls.close()
        self.asking.kept.clear()
        for task in self._tasks.values():
            task.cancel()
        if self.questions:
            self.questions.close()
        self._host.left(self)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def changed(self, kind: str, project: str = "") -> None:
        """Tell the client that a list has changed (of a project, if one is given), if that concerns it."""
        here = not self.outlet.closed and works_in(self.caller.access, project)
        if not here or (kind == "tools" and not self._tools_are_news()) or not self._list_concerns(kind):
            return
        if self._subscriptions or (self.era is Era.LEGACY and self.version):
            self.subscriptions.changed(kind)

    def _list_concerns(self, kind: str) -> bool:
        """Return whether a change concerns the client. On a connection to one server, others do not."""
        if not self.caller.server:
            return True
        before, self._offers[kind] = self._offers[kind], self._offers_of(kind)
        return any(one is not other for one, other in zip(before, self._offers[kind], strict=True))

    def _offers_of(self, kind: str) -> tuple[object, ...]:
        return self._host.gateway.offers_of(self.caller.server, kind)

    def updated(self, key: str) -> None:
        """Tell the client that a document has changed or is gone."""
        if self._subscriptions and not self.outlet.closed:
            self._subscriptions.updated(key)

    def logged(self, params: Raw) -> None:
        """Pass on a log message that belongs to no request, if the client has set a level."""
        if self.calls.level is not None and self.calls.wants(params, self.calls.level):
            self.tell(json.notification_line("notifications/message", params), None)

    @property
    def subscriptions(self) -> ClientSubscriptions:
        """Subscriptions of the client; made when the first one begins."""
        if self._subscriptions is None:
            self._subscriptions = ClientSubscriptions(self, self._host.gateway)
        return self._subscriptions

    def can_be_asked(self, capabilities: Members) -> None:
        """Let upstreams put questions to the client, which has declared these capabilities."""
        features = features_of(capabilities, self.version)
        sent = self._told_to_servers(capabilities, features)
        self.questions = ClientQuestions(
            self, self._host.mark, self._host.questions, features, sent, others=bool(self.caller.server)
        )
        self.calls.questions = self.questions

    def _told_to_servers(self, capabilities: Members, features: Features) -> Members:
        """Note the capabilities of the client that servers are told: those that run for it alone."""
        if self._host.questions.to_page():
            features |= ON_PAGE
        sent = told_to_servers(capabilities, self.carried, features)
        self.caller = structs.replace(self.caller, capabilities=json.join(sent))
        return sent

    def told(self, method: str, params: Raw) -> None:
        """Pass on a notification of the only server of the client's connection, which the hub does not know.

        A client of one request gets it on its subscription, since other requests have nothing to do with it.
        """
        about = self._subscriptions.any_listen if self._subscriptions else None
        if self.unsent <= MOST_UNREAD and (about is not None or not self.shared):
            self.tell(json.notification_line(method, params), about)

    def asked(self, question: ServerRequest) -> bool:
        """Put a request of that server that belongs to no call. Return whether the client can be asked."""
        return (
            self.questions is not None
            and not self.shared
            and self.questions.ask(None, self.caller.server, "", question)
        )

    def sees_others(self) -> None:
        """Tell the client that it sees other servers from now on."""
        self._told_version = -1
        for kind in ("tools", "prompts", "resources"):
            self.changed(kind)

    def saw_tools(self) -> None:
        """Note that the client is given the current list of tools."""
        self._told_version = self._host.gateway.catalog.version

    def _tools_are_news(self) -> bool:
        version = self._host.gateway.catalog.version
        news = self.mode not in FIXED and version != self._told_version
        self._told_version = version
        return news

    # -- messages of the client --------------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """Take one message, or a batch of them if the negotiated version has batches."""
        try:
            frame = json.decode_frame(line)
        except InvalidJson as reason:
            if self.version == BATCHED and line.removeprefix(json.BYTE_ORDER_MARK).lstrip()[:1] == b"[":
                self._receive_batch(line)
                return
            code = eras.INVALID_REQUEST if str(reason) in _NOT_REQUESTS else eras.PARSE_ERROR
            # Programs in Python write NaN, and wait for an answer with their id.
            request_id = json.id_in(line[: json.HEAD]) if str(reason) == json.CONSTANT else None
            self.refuse(request_id, code, f"not a JSON-RPC message: {reason}")
            return
        self._take_message(frame)

    def take(self, frame: JsonRpcFrame, params: Members, meta: Members) -> None:
        """Take one message that was decoded; ``params`` without its ``_meta``, whose members are ``meta``."""
        if frame.method is not UNSET and frame.id is not UNSET:
            self.start(frame.id, self._answer_request(frame.id, frame.method, params, meta))
        else:
            self._take_message(frame)

    def oversized(self, head: bytes) -> None:
        """Refuse a message that was longer than allowed; ``head`` is its beginning."""
        megabytes = self._host.max_line >> 20
        self.refuse(json.id_in(head), eras.INVALID_REQUEST, f"a message may have {megabytes} MiB at most")

    def _receive_batch(self, line: bytes) -> None:
        try:
            parts = json.elements(line)
        except InvalidJson as reason:
            self.refuse(None, eras.PARSE_ERROR, f"not a JSON-RPC message: {reason}")
            return
        if not 0 < len(parts) <= MOST_IN_BATCH:
            self.refuse(None, eras.INVALID_REQUEST, f"a batch has 1 to {MOST_IN_BATCH} messages")
            return
        for part in parts:
            try:
                self._take_message(json.decode_frame(bytes(part)))
            except InvalidJson as reason:
                self.refuse(None, eras.INVALID_REQUEST, f"not a JSON-RPC message: {reason}")

    def _take_message(self, frame: JsonRpcFrame) -> None:
        if frame.method is UNSET:
            if frame.result is UNSET and frame.error is UNSET:
                request_id = None if frame.id is UNSET else frame.id
                self.refuse(request_id, eras.INVALID_REQUEST, "a request needs a method")
            elif self.questions:
                self.questions.answered(frame)
            return
        try:
            params = {} if frame.params is UNSET else json.fields(frame.params)
        except InvalidJson:
            if frame.id is not UNSET:
                self.refuse(frame.id, eras.INVALID_PARAMS, "params must be an object")
            return
        method = frame.method
        if frame.id is not UNSET:
            meta = eras.take_meta(params) if "_meta" in params else {}
            self.start(frame.id, self._answer_request(frame.id, method, params, meta))
        elif method == "notifications/cancelled":
            reason = json.text(params.get("reason")) or "the client cancelled"
            self.cancel(bytes(params.get("requestId", b"")), reason)
        elif method == "notifications/roots/list_changed" and self.questions:
            follow_roots(self, self._host.gateway, self._host.offers)
        elif self.caller.server and method not in _OF_CONNECTION:
            self._host.unknown.notified(self, method, params)

    async def _answer_request(self, request_id: Raw, method: str, params: Members, meta: Members) -> None:
        if meta or self.era is not Era.LEGACY:
            self._settle_era(method, meta)
        self._admit(request_id)
        handler = self._handlers.get(method)
        if handler is None and self.caller.server:
            handler = self._host.unknown.handler(method)
        if handler is None:
            raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")
        if method in REPEATABLE:
            self.last_call, self.requests = time.time(), self.requests + 1
            params = self.asking.begun(request_id, method, params, meta, partial(handler, self, request_id))
        asked = self.questions
        if asked is not None and asked.roots_wanted and waits_for_roots(self, self._host.gateway, method):
            await settle_roots(self, self._host.offers, bytes(request_id))
        try:
            await handler(self, request_id, params, meta)
        except ImportError as error:  # a request that was sent on is answered elsewhere
            if (old := await self.replaced(error)) is None:
                raise
            raise old from error

    async def replaced(self, error: Exception, *, begun: bool = False) -> HubError | None:
        """Return what to answer if code is missing since Tabane was upgraded; None if it is not.

        A request that has not ``begun`` waits for the next hub, to which its bridge sends it.
        """
        old = upgraded(error)
        if old is None or begun or not await self._host.code.takes_over():
            return old
        self.drain()
        return HubDraining(say("The hub is stopping. Send the request again in a moment."))

    def caller_of(self, meta: Members) -> Caller:
        """Return the caller of a request, with the trace that its ``_meta`` names."""
        if TRACEPARENT not in meta:
            return self.caller
        parent, state = (json.text(meta.get(name)) or "" for name in (TRACEPARENT, TRACESTATE))
        return structs.replace(self.caller, traceparent=parent, tracestate=state)

    def _settle_era(self, method: str, meta: Members) -> None:
        modern = eras.has_envelope(meta)
        if self.era is None:
            modern = modern or method == "server/discover"
            self.era = Era.MODERN if modern and method != "initialize" else Era.LEGACY
            self._handlers = self._every[self.era]
        if self.era is Era.MODERN:
            if method == "initialize":
                raise ProtocolRefusal(
                    eras.UNSUPPORTED_VERSION,
                    f"this connection speaks {eras.MODERN}, which has no initialize",
                    {"supported": [eras.MODERN]},
                )
            eras.check_envelope(meta)
            declared = meta[eras.META_CAPABILITIES]
            if declared != self._capabilities:
                self._capabilities = Raw(bytes(declared))
                capabilities = json.fields(declared)
                self.features = features_of(capabilities)
                self._told_to_servers(capabilities, self.features)
                self.software = eras.client_version(meta.get(eras.META_CLIENT))
            if not self.caller.client and (name := eras.client_name(meta.get(eras.META_CLIENT))):
                self.caller = structs.replace(self.caller, client=name)
        elif modern:
            raise ProtocolRefusal(
                eras.INVALID_REQUEST,
                f"this connection was opened by initialize; requests of {eras.MODERN} are not taken on it",
            )

    @property
    def carried(self) -> Collection[str] | None:
        """Return the extensions that pass between the client and servers; None if every one does."""
        return None if self.caller.server else [each.id for each in self._host.gateway.extensions]

    def _admit(self, request_id: Raw) -> None:
        if self._host.draining:
            raise HubDraining(say("The hub is stopping. Send the request again in a moment."))
        calls, tasks = self.calls.in_flight, self._tasks
        if len(calls) + len(tasks) >= MOST_IN_FLIGHT:
            raise HubError(say("Too many requests at the same time ({count}).", count=MOST_IN_FLIGHT))
        key = bytes(request_id)
        if key == b"null" or key in calls or key in tasks:
            raise ProtocolRefusal(eras.INVALID_REQUEST, f"the id {key.decode()} is null or in use")

    def cancel(self, request_id: bytes, reason: str) -> None:
        """Cancel a request. It is not answered, but a subscription ends with its result."""
        self.calls.cancel(request_id, reason)
        self.asking.kept.pop(request_id, None)
        task = self._tasks.pop(request_id, None)
        if task:
            task.cancel()
        if self._subscriptions:
            self._subscriptions.end(request_id)

    # -- answers and notifications -----------------------------------------------------------------

    def give(self, request_id: bytes | Raw | None, line: bytes, *, ok: bool = True) -> None:
        """Send the final answer to a request, as a line."""
        key = None if request_id is None else bytes(request_id)
        if key is not None:
            self.asking.kept.pop(key, None)
        self.outlet.answer(key, line, ok)

    def answer(self, request_id: Raw, result: bytes) -> None:
        """Send the result of a request."""
        self.give(request_id, self.result_line(request_id, result))

    def result_line(self, request_id: Raw, result: bytes) -> bytes:
        """Return the answer to a request as a line, in the words of the client's era."""
        if self.era is Era.MODERN:
            result = eras.completed(result)
        return json.result_line(request_id, result)

    def refuse(self, request_id: Raw | bytes | None, code: int, message: str, data: Any = None) -> None:
        """Answer with an error of the protocol."""
        self.give(request_id, json.error_line(request_id, json.error_object(code, message, data)), ok=False)

    def fail(self, request_id: Raw | bytes, error: TabaneError) -> None:
        """Answer with one of our own errors, in the client's language."""
        line = json.error_line(request_id, rpc.error_of(error, self.caller.lang))
        self.refused(request_id, error, line, ok=False)

    def refused(self, request_id: Raw | bytes, error: TabaneError, line: bytes, *, ok: bool = True) -> None:
        """Give ``line`` as the answer to a request that failed, unless its user can still permit it.

        If the client ignores that it is over its limits, the answer comes later. Until then, the client is
        not read on where that is possible: see ``held`` and ``on_held``.
        """
        if self.asking.takes(request_id, error):
            return
        if isinstance(error, RateLimited) and error.pause > 0 and not self.over:
            self.held += 1
            self._tell_held()
            self.run(Raw(request_id), self._hold_back(error.pause, request_id, line, ok=ok))
            self._tasks[bytes(request_id)].add_done_callback(lambda _: self._no_longer_held())
        else:
            self.give(request_id, line, ok=ok)

    def tell(self, line: bytes, about: bytes | None) -> None:
        """Send a notification or question; ``about`` is the request that it belongs to."""
        if not self.over:
            self.outlet.tell(line, about)

    # -- what takes a while ------------------------------------------------------------------------

    def start(self, request_id: Raw | bytes, work: Coroutine[Any, Any, None], size: int = 0) -> None:
        """Answer a request at once, or in a task from its first wait on; errors become its answer.

        ``size`` bytes of a result are here already, and wait with it.
        """
        if self.over:
            work.close()
            return
        task = start(self._answer_errors(request_id, work), self._host.loop)
        if task is not None:
            self._tasks[bytes(request_id)] = task
            if size:
                self.preparing += size
                task.add_done_callback(lambda _: self._note_prepared(size))

    def run(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request in a task of its own; errors become its answer."""
        key = bytes(request_id)
        self._tasks[key] = self._host.loop.create_task(self._answer_errors(request_id, work))

    async def _hold_back(self, seconds: float, request_id: Raw | bytes, line: bytes, *, ok: bool) -> None:
        loop = self._host.loop
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0 and not self._host.draining:  # noqa: ASYNC110  (nothing tells)
            await asyncio.sleep(min(left, LOOK))
        self.give(request_id, line, ok=ok)

    def _no_longer_held(self) -> None:
        self.held -= 1
        self._tell_held()

    def _tell_held(self) -> None:
        if self.on_held is not None:
            self.on_held()

    def _note_prepared(self, size: int) -> None:
        self.preparing -= size

    async def _answer_errors(self, request_id: Raw | bytes, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ProtocolRefusal as refusal:
            self.refuse(request_id, refusal.code, refusal.message, refusal.data)
        except TabaneError as error:
            self.fail(request_id, error)
        except Exception as error:
            log.exception("a request failed")
            if (old := upgraded(error)) is not None:
                self.fail(request_id, old)
                return
            self.refuse(request_id, eras.INTERNAL_ERROR, "internal error; see the hub's log: tabane logs")
        finally:
            task = self._tasks.get(bytes(request_id)) if self._tasks else None
            if task is not None and task is asyncio.current_task():  # not another, which goes on with it
                del self._tasks[bytes(request_id)]


async def wait_turn(opened: OpenCall) -> None:
    """Wait until a call may begin, in a task. It ends if it may not."""
    async with ended(opened):
        await own_task()
        if opened.waits is not None:
            await opened.waits


class ClientMethods(NamedTuple):
    """Handlers of the requests of clients, by era and method.

    ``direct`` is for clients that are connected to one server alone, and ``unknown`` for their
    messages that the hub does not know.
    """

    aggregated: Mapping[Era, Mapping[str, Handler]]
    direct: Mapping[Era, Mapping[str, Handler]]
    unknown: UnknownMethods


_OF_CONNECTION = frozenset({"notifications/initialized", "notifications/roots/list_changed"})
"""Notifications about the client's own connection, which concern no server."""

_NOT_REQUESTS = frozenset({json.NO_OBJECT, json.NO_METHOD})

Handler = Callable[[Session, Raw, Members, Members], Coroutine[Any, Any, None]]
"""Answers a request. Takes session, id, params and ``_meta``."""


MODES: tuple[Mode, ...] = get_args(Mode)

SOON = 0.1
"""Seconds in which changes are gathered: servers that list at the same time cause one notice."""

MOST_NOTIFIED = 256
"""Lists whose last notice is remembered: three of each project."""

LONGEST = 5.0
"""Seconds between two notices of a list that keeps changing."""

_ERRORS = 16 << 20
"""Bytes of the errors that may replace answers, one for each request in flight."""

_LOOK = 0.02
"""Seconds between two checks whether all sessions are idle."""


class ClientSessions:
    """The MCP clients attached to a hub, over any transport.

    ``methods`` answer requests. ``people`` gives the access of the local user in a profile.
    """

    def __init__(
        self,
        context: HubContext,
        batch: LineBatch,
        gateway: Gateway,
        long_results: LongResults,
        methods: ClientMethods,
        questions: HubQuestions,
        approvals: HubGuards,
        people: HubAccess,
    ) -> None:
        self._people, self.questions, self.approvals = people, questions, approvals
        self._context, self.loop, self.gateway = context, context.loop, gateway
        self.handlers, self.direct, self.unknown = methods
        # Marks the ids of this hub's questions: a bridge may outlive the hub and meet the next.
        self.mark = f"tabane-{os.urandom(4).hex()}"
        self._batch, self._long_results = batch, long_results
        self.draining = False
        self._sessions: dict[str, Session] = {}
        self._count = 0
        self._idle: asyncio.Future[None] = self.loop.create_future()
        self._notices = ListNotices(self.loop, self._tell)
        self.offers = ProjectOffers(context)
        gateway.projects = PresentProjects(self.awaits, self.offers)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over a copy: a session may end while the others are notified."""
        return iter(list(self._sessions.values()))

    def find(self, key: str) -> Session | None:
        """Return the session of that key; None if it is over."""
        return self._sessions.get(key)

    def latest(self, most: int) -> list[Session]:
        """Return the sessions of MCP clients, the latest first."""
        found = [session for session in self if session.caller.face is Face.MCP]
        found.sort(key=lambda session: session.began, reverse=True)
        return found[:most]

    @property
    def max_line(self) -> int:
        """Length limit of a message, in bytes."""
        return self._context.settings.max_line

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return sum(session.in_flight for session in self._sessions.values())

    @property
    def code(self) -> CodeReplacement:
        """What follows the files of Tabane."""
        return self._context.code

    def open_requests(self) -> frozenset[object]:
        """Return the requests that are not answered yet."""
        return frozenset(request for session in self for request in session.open_requests)

    def attach(self, read_fd: int, write_fd: int, hello: Hello) -> Session:
        """Serve a client on a pair of non-blocking descriptors, which the session owns from here on.

        Raises UnknownName if there is no such profile as the client asks for.
        """
        settings = self._context.settings
        access = self._people.narrowed(hello.profile)
        if hello.server:
            access = ServerAccess(access, hello.server)
        # The working directory of a process has no links.
        folders = (os.path.normpath(hello.cwd),) if os.path.isabs(hello.cwd) else ()
        caller = Caller(
            identity="local",
            face=Face.MCP,
            session=str(self._count + 1),
            lang=language(settings.lang, hello.lang, self._context.environment.get("LANG")),
            client=hello.client,
            cwd=hello.cwd,
            roots=tuple(hello.roots),
            access=ProjectAccess(access, self.gateway, folders),
            server=hello.server,
        )
        self.offers.look(caller)
        mode: Mode = hello.mode if hello.mode in MODES else settings.mode
        outlet = LineOutlet(self.loop, lingers=hello.role == "stdio")
        session = self.begin(caller, mode, outlet)
        outlet.open(
            session,
            self._batch,
            read_fd,
            write_fd,
            max_line=settings.max_line,
            max_outbox=settings.outbox,
        )
        return session

    def begin(
        self, caller: Caller, mode: Mode, outlet: Outlet, era: Era | None = None, *, shared: bool = False
    ) -> Session:
        """Begin a session of that caller. ``shared``: one of several that the caller has at the same time."""
        self._count += 1
        key = f"{caller.session}.{self._count}" if shared else caller.session
        session = Session(self, caller, mode, outlet, era, key=key, shared=shared)
        self._sessions[key] = session
        if caller.server:
            self.gateway.direct.enter(key, session)
        return session

    def left(self, session: Session) -> None:
        """End what runs for a session alone: its client is gone."""
        self._sessions.pop(session.key, None)
        self.gateway.leave(session.key)
        if not session.shared:
            self._long_results.leave(session.key)

    # -- notifications -----------------------------------------------------------------------------

    def changed(self, kind: str = "tools", project: str = "") -> None:
        """Tell clients soon that a list of that kind has changed; those of a project, if one is given."""
        if self._sessions:
            self._notices.changed(kind, project)

    def awaits(self, server: Server) -> bool:
        """Return whether a client sees this server of a project."""
        return any(self.gateway.sees(session.caller.access, server) for session in self)

    def document_changed(self, key: str, listed: bool) -> None:
        """Tell clients that a document has changed or is gone; if ``listed``, the list of all has too."""
        for session in self:
            session.updated(key)
        if listed:
            self.changed("resources")

    def logged(self, server: str, params: Raw) -> None:
        """Pass on a log message of a server that belongs to no request, to clients that may see it."""
        configured = self.gateway.servers.get(server)
        for session in self:
            if configured is not None and self.gateway.sees(session.caller.access, configured):
                session.logged(params)

    def _tell(self, kind: str, project: str) -> None:
        for session in self:
            session.changed(kind, project)

    # -- the end -----------------------------------------------------------------------------------

    async def idle(self, limit: float) -> None:
        """Wait, at most ``limit`` seconds, until all answers are given and read."""
        self._check_idle()
        await asyncio.wait([self._idle], timeout=limit)

    def close(self) -> None:
        """Take no new request, and close all sessions."""
        self.draining = True
        self.offers.close()
        for session in self:
            session.close("the hub ended")

    def _check_idle(self) -> None:
        if not any(session.in_flight or session.unsent for session in self._sessions.values()):
            if not self._idle.done():
                self._idle.set_result(None)
        elif not self._idle.done():
            self.loop.call_later(_LOOK, self._check_idle)


class ListNotices:
    """Notices of lists that have changed. ``tell`` is called with the kind, shortly after a change.

    A client reads the whole list again after each notice. Some lists keep changing: that of resources does
    while a folder of ten thousand files becomes documents. Then the interval between notices doubles up to
    :data:`LONGEST`. The last change always causes a notice.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[str, str], None]) -> None:
        self._loop, self._tell = loop, tell
        self._due: set[tuple[str, str]] = set()
        self._notified: dict[tuple[str, str], tuple[float, float]] = {}  # last notice, seconds to the next

    def changed(self, kind: str, project: str = "") -> None:
        """Note that a list of that kind has changed, in a project or everywhere."""
        what = (kind, project)
        if what in self._due:
            return
        self._due.add(what)
        now = self._loop.time()
        at, gap = self._notified.get(what, (now, 0.0))
        gap = SOON if now - at >= 2 * gap else min(2 * gap, LONGEST)
        self._loop.call_later(max(SOON, at + gap - now), self._tell_now, what, gap)

    def _tell_now(self, what: tuple[str, str], gap: float) -> None:
        self._due.discard(what)
        if len(self._notified) >= MOST_NOTIFIED:
            self._notified.clear()  # the next notices only come sooner
        self._notified[what] = (self._loop.time(), gap)
        self._tell(*what)


class LineOutlet(Outlet):
    """A client on a line channel: the socket of a bridge, or standard input and output.

    If it ``lingers`` (standard input; a bridge waits itself), all requests before its end of file are
    answered. ``max_outbox`` bytes may wait for a client that reads slowly. An answer that does not fit is
    replaced by an error; a notification that does not fit is dropped. The client stays connected.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, lingers: bool) -> None:
        self._loop, self._lingers = loop, lingers
        self._channel: LineChannel

    def open(
        self,
        session: Session,
        batch: LineBatch,
        read_fd: int,
        write_fd: int,
        *,
        max_line: int,
        max_outbox: int,
    ) -> None:
        """Begin to read for the session. The channel owns the descriptors from here on."""
        self._session, self._most = session, max_outbox
        self._largest = max(max_outbox, ROOM + max_line)
        self._channel = LineChannel(
            self._loop,
            batch,
            read_fd,
            write_fd,
            on_line=session.receive,
            on_close=lambda why: session.gone(),
            on_oversized=session.oversized,
            on_end=self._close_when_answered if self._lingers else None,
            max_line=max_line,
            max_outbox=self._largest + _ERRORS,
        )
        self._channel.start()

    transport = "stdio"

    @property
    def unsent(self) -> int:
        return self._channel.unsent

    @property
    def closed(self) -> bool:
        return self._channel.closed

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        waiting = self._channel.unsent
        if len(line) > self._largest:
            # Bytes that are not UTF-8 take three times as many after they are replaced.
            line = too_large(request_id, len(line), self._largest, self._session.caller.lang)
        elif waiting > ROOM and waiting + len(line) > self._most:
            line = undelivered(request_id, len(line), waiting, self._session.caller.lang)
        self._channel.send(line)

    def tell(self, line: bytes, about: bytes | None) -> None:
        waiting = self._channel.unsent
        if len(line) <= self._largest and (waiting <= ROOM or waiting + len(line) <= self._most):
            self._channel.send(line)

    def drain(self) -> None:
        self._channel.send(DRAIN)

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        bridge = not self._lingers
        if bridge:
            self._channel.send((HELD if held else BEGUN) + request_id + b"}\n")
            self._channel.flush()
        return bridge

    def close(self, why: str) -> None:
        self._channel.flush()
        self._channel.close(why)

    def dismiss(self, why: str) -> None:
        if not self._lingers:
            self._channel.send(END)
        self.close(why)

    def _close_when_answered(self) -> None:
        """Close when the client has received the answers that are still due: it asks nothing more."""
        if (self._session.in_flight or self.unsent) and not self.closed:
            self._loop.call_later(0.01, self._close_when_answered)
        else:
            self._session.close("end of file")
