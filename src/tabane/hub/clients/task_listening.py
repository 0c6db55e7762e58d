"""Subscriptions of modern clients to the status of tasks: ``taskIds`` of subscriptions/listen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Raw

from tabane.hub.clients.calls import MOST_UNREAD
from tabane.hub.clients.session import Session
from tabane.hub.clients.subscriptions import MOST_URIS, ListenedTasks
from tabane.hub.clients.task_calls import TaskParts
from tabane.hub.work.tasks import Task
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.tasks import check_announced

Detailed = Callable[[Session, Task], Awaitable[Members]]
"""Returns a task as tasks/get does."""


class TaskListening(ListenedTasks):
    """The tasks of one subscription. ``granted`` are those whose changes will be told."""

    def __init__(
        self, session: Session, request_id: bytes, tasks: list[Task], parts: TaskParts, detailed: Detailed
    ):
        self._session, self._request_id, self._tasks = session, request_id, tasks
        self._parts, self._detailed = parts, detailed
        self._told: dict[str, tuple[str, str, frozenset[str]]] = {}
        self.granted = [task.id for task in tasks]

    def start(self) -> None:
        """Send changes from now on, and first the status and open questions of each task."""
        for task in self._tasks:
            self._told[task.id] = _state_of(task)
            task.listeners.append(self._changed)
            self._parts.follower.hurry(task)
            if task.over or task.inputs:
                self._parts.later(self._tell(task))
        self._session.closed.add_done_callback(lambda _: self.close())

    def close(self) -> None:
        for task in self._tasks:
            if self._changed in task.listeners:
                task.listeners.remove(self._changed)

    def _changed(self, task: Task) -> None:
        state = _state_of(task)
        if state == self._told.get(task.id) or (not task.over and self._session.unsent > MOST_UNREAD):
            return
        self._told[task.id] = state
        self._parts.later(self._tell(task))

    async def _tell(self, task: Task) -> None:
        if self._session.over:
            return
        members = await self._detailed(self._session, task)
        about = json.join({eras.META_SUBSCRIPTION: Raw(self._request_id)})
        line = json.notification_line("notifications/tasks", json.join({**members, "_meta": Raw(about)}))
        self._session.tell(line, self._request_id)


def listened_tasks(params: Members, meta: Members, parts: TaskParts) -> list[str]:
    """Return the ids of tasks in a subscription. Raises ProtocolRefusal if the client cannot have tasks."""
    try:
        wanted = json.fields(params["notifications"])
    except (InvalidJson, KeyError):
        return []
    if "taskIds" not in wanted or not parts.on:
        return []
    check_announced(meta)
    value = json.member(wanted, "taskIds")
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ProtocolRefusal(eras.INVALID_PARAMS, "taskIds: a list of task ids is required")
    if len(value) > MOST_URIS:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"taskIds: {MOST_URIS} ids at most")
    return list(dict.fromkeys(value))


def _state_of(task: Task) -> tuple[str, str, frozenset[str]]:
    return task.status, task.message, frozenset(task.inputs)
