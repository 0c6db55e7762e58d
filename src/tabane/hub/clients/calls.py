"""Calls of a client in flight, and the questions of servers to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from msgspec import UNSET, Raw

from tabane.gateway.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.gateway.upstreams.upstream import Upstream
from tabane.hub.clients.project_access import moved
from tabane.operations import UNMETERED, Caller, OpenCall
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.headers import HeaderMirror
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members
from tabane.wire.negotiation import filtered, names_extensions

NEEDED = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""The capability that a client declares if it can be asked that."""

ROOTS_WAIT = 2.0
"""Seconds that a client may take to name its folders before a call goes on without them."""

MOST_ROOTS = 64
MOST_OPEN = 256


class SessionClient(Protocol):
    """The client of a session, as the session's calls, questions and subscriptions know it."""

    key: str
    caller: Caller
    era: Era | None

    @property
    def carried(self) -> Collection[str] | None:
        """Return the extensions that pass between the client and servers; None if every one does."""
        ...

    @property
    def unsent(self) -> int:
        """Return the number of bytes that the client has not read yet."""
        ...

    def answer(self, request_id: Raw, result: bytes) -> None: ...

    def tell(self, line: bytes, about: bytes | None) -> None: ...

    def run(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None: ...


class ClientQuestions:
    """The questions that one client was asked and has not answered yet.

    ``mark`` makes their ids differ from those of any other hub, so that a bridge which outlives this hub
    takes no answer for another's. ``capabilities`` are those of the client, at least one of :data:`NEEDED`
    unless ``others``: then it gets requests that the hub does not know, too.
    """

    def __init__(
        self, session: SessionClient, mark: str, capabilities: Members, *, others: bool = False
    ) -> None:
        self._session, self._mark, self._others = session, mark, others
        self._can = {method for method, need in NEEDED.items() if need in capabilities}
        self._open: dict[str, Callable[[UpstreamReply], None]] = {}
        self._count = 0
        self.roots_due = "roots/list" in self._can
        self._learning: asyncio.Task[bool] | None = None

    @property
    def roots_wanted(self) -> bool:
        """Return whether the client has to be asked for its folders, or has not answered yet."""
        return self.roots_due or self._learning is not None

    def ask(self, about: bytes | None, question: ServerRequest) -> bool:
        """Put a question that belongs to the client's request ``about``, None if it belongs to none.

        Return whether the client can be asked.
        """
        possible = question.method in self._can or (self._others and question.method not in NEEDED)
        if not possible or len(self._open) >= MOST_OPEN:
            return False
        name = self._put(question.method, question.params, about, question.answer)
        question.on_withdrawn = lambda reason: self._withdraw(name, about, reason)
        return True

    async def settle_roots(self, about: bytes | None = None) -> bool:
        """Wait until the client's folders are known, or it took too long.

        Return whether it sees other servers now. Requests that come at the same time wait for one question.
        ``about`` is the request that needs the answer.
        """
        if self._learning is None and self.roots_due:
            self._learning = asyncio.get_running_loop().create_task(self.learn_roots(about))
            self._learning.add_done_callback(self._learned)
        return self._learning is not None and await asyncio.shield(self._learning)

    def _learned(self, task: asyncio.Task[bool]) -> None:
        self._learning = None

    async def learn_roots(self, about: bytes | None = None) -> bool:
        """Ask the client for its folders. They decide which instance serves it, and which servers it sees.

        Return whether it sees other servers than before.
        """
        self.roots_due = False
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()
        name = self._put("roots/list", Raw(b"{}"), about, partial(_settle, answer))
        try:
            reply = await asyncio.wait_for(answer, ROOTS_WAIT)
        except TimeoutError:
            self._withdraw(name, about, "it took too long")
            return False
        roots = _folders(reply)
        if not roots:
            return False
        self._session.caller = caller = replace(self._session.caller, roots=roots)
        return await moved(caller)

    def roots_changed(self) -> None:
        """Note that the client has other folders now: it is asked for them when they matter next."""
        self.roots_due = "roots/list" in self._can

    def answered(self, frame: JsonRpcFrame) -> None:
        """Take a client's message with an id and no method."""
        name = json.text(frame.id) if frame.id is not UNSET else None
        on_answer = self._open.pop(name or "", None)
        if on_answer is None:
            return
        if frame.result is not UNSET:
            on_answer(UpstreamReply(result=frame.result))
        elif frame.error is not UNSET:
            on_answer(UpstreamReply(error=frame.error))

    def close(self) -> None:
        """End all questions without an answer: the client is gone."""
        waiting, self._open = list(self._open.values()), {}
        for on_answer in waiting:
            on_answer(UpstreamReply())

    def _put(
        self, method: str, params: Raw, about: bytes | None, on_answer: Callable[[UpstreamReply], None]
    ) -> str:
        self._count += 1
        session = self._session
        name = f"{self._mark}-{session.key}-{self._count}"
        self._open[name] = on_answer
        line = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n'
        session.tell(line % (json.quote(name), json.quote(method), bytes(params)), about)
        return name

    def _withdraw(self, name: str, about: bytes | None, reason: str) -> None:
        if self._open.pop(name, None) is not None:
            note = json.encode({"requestId": name, "reason": reason})
            self._session.tell(json.notification_line("notifications/cancelled", note), about)


def _settle(answer: asyncio.Future[UpstreamReply], reply: UpstreamReply) -> None:
    if not answer.done():
        answer.set_result(reply)


def _folders(reply: UpstreamReply) -> tuple[str, ...]:
    """Return the folders in the answer to roots/list, as file URIs; none if it is malformed."""
    try:
        value = json.decode(reply.result) if reply.result is not None else None
    except InvalidJson:
        return ()
    roots = value.get("roots") if isinstance(value, dict) else None
    uris = [root.get("uri") for root in roots if isinstance(root, dict)] if isinstance(roots, list) else []
    return tuple(uri for uri in uris if isinstance(uri, str) and uri.startswith("file://"))[:MOST_ROOTS]


DEFAULT_TIMEOUT = 30.0

MOST_UNREAD = 1 << 20
"""Unread bytes above which a client gets no progress of its calls, because answers are more important."""


class ClientCalls:
    """The requests of one client that upstreams work on.

    ``level`` is the index in LOG_LEVELS from which a legacy client wants log messages. None: the client
    never set it, and gets what the servers send. ``ask`` puts a question about a request to the client; it
    is None if the client cannot be asked.
    """

    __slots__ = ("_in_flight", "_session", "ask", "level")

    def __init__(self, session: SessionClient) -> None:
        self._session = session
        self._in_flight: dict[bytes, tuple[Call, Upstream, OpenCall]] = {}
        self.level: int | None = None
        self.ask: Callable[[bytes, ServerRequest], bool] | None = None

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, key: bytes) -> bool:
        return key in self._in_flight

    def send(
        self,
        key: bytes,
        upstream: Upstream,
        method: bytes,
        params: Members,
        meta: Members,
        on_reply: Callable[[UpstreamReply], None],
        *,
        opened: OpenCall = UNMETERED,
        mirrored: tuple[HeaderMirror, ...] = (),
        safe: bool = False,
    ) -> Call:
        """Hand a request to an upstream. ``on_reply`` gets the answer, and has to end ``opened``.

        If the call is cancelled, ``opened`` is ended here. Returns the call.
        """
        session = self._session

        def replied(reply: UpstreamReply) -> None:
            self._in_flight.pop(key, None)
            on_reply(reply)

        if opened.meta is not None:
            meta = {**meta, **opened.meta}

        if session.era is not Era.LEGACY:
            meta = filtered(meta, session.carried) if names_extensions(meta) else meta
        elif session.caller.capabilities != b"{}" and eras.META_CAPABILITIES not in meta:
            meta = {**meta, eras.META_CAPABILITIES: Raw(session.caller.capabilities)}

        if self.level is not None:
            meta = {**meta, eras.META_LOG_LEVEL: Raw(json.quote(eras.LOG_LEVELS[self.level]))}
        call = Call(
            method,
            params,
            meta,
            replied,
            lambda notice, about: self._noticed(key, meta, notice, about),
            upstream.server.timeout,
            on_question=self._asker(key),
            session=session.key,
            holder=session.caller.access.holder,
            mirrored=mirrored,
            safe=safe,
            unsent=lambda: session.unsent,
            marks=opened.marks,
        )
        self._in_flight[key] = (call, upstream, opened)
        upstream.submit(call)
        return call

    def detach(self, key: bytes) -> tuple[Call, Upstream]:
        """Let go of a call, which goes on without its client. Its reply needs another taker."""
        call, upstream, _ = self._in_flight.pop(key)
        return call, upstream

    def cancel(self, key: bytes, reason: str) -> None:
        """Cancel a call; nothing comes back for it."""
        entry = self._in_flight.pop(key, None)
        if entry:
            call, upstream, opened = entry
            opened.end("cancelled")
            upstream.cancel(call, reason)

    def close(self) -> None:
        """Cancel all calls: the client is gone."""
        for key in list(self._in_flight):
            self.cancel(key, "the client is gone")

    def wants(self, params: Raw, level: int | None) -> bool:
        """Return whether a log message is at least as severe as the client asked for."""
        if level is None:
            return self._session.era is Era.LEGACY
        try:
            severity = json.text(json.fields(params).get("level"))
        except InvalidJson:
            return False
        return severity in eras.LOG_LEVELS and eras.LOG_LEVELS.index(severity) >= level

    def _asker(self, key: bytes) -> Callable[[ServerRequest], bool] | None:
        ask = self.ask
        return (lambda question: ask(key, question)) if ask else None

    def _noticed(self, key: bytes, meta: Members, method: str, params: Raw) -> None:
        if self._session.unsent > MOST_UNREAD:
            return
        if method == "notifications/progress":
            token = meta.get("progressToken")
            if token is None:
                return
            params = Raw(json.join({**json.fields(params), "progressToken": token}))
        elif method != "notifications/message":
            if not self._session.caller.server:
                return  # the hub does not know it
            params = _with_subscription(params, key)
        elif not self.wants(params, eras.log_level(meta)):
            return
        self._session.tell(json.notification_line(method, params), key)


def _with_subscription(params: Raw, key: bytes) -> Raw:
    """Return the parameters of a notification with the client's own id, if they name the request."""
    members = json.fields(params)
    meta = eras.take_meta(members)
    if eras.META_SUBSCRIPTION not in meta:
        return params
    return Raw(eras.with_meta(members, {**meta, eras.META_SUBSCRIPTION: Raw(key)}))
