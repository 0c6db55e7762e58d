"""Requests of tools/call: built-in tools, tools of upstreams, and tools called through call_tool.

A call that has to wait for nothing is forwarded by the readiness callback that read it, without a task.
What has to wait (a search, a server that is still starting) becomes a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.catalog.result_parts import SHORT
from tabane.catalog.tools.app_metadata import shown_result
from tabane.catalog.tools.tool import (
    OWN,
    Tool,
    ToolCallRequest,
    check_size,
    tool_call_request,
    tool_failure,
    upstream_failure,
)
from tabane.code.table import RUN
from tabane.errors import (
    BadArguments,
    CallerError,
    CodeMissing,
    Forbidden,
    HubDraining,
    TabaneError,
    UnknownName,
)
from tabane.hub.clients.asking import ApprovedRounds
from tabane.hub.clients.disclosure import DISCLOSING
from tabane.hub.clients.session import Session, wait_turn
from tabane.hub.clients.task_calls import OpenToolCall, TaskCalls, TaskParts
from tabane.hub.work.scripts import HubScripts
from tabane.messages import Lang, say
from tabane.operations import Caller, Door, Face, Operation, ended
from tabane.operations.door import GuardedCall
from tabane.operations.metering import FailureReason, failure_reason
from tabane.upstreams.call import UpstreamReply
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.tasks import may_be_task
from tabane.workers.eager_start import own_task
from tabane.workers.time_slices import Pause, no_pause, thread_slices

if TYPE_CHECKING:
    from tabane.catalog.tool_search import ToolSearchResult
    from tabane.upstreams.upstream import Upstream

log = logging.getLogger(__name__)


LARGE = 1 << 20
"""Bytes of a result above which its answer is made in a thread."""

BRIEF = 64 << 10
"""Bytes above which the answer is made in a thread if its result may be split into parts: more work."""

THROUGH = {"call_tool": False, "call_readonly_tool": True}
"""The tools that call another tool, and whether they take read-only tools only."""


class ToolCalls:
    """Answers tools/call of every session."""

    def __init__(
        self,
        gateway: Gateway,
        door: Door,
        long_results: LongResults,
        tasks: TaskParts,
        scripts: HubScripts,
    ) -> None:
        self._gateway, self._door, self._long_results = gateway, door, long_results
        self._settings = tasks.settings
        self._scripts = scripts
        self._tasks = TaskCalls(tasks, self._give_final)
        self._rounds = ApprovedRounds()

    async def call(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer tools/call. Raises ProtocolRefusal, and TabaneError of a direct call."""
        name = json.text(params.get("name"))
        if name is None:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
        if name in THROUGH:
            try:
                inner = tool_call_request(params, read_only=THROUGH[name])
                await self._call_through(session, request_id, inner, meta)
            except TabaneError as error:  # a result, so that the model reads it
                _answer_failure(session, request_id, error)
        elif (operation := self._door.table.get(name)) is not None and self._is_shown(operation, name):
            arguments = params.get("arguments")
            await self._call_own_tool(session, request_id, name, operation, arguments, meta)
        else:
            inner = ToolCallRequest(name, params)
            tool = self._known(session, name) or await self._find(
                session, request_id, inner, meta, through=False
            )
            await self._forward(session, request_id, tool, inner, meta, through=False)

    async def call_known(
        self, session: Session, request_id: Raw, tool: Tool, params: Members, meta: Members
    ) -> None:
        """Answer a direct call of a server's tool, under whatever name it was called. Raises TabaneError."""
        if needs_roots(session, self._gateway, tool.server):
            await learn_roots(session)
        inner = ToolCallRequest(tool.alias, params)
        await self._forward(session, request_id, tool, inner, meta, through=False)

    def _is_shown(self, operation: Operation, name: str) -> bool:
        """Return whether clients have that tool; by an old name only if no server has one of that name."""
        hidden = operation.alias_of and self._gateway.catalog.get(name) is not None
        return Face.MCP in operation.faces and not hidden

    async def _call_through(
        self, session: Session, request_id: Raw, inner: ToolCallRequest, meta: Members
    ) -> None:
        """Call a tool that call_tool or call_readonly_tool names. Raises TabaneError."""
        if inner.name in DISCLOSING and inner.name not in THROUGH:  # listed, but called through call_tool
            through = inner if inner.name == RUN else None  # the others change nothing
            name = inner.name
        else:
            tool = self._known(session, inner.name) or await self._find(
                session, request_id, inner, meta, through=True
            )
            if inner.read_only:
                inner.check_marks(tool)
            inner.check_model(tool)
            if (judged := self._gateway.validator.check(tool, inner.arguments)) is not None:
                await judged
            if tool.server != OWN:
                await self._forward(session, request_id, tool, inner, meta, through=True)
                return
            through, name = inner, tool.alias
        arguments, operation = Raw(inner.arguments), self._door.table.get(name)
        await self._call_own_tool(session, request_id, name, operation, arguments, meta, through)

    def _known(self, session: Session, name: str) -> Tool | None:
        """Return the tool of that name, unless something has to be asked or waited for before."""
        tool = self._gateway.catalog.find(name)
        if tool is None or not session.caller.access.allows(tool.target):
            return None
        return None if needs_roots(session, self._gateway, tool.server) else tool

    async def _find(
        self, session: Session, request_id: Raw, inner: ToolCallRequest, meta: Members, *, through: bool
    ) -> Tool:
        """Return the tool of a call. If the caller may not find it, the call is recorded as refused.

        Raises UnknownName.
        """
        if needs_roots(session, self._gateway, None):
            await learn_roots(session)
        try:
            return await self._gateway.lookup.find(session.caller, inner.name)
        except UnknownName:
            if not through:
                pinned = session.mode == "search"
                for_app = self._gateway.lookup.find_for_app(session.caller, inner.name, pinned=pinned)
                if for_app is not None:
                    return for_app
            hidden = self._gateway.catalog.find(inner.name)
            if hidden is not None:
                key = bytes(request_id).decode()
                with contextlib.suppress(Forbidden):
                    caller = session.caller_of(meta)
                    self._door.admit(caller, hidden.target, inner.arguments, key).end("cancelled")
            raise

    async def _forward(
        self,
        session: Session,
        request_id: Raw,
        tool: Tool,
        inner: ToolCallRequest,
        meta: Members,
        *,
        through: bool,
    ) -> None:
        """Admit a call, and send it when it is its turn. Raises TabaneError."""
        key = bytes(request_id)
        repeats = "requestState" in inner.params or "inputResponses" in inner.params
        judged = repeats and self._goes_on(session, tool, inner)
        caller = session.caller_of(meta) if meta else session.caller
        opened = self._door.admit(caller, tool.target, inner.arguments, key.decode(), judged=judged)
        guarded = judged or isinstance(opened, GuardedCall)
        call = OpenToolCall(session, key, tool, opened, through, inner, meta, guarded)
        if opened.waits is not None:
            await wait_turn(opened)
        try:
            if "requestState" in inner.params and (parked := self._tasks.resumed(call)) is not None:
                self._tasks.resume(call, parked)
                return
            upstream = self._gateway.route(session.caller, tool)
            if (plan := self._tasks.plan(session, tool, inner, meta)) is not None:
                self._tasks.send(call, plan, upstream)
                return
            session.calls.send(
                key,
                upstream,
                b"tools/call",
                inner.params_for(tool),
                meta,
                partial(self._take_reply, call, upstream),
                name=tool.alias,
                opened=opened,
                mirrored=tool.mirrored,
                safe=tool.repeatable,
            )
        except TabaneError as error:
            opened.end("failed", reason=failure_reason(error))
            raise

    def _goes_on(self, session: Session, tool: Tool, inner: ToolCallRequest) -> bool:
        """Return whether a request only goes on with a call: parked, a task by now, or asked about."""
        params = inner.params_for(tool)
        parked = self._tasks.goes_on(inner) or session.calls.continues(b"tools/call", params, tool.alias)
        return parked or self._rounds.goes_on(session, tool, inner)

    def _take_reply(self, call: OpenToolCall, upstream: Upstream, reply: UpstreamReply) -> None:
        """Give the reply to a plain call, unless its server answered with a task, or wants to."""
        result = reply.result
        unusual = reply.error is not None if result is None else may_be_task(result)
        if not (unusual and self._tasks.takes(call, reply, upstream)):
            call.session.start(call.key, self._give(call, reply), len(result or b""))

    def _give_final(self, call: OpenToolCall, reply: UpstreamReply) -> None:
        call.session.start(call.key, self._give(call, reply), len(reply.result or b""))

    async def _give(self, call: OpenToolCall, reply: UpstreamReply) -> None:
        """Record the end of a call, then give its reply."""
        session, key, result = call.session, call.key, reply.result
        try:
            if call.guarded:
                self._rounds.note(session, call.tool, call.inner, reply)
            if result is None:
                recorded = call.opened.end("failed", reason=failure_of(reply))
                if recorded is not None:
                    await recorded
                _answer_without_result(session, key, call.tool, reply, call.through)
                return
            size = len(result)
            if most := call.opened.most:
                check_size(call.tool, size, most)
            if size > (BRIEF if call.through else LARGE):
                result, first_part, line = await self._encode_large(call, reply.era, result)
            else:
                first_part = result = shown(session, call.tool.server, result)
                if call.through and size > SHORT:
                    first_part = self._long_results.first_part(
                        session.caller, result, self._result_tokens(call.tool), (call.tool.target,)
                    )
                line = answer_line(key, session.era, reply.era, first_part)
            if (recorded := call.end(result, first_part)) is not None:
                await recorded
        except TabaneError as error:  # the call cannot be recorded, or its result is too large
            if (recorded := call.opened.end("failed", reason=failure_reason(error))) is not None:
                await recorded
            _fail_call(session, key, error, call.through)
            return
        if line is not None:
            session.give(key, line)
        else:
            note_question(call.tool.server)
            _fail_call(session, key, question_of(call.tool.alias), call.through)

    async def _encode_large(self, call: OpenToolCall, era: Era, result: Raw) -> tuple[Raw, Raw, bytes | None]:
        """Return a large result as it is shown, its first part, and its line.

        A thread encodes it, so that no other client waits for it.
        """
        session = call.session
        async with ended(call.opened):
            first_part = result = await asyncio.to_thread(
                shown, session, call.tool.server, result, thread_slices()
            )
            if call.through:
                tokens = self._result_tokens(call.tool)
                origins = (call.tool.target,)
                first_part = await self._long_results.first_part_of_large(
                    session.caller, result, tokens, origins
                )
            line = await asyncio.to_thread(answer_line, call.key, session.era, era, first_part)
        return result, first_part, line

    async def _call_own_tool(
        self,
        session: Session,
        request_id: Raw,
        name: str,
        operation: Operation | None,
        arguments: Raw | None,
        meta: Members,
        through: ToolCallRequest | None = None,
    ) -> None:
        """Call a built-in tool. Its failures are results, so that the model can read them.

        ``through`` is the call of call_tool or call_readonly_tool that contains this call.
        """
        await own_task()  # the handlers of operations may need it
        caller = session.caller_of(meta)
        if through and through.read_only:
            caller = structs.replace(caller, looks=True)
        try:
            given = arguments or Raw(b"{}")
            result = await self._result(session, request_id, caller, name, operation, given, meta)
        except UnknownName as error:
            raise ProtocolRefusal(eras.INVALID_PARAMS, error.text(session.caller.lang)) from None
        except TabaneError as error:
            strict = through is None and operation is not None and operation.strict
            if strict and isinstance(error, BadArguments) and eras.refuses_arguments(session.version):
                raise ProtocolRefusal(eras.INVALID_PARAMS, error.text(session.caller.lang)) from None
            result = as_failure(operation, error, session.caller.lang)
            session.refused(request_id, error, session.result_line(request_id, result))
            return
        except ImportError as error:
            unbegun = isinstance(error, CodeMissing) or (operation is not None and operation.read_only)
            if (old := await session.replaced(error, begun=not unbegun)) is None:
                raise
            if isinstance(old, HubDraining):
                session.fail(request_id, old)
                return
            log.exception("%s failed", name)
            result = as_failure(operation, old, session.caller.lang)
        session.answer(request_id, result)

    async def _result(
        self,
        session: Session,
        request_id: Raw,
        caller: Caller,
        name: str,
        operation: Operation | None,
        arguments: Raw,
        meta: Members,
    ) -> bytes:
        """Call a built-in tool, and return its result as a client sees it. Raises TabaneError."""
        from tabane.catalog.offer_search import offered_line
        from tabane.catalog.tools.disclosure import DOUBTFUL, unlisted_lines

        key = bytes(request_id).decode()
        values: list[Any] = []

        def render(value: Any) -> bytes:
            values.append(value)
            return as_result(operation, value, caller.lang)

        if name == RUN:
            # Loaded with the first script.
            from tabane.hub.clients.script_requests import ScriptRequests

            caller = structs.replace(caller, request=key)
            scripts = ScriptRequests(self._scripts, self._door, self._long_results, self._settings)
            return await scripts.answer(session, bytes(request_id), caller, arguments, meta, render, values)
        result = await self._door.respond(caller, operation or name, arguments, render, request=key)
        if session.mode == "code" and name == "search_tools":
            found: ToolSearchResult = values[0]
            names = [row["name"] for row in found.results if row.get("kind", "tools") == "tools"]
            if typed := await self._scripts.signatures(caller, names):
                offers = [offered_line(row) for row in found.results if row.get("kind", "tools") != "tools"]
                lines = unlisted_lines(found.waiting, [*found.failed.values()], caller.lang)
                head = [DOUBTFUL.render(caller.lang)] if found.doubtful else []
                text = "\n".join([*head, typed, *offers, *lines, *found.notices])
                return json.encode({"content": [_text_block(text)], "isError": False})
        return result

    def _result_tokens(self, tool: Tool) -> int:
        server = self._gateway.servers.get(tool.server)
        return (server.max_result_tokens if server else None) or self._settings().result_tokens


def needs_roots(session: Session, gateway: Gateway, server: str | None) -> bool:
    """Return whether a client has to name its folders, which decide what instance of a server serves it.

    None stands for any server.
    """
    asking = session.questions
    return asking is not None and asking.roots_due and gateway.goes_by_roots(server)


async def learn_roots(session: Session) -> None:
    """Let a client name its folders, unless it is asked already."""
    await own_task()
    if session.questions is not None and session.questions.roots_due:
        await session.questions.learn_roots()


def shown(session: Session, server: str, result: Raw, pause: Pause = no_pause) -> Raw:
    """Return a result with the addresses of its server's pages as the client knows them."""
    return result if session.caller.server else shown_result(server, result, pause)


def failure_of(reply: UpstreamReply) -> FailureReason:
    """Return why there is no result."""
    if reply.failure is not None:
        return failure_reason(reply.failure)
    return FailureReason("the server answered with an error", "protocol_error")


def answer_line(key: bytes, era: Era | None, given: Era, result: Raw) -> bytes | None:
    """Make the answer to a client of one era from the result of a server of another; None for a question."""
    if era is Era.MODERN:
        return json.result_line(key, eras.completed(result))
    if given is Era.MODERN and eras.result_type(result) not in (None, "complete"):
        return None
    return json.result_line(key, result)


def _answer_without_result(
    session: Session, key: bytes, tool: Tool, reply: UpstreamReply, through: bool
) -> None:
    if reply.error is not None and session.era is Era.LEGACY and wants_capability(reply.error):
        note_question(tool.server)
    if reply.failure is not None:
        _fail_call(session, key, reply.failure, through)
    elif reply.error is not None and through:
        session.answer(Raw(key), upstream_failure(tool, reply.error))
    elif reply.error is not None:
        session.give(key, json.error_line(key, reply.error), ok=False)


def _answer_failure(session: Session, request_id: Raw, error: TabaneError) -> None:
    result = tool_failure(error, session.caller.lang)
    session.refused(request_id, error, session.result_line(request_id, result))


def _fail_call(session: Session, key: bytes, error: TabaneError, through: bool) -> None:
    if through:
        _answer_failure(session, Raw(key), error)
    else:
        session.fail(key, error)


def note_question(server: str) -> None:
    """Log that a question could not be put."""
    log.warning(
        "%s has to ask its client something, but the client has not declared that it can be asked", server,
        extra={"server": server},
    )  # fmt: skip


def wants_capability(error: Raw) -> bool:
    """Return whether a modern server's error says that it cannot ask the client what it has to."""
    try:
        return json.fields(error).get("code") == Raw(b"%d" % eras.MISSING_CAPABILITY)
    except InvalidJson:
        return False


def question_of(name: str) -> CallerError:
    """Return the error for a question that this client's protocol version cannot carry."""
    return CallerError(say(

            "{tool} asks you a question, which your client's protocol version cannot carry "
            "from this server. Give everything it needs in the arguments.", tool=name))  # fmt: skip


def as_result(operation: Operation | None, value: Any, lang: Lang) -> bytes:
    """Return a result of an operation as a tool's: text for a model, and the structure that it declares."""
    if isinstance(value, Raw):
        return bytes(value)  # an upstream's own result, to be passed on as it is
    if operation is None:
        return json.encode({"content": [_text_block(json.encode(value).decode())], "isError": False})
    if operation.content:
        content = operation.content(value, lang)
    else:
        content = [
            _text_block(operation.text(value, lang) if operation.text else json.encode(value).decode())
        ]
    failed = operation.failed is not None and operation.failed(value)
    result: dict[str, Any] = {"content": content, "isError": failed}
    if operation.structured:
        result["structuredContent"] = operation.structured(value, lang)
    return json.encode(result)


def as_failure(operation: Operation | None, error: TabaneError, lang: Lang) -> bytes:
    """Return a failure of an operation as a tool's result, so that the model reads it."""
    if operation is None or operation.failure is None:
        return tool_failure(error, lang)
    return json.encode({"content": [_text_block(operation.failure(error, lang))], "isError": True})


def _text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
