"""Requests about which the hub itself may ask their user, and that are made again then.

A client of the handshake era is asked during its request. A modern one gets ``input_required``, and repeats
its request with the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Raw, Struct

from tabane.catalog.tools.tool import tool_failure
from tabane.errors import TabaneError
from tabane.hub.clients.client_questions import CannotAsk, ClientQuestions, SessionClient
from tabane.hub.clients.outlet import Outlet
from tabane.hub.clients.questions.handles import CallBinding, RepeatedAnswer, digest_of
from tabane.hub.clients.questions.parking import ParkedCalls
from tabane.messages import Message
from tabane.upstreams.call import UpstreamReply
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import Question

REPEATABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that are made again."""

LOOK = 0.01
"""Seconds between two looks whether a bridge has got all that was sent to it."""

SIGN = 10.0
"""Seconds between two messages of progress."""

MOST_ROUNDS = 3
"""Times that the hub asks about one request for the same reason. More would be a fault."""


class RepeatingClient(SessionClient, Protocol):
    """The client of a session whose requests may be made again."""

    questions: ClientQuestions | None
    outlet: Outlet

    def fail(self, request_id: Raw | bytes, error: TabaneError) -> None: ...


RequestHandler = Callable[[Members, Members], Coroutine[Any, Any, None] | None]
"""Takes parameters and ``_meta`` of a request; returns a coroutine if answering takes a while."""


class RepeatableRequest(Struct):
    """A request that has not been answered, and its handler, with which it can be made once more.

    ``answer`` is what its user has answered, if the request came with that. ``rounds`` counts logins that
    were asked for, ``approvals`` approvals.
    """

    method: str
    params: Members
    meta: Members
    handler: RequestHandler
    answer: RepeatedAnswer | None = None
    rounds: int = 0
    approvals: int = 0

    def again(self) -> Coroutine[Any, Any, None] | None:
        """Make the request once more. Return a coroutine if answering takes a while."""
        return self.handler(self.params, self.meta)

    @property
    def name(self) -> str:
        """Return the name or URI in the request, as the client wrote it."""
        return json.text(self.params.get("name")) or json.text(self.params.get("uri")) or ""


class RepeatableRequests:
    """The requests of one client that are not answered yet."""

    __slots__ = ("_parked", "kept", "session")

    def __init__(self, session: RepeatingClient, parked: ParkedCalls) -> None:
        self.session, self._parked = session, parked
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
            answer = self._parked.answered(params, self._binding(method, params))
        if answer is not None:
            params = {key: params[key] for key in params if key not in ("requestState", "inputResponses")}
        self.kept[bytes(request_id)] = RepeatableRequest(method, params, meta, handler, answer)
        return params

    def get(self, key: bytes) -> RepeatableRequest | None:
        return self.kept.get(key)

    def over(self, key: bytes) -> None:
        """Forget a request that was answered or cancelled."""
        self.kept.pop(key, None)

    def clear(self) -> None:
        """Forget all requests: the client is gone."""
        self.kept.clear()

    def again(self, request_id: Raw, kept: RepeatableRequest) -> None:
        """Make a request once more."""
        self.session.no_longer_runs(request_id)
        later = kept.again()
        if later is not None:
            self.session.run(request_id, later)

    def hold(self, request_id: Raw) -> None:
        """Note that a request waits for a person, and that a hub that is lost meanwhile has not sent it."""
        self.session.outlet.hold(bytes(request_id), held=True)

    async def begin(self, request_id: Raw) -> None:
        """Note that a request is sent from now on. At the return, a bridge knows it, whatever happens."""
        outlet = self.session.outlet
        told = outlet.hold(bytes(request_id), held=False)
        while told and outlet.unsent and not outlet.closed:  # noqa: ASYNC110  (a channel sends no notice)
            await asyncio.sleep(LOOK)

    def fail(self, request_id: Raw | bytes, kept: RepeatableRequest, error: TabaneError) -> None:
        """Answer with a text: for a tool as its result, so that the model reads it."""
        self.over(bytes(request_id))
        if kept.method == "tools/call":
            self.session.answer(Raw(request_id), tool_failure(error, self.session.caller.lang))
        else:
            self.session.fail(request_id, error)

    def asking(self, kept: RepeatableRequest, question: Question, about: str) -> Raw:
        """Return the result that asks a modern client, which then makes its request again."""
        binding = self._binding(kept.method, kept.params)
        return self._parked.ask_to_repeat({about.partition("-")[0]: question}, binding, about)

    def put(
        self, key: bytes, kept: RepeatableRequest, server: str, question: Question, *, listed: bool = True
    ) -> tuple[asyncio.Future[UpstreamReply], Callable[[str], None]]:
        """Ask a client of the handshake era. Return its answer, and what withdraws the question.

        Raises CannotAsk.
        """
        questions = self.session.questions
        if questions is None or question.kind not in questions.features:
            raise CannotAsk("the client has not declared that it can ask its user")
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()

        def answered(reply: UpstreamReply) -> None:
            if not answer.done():
                answer.set_result(reply)

        name = kept.name or kept.method
        return answer, questions.put(key, server, name, question, answered, listed=listed)

    def tell_progress(self, key: bytes, meta: Members, said: Message, count: int) -> None:
        """Tell a client that waits for its user, if it asked for progress."""
        token = meta.get("progressToken")
        if token is None:
            return
        # The server's own progress follows, and has to be larger.
        note = {"progress": count / 1e6, "message": said.render(self.session.caller.lang)}
        params = Raw(json.join({**json.fields(json.encode(note)), "progressToken": token}))
        self.session.tell(json.notification_line("notifications/progress", params), key)

    def _binding(self, method: str, params: Members) -> CallBinding:
        holder = self.session.caller.access.holder
        name = json.text(params.get("name")) or json.text(params.get("uri")) or ""
        return CallBinding(holder, method.encode(), name, digest_of(params))


def action_of(reply: UpstreamReply) -> tuple[str, Members]:
    """Return the action that a client's user chose, and the values of a form; "" if there is no answer."""
    try:
        members = json.fields(reply.result) if reply.result is not None else {}
        content = json.fields(members["content"]) if "content" in members else {}
    except InvalidJson:
        return "", {}
    return json.text(members.get("action")) or "", content
