"""Tasks that go on after their clients were told of them: at a server, or as calls in the hub.

A task at a server is polled, answered and canceled, whether its client is there or not. The hub polls by
itself, so it knows when a task ends: its record is complete, its result is kept, and clients that listen are
told. A task that nobody waits for is polled seldom.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.tool import Tool, check_size, tool_failure, upstream_failure
from tabane.errors import AnswerTooLong, TabaneError
from tabane.hub.work.tasks import (
    CANCELLED,
    LEAST_POLL,
    LONGEST_POLL,
    LONGEST_RUN,
    POLL,
    HubTasks,
    Task,
    TaskEnd,
    TaskInput,
    completed,
    failed,
    failed_inside,
)
from tabane.messages import Lang
from tabane.operations import Caller
from tabane.text.cutting import shortened
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.handshake import CLIENT
from tabane.wire import era as eras
from tabane.wire import json, rpc
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import (
    MOST_ROUNDS,
    InputRequired,
    InvalidQuestion,
    input_required_of,
    with_responses,
)
from tabane.wire.tasks import (
    LONGEST_CREATION,
    LONGEST_MESSAGE,
    MOST_INPUTS,
    OVER,
    ReportedTask,
    announcing_tasks,
    created_task,
    may_be_task,
    reported_task,
    unrelated,
)

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream

log = logging.getLogger(__name__)


AT_ONCE = 8
"""Polls that one server gets at the same time."""

SELDOM, RARELY = 5.0, 60.0
"""Seconds between two polls of a task that nobody waits for, when it is young and when it is old."""

MOST_FAULTS = 20
"""Malformed answers in a row after which a task is given up."""

_FORGOTTEN = frozenset({eras.INVALID_PARAMS, eras.METHOD_NOT_FOUND, eras.RESOURCE_NOT_FOUND})


class TaskFollower:
    """Follows the tasks of servers."""

    def __init__(self, tasks: HubTasks, gateway: Gateway, loop: asyncio.AbstractEventLoop) -> None:
        self._tasks, self._gateway, self._loop = tasks, gateway, loop
        self._places: dict[str, asyncio.Semaphore] = {}
        self._canceling: set[asyncio.Task[None]] = set()
        tasks.on_restored = self._restored
        tasks.on_gone = self._gone

    def link(self, task: Task, report: ReportedTask, era: Era, instance: Upstream) -> None:
        """Follow a task that a server has begun, on the instance that works on it."""
        task.remote, task.era = report.id, era
        task.ttl = report.ttl
        if task.instance is None:
            task.instance = instance
            instance.held += 1
        self._apply(task, report)
        if not task.over and task.ending is None:
            self._schedule(task)

    async def refresh(self, task: Task, caller: Caller | None = None) -> None:
        """Ask the server for the state of a task. Requests at the same time share one poll.

        ``caller`` tells which instance to ask after a restart of the hub.
        """
        if task.over or not task.remote or task.ending is not None:
            await self._tasks.ended(task)
            return
        if task.polling is None:
            task.polling = self._loop.create_task(self._polled(task, caller))
        await asyncio.shield(task.polling)
        await self._tasks.ended(task)

    async def update(self, task: Task, responses: Members, caller: Caller | None = None) -> None:
        """Give answers to the questions of a task, by their keys; unknown ones are dropped.

        Raises TabaneError if the server cannot be reached, UpstreamRefusal if it refuses.
        """
        rest: Members = {}
        for key, response in responses.items():
            asked = task.inputs.get(key)
            if asked is None or asked.question is None:
                rest[key] = response
                continue
            task.answered(key)
            asked.question.answer(UpstreamReply(result=response))
        if rest and task.remote and task.era is Era.MODERN and not task.over:
            params = {"taskId": Raw(json.quote(task.remote)), "inputResponses": Raw(json.join(rest))}
            reply = await self._ask(task, b"tasks/update", params, caller)
            if reply.failure is not None:
                raise reply.failure
            if reply.error is None:
                for key in rest:
                    task.answered(key)

    async def cancel(self, task: Task, *, now: bool, caller: Caller | None = None) -> None:
        """Cancel a task. If ``now``, it is canceled at once, whatever its server makes of that."""
        if task.over:
            return
        if task.remote:
            params = {"taskId": Raw(json.quote(task.remote))}
            await self._ask(task, b"tasks/cancel", params, caller)
            if not now:
                await self.refresh(task, caller)
                return
        elif task.cancel is not None:
            task.cancel("the client cancelled the task")
        self._tasks.finish(task, CANCELLED)
        await self._tasks.ended(task)

    def cancel_later(self, task: Task) -> None:
        """Cancel a task whose client has gone."""
        work = self._loop.create_task(self.cancel(task, now=True))
        self._canceling.add(work)
        work.add_done_callback(self._canceling.discard)

    # -- polls -----------------------------------------------------------------------------------

    def _schedule(self, task: Task) -> None:
        if task.timer is not None:
            task.timer.cancel()
        if not self._tasks.closed:
            task.timer = self._loop.call_later(_interval(task), self._poll, task)

    def hurry(self, task: Task) -> None:
        """Poll as often as the server suggests, because somebody waits for the task now."""
        if task.remote and not task.over:
            self._schedule(task)

    def _poll(self, task: Task) -> None:
        if not task.over and task.ending is None and task.polling is None:
            task.polling = self._loop.create_task(self._polled(task, None))

    async def _polled(self, task: Task, caller: Caller | None) -> None:
        try:
            params = {"taskId": Raw(json.quote(task.remote))}
            self._take(task, await self._ask(task, b"tasks/get", params, caller))
        except Exception:
            log.exception("a poll of a task failed")
        finally:
            task.polling = None
            if not task.over and task.ending is None:
                self._schedule(task)

    def _take(self, task: Task, reply: UpstreamReply) -> None:
        if task.over or task.ending is not None:
            return
        if reply.failure is not None:
            log.info("%s: the state of a task is not known: %s", task.server, reply.failure)
            return
        if reply.error is not None:
            try:
                code = json.member(json.fields(reply.error), "code")
            except InvalidJson:
                code = None
            if code in _FORGOTTEN:
                why = f"{task.server} no longer knows this task: it has expired, or the server was restarted."
                self._tasks.finish(task, failed_inside(why))
            else:
                self._faulty(task)
            return
        report = reported_task(reply.result or Raw(b"{}"), reply.era)
        if report is None or report.id != task.remote:
            self._faulty(task)
            return
        task.failures, task.era = 0, reply.era
        self._apply(task, report)

    def _faulty(self, task: Task) -> None:
        task.failures += 1
        if task.failures >= MOST_FAULTS:
            self._tasks.finish(task, failed_inside(f"{task.server} gives no readable state of this task."))

    def _apply(self, task: Task, report: ReportedTask) -> None:
        before = (task.status, task.message, set(task.inputs))
        task.message = report.message or ("" if task.era is Era.MODERN else task.message)
        task.poll = min(max(report.poll or POLL, LEAST_POLL), LONGEST_POLL)
        task.ttl = report.ttl
        if report.status in OVER:
            if report.status == "cancelled":
                self._tasks.finish(task, CANCELLED)
            elif task.era is Era.LEGACY:
                self._fetch(task)
            elif report.result is not None:
                self._tasks.finish(task, _within(task, report.result))
            elif report.error is not None:
                self._tasks.finish(task, failed(report.error, report.message or "The task failed."))
            else:
                self._tasks.finish(task, failed_inside(f"{task.server} ended the task without a result."))
            return
        if task.era is Era.MODERN:
            _ask_for(task, report.inputs)
            task.status = report.status
        elif report.status == "input_required" and task.questions == 0:
            self._fetch(task)  # its questions come while its result is awaited
        if before != (task.status, task.message, set(task.inputs)):
            task.touched()

    def _fetch(self, task: Task) -> None:
        """Ask a legacy server for the result. It answers when the task is over, and may ask meanwhile."""
        if task.fetching is None:
            task.fetching = self._loop.create_task(self._fetched(task))

    async def _fetched(self, task: Task) -> None:
        def ask(question: ServerRequest) -> bool:
            if task.over or len(task.inputs) >= 64:
                return False
            key = task.put(question)
            question.on_withdrawn = lambda reason: task.answered(key)
            return True

        try:
            params = {"taskId": Raw(json.quote(task.remote))}
            reply = await self._ask(task, b"tasks/result", params, None, ask)
        finally:
            task.fetching = None
        if reply.result is not None:
            self._tasks.finish(task, _within(task, Raw(unrelated(reply.result))))
        elif reply.error is not None:
            said = json.member(json.fields(reply.error), "message")
            self._tasks.finish(task, failed(reply.error, str(said)[:200]))
        else:
            log.info("%s: the result of a task is not known: %s", task.server, reply.failure)

    async def _ask(
        self,
        task: Task,
        method: bytes,
        params: Members,
        caller: Caller | None,
        on_question: Callable[[ServerRequest], bool] | None = None,
    ) -> UpstreamReply:
        answer: asyncio.Future[UpstreamReply] = self._loop.create_future()

        def settle(reply: UpstreamReply) -> None:
            if not answer.done():
                answer.set_result(reply)

        try:
            upstream = self._instance(task, caller)
        except TabaneError as error:
            return UpstreamReply(failure=error)
        call = Call(
            method,
            params,
            announcing_tasks({}, CLIENT),
            settle,
            timeout=LONGEST_RUN if on_question else upstream.server.timeout,
            on_question=on_question,
            session=task.session,
            holder=task.holder,
            safe=True,
        )
        if on_question is not None:
            return await _answer_to(upstream, call, answer)
        async with self._places.setdefault(task.server, asyncio.Semaphore(AT_ONCE)):
            return await _answer_to(upstream, call, answer)

    def _instance(self, task: Task, caller: Caller | None) -> Upstream:
        """Return the instance that works on a task, or may know it. Raises TabaneError."""
        if task.instance is not None and (task.instance.connection or not task.instance.closed):
            return task.instance  # one that was replaced goes on for its tasks
        if caller is None:
            found = self._gateway.instance(task.server)
        else:
            found = self._gateway.instance_for(caller, task.server)
        if task.instance is not None:
            task.instance.held -= 1
        task.instance = found
        found.held += 1
        return found

    # -- beginnings and ends ---------------------------------------------------------------------

    def _restored(self, task: Task) -> None:
        """Follow a task of an earlier run of the hub.

        A process that the hub starts ended with it, so only its client's next poll looks what became of it.
        """
        server = self._gateway.servers.get(task.server)
        if server is None:
            self._tasks.finish(task, failed_inside(f"The server {task.server} is no longer configured."))
        elif server.url:
            self._schedule(task)

    def _gone(self, task: Task) -> None:
        if task.remote:
            self.cancel_later(task)
        elif task.cancel is not None:
            task.cancel("the task took too long")


async def _answer_to(upstream: Upstream, call: Call, answer: asyncio.Future[UpstreamReply]) -> UpstreamReply:
    upstream.submit(call)
    try:
        return await answer
    except asyncio.CancelledError:
        upstream.cancel(call, "nobody waits for it any more")
        raise


def _interval(task: Task) -> float:
    """Return the seconds until the next poll."""
    poll = task.poll / 1000
    if task.waiting or task.listeners:
        return poll
    return max(poll, min(RARELY, max(SELDOM, (time.time() - task.created) / 10)))


def _ask_for(task: Task, inputs: Members) -> None:
    """Note the questions that a server's task has now."""
    for key in [key for key, asked in task.inputs.items() if asked.question is None and key not in inputs]:
        del task.inputs[key]
    for key, request in inputs.items():
        if key not in task.inputs:
            task.inputs[key] = TaskInput(request)


def _within(task: Task, result: Raw) -> TaskEnd:
    """Return the end with a result, unless it is larger than its caller may have."""
    most = task.opened.most
    if most and len(result) > most:
        return failed_inside(
            f"The result has {len(result) >> 10} KiB; the limit of this caller is {most >> 10} KiB."
        )
    return completed(result)


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
        call.reader = None
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
            wanted = input_required_of(result)
        except InvalidQuestion:
            wanted = InputRequired({}, None)
        if adopted.rounds > MOST_ROUNDS or not 0 < len(wanted.questions) <= MOST_INPUTS:
            self._tasks.finish(adopted.task, failed_inside("The server asks for input in an invalid way."))
            return
        left, answers = set(wanted.questions), dict[str, bytes]()

        def answered(key: str, _: ServerRequest, reply: UpstreamReply) -> None:
            left.discard(key)
            if reply.result is not None:
                answers[key] = bytes(reply.result)
            if not left and not adopted.task.over:
                self._call_again(adopted, with_responses(adopted.call.params, answers, wanted.state))

        for key, question in wanted.questions.items():
            adopted.task.put(ServerRequest(question.method, Raw(question.params), partial(answered, key)))

    def _call_again(self, adopted: _AdoptedCall, params: Members) -> None:
        before = adopted.call
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
