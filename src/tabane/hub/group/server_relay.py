"""The side of a link at the hub that runs a server: what another hub sends goes to the server, and back.

The other hub has checked who calls and what is allowed, and has searched arguments for credentials. So a
message goes to the instance at once. The link answers what concerns the connection itself: the introduction,
subscriptions and log levels, since all hubs share one connection to the server. A failure passes as its kind
and its message, which stays translatable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import UNSET, Raw

from tabane.errors import (
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.group.signatures import ForgedRequest, LinkFrames, LinkHead
from tabane.hub.http.websocket import WebSocket
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.handshake import Peer
from tabane.upstreams.upstream import Upstream
from tabane.wire import era as eras
from tabane.wire import json, websocket
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members

log = logging.getLogger(__name__)

_OTHER = "UpstreamError"
_CLASSES = {
    "UpstreamDied": UpstreamDied,
    "UpstreamOverloaded": UpstreamOverloaded,
    "UpstreamTimeout": UpstreamTimeout,
    "UpstreamUnavailable": UpstreamUnavailable,
}


def failure_line(number: int, failure: TabaneError) -> tuple[str, bytes]:
    """Return the kind of a failure, and a line with the id of the call and the message."""
    kind = next((name for name, each in _CLASSES.items() if isinstance(failure, each)), _OTHER)
    return kind, json.encode({"id": number, "message": _pack(failure.message)})


def failure_in(kind: str, line: bytes) -> tuple[int, UpstreamError]:
    """Return the id of the call that has failed at another hub, and why."""
    found: dict[str, Any] = json.decode(line)
    return int(found["id"]), _CLASSES.get(kind, UpstreamError)(_unpack(found["message"]))


def _pack(message: Message) -> dict[str, Any]:
    return {"text": message.template, "fields": {name: _value(each) for name, each in message.fields.items()}}


def _value(value: object) -> object:
    if isinstance(value, Message):
        return _pack(value)
    return value if isinstance(value, str | int | float) else str(value)


def _unpack(found: dict[str, Any]) -> Message:
    fields = {
        name: _unpack(value) if isinstance(value, dict) else value for name, value in found["fields"].items()
    }
    return Message(found["text"], **fields)


MOST_WAITING = 128 << 20
"""Bytes that may wait for the other hub. Above it, the link ends."""

MOST_WATCHED = 10_000
"""Resources that one link may watch."""

SHORT_REST = 5.0
"""Seconds until a restart of the server for which the other hub waits."""

_ALWAYS = 0
"""Stands for the subscription of a legacy connection, which is no request."""


class ServerRelay:
    """Serves one server to one other hub; a receiver of a :class:`WebSocket`.

    ``instance`` returns the running instance. Raises TabaneError if this hub does not run the server.
    """

    def __init__(
        self, server: str, hub: str, caller: Caller, frames: LinkFrames, instance: Callable[[], Upstream]
    ) -> None:
        self.caller, self.draining = caller, False
        self.on_held: Callable[[], None]
        self._server, self._hub, self._frames, self._instance = server, hub, frames, instance
        self._socket: WebSocket
        self._upstream: Upstream | None = None
        self._calls: dict[int, Call] = {}
        self._questions: dict[str, ServerRequest] = {}
        self._asked = 0
        self._watched: dict[int, frozenset[str]] = {}
        self._level: Raw | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def open(self, socket: WebSocket) -> None:
        """Set before the first message arrives."""
        self._socket = socket

    # -- the receiver of a WebSocket -------------------------------------------------------------

    @property
    def holding(self) -> bool:
        """Always False: the other hub is read on, whatever its callers do."""
        return False

    @property
    def busy(self) -> bool:
        """Return whether a call of the other hub runs."""
        return bool(self._calls)

    def receive(self, text: bytes, send: object) -> asyncio.Future[None]:
        """Take a message of the other hub. Close the link if it is invalid."""
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        try:
            head, line = self._frames.opened(text)
            frame = json.decode_frame(line)
            if frame.method is UNSET:
                name = None if frame.id is UNSET else json.text(frame.id)
                question = self._questions.pop(name or "", None)
                if question is not None:
                    result = None if frame.result is UNSET else frame.result
                    error = None if frame.error is UNSET else frame.error
                    question.answer(UpstreamReply(result=result, error=error))
            elif frame.id is UNSET:
                self._take_notification(
                    str(frame.method), Raw(b"{}") if frame.params is UNSET else frame.params
                )
            else:
                params = {} if frame.params is UNSET else json.fields(frame.params)
                self._take_request(head, int(bytes(frame.id)), str(frame.method), params)
        except (ForgedRequest, InvalidJson):
            log.warning("the link of hub %s to %s sent something invalid", self._hub, self._server)
            self._socket.close(websocket.POLICY, "not a message of this link")
        return done

    def cancel(self) -> None:
        """Cancel everything: the other hub is gone."""
        if self._over:
            return
        self._over = True
        for task in self._tasks:
            task.cancel()
        upstream, calls = self._upstream, list(self._calls.values())
        self._calls = {}
        if upstream is None:
            return
        upstream.offers.followers.discard(self)
        for call in calls:
            upstream.cancel(call, "the hub of its client has gone")
        watched, self._watched = self._watched, {}
        for uri in frozenset().union(*watched.values()):
            upstream.offers.unwatch(uri, self._tell_updated)

    # -- what the server does --------------------------------------------------------------------

    def changed(self, kind: str) -> None:
        """Tell the other hub that a list of the server has changed."""
        self._tell(json.notification_line(f"notifications/{kind}/list_changed"))

    def lost(self) -> None:
        """End the link: the other hub opens another one, and reads all lists again."""
        self._socket.close(websocket.GOING_AWAY, "the server has ended")

    def _tell_updated(self, uri: str, params: Raw) -> None:
        self._tell(json.notification_line("notifications/resources/updated", params))

    # -- what the other hub sends ----------------------------------------------------------------

    def _take_request(self, head: LinkHead, number: int, method: str, params: Members) -> None:
        if method in ("initialize", "server/discover"):
            self._spawn(number, self._introduce(number, method))
        elif self._upstream is None or self._upstream.closed:
            self._fail(number, self._not_here())
        elif method == "subscriptions/listen":
            self._spawn(number, self._listen(self._upstream, number, params))
        elif method == "resources/subscribe":
            self._spawn(number, self._subscribe(self._upstream, number, _uri(params)))
        elif method == "resources/unsubscribe":
            self._watch_only(
                self._upstream, _ALWAYS, self._watched.get(_ALWAYS, frozenset()) - {_uri(params)}
            )
            self._tell(json.result_line(b"%d" % number, b"{}"))
        elif method == "logging/setLevel":
            self._level = params.get("level")
            self._tell(json.result_line(b"%d" % number, b"{}"))
        else:
            self._call(self._upstream, head, number, method, params)

    def _call(self, upstream: Upstream, head: LinkHead, number: int, method: str, params: Members) -> None:
        meta = eras.take_meta(params)
        if self._level is not None:
            meta = {eras.META_LOG_LEVEL: self._level, **meta}
        call = Call(
            method.encode(),
            params,
            meta,
            partial(self._give_reply, number),
            partial(self._pass_notice, number),
            head.timeout or upstream.server.timeout,
            on_question=partial(self._put_question, number),
            session=f"{self._hub}/{head.session}",
            holder=head.holder,
            client=f"{self._hub}/{head.client}",
            reader=self._socket,
        )
        self._calls[number] = call
        upstream.submit_screened(call)

    def _take_notification(self, method: str, params: Raw) -> None:
        upstream = self._upstream
        if method == "notifications/cancelled":
            number = json.member(json.fields(params), "requestId")
            if isinstance(number, int):
                self._cancel_call(number)
        elif upstream is not None and method != "notifications/initialized":
            self._spawn(0, upstream.notify(method, bytes(params)))

    def _cancel_call(self, number: int) -> None:
        call, upstream = self._calls.pop(number, None), self._upstream
        if upstream is None:
            return
        if call is not None:
            upstream.cancel(call, "cancelled")
        if number in self._watched:
            self._watch_only(upstream, number, frozenset())
            del self._watched[number]

    # -- calls -----------------------------------------------------------------------------------

    def _give_reply(self, number: int, reply: UpstreamReply) -> None:
        self._calls.pop(number, None)
        if reply.failure is not None:
            self._fail(number, reply.failure)
        elif reply.result is not None:
            self._tell(json.result_line(b"%d" % number, reply.result))
        else:
            self._tell(json.error_line(b"%d" % number, reply.error or b"null"))

    def _pass_notice(self, number: int, method: str, params: Raw) -> None:
        if method == "notifications/progress":
            # The token that the server got is the number of the call here.
            params = Raw(json.join({**json.fields(params), "progressToken": Raw(b"%d" % number)}))
        self._tell(json.notification_line(method, params), LinkHead(call=number))

    def _put_question(self, number: int, question: ServerRequest) -> bool:
        """Put a question of the server to the hub of its call."""
        self._asked += 1
        name = f"q{self._asked}"

        def withdrawn(reason: str) -> None:
            self._questions.pop(name, None)
            note = json.encode({"requestId": name, "reason": reason})
            self._tell(json.notification_line("notifications/cancelled", note), LinkHead(call=number))

        question.on_withdrawn = withdrawn
        self._questions[name] = question
        asked = {
            "jsonrpc": Raw(b'"2.0"'),
            "id": Raw(json.quote(name)),
            "method": Raw(json.quote(question.method)),
            "params": question.params,
        }
        self._tell(json.join(asked), LinkHead(call=number))
        return True

    # -- the connection itself -------------------------------------------------------------------

    async def _introduce(self, number: int, method: str) -> None:
        upstream = self._instance()
        rest = upstream.retry_in
        if rest is not None and rest <= SHORT_REST:
            await asyncio.sleep(rest)  # it is being restarted, which the other hub need not know
        peer = await upstream.introduced()
        if upstream.connection is None or not upstream.connection.pid:
            raise self._not_here()  # it runs at another hub by now
        self._upstream = upstream
        upstream.offers.followers.add(self)
        if (peer.era is Era.MODERN) != (method == "server/discover"):
            refused = json.error_object(eras.METHOD_NOT_FOUND, "the server is of the other era")
            self._tell(json.error_line(b"%d" % number, refused))
        else:
            self._tell(json.result_line(b"%d" % number, json.encode(_introduction(peer))))

    async def _subscribe(self, upstream: Upstream, number: int, uri: str) -> None:
        before = self._watched.get(_ALWAYS, frozenset())
        if uri not in before:
            await self._watch(upstream, _ALWAYS, uri)
        self._tell(json.result_line(b"%d" % number, b"{}"))

    async def _listen(self, upstream: Upstream, number: int, params: Members) -> None:
        wanted = json.fields(params.get("notifications", Raw(b"{}")))
        listed = json.member(wanted, "resourceSubscriptions")
        granted = []
        self._watched[number] = frozenset()
        for uri in listed if isinstance(listed, list) else ():
            try:
                await self._watch(upstream, number, str(uri))
            except TabaneError as error:
                log.info("%s: subscription to changes of %s failed: %s", self._server, uri, error)
            else:
                granted.append(str(uri))
        if granted:
            wanted["resourceSubscriptions"] = Raw(json.encode(granted))
        else:
            wanted.pop("resourceSubscriptions", None)
        meta = {eras.META_SUBSCRIPTION: Raw(b"%d" % number)}
        told: Members = {"notifications": Raw(json.join(wanted)), "_meta": Raw(json.join(meta))}
        self._tell(json.notification_line("notifications/subscriptions/acknowledged", json.join(told)))

    async def _watch(self, upstream: Upstream, listener: int, uri: str) -> None:
        others = frozenset().union(*self._watched.values())
        if len(others) >= MOST_WATCHED:
            raise UpstreamUnavailable(say("Too many resources are watched."))
        self._watched[listener] = self._watched.get(listener, frozenset()) | {uri}
        if uri in others:
            return
        try:
            await upstream.watch(uri, self._tell_updated)
        except TabaneError:
            self._watched = {key: uris - {uri} for key, uris in self._watched.items()}
            raise

    def _watch_only(self, upstream: Upstream, listener: int, uris: frozenset[str]) -> None:
        dropped = self._watched.get(listener, frozenset()) - uris
        self._watched[listener] = uris
        for uri in dropped - frozenset().union(*self._watched.values()):
            upstream.offers.unwatch(uri, self._tell_updated)

    # -- inside ----------------------------------------------------------------------------------

    def _not_here(self) -> UpstreamUnavailable:
        return UpstreamUnavailable(
            say(
                "{server!n} is being restarted, or moves to another hub. Try again in a moment.",
                server=self._server,
            )
        )

    def _spawn(self, number: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(self._answer_errors(number, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_errors(self, number: int, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except TabaneError as error:
            if number:
                self._fail(number, error)
            else:
                log.warning("%s did not get a notification: %s", self._server, error)

    def _fail(self, number: int, failure: TabaneError) -> None:
        kind, line = failure_line(number, failure)
        self._tell(line, LinkHead(failure=kind))

    def _tell(self, line: bytes, head: LinkHead = LinkHead()) -> None:  # noqa: B008  (it is frozen)
        if self._over or self._socket.ending:
            return
        if self._socket.unsent > MOST_WAITING:
            log.warning("hub %s does not read what %s sends; its link ends", self._hub, self._server)
            self._socket.abort()
            return
        self._socket.tell(self._frames.sealed(head, line.rstrip(b"\n")))


def _introduction(peer: Peer) -> dict[str, object]:
    """Return how the server described itself, as the result of ``initialize`` or ``server/discover``."""
    said: dict[str, object] = {"capabilities": Raw(json.join(peer.capabilities))}
    if peer.instructions:
        said["instructions"] = peer.instructions
    if peer.era is Era.LEGACY:
        return {**said, "protocolVersion": peer.version, "serverInfo": Raw(peer.info)}
    meta = {eras.META_SERVER: Raw(peer.info)}
    return {**said, "supportedVersions": [eras.MODERN], "resultType": "complete", "_meta": meta}


def _uri(params: Members) -> str:
    return json.text(params.get("uri")) or ""
