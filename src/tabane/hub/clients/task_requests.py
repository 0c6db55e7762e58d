"""Requests for tasks: tasks/get, tasks/update and tasks/cancel; tasks/result and tasks/list of 2025-11-25."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from tabane.catalog.long_results import LongResults
from tabane.catalog.result_parts import SHORT
from tabane.hub.clients.session import Handler, Session
from tabane.hub.clients.task_calls import TaskParts, ask_client
from tabane.hub.clients.tool_calls import shown
from tabane.hub.work.tasks import Task
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import has_too_many_members
from tabane.wire.tasks import check_announced, legacy_members, modern_members, related
from tabane.workers.eager_start import own_task

PAGE = 200
"""Tasks of one page of a list."""


class TaskRequests:
    """Answers requests for tasks of every session."""

    def __init__(self, parts: TaskParts, long_results: LongResults) -> None:
        self._parts, self._tasks, self._long_results = parts, parts.tasks, long_results

    def modern(self) -> dict[str, Handler]:
        """Return the handlers for clients of 2026-07-28."""
        return {
            "tasks/get": self._get_modern,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel_modern,
        }

    def legacy(self) -> dict[str, Handler]:
        """Return the handlers for clients of 2025-11-25."""
        return {
            "tasks/get": self._get_legacy,
            "tasks/result": self._result_legacy,
            "tasks/list": self._list_legacy,
            "tasks/cancel": self._cancel_legacy,
        }

    # -- modern ------------------------------------------------------------------------------------

    async def _get_modern(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        task = await self._find_announced_task(session, params, meta, "tasks/get")
        await self._parts.follower.refresh(task, session.caller)
        session.answer(request_id, json.join(await self.detailed(session, task)))

    async def _update(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        task = await self._find_announced_task(session, params, meta, "tasks/update")
        given = params.get("inputResponses", Raw(b""))
        if has_too_many_members(given):
            raise ProtocolRefusal(eras.INVALID_PARAMS, "inputResponses: they have too many members")
        try:
            responses = json.fields(given)
        except InvalidJson:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "inputResponses: an object is required") from None
        await self._parts.follower.update(task, responses, session.caller)
        session.answer(request_id, b"{}")

    async def _cancel_modern(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        task = await self._find_announced_task(session, params, meta, "tasks/cancel")
        await self._parts.follower.cancel(task, now=False, caller=session.caller)
        session.answer(request_id, b"{}")

    async def listen(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer subscriptions/listen, which may name tasks. Unknown ones are not granted."""
        from tabane.hub.clients.task_listening import TaskListening, listened_tasks

        names = listened_tasks(params, meta, self._parts)
        await self._tasks.ready()
        tasks = [task for name in names if (task := self._find_known_task(session, name)) is not None]
        key = bytes(request_id)
        listening = TaskListening(session, key, tasks, self._parts, self.detailed) if tasks else None
        session.subscriptions.listen(key, params, listening)

    def _find_known_task(self, session: Session, name: str) -> Task | None:
        try:
            return self._tasks.find(session.caller, name)
        except ProtocolRefusal:
            return None

    async def _find_announced_task(
        self, session: Session, params: Members, meta: Members, method: str
    ) -> Task:
        """Return the task of a request. Raises ProtocolRefusal."""
        self._check_on(method)
        check_announced(meta)
        return await self._find_task(session, params)

    async def detailed(self, session: Session, task: Task) -> Members:
        """Return a task with its questions, its result or its error, for a modern client."""
        body = await self._body(session, task)
        members = modern_members(task.facts)
        if task.status == "input_required":
            asked = {key: one.request for key, one in task.inputs.items()}
            members["inputRequests"] = Raw(json.join(asked))
        elif body is not None and task.body == "result":
            members["result"] = Raw(eras.completed(body))
        elif body is not None:
            members["error"] = body
        return members

    # -- legacy ------------------------------------------------------------------------------------

    async def _get_legacy(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        self._check_version(session, "tasks/get")
        task = await self._find_task(session, params)
        await self._parts.follower.refresh(task, session.caller)
        session.answer(request_id, json.join(legacy_members(task.facts)))

    async def _result_legacy(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer with the result of a task, when it has one. Meanwhile, its questions are put."""
        self._check_version(session, "tasks/result")
        task = await self._find_task(session, params)
        task.waiting += 1
        try:
            self._parts.follower.hurry(task)
            while not task.over:
                pulse = task.pulse
                ask_client(session, bytes(request_id), task, self._parts)
                await task.changed(pulse)
        finally:
            task.waiting -= 1
        body = await self._body(session, task)
        if body is not None and task.body == "result":
            session.answer(request_id, related(body, task.id))
            return
        error = body or Raw(json.error_object(eras.INTERNAL_ERROR, task.message or "The task was cancelled."))
        session.give(request_id, json.error_line(request_id, error), ok=False)

    async def _list_legacy(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        self._check_version(session, "tasks/list")
        await self._tasks.ready()
        cursor = json.member(params, "cursor")
        after = "" if cursor is None else cursors.key_of_cursor(str(cursor), "tasks")
        # By age, then by id.
        items = [(f"{task.created:017.6f} {task.id}", task) for task in self._tasks.of(session.caller)]
        rest = sorted((item for item in items if item[0] > after), key=lambda item: item[0])
        shown = [Raw(json.join(legacy_members(task.facts))) for _, task in rest[:PAGE]]
        members: Members = {"tasks": Raw(json.encode(shown))}
        if len(rest) > PAGE:
            members["nextCursor"] = Raw(json.quote(cursors.list_cursor("tasks", rest[PAGE - 1][0])))
        session.answer(request_id, json.join(members))

    async def _cancel_legacy(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        self._check_version(session, "tasks/cancel")
        task = await self._find_task(session, params)
        if task.over:
            raise ProtocolRefusal(eras.INVALID_PARAMS, f"the task is already over: {task.status}")
        await self._parts.follower.cancel(task, now=True, caller=session.caller)
        session.answer(request_id, json.join(legacy_members(task.facts)))

    # -- both --------------------------------------------------------------------------------------

    async def _find_task(self, session: Session, params: Members) -> Task:
        await own_task()
        await self._tasks.ready()
        return self._tasks.find(session.caller, json.text(params.get("taskId")))

    async def _body(self, session: Session, task: Task) -> Raw | None:
        """Return the result of a task that is over; of call_tool, in parts if it is long."""
        if not task.over:
            return None
        body = await self._tasks.body(task)
        if body is None or task.body != "result":
            return body
        body = await asyncio.to_thread(shown, session, task.server, body)
        if not task.through or len(body) <= SHORT:
            return body
        tokens = self._parts.settings().result_tokens
        origins = (task.target,)
        return await self._long_results.first_part_of_large(session.caller, body, tokens, origins)

    def _check_on(self, method: str) -> None:
        if not self._parts.on:
            raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")

    def _check_version(self, session: Session, method: str) -> None:
        if session.version != eras.LEGACY[0]:
            raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")
        self._check_on(method)
