"""Requests of clients of MCP 2026-07-28 over HTTP: each POST is a session of one request."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find
from tabane.hub.clients.outlet import Outlet
from tabane.hub.clients.session import ClientSessions, Session
from tabane.hub.context import HubContext
from tabane.hub.http.authentication import has_ended
from tabane.hub.http.gate import HttpGate
from tabane.hub.http.request import (
    JSON_HEAD,
    HttpReply,
    HttpRequest,
    PostedMessage,
    answer_reply,
    refusal,
    traced,
)
from tabane.hub.http.stream import Pulse, Stream
from tabane.operations import Caller
from tabane.settings import Mode
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.headers import HeaderMirror, check_headers
from tabane.wire.http import LISTEN, AcceptedTypes, answers_json, may_post, status_of
from tabane.wire.json import Members
from tabane.wire.sse import encode_event

SESSION = "http"
"""Begins the name that all these clients of one identity share. Its rest is the identity and the profile:
parts of long results and servers of one client belong to them."""

PATIENCE = 15.0
"""Seconds that an answer may take before its response becomes a stream, which proxies do not cut."""


class SingleRequests:
    """Answers the POSTs of this era."""

    def __init__(
        self,
        context: HubContext,
        gate: HttpGate,
        clients: ClientSessions,
        gateway: Gateway,
        pulse: Pulse,
    ) -> None:
        self._context, self._gate, self._clients = context, gate, clients
        self._gateway, self._pulse = gateway, pulse
        self._open: dict[SingleOutlet, Session] = {}
        self.marked: Callable[[bytes], bytes] | None = None
        """In a group of hubs: returns an answer that says which hub has the state in it."""

    @property
    def in_flight(self) -> int:
        """Number of requests that are not answered yet."""
        return len(self._open)

    async def post(
        self, request: HttpRequest, mode: Mode, message: PostedMessage, kinds: AcceptedTypes
    ) -> None:
        """Answer a POST of one message. Raises RefusedRequest."""
        frame = message.first
        request_id = None if frame.id is UNSET else bytes(frame.id)
        assert request.access is not None  # identified before
        caller = traced(self._gate.caller(request, f"{SESSION}:{request.owner}", request.access), request)
        try:
            self._check_request(request, message, kinds, caller)
        except ProtocolRefusal as refused:
            status = status_of(refused.code)
            raise refusal(
                status, refused.message, code=refused.code, data=refused.data, request_id=request_id
            ) from None
        if request_id is None:
            self._pass_notification(caller, mode, message)
            await request.reply(HttpReply(202))
            return
        stream = Stream(
            request, self._pulse, self._context.settings.outbox, patience=PATIENCE if kinds.events else None
        )
        outlet = SingleOutlet(stream, kinds, frame.method == LISTEN, self.marked)
        session = self._clients.begin(caller, mode, outlet, Era.MODERN, shared=True)
        self._open[outlet] = session
        try:
            session.take(frame, message.params, message.meta)
            await stream.run()
        finally:
            self._open.pop(outlet, None)
            session.gone()
            # Parts of a session know each other: the request is not to stay until they are collected.
            session.outlet = _CLOSED

    def _pass_notification(self, caller: Caller, mode: Mode, message: PostedMessage) -> None:
        """Pass on a notification if the connection is to one server; else none has a meaning here."""
        if caller.server:
            session = self._clients.begin(caller, mode, NoOutlet(), Era.MODERN, shared=True)
            session.take(message.first, message.params, message.meta)
            session.gone()

    def close(self) -> None:
        """End what is still open, without an answer."""
        for outlet in list(self._open):
            outlet.close("the hub ended")

    def end_revoked(self) -> None:
        """End the requests of keys that were revoked or have expired."""
        for outlet, session in list(self._open.items()):
            if has_ended(session.caller.access):
                outlet.close("the key or token of this request is no longer valid", status=401)
                session.gone()

    def _check_request(
        self, request: HttpRequest, message: PostedMessage, kinds: AcceptedTypes, caller: Caller
    ) -> None:
        """Raise Refusal if a request is not valid, RefusedRequest if the client takes no possible answer."""
        frame = message.first
        if frame.method is UNSET:
            raise ProtocolRefusal(
                eras.INVALID_REQUEST, "a request needs a method; answers are not sent in this version"
            )
        if frame.id is UNSET:
            header = request.headers.get("mcp-protocol-version")
            if header != eras.MODERN:
                data = {"supported": [eras.MODERN, *eras.LEGACY], "requested": header}
                raise ProtocolRefusal(
                    eras.UNSUPPORTED_VERSION, "MCP-Protocol-Version: not a version of this hub", data
                )
            return
        params = message.params
        mirrors = self._mirrors(frame.method, params, caller)
        check_headers(request.pairs, frame.method, params, message.meta, mirrors)
        if frame.method == "initialize":
            raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {eras.MODERN} has no initialize")
        if not may_post(kinds, frame.method):
            raise refusal(406, "a subscription is a stream: accept text/event-stream")

    def _mirrors(self, method: str, params: Members, caller: Caller) -> tuple[HeaderMirror, ...]:
        if method != "tools/call":
            return ()
        name = json.text(params.get("name")) or ""
        if caller.server:
            own = self._gateway.lookup.own_tool(caller, name)
            return own.shown_mirrors if own else ()
        tool = self._gateway.catalog.find(name)
        return tool.shown_mirrors if tool and may_find(caller, tool.target) else ()


class SingleOutlet(Outlet):
    """The outlet of a session of one request: its own response."""

    __slots__ = ("_kinds", "_listens", "_marked", "_stream")

    def __init__(
        self,
        stream: Stream,
        kinds: AcceptedTypes,
        listens: bool,
        marked: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._stream, self._kinds, self._listens, self._marked = stream, kinds, listens, marked

    transport = "http"

    @property
    def unsent(self) -> int:
        return self._stream.unsent

    @property
    def closed(self) -> bool:
        return self._stream.lost or self._stream.finished

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        if ok and self._marked is not None:
            line = self._marked(line)
        method = LISTEN if self._listens and ok else None
        if answers_json(self._kinds, method, self._stream.begun) or not (ok or self._stream.begun):
            self._stream.reply(HttpReply(200, line, JSON_HEAD) if ok else _refusal_reply(line))
        else:
            self._stream.event(encode_event(line), due=True)
            self._stream.finish()

    def tell(self, line: bytes, about: bytes | None) -> None:
        if self._kinds.events:
            self._stream.event(encode_event(line))

    def drain(self) -> None:
        return

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        return False

    def close(self, why: str, status: int = 503) -> None:
        if self._stream.begun:
            self._stream.finish()
        else:
            headers = ((b"retry-after", b"1"),) if status == 503 else ()
            self._stream.reply(refusal(status, why, *headers).reply)


class NoOutlet(Outlet):
    """The outlet of a notification, which is not answered."""

    transport = "http"
    unsent = 0
    closed = False

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None: ...
    def tell(self, line: bytes, about: bytes | None) -> None: ...
    def drain(self) -> None: ...

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        return False

    def close(self, why: str) -> None: ...


class ClosedOutlet(NoOutlet):
    """The outlet of a session whose request was answered, or whose client is gone."""

    closed = True


_CLOSED = ClosedOutlet()


def _refusal_reply(line: bytes) -> HttpReply:
    reply = answer_reply(line)
    return reply if reply.status == 429 else reply._replace(status=status_of(error_code(line)))


def error_code(line: bytes) -> int:
    """Return the code in an answer that is an error."""
    error = json.decode_frame(line).error
    code = json.member(json.fields(error), "code") if error is not UNSET else None
    return code if isinstance(code, int) else eras.INTERNAL_ERROR
