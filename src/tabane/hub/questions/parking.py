"""Calls of modern clients that are parked while their client answers a question of a legacy server.

The client's request ends with ``input_required``. The call at the server stays open, and belongs to nobody
until the client repeats the request with the answers and the handle (``requestState``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from msgspec import Raw

from tabane.errors import UpstreamError
from tabane.gateway.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.gateway.upstreams.server_requests import LIMIT
from tabane.gateway.upstreams.upstream import Upstream
from tabane.hub.questions.handles import CallBinding, CallHandle, ForgedHandle, HandleSigner
from tabane.hub.questions.open_questions import OpenQuestion, OpenQuestions
from tabane.messages import say
from tabane.operations import Caller
from tabane.wire.era import INVALID_PARAMS, Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members, fields, text
from tabane.wire.question_answers import AnswerMismatch, check_answer
from tabane.wire.questions import (
    MOST_AT_ONCE,
    Features,
    InvalidQuestion,
    Question,
    input_required,
    missing,
    question_of,
)  # fmt: skip

MOST_PARKED = 256
"""Calls that wait for an answer of their client, in the whole hub."""

MOST_OF_ONE = 64
"""The same for one identity. The user of this machine may have all."""

MOST_ROUNDS = 32
"""Times that one call may ask."""

GATHER = 0.02
"""Seconds in which questions that come together are gathered."""

LARGEST_KEPT = 64 << 10
"""Bytes of an answer of the server that is kept for a client which has not come back yet."""

MOST_REMEMBERED = 1024
"""Handles that were used or have ended, of which it is remembered why."""


class AskedQuestion:
    """A question of a parked call, and where it is listed."""

    __slots__ = ("listed", "question", "request")

    def __init__(self, request: ServerRequest, question: Question) -> None:
        self.request, self.question = request, question
        self.listed: OpenQuestion | None = None


class ParkedCall:
    """A call whose server asks, over all rounds.

    ``on_reply`` answers the request that the client waits for; None while the call is parked. ``reply`` is
    what the server answered meanwhile.
    """

    __slots__ = (
        "asked", "binding", "call", "caller", "count", "expires", "features", "holder", "id", "name",
        "on_reply", "reply", "round", "server", "timer",
    )  # fmt: skip

    def __init__(
        self, call: Call, holder: Upstream, caller: Caller, server: str, name: str, binding: CallBinding,
        features: Features, on_reply: Callable[[UpstreamReply], None] | None,
    ) -> None:  # fmt: skip
        self.id = os.urandom(8).hex()
        self.call, self.holder, self.caller = call, holder, caller
        self.server, self.name, self.binding, self.features = server, name, binding, features
        self.on_reply = on_reply
        self.asked: dict[str, AskedQuestion] = {}
        self.reply: UpstreamReply | None = None
        self.round = self.count = 0
        self.expires = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def attach(self, call: Call) -> None:
        """Let a repeated request of the client have what comes for the call from now on."""
        mine = self.call
        self.on_reply = call.on_reply
        mine.on_reply, mine.on_notice, mine.unsent = call.on_reply, call.on_notice, call.unsent
        mine.session, mine.client, mine.marks = call.session, call.client, call.marks

    def detach(self, on_reply: Callable[[UpstreamReply], None]) -> None:
        """Let go of the client's request, which is over."""
        mine, self.on_reply = self.call, None
        mine.on_reply, mine.on_notice, mine.unsent, mine.marks = on_reply, None, _nothing, None


def _nothing() -> int:
    return 0


class ParkedCalls:
    """All parked calls of a hub. ``signer`` returns what signs handles, and may make its key.

    ``takes`` says whether a person answers a question that the client cannot be asked. ``life`` are the
    seconds for which a call is parked, ``most`` calls at the same time.
    """

    def __init__(
        self, signer: Callable[[], HandleSigner], questions: OpenQuestions, takes: Callable[[Question], bool]
    ) -> None:
        self._signer, self._open, self._takes = signer, questions, takes
        self.life, self.most = LIMIT, MOST_PARKED
        self._parked: dict[str, ParkedCall] = {}
        self._gathering: dict[str, ParkedCall] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._began = time.time()

    def __len__(self) -> int:
        return len(self._parked)

    # -- questions ---------------------------------------------------------------------------------

    def ask(self, parked: ParkedCall, request: ServerRequest) -> bool:
        """Take a question of the server. Return whether the client, or somebody, can be asked."""
        try:
            asked = AskedQuestion(request, question_of(request.method, request.params))
        except InvalidQuestion as error:
            request.refusal = str(error)
            return False
        lacking = missing(asked.question, parked.features)
        if lacking is not None and not self._takes(asked.question):
            request.refusal = f"the client has no capability for it ({lacking})"
            return False
        if lacking is None and (full := self._full(parked)):
            request.refusal = full
            return False
        self._put(parked, asked, lacking is None)
        return True

    def _full(self, parked: ParkedCall) -> str | None:
        """Return why a call cannot ask its client once more; None if it can."""
        if parked.id in self._parked or parked.id in self._gathering:
            many = len(parked.asked) >= MOST_AT_ONCE
            return f"the call has {MOST_AT_ONCE} open questions" if many else None
        if parked.round >= MOST_ROUNDS:
            return f"the call has asked {MOST_ROUNDS} times"
        waiting = [*self._parked.values(), *self._gathering.values()]
        holder = parked.binding.holder
        of_one = sum(1 for one in waiting if one.binding.holder == holder)
        if len(waiting) >= self.most or (holder != "local" and of_one >= MOST_OF_ONE):
            return "too many calls wait for answers"
        return None

    def _put(self, parked: ParkedCall, asked: AskedQuestion, to_client: bool) -> None:
        parked.count += 1
        key = f"question-{parked.count}"
        request = asked.request
        if to_client:
            parked.asked[key] = asked
        give = partial(self._given, parked, key, request)
        asked.listed = self._open.put(
            OpenQuestion(parked.caller, parked.server, parked.name, asked.question, LIMIT, give)
        )
        request.on_withdrawn = partial(self._withdrawn, parked, key, asked)
        if to_client and parked.on_reply is not None and parked.id not in self._gathering:
            self._gathering[parked.id] = parked
            asyncio.get_running_loop().call_later(GATHER, self._park, parked)

    def _given(self, parked: ParkedCall, key: str, request: ServerRequest, reply: UpstreamReply) -> None:
        """Take an answer that a person gave elsewhere."""
        asked = parked.asked.pop(key, None)
        if asked is not None:
            self._open.drop(asked.listed)
        request.answer(reply)

    def _withdrawn(self, parked: ParkedCall, key: str, asked: AskedQuestion, reason: str) -> None:
        parked.asked.pop(key, None)
        self._open.drop(asked.listed)

    # -- parking -----------------------------------------------------------------------------------

    def _park(self, parked: ParkedCall) -> None:
        """End the client's request with the questions, unless the call is over or all are answered."""
        self._gathering.pop(parked.id, None)
        if parked.on_reply is None or not parked.asked or parked.call.over:
            return
        parked.round += 1
        parked.expires = time.time() + self.life
        handle = CallHandle(parked.id, parked.round, int(parked.expires))
        questions = {key: asked.question for key, asked in parked.asked.items()}
        result = input_required(questions, self._signer().sign(handle, parked.binding))
        on_reply = parked.on_reply
        self._parked[parked.id] = parked
        parked.detach(partial(self._replied, parked))
        parked.timer = asyncio.get_running_loop().call_later(self.life, self._expire, parked)
        on_reply(UpstreamReply(result=Raw(result), era=Era.MODERN))

    def _replied(self, parked: ParkedCall, reply: UpstreamReply) -> None:
        """Keep what the server answered before its client came back."""
        size = len(reply.result or reply.error or b"")
        if size > LARGEST_KEPT:
            reply = UpstreamReply(failure=UpstreamError(say(
                "{server!n} answered while its question was open. The answer ({size} KiB) was too large to "
                "keep. Call again.", server=parked.server, size=size >> 10)))  # fmt: skip
        parked.reply = reply
        self._drop_questions(parked)

    def _expire(self, parked: ParkedCall) -> None:
        self._end(parked, "nobody answered within 10 minutes")
        if parked.reply is None:
            parked.holder.cancel(parked.call, "nobody answered in time")

    def _end(self, parked: ParkedCall, why: str) -> None:
        """Forget a parked call, and remember why."""
        self._parked.pop(parked.id, None)
        if parked.timer is not None:
            parked.timer.cancel()
            parked.timer = None
        self._remember(f"{parked.id}.{parked.round}", why)
        if why != USED:
            self._drop_questions(parked)

    def _drop_questions(self, parked: ParkedCall) -> None:
        asked, parked.asked = parked.asked, {}
        for each in asked.values():
            self._open.drop(each.listed)

    def _remember(self, handle: str, why: str) -> None:
        self._ended[handle] = why
        if len(self._ended) > MOST_REMEMBERED:
            self._ended.popitem(last=False)

    # -- resuming ----------------------------------------------------------------------------------

    def claim(self, params: Members, binding: CallBinding) -> ParkedCall | None:
        """Return the parked call that a request continues; None if it is no business of this hub.

        Raises ProtocolRefusal if the handle or the answers are not acceptable; then nothing has changed.
        """
        state = text(params.get("requestState"))
        if state is None:
            return None
        try:
            handle = self._signer().check(state, binding)
        except ForgedHandle as error:
            raise _refused(f"requestState: {error}") from None
        if handle is None:
            return None
        parked = self._parked.get(handle.call)
        if parked is None or parked.round != handle.round:
            raise _refused(f"requestState: {self._why_gone(handle)}")
        self._check(parked, params)
        return parked

    def _why_gone(self, handle: CallHandle) -> str:
        why = self._ended.get(f"{handle.call}.{handle.round}")
        if why is not None:
            return why
        if handle.expires <= time.time():
            return "it has expired; call again without it"
        if handle.expires - self.life < self._began:
            return "the hub was restarted, and the call ended with it; call again without requestState"
        return "its call has ended; call again without it"

    def _check(self, parked: ParkedCall, params: Members) -> None:
        for key, answer in _responses(params).items():
            asked = parked.asked.get(key)
            if asked is not None:
                try:
                    check_answer(asked.question, answer)
                except AnswerMismatch as error:
                    raise _refused(f"inputResponses.{key}: {error}") from None

    def resume(self, parked: ParkedCall, call: Call) -> None:
        """Continue a parked call for the request ``call`` that repeats it, and give the answers."""
        self._end(parked, USED)
        parked.attach(call)
        if parked.reply is not None:
            parked.on_reply, reply = None, parked.reply
            call.on_reply(reply)
            return
        for key, answer in _responses(call.params).items():
            asked = parked.asked.pop(key, None)
            if asked is not None:
                self._open.drop(asked.listed)
                asked.request.answer(UpstreamReply(result=Raw(bytes(answer))))
        if parked.asked:
            self._gathering[parked.id] = parked
            asyncio.get_running_loop().call_soon(self._park, parked)


USED = "it was used already: each requestState continues its call once"


def _responses(params: Members) -> Members:
    try:
        return fields(params["inputResponses"]) if "inputResponses" in params else {}
    except InvalidJson:
        raise _refused("inputResponses: an object with an answer for each question") from None


def _refused(message: str) -> ProtocolRefusal:
    return ProtocolRefusal(INVALID_PARAMS, message)
