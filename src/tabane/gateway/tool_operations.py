"""Operations on tools: their search source, and the handlers that :mod:`tabane.gateway.table` declares."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Raw, Struct

from tabane.errors import CallerError, Forbidden, UnknownName, UpstreamError
from tabane.gateway.gateway import Gateway
from tabane.gateway.parameters import (
    CallTool,
    DescribeTools,
    ListTools,
    NameParams,
    SearchTools,
)
from tabane.gateway.tools.disclosure import describe, search_text, signature
from tabane.gateway.tools.index import ToolQuery
from tabane.gateway.tools.tool import OWN, Tool, ToolCallRequest, check_size, says_failed
from tabane.gateway.upstreams.call import Call, UpstreamReply
from tabane.gateway.visibility import visible_names, visible_tools
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, CallTarget, OpenCall, ended
from tabane.search.source import HitCard, Reference, SearchAnswer, SearchHit, SearchRequest
from tabane.wire import json

Admit = Callable[[Caller, CallTarget, bytes], OpenCall]
"""Admits a call of a tool, which has to be ended. Raises Forbidden and RateLimited."""

OwnTools = Callable[[Caller, str, bytes], Awaitable[Raw]]
"""Calls one of the hub's own tools by name with arguments, and returns its result in MCP's form."""


MOST_TOOLS = 50
"""Tools that one search finds."""


@dataclass(frozen=True, slots=True)
class ToolAnswer(SearchAnswer[Tool]):
    """The best tools, and how many match in all.

    ``nearest``: no tool fits, and these are the nearest. ``waiting`` are servers that are starting,
    ``failed`` is why others have listed nothing.
    """

    total: int = 0
    nearest: Sequence[str] = ()
    waiting: Sequence[str] = ()
    failed: Mapping[str, Message] = field(default_factory=dict)


class ToolSource:
    """Search of tools by the words of their definitions, ranked by the index of the catalog."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def search(self, caller: Caller, request: SearchRequest) -> ToolAnswer:
        return await self.find(caller, ToolQuery(request.query, min(request.limit, MOST_TOOLS)))

    async def find(self, caller: Caller, request: ToolQuery) -> ToolAnswer:
        """Return the best tools. Waits at most two seconds for servers that never listed theirs."""
        unlisted = await self._gateway.wait_listed(caller)
        catalogue, asked = self._gateway.catalogue, request.server
        if not caller.access.everything:
            request = replace(request, names=frozenset(visible_names(caller.access, catalogue)))
        ranked = await self._gateway.search(request)
        hits = [SearchHit(tool, hit.score) for hit in ranked.hits if (tool := catalogue.get(hit.alias))]
        failed = {name: why for name, why in unlisted.failed.items() if asked in (None, name)}
        waiting = [name for name in unlisted.starting if asked in (None, name)]
        warning = next(iter(failed.values()), None)
        return ToolAnswer(hits, (), warning, ranked.total, ranked.nearest, waiting, failed)

    def card(self, item: Tool) -> HitCard:
        return HitCard(item.alias, signature(item), "", Reference("describe_tools", {"names": [item.alias]}))


class TimeSlices:
    """Slices of time on the event loop. Between two slices it serves other requests."""

    def __init__(self, seconds: float = 0.004) -> None:
        self._seconds = seconds
        self._end = time.perf_counter() + seconds

    async def pause(self) -> None:
        """Let other requests run when a slice is over."""
        if time.perf_counter() > self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + self._seconds


class ToolSearchResult(Struct, frozen=True):
    """The result of a search. ``waiting`` names servers that are starting, ``failed`` why others failed.

    ``nearest``: no tool fits, and these are the nearest tools.
    """

    results: list[dict[str, Any]]
    total: int
    waiting: list[str]
    text: str
    nearest: list[str] = []
    failed: dict[str, str] = {}


class ToolDescriptions(Struct, frozen=True):
    results: list[dict[str, Any]]
    text: str


class ToolOperations:
    """Finds, describes and calls tools. ``admit`` admits the calls of upstreams' tools."""

    def __init__(self, gateway: Gateway, admit: Admit, own: OwnTools) -> None:
        self._gateway, self._admit, self._own = gateway, admit, own
        self._source = ToolSource(gateway)

    async def search(self, caller: Caller, params: SearchTools) -> ToolSearchResult:
        """Return ranked tools. Waits at most two seconds for servers that never listed theirs."""
        found = await self._source.find(
            caller,
            ToolQuery(
                params.query,
                params.limit,
                params.server,
                tuple(params.tags or ()),
                params.category,
                params.match,
            ),
        )
        catalogue = self._gateway.catalogue
        pairs = [(hit.item, hit.score) for hit in found.hits]
        text = search_text(
            pairs,
            found.total,
            params.query,
            visible_names(caller.access, catalogue),
            found.waiting,
            caller.lang,
            found.nearest,
            list(found.failed.values()),
        )
        results = [_row(tool) | {"score": round(score, 3)} for tool, score in pairs]
        nearest = [alias for alias in found.nearest if catalogue.get(alias)]
        failed = _rendered(found.failed, caller.lang)
        return ToolSearchResult(results, found.total, list(found.waiting), text, nearest, failed)

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
                texts.append(describe(tool, params.detail))
        if all("error" in result for result in results):
            raise CallerError(say("{errors}", errors="\n".join(texts)))
        return ToolDescriptions(results, "\n\n".join(texts))

    async def call(self, caller: Caller, params: CallTool) -> Raw:
        return await self.perform(caller, params.name, params.arguments)

    async def call_read_only(self, caller: Caller, params: CallTool) -> Raw:
        return await self.perform(caller, params.name, params.arguments, read_only=True)

    async def get(self, caller: Caller, params: NameParams) -> dict[str, Raw]:
        tool = await self._gateway.find(caller, params.name)
        return {"tool": Raw(tool.definition)}

    async def tools(self, caller: Caller, params: ListTools) -> dict[str, Any]:
        """Return all tools, or those of one server, as rows."""
        unlisted = await self._gateway.wait_listed(caller)
        if params.server is not None:
            server = self._gateway.server(params.server, caller.access)
            tools: Sequence[Tool] = self._gateway.catalogue.of_server(server.name)
        else:
            tools = self._gateway.catalogue.tools
        turns, rows = TimeSlices(), []
        for tool in visible_tools(caller.access, tools):
            await turns.pause()
            rows.append(_row(tool))
        return {
            "results": rows,
            "waiting": list(unlisted.starting),
            "failed": _rendered(unlisted.failed, caller.lang),
        }

    async def perform(
        self, caller: Caller, name: str, arguments: dict[str, Any], *, read_only: bool = False
    ) -> Raw:
        """Call a tool and return its result. Raises TabaneError. Canceling this cancels the call."""
        inner = ToolCallRequest(name, {"arguments": Raw(json.encode(arguments))}, read_only)
        try:
            tool = await self._gateway.find(caller, name)
        except UnknownName:
            self._note_hidden(caller, inner)
            raise
        inner.check_marks(tool)
        if tool.server == OWN:
            return await self._own(
                replace(caller, looks=caller.looks or read_only), tool.alias, inner.arguments
            )
        opened = self._admit(caller, tool.target, inner.arguments)
        async with ended(opened):
            if opened.waits is not None:
                await opened.waits
            if (judged := self._gateway.validator.check(tool, inner.arguments)) is not None:
                await judged
            result = await request(self._gateway, caller, tool, inner, opened)
            recorded = opened.end("failed" if says_failed(result) else "ok", len(bytes(result)))
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
    gateway: Gateway, caller: Caller, tool: Tool, inner: ToolCallRequest, opened: OpenCall
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
    return reply.result


def _rendered(failed: Mapping[str, Message], lang: Lang) -> dict[str, str]:
    return {name: why.render(lang) for name, why in failed.items()}


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.alias,
        "server": tool.server,
        "signature": signature(tool),
        "read_only": tool.read_only,
        "destructive": tool.destructive,
    }


def _error_text(reply: UpstreamReply) -> str:
    try:
        body = json.decode(reply.error) if reply.error is not None else None
    except json.InvalidJson:
        return "unreadable"
    return f"{body.get('message')} ({body.get('code')})" if isinstance(body, dict) else str(body)
