"""Rounds of questions for a client of the handshake era, whose call a modern server answers with questions.

The hub asks the client, and repeats the call with the answers. The client sees one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import Raw

from tabane.errors import CallerError, TabaneError, UpstreamError
from tabane.hub.clients.client_questions import CannotAsk, ClientQuestions
from tabane.messages import say
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.message_reading import error_of
from tabane.upstreams.server_requests import LIMIT
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson
from tabane.wire.questions import InvalidQuestion, Question, input_required_of

MOST_ROUNDS = 32
"""Times that one call may ask. A server that goes on has a fault."""

LARGEST = 1 << 20
"""Bytes of a result with questions."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds before a call is repeated that asks nothing, and only wants to be repeated."""

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
            self._end(UpstreamError(say(
                "{server!n} asks for input in a way that cannot be answered: {why}.",
                server=self._server, why=error)))  # fmt: skip
            return
        self._answers, self._state = {}, wanted.state
        if not wanted.questions:
            self._timer = self._loop.call_later(self._pause(), self._repeat)
            return
        self._timer = self._loop.call_later(LIMIT, self._expired)
        self._put_all(wanted.questions)

    def withdraw(self, reason: str) -> None:
        """Take all questions back: the call is over."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        asking, self._asking = self._asking, {}
        for take_back in asking.values():
            take_back(reason)

    def _pause(self) -> float:
        return min(FIRST_WAIT * (1 << self._count - 1), LONGEST_WAIT)

    def _put_all(self, questions: dict[str, Question]) -> None:
        try:
            for name, question in questions.items():
                if self._questions is None:
                    raise CannotAsk("the client has declared no capability for questions")
                answered = partial(self._answered, name, question)
                self._asking[name] = lambda reason: None  # an answer may come at once
                take_back = self._questions.put(self._key, self._server, self._name, question, answered)
                if name in self._asking:
                    self._asking[name] = take_back
        except CannotAsk as why:
            self._end(CallerError(say(
                "{tool} asks you something that your client cannot be asked: {why}. Give everything it needs "
                "in the arguments, or set questions_to_page = true to answer on the web page.",
                tool=self._name, why=why)))  # fmt: skip

    def _answered(self, name: str, question: Question, reply: UpstreamReply) -> None:
        if self._asking.pop(name, None) is None or self.over:
            return
        if reply.result is not None and _is_object(reply.result):
            self._answers[name] = bytes(reply.result)
        elif reply.result is None and question.kind in ("form", "url"):
            self._answers[name] = b'{"action":"cancel"}'
        else:
            self._end(CallerError(say(
                "The client did not answer a question of {tool}: {why}",
                tool=self._name, why=_why(reply))))  # fmt: skip
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

    def _expired(self) -> None:
        self._end(CallerError(say(
            "Nobody answered the question of {tool} within {minutes} {minutes:minute|minutes}.",
            tool=self._name, minutes=int(LIMIT // 60))))  # fmt: skip

    def _end(self, error: TabaneError) -> None:
        if not self.over:
            self.withdraw("the call has failed")
            self._fail(error)


def _is_object(result: Raw) -> bool:
    try:
        json.fields(result)
    except InvalidJson:
        return False
    return True


def _why(reply: UpstreamReply) -> str:
    if reply.error is not None:
        code, message = error_of(reply.error)
        return message or f"error {code}"
    return "the answer is not an object" if reply.result is not None else "it is gone"
