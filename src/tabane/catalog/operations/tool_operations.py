"""Operations on tools: request, call, call many at once, describe, list, and change what is listed.

:mod:`tabane.catalog.operations.table` declares them. Patterns of what is listed are in the servers file.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from json import dumps
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Raw, Struct, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.catalog.lookup import visible_tools
from tabane.catalog.operations.table import (
    CallTool,
    DescribeTools,
    ExecuteParallel,
    ListHiddenTools,
    ListTools,
    NameParams,
    SearchTools,
    ToolVisibility,
)
from tabane.catalog.tool_search import ToolSearch, ToolSearchResult, rendered, tokens, tool_detail, tool_row
from tabane.catalog.tools.app_metadata import shown_result
from tabane.catalog.tools.catalog import allowed, pinned, pinned_by
from tabane.catalog.tools.disclosure import LearnedResult, describe
from tabane.catalog.tools.tool import (
    OWN,
    Tool,
    ToolCallRequest,
    check_size,
    original_name,
    read_tool,
    says_failed,
)
from tabane.errors import (
    BadArguments,
    CallerError,
    ConfigurationError,
    Forbidden,
    RateLimited,
    TabaneError,
    UnknownName,
    UpstreamError,
)
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, CallMarks, CallTarget, Face, OpenCall, Outcome, ended
from tabane.servers.editing import ReloadableServersFile, Table, edit_servers
from tabane.servers.server import Server
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.upstream import Upstream
from tabane.wire import json, rpc
from tabane.wire.cursors import CursorCodec, ForeignCursor
from tabane.workers.time_slices import TimeSlices, thread_slices


class ToolPlace(NamedTuple):
    """The last tool of a page: its server and its public name. Pages are in order of both."""

    server: str
    alias: str


class ToolPage(NamedTuple):
    """The tools of a page, and the cursor of the next one; None after the last."""

    tools: Sequence[Tool]
    next: str | None


_CODEC = CursorCodec("tools", ToolPlace)


def tool_page_of(tools: Sequence[Tool], limit: int | None, cursor: str | None) -> ToolPage:
    """Return a page of ``tools``, in order of server and name; all of them, as they are, without a limit.

    Raises BadArguments if the cursor is not one of ours.
    """
    if limit is None:
        return ToolPage(tools, None)
    ordered = sorted(tools, key=attrgetter("server", "alias"))
    if cursor is not None:
        try:
            after = _CODEC.decode(cursor)
        except ForeignCursor:
            raise BadArguments(
                say("The cursor is not valid. List again from the start, without a cursor."), "cursor"
            ) from None
        ordered = ordered[bisect_right(ordered, after, key=_place) :]
    page = ordered[:limit]
    return ToolPage(page, _CODEC.encode(_place(page[-1])) if len(ordered) > limit else None)


def _place(tool: Tool) -> ToolPlace:
    return ToolPlace(tool.server, tool.alias)


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


class ToolDescriptions(Struct, frozen=True):
    results: list[dict[str, Any]]
    text: str


class ToolOperations:
    """Finds, describes and calls tools. ``admit`` admits the calls of upstreams' tools.

    ``parts`` gives long results in parts. ``file`` is the servers file. ``learned`` returns types of results.
    """

    def __init__(
        self,
        gateway: Gateway,
        admit: Admit,
        own: OwnTools,
        parts: LongResults,
        file: ReloadableServersFile,
        learned: Learned = lambda caller, tool: None,
    ) -> None:
        self._gateway, self._admit, self._own, self._parts = gateway, admit, own, parts
        self._learned = learned
        self._search = ToolSearch(gateway)
        self.parallel = ParallelCalls(self.perform)
        self.visibility = ToolVisibilityOperations(gateway, file)

    async def search(self, caller: Caller, params: SearchTools) -> ToolSearchResult:
        """Return ranked tools for a query, as :meth:`ToolSearch.search` does."""
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
                tool = await self._gateway.lookup.find(caller, name)
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
        """Call a tool. Return its result, or the first part if that is longer than ``max_tokens``."""
        return await self._in_parts(caller, params, await self.perform(caller, params.name, params.arguments))

    async def call_read_only(self, caller: Caller, params: CallTool) -> Raw:
        """Do the same as :meth:`call`, but refuse a tool that is not marked as read-only."""
        result = await self.perform(caller, params.name, params.arguments, read_only=True)
        return await self._in_parts(caller, params, result)

    async def _in_parts(self, caller: Caller, params: CallTool, result: Raw) -> Raw:
        if params.max_tokens is None:
            return result
        tool = self._gateway.catalog.find(params.name)
        origins = (tool.target,) if tool is not None else ()
        return await self._parts.first_part_of_large(caller, result, params.max_tokens, origins)

    async def get(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Return the definition of a tool, and what Tabane knows of it."""
        tool = await self._gateway.lookup.find(caller, params.name)
        return {"tool": Raw(tool.definition)} | tool_detail(tool, self._gateway.servers.get(tool.server))

    async def tools(self, caller: Caller, params: ListTools) -> dict[str, Any]:
        """Return tools as rows, by server: all, those of one server, those of these names, or a page of them.

        A page also has the number of tools, in all and of each server, and the cursor of the ``next`` page.
        """
        unlisted = await self._gateway.lookup.wait_listed(caller)
        if params.server is not None:
            server = self._gateway.server(params.server, caller.access)
            tools: Sequence[Tool] = self._gateway.catalog.of_server(server.name)
        else:
            tools = self._gateway.catalog.tools
        if params.names is not None:
            known = {tool.alias: tool for tool in tools}
            tools = [known[name] for name in dict.fromkeys(params.names) if name in known]
        if params.marked is not None:
            tools = [tool for tool in tools if getattr(tool, params.marked)]
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
            tool = await self._gateway.lookup.find(caller, name)
        except UnknownName:
            # If the caller may not find a tool of that name, its call is recorded as refused.
            hidden = self._gateway.catalog.find(inner.name)
            if hidden is not None:
                with contextlib.suppress(Forbidden):
                    self._admit(caller, hidden.target, inner.arguments).end("cancelled")
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


async def request(
    gateway: Gateway,
    caller: Caller,
    tool: Tool,
    inner: ToolCallRequest,
    opened: OpenCall,
    asker: Asker | None = None,
) -> Raw:
    """Call a tool and return its result. Raises TabaneError. If the caller gives up, cancels it upstream."""
    meta, marks = opened.meta or {}, opened.marks
    # The web page shows the progress of its calls.
    shows_progress = caller.face is Face.WEB and marks is not None
    call = partial(
        Call,
        b"tools/call",
        inner.params_for(tool),
        {**meta, "progressToken": Raw(b"0")} if shows_progress else meta,
        on_notice=partial(_note_progress, marks) if shows_progress and marks is not None else None,
        timeout=gateway.servers[tool.server].timeout if tool.server in gateway.servers else 30.0,
        holder=caller.access.holder,
        mirrored=tool.mirrored,
        marks=opened.marks,
        on_question=(lambda question: asker(tool.server, tool.alias, question)) if asker else None,
        client=caller.session if asker else "",
    )
    reply = await reply_of(gateway.route(caller, tool), call)
    if reply.failure:
        raise reply.failure
    if reply.result is None:
        raise UpstreamError(
            say("{tool} answered with an error: {error}", tool=tool.alias, error=error_text(reply))
        )
    check_size(tool, len(bytes(reply.result)), opened.most)
    if len(reply.result) > LARGE:
        return await asyncio.to_thread(shown_result, tool.server, reply.result, thread_slices())
    return shown_result(tool.server, reply.result)


def _note_progress(marks: CallMarks, method: str, params: Raw) -> None:
    """Note the progress in a notification; any other, and one without a number, is ignored."""
    if method != "notifications/progress":
        return
    try:
        members = json.fields(params)
    except json.InvalidJson:
        return
    done, total = (_amount(json.member(members, name)) for name in ("progress", "total"))
    message = json.member(members, "message")
    if done is not None:
        marks.progress(done, total, message if isinstance(message, str) else "")


def _amount(value: object) -> float | None:
    """Return a number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**53 else None


async def reply_of(
    upstream: Upstream, make_call: Callable[[Callable[[UpstreamReply], None]], Call]
) -> UpstreamReply:
    """Make a call, and return its reply. Canceling this cancels the call upstream."""
    answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()

    def settle(reply: UpstreamReply) -> None:
        if not answer.done():
            answer.set_result(reply)

    call = make_call(settle)
    upstream.submit(call)
    try:
        return await answer
    except asyncio.CancelledError:
        upstream.cancel(call, "the caller gave up")
        raise


def error_text(reply: UpstreamReply) -> str:
    """Return the error of a server as text: its message and code."""
    try:
        body = json.decode(reply.error) if reply.error is not None else None
    except json.InvalidJson:
        return "unreadable"
    return f"{body.get('message')} ({body.get('code')})" if isinstance(body, dict) else str(body)


MOST_BYTES = 32 << 20
"""Bytes of all results together, since they are one answer. A result beyond that becomes an error."""

Perform = Callable[[Caller, str, dict[str, Any]], Awaitable[Raw]]
"""Calls one tool, after permission and validation, and returns its result. Raises TabaneError."""


class ParallelCalls:
    """Calls several tools, a limited number at a time. The limit of each server still applies."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def execute(self, caller: Caller, params: ExecuteParallel) -> dict[str, Any]:
        """Return the results in the order of the requests: ``{name, ok, result | error, ms}``.

        ``ok`` is False also for a tool that reports a failure: its ``result`` then has ``isError``. The other
        calls are canceled if the caller gives up, at the timeout, and after a failure if
        ``continue_on_error`` is False.
        """
        run = _ParallelRun(params)
        workers = [
            asyncio.ensure_future(self._work(caller, run))
            for _ in range(min(params.max_concurrency, len(params.requests)))
        ]
        try:
            await asyncio.wait(workers, timeout=params.timeout, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _ParallelStopped):
                raise end
        return run.report(caller.lang, stopped=any(isinstance(end, _ParallelStopped) for end in ends))

    async def _work(self, caller: Caller, run: _ParallelRun) -> None:
        for number, request in run.waiting:
            run.started[number] = time.perf_counter()
            try:
                result = await self._perform(caller, request.name, request.arguments)
            except TabaneError as error:
                if isinstance(error, RateLimited):
                    await asyncio.sleep(error.pause)  # the caller ignores that it is over its limits
                run.end(number, False, "error", Raw(rpc.error_of(error, caller.lang)))
            else:
                run.answered(number, result, caller.lang)


class _ParallelStopped(Exception):
    """A call failed, and the remaining ones are not wanted."""


class _ParallelRun:
    """The requests of one execute_parallel and their outcomes."""

    def __init__(self, params: ExecuteParallel) -> None:
        self._params = params
        self.waiting: Iterator[tuple[int, CallTool]] = iter(enumerate(params.requests))
        self.started: dict[int, float] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._bytes = 0

    def answered(self, number: int, result: Raw, lang: Lang) -> None:
        """Note the result of a call, or an error if all results together become too large.

        Raises _ParallelStopped as :meth:`end` does.
        """
        size = memoryview(result).nbytes
        if self._bytes + size > MOST_BYTES:
            error = TabaneError(say(
                "The result ({size} MiB) was left out, because the results of one execute_parallel "
                "may have at most {most} MiB together. The call was made. Call this tool separately.",
                size=-(-size // (1 << 20)), most=MOST_BYTES >> 20))  # fmt: skip
            self.end(number, False, "error", Raw(rpc.error_of(error, lang)))
            return
        self._bytes += size
        self.end(number, not says_failed(result), "result", result)

    def end(self, number: int, ok: bool, kind: str, value: Raw) -> None:
        """Note how a call ended. Raises _ParallelStopped if the others are to be stopped."""
        self._rows[number] = self._row(number, ok, kind, value)
        if not ok and not self._params.continue_on_error:
            raise _ParallelStopped

    def report(self, lang: Lang, *, stopped: bool) -> dict[str, Any]:
        for number in range(len(self._params.requests)):
            if number not in self._rows:
                if stopped and number in self.started:
                    why = say(
                        "Cancelled because another call failed. It is not known whether it took effect."
                    )
                elif stopped:
                    why = say("Not called because another call failed.")
                elif number in self.started:
                    why = say(
                        "Cancelled because the time for all calls ({seconds:g} s) ran out. It is not known "
                        "whether it took effect.",
                        seconds=self._params.timeout,
                    )
                else:
                    why = say(
                        "Not called because the time for all calls ({seconds:g} s) ran out.",
                        seconds=self._params.timeout,
                    )
                error = rpc.error_of(TabaneError(why), lang)
                self._rows[number] = self._row(number, False, "error", Raw(error))
        rows = [self._rows[number] for number in sorted(self._rows)]
        succeeded = sum(row["ok"] for row in rows)
        return {"results": rows, "succeeded": succeeded, "failed": len(rows) - succeeded}

    def _row(self, number: int, ok: bool, kind: str, value: Raw) -> dict[str, Any]:
        started = self.started.get(number)
        ms = 0.0 if started is None else (time.perf_counter() - started) * 1000
        return {"name": self._params.requests[number].name, "ok": ok, kind: value, "ms": round(ms, 1)}


_SPECIAL = re.compile(r"[*?[]")


class ConfiguredTool(NamedTuple):
    """A tool of a server: its public name, and the server's own name for it."""

    alias: str
    server: Server
    name: str
    tool: Tool


class ToolVisibilityOperations:
    """Pins and hides tools, and lists those that are hidden."""

    def __init__(self, gateway: Gateway, file: ReloadableServersFile) -> None:
        self._gateway, self._file = gateway, file

    async def set(self, caller: Caller, params: ToolVisibility) -> dict[str, Any]:
        """Change the servers file and put it in force. Return whether the tool is pinned and hidden now.

        Raises UnknownName, BadArguments for a tool of the hub itself, and ConfigurationError if a pattern of
        several tools decides, or if the file cannot be changed.
        """
        tool = await self._configured(caller, params.name)
        edit = _Edit(tool, params.pinned, params.hidden)
        if params.pinned is not None or params.hidden is not None:
            await asyncio.to_thread(edit_servers, self._file.path, edit.change)
            problem = self._file.reload()
            if problem is not None:
                raise ConfigurationError(problem)
        server = self._gateway.server(tool.server.name)
        return {
            "name": tool.alias,
            "server": server.name,
            "pinned": pinned(server, tool.tool),
            "hidden": not allowed(server, tool.name),
        }

    async def hidden(self, caller: Caller, params: ListHiddenTools) -> dict[str, Any]:
        """Return the tools that servers list and their configuration hides, at most ``limit`` of them."""
        names = [self._gateway.server(params.server).name] if params.server else list(self._gateway.servers)
        found = list(self._hidden(names))
        return {"results": [_row(tool) for tool in found[: params.limit]], "total": len(found)}

    def _hidden(self, names: Iterable[str]) -> Iterator[Tool]:
        for name in names:
            server, listing = self._gateway.servers[name], self._gateway.catalogs.listing(name)
            if server.disabled or listing is None or not (server.deny or server.allow or server.overrides):
                continue
            for definition in listing.lists.get("tools", ()):
                original = original_name(bytes(definition))
                if original is not None and not allowed(server, original):
                    known = self._gateway.catalog.aliases.alias_of(server.name, server.namespace, original)
                    alias = known or f"{server.name}__{original}"
                    if (tool := read_tool(bytes(definition), server, alias)) is not None:
                        yield tool

    async def _configured(self, caller: Caller, name: str) -> ConfiguredTool:
        for tool in self._hidden(list(self._gateway.servers)):
            if tool.alias == name:
                return ConfiguredTool(tool.alias, self._gateway.servers[tool.server], tool.name, tool)
        tool = await self._gateway.lookup.find(caller, name)
        if tool.server == OWN:
            raise BadArguments(
                say(
                    "{name!n} is a tool of Tabane itself. Only tools of servers can be pinned or hidden.",
                    name=name,
                ),
                "name",
            )
        return ConfiguredTool(tool.alias, self._gateway.server(tool.server), tool.name, tool)


class _Edit(NamedTuple):
    """The change of one server's definition."""

    tool: ConfiguredTool
    pinned: bool | None
    hidden: bool | None

    def change(self, servers: Table) -> Message:
        """Change the object of servers in place. Raises ConfigurationError."""
        name = self.tool.server.name
        definition = servers.get(name)
        if not isinstance(definition, dict):
            raise ConfigurationError(say("There is no server {name!n}.", name=name))
        if self.pinned is not None:
            if self.pinned and pinned_by(_texts(definition, "pin"), self.tool.tool) is None:
                _add(definition, "pin", self.tool.name)
            elif not self.pinned:
                self._remove(definition, "pin")
        if self.hidden is not None:
            self._hide(definition, self.hidden)
        lists = {key: definition[key] for key in ("pin", "allow", "deny", "overrides") if key in definition}
        value = dumps(lists, ensure_ascii=False)
        return say("set these keys of the server {name!n}: {value}", name=name, value=value)

    def _hide(self, definition: Table, wanted: bool) -> None:
        if wanted:
            if not _matches(_texts(definition, "deny"), self.tool.name):
                _add(definition, "deny", self.tool.name)
            return
        self._remove(definition, "deny")
        overrides = definition.get("overrides")
        override = overrides.get(self.tool.name) if isinstance(overrides, dict) else None
        if isinstance(override, dict):
            override.pop("hidden", None)
        allow = _texts(definition, "allow")
        if "allow" in definition and not _matches(allow, self.tool.name):
            _add(definition, "allow", self.tool.name)

    def _remove(self, definition: Table, key: str) -> None:
        """Remove the tool from a list. Raises ConfigurationError if a pattern there still names it."""
        name = self.tool.name
        left = [text for text in _texts(definition, key) if text not in (name, _pattern(name))]
        about = pinned_by(left, self.tool.tool) if key == "pin" else None
        if (pattern := about or next((each for each in left if fnmatchcase(name, each)), None)) is not None:
            raise ConfigurationError(
                say(
                    'The pattern "{pattern}" in "{key}" of the server {server!n} names {tool} and '
                    "maybe other tools. Change it in the servers file.",
                    pattern=pattern,
                    key=key,
                    server=self.tool.server.name,
                    tool=self.tool.name,
                )
            )
        if left:
            definition[key] = left
        else:
            definition.pop(key, None)


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.alias,
        "server": tool.server,
        "description": tool.description[:_MOST_DESCRIPTION],
        "pinned": False,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "tokens": tokens(tool.definition),
    }


_MOST_DESCRIPTION = 300


def _add(definition: Table, key: str, name: str) -> None:
    definition[key] = [*_texts(definition, key), _pattern(name)]


def _texts(definition: Table, key: str) -> list[str]:
    """Return a list of the definition. Raises ConfigurationError if it is none of texts."""
    value = definition.get(key, [])
    if key == "pin" and isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigurationError(say('"{key}" must be {allowed}.', key=key, allowed=say("a list of texts")))
    return value


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _pattern(name: str) -> str:
    """Return the pattern that matches this name alone."""
    return _SPECIAL.sub(lambda found: f"[{found[0]}]", name)
