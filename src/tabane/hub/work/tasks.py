"""Tasks of a hub: begun, found by their owners, ended, kept on disk, and removed when they expire.

``tasks.db`` in the home has what tasks are, and the results of those that are over. One thread reads and
writes it. Results may contain secrets, so the file is readable by its owner alone. A file that is damaged is
replaced: tasks last for hours at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tabane.catalog.tools.tool import says_failed
from tabane.errors import HubError, StoreError, TabaneError
from tabane.hub.context import HubContext
from tabane.messages import say
from tabane.operations import UNMETERED, Caller, CallTarget, OpenCall, Outcome
from tabane.wire import era as eras
from tabane.wire import json, rpc
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.tasks import OVER, Status, TaskFacts
from tabane.workers.database_thread import DatabaseThread

if TYPE_CHECKING:
    from tabane.upstreams.call import ServerRequest
    from tabane.upstreams.upstream import Upstream

log = logging.getLogger(__name__)


POLL = 1000
"""Milliseconds between two polls that clients are asked to keep, if a server does not say."""

LEAST_POLL, LONGEST_POLL = 100, 60_000
"""Limits of what a server says about that."""


class KeptTask(msgspec.Struct, frozen=True):
    """The part of a task that is on disk, apart from its result. Times are Unix seconds.

    ``remote`` is the id that the task has at its server, empty if the call runs in the hub. ``era`` is that
    of the server. ``body`` says what the result is: ``result``, ``error`` or empty.
    """

    id: str
    holder: str
    tool: str
    server: str
    client: str
    created: float
    updated: float
    status: Status
    message: str = ""
    ttl: int | None = None
    poll: int = POLL
    remote: str = ""
    era: str = "modern"
    through: bool = False
    says_failed: bool = False
    body: str = ""
    size: int = 0


class TaskInput(Struct):
    """A question of a task to its client: the request, and who gets the answer if the hub runs the call.

    ``asked`` is set while a legacy client is being asked.
    """

    request: Raw
    question: ServerRequest | None = None
    asked: bool = False


class Task:
    """One task: its state now, and what belongs to it while the hub runs.

    ``holder`` is the identity that it belongs to. ``session`` is the client's connection that began it.
    ``opened`` is the call for limits and records, which ends with the task. ``instance`` runs it. Each of
    ``listeners`` is called after each change. ``cancel`` stops a call that runs in the hub. ``remote``: see
    :class:`KeptTask`. ``through``: it was called by call_tool.
    """

    __slots__ = (
        "_changed",
        "body",
        "cancel",
        "client",
        "created",
        "ending",
        "era",
        "failures",
        "fetching",
        "holder",
        "id",
        "inputs",
        "instance",
        "listeners",
        "message",
        "opened",
        "poll",
        "polling",
        "pulse",
        "questions",
        "remote",
        "says_failed",
        "server",
        "session",
        "size",
        "status",
        "target",
        "through",
        "timer",
        "ttl",
        "unkept",
        "updated",
        "waiting",
    )  # fmt: skip

    def __init__(self, name: str, holder: str, target: CallTarget) -> None:
        self.id, self.holder, self.target, self.server = name, holder, target, target.server
        self.client = self.session = self.message = self.remote = self.body = ""
        self.created = self.updated = time.time()
        self.status: Status = "working"
        self.ttl: int | None = None
        self.poll = POLL
        self.era = Era.MODERN
        self.through = self.says_failed = False
        self.size = self.questions = self.failures = self.pulse = self.waiting = 0
        self.inputs: dict[str, TaskInput] = {}
        self.opened: OpenCall = UNMETERED
        self.instance: Upstream | None = None
        self.cancel: Callable[[str], None] | None = None
        self.listeners: list[Callable[[Task], None]] = []
        self.timer: asyncio.TimerHandle | None = None
        self.polling: asyncio.Task[None] | None = None
        self.fetching: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None
        self.unkept: Raw | None = None
        self._changed: asyncio.Event | None = None

    @property
    def over(self) -> bool:
        """Whether the task has ended."""
        return self.status in OVER

    @property
    def until(self) -> float | None:
        """Return the Unix time at which it expires; None if it does not."""
        return None if self.ttl is None else self.created + self.ttl / 1000

    @property
    def facts(self) -> TaskFacts:
        """The facts that a client is told of the task."""
        return TaskFacts(
            self.id, self.status, self.message, self.created, self.updated, self.ttl, self.poll,
            self.says_failed,
        )  # fmt: skip

    @property
    def kept(self) -> KeptTask:
        """The part that is written to the disk."""
        return KeptTask(
            self.id, self.holder, self.target.name, self.server, self.client, self.created, self.updated,
            self.status, self.message, self.ttl, self.poll, self.remote, self.era.value, self.through,
            self.says_failed, self.body, self.size,
        )  # fmt: skip

    @property
    def row(self) -> dict[str, Any]:
        """Return what its owner is shown of it."""
        row: dict[str, Any] = {
            "task": self.id,
            "tool": self.target.name,
            "server": self.server,
            "status": "failed" if self.says_failed else self.status,
            "message": self.message,
            "holder": self.holder,
            "client": self.client,
            "created": self.created,
            "updated": self.updated,
            "expires": self.until,
            "bytes": self.size,
        }
        if self.inputs:
            row["asks"] = [json.text(_method(one.request)) or "" for one in self.inputs.values()]
        return row

    def touched(self) -> None:
        """Tell everybody who waits for the task or listens to it that it has changed."""
        self.updated = max(time.time(), self.created)
        self.pulse += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        for listener in list(self.listeners):
            listener(self)

    async def changed(self, pulse: int) -> None:
        """Wait until it is not as it was when ``pulse`` was read."""
        while self.pulse == pulse:
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()

    def put(self, question: ServerRequest) -> str:
        """Take a question for its client. Return its key, which no other question of the task has."""
        self.questions += 1
        key = f"question-{self.questions}"
        request = {"method": Raw(json.quote(question.method)), "params": question.params}
        self.inputs[key] = TaskInput(Raw(json.join(request)), question)
        self.status = "input_required"
        self.touched()
        return key

    def answered(self, key: str) -> None:
        """Note that a question is no longer open."""
        if self.inputs.pop(key, None) is not None and not self.inputs and self.status == "input_required":
            self.status = "working"
            self.touched()


def _method(request: Raw) -> Raw | None:
    try:
        return json.fields(request).get("method")
    except json.InvalidJson:
        return None


def restored(kept: KeptTask, target: CallTarget) -> Task:
    """Return a task as it was kept."""
    task = Task(kept.id, kept.holder, target)
    task.client, task.message, task.remote, task.body = kept.client, kept.message, kept.remote, kept.body
    task.created, task.updated, task.status = kept.created, kept.updated, kept.status
    task.ttl, task.poll, task.era = kept.ttl, kept.poll, Era(kept.era)
    task.through, task.says_failed, task.size = kept.through, kept.says_failed, kept.size
    return task


FILE = "tasks.db"
VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS task(id TEXT PRIMARY KEY, kept BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS body(id TEXT PRIMARY KEY, json BLOB NOT NULL);
"""

_Found = TypeVar("_Found")


class TaskFile:
    """Keeps tasks. It is created with the first task, so that a hub without tasks has none."""

    def __init__(self, folder: Path) -> None:
        self._thread = DatabaseThread(folder / FILE, _SCHEMA, VERSION, "tasks")

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._thread.path.exists()

    async def load(self) -> list[KeptTask]:
        """Return all tasks of the file. Raises StoreError."""
        return await self._thread.run(self._load)

    async def keep(self, task: KeptTask, body: bytes | None = None) -> None:
        """Write a task, with its result if it has one. Raises StoreError."""
        await self._thread.run(self._keep, task, body)

    async def body(self, name: str) -> bytes | None:
        """Return the result of a task; None if there is none. Raises StoreError."""
        return await self._thread.run(self._body, name)

    async def drop(self, names: Iterable[str]) -> None:
        """Remove tasks. Raises StoreError."""
        await self._thread.run(self._drop, [(name,) for name in names])

    async def close(self) -> None:
        """Finish what is being written, and close the file."""
        await self._thread.close()

    # -- in the thread ---------------------------------------------------------------------------

    def _load(self) -> list[KeptTask]:
        rows = self._thread.database().execute("SELECT kept FROM task").fetchall()
        found = []
        for (kept,) in rows:
            with contextlib.suppress(msgspec.MsgspecError):
                found.append(msgspec.msgpack.decode(kept, type=KeptTask))
        return found

    def _keep(self, task: KeptTask, body: bytes | None) -> None:
        database = self._thread.database()
        with database:
            database.execute(
                "INSERT OR REPLACE INTO task VALUES(?, ?)", (task.id, msgspec.msgpack.encode(task))
            )
            if body is not None:
                database.execute("INSERT OR REPLACE INTO body VALUES(?, ?)", (task.id, body))

    def _body(self, name: str) -> bytes | None:
        row = self._thread.database().execute("SELECT json FROM body WHERE id = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def _drop(self, rows: list[tuple[str]]) -> None:
        database = self._thread.database()
        with database:
            database.executemany("DELETE FROM task WHERE id = ?", rows)
            database.executemany("DELETE FROM body WHERE id = ?", rows)
        database.execute("PRAGMA incremental_vacuum")


MOST, MOST_OF_HOLDER = 20_000, 10_000
"""Tasks of a hub and of one identity, those that are over included. The oldest of these make room."""

LONGEST_RUN = 7 * 86_400.0
"""Seconds after which a task that its server keeps forever is given up."""

LATE = 300.0
"""Seconds for which a task that did not end in time is still shown as failed."""

SWEEP = 5.0
"""Seconds between two searches for tasks that have expired."""

UNKNOWN = "Task not found. It belongs to another client, has expired, or was never created."


class TaskEnd(Struct, frozen=True):
    """How a task ended. ``kind`` says what ``body`` is: ``result``, ``error`` or empty."""

    status: Status
    kind: str = ""
    body: Raw | None = None
    message: str = ""
    outcome: Outcome = "ok"
    reason: str = ""


def completed(result: Raw) -> TaskEnd:
    """Return the end of a task with the result of a tool, which may say that the tool failed."""
    failed = says_failed(result)
    return TaskEnd("completed", "result", result, outcome="failed" if failed else "ok")


def failed(error: Raw, reason: str) -> TaskEnd:
    """Return the end of a task with a JSON-RPC error."""
    return TaskEnd("failed", "error", error, message=reason, outcome="failed", reason=reason)


def failed_inside(reason: str) -> TaskEnd:
    """Return the end of a task with an error of the hub."""
    return failed(Raw(json.error_object(eras.INTERNAL_ERROR, reason)), reason)


CANCELLED = TaskEnd("cancelled", message="The task was cancelled.", outcome="cancelled")

LOST = failed_inside(
    "The hub was restarted while the call ran. It is not known whether the call took effect: check before "
    "you call again."
)


class HubTasks:
    """The tasks of all clients.

    ``target`` returns a tool by its name and server, as what a caller wants to call. A task belongs to an
    identity, and another one cannot tell it from one that never was.
    """

    def __init__(self, context: HubContext, target: Callable[[str, str], CallTarget]) -> None:
        self._context, self._loop, self._target = context, context.loop, target
        self._file = TaskFile(context.home)
        self._tasks: dict[str, Task] = {}
        self._holders: dict[str, int] = {}
        self._bytes = 0
        self._loading: asyncio.Task[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._dropping: set[asyncio.Task[None]] = set()
        self.closed = False
        self.prefix = ""
        """Comes before the secret part of each id. In a group of hubs, it names the hub."""
        self.on_restored: Callable[[Task], None] = lambda task: None
        """Called with each task that a server may still work on after a restart of the hub."""
        self.on_gone: Callable[[Task], None] = lambda task: None
        """Called with each task that is given up before it is over."""

    def open(self) -> None:
        """Begin to read the tasks of earlier runs, if there are any."""
        if self._file.exists:
            self._loading = self._loop.create_task(self._load())

    async def close(self) -> None:
        """Stop. Tasks that run in the hub are lost; those of servers are followed by the next hub."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.let_go()
        waiting = [each.ending for each in self._tasks.values() if each.ending is not None]
        waiting += [*self._dropping, *([self._loading] if self._loading is not None else [])]
        if waiting:
            await asyncio.wait(waiting, timeout=5.0)
        await self._file.close()

    def let_go(self) -> None:
        """Stop following tasks, so that their instances can end."""
        self.closed = True
        for task in self._tasks.values():
            for work in (task.polling, task.fetching):
                if work is not None:
                    work.cancel()
            self._release(task)

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._tasks.values()))

    @property
    def running(self) -> int:
        """Return how many calls run in the hub as tasks."""
        return sum(1 for task in self._tasks.values() if not task.over and not task.remote)

    async def ready(self) -> None:
        """Wait until the tasks of earlier runs are known."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    # -- begun and found -------------------------------------------------------------------------

    def begin(self, caller: Caller, target: CallTarget) -> Task:
        """Return a new task of the caller. Raises HubError if there are too many that are not over."""
        holder = caller.access.holder
        if self._holders.get(holder, 0) >= MOST_OF_HOLDER:
            self._make_room(holder, MOST_OF_HOLDER)
        if len(self._tasks) >= MOST:
            self._make_room(None, MOST)
        task = Task(f"task-{self.prefix}{secrets.token_urlsafe(24)}", holder, target)
        task.client, task.session = caller.client, caller.session
        self._put(task)
        return task

    async def keep(self, task: Task) -> None:
        """Write a task to disk, so that it is found again after a restart. Raises StoreError."""
        await self._file.keep(task.kept)

    def find(self, caller: Caller, name: str | None) -> Task:
        """Return a task of the caller. Raises ProtocolRefusal."""
        task = self._tasks.get(name or "")
        if task is None or task.holder != caller.access.holder or not caller.access.allows(task.target):
            raise ProtocolRefusal(eras.INVALID_PARAMS, UNKNOWN)
        return task

    def of(self, caller: Caller) -> list[Task]:
        """Return the tasks of the caller's identity, the oldest first."""
        allows = caller.access.allows
        holder = caller.access.holder
        return [each for each in self._tasks.values() if each.holder == holder and allows(each.target)]

    def forget(self, task: Task) -> None:
        """Remove a task that could not be begun."""
        self._remove([task])

    # -- the end ---------------------------------------------------------------------------------

    def finish(self, task: Task, end: TaskEnd) -> None:
        """End a task: only the first end counts. It shows once it is recorded and on disk."""
        if not task.over and task.ending is None and not self.closed:
            task.ending = self._loop.create_task(self._finish(task, end))

    async def ended(self, task: Task) -> None:
        """Wait until an end that was begun shows."""
        if task.ending is not None:
            await asyncio.shield(task.ending)

    async def body(self, task: Task) -> Raw | None:
        """Return the result or error of a task that is over; None if it has none. Raises StoreError."""
        if task.unkept is not None:
            return task.unkept
        found = await self._file.body(task.id) if task.body else None
        return None if found is None else Raw(found)

    async def _finish(self, task: Task, end: TaskEnd) -> None:
        size = 0 if end.body is None else len(end.body)
        if size > self._most_bytes // 4:
            end = failed_inside(f"The result has {size >> 20} MiB, which is too large to be kept for a task.")
            size = len(end.body or b"")
        try:
            recorded = task.opened.end(end.outcome, size, reason=end.reason)
            if recorded is not None:
                await recorded
        except TabaneError as error:  # it cannot be recorded, and so not given
            end = failed(Raw(rpc.error_of(error, "en")), str(error))
        task.status, task.body, task.unkept = end.status, end.kind, end.body
        task.message = end.message or task.message
        task.says_failed = end.kind == "result" and end.outcome == "failed"
        task.size = 0 if end.body is None else len(end.body)
        self._bytes += task.size
        task.inputs.clear()
        task.cancel = None
        elapsed = time.time() - task.created
        task.ttl = max(task.ttl or 0, int((elapsed + self._context.settings.task_ttl) * 1000))
        self._release(task)
        self._make_room_for(task)
        try:
            await self._file.keep(task.kept, None if end.body is None else bytes(end.body))
            task.unkept = None
        except StoreError as error:
            log.error("the result of a task is not on disk: %s", error)
        task.touched()

    def _release(self, task: Task) -> None:
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        if task.instance is not None:
            task.instance.held -= 1
            task.instance = None

    # -- room ------------------------------------------------------------------------------------

    @property
    def _most_bytes(self) -> int:
        return self._context.settings.task_results

    def _put(self, task: Task) -> None:
        self._tasks[task.id] = task
        self._holders[task.holder] = self._holders.get(task.holder, 0) + 1
        self._bytes += task.size
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP, self._sweep)

    def _remove(self, tasks: Iterable[Task]) -> None:
        names = []
        for task in tasks:
            if self._tasks.pop(task.id, None) is None:
                continue
            names.append(task.id)
            self._bytes -= task.size
            self._release(task)
            left = self._holders[task.holder] - 1
            self._holders[task.holder] = left
            if not left:
                del self._holders[task.holder]
        if names and not self.closed:
            dropping = self._loop.create_task(self._drop(names))
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropping.discard)

    async def _drop(self, names: list[str]) -> None:
        try:
            await self._file.drop(names)
        except StoreError as error:
            log.warning("tasks that are gone are still on disk: %s", error)

    def _make_room(self, holder: str | None, most: int) -> None:
        """Remove the oldest task that is over, of that holder or of any. Raises HubError."""
        for task in self._tasks.values():
            if task.over and (holder is None or task.holder == holder):
                self._remove([task])
                return
        raise HubError(say(
            "{count} {count:task is|tasks are} running, which is the limit. Wait for one, or cancel one: "
            "tabane tasks cancel ID", count=most))  # fmt: skip

    def _make_room_for(self, new: Task) -> None:
        """Remove the oldest results until all fit the limit."""
        if self._bytes <= self._most_bytes:
            return
        gone: list[Task] = []
        left = self._bytes - self._most_bytes
        for task in self._tasks.values():
            if left <= 0:
                break
            if task.over and task.size and task is not new:
                gone.append(task)
                left -= task.size
        self._remove(gone)

    def _sweep(self) -> None:
        self._sweeping = self._loop.call_later(SWEEP, self._sweep) if self._tasks else None
        now = time.time()
        gone = []
        for task in list(self._tasks.values()):
            until = task.until
            if until is None:
                until = task.created + LONGEST_RUN
            if until > now:
                continue
            if task.over:
                gone.append(task)
            else:
                self.on_gone(task)
                task.ttl = int((time.time() - task.created + LATE) * 1000)
                self.finish(task, failed_inside("The task did not end within its time to live."))
        self._remove(gone)

    # -- a restart -------------------------------------------------------------------------------

    async def _load(self) -> None:
        try:
            found = await self._file.load()
        except StoreError as error:
            log.error("the tasks of earlier runs are lost: %s", error)
            return
        for kept in sorted(found, key=lambda each: each.created):
            task = restored(kept, self._target(kept.tool, kept.server))
            self._put(task)
            if task.status in OVER:
                continue
            if task.remote:
                self.on_restored(task)
            else:
                self.finish(task, LOST)
