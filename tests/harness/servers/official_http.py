"""An MCP server on the official SDK, over HTTP, for tests: a process of its own that can be killed.

    python -m tests.harness.servers.official_http KIND PORT FILE

KIND: modern | stateful | stateless | json | resumable (streamable HTTP), sse. Each call of `count` adds a
line to FILE. The port is printed once it listens; 0 is any.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import warnings
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

KIND, PORT, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
server = MCPServer("official")


class Memory(EventStore):
    """Keeps all events, in one list."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        begin = int(last_event_id)
        stream = self._events[begin - 1][0]
        for number, (name, message) in enumerate(self._events[begin:], begin + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Answer(BaseModel):
    name: str


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def region(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], ctx: Context) -> str:
    """What the header says of the argument."""
    return str((ctx.headers or {}).get("mcp-param-region"))


@server.tool()
def count() -> str:
    """Leave a mark."""
    with open(FILE, "a") as file:
        file.write("x\n")
    return str(os.getpid())


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def peek(seconds: float = 0) -> str:
    """Look, slowly."""
    await asyncio.sleep(seconds)
    return str(os.getpid())


@server.tool()
async def slow(seconds: float) -> str:
    """Leave a mark, slowly."""
    count()
    await asyncio.sleep(seconds)
    return "slept"


@server.tool()
async def wait() -> str:
    """Never answer; leave a mark when it begins and when it is canceled."""
    count()
    try:
        await asyncio.sleep(3600)
    finally:
        count()
    return ""


@server.tool()
async def steps(ctx: Context) -> str:
    """Report progress."""
    for step in range(3):
        await ctx.report_progress(step + 1, 3)
    return "all"


@server.tool()
async def breaks(ctx: Context) -> str:
    """Close the stream in the middle of the call."""
    await ctx.close_sse_stream()
    await asyncio.sleep(0.05)
    return "resumed"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool more."""
    server.add_tool(echo, name="grown")
    await ctx.notify_tools_changed()
    if KIND != "modern":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the user."""
    answer = await ctx.elicit("Who?", Answer)
    return f"{answer.action}:{getattr(getattr(answer, 'data', None), 'name', '')}"


def old(app: ASGIApp) -> ASGIApp:
    """A server that does not know 2026-07-28 yet."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if (b"mcp-protocol-version", b"2026-07-28") in scope.get("headers", ()):
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Bad Request: unsupported protocol version"})
        else:
            await app(scope, receive, send)

    return wrapped


def application() -> ASGIApp:
    if KIND == "sse":
        return server.sse_app()
    if KIND == "modern":
        return server.streamable_http_app()
    store = Memory() if KIND == "resumable" else None
    return old(
        server.streamable_http_app(
            stateless_http=KIND == "stateless",
            json_response=KIND == "json",
            event_store=store,
            retry_interval=50 if store else None,
        )
    )


def main() -> None:
    warnings.simplefilter("ignore")
    listening = socket.create_server(("127.0.0.1", PORT))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(application(), log_level="error")).run(sockets=[listening])


main()
