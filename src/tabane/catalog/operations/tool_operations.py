"""Operations on tools: their search source, and handlers.

:mod:`tabane.catalog.operations.table` declares them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import CallTool, DescribeTools, ListTools, NameParams, SearchTools
from tabane.catalog.tool_pages import tool_page_of
from tabane.catalog.tool_rows import tool_detail, tool_row
from tabane.catalog.tool_search import ToolSearch, ToolSearchResult, rendered
from tabane.catalog.tools.app_metadata import shown_result
from tabane.catalog.tools.catalog import pinned
from tabane.catalog.tools.disclosure import describe
from tabane.catalog.tools.learned_result import LearnedResult
from tabane.catalog.tools.tool import OWN, Tool, ToolCallRequest, check_size, says_failed
from tabane.catalog.visibility import visible_tools
from tabane.errors import CallerError, Forbidden, UnknownName, UpstreamError
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Face, OpenCall, Outcome, ended
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.wire import json
from tabane.workers.time_slices import TimeSlices, thread_slices

LARGE = 1 << 20
"""Bytes of a result above which it is read in a thread."""

Admit = Callable[[Caller, CallTarget, bytes], OpenCall]
"""Admits a call of a tool, which has to be ended. Raises Forbidden and RateLimited."""

Asker = Callable[[str, str, ServerRequest], bool]
"""Puts a question that a server has during a call, given the server and the public name of the tool. Returns
whether somebody can be asked."""

Learned = Callable[[Caller, Tool], LearnedResult | None]
"""Returns the type of a tool's results that was learned for a caller."""

OwnTools = Callable[[Caller, str, bytes], Awaitable[Raw]]
"""Calls one of the hub's own tools by name with arguments, and returns its result in MCP's form."""


class FirstParts(Protocol):
    """Gives long results in parts."""

    async def first_part_of_large(
        self, caller: Caller, result: Raw, tokens: int, origins: tuple[CallTarget, ...] = ()
    ) -> Raw: ...


class ToolDescriptions(Struct, frozen=True):
    results: list[dict[str, Any]]
    text: str


class ToolOperations:
    """Finds, describes and calls tools. ``admit`` admits the calls of upstreams' tools.

    ``parts`` gives long results in parts. ``learned`` returns types of results.
    """

    def __init__(
        self,
        gateway: Gateway,
        admit: Admit,
        own: OwnTools,
        parts: FirstParts,
        learned: Learned = lambda caller, tool: None,
    ) -> None:
        self._gateway, self._admit, self._own, self._parts = gateway, admit, own, parts
        self._learned = learned
        self._search = ToolSearch(gateway)

    async def search(self, caller: Caller, params: SearchTools) -> ToolSearchResult:
        return await self._search.search(caller, params)

    def _row(self, tool: Tool) -> dict[str, Any]:
        return tool_row(tool, self._gateway.servers.get(tool.server))

    async def describe(self, caller: Caller, params: DescribeTools) -> ToolDescriptions:
        """Return the parameters of each tool; for an unknown name the nearest ones are named."""
        results: list[dict[str, Any]] = []
        texts: list[str] = []
        turns = TimeSlices()
        for name in params.names:
            await turns.pause()
            try:
                tool = await self._gateway.find(caller, name)
            except CallerError as error:
                results.append({"name": name, "error": error.text(caller.lang)})
                texts.append(error.text(caller.lang))
            else:
                results.append({"name": tool.alias, "tool": Raw(tool.definition)})
                named = caller.face is not Face.MCP or len(params.names) > 1 or name != tool.alias
                texts.append(describe(tool, params.detail, named=named))
                server = self._gateway.servers.get(tool.server)
                if tool.app.page and params.detail == "compact" and server and not pinned(server, tool):
                    text = say('Its page is shown only if the tool is pinned ("pin": "ui").')
                    texts[-1] += f"\n{text.render(caller.lang)}"
                if (learned := self._learned(caller, tool)) is not None:
                    results[-1]["learned_result"] = learned.row()
                    if params.detail == "compact":  # what is full is JSON
                        texts[-1] += f"\n{learned.line()}"
        if all("error" in result for result in results):
            raise CallerError(say("{errors}", errors="\n".join(texts)))
        return ToolDescriptions(results, "\n\n".join(texts))

    async def call(self, caller: Caller, params: CallTool) -> Raw:
        return await self._in_parts(caller, params, await self.perform(caller, params.name, params.arguments))

    async def call_read_only(self, caller: Caller, params: CallTool) -> Raw:
        result = await self.perform(caller, params.name, params.arguments, read_only=True)
        return await self._in_parts(caller, params, result)

    async def _in_parts(self, caller: Caller, params: CallTool, result: Raw) -> Raw:
        if params.max_tokens is None:
            return result
        tool = self._gateway.catalogue.find(params.name)
        origins = (tool.target,) if tool is not None else ()
        return await self._parts.first_part_of_large(caller, result, params.max_tokens, origins)

    async def get(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Return the definition of a tool, and what Tabane knows of it."""
        tool = await self._gateway.find(caller, params.name)
        return {"tool": Raw(tool.definition)} | tool_detail(tool, self._gateway.servers.get(tool.server))

    async def tools(self, caller: Caller, params: ListTools) -> dict[str, Any]:
        """Return tools as rows, by server: all, those of one server, or a page of them.

        A page also has the number of tools, in all and of each server, and the cursor of the ``next`` page.
        """
        unlisted = await self._gateway.wait_listed(caller)
        if params.server is not None:
            server = self._gateway.server(params.server, caller.access)
            tools: Sequence[Tool] = self._gateway.catalogue.of_server(server.name)
        else:
            tools = self._gateway.catalogue.tools
        visible = visible_tools(caller.access, tools)
        page = tool_page_of(visible, params.limit, params.cursor)
        turns, rows = TimeSlices(), []
        for tool in page.tools:
            await turns.pause()
            rows.append(self._row(tool))
        found = {
            "results": rows,
            "waiting": list(unlisted.starting),
            "failed": rendered(unlisted.failed, caller.lang),
        }
        if params.limit is None:
            return found
        servers = Counter(tool.server for tool in visible)
        return found | {"total": len(visible), "servers": dict(servers), "next": page.next}

    async def perform(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        *,
        read_only: bool = False,
        asker: Asker | None = None,
    ) -> Raw:
        """Call a tool and return its result. Raises TabaneError. Canceling this cancels the call.

        ``asker`` puts the questions of its server; without it, they are refused.
        """
        inner = ToolCallRequest(name, {"arguments": Raw(json.encode(arguments))}, read_only)
        try:
            tool = await self._gateway.find(caller, name)
        except UnknownName:
            self._note_hidden(caller, inner)
            raise
        inner.check_marks(tool)
        if caller.face is Face.MCP:
            inner.check_model(tool)
        if tool.server == OWN:
            return await self._own(
                structs.replace(caller, looks=caller.looks or read_only), tool.alias, inner.arguments
            )
        opened = self._admit(caller, tool.target, inner.arguments)
        async with ended(opened):
            if opened.waits is not None:
                await opened.waits
            if (judged := self._gateway.validator.check(tool, inner.arguments)) is not None:
                await judged
            result = await request(self._gateway, caller, tool, inner, opened, asker)
            outcome: Outcome = "failed" if says_failed(result) else "ok"
            recorded = opened.end(outcome, len(bytes(result)), result=result)
            if recorded is not None:
                await recorded
        return result

    def _note_hidden(self, caller: Caller, inner: ToolCallRequest) -> None:
        """Have a call recorded as refused if there is a tool of that name, which the caller may not find."""
        hidden = self._gateway.catalogue.find(inner.name)
        if hidden is not None:
            with contextlib.suppress(Forbidden):
                self._admit(caller, hidden.target, inner.arguments).end("cancelled")


async def request(
    gateway: Gateway,
    caller: Caller,
    tool: Tool,
    inner: ToolCallRequest,
    opened: OpenCall,
    asker: Asker | None = None,
) -> Raw:
    """Call a tool and return its result. Raises TabaneError. If the caller gives up, cancels it upstream."""
    answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()

    def settle(reply: UpstreamReply) -> None:
        if not answer.done():
            answer.set_result(reply)

    timeout = gateway.servers[tool.server].timeout if tool.server in gateway.servers else 30.0
    call = Call(
        b"tools/call",
        inner.params_for(tool),
        opened.meta or {},
        settle,
        timeout=timeout,
        holder=caller.access.holder,
        mirrored=tool.mirrored,
        marks=opened.marks,
        on_question=(lambda question: asker(tool.server, tool.alias, question)) if asker else None,
        client=caller.session if asker else "",
    )
    upstream = gateway.route(caller, tool)
    upstream.submit(call)
    try:
        reply = await answer
    except asyncio.CancelledError:
        upstream.cancel(call, "the caller gave up")
        raise
    if reply.failure:
        raise reply.failure
    if reply.result is None:
        raise UpstreamError(
            say("{tool} answered with an error: {error}", tool=tool.alias, error=_error_text(reply))
        )
    check_size(tool, len(bytes(reply.result)), opened.most)
    if len(reply.result) > LARGE:
        return await asyncio.to_thread(shown_result, tool.server, reply.result, thread_slices())
    return shown_result(tool.server, reply.result)


def _error_text(reply: UpstreamReply) -> str:
    try:
        body = json.decode(reply.error) if reply.error is not None else None
    except json.InvalidJson:
        return "unreadable"
    return f"{body.get('message')} ({body.get('code')})" if isinstance(body, dict) else str(body)
