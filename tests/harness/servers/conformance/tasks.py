"""Tasks (SEP-2663) of the conforming server: its long tools, and the requests about their tasks.

Clients of the handshake era, and those that do not declare the extension, wait for the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    RequestParams,
    TextContent,
    Tool,
)

from tests.harness.servers.conformance.calls import Call, Question, form, missing

Json = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
NEEDED = ClientCapabilities(extensions={EXTENSION: {}})
TTL_MS, POLL_MS = 60_000, 200
OVER = ("completed", "failed", "cancelled")


class TaskIdParams(RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    task_id: str


class UpdateParams(TaskIdParams):
    """Parameters of tasks/update."""

    input_responses: dict[str, Any]


@dataclass(eq=False, slots=True)
class LongWork:
    """One task. ``waiting`` are the questions that the client has not answered yet."""

    id: str = field(default_factory=lambda: uuid4().hex)
    status: str = "working"
    created: str = field(default_factory=lambda: now())
    updated: str = field(default_factory=lambda: now())
    outcome: Json = field(default_factory=dict)
    waiting: dict[str, Question] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Task[None] | None = None

    def become(self, status: str, **outcome: Any) -> None:
        """Change the status, unless the task is over."""
        if self.status not in OVER:
            self.status, self.outcome, self.updated = status, outcome, now()

    async def ask(self, **questions: Question) -> dict[str, Any]:
        """Return the answers to questions, which the client finds when it polls."""
        self.waiting, self.answers = dict(questions), {}
        self.answered.clear()
        self.become("input_required")
        await self.answered.wait()
        self.become("working")
        return self.answers

    def answer(self, given: Mapping[str, Any]) -> None:
        for name in [name for name in self.waiting if name in given]:
            del self.waiting[name]
            self.answers[name] = given[name]
        if not self.waiting:
            self.answered.set()

    def shown(self) -> Json:
        """Return the task as a client gets it."""
        asked = {
            name: question.model_dump(by_alias=True, mode="json", exclude_none=True)
            for name, question in self.waiting.items()
        }
        return {
            "taskId": self.id, "status": self.status, "createdAt": self.created, "ttlMs": TTL_MS,
            "lastUpdatedAt": self.updated, "pollIntervalMs": POLL_MS,
            **self.outcome, **({"inputRequests": asked} if asked and self.status == "input_required" else {}),
        }  # fmt: skip


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


Work = Callable[[Call, LongWork], Awaitable[CallToolResult]]


def said(words: str, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=words)], is_error=failed)


async def slow_compute(call: Call, task: LongWork) -> CallToolResult:
    await asyncio.sleep(float(call.arguments.get("seconds", 1)))
    return said("computed")


async def failing_job(call: Call, task: LongWork) -> CallToolResult:
    await asyncio.sleep(1)
    return said("the job failed", failed=True)


async def protocol_error_job(call: Call, task: LongWork) -> CallToolResult:
    raise MCPError(code=INTERNAL_ERROR, message="the job broke")


async def confirm_delete(call: Call, task: LongWork) -> CallToolResult:
    answers = await task.ask(confirm=confirmation("Delete it?"))
    return said(f"answered: {answers['confirm']}")


async def multi_input(call: Call, task: LongWork) -> CallToolResult:
    answers = await task.ask(first=confirmation("The first?"), second=confirmation("The second?"))
    return said(f"answered: {sorted(answers)}")


async def greeted(call: Call, task: LongWork) -> CallToolResult:
    answers = call.input.input_responses or {}
    content = getattr(answers.get("user_name"), "content", None) or {}
    return said(f"Hello, {content.get('name', '')}!")


def confirmation(message: str) -> ElicitRequest:
    return form(message, {"confirm": {"type": "boolean"}}, "confirm")


WORKS: dict[str, Work] = {
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
    "test_tool_with_task": greeted,
}
REQUIRED = frozenset({"failing_job", "confirm_delete", "multi_input", "test_tool_with_task"})
"""Tools that cannot be called without the extension."""

_SCHEMAS: dict[str, Json] = {
    "greet": {"name": {"type": "string"}},
    "slow_compute": {"seconds": {"type": "number"}, "label": {"type": "string"}},
}


class TaskBoard:
    """The tasks of a server. Of the oldest, those that are over are forgotten."""

    def __init__(self) -> None:
        self._tasks: dict[str, LongWork] = {}

    def tools(self) -> list[Tool]:
        return [
            Tool(
                name=name,
                description=f"Does {name}",
                input_schema={"type": "object", "properties": _SCHEMAS.get(name, {})},
            )
            for name in ("greet", *WORKS)
        ]

    def register(self, server: Server[Any]) -> None:
        """Declare the extension, and serve its requests."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskIdParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskIdParams, self._cancel)

    async def call(self, name: str, call: Call) -> CallToolResult | Json | None:
        """Return the result of a tool of this module, or the task that has begun; None for another tool."""
        if name == "greet":
            return said(f"Hello, {call.arguments.get('name', '')}!")
        work = WORKS.get(name)
        if work is None:
            return None
        negotiated = call.modern and call.context.session.check_client_capability(NEEDED)
        if not negotiated and call.modern and name in REQUIRED:
            raise missing(NEEDED)
        if not negotiated:
            return await work(call, LongWork())
        if name == "test_tool_with_task":
            await call.ask({"user_name": form("Who?", {"name": {"type": "string"}}, "name")}, "asked")
        task = LongWork()
        self._tasks[task.id] = task
        task.running = asyncio.get_running_loop().create_task(self._run(work, call, task))
        return {"resultType": "task", **task.shown()}

    async def _run(self, work: Work, call: Call, task: LongWork) -> None:
        try:
            result = await work(call, task)
        except MCPError as error:
            task.become("failed", error={"code": error.code, "message": error.message})
        else:
            task.become("completed", result=result.model_dump(by_alias=True, mode="json", exclude_none=True))

    def _find(self, context: Any, params: TaskIdParams) -> LongWork:
        if not context.session.check_client_capability(NEEDED):
            raise missing(NEEDED)
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown task: {params.task_id}")
        return task

    async def _get(self, context: Any, params: TaskIdParams) -> Json:
        return {"resultType": "complete", **self._find(context, params).shown()}

    async def _update(self, context: Any, params: UpdateParams) -> Json:
        self._find(context, params).answer(params.input_responses)
        return {"resultType": "complete"}

    async def _cancel(self, context: Any, params: TaskIdParams) -> Json:
        task = self._find(context, params)
        task.become("cancelled")
        if task.running is not None:
            task.running.cancel()
        return {"resultType": "complete"}
