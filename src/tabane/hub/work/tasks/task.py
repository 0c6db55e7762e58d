"""A task of a client, and the values that are kept of it on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from tabane.operations import UNMETERED, CallTarget, OpenCall
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.tasks import OVER, Status, TaskFacts

if TYPE_CHECKING:
    from tabane.upstreams.call import ServerRequest
    from tabane.upstreams.upstream import Upstream

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
        return self.status in OVER

    @property
    def until(self) -> float | None:
        """Return the Unix time at which it expires; None if it does not."""
        return None if self.ttl is None else self.created + self.ttl / 1000

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(
            self.id, self.status, self.message, self.created, self.updated, self.ttl, self.poll,
            self.says_failed,
        )  # fmt: skip

    @property
    def kept(self) -> KeptTask:
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
