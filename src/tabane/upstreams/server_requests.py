"""Requests of a legacy upstream to its client: which client gets them, or why they are refused.

A request belongs to the call on whose stream it arrived. On a transport with one stream, it belongs to the
only client with calls in flight. That client gets it if it can answer. Otherwise the upstream gets an error
at once, since an unanswered request would hang it.

Questions of modern upstreams are not requests but results (``input_required``), and are not handled here.
Whoever takes a question may have it answered later by another request of the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, Raw

from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.json import InvalidJson, JsonRpcFrame
from tabane.wire.questions import urls_required
from tabane.wire.tasks import RELATED

log = logging.getLogger(__name__)

LIMIT = 600.0
"""Seconds a person has to answer."""

MOST = 256
"""Questions of one upstream that are open at the same time."""

MOST_URLS = 256
"""URLs that users of one upstream were asked to open, and whose end it may announce."""

MOST_LOGGED = 50
"""Refused questions of one connection that are logged."""

COMPLETE = "notifications/elicitation/complete"
NO_CLIENT = "no single client behind this hub can be asked"


class SendLine(Protocol):
    """Sends a line to the upstream, on the stream of call ``about`` if there is one."""

    def __call__(self, line: bytes, about: int | None = None) -> None: ...


class ServerRequests:
    """The open questions of one upstream.

    ``on_asked`` gets the method of each request whose client had to be guessed, since the transport does not
    show it. ``roots`` answer the request for them if no client does. ``on_other`` is offered each request
    that belongs to no call, and says whether it takes it.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        say: SendLine,
        on_asked: Callable[[str, Raw], None],
        roots: Sequence[str] | None,
        on_other: Callable[[ServerRequest], bool],
        calls: Mapping[int, Call],
    ) -> None:
        self._on_other, self._calls = on_other, calls
        self._name, self._loop, self._say, self._on_asked = name, loop, say, on_asked
        self._roots = roots
        self.open: dict[bytes, ServerRequest] = {}
        """Questions that have no answer yet, by their ids."""
        self._urls: OrderedDict[str, Call] = OrderedDict()
        self._on_answer = self._send_answer  # one object for all questions
        self._refused = 0

    @property
    def calls(self) -> int:
        """Return how many calls wait for an answer."""
        return len({id(one.call) for one in self.open.values() if one.call is not None})

    def asked(self, frame: JsonRpcFrame, about: int | None, calls: Mapping[int, Call]) -> None:
        """Handle a request of the upstream: answer it here, pass it to a client, or refuse it."""
        name, method = bytes(frame.id), str(frame.method)  # type: ignore[arg-type]
        if method == "ping":
            self._say(json.result_line(name, b"{}"), about)
            return
        named = _of_task(frame, calls) is not None
        if (refusal := self._ask_client(name, frame, about, calls)) is not None:
            self._answer_alone(name, method, about, refusal)
        if about is None and not named:
            self._on_asked(method, Raw(b"{}"))

    def pending(self, call: Call) -> bool:
        """Return whether that call may wait for an answer of its client."""
        return any(one.may_belong_to(call) for one in self.open.values())

    def of(self, call: Call) -> dict[str, ServerRequest]:
        """Return the open questions of a call by their ids, each as JSON."""
        return {name.decode(): one for name, one in self.open.items() if one.call is call}

    def adopt(self, name: str, method: str, params: bytes, call: Call) -> ServerRequest:
        """Take a question that an earlier hub was asked during a call. Return it, to be answered."""
        key = name.encode()
        question = ServerRequest(method, Raw(params), self._on_answer, key, call.number)
        question.deadline = self._loop.time() + LIMIT
        question.call = call
        self.open[key] = question
        return question

    def withdrawn(self, params: Raw) -> None:
        """Handle that the upstream canceled a question."""
        try:
            members = json.fields(params)
        except InvalidJson:
            return
        entry = self.open.pop(bytes(members.get("requestId", b"")), None)
        if entry:
            entry.withdraw(json.text(members.get("reason")) or "the server cancelled it")

    def completed(self, params: Raw) -> None:
        """Notify the client that was asked to open a URL that it has completed what the URL is for."""
        call = self._urls.pop(_elicitation(params), None)
        if call is not None and call.on_notice:
            call.on_notice(COMPLETE, params)

    def refused_for(self, call: Call, error: Raw) -> None:
        """Remember the URLs that the user has to open before a call, if that is what an error says."""
        for name in urls_required(error):
            self._keep_url(name, call)

    def _keep_url(self, name: str, call: Call) -> None:
        self._urls[name] = call
        if len(self._urls) > MOST_URLS:
            self._urls.popitem(last=False)

    def drop(self, call: Call, reason: str) -> None:
        """Drop the questions of a call that is over."""
        for name, one in list(self.open.items()):
            if one.call is call and not (one.guessed and self._give_to_another(one, call)):
                self.open.pop(name).withdraw(reason)

    def _give_to_another(self, one: ServerRequest, call: Call) -> bool:
        """Give a question to another call that may have caused it, since that call is over."""
        asking = {id(each.call) for each in self.open.values()}
        others = [each for each in self._calls.values() if each is not call and one.may_belong_to(each)]
        others.sort(key=lambda each: id(each) not in asking)
        if others:
            one.call = others[-1]
        return bool(others)

    def expire(self, now: float) -> None:
        """Refuse the questions that nobody answered in time."""
        for one in list(self.open.values()):
            if one.deadline <= now:
                late = json.error_object(eras.INTERNAL_ERROR, f"nobody answered within {LIMIT:g} s")
                one.time_out(UpstreamReply(error=Raw(late)))

    def close(self, why: str) -> None:
        """Withdraw all questions, because the connection is over."""
        entries, self.open = list(self.open.values()), {}
        for one in entries:
            one.withdraw(why)

    def _owner(self, about: int | None, calls: Mapping[int, Call]) -> Call | None:
        """Return the call a question belongs to: by its stream, or the only client's with calls in flight.

        A call that waits for an answer asks nothing else as a rule, so the others are better guesses.
        """
        if about is not None and about in calls:
            return calls[about]
        asking = {id(one.call) for one in self.open.values()}
        found = [call for call in calls.values() if id(call) not in asking] or list(calls.values())
        return found[-1] if len({call.client for call in found}) == 1 else None

    def _ask_client(
        self, name: bytes, frame: JsonRpcFrame, about: int | None, calls: Mapping[int, Call]
    ) -> str | None:
        """Pass a question to the client that it is for. Return why it cannot be asked; None if it is."""
        of_task = _of_task(frame, calls)
        call = of_task or self._owner(about, calls)
        ask = self._on_other if call is None else call.on_question
        if ask is None:
            return NO_CLIENT
        if len(self.open) >= MOST:
            return f"{MOST} questions are open already"
        if name in self.open:  # it could not be said which of them an answer is for
            return "its id is that of a question that is open"
        params = Raw(b"{}") if frame.params is UNSET else frame.params
        question = ServerRequest(str(frame.method), params, self._on_answer, name, about)
        question.deadline = self._loop.time() + LIMIT
        question.call, question.guessed = call, of_task is None and about not in calls
        self.open[name] = question
        if not ask(question):
            self.open.pop(name, None)
            return question.refusal or NO_CLIENT
        if call is not None and (url := _elicitation(params)):
            self._keep_url(url, call)
        return None

    def _send_answer(self, question: ServerRequest, reply: UpstreamReply) -> None:
        name, about = question.id, question.about
        entry = self.open.pop(name, None)
        if entry is None:
            return
        for call in {*self._calls.values(), *filter(None, [entry.call])}:
            if entry.may_belong_to(call):
                # The server goes on only now: the time that a person took is not its own.
                call.deadline = max(call.deadline, self._loop.time() + call.timeout)
        if reply.result is not None:
            self._say(json.result_line(name, reply.result), about)
        else:
            error = reply.error or Raw(json.error_object(eras.INTERNAL_ERROR, "the client is gone"))
            self._say(json.error_line(name, error), about)

    def _answer_alone(self, name: bytes, method: str, about: int | None, why: str) -> None:
        if method == "roots/list" and self._roots is not None:
            roots = json.encode({"roots": [{"uri": root} for root in self._roots]})
            self._say(json.result_line(name, roots), about)
            return
        self._refused += 1
        if self._refused <= MOST_LOGGED:
            log.warning("%s asked its client for %s; refused: %s", self._name, method, why)
        text = f"{method} is not available: {why}"
        self._say(json.error_line(name, json.error_object(eras.METHOD_NOT_FOUND, text)), about)


def _elicitation(params: Raw) -> str:
    """Return the id of an elicitation, empty if there is none."""
    try:
        return json.text(json.fields(params).get("elicitationId")) or ""
    except InvalidJson:
        return ""


_RELATED = RELATED.encode()


def _of_task(frame: JsonRpcFrame, calls: Mapping[int, Call]) -> Call | None:
    """Return the request for the result of the task that a question names; None if it names none."""
    if frame.params is UNSET or _RELATED not in bytes(frame.params):
        return None
    try:
        meta = json.fields(json.fields(frame.params)["_meta"])
        task = json.fields(meta[RELATED])["taskId"]
    except (InvalidJson, KeyError):
        return None
    asking = (call for call in calls.values() if call.method == b"tasks/result")
    return next((call for call in asking if bytes(call.params.get("taskId", b"")) == bytes(task)), None)
