"""Questions to a client of the handshake era, put by upstreams and by the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from msgspec import UNSET, Raw

from tabane.gateway.upstreams.call import ServerRequest, UpstreamReply
from tabane.operations import Caller
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members

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
    def unsent(self) -> int:
        """Bytes that the client has not read yet."""
        ...

    def answer(self, request_id: Raw, result: bytes) -> None: ...

    def tell(self, line: bytes, about: bytes | None) -> None: ...

    def run(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None: ...


class ClientQuestions:
    """The questions that one client was asked and has not answered yet.

    ``mark`` makes their ids differ from those of any other hub, so that a bridge which outlives this hub
    takes no answer for another's. ``capabilities`` are those of the client, at least one of :data:`NEEDED`.
    """

    def __init__(self, session: SessionClient, mark: str, capabilities: Members) -> None:
        self._session, self._mark = session, mark
        self._can = {method for method, need in NEEDED.items() if need in capabilities}
        self._open: dict[str, Callable[[UpstreamReply], None]] = {}
        self._count = 0
        self.roots_due = "roots/list" in self._can

    def ask(self, about: bytes, question: ServerRequest) -> bool:
        """Put a question that belongs to the client's request ``about``.

        Return whether the client can be asked.
        """
        if question.method not in self._can or len(self._open) >= MOST_OPEN:
            return False
        name = self._put(question.method, question.params, about, question.answer)
        question.on_withdrawn = lambda reason: self._withdraw(name, about, reason)
        return True

    async def learn_roots(self) -> None:
        """Ask the client for its folders, which decide the instance that serves it."""
        self.roots_due = False
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()
        name = self._put("roots/list", Raw(b"{}"), None, partial(_settle, answer))
        try:
            reply = await asyncio.wait_for(answer, ROOTS_WAIT)
        except TimeoutError:
            self._withdraw(name, None, "it took too long")
            return
        roots = _folders(reply)
        if roots:
            self._session.caller = replace(self._session.caller, roots=roots)

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
