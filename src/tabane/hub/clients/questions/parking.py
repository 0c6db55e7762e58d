"""Calls of modern clients that are parked while their client answers a question of a legacy server.

The client's request ends with ``input_required``. The call at the server stays open, and belongs to nobody
until the client repeats the request with the answers and the handle (``requestState``). A question's key in
``inputRequests`` is the id that the server chose, or our own. :class:`HubQuestions` puts the open questions,
parked calls and operations of a hub together.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Raw

from tabane.errors import ConfigurationError, UpstreamError
from tabane.hub.clients.questions.open_questions import MOST_LISTED, OpenQuestion, OpenQuestions
from tabane.hub.clients.questions.parked_files import (
    AGAIN,
    APPROVAL,
    KEY_BYTES,
    LOGIN,
    CallBinding,
    CallHandle,
    ForgedHandle,
    HandleSigner,
    ParkedFiles,
    RepeatedAnswer,
    StoredCall,
    StoredQuestion,
)
from tabane.messages import say
from tabane.operations import Caller, Operation
from tabane.settings.files import read_trusted, write_private
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.connection import AdoptedCall, CallHolder
from tabane.upstreams.server_requests import LIMIT
from tabane.wire.era import INVALID_PARAMS, Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members, fields, text
from tabane.wire.questions import (
    MOST_AT_ONCE,
    MOST_ROUNDS,
    ON_PAGE,
    Features,
    InvalidQuestion,
    Question,
    has_too_many_members,
    input_required,
    missing,
    question_of,
)  # fmt: skip

log = logging.getLogger(__name__)

MOST_PARKED = 256
"""Calls that wait for an answer of their client, in the whole hub."""

MOST_OF_ONE = 64
"""Calls of one identity that wait for an answer. The user of this machine may have all."""

GATHER = 0.02
"""Seconds in which questions that come together are gathered."""

LARGEST_KEPT = 64 << 10
"""Bytes of an answer of the server that is kept for a client which has not come back yet."""

MOST_REMEMBERED = 1024
"""Used or ended handles whose reason is remembered."""


class AskedQuestion(OpenQuestion):
    """A question during a call, under the name ``key`` for the client."""

    __slots__ = ("key", "parked", "request")

    def __init__(self, parked: ParkedCall, key: str, request: ServerRequest, question: Question) -> None:
        super().__init__(parked.caller, parked.server, parked.name, question)
        self.parked, self.key, self.request = parked, key, request
        request.on_withdrawn = self.withdraw

    def give(self, reply: UpstreamReply) -> None:
        """Take an answer, of the client or of a person elsewhere."""
        self.withdraw("")
        self.request.answer(reply)

    def withdraw(self, reason: str) -> None:
        """Note that nobody wants an answer any more."""
        parked = self.parked
        parked.asked = tuple(one for one in parked.asked if one is not self)
        parked.calls.open.drop(self)


class ParkedCall:
    """A call whose server asks, over all rounds.

    ``asked`` are the open questions that its client has to answer.
    ``on_reply`` answers the request that the client waits for; None while the call is parked. ``reply`` is
    what the server answered meanwhile.
    """

    __slots__ = (
        "asked", "binding", "call", "caller", "calls", "count", "expires", "features", "holder", "id", "kept",
        "name", "on_reply", "reply", "round", "server",
    )  # fmt: skip

    def __init__(
        self, calls: ParkedCalls, call: Call, holder: CallHolder, caller: Caller, server: str, name: str,
        binding: CallBinding, features: Features,
    ) -> None:  # fmt: skip
        self.id = os.urandom(8).hex()
        self.calls = calls
        call.on_question = self.ask
        self.call, self.holder, self.caller = call, holder, caller
        self.server, self.name, self.binding, self.features = server, name, binding, features
        self.on_reply: Callable[[UpstreamReply], None] | None = call.on_reply
        self.asked: tuple[AskedQuestion, ...] = ()
        self.reply: UpstreamReply | None = None
        self.round = self.count = 0
        self.expires = 0.0
        self.kept = False

    def attach(self, call: Call) -> None:
        """Send replies and notices of the call to a repeated request of the client from now on."""
        mine = self.call
        self.on_reply = call.on_reply
        mine.on_reply, mine.on_notice, mine.reader = call.on_reply, call.on_notice, call.reader
        mine.session, mine.client, mine.marks = call.session, call.client, call.marks

    def ask(self, request: ServerRequest) -> bool:
        """Take a question of the server. Return whether the client, or somebody, can be asked."""
        return self.calls.ask(self, request)

    def replied(self, reply: UpstreamReply) -> None:
        """Keep what the server answered before its client came back."""
        self.calls.replied(self, reply)

    def detach(self) -> None:
        """Let go of the client's request, which is over."""
        mine, self.on_reply = self.call, None
        mine.on_reply, mine.on_notice, mine.reader, mine.marks = self.replied, None, None, None
        # The request was sent. What it consisted of would keep the whole message of the client in memory.
        mine.params = _NO_MEMBERS
        mine.meta = {"progressToken": Raw(b"0")} if "progressToken" in mine.meta else _NO_MEMBERS


_NO_MEMBERS: Members = {}
"""Shared by all parked calls: nobody changes the parameters of a request that was sent."""

_TAKEN = Raw(b"")


class ParkedCalls:
    """All parked calls of a hub, each for ``life`` seconds; ``most`` calls at the same time."""

    def __init__(
        self, hub: HubQuestions, files: ParkedFiles, adopt: Callable[[str, str], Awaitable[AdoptedCall]]
    ) -> None:
        self._hub, self._files, self._adopt, self.open = hub, files, adopt, hub.open
        self.life, self.most = LIMIT, MOST_PARKED
        self._parked: dict[str, ParkedCall] = {}
        self._gathering: dict[str, ParkedCall] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._began = time.time()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._parked)

    # -- questions ---------------------------------------------------------------------------------

    def ask(self, parked: ParkedCall, request: ServerRequest) -> bool:
        """Take a question of the server. Return whether the client, or somebody, can be asked."""
        try:
            question = question_of(request.method, request.params)
        except InvalidQuestion as error:
            request.refusal = str(error)
            return False
        lacking = missing(question, parked.features)
        if lacking is not None and not self._hub.takes(question):
            request.refusal = f"the client has no capability for it ({lacking})"
            parked.call.lacking |= {lacking}
            return False
        if lacking is None and (full := self._why_full(parked)):
            request.refusal = full
            return False
        # The question has both, without the message that they came in.
        request.method, request.params = question.method, _TAKEN
        parked.count += 1
        asked = AskedQuestion(parked, _key(parked, request), request, question)
        self.open.put(asked)
        if lacking is None:
            parked.asked += (asked,)
            if parked.on_reply is not None and parked.id not in self._gathering:
                self._gathering[parked.id] = parked
                asyncio.get_running_loop().call_later(GATHER, self._park, parked)
        return True

    def _why_full(self, parked: ParkedCall) -> str | None:
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

    # -- parking -----------------------------------------------------------------------------------

    def _park(self, parked: ParkedCall) -> None:
        """End the client's request with the questions, unless the call is over or all are answered."""
        self._gathering.pop(parked.id, None)
        if parked.on_reply is None or not parked.asked:
            return
        if parked.call.over or parked.call.on_reply is not parked.on_reply:
            self._hand_over(parked)
            return
        parked.round += 1
        parked.expires = time.time() + self.life
        handle = CallHandle(parked.id, parked.round, int(parked.expires))
        questions = {asked.key: asked.question for asked in parked.asked}
        result = input_required(questions, self._hub.signer().sign(handle, parked.binding))
        on_reply = parked.on_reply
        self._parked[parked.id] = parked
        self._keep_in_file(parked)
        parked.detach()
        self._sweep_by(parked.expires)
        on_reply(UpstreamReply(result=Raw(result), era=Era.MODERN))

    def _hand_over(self, parked: ParkedCall) -> None:
        """Let others ask the client: the task that a call has become, or the call that really asked."""
        asked, parked.asked, parked.on_reply = parked.asked, (), None
        for each in asked:
            self.open.drop(each)
            each.request.params = Raw(each.question.params)
            if not each.request.offer_again():
                each.request.answer(UpstreamReply())

    def replied(self, parked: ParkedCall, reply: UpstreamReply) -> None:
        """Keep what the server answered before its client came back."""
        size = len(reply.result or reply.error or b"")
        if size > LARGEST_KEPT:
            reply = UpstreamReply(failure=UpstreamError(say(
                "{server!n} answered while its question was open. The answer ({size} KiB) was too large to "
                "keep. Call again.", server=parked.server, size=size >> 10)))  # fmt: skip
        # Questions that are still open belong to other calls, and are answered when the client comes back.
        parked.reply = reply

    def _sweep_by(self, moment: float) -> None:
        """Look at that moment which calls were parked for long enough; one timer is for all of them."""
        if self._timer is None or moment < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = moment
            left = max(moment - time.time(), 0.0) + 0.01
            self._timer = asyncio.get_running_loop().call_later(left, self._end_expired)

    def _end_expired(self) -> None:
        self._timer = None
        now = time.time()
        for parked in [one for one in self._parked.values() if one.expires <= now]:
            self._end_parked(parked, "nobody answered within 10 minutes")
            if parked.reply is None:
                parked.holder.cancel(parked.call, "nobody answered in time")
        if self._parked:
            self._sweep_by(min(one.expires for one in self._parked.values()))

    def _end_parked(self, parked: ParkedCall, why: str) -> None:
        """Forget a parked call, and remember why."""
        self._parked.pop(parked.id, None)
        if parked.kept:
            parked.kept = False
            self._files.drop(parked.id)
        handle = f"{parked.id}.{parked.round}"
        self._ended[handle] = why
        if len(self._ended) > MOST_REMEMBERED:
            self._ended.popitem(last=False)
        if why != USED:
            for each in parked.asked:
                each.withdraw("")

    # -- over a restart ----------------------------------------------------------------------------

    def _keep_in_file(self, parked: ParkedCall) -> None:
        """Keep a call in a file, if its server can go on with it after a restart of the hub."""
        found = parked.holder.position_of(parked.call)
        if found is None:
            return
        position, requests = found
        questions = tuple(
            StoredQuestion(asked.key, name, asked.request.method, Raw(asked.question.params))
            for asked in parked.asked
            for name, request in requests.items()
            if request is asked.request
        )
        server = parked.holder.server
        self._files.write(
            StoredCall(
                parked.id, parked.round, parked.count, parked.expires, server.name, server.fingerprint,
                position, parked.call.method.decode(), "progressToken" in parked.call.meta,
                tuple(sorted(parked.features)), questions,
            )
        )  # fmt: skip
        parked.kept = True

    def is_kept(self, params: Members, binding: CallBinding) -> str | None:
        """Return the id of a call of an earlier hub that a request continues; None if it is no such call."""
        handle = self._own_handle(params, binding)
        if handle is None or handle.call in self._parked or handle.expires <= time.time():
            return None
        return handle.call if handle.call != AGAIN and self._files.has(handle.call) else None

    async def restore(
        self, name: str, caller: Caller, tool: str, binding: CallBinding, timeout: float
    ) -> None:
        """Park a call of an earlier hub again, and go on to read its stream. Raises TabaneError."""
        stored = await asyncio.to_thread(self._files.read, name)
        if stored is None or name in self._parked:
            return
        holder = await self._adopt(stored.server, stored.fingerprint)
        if name in self._parked:  # another request was faster
            await holder.connection.stop()
            return
        meta = {"progressToken": Raw(b"0")} if stored.progress else {}
        call = Call(
            stored.method.encode(), {}, meta, lambda reply: None, timeout=timeout, session=caller.session,
            holder=caller.access.holder,
        )  # fmt: skip
        features = frozenset(stored.features)
        parked = ParkedCall(self, call, holder, caller, stored.server, tool, binding, features)
        parked.id, parked.round, parked.count = stored.id, stored.round, stored.count
        parked.expires, parked.kept = stored.expires, True
        parked.detach()
        holder.begin(call, stored.position)
        for each in stored.questions:
            request = holder.connection.conversation.questions.adopt(
                each.request, each.method, bytes(each.params), call
            )
            question = question_of(each.method, each.params)
            parked.asked += (AskedQuestion(parked, each.key, request, question),)
        self._parked[parked.id] = parked
        self._sweep_by(stored.expires)

    # -- resuming ----------------------------------------------------------------------------------

    def ask_to_repeat(
        self, questions: Mapping[str, Question], binding: CallBinding, about: str = AGAIN
    ) -> Raw:
        """Return the result that asks a client, and to call again then. Nothing is parked.

        The answer to a question of the hub itself is taken by :meth:`answered`: ``about`` says what it is
        about. Otherwise a server wants URLs to be opened.
        """
        handle = CallHandle(about, 0, int(time.time() + self.life))
        return Raw(input_required(questions, self._hub.signer().sign(handle, binding)))

    def answered(self, params: Members, binding: CallBinding) -> RepeatedAnswer | None:
        """Return the answer to a question of the hub itself; None if a request has none.

        Raises ProtocolRefusal if the answer is too late, or missing.
        """
        handle = self._own_handle(params, binding)
        if handle is None or not _is_own(handle):
            return None
        _check_life(handle)
        answers = list(_responses(params).values())
        if len(answers) != 1:
            raise _refusal("inputResponses: the one answer to the question of the hub is missing")
        return RepeatedAnswer(handle.call, *chosen(answers[0]))

    def continues(self, params: Members, binding: CallBinding) -> bool:
        """Return whether a request can only continue a parked call, and is never sent as a new one."""
        handle = self._own_handle(params, binding)
        return handle is not None and handle.call != AGAIN and not _is_own(handle)

    def _own_handle(self, params: Members, binding: CallBinding) -> CallHandle | None:
        try:
            return self._handle(params, binding)
        except ForgedHandle:
            return None  # it may be bound to another name of the tool

    def _handle(self, params: Members, binding: CallBinding) -> CallHandle | None:
        """Return the handle in a request; None if it has none of this hub. Raises ForgedHandle."""
        state = text(params.get("requestState"))
        return self._hub.signer().check(state, binding) if state is not None else None

    def claim(self, params: Members, binding: CallBinding) -> ParkedCall | bool:
        """Return the parked call that a request continues; False if it is no business of this hub.

        True means that the request is sent as a new call: see :meth:`ask_to_repeat`. Raises ProtocolRefusal
        if the handle or the answers are not acceptable; then nothing has changed.
        """
        try:
            handle = self._handle(params, binding)
        except ForgedHandle as error:
            raise _refusal(f"requestState: {error}") from None
        if handle is None:
            return False
        if handle.call == AGAIN:
            _check_life(handle)
            for key, answer in _responses(params).items():
                if chosen(answer)[0] != "accept":
                    raise _refusal(f"inputResponses.{key}: the call needs the URL, which was not opened")
            return True
        parked = self._parked.get(handle.call)
        if parked is None or parked.round != handle.round:
            raise _refusal(f"requestState: {self._why_gone(handle)}")
        self._check_answers(parked, params)
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

    def _check_answers(self, parked: ParkedCall, params: Members) -> None:
        from tabane.wire.question_answers import AnswerMismatch, check_answer

        for asked, answer in _answered_questions(parked, params):
            try:
                check_answer(asked.question, answer)
            except AnswerMismatch as error:
                raise _refusal(f"inputResponses.{asked.key}: {error}") from None

    def resume(self, parked: ParkedCall, call: Call) -> None:
        """Continue a parked call for the request ``call`` that repeats it, and give the answers."""
        self._end_parked(parked, USED)
        parked.attach(call)
        for asked, answer in _answered_questions(parked, call.params):
            asked.give(UpstreamReply(result=Raw(bytes(answer))))
        if parked.reply is not None:
            reply = parked.reply
            self._hand_over(parked)
            call.on_reply(reply)
        elif parked.asked:
            self._gathering[parked.id] = parked
            asyncio.get_running_loop().call_soon(self._park, parked)


USED = "it was used already: each requestState continues its call once"


def _key(parked: ParkedCall, request: ServerRequest) -> str:
    """Return the name of a new question for the client: the id that the server gave it, if it has a name."""
    key = given_key(request.id)
    if key is not None and all(key != one.key for one in parked.asked):
        return key
    return own_key(parked.count)


def _answered_questions(parked: ParkedCall, params: Members) -> list[tuple[AskedQuestion, Raw]]:
    """Return the open questions of a call that a request answers, each with its answer."""
    responses = _responses(params)
    return [(asked, responses[asked.key]) for asked in parked.asked if asked.key in responses]


def _responses(params: Members) -> Members:
    responses = params.get("inputResponses")
    if responses is None:
        return {}
    if has_too_many_members(responses):
        raise _refusal("inputResponses: they have too many members")
    try:
        return fields(responses)
    except InvalidJson:
        raise _refusal("inputResponses: an object with an answer for each question") from None


def chosen(answer: Raw | None) -> tuple[str, Members]:
    """Return the action that a client's user chose, and the values of a form; "cancel" if there is none."""
    try:
        members = fields(answer) if answer is not None else {}
        values = fields(members["content"]) if "content" in members else {}
    except InvalidJson:
        return "cancel", {}
    return text(members.get("action")) or "cancel", values


def _is_own(handle: CallHandle) -> bool:
    """Return whether a handle is of a question of the hub itself."""
    return handle.call == LOGIN or handle.call.startswith(APPROVAL)


def _check_life(handle: CallHandle) -> None:
    if handle.expires <= time.time():
        raise _refusal("requestState: it has expired; call again without it")


def _refusal(message: str) -> ProtocolRefusal:
    return ProtocolRefusal(INVALID_PARAMS, message)


LONGEST_KEY = 64
"""Characters of an id that becomes a key. Each has 12 bytes at most in JSON, as a pair of surrogates."""

_own = re.compile(r"question-[0-9]+").fullmatch


def own_key(number: int) -> str:
    """Return the key of the question with that number in its call. All calls have the same ones."""
    return sys.intern(f"question-{number}")


def given_key(request_id: bytes) -> str | None:
    """Return the key in the id of a request, which is JSON; None if it has none that can be used."""
    if not request_id.startswith(b'"') or len(request_id) > 12 * LONGEST_KEY + 2:
        return None
    key = text(request_id)
    if not key or len(key) > LONGEST_KEY or not key.isprintable() or _own(key):
        return None
    return key


KEY_FILE = "questions.key"


class HubQuestions:
    """The questions of servers to the clients of a hub.

    ``adopt`` connects to a server for a call of an earlier hub. ``to_page`` says whether a person answers on
    the web page what a client cannot be asked. ``login_waits`` counts requests that wait for logins.
    """

    def __init__(
        self,
        home: Path,
        to_page: Callable[[], bool],
        adopt: Callable[[str, str], Awaitable[AdoptedCall]],
    ) -> None:
        self._home, self.to_page = home, to_page
        self.open = OpenQuestions()
        self.login_waits = 0
        self._signer: HandleSigner | None = None
        self.parked = ParkedCalls(self, ParkedFiles(home), adopt)

    def table(self) -> list[Operation]:
        """Return the operations on open questions; they are loaded when one is called."""
        from tabane.hub.clients.questions.operations import QuestionOperations

        return QuestionOperations(self.open).table()

    def takes(self, question: Question) -> bool:
        """Return whether a person can answer a question that the client cannot be asked."""
        return question.kind in ON_PAGE and self.to_page() and len(self.open) < MOST_LISTED

    def signer(self) -> HandleSigner:
        """Return what signs handles. Its key is made once, and kept in the home."""
        if self._signer is None:
            self._signer = HandleSigner(self._key())
        return self._signer

    def _key(self) -> bytes:
        path = self._home / KEY_FILE
        try:
            key = bytes.fromhex(read_trusted(path).decode("ascii", "replace").strip())
            if len(key) == KEY_BYTES:
                return key
        except (FileNotFoundError, ConfigurationError, ValueError):
            pass
        key = os.urandom(KEY_BYTES)
        try:
            write_private(path, key.hex().encode() + b"\n")
        except OSError as error:
            log.warning(
                "%s cannot be written (%s): parked calls do not outlive the hub", path, error.strerror
            )
        return key
