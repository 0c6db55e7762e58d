"""Questions to one client of the handshake era, and its answers.

Servers of that era ask during a call (:class:`ClientQuestions`). A modern server ends a call with questions
instead, and the call is repeated with the answers, in rounds (:class:`AskedInRounds`). The hub itself asks
for the folders of the client (roots of MCP) when they decide what it sees.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Protocol

from msgspec import UNSET, Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.errors import CallerError, TabaneError, UpstreamError
from tabane.hub.clients.outlet import Outlet
from tabane.hub.clients.questions.open_questions import OpenQuestion
from tabane.hub.clients.questions.parking import HubQuestions
from tabane.hub.clients.server_access import ProjectOffers, moved
from tabane.messages import say
from tabane.operations import Caller
from tabane.upstreams.call import ServerRequest, UpstreamReply
from tabane.upstreams.conversation import error_of
from tabane.upstreams.server_requests import LIMIT
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members
from tabane.wire.questions import (
    FORMS_SINCE,
    METHODS,
    MOST_ROUNDS,
    Features,
    InvalidQuestion,
    Question,
    first_form_answer,
    input_required_of,
    legacy_params,
    missing,
    question_of,
)  # fmt: skip

ROOTS_WAIT = 2.0
"""Seconds that a client may take to name its folders before a call goes on without them."""

MOST_ROOTS = 64
MOST_OPEN = 256


class SessionClient(Protocol):
    """The client of a session, as the parts of the session know it: calls, questions, subscriptions."""

    key: str
    caller: Caller
    era: Era | None
    version: str | None
    features: Features
    outlet: Outlet
    questions: ClientQuestions | None

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
    def refuse(self, request_id: Raw | bytes | None, code: int, message: str, data: Any = None) -> None: ...
    def fail(self, request_id: Raw | bytes, error: TabaneError) -> None: ...

    def sees_others(self) -> None:
        """Tell the client that it sees other servers from now on."""
        ...


class CannotAsk(Exception):
    """The client cannot be asked that; the text says why."""


class ClientQuestions:
    """The questions that one client was asked and has not answered yet.

    ``mark`` makes their ids differ from those of any other hub, so that a bridge which outlives this hub
    takes no answer for another's. ``features`` are what the client can be asked, ``told`` its capabilities
    that servers are told. If ``others``, it gets requests that the hub does not know, too.
    """

    def __init__(
        self,
        session: SessionClient,
        mark: str,
        hub: HubQuestions,
        features: Features,
        told: Members,
        *,
        others: bool = False,
    ) -> None:
        self._session, self._mark, self._hub, self._others = session, mark, hub, others
        self.features = features
        self.capabilities = json.join({**told, "roots": Raw(b"{}")} if "roots" in features else told)
        self._open: dict[str, Callable[[UpstreamReply], None]] = {}
        self._count = 0
        self.roots_due = "roots" in features
        self._learning: asyncio.Task[bool] | None = None

    @property
    def roots_wanted(self) -> bool:
        """Return whether the client has to be asked for its folders, or has not answered yet."""
        return self.roots_due or self._learning is not None

    def ask(self, about: bytes | None, server: str, name: str, request: ServerRequest) -> bool:
        """Put a question of a server that belongs to the client's request ``about``, a call of ``name``.

        Return whether the client can be asked.
        """
        if self._others and request.method not in METHODS.values():  # the hub does not know it
            if len(self._open) >= MOST_OPEN:
                return False
            asked = self._put(request.method, request.params, about, request.answer)
            request.on_withdrawn = lambda reason: self._withdraw_question(asked, about, reason)
            return True
        try:
            question = question_of(request.method, request.params)
            request.on_withdrawn = self.put(about, server, name, question, request.answer)
        except (InvalidQuestion, CannotAsk) as why:
            request.refusal = str(why)
            return False
        return True

    def put(
        self,
        about: bytes | None,
        server: str,
        name: str,
        question: Question,
        on_answer: Callable[[UpstreamReply], None],
        *,
        listed: bool = True,
    ) -> Callable[[str], None]:
        """Put a question, to the client or on the page. Return what withdraws it. Raises CannotAsk.

        If it is not ``listed``, nobody but the client can answer it.
        """
        if len(self._open) >= MOST_OPEN:
            raise CannotAsk(f"{MOST_OPEN} questions to the client are open already")
        params = self._legacy_params_of(question)
        asked = ""

        def over(reply: UpstreamReply) -> None:
            self._hub.open.drop(entry)
            if reply.result is not None and question.kind == "form" and self._session.version == FORMS_SINCE:
                reply = UpstreamReply(result=first_form_answer(question, reply.result))
            on_answer(reply)

        def give(reply: UpstreamReply) -> None:
            self._withdraw_question(asked, about, "it was answered elsewhere")
            over(reply)

        def withdraw(reason: str) -> None:
            self._hub.open.drop(entry)
            self._withdraw_question(asked, about, reason)

        entry = OpenQuestion(self._session.caller, server, name, question, give)
        if listed:
            self._hub.open.put(entry)
        if params is not None:
            asked = self._put(question.method, Raw(params), about, over)
        return withdraw

    def _legacy_params_of(self, question: Question) -> bytes | None:
        """Return the parameters for the client; None if only the page can be asked. Raises CannotAsk."""
        lacking = missing(question, self.features)
        params = None
        if lacking is None:
            params = legacy_params(question, self._session.version or "", _new_id)
        if params is None and not self._hub.takes(question):
            raise CannotAsk(
                f"the client has no capability for it ({lacking})"
                if lacking
                else "the protocol version of the client cannot carry it"
            )
        return params

    async def settle_roots(self, about: bytes | None = None) -> bool:
        """Wait until the client's folders are known, or it took too long.

        Return whether it sees other servers now. Requests that come at the same time wait for one question.
        ``about`` is the request that needs the answer.
        """
        if self._learning is None and self.roots_due:
            self._learning = asyncio.get_running_loop().create_task(self.learn_roots(about))
            self._learning.add_done_callback(self._note_learned_roots)
        return self._learning is not None and await asyncio.shield(self._learning)

    def _note_learned_roots(self, task: asyncio.Task[bool]) -> None:
        self._learning = None

    async def learn_roots(self, about: bytes | None = None) -> bool:
        """Ask the client for its folders. They decide which instance serves it, and which servers it sees.

        Return whether it sees other servers than before.
        """
        self.roots_due = False
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()
        name = self._put("roots/list", Raw(b"{}"), about, partial(settle, answer))
        try:
            reply = await asyncio.wait_for(answer, ROOTS_WAIT)
        except TimeoutError:
            self._withdraw_question(name, about, "it took too long")
            return False
        roots = _folders(reply)
        if not roots:
            return False
        self._session.caller = caller = structs.replace(self._session.caller, roots=roots)
        return await moved(caller)

    def roots_changed(self) -> None:
        """Note that the client has other folders now: it is asked for them when they matter next."""
        self.roots_due = "roots" in self.features

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

    def _withdraw_question(self, name: str, about: bytes | None, reason: str) -> None:
        if self._open.pop(name, None) is not None:
            note = json.encode({"requestId": name, "reason": reason})
            self._session.tell(json.notification_line("notifications/cancelled", note), about)


def _new_id() -> str:
    return os.urandom(8).hex()


def settle(answer: asyncio.Future[UpstreamReply], reply: UpstreamReply) -> None:
    """Note the answer to a question, once."""
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


_SAME_EVERYWHERE = frozenset(
    {"initialize", "ping", "logging/setLevel", "subscriptions/listen", "server/discover"}
)
"""Requests whose answers do not depend on the client's folders."""

_MOVING = b"null"
"""Key of the task that asks for new folders. No request has it, because the id null is refused."""


def waits_for_roots(client: SessionClient, gateway: Gateway, method: str) -> bool:
    """Return whether a client has to name its folders before a request can be answered."""
    asking = client.questions
    return (
        asking is not None
        and asking.roots_wanted
        and method not in _SAME_EVERYWHERE
        and gateway.has_projects()
    )


def follow_roots(client: SessionClient, gateway: Gateway, offers: ProjectOffers) -> None:
    """Note that a client has other folders now.

    It is asked for them when they matter, which is now if they decide about servers of projects.
    """
    asking = client.questions
    if asking is None:
        return
    moving = asking.roots_wanted
    asking.roots_changed()
    if not moving and asking.roots_wanted and gateway.has_projects():
        client.run(Raw(_MOVING), _enter_new_folders(client, offers))


async def _enter_new_folders(client: SessionClient, offers: ProjectOffers) -> None:
    news = False
    while client.questions is not None and client.questions.roots_wanted:
        news = await settle_roots(client, offers) or news
    if news:
        client.sees_others()


async def settle_roots(client: SessionClient, offers: ProjectOffers, about: bytes | None = None) -> bool:
    """Return after the client has named its folders, or had the time to. ``about`` is the request that waits.

    Return whether it sees other servers than before.
    """
    assert client.questions is not None  # asked for before
    before = client.caller.roots
    news = await client.questions.settle_roots(about)
    if client.caller.roots != before:
        offers.look(client.caller)
    return news


LARGEST = 1 << 20
"""Bytes of a result with questions."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds before a call is sent again if its server asks nothing, and only wants it repeated."""

_MARK = b"input_required"


def asks_for_input(reply: UpstreamReply) -> bool:
    """Return whether a modern server's reply asks for input before it can answer."""
    result = reply.result
    if result is None or reply.era is not Era.MODERN or len(result) > LARGEST:
        return False
    return _MARK in bytes(result) and eras.result_type(result) == "input_required"


class AskedInRounds:
    """The questions of one call. ``again`` repeats the call with the answers; ``fail`` ends it.

    ``server`` and ``name`` are whom the client called.
    """

    __slots__ = (
        "_again", "_answers", "_asking", "_count", "_fail", "_key", "_loop", "_name", "_questions",
        "_server", "_state", "_timer", "over",
    )  # fmt: skip

    def __init__(
        self,
        questions: ClientQuestions | None,
        key: bytes,
        server: str,
        name: str,
        again: Callable[[dict[str, bytes], Raw | None], None],
        fail: Callable[[TabaneError], None],
    ) -> None:
        self._questions, self._key, self._server, self._name = questions, key, server, name
        self._again, self._fail = again, fail
        self._loop = asyncio.get_running_loop()
        self._asking: dict[str, Callable[[str], None]] = {}
        self._answers: dict[str, bytes] = {}
        self._state: Raw | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0
        self.over = False

    def ask(self, result: Raw) -> None:
        """Begin a round: ask what a result asks, and repeat the call when all is answered."""
        self._count += 1
        try:
            wanted = input_required_of(result)
            if self._count > MOST_ROUNDS:
                raise InvalidQuestion(f"it asked {MOST_ROUNDS} times")
        except InvalidQuestion as error:
            self._end_call(UpstreamError(say(
                "{server!n} asks for input in a way that cannot be answered: {why}.",
                server=self._server, why=error)))  # fmt: skip
            return
        self._answers, self._state = {}, wanted.state
        if not wanted.questions:
            pause = min(FIRST_WAIT * (1 << self._count - 1), LONGEST_WAIT)
            self._timer = self._loop.call_later(pause, self._repeat)
            return
        self._timer = self._loop.call_later(LIMIT, self._give_up_waiting)
        self._put_all(wanted.questions)

    def withdraw(self, reason: str) -> None:
        """Take all questions back: the call is over."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        asking, self._asking = self._asking, {}
        for take_back in asking.values():
            take_back(reason)

    def _put_all(self, questions: dict[str, Question]) -> None:
        try:
            for name, question in questions.items():
                if self._questions is None:
                    raise CannotAsk("the client has declared no capability for questions")
                answered = partial(self._note_answer, name, question)
                self._asking[name] = lambda reason: None  # an answer may come at once
                take_back = self._questions.put(self._key, self._server, self._name, question, answered)
                if name in self._asking:
                    self._asking[name] = take_back
        except CannotAsk as why:
            self._end_call(CallerError(say(
                "{tool} asks you something that your client cannot be asked: {why}. Give everything it needs "
                "in the arguments, or set questions_to_page = true to answer on the web page.",
                tool=self._name, why=why)))  # fmt: skip

    def _note_answer(self, name: str, question: Question, reply: UpstreamReply) -> None:
        if self._asking.pop(name, None) is None or self.over:
            return
        if reply.result is not None and _is_object(reply.result):
            self._answers[name] = bytes(reply.result)
        elif reply.result is None and question.kind in ("form", "url"):
            self._answers[name] = b'{"action":"cancel"}'
        else:
            self._end_call(CallerError(say(
                "The client did not answer a question of {tool}: {why}",
                tool=self._name, why=_failure_of(reply))))  # fmt: skip
            return
        if not self._asking:
            self._repeat()

    def _repeat(self) -> None:
        if self.over:
            return
        if self._timer is not None:
            self._timer.cancel()
        answers, self._answers = self._answers, {}
        self._again(answers, self._state)

    def _give_up_waiting(self) -> None:
        self._end_call(CallerError(say(
            "Nobody answered the question of {tool} within {minutes} {minutes:minute|minutes}.",
            tool=self._name, minutes=int(LIMIT // 60))))  # fmt: skip

    def _end_call(self, error: TabaneError) -> None:
        if not self.over:
            self.withdraw("the call has failed")
            self._fail(error)


def _is_object(result: Raw) -> bool:
    try:
        json.fields(result)
    except InvalidJson:
        return False
    return True


def _failure_of(reply: UpstreamReply) -> str:
    if reply.error is not None:
        code, message = error_of(reply.error)
        return message or f"error {code}"
    return "the answer is not an object" if reply.result is not None else "it is gone"
