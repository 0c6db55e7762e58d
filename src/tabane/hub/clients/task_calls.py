"""Calls of tools that become tasks: of their server, or of the hub if they take long.

Toward a client that announces tasks, a task of a server passes under an id of the hub, and a call that lasts
longer than the setting ``task_after`` becomes a task of the hub. For any other client, the hub waits for the
end of a task itself. :class:`OpenToolCall` is a call from its admission to the record of its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.tool import Tool, ToolCallRequest, says_failed
from tabane.errors import CallerError, TabaneError, UpstreamError
from tabane.hub.clients.session import Session
from tabane.hub.work.task_following import RunningCalls, TaskFollower
from tabane.hub.work.tasks import HubTasks, Task, completed
from tabane.messages import say
from tabane.operations import OpenCall, Outcome
from tabane.settings import Settings
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.handshake import CLIENT
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import has_too_many_members
from tabane.wire.tasks import (
    LONGEST_CREATION,
    announces_tasks,
    announcing_tasks,
    asked_ttl,
    created_task,
    creation,
    legacy_members,
    may_be_task,
    needs_tasks,
    related,
)

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream

BYTES_OF_TOKEN = 4
"""Bytes of a result that count as one token where what was saved is estimated."""


class OpenToolCall(Struct):
    """A call of a session to an upstream's tool. ``through``: it came by call_tool.

    ``inner`` are its name and parameters, ``meta`` is the ``_meta`` of its request. ``guarded``: it was
    approved by a person.
    """

    session: Session
    key: bytes
    tool: Tool
    opened: OpenCall
    through: bool
    inner: ToolCallRequest
    meta: Members
    guarded: bool = False

    def end(self, result: Raw, given: Raw) -> Awaitable[None] | None:
        """Record the result; ``given`` is the part of it that the client gets."""
        saved = (len(result) - len(given)) // BYTES_OF_TOKEN if given is not result else 0
        outcome: Outcome = "failed" if says_failed(result) else "ok"
        return self.opened.end(outcome, len(result), saved=max(0, saved), result=result)


EXTENSION = "tasks"
"""The name of the extension in the settings."""

PARKED = "tabane-task:"
"""Begins the ``requestState`` of a call whose task the hub waits for, while its client is asked."""

WITH_TASKS = ("optional", "required")
"""Values of ``execution.taskSupport`` of a tool whose calls may be tasks of its server."""

CANCELLED = Raw(b'{"action":"cancel"}')
"""The answer to a question that could not be put."""

PAUSE = 5.0
"""Seconds between two notices of progress to a client that waits."""


class TaskPlan(Struct, frozen=True):
    """Plan for a call. ``shown``: its client can have a task; else the hub waits for the end of a task.

    ``asked``: the client of the handshake era asked for a task, with that time to live.
    """

    shown: bool
    asked: bool = False
    ttl: int | None = None


class TaskParts:
    """The tasks of a hub, and what works on them."""

    def __init__(
        self,
        tasks: HubTasks,
        gateway: Gateway,
        loop: asyncio.AbstractEventLoop,
        settings: Callable[[], Settings],
    ) -> None:
        self.tasks, self.loop, self.settings = tasks, loop, settings
        self.follower = TaskFollower(tasks, gateway, loop)
        self.running = RunningCalls(tasks, self.follower, loop)
        self._later: set[asyncio.Task[None]] = set()

    @property
    def on(self) -> bool:
        """Return whether the settings allow tasks."""
        return EXTENSION in self.settings().extensions

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work that no request waits for."""
        begun = self.loop.create_task(work)
        self._later.add(begun)
        begun.add_done_callback(self._later.discard)


class TaskCalls:
    """Decides which calls may become tasks, and answers those that do.

    ``give`` gives the reply to a call as if there were no tasks.
    """

    def __init__(self, parts: TaskParts, give: Callable[[OpenToolCall, UpstreamReply], None]) -> None:
        self._parts, self._tasks, self._give = parts, parts.tasks, give

    def plan(self, session: Session, tool: Tool, inner: ToolCallRequest, meta: Members) -> TaskPlan | None:
        """Return how a call deals with tasks; None for a plain call, which nearly all are."""
        if session.era is Era.MODERN:
            if announces_tasks(meta):
                return TaskPlan(True) if self._parts.on else None
        elif "task" in inner.params and session.version == eras.LEGACY[0]:
            return TaskPlan(True, True, asked_ttl(inner.params)) if self._parts.on else None
        if tool.task_support == "required" and self._client_waits:
            return TaskPlan(False)
        return None

    def send(self, call: OpenToolCall, plan: TaskPlan, upstream: Upstream) -> None:
        """Send a call that may become a task."""
        calls = call.session.calls
        params = call.inner.params_for(call.tool)
        if call.tool.task_support in WITH_TASKS:
            params["task"] = Raw(json.encode({"ttl": plan.ttl} if plan.ttl else {}))
        elif plan.asked:
            params.pop("task", None)
        asking = call.session.questions
        capabilities = asking.capabilities if asking is not None else call.session.caller.capabilities
        sent = calls.send(
            call.key,
            upstream,
            b"tools/call",
            params,
            announcing_tasks(call.meta, CLIENT, capabilities),
            partial(self._take_reply, call, plan, upstream),
            name=call.tool.alias,
            opened=call.opened,
            mirrored=call.tool.mirrored,
            safe=call.tool.repeatable,
        )
        if sent is None or not plan.shown or sent.done or call.key not in calls:
            return
        if plan.asked and call.tool.task_support not in WITH_TASKS:
            self._become_task(call, sent, upstream, plan.ttl)
        elif (after := self._parts.settings().task_after) and not plan.asked:
            timer = self._parts.loop.call_later(after, self._become_task_if_slow, call, sent, upstream)
            on_reply = sent.on_reply

            def stop_timer(reply: UpstreamReply) -> None:
                timer.cancel()
                on_reply(reply)

            sent.on_reply = stop_timer

    def goes_on(self, inner: ToolCallRequest) -> bool:
        """Return whether a call only goes on to wait for a task, as :meth:`resumed` then says."""
        return (json.text(inner.params.get("requestState")) or "").startswith(PARKED)

    def resumed(self, call: OpenToolCall) -> Task | None:
        """Return the task that a call goes on to wait for, after its client was asked; None for another call.

        Raises ProtocolRefusal if it belongs to another client.
        """
        state = json.text(call.inner.params.get("requestState")) or ""
        if not state.startswith(PARKED):
            return None
        return self._tasks.find(call.session.caller, state.removeprefix(PARKED))

    def resume(self, call: OpenToolCall, task: Task) -> None:
        """Go on to wait for a task with the answers of the client."""
        call.opened.end("cancelled", reason="the call went on as a task")
        call.session.run(Raw(call.key), self._resume_wait(call, task))

    def takes(self, call: OpenToolCall, reply: UpstreamReply, upstream: Upstream) -> bool:
        """Wait for a task if a server begins one, or refuses a call because the client cannot have tasks."""
        if not self._client_waits:
            return False
        plan = TaskPlan(False)
        if reply.error is not None and needs_tasks(reply.error):
            self.send(call, plan, upstream)
            return True
        report = created_task(reply.result) if reply.result is not None else None
        if report is None:
            return False
        self._take_over_task(call, plan, upstream, reply)
        return True

    @property
    def _client_waits(self) -> bool:
        return self._parts.on and self._parts.settings().task_waiting

    # -- replies -----------------------------------------------------------------------------------

    def _take_reply(
        self, call: OpenToolCall, plan: TaskPlan, upstream: Upstream, reply: UpstreamReply
    ) -> None:
        result = reply.result
        if result is not None and may_be_task(result, LONGEST_CREATION) and created_task(result) is not None:
            self._take_over_task(call, plan, upstream, reply)
        elif plan.asked and reply.result is not None and _is_final(reply):
            self._ended_at_once(call, plan, reply.result)
        else:
            self._give(call, reply)

    def _take_over_task(
        self, call: OpenToolCall, plan: TaskPlan, upstream: Upstream, reply: UpstreamReply
    ) -> None:
        """Take over a task that a server has begun."""
        report = created_task(reply.result or Raw(b"{}"))
        assert report is not None
        try:
            task = self._new_task(call)
        except TabaneError as error:
            self._give(call, UpstreamReply(failure=error))
            return
        self._parts.follower.link(task, report, reply.era, upstream)
        if plan.shown:
            call.session.run(Raw(call.key), self._answer_with_task(call, task))
        else:
            call.session.run(Raw(call.key), self._wait_for_task(call, task))

    def _ended_at_once(self, call: OpenToolCall, plan: TaskPlan, result: Raw) -> None:
        """Make a task of a result, because the client asked for one."""
        try:
            task = self._new_task(call)
        except TabaneError as error:
            self._give(call, UpstreamReply(failure=error))
            return
        task.ttl = self._ttl(plan.ttl)
        call.session.run(Raw(call.key), self._answer_ended(call, task, result))

    async def _answer_ended(self, call: OpenToolCall, task: Task, result: Raw) -> None:
        await self._answer_with_task(call, task)
        self._tasks.finish(task, completed(result))

    def _become_task_if_slow(self, call: OpenToolCall, sent: Call, upstream: Upstream) -> None:
        if call.key in call.session.calls and not sent.over:
            self._become_task(call, sent, upstream, None)

    def _become_task(self, call: OpenToolCall, sent: Call, upstream: Upstream, ttl: int | None) -> None:
        """Make a task of the hub of a call that goes on."""
        try:
            task = self._new_task(call)
        except TabaneError:
            return  # no room: the call goes on as it is
        call.session.calls.detach(call.key)
        task.ttl = self._ttl(ttl)
        self._parts.running.adopt(task, call.tool, sent, upstream, call.session.caller.lang)
        call.session.run(Raw(call.key), self._answer_with_task(call, task))

    def _ttl(self, asked: int | None) -> int:
        most = int(self._parts.settings().task_ttl * 1000)
        return min(asked, most) if asked else most

    def _new_task(self, call: OpenToolCall) -> Task:
        task = self._tasks.begin(call.session.caller, call.tool.target)
        task.opened, task.through, task.session = call.opened, call.through, call.session.key
        return task

    async def _answer_with_task(self, call: OpenToolCall, task: Task) -> None:
        """Tell the client of its task, once the task is on disk."""
        try:
            await self._tasks.keep(task)
        except TabaneError:
            self._parts.follower.cancel_later(task)
            raise
        facts = task.facts
        _follow_status(call.session, task)
        call.session.answer(Raw(call.key), creation(facts, call.session.era))

    # -- waiting for clients without tasks ---------------------------------------------------------

    async def _resume_wait(self, call: OpenToolCall, task: Task) -> None:
        given = call.inner.params.get("inputResponses", Raw(b"{}"))
        try:
            responses = {} if has_too_many_members(given) else json.fields(given)
        except InvalidJson:
            responses = {}
        await self._parts.follower.update(task, responses, call.session.caller)
        await self._parts.follower.refresh(task, call.session.caller)
        await self._wait_for_task(call, task)

    async def _wait_for_task(self, call: OpenToolCall, task: Task) -> None:
        """Wait for the end of a task, and give its result. If its client cancels, so is the task."""
        task.waiting += 1
        self._parts.follower.hurry(task)
        try:
            async with asyncio.timeout(self._parts.settings().task_ttl):
                await self._until_over(call, task)
        except TimeoutError:
            self._parts.follower.cancel_later(task)
            self._give(call, UpstreamReply(failure=_too_long(call.tool)))
            return
        except asyncio.CancelledError:
            self._parts.follower.cancel_later(task)
            raise
        finally:
            task.waiting -= 1
        if task.over:
            body = await self._tasks.body(task)
            self._tasks.forget(task)
            era = Era.MODERN if task.era is Era.MODERN else Era.LEGACY
            if task.body == "result" and body is not None:
                self._give(call, UpstreamReply(result=body, era=era))
            elif task.body == "error" and body is not None:
                self._give(call, UpstreamReply(error=body, era=era))
            else:
                failure = UpstreamError(say("The task of {tool} was cancelled.", tool=call.tool.alias))
                self._give(call, UpstreamReply(failure=failure))
        else:
            # The questions of the task: the client calls again with the answers.
            await self._tasks.keep(task)
            asked = {key: one.request for key, one in task.inputs.items()}
            result = {
                "resultType": Raw(b'"input_required"'),
                "inputRequests": Raw(json.join(asked)),
                "requestState": Raw(json.quote(PARKED + task.id)),
            }
            call.session.answer(Raw(call.key), json.join(result))

    async def _until_over(self, call: OpenToolCall, task: Task) -> None:
        """Wait until a task is over, or asks a client that has to call again with the answers."""
        progress = 0
        while not task.over:
            pulse = task.pulse
            if task.inputs and call.session.era is Era.MODERN:
                return
            if task.inputs:
                ask_client(call.session, call.key, task, self._parts)
            progress += 1
            _tell_progress(call, task, progress)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await task.changed(pulse)


def ask_client(session: Session, key: bytes, task: Task, parts: TaskParts) -> None:
    """Put the open questions of a task to a client of the handshake era, each once.

    ``key`` is the request that waits for the task. A question that the client cannot be asked is canceled.
    """
    for name, asked in list(task.inputs.items()):
        if asked.asked:
            continue
        asked.asked = True

        answered = partial(_take_answer, session, task, name, parts)
        try:
            members = json.fields(asked.request)
        except InvalidJson:
            members = {}
        method = json.text(members.get("method")) or ""
        params = _related_params(members.get("params", Raw(b"{}")), task.id)
        question = ServerRequest(method, params, answered)
        if asked.question is not None:
            asked.question.on_withdrawn = partial(_withdraw_question, task, name, question)
        questions = session.questions
        if questions is None or not questions.ask(key, task.target.server, task.target.name, question):
            question.answer(UpstreamReply())


def _withdraw_question(task: Task, name: str, question: ServerRequest, reason: str) -> None:
    task.answered(name)
    question.withdraw(reason)


def _take_answer(
    session: Session, task: Task, name: str, parts: TaskParts, _: ServerRequest, reply: UpstreamReply
) -> None:
    """Take a client's answer. If the client has gone, the next one that waits for the task is asked."""
    asked = task.inputs.get(name)
    if asked is None:
        return
    if session.over:
        asked.asked = False
    elif asked.question is not None:
        task.answered(name)
        asked.question.answer(reply)
    else:
        response = reply.result if reply.result is not None else CANCELLED
        parts.later(_respond(parts, task, name, response))


async def _respond(parts: TaskParts, task: Task, name: str, response: Raw) -> None:
    with contextlib.suppress(TabaneError):
        await parts.follower.update(task, {name: response})
    await parts.follower.refresh(task)


def _related_params(params: Raw, task: str) -> Raw:
    try:
        return Raw(related(params, task))
    except InvalidJson:
        return params


def _follow_status(session: Session, task: Task) -> None:
    """Tell a client of the handshake era of each change of a task that it began, while it is connected."""
    if session.era is Era.MODERN:
        return
    last_status = [""]

    def changed(task: Task) -> None:
        members = legacy_members(task.facts)
        status = bytes(members["status"]).decode() + task.message
        if session.over or task.over:
            task.listeners.remove(changed)
        if session.over or status == last_status[0]:
            return
        last_status[0] = status
        session.tell(json.notification_line("notifications/tasks/status", json.join(members)), None)

    task.listeners.append(changed)


def _tell_progress(call: OpenToolCall, task: Task, progress: int) -> None:
    """Tell a client that waits how far a task is, if the client asked for progress."""
    token = call.meta.get("progressToken")
    if token is None:
        return
    note: Members = {"progressToken": token, "progress": Raw(b"%d" % progress)}
    if task.message:
        note["message"] = Raw(json.quote(task.message))
    call.session.tell(json.notification_line("notifications/progress", json.join(note)), call.key)


def _is_final(reply: UpstreamReply) -> bool:
    kind = eras.result_type(reply.result or Raw(b"{}")) if reply.era is Era.MODERN else None
    return kind in (None, "complete")


def _too_long(tool: Tool) -> CallerError:
    return CallerError(say(
        "The task of {tool} did not end in time, and was cancelled. To allow more time, set task_ttl.",
        tool=tool.alias))  # fmt: skip
