"""Session of one MCP client: adapter between its era and the hub's canonical requests.

Messages of the client come in through :meth:`Session.receive`, one at a time, over any transport. Messages
to the client go out through an outlet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import UNSET, Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.errors import (
    ApprovalRefused,
    ApprovalRequired,
    HubDraining,
    HubError,
    LoginRequired,
    RateLimited,
    TabaneError,
    upgraded,
)
from tabane.hub.clients.calls import MOST_UNREAD, ClientCalls
from tabane.hub.clients.client_questions import (
    ClientQuestions,
    answer_with_roots,
    follow_roots,
    waits_for_roots,
)
from tabane.hub.clients.disclosure import FIXED
from tabane.hub.clients.outlet import Outlet
from tabane.hub.clients.questions.parking import HubQuestions
from tabane.hub.clients.repeatable_requests import REPEATABLE, LoginRequests, RepeatableRequests
from tabane.hub.clients.server_access import ProjectOffers, works_in
from tabane.hub.clients.subscriptions import LISTS, ClientSubscriptions
from tabane.messages import say
from tabane.operations import Caller
from tabane.settings import Mode
from tabane.upstreams.call import ServerRequest
from tabane.wire import era as eras
from tabane.wire import json, rpc
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members
from tabane.wire.negotiation import told_to_servers
from tabane.wire.questions import NOTHING, ON_PAGE, Features, features_of
from tabane.wire.rpc import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from tabane.hub.clients.approval_requests import ApprovalRequests
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


class SessionHost(Protocol):
    """The part of a hub that a session uses. ``mark`` begins the ids of the hub's questions to clients.

    ``handlers`` answer requests, by era and method. ``draining`` is set when no new request may begin.
    """

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def gateway(self) -> Gateway: ...

    @property
    def handlers(self) -> Mapping[Era, Mapping[str, Handler]]: ...

    @property
    def direct(self) -> Mapping[Era, Mapping[str, Handler]]:
        """Return the handlers for clients that are connected to one server alone."""
        ...

    @property
    def unknown(self) -> UnknownMethods: ...

    @property
    def mark(self) -> str: ...

    @property
    def questions(self) -> HubQuestions: ...

    @property
    def approvals(self) -> HubGuards: ...

    @property
    def draining(self) -> bool: ...

    @property
    def max_line(self) -> int:
        """Return the length limit of a message, in bytes."""
        ...

    @property
    def offers(self) -> ProjectOffers: ...

    def left(self, session: Session) -> None:
        """End what runs for a session alone: its client is gone."""
        ...


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

    ``caller`` says who it is, ``mode`` how tools are disclosed to it, ``outlet`` takes what it is told.
    ``era`` is given where the transport tells it; else the first message settles it. ``key`` is the
    session's own name, which ``caller.session`` is not where one client has several (HTTP without
    sessions): such a session is ``shared``, and nothing of the client's ends with it.
    """

    __slots__ = (
        "_approvals",
        "_capabilities",
        "_closed",
        "_every",
        "_handlers",
        "_host",
        "_offers",
        "_subscriptions",
        "_tasks",
        "_told_version",
        "caller",
        "calls",
        "era",
        "features",
        "held",
        "key",
        "logins",
        "mode",
        "on_held",
        "outlet",
        "over",
        "preparing",
        "questions",
        "requests",
        "shared",
        "version",
    )

    def __init__(
        self,
        host: SessionHost,
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
        self.version: str | None = None
        self.over = False
        self.held = self.preparing = 0
        self.on_held: Callable[[], None] | None = None
        self.questions: ClientQuestions | None = None
        self.calls = ClientCalls(self, host.questions.parked)
        self.requests = RepeatableRequests(self, host.questions.parked)
        self.logins = LoginRequests(self.requests, host.gateway, host.questions)
        self._approvals: ApprovalRequests | None = None
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._subscriptions: ClientSubscriptions | None = None
        self._told_version = host.gateway.catalogue.version
        self._closed: asyncio.Future[None] | None = None
        self._capabilities, self.features = Raw(b"{}"), NOTHING

    @property
    def closed(self) -> asyncio.Future[None]:
        """Return a future that is done when the client is gone and its calls in flight are cancelled."""
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
    def unsent(self) -> int:
        """Return the unread bytes of answers to the client, including answers in preparation."""
        return self.outlet.unsent + self.preparing

    def drain(self) -> None:
        """Ask the client to send no more requests here."""
        self.outlet.drain()

    def close(self, why: str) -> None:
        """End the subscriptions, and close the connection."""
        if self._subscriptions:
            self._subscriptions.end_all()
        self.outlet.close(why)

    def gone(self) -> None:
        """Cancel everything that the client waits for: it is gone."""
        if self.over:
            return
        self.over = True
        self.calls.close()
        self.requests.clear()
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
        if not here or (kind == "tools" and not self._tools_are_news()) or not self._concerns(kind):
            return
        if self._subscriptions or (self.era is Era.LEGACY and self.version):
            self.subscriptions.changed(kind)

    def _concerns(self, kind: str) -> bool:
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
        told = self._told_to_servers(capabilities, features)
        self.questions = ClientQuestions(
            self, self._host.mark, self._host.questions, features, told, others=bool(self.caller.server)
        )
        self.calls.questions = self.questions

    def _told_to_servers(self, capabilities: Members, features: Features) -> Members:
        """Note the capabilities of the client that servers are told: those that run for it alone."""
        if self._host.questions.to_page():
            features |= ON_PAGE
        told = told_to_servers(capabilities, self.carried, features)
        self.caller = structs.replace(self.caller, capabilities=json.join(told))
        return told

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
        self._told_version = self._host.gateway.catalogue.version

    def _tools_are_news(self) -> bool:
        version = self._host.gateway.catalogue.version
        news = self.mode not in FIXED and version != self._told_version
        self._told_version = version
        return news

    # -- what comes in ---------------------------------------------------------------------------

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
        if frame.method is not UNSET and frame.id is not UNSET and frame.params is not UNSET:
            try:
                params = json.fields(frame.params)
            except InvalidJson:
                self._received(frame)
                return
            self._requested(frame.id, frame.method, params)
        else:
            self._received(frame)

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
                self._received(json.decode_frame(bytes(part)))
            except InvalidJson as reason:
                self.refuse(None, eras.INVALID_REQUEST, f"not a JSON-RPC message: {reason}")

    def _received(self, frame: JsonRpcFrame) -> None:
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
        method = str(frame.method)
        if frame.id is not UNSET:
            self._requested(frame.id, method, params)
        elif method == "notifications/cancelled":
            reason = json.text(params.get("reason")) or "the client cancelled"
            self.cancel(bytes(params.get("requestId", b"")), reason)
        elif method == "notifications/roots/list_changed" and self.questions:
            follow_roots(self, self._host.gateway, self._host.offers)
        elif self.caller.server and method not in _OF_CONNECTION:
            self._host.unknown.notified(self, method, params)

    def _requested(self, request_id: Raw, method: str, params: Members) -> None:
        meta = eras.take_meta(params) if "_meta" in params else {}
        try:
            if meta or self.era is not Era.LEGACY:
                self._settle_era(method, meta)
            self._admit(request_id)
            handler = self._handlers.get(method)
            if handler is None and self.caller.server:
                handler = self._host.unknown.handler(method)
            if handler is None:
                raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")
            if method in REPEATABLE:
                params = self.requests.begun(
                    request_id, method, params, meta, partial(handler, self, request_id)
                )
            if waits_for_roots(self, self._host.gateway, method):
                answer = partial(handler, self, request_id, params, meta)
                self.run(request_id, answer_with_roots(self, self._host.offers, request_id, answer))
                return
            later = handler(self, request_id, params, meta)
            if later is not None:
                self.run(request_id, later)
        except ProtocolRefusal as refusal:
            self.refuse(request_id, refusal.code, refusal.message, refusal.data)
        except TabaneError as error:
            self.fail(request_id, error)
        except ImportError as error:
            if (old := upgraded(error)) is None:
                raise
            log.exception("a request failed")
            self.fail(request_id, old)

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
        self.requests.over(request_id)
        task = self._tasks.pop(request_id, None)
        if task:
            task.cancel()
        if self._subscriptions:
            self._subscriptions.end(request_id)

    # -- what is told ----------------------------------------------------------------------------

    def give(self, request_id: bytes | Raw | None, line: bytes, *, ok: bool = True) -> None:
        """Send the final answer to a request, as a line."""
        key = None if request_id is None else bytes(request_id)
        if key is not None:
            self.requests.kept.pop(key, None)
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
        if isinstance(error, LoginRequired) and self.logins.takes(request_id, error):
            return
        if isinstance(error, ApprovalRequired | ApprovalRefused) and self.approvals.takes(request_id, error):
            return
        if isinstance(error, RateLimited) and error.pause > 0 and not self.over:
            self.held += 1
            self._tell_held()
            self.run(Raw(request_id), self._hold_back(error.pause, request_id, line, ok=ok))
            self._tasks[bytes(request_id)].add_done_callback(lambda _: self._no_longer_held())
        else:
            self.give(request_id, line, ok=ok)

    @property
    def approvals(self) -> ApprovalRequests:
        """Return the requests of the client that need an approval."""
        if self._approvals is None:
            from tabane.hub.clients.approval_requests import ApprovalRequests

            self._approvals = ApprovalRequests(self.requests, self._host.approvals)
        return self._approvals

    def tell(self, line: bytes, about: bytes | None) -> None:
        """Send a notification or question; ``about`` is the request that it belongs to."""
        if not self.over:
            self.outlet.tell(line, about)

    # -- what takes a while ----------------------------------------------------------------------

    def run(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request in a task; errors become its answer."""
        key = bytes(request_id)
        self._tasks[key] = self._host.loop.create_task(self._guard(request_id, work))

    def prepare(self, key: bytes, size: int, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request whose result of ``size`` bytes is here, but takes work to encode."""
        if self.over:
            work.close()
            return
        # Counted from now on, not from the start of its task: other answers must not take the room.
        self.preparing += size
        self.run(Raw(key), work)
        self._tasks[key].add_done_callback(lambda _: self._prepared(size))

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

    def _prepared(self, size: int) -> None:
        self.preparing -= size

    def no_longer_runs(self, request_id: Raw) -> None:
        """Note that the task of a request hands it over to an upstream."""
        self._tasks.pop(bytes(request_id), None)

    async def _guard(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None:
        key = bytes(request_id)
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
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]


class ClientMethods(NamedTuple):
    """What answers the requests of clients, by era and method.

    ``direct`` is for clients that are connected to one server alone, and ``unknown`` for what the hub does
    not know of their messages.
    """

    aggregated: Mapping[Era, Mapping[str, Handler]]
    direct: Mapping[Era, Mapping[str, Handler]]
    unknown: UnknownMethods


_OF_CONNECTION = frozenset({"notifications/initialized", "notifications/roots/list_changed"})
"""Notifications about the client's own connection, which concern no server."""

_NOT_REQUESTS = frozenset({json.NO_OBJECT, json.NO_METHOD})

Handler = Callable[[Session, Raw, Members, Members], Coroutine[Any, Any, None] | None]
"""Takes session, id, params and ``_meta`` of a request; returns a coroutine if answering takes a while."""
