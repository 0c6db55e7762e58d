"""The hub asks the user of a client about a request, which it makes again after the answer.

The reason is a :class:`Matter`: a login at a server, or the approval of a call. A client of the
handshake era is asked during its request. A modern one gets ``input_required``, and repeats its request with
the answer. Whoever cannot be asked may wait for a person on the web page or in a terminal. Whichever answer
comes first counts, once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.tool import Tool, ToolCallRequest, tool_failure
from tabane.errors import ApprovalRefused, ApprovalRequired, LoginRequired, TabaneError
from tabane.hub.clients.client_questions import CannotAsk, SessionClient, asks_for_input, settle
from tabane.hub.clients.questions.parked_files import LOGIN, CallBinding, RepeatedAnswer, digest_of
from tabane.hub.clients.questions.parking import HubQuestions, chosen
from tabane.messages import Message
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.server_requests import COMPLETE
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members, argument_digest
from tabane.wire.questions import Question

if TYPE_CHECKING:
    from tabane.hub.people.guards import HubGuards

REPEATABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that are made again."""

LOOK = 0.01
"""Seconds between two looks whether a bridge has got all that was sent to it."""

SIGN = 10.0
"""Seconds between two messages of progress."""

MOST_ROUNDS = 3
"""Times that the hub asks about one request for the same reason. More would be a fault."""

MOST_LOGINS = 256
"""Requests of the whole hub that wait for logins. Further ones get the text at once."""


RequestHandler = Callable[[Members, Members], Coroutine[Any, Any, None]]
"""Answers a request. Takes its parameters and ``_meta``."""


class RepeatableRequest(Struct):
    """A request that has not been answered, and its handler, with which it can be made once more.

    ``answer`` is what its user has answered, if the request came with that. ``rounds`` counts what was asked
    about it, by kind.
    """

    method: str
    params: Members
    meta: Members
    handler: RequestHandler
    answer: RepeatedAnswer | None = None
    rounds: dict[str, int] = {}


class Matter(Protocol):
    """A reason to ask a person: the request cannot go on without an answer.

    ``kind`` is its key among questions, ``about`` stands for it in a handle. ``error`` is the answer to
    the request if nobody agrees, ``late`` if nobody decides. A client that is asked has ``seconds``; it is
    told ``progress`` meanwhile. If the question is ``listed``, the web page can answer it, too. If the
    request is ``held``, a hub that is lost has not sent it.
    """

    kind: str
    about: str
    server: str
    error: TabaneError
    late: TabaneError
    seconds: float
    progress: Message
    listed: bool
    held: bool

    async def question(self) -> Question | None:
        """Return the question to the client's user; None if nobody has to be asked any more.

        Raises CannotAsk if an answer of this client does not count, and TabaneError.
        """
        ...

    async def take(self, action: str, values: Members) -> None:
        """Note what the client's user has chosen. Raises TabaneError if that does not settle it."""
        ...

    async def ended(self, seconds: float) -> bool | None:
        """Wait so long at most. Return whether the request can be made; None if that is open.

        Raises TabaneError if somebody has refused, or it has failed.
        """
        ...

    def elsewhere(self) -> float:
        """Return how long a request waits whose client cannot be asked. Raises TabaneError if it does not."""
        ...


class Asking:
    """The requests of one client that are not answered yet, and what its user is asked about them."""

    __slots__ = ("_gateway", "_hub", "guards", "kept", "session")

    def __init__(
        self, session: SessionClient, hub: HubQuestions, gateway: Gateway, guards: HubGuards
    ) -> None:
        self.session, self._hub, self._gateway, self.guards = session, hub, gateway, guards
        self.kept: dict[bytes, RepeatableRequest] = {}

    def begun(
        self,
        request_id: Raw,
        method: str,
        params: Members,
        meta: Members,
        handler: RequestHandler,
    ) -> Members:
        """Keep a request until it is answered, and return its parameters for ``handler``.

        Raises ProtocolRefusal if it answers a question of the hub that is not open any more.
        """
        answer = None
        if "requestState" in params and self.session.era is Era.MODERN:
            answer = self._hub.parked.answered(params, self._binding(method, params))
        if answer is not None:
            params = {key: params[key] for key in params if key not in ("requestState", "inputResponses")}
        self.kept[bytes(request_id)] = RepeatableRequest(method, params, meta, handler, answer)
        return params

    def takes(self, request_id: Raw | bytes, error: TabaneError) -> bool:
        """Take a request that needs a login or an approval. Return whether it will be answered here."""
        if not isinstance(error, LoginRequired | ApprovalRequired | ApprovalRefused):
            return False
        kept = self.kept.get(bytes(request_id))
        if kept is None:
            return False
        matter = self._matter(error)
        if matter is None or kept.rounds.get(matter.kind, 0) >= MOST_ROUNDS:
            self._fail(request_id, kept, error)
            return True
        kept.rounds[matter.kind] = kept.rounds.get(matter.kind, 0) + 1
        self.session.run(Raw(request_id), self._answer_request(Raw(request_id), kept, matter))
        return True

    def _matter(self, error: LoginRequired | ApprovalRequired | ApprovalRefused) -> Matter | None:
        """Return what to ask about; None if nobody is asked."""
        # Few hubs ever ask. The module and what it imports would be in the memory of all others.
        from tabane.hub.clients.matters import ApprovalMatter, LoginMatter, may_log_in

        if isinstance(error, ApprovalRefused):
            return None
        if isinstance(error, ApprovalRequired):
            return ApprovalMatter(self.session, self.guards, error)
        logins = self._gateway.logins
        if logins is None or not may_log_in(self.session) or self._hub.login_waits >= MOST_LOGINS:
            return None
        return LoginMatter(self.session, self._gateway, logins, error)

    async def _answer_request(self, request_id: Raw, kept: RepeatableRequest, matter: Matter) -> None:
        """Answer a request with a question or a text, or make it again."""
        outlet = self.session.outlet
        if matter.held:
            outlet.hold(bytes(request_id), held=True)
        self._hub.login_waits += matter.kind == LOGIN
        try:
            asked = await self._settle(bytes(request_id), kept, matter)
        except TabaneError as error:
            self._fail(request_id, kept, error)
            return
        finally:
            self._hub.login_waits -= matter.kind == LOGIN
        if asked is not None:
            self.session.answer(request_id, asked)
            return
        # From now on it is sent. A bridge has to know that, whatever happens.
        is_bridge = matter.held and outlet.hold(bytes(request_id), held=False)
        while is_bridge and outlet.unsent and not outlet.closed:  # noqa: ASYNC110  (a channel sends no notice)
            await asyncio.sleep(LOOK)
        await kept.handler(kept.params, kept.meta)

    def _fail(self, request_id: Raw | bytes, kept: RepeatableRequest, error: TabaneError) -> None:
        """Answer with a text: for a tool as its result, so that the model reads it."""
        self.kept.pop(bytes(request_id), None)
        if kept.method == "tools/call":
            self.session.answer(Raw(request_id), tool_failure(error, self.session.caller.lang))
        else:
            self.session.fail(request_id, error)

    async def _settle(self, key: bytes, kept: RepeatableRequest, matter: Matter) -> bytes | None:
        """Return when a request can be made again, or with what asks a modern client. Raises TabaneError."""
        answer = kept.answer
        if answer is not None and answer.about == matter.about:
            kept.answer = None
            await matter.take(answer.action, answer.values)
            if await self._wait(key, kept, matter, matter.seconds):
                return None
        try:
            question = await matter.question()
            if question is None:
                return None
            if self.session.era is Era.MODERN and question.kind in self.session.features:
                return self.ask_by_result(kept, question, matter.about)
            await self.ask_within(key, kept, matter, question)
        except CannotAsk:
            await self._wait(key, kept, matter, matter.elsewhere())
        return None

    # -- forms of a question -----------------------------------------------------------------------

    def ask_by_result(self, kept: RepeatableRequest, question: Question, about: str) -> bytes:
        """Return the result that asks a modern client, which then makes its request again."""
        binding = self._binding(kept.method, kept.params)
        return bytes(self._hub.parked.ask_to_repeat({about.partition("-")[0]: question}, binding, about))

    async def ask_within(
        self, key: bytes, kept: RepeatableRequest, matter: Matter, question: Question
    ) -> None:
        """Ask a client of the handshake era, and wait until it or anybody else has decided.

        Raises CannotAsk, and TabaneError if the request cannot be made.
        """
        questions = self.session.questions
        if questions is None or question.kind not in questions.features:
            raise CannotAsk("the client has not declared that it can ask its user")
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()
        answered, name = partial(settle, answer), _name_in(kept.params) or kept.method
        withdraw = questions.put(key, matter.server, name, question, answered, listed=matter.listed)
        waiting = asyncio.ensure_future(self._wait(key, kept, matter, matter.seconds))
        action = ""
        try:
            await asyncio.wait((answer, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                action, values = chosen(answer.result().result)
                await matter.take(action, values)
            if not await waiting:
                raise matter.error
        finally:
            waiting.cancel()
            withdraw("it was decided elsewhere")
            if action == "accept" and question.kind == "url":
                opened = Raw(json.join({"elicitationId": json.fields(question.params)["elicitationId"]}))
                self.session.tell(json.notification_line(COMPLETE, opened), key)

    async def _wait(self, key: bytes, kept: RepeatableRequest, matter: Matter, seconds: float) -> bool:
        """Wait until it is settled, wherever. Return whether the request can be made. Raises TabaneError."""
        loop, count = asyncio.get_running_loop(), 0
        end = loop.time() + seconds
        settled = await matter.ended(0.0)
        while settled is None:
            if (left := end - loop.time()) <= 0:
                raise matter.late
            count += 1
            # The server's own progress follows, and has to be larger.
            said = matter.progress.render(self.session.caller.lang)
            self.tell_progress(key, kept.meta, json.encode(count / 1e6), said)
            settled = await matter.ended(min(left, SIGN))
        return settled

    def tell_progress(self, key: bytes, meta: Members, progress: bytes, message: str) -> None:
        """Tell a client how far its request is, if it asked for that."""
        token = meta.get("progressToken")
        if token is not None:
            note = {"progress": Raw(progress), "progressToken": token}
            said = {"message": Raw(json.quote(message))} if message else {}
            line = json.notification_line("notifications/progress", json.join(note | said))
            self.session.tell(line, key)

    def _binding(self, method: str, params: Members) -> CallBinding:
        holder = self.session.caller.access.holder
        return CallBinding(holder, method.encode(), _name_in(params), digest_of(params))


def _name_in(params: Members) -> str:
    """Return the name or URI in a request, as the client wrote it."""
    return json.text(params.get("name")) or json.text(params.get("uri")) or ""


MOST_OPEN = 1024
"""Calls that wait for the next request of their client. The oldest are forgotten."""

LIFE = 600.0
"""Seconds for which one waits."""

_Round = tuple[str, str, bytes, bytes]
"""The next request of a call: holder, tool, digest of arguments, and the state of the server to repeat."""


class ApprovedRounds:
    """The requests that go on with an approved call. Each does so once: a repetition is a new call."""

    def __init__(self) -> None:
        self._open: OrderedDict[_Round, float] = OrderedDict()

    def note(self, session: SessionClient, tool: Tool, inner: ToolCallRequest, reply: UpstreamReply) -> None:
        """Note the reply to a call that was approved: it may ask for another request."""
        if reply.result is None or not asks_for_input(reply):
            return
        try:
            state = json.fields(reply.result).get("requestState", Raw(b""))
        except InvalidJson:
            return
        self._open[_round_of(session, tool, inner, bytes(state))] = time.monotonic() + LIFE
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def goes_on(self, session: SessionClient, tool: Tool, inner: ToolCallRequest) -> bool:
        """Return whether a request goes on with a call that was approved."""
        if not self._open:
            return False
        state = bytes(inner.params.get("requestState", b""))
        return self._open.pop(_round_of(session, tool, inner, state), 0.0) > time.monotonic()


def _round_of(session: SessionClient, tool: Tool, inner: ToolCallRequest, state: bytes) -> _Round:
    return session.caller.access.holder, tool.alias, argument_digest(inner.arguments), state
