"""An MCP server on the official SDK with the extension Tasks, whose calls leave marks in a file.

    python -m tests.harness.servers.tasks stdio|http [FILE] [PORT]

It has the fixtures that the conformance suite looks for. Over HTTP, its URL is the first line of the output,
and its tasks are kept in FILE, so that they outlive the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, RequestParams
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

TASKS = "io.modelcontextprotocol/tasks"
MISSING = -32021
Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]


class NamedTask(RequestParams):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    task_id: str


class AnsweredTask(NamedTask):
    input_responses: dict[str, Any]


def question(text: str, field: str = "confirm", kind: str = "boolean") -> Json:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    params = {"mode": "form", "message": text, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def content(text: str, *, failed: bool = False) -> Json:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": failed}


class ServedTask:
    """A task, its questions and its end."""

    def __init__(self, ttl: int | None = 60_000) -> None:
        now = _now()
        self.state: Json = {
            "taskId": str(uuid.uuid4()), "status": "working", "createdAt": now, "lastUpdatedAt": now,
            "ttlMs": ttl, "pollIntervalMs": 100,
        }  # fmt: skip
        self.answers: dict[str, Any] = {}
        self.changed = asyncio.Event()
        self.work: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.state["status"] in ("completed", "failed", "cancelled")

    def put(self, status: str, **members: Any) -> None:
        kept = {name: value for name, value in self.state.items() if name not in ("inputRequests",)}
        self.state = {**kept, "status": status, "lastUpdatedAt": _now(), **members}

    async def ask(self, requests: dict[str, Json]) -> dict[str, Any]:
        """Ask, and return the answers when all are there."""
        while missing := {key: one for key, one in requests.items() if key not in self.answers}:
            self.put("input_required", inputRequests=missing)
            self.changed.clear()
            await self.changed.wait()
        self.put("working")
        return self.answers


class TaskExtension(Extension):
    """The extension: the methods, and the calls that become tasks."""

    identifier = TASKS

    def __init__(self, file: str) -> None:
        self._file = file
        self._tasks: dict[str, ServedTask] = {}
        self._restore()

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", NamedTask, self._get),
            MethodBinding("tasks/update", AnsweredTask, self._update),
            MethodBinding("tasks/cancel", NamedTask, self._cancel),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        work = WORK.get(params.name)
        if work is None:
            return await call_next(ctx)
        _mark(self._file, f"call {params.name}")
        given = params.arguments or {}
        if params.name == "test_tool_with_task" and not params.input_responses:
            asked = {"user_name": question("Your name?", "name", "string")}
            return {"resultType": "input_required", "inputRequests": asked, "requestState": "round-2"}
        if not _declares(ctx):
            if params.name in REQUIRED:
                raise MCPError(MISSING, "tasks are required", NEEDED)
            return await _plain(work, given)
        if params.input_responses:
            given = {**given, "answers": _plain_json(params.input_responses)}
        task = ServedTask(given.get("ttl", 60_000))
        self._tasks[task.state["taskId"]] = task
        task.work = asyncio.ensure_future(self._work(task, work, given))
        self._keep()
        seen = {name: value for name, value in task.state.items() if name != "inputRequests"}
        return {"resultType": "task", **seen, "status": "working"}

    async def _work(self, task: ServedTask, work: Work, given: Json) -> None:
        try:
            result = await work(task, given)
        except MCPError as error:
            task.put("failed", error={"code": error.error.code, "message": error.error.message})
        except asyncio.CancelledError:
            task.put("cancelled")
        else:
            task.put("completed", result=result)
        self._keep()

    async def _get(self, ctx: Context, params: NamedTask) -> Json:
        _mark(self._file, f"get {params.task_id}")
        return {"resultType": "complete", **self._found(ctx, params).state}

    async def _update(self, ctx: Context, params: AnsweredTask) -> Json:
        task = self._found(ctx, params)
        asked = task.state.get("inputRequests", {})
        task.answers |= {key: value for key, value in params.input_responses.items() if key in asked}
        left = {key: one for key, one in asked.items() if key not in task.answers}
        if asked:
            task.put("input_required" if left else "working", **({"inputRequests": left} if left else {}))
        task.changed.set()
        return {"resultType": "complete"}

    async def _cancel(self, ctx: Context, params: NamedTask) -> Json:
        task = self._found(ctx, params)
        _mark(self._file, f"cancel {params.task_id}")
        if task.work is not None and not task.over:
            task.work.cancel()
            task.put("cancelled")
        return {"resultType": "complete"}

    def _found(self, ctx: Context, params: NamedTask) -> ServedTask:
        if not _declares(ctx):
            raise MCPError(MISSING, "tasks were not announced", NEEDED)
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(-32602, "Failed to retrieve task: Task not found")
        return task

    def _keep(self) -> None:
        if self._file:
            kept = [task.state for task in self._tasks.values() if task.over]
            with contextlib.suppress(OSError), open(self._file + ".tasks", "w") as file:
                json.dump(kept, file)

    def _restore(self) -> None:
        with contextlib.suppress(OSError), open(self._file + ".tasks") as file:
            for state in json.load(file):
                task = ServedTask()
                task.state = state
                self._tasks[state["taskId"]] = task


Work = Callable[[ServedTask, Json], Awaitable[Json]]


async def _slow_compute(task: ServedTask, given: Json) -> Json:
    await asyncio.sleep(given.get("seconds", 0))
    return content(f"computed {given.get('label', '')}")


async def _failing_job(task: ServedTask, given: Json) -> Json:
    return content("it failed", failed=True)


async def _protocol_error_job(task: ServedTask, given: Json) -> Json:
    raise MCPError(-32603, "it broke")


async def _confirm_delete(task: ServedTask, given: Json) -> Json:
    answers = await task.ask({"confirm": question(f"Delete {given.get('filename')}?")})
    return content(json.dumps(answers["confirm"]))


async def _multi_input(task: ServedTask, given: Json) -> Json:
    answers = await task.ask({"one": question("One?"), "two": question("Two?")})
    return content(json.dumps(answers))


async def _with_task(task: ServedTask, given: Json) -> Json:
    return content(f"Hello, {json.dumps(given.get('answers', {}))}!")


async def _told(task: ServedTask, given: Json) -> Json:
    """Tell how far it is until a file is there."""
    step = 0
    while not _exists(given["until"]):
        step += 1
        task.put("working", statusMessage=f"step {step}")
        await asyncio.sleep(0.05)
    return content(f"done, {given.get('text', '')}")


WORK: dict[str, Work] = {
    "slow_compute": _slow_compute,
    "failing_job": _failing_job,
    "protocol_error_job": _protocol_error_job,
    "confirm_delete": _confirm_delete,
    "multi_input": _multi_input,
    "test_tool_with_task": _with_task,
    "told": _told,
}
NEEDED: Json = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
REQUIRED = frozenset({"failing_job", "protocol_error_job", "confirm_delete", "multi_input", "told"})


async def _plain(work: Work, given: Json) -> Json:
    return await work(ServedTask(), given)


def _plain_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda one: one.model_dump(mode="json", by_alias=True)))


def _declares(ctx: Context) -> bool:
    meta: Any = ctx.meta or {}
    found = meta.get("io.modelcontextprotocol/clientCapabilities") if isinstance(meta, dict) else None
    if found is None:
        capabilities = getattr(ctx.session, "client_capabilities", None)
        return TASKS in (getattr(capabilities, "extensions", None) or {})
    return TASKS in (found.get("extensions") or {})


def _exists(path: str) -> bool:
    return os.path.exists(path)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _mark(file: str, line: str) -> None:
    if file:
        with open(file, "a") as log:
            log.write(line + "\n")


def served(file: str) -> MCPServer:
    """The server."""
    server = MCPServer("tasks", extensions=[TaskExtension(file)])

    def named(name: str) -> Callable[..., str]:
        def tool(
            filename: str = "", seconds: float = 0, label: str = "", until: str = "", text: str = "",
            ttl: int | None = 60_000,
        ) -> str:  # fmt: skip
            raise AssertionError("the extension answers")

        tool.__name__ = name
        return tool

    for name in WORK:
        server.tool(name=name)(named(name))

    @server.tool()
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello, {name}!"

    @server.tool()
    async def nap(seconds: float, until: str = "") -> str:
        """Sleep without a task, or until a file is there."""
        _mark(file, "nap")
        while until and not _exists(until):  # noqa: ASYNC110  (nothing tells)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0 if until else seconds)
        _mark(file, "woke")
        return "slept"

    return server


def main() -> None:
    way, *rest = sys.argv[1:]
    server = served(rest[0] if rest else "")
    if way == "stdio":
        server.run("stdio")
        return
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(rest[1]) if len(rest) > 1 else 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app(stateless_http=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
