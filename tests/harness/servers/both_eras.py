"""An MCP server on the official SDK that can be seen from outside: calls leave marks in a file.

    python -m tests.harness.servers.both_eras NAME stdio|http|sse both|legacy FILE [PORT]

Over HTTP its port is the first line of the output. Its lists have pages of four items.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_loop
from mcp.server.session import ServerSession
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types import (
    INVALID_PARAMS,
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ContentBlock,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from tests.harness.servers.conformance.calls import (
    Call,
    InputNeededError,
    State,
    ToolFailedError,
    form,
    prompt,
    roots,
)
from tests.harness.servers.conformance.server import deaf_to_modern, serve_stdio
from tests.harness.servers.questions import Asking
from tests.harness.servers.questions import tools as asking_tools

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]
Item = TypeVar("Item")
Outcome = CallToolResult | InputRequiredResult

PAGE = 4
BULK = 260
"""Prompts that are there for their number: those of four servers are more than a page of the hub's."""
PIXEL = "iVBORw0KGgo="
EXTRA: Json = {"example.com/note": {"kept": ["as it is", 9007199254740993, None]}}


def described(name: str, schema: Json | None = None, **more: Any) -> Tool:
    return Tool(
        name=name, description=f"Does {name}. 説明", input_schema=schema or {"type": "object"}, **more
    )


def texts(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def said(text: str) -> list[ContentBlock]:
    return [TextContent(text=text)]


class Upstream(Asking):
    """The handlers. ``mark`` adds a line to the file."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__()
        self.name, self.file = name, file
        self.state = State()
        self.grown = {"tools": False, "prompts": False, "resources": False}
        self.watching: dict[str, set[ServerSession]] = {}

    def mark(self, text: str) -> None:
        with open(self.file, "a") as file:
            file.write(text + "\n")

    # -- lists -----------------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        reads = ToolAnnotations(title="Look", read_only_hint=True)
        structured = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        tools = [
            described("structured", structured, output_schema=structured, annotations=reads, _meta=EXTRA),
            described("contents", title="Everything that content can be"),
            described("fails"),
            described("refuses"),
            described("steps", {"type": "object", "properties": {"count": {"type": "integer"}}}),
            described("logs"),
            described("hangs", texts("token")),
            described("marks", texts("token")),
            described("peeks", annotations=reads),
            described("naps", texts("token")),
            described("asks"),
            described("samples"),
            described("roots"),
            described("touches", texts("uri")),
            described("grows", texts("kind")),
            described("region", {"type": "object", "properties": {
                "place": {"type": "string", "x-mcp-header": "Place"}}}),
        ]  # fmt: skip
        return tools + asking_tools() + ([described("grown")] if self.grown["tools"] else [])

    def prompts(self) -> list[Prompt]:
        arguments = [PromptArgument(name="word", description="A word", required=True)]
        prompts = [
            Prompt(name="plain", description="Without arguments"),
            Prompt(name="worded", title="With one", arguments=arguments, _meta=EXTRA),
            Prompt(name="asked", description="Asks for whom it is"),
        ]
        prompts += [Prompt(name="grown")] if self.grown["prompts"] else []
        return prompts + [Prompt(name=f"bulk-{number:03}") for number in range(BULK)]

    def resources(self) -> list[Resource]:
        own = f"grid://{self.name}"
        resources = [
            Resource(uri=f"{own}/text", name="text", mime_type="text/plain", size=12),
            Resource(uri=f"{own}/blob", name="blob", mime_type="image/png", _meta=EXTRA),
            Resource(uri=f"{own}/asked", name="asked", mime_type="text/plain"),
            Resource(uri="grid://common/text", name="common", description="Each server has one"),
        ]
        return resources + ([Resource(uri=f"{own}/grown", name="grown")] if self.grown["resources"] else [])

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        items, cursor = page(self.tools(), params)
        return ListToolsResult(tools=items, next_cursor=cursor)

    async def list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        items, cursor = page(self.prompts(), params, 100)
        return ListPromptsResult(prompts=items, next_cursor=cursor)

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        items, cursor = page(self.resources(), params, 2)
        return ListResourcesResult(resources=items, next_cursor=cursor)

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(uri_template=f"grid://{self.name}/item/{{id}}", name="item")
        return ListResourceTemplatesResult(resource_templates=[template])

    # -- what is fetched -------------------------------------------------------------------------

    async def read(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        uri = str(params.uri)
        if uri.endswith("/asked"):
            try:
                return await self.asked_resource(Call(context, {}, params, self.state), uri)
            except InputNeededError as needed:
                return needed.result
        if uri.endswith("/blob"):
            blob = BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL, _meta=EXTRA)
            return ReadResourceResult(contents=[blob])
        if uri.rpartition("/")[2] == "missing":
            raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
        contents = TextResourceContents(uri=uri, mime_type="text/plain", text=f"{self.name}: {uri} 本文")
        return ReadResourceResult(contents=[contents], _meta=EXTRA)

    async def get_prompt(
        self, context: Context, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        if params.name == "asked":
            try:
                return await self.asked_prompt(Call(context, {}, params, self.state))
            except InputNeededError as needed:
                return needed.result
        word = (params.arguments or {}).get("word", "")
        blocks: list[ContentBlock] = [
            TextContent(text=f"{params.name} {word}", annotations=Annotations(audience=["user"])),
            ImageContent(data=PIXEL, mime_type="image/png"),
        ]
        messages = [PromptMessage(role="assistant", content=block) for block in blocks]
        return GetPromptResult(description=f"{self.name}'s", messages=messages, _meta=EXTRA)

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        kind = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        given = (params.context.arguments or {}) if params.context else {}
        values = [f"{kind}:{params.argument.name}={params.argument.value}", *map(str, given.values())]
        return CompleteResult(completion=Completion(values=values, total=7, has_more=True))

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        self.watching.setdefault(str(params.uri), set()).add(context.session)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self.watching.pop(str(params.uri), None)
        return EmptyResult()

    async def set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self.state.level = params.level
        return EmptyResult()

    # -- calls -----------------------------------------------------------------------------------

    async def call(self, context: Context, params: CallToolRequestParams) -> Outcome:
        run: Callable[[Call], Awaitable[CallToolResult | list[ContentBlock]]] | None
        run = getattr(self, f"do_{params.name}", None)
        if run is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        try:
            done = await run(Call(context, params.arguments or {}, params, self.state))
        except InputNeededError as needed:
            return needed.result
        except ToolFailedError as failed:
            return CallToolResult(content=said(str(failed)), is_error=True)
        return done if isinstance(done, CallToolResult) else CallToolResult(content=done)

    async def do_structured(self, call: Call) -> CallToolResult:
        value = {"n": call.arguments["n"], "名": "値", "deep": [{"none": None, "half": 0.5}]}
        return CallToolResult(content=said("structured"), structured_content=value, _meta=EXTRA)

    async def do_contents(self, call: Call) -> list[ContentBlock]:
        embedded = TextResourceContents(uri="grid://embedded", mime_type="text/plain", text="inside")
        return [
            TextContent(text="😀 text\u2028", annotations=Annotations(priority=0.25), _meta=EXTRA),
            ImageContent(data=PIXEL, mime_type="image/png"),
            AudioContent(data="UklGRg==", mime_type="audio/wav"),
            EmbeddedResource(resource=embedded, _meta=EXTRA),
            ResourceLink(uri="grid://linked", name="linked", mime_type="text/plain"),
        ]

    async def do_fails(self, call: Call) -> CallToolResult:
        return CallToolResult(content=said("it failed"), structured_content={"why": 1}, is_error=True)

    async def do_refuses(self, call: Call) -> CallToolResult:
        raise MCPError(code=-31999, message="not today", data={"why": ["because"]})

    async def do_steps(self, call: Call) -> list[ContentBlock]:
        count = int(call.arguments.get("count", 3))
        for step in range(count):
            await call.context.session.report_progress(step + 1, count, f"step {step + 1}")
        return said("all")

    async def do_logs(self, call: Call) -> list[ContentBlock]:
        for level in ("debug", "info", "warning", "error"):
            await call.log(level, f"about {level}")
        return said("logged")

    async def do_hangs(self, call: Call) -> list[ContentBlock]:
        token = call.arguments["token"]
        self.mark(f"begun {token}")
        try:
            await asyncio.sleep(3600)
        except BaseException:
            self.mark(f"cancelled {token}")
            raise
        return said("never")

    async def do_marks(self, call: Call) -> list[ContentBlock]:
        self.mark(str(call.arguments["token"]))
        return said(str(os.getpid()))

    async def do_peeks(self, call: Call) -> list[ContentBlock]:
        return said(str(os.getpid()))

    async def do_naps(self, call: Call) -> list[ContentBlock]:
        self.mark(str(call.arguments["token"]))
        await asyncio.sleep(call.arguments["seconds"])
        return said(str(os.getpid()))

    async def do_asks(self, call: Call) -> list[ContentBlock]:
        question = form("Who?", {"name": {"type": "string"}}, "name")
        answer = (await call.ask({"who": question}, remember="asked"))["who"]
        return said(f"{answer.action} {answer.content}")

    async def do_samples(self, call: Call) -> list[ContentBlock]:
        answer = (await call.ask({"words": prompt("Say something")}))["words"]
        return said(f"{answer.model}: {getattr(answer.content, 'text', '')}")

    async def do_roots(self, call: Call) -> list[ContentBlock]:
        answer = (await call.ask({"where": roots()}))["where"]
        return said(" ".join(str(root.uri) for root in answer.roots))

    async def do_touches(self, call: Call) -> list[ContentBlock]:
        uri = call.arguments["uri"]
        await self.state.bus.publish(ResourceUpdated(uri=uri))
        for session in list(self.watching.get(uri, ())):
            await session.send_resource_updated(uri)
        return said("touched")

    async def do_grows(self, call: Call) -> list[ContentBlock]:
        kind = call.arguments["kind"]
        self.grown[kind] = not self.grown[kind]
        session = call.context.session
        if kind == "tools":
            await self.state.bus.publish(ToolsListChanged())
            await session.send_tool_list_changed()
        elif kind == "prompts":
            await self.state.bus.publish(PromptsListChanged())
            await session.send_prompt_list_changed()
        else:
            await self.state.bus.publish(ResourcesListChanged())
            await session.send_resource_list_changed()
        return said("grown" if self.grown[kind] else "shrunk")

    async def do_grown(self, call: Call) -> list[ContentBlock]:
        return said("here")

    async def do_region(self, call: Call) -> list[ContentBlock]:
        request = call.context.request
        header = request.headers.get("mcp-param-place") if isinstance(request, Request) else None
        return said(f"{call.arguments.get('place')} {header}")

    def server(self) -> Server[Any]:
        return Announcing(
            self.name,
            version="1.0",
            instructions=f"This is {self.name}.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=ListenHandler(self.state.bus),
            on_completion=self.complete,
            on_set_logging_level=self.set_level,
            get_tool_input_schema=lambda name: next(
                (tool.input_schema for tool in self.tools() if tool.name == name), None
            ),
        )


class Announcing(Server[Any]):
    """The SDK's server, which says to clients of the handshake era too that its lists change."""

    def create_initialization_options(self, *given: Any, **named: Any) -> InitializationOptions:
        named.setdefault("notification_options", NotificationOptions(True, True, True))
        return super().create_initialization_options(*given, **named)


def page(
    items: Sequence[Item], params: PaginatedRequestParams | None, size: int = PAGE
) -> tuple[list[Item], str | None]:
    """A page of a list, and the cursor of the next."""
    begin = int(params.cursor) if params and params.cursor else 0
    end = begin + size
    return list(items[begin:end]), str(end) if end < len(items) else None


def sse_app(server: Server[Any]) -> ASGIApp:
    """HTTP with SSE as it was in 2024, and no era but that."""
    transport = SseServerTransport("/messages/")

    async def serve(request: Request) -> Response:
        options = server.create_initialization_options()
        async with (
            transport.connect_sse(request.scope, request.receive, request._send) as (incoming, outgoing),
            server.lifespan(server) as state,
        ):
            await serve_loop(server, incoming, outgoing, lifespan_state=state, init_options=options)
        return Response()

    return Starlette(routes=[Route("/sse", serve), Mount("/messages/", app=transport.handle_post_message)])


def serve_http(server: Server[Any], transport: str, era: str, port: int) -> None:
    app: ASGIApp = sse_app(server) if transport == "sse" else server.streamable_http_app()
    if transport == "http" and era == "legacy":
        app = deaf_to_modern(app)
    listening = socket.create_server(("127.0.0.1", port))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


def main(name: str, transport: str, era: str, file: str, port: str = "0") -> None:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    server = Upstream(name, file).server()
    if transport == "stdio":
        asyncio.run(serve_stdio(server, "legacy" if era == "legacy" else "both"))
    else:
        serve_http(server, transport, era, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
