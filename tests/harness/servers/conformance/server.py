"""A conforming MCP server on the official SDK, with everything that the conformance suite looks for.

    python -m tests.harness.servers.conformance.server [--http] [--era both|legacy]

Over stdio it is the upstream of a hub; over HTTP (a free port, whose URL is the first line of the output)
it is measured itself, or is a remote upstream. `--era legacy` knows nothing of 2026-07-28.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import warnings
from typing import Any, Literal, get_args

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from mcp_types.methods import CacheableMethod
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.harness.servers.conformance import offers
from tests.harness.servers.conformance.calls import Call, InputNeededError, State, ToolFailedError
from tests.harness.servers.conformance.tasks import TaskBoard
from tests.harness.servers.conformance.tools import MORE_TOOLS, TOOLS, Fixture

Era = Literal["both", "legacy"]
Context = ServerRequestContext[Any, Any]
Page = PaginatedRequestParams | None

NAME = "conformance"
CACHEABLE: tuple[CacheableMethod, ...] = get_args(CacheableMethod)
FRESH = CacheHint(ttl_ms=1000, scope="public")


class Upstream:
    """The handlers of the server, over the fixtures and what clients changed about them."""

    def __init__(self) -> None:
        self._state = State()
        self._tasks = TaskBoard()

    def server(self) -> Server[Any]:
        """The SDK's server with all of them. Its `requestState` is sealed, and one that is not is refused."""
        server: Server[Any] = Server(
            NAME,
            version="1.0",
            cache_hints=dict.fromkeys(CACHEABLE, FRESH),
            get_tool_input_schema=self._schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._subscribe,
            on_subscriptions_listen=ListenHandler(self._state.bus),
            on_completion=self._complete,
            on_set_logging_level=self._set_level,
        )
        server.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)
        )
        self._tasks.register(server)
        return server

    def _tools(self) -> dict[str, Fixture]:
        return {tool.name: tool for tool in TOOLS + (MORE_TOOLS if self._state.more_tools else ())}

    def _prompts(self) -> dict[str, offers.PromptFixture]:
        fixtures = offers.PROMPTS + (offers.MORE_PROMPTS if self._state.more_prompts else ())
        return {fixture.prompt.name: fixture for fixture in fixtures}

    def _schema(self, name: str) -> dict[str, Any] | None:
        tool = self._tools().get(name)
        return tool.schema if tool else None

    async def _list_tools(self, context: Context, params: Page) -> ListToolsResult:
        return ListToolsResult(tools=[*(tool.tool for tool in self._tools().values()), *self._tasks.tools()])

    async def _call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        tool = self._tools().get(params.name)
        call = Call(context, params.arguments or {}, params, self._state)
        try:
            if tool is None:
                return await self._long(params.name, call)
            content = await tool.run(call)
        except InputNeededError as needed:
            return needed.result
        except ToolFailedError as failed:
            return CallToolResult(content=[TextContent(text=str(failed))], is_error=True)
        return CallToolResult(content=content)

    async def _long(self, name: str, call: Call) -> CallToolResult | InputRequiredResult:
        done = await self._tasks.call(name, call)
        if done is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {name}")
        return done  # type: ignore[return-value]  # a task is a dictionary: the SDK has no type for it

    async def _list_prompts(self, context: Context, params: Page) -> ListPromptsResult:
        return ListPromptsResult(prompts=[fixture.prompt for fixture in self._prompts().values()])

    async def _get_prompt(
        self, context: Context, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        fixture = self._prompts().get(params.name)
        if fixture is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
        try:
            return await offers.messages(fixture, Call(context, params.arguments or {}, params, self._state))
        except InputNeededError as needed:
            return needed.result

    async def _list_resources(self, context: Context, params: Page) -> ListResourcesResult:
        return ListResourcesResult(resources=list(offers.RESOURCES))

    async def _list_templates(self, context: Context, params: Page) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(offers.TEMPLATES))

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return ReadResourceResult(contents=[offers.read(str(params.uri))])

    async def _subscribe(
        self, context: Context, params: SubscribeRequestParams | UnsubscribeRequestParams
    ) -> EmptyResult:
        offers.read(str(params.uri))  # an address that does not exist is refused
        return EmptyResult()

    async def _complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=offers.complete(params))

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._state.level = params.level
        return EmptyResult()


async def serve_stdio(server: Server[Any], era: Era) -> None:
    """Serve one client over standard input and output until it goes."""
    options = server.create_initialization_options()
    async with stdio_server() as (incoming, outgoing):
        if era == "both":
            await server.run(incoming, outgoing, options)
            return
        async with server.lifespan(server) as state:
            await serve_loop(server, incoming, outgoing, lifespan_state=state, init_options=options)


def deaf_to_modern(app: ASGIApp) -> ASGIApp:
    """The server as it was before 2026-07-28: a revision in a header says nothing outside a session."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            modern = (b"mcp-protocol-version", b"2026-07-28")
            scope = {**scope, "headers": [header for header in scope["headers"] if tuple(header) != modern]}
        await app(scope, receive, send)

    return serve


async def serve_http(server: Server[Any], era: Era) -> None:
    """Serve any number of clients on a free port of this machine; its URL is printed first."""
    import uvicorn

    app: ASGIApp = server.streamable_http_app()
    if era == "legacy":
        app = deaf_to_modern(app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listening])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tests.harness.servers.conformance.server")
    parser.add_argument("--http", action="store_true", help="serve streamable HTTP on a free port")
    parser.add_argument("--era", choices=("both", "legacy"), default="both", help="revisions it speaks")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    serve = serve_http if options.http else serve_stdio
    asyncio.run(serve(Upstream().server(), options.era))


if __name__ == "__main__":
    main(sys.argv[1:])
