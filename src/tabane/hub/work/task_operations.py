"""The operations list_tasks, show_task and cancel_task: for the owner of a task, and for administration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tabane.errors import UnknownName
from tabane.hub.work.task_following import TaskFollower
from tabane.hub.work.tasks import HubTasks, Task
from tabane.messages import say
from tabane.operations import Caller, Operation, Privilege

MOST_LISTED = 1000

TaskId = Annotated[str, Meta(min_length=1, max_length=100)]


class ListTasks(Struct, frozen=True, forbid_unknown_fields=True):
    """``state`` restricts the list: ``running`` or ``over``."""

    state: Literal["all", "running", "over"] = "all"
    server: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class NamedTask(Struct, frozen=True, forbid_unknown_fields=True):
    task: TaskId


class TaskOperations:
    """Lists, shows and cancels tasks. Who may do everything sees the tasks of all identities."""

    def __init__(self, tasks: HubTasks, follower: TaskFollower) -> None:
        self._tasks, self._follower = tasks, follower

    def table(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "list_tasks", "Tasks: calls that go on in the background, the latest first.",
                ListTasks, self.list_tasks, source="hub", privilege=Privilege.READ,
            ),
            Operation(
                "show_task", "The state of a task, and its result if it is over.",
                NamedTask, self.show_task, source="hub", privilege=Privilege.READ,
            ),
            Operation(
                "cancel_task", "Cancel a task.",
                NamedTask, self.cancel_task, privilege=Privilege.CALL, source="hub",
            ),
        ]  # fmt: skip

    async def list_tasks(self, caller: Caller, params: ListTasks) -> dict[str, Any]:
        """Return the tasks that the caller may see, the latest first."""
        await self._tasks.ready()
        found = [task for task in self._tasks if self._may_see(caller, task) and _fits(task, params)]
        found.sort(key=lambda task: task.created, reverse=True)
        return {"results": [task.row for task in found[: params.limit]], "total": len(found)}

    async def show_task(self, caller: Caller, params: NamedTask) -> dict[str, Any]:
        """Return a task, and its result if it is over. Raises UnknownName."""
        task = await self._found(caller, params)
        await self._follower.refresh(task)
        body = await self._tasks.body(task)
        return task.row | ({task.body: body} if body is not None else {})

    async def cancel_task(self, caller: Caller, params: NamedTask) -> dict[str, Any]:
        """Cancel a task, and return it. Raises UnknownName."""
        task = await self._found(caller, params)
        await self._follower.cancel(task, now=True)
        return task.row

    async def _found(self, caller: Caller, params: NamedTask) -> Task:
        await self._tasks.ready()
        found = [task for task in self._tasks if self._may_see(caller, task)]
        exact = [task for task in found if task.id == params.task]
        matching = exact or [task for task in found if task.id.startswith(params.task)]
        if len(matching) != 1:
            raise UnknownName(say("There is no task {task}. List all tasks with: tabane tasks list",
                                  task=params.task))  # fmt: skip
        return matching[0]

    def _may_see(self, caller: Caller, task: Task) -> bool:
        if caller.access.everything:
            return True
        return task.holder == caller.access.holder and caller.access.allows(task.target)


def _fits(task: Task, params: ListTasks) -> bool:
    if params.server is not None and task.server != params.server:
        return False
    return params.state == "all" or (params.state == "over") == task.over
