"""Calls that go on in the hub as tasks, after their clients were told of the task."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog.tools.tool import Tool, check_size, tool_failure, upstream_failure
from tabane.errors import AnswerTooLong, TabaneError
from tabane.hub.work.tasks.following import TaskFollower
from tabane.hub.work.tasks.task import Task
from tabane.hub.work.tasks.tasks import HubTasks, TaskEnd, completed, failed, failed_inside
from tabane.messages import Lang
from tabane.text.cutting import shortened
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.wire import era as eras
from tabane.wire import json, rpc
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.tasks import LONGEST_CREATION, LONGEST_MESSAGE, MOST_INPUTS, created_task, may_be_task

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream


MOST_ROUNDS = 32
"""How often a server may ask for input before it answers."""


class RunningCalls:
    """The calls of tools that are tasks of the hub, because their servers have no tasks or took too long."""

    def __init__(self, tasks: HubTasks, follower: TaskFollower, loop: asyncio.AbstractEventLoop) -> None:
        self._tasks, self._follower, self._loop = tasks, follower, loop

    def adopt(self, task: Task, tool: Tool, call: Call, upstream: Upstream, lang: Lang) -> None:
        """Let a call that was handed to an instance go on for its task, as long as that lives."""
        task.instance = upstream
        upstream.held += 1
        self._bind(_AdoptedCall(task, tool, call, upstream, lang))

    def _bind(self, adopted: _AdoptedCall) -> None:
        task, call = adopted.task, adopted.call
        call.on_reply = partial(self._replied, adopted)
        call.on_notice = partial(_noticed, task)
        call.on_question = partial(_asked, task)
        call.unsent = lambda: 0
        left = 86_400.0 if task.ttl is None else task.ttl / 1000
        call.timeout = max(call.timeout, left)
        call.deadline = self._loop.time() + call.timeout
        task.cancel = lambda reason: adopted.upstream.cancel(adopted.call, reason)

    def _replied(self, adopted: _AdoptedCall, reply: UpstreamReply) -> None:
        task, result = adopted.task, reply.result
        if result is None:
            self._tasks.finish(task, _without_result(adopted, reply))
            return
        report = created_task(result) if may_be_task(result, LONGEST_CREATION) else None
        if report is not None:
            task.cancel = None
            self._follower.link(task, report, reply.era, adopted.upstream)
        elif reply.era is Era.MODERN and eras.result_type(result) == "input_required":
            self._ask_again(adopted, result)
        else:
            self._tasks.finish(task, _with_result(adopted, result))

    def _ask_again(self, adopted: _AdoptedCall, result: Raw) -> None:
        """Put the questions that a server answered with to the client, then call with its answers."""
        adopted.rounds += 1
        try:
            members = json.fields(result)
            asked = json.fields(members.get("inputRequests", Raw(b"{}")))
        except InvalidJson:
            asked = {}
        if adopted.rounds > MOST_ROUNDS or not 0 < len(asked) <= MOST_INPUTS:
            self._tasks.finish(adopted.task, failed_inside("The server asks for input in an invalid way."))
            return
        round_ = _InputRound(set(asked), members.get("requestState"))
        for key, request in asked.items():
            adopted.task.put(self._question(adopted, round_, key, request))

    def _question(self, adopted: _AdoptedCall, round_: _InputRound, key: str, request: Raw) -> ServerRequest:
        def answered(_: ServerRequest, reply: UpstreamReply) -> None:
            round_.open.discard(key)
            if reply.result is not None:
                round_.responses[key] = reply.result
            if not round_.open and not adopted.task.over:
                self._call_again(adopted, round_)

        try:
            members = json.fields(request)
        except InvalidJson:
            members = {}
        return ServerRequest(
            json.text(members.get("method")) or "", members.get("params", Raw(b"{}")), answered
        )

    def _call_again(self, adopted: _AdoptedCall, round_: _InputRound) -> None:
        before = adopted.call
        params = {
            name: value
            for name, value in before.params.items()
            if name not in ("inputResponses", "requestState")
        }
        params["inputResponses"] = Raw(json.join(round_.responses))
        if round_.state is not None:
            params["requestState"] = round_.state
        adopted.call = Call(
            before.method,
            params,
            before.meta,
            lambda reply: None,
            timeout=before.timeout,
            session=before.session,
            holder=before.holder,
            mirrored=before.mirrored,
            safe=before.safe,
        )
        self._bind(adopted)
        adopted.upstream.submit(adopted.call)


class _AdoptedCall:
    """A call that became a task, and the one after it if the server asked for input."""

    __slots__ = ("call", "lang", "rounds", "task", "tool", "upstream")

    def __init__(self, task: Task, tool: Tool, call: Call, upstream: Upstream, lang: Lang) -> None:
        self.task, self.tool, self.call, self.upstream, self.lang = task, tool, call, upstream, lang
        self.rounds = 0


class _InputRound:
    """Questions that are asked together, and the answers so far."""

    __slots__ = ("open", "responses", "state")

    def __init__(self, open_: set[str], state: Raw | None) -> None:
        self.open, self.state = open_, state
        self.responses: Members = {}


def _noticed(task: Task, method: str, params: Raw) -> None:
    """Show the progress of a call as the status message of its task."""
    if method != "notifications/progress" or task.over:
        return
    message = progress_message(params)
    if message and message != task.message:
        task.message = message
        task.touched()


def progress_message(params: Raw) -> str:
    """Return progress as a text: the server's own, or how much is done."""
    try:
        members = json.fields(params)
    except InvalidJson:
        return ""
    said = json.member(members, "message")
    if isinstance(said, str) and said:
        return shortened(said, LONGEST_MESSAGE)
    done, total = json.member(members, "progress"), json.member(members, "total")
    if not isinstance(done, int | float):
        return ""
    return f"{done:g} of {total:g}" if isinstance(total, int | float) else f"{done:g}"


def _asked(task: Task, question: ServerRequest) -> bool:
    if task.over or len(task.inputs) >= MOST_INPUTS:
        return False
    key = task.put(question)
    question.on_withdrawn = lambda reason: task.answered(key)
    return True


def _with_result(adopted: _AdoptedCall, result: Raw) -> TaskEnd:
    try:
        check_size(adopted.tool, len(result), adopted.task.opened.most)
    except AnswerTooLong as error:
        return _own_failure(adopted, error)
    return completed(result)


def _without_result(adopted: _AdoptedCall, reply: UpstreamReply) -> TaskEnd:
    if reply.failure is not None:
        return _own_failure(adopted, reply.failure)
    error = reply.error or Raw(b"null")
    if adopted.task.through:
        return completed(Raw(upstream_failure(adopted.tool, error)))
    return failed(error, "The server answered with an error.")


def _own_failure(adopted: _AdoptedCall, error: TabaneError) -> TaskEnd:
    if adopted.task.through:
        return completed(Raw(tool_failure(error, adopted.lang)))
    return failed(Raw(rpc.error_of(error, adopted.lang)), error.text(adopted.lang)[:LONGEST_MESSAGE])
