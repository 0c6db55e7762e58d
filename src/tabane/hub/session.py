"""One MCP client: the adapter between its era and the hub's canonical requests.

Direct calls are forwarded from the readiness callback that read them, without a task: the raw data
plane. Whatever needs to wait (searching, a server that is still starting) runs as a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from tabane.errors import CallerError, HubDraining, HubError, TabaneError, UnknownName
from tabane.gateway.paging import SHORT
from tabane.gateway.requests import Inner, inner_call, tool_failure, upstream_failure
from tabane.gateway.upstreams.call import Call, Reply
from tabane.hub.hello import DRAIN
from tabane.messages import Lang, say
from tabane.operations import Caller, Face, Privilege
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.channel import LineChannel
from tabane.wire.era import Era, Refusal
from tabane.wire.json import Frame, Garbage, Members

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool
    from tabane.gateway.upstreams.upstream import Upstream
    from tabane.hub.hub import Hub
    from tabane.settings import Mode

log = logging.getLogger(__name__)

MOST_IN_FLIGHT = 4096
"""Requests of one client at the same time."""

THROUGH = {"call_tool": False, "call_readonly_tool": True}
"""The tools that call another tool, and whether they take read-only ones alone."""


class Session:
    """A client on a line channel, from its first line to its last.

    ``caller`` says who it is, ``mode`` how tools are disclosed to it. ``closed`` is done when it is
    gone and its calls in flight are cancelled. One that ``lingers`` (a client on standard input, as
    opposed to a bridge, which waits itself) is answered what it asked for before its end of file.
    """

    def __init__(
        self, hub: Hub, caller: Caller, mode: Mode, read_fd: int, write_fd: int, *, lingers: bool = False
    ) -> None:
        self.caller, self.mode = caller, mode
        self.closed: asyncio.Future[None] = hub.loop.create_future()
        self.era: Era | None = None
        self._hub, self._loop = hub, hub.loop
        self._calls: dict[bytes, tuple[Call, Upstream]] = {}
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._listens: dict[bytes, None] = {}
        self._told_version = hub.gateway.catalogue.version
        self._methods: dict[str, Callable[[Raw, Members], None]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/get": self._get_tool,
            "subscriptions/listen": self._listen,
        }
        self._channel = LineChannel(
            hub.loop,
            hub.batch,
            read_fd,
            write_fd,
            on_line=self._line,
            on_close=self._close,
            on_oversized=self._oversized,
            on_end=self._linger if lingers else None,
            max_line=hub.settings.max_line,
            max_outbox=hub.settings.outbox,
        )

    def start(self) -> None:
        self._channel.start()

    @property
    def in_flight(self) -> int:
        return len(self._calls) + len(self._tasks)

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not read yet."""
        return self._channel.unsent

    def drain(self) -> None:
        """Ask the bridge at the other end to send no more requests here."""
        self._channel.send(DRAIN)

    def _linger(self) -> None:
        """The client asks nothing more: close when it has had the answers that are still due."""
        if (self.in_flight or self.unsent) and not self._channel.closed:
            self._loop.call_later(0.01, self._linger)
        else:
            self.close("end of file")

    def close(self, why: str) -> None:
        for request_id in list(self._listens):
            self._end_listen(request_id)
        self._channel.flush()
        self._channel.close(why)

    def tools_changed(self) -> None:
        """Tell the client that its list is another now, where it hears that and the list shows it."""
        version = self._hub.gateway.catalogue.version
        if self.mode == "search" or self._channel.closed or version == self._told_version:
            return
        self._told_version = version
        if self.era is Era.LEGACY:
            self._channel.send(json.notification_line("notifications/tools/list_changed"))
        for request_id in self._listens:
            params = {"_meta": Raw(json.join({eras.META_SUBSCRIPTION: Raw(request_id)}))}
            self._channel.send(json.notification_line("notifications/tools/list_changed", json.join(params)))

    # -- lines in --------------------------------------------------------------------------------

    def _line(self, line: bytes) -> None:
        try:
            frame = json.decode_frame(line)
        except Garbage as reason:
            code = eras.INVALID_REQUEST if str(reason) in _NOT_REQUESTS else eras.PARSE_ERROR
            self._error(None, code, f"not a JSON-RPC message: {reason}")
            return
        if frame.method is UNSET:
            if frame.result is UNSET and frame.error is UNSET:
                request_id = None if frame.id is UNSET else frame.id
                self._error(request_id, eras.INVALID_REQUEST, "a request needs a method")
            return
        try:
            params = {} if frame.params is UNSET else json.fields(frame.params)
        except Garbage:
            if frame.id is not UNSET:
                self._error(frame.id, eras.INVALID_PARAMS, "params must be an object")
            return
        if frame.id is UNSET:
            self._notified(str(frame.method), params)
        else:
            self._requested(frame, params)

    def _requested(self, frame: Frame, params: Members) -> None:
        request_id: Raw = frame.id  # type: ignore[assignment]
        method = str(frame.method)
        meta = eras.take_meta(params)
        try:
            self._settle_era(method, meta)
            self._admit(request_id)
            if method == "tools/call":
                self._call_tool(request_id, params, meta)
                return
            handler = self._methods.get(method)
            if handler is None or (self.era is Era.MODERN and method in ("initialize", "ping")):
                raise Refusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")
            handler(request_id, params)
        except Refusal as refusal:
            self._error(request_id, refusal.code, refusal.message, refusal.data)
        except TabaneError as error:
            self._fail(request_id, error)

    def _settle_era(self, method: str, meta: Members) -> None:
        modern = eras.has_envelope(meta)
        if self.era is None:
            modern = modern or method == "server/discover"
            self.era = Era.MODERN if modern and method != "initialize" else Era.LEGACY
        if self.era is Era.MODERN:
            if method == "initialize":
                raise Refusal(
                    eras.UNSUPPORTED_VERSION,
                    f"this connection speaks {eras.MODERN}, which has no initialize",
                    {"supported": [eras.MODERN]},
                )
            eras.check_envelope(meta)
        elif modern:
            raise Refusal(
                eras.INVALID_REQUEST,
                f"this connection was opened by initialize; requests of {eras.MODERN} are not taken on it",
            )

    def _admit(self, request_id: Raw) -> None:
        if self._hub.draining:
            raise HubDraining(say("The hub is stopping. Send the request again in a moment."))
        if self.in_flight >= MOST_IN_FLIGHT:
            raise HubError(say("Too many requests in flight ({count}).", count=MOST_IN_FLIGHT))
        key = bytes(request_id)
        if key == b"null" or key in self._calls or key in self._tasks:
            raise Refusal(eras.INVALID_REQUEST, f"the id {key.decode()} is null or in use")

    def _notified(self, method: str, params: Members) -> None:
        if method == "notifications/cancelled":
            request_id = bytes(params.get("requestId", b""))
            reason = json.text(params.get("reason")) or "the client cancelled"
            self._cancel(request_id, reason)

    def _cancel(self, request_id: bytes, reason: str) -> None:
        entry = self._calls.pop(request_id, None)
        if entry:
            call, upstream = entry
            upstream.cancel(call, reason)
        task = self._tasks.pop(request_id, None)
        if task:
            task.cancel()
        self._end_listen(request_id)

    # -- methods ---------------------------------------------------------------------------------

    def _initialize(self, request_id: Raw, params: Members) -> None:
        info = params.get("clientInfo")
        self._client(info)
        result = {
            "protocolVersion": eras.negotiate(json.text(params.get("protocolVersion"))),
            "capabilities": self._capabilities(),
            "serverInfo": self._hub.info,
            "instructions": self._hub.instructions(self.mode),
        }
        self._answer(request_id, json.encode(result))

    def _discover(self, request_id: Raw, params: Members) -> None:
        result = {
            "supportedVersions": [eras.MODERN],
            "capabilities": self._capabilities(),
            "instructions": self._hub.instructions(self.mode),
            "ttlMs": 60_000,
            "cacheScope": "public",
            "resultType": "complete",
            "_meta": {eras.META_SERVER: self._hub.info},
        }
        self._answer(request_id, json.encode(result))

    def _ping(self, request_id: Raw, params: Members) -> None:
        self._answer(request_id, b"{}")

    def _list_tools(self, request_id: Raw, params: Members) -> None:
        cursor = params.get("cursor")
        if cursor is not None and bytes(cursor) not in (b"null", b'""'):
            raise Refusal(eras.INVALID_PARAMS, "cursor: the list has one page; send none")
        if self._hub.list_is_ready(self.mode):
            self._give_list(request_id)
        else:
            self._run(request_id, self._list_when_ready(request_id))

    async def _list_when_ready(self, request_id: Raw) -> None:
        await self._hub.gateway.wait_listed(self.caller)
        self._give_list(request_id)

    def _give_list(self, request_id: Raw) -> None:
        self._told_version = self._hub.gateway.catalogue.version
        self._answer(request_id, self._hub.tool_list(self.mode, self.era))

    def _get_tool(self, request_id: Raw, params: Members) -> None:
        name = json.text(params.get("name"))
        if name is None:
            raise Refusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
        self._run(request_id, self._get_when_ready(request_id, name))

    async def _get_when_ready(self, request_id: Raw, name: str) -> None:
        definition = await self._hub.definition(self.caller, name)
        self._answer(request_id, b'{"tool":' + definition + b"}")

    def _listen(self, request_id: Raw, params: Members) -> None:
        wanted = json.fields(params["notifications"]) if "notifications" in params else {}
        granted = {"toolsListChanged": True} if bytes(wanted.get("toolsListChanged", b"")) == b"true" else {}
        if len(self._listens) >= 16:
            raise HubError(say("Too many subscriptions on one connection."))
        self._listens[bytes(request_id)] = None
        note = {
            "_meta": Raw(json.join({eras.META_SUBSCRIPTION: request_id})),
            "notifications": Raw(json.encode(granted)),
        }
        line = json.notification_line("notifications/subscriptions/acknowledged", json.join(note))
        self._channel.send(line)

    def _end_listen(self, request_id: bytes) -> None:
        if request_id in self._listens:
            del self._listens[request_id]
            meta = json.join({eras.META_SUBSCRIPTION: Raw(request_id)})
            self._answer(Raw(request_id), b'{"_meta":' + meta + b"}")

    # -- tools/call ------------------------------------------------------------------------------

    def _call_tool(self, request_id: Raw, params: Members, meta: Members) -> None:
        name = json.text(params.get("name"))
        if name is None:
            raise Refusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
        if name in THROUGH:
            self._call_through(request_id, name, params, meta)
        elif (operation := self._hub.table.get(name)) and Face.MCP in operation.faces:
            self._run(request_id, self._operate(request_id, name, params.get("arguments")))
        else:
            tool = self._hub.gateway.catalogue.find(name)
            inner = Inner(name, params)
            if tool is None:
                self._run(request_id, self._forward_later(request_id, inner, meta, through=False))
            else:
                self._forward(request_id, tool, inner, meta, through=False)

    def _call_through(self, request_id: Raw, by: str, params: Members, meta: Members) -> None:
        """call_tool and call_readonly_tool: failures are results, so that the model reads them."""
        try:
            inner = inner_call(params, read_only=THROUGH[by])
            tool = self._hub.gateway.catalogue.find(inner.name)
            if tool is None:
                self._run(request_id, self._forward_later(request_id, inner, meta, through=True))
            else:
                self._check(tool, inner)
                self._forward(request_id, tool, inner, meta, through=True)
        except TabaneError as error:
            self._tool_failed(request_id, error)

    async def _forward_later(self, request_id: Raw, inner: Inner, meta: Members, *, through: bool) -> None:
        try:
            tool = await self._hub.gateway.find(self.caller, inner.name)
            if through:
                self._check(tool, inner)
            self._tasks.pop(bytes(request_id), None)
            self._forward(request_id, tool, inner, meta, through=through)
        except TabaneError as error:
            if not through:
                raise
            self._tool_failed(request_id, error)

    def _check(self, tool: Tool, inner: Inner) -> None:
        inner.check_marks(tool)
        self._hub.gateway.validator.check(tool, inner.arguments)

    def _forward(self, request_id: Raw, tool: Tool, inner: Inner, meta: Members, *, through: bool) -> None:
        hub, key = self._hub, bytes(request_id)
        hub.door.check(self.caller, Privilege.CALL, tool.alias)
        token = meta.get("progressToken")
        call = Call(
            b"tools/call",
            inner.params_for(tool),
            meta,
            lambda reply: self._replied(key, tool, reply, through),
            (lambda members: self._progressed(token, members)) if token is not None else None,
            hub.gateway.servers[tool.server].timeout if tool.server in hub.gateway.servers else 30.0,
        )
        upstream = hub.gateway.route(self.caller, tool)
        self._calls[key] = (call, upstream)
        upstream.submit(call)

    def _replied(self, key: bytes, tool: Tool, reply: Reply, through: bool) -> None:
        self._calls.pop(key, None)
        result = reply.result
        if result is None:
            self._unanswered(key, tool, reply, through)
            return
        if through and len(result) > SHORT:
            result = self._hub.in_parts(self.caller, tool, result)
        if self.era is Era.MODERN:
            self._channel.send(json.result_line(key, eras.completed(result)))
        elif reply.era is Era.MODERN and eras.result_type(result) not in (None, "complete"):
            self._tool_failed_or_error(key, _question(tool), through)
        else:
            self._channel.send(json.result_line(key, result))

    def _unanswered(self, key: bytes, tool: Tool, reply: Reply, through: bool) -> None:
        if reply.failure is not None:
            self._tool_failed_or_error(key, reply.failure, through)
        elif reply.error is not None and through:
            self._answer(Raw(key), upstream_failure(tool, reply.error))
        elif reply.error is not None:
            self._channel.send(json.error_line(key, reply.error))

    def _progressed(self, token: Raw, members: Members) -> None:
        params = json.join({**members, "progressToken": token})
        self._channel.send(json.notification_line("notifications/progress", params))

    async def _operate(self, request_id: Raw, name: str, arguments: Raw | None) -> None:
        """A built-in tool, through the door. Its failures are results: the model is to read them."""
        try:
            value = await self._hub.door.invoke(self.caller, name, arguments or b"{}")
        except UnknownName as error:
            raise Refusal(eras.INVALID_PARAMS, error.text(self.lang)) from None
        except TabaneError as error:
            self._tool_failed(request_id, error)
            return
        if isinstance(value, Raw):
            # A tool's own result, to be passed on as it is.
            self._answer(request_id, bytes(value))
            return
        operation = self._hub.table.get(name)
        render = operation.text if operation else None
        text = render(value, self.lang) if render else json.encode(value).decode()
        self._answer(request_id, json.encode({"content": [{"type": "text", "text": text}], "isError": False}))

    # -- answers ---------------------------------------------------------------------------------

    @property
    def lang(self) -> Lang:
        return self.caller.lang

    def _answer(self, request_id: Raw, result: bytes) -> None:
        if self.era is Era.MODERN:
            result = eras.completed(result)
        self._channel.send(json.result_line(request_id, result))

    def _error(self, request_id: Raw | bytes | None, code: int, message: str, data: Any = None) -> None:
        self._channel.send(json.error_line(request_id, json.error_object(code, message, data)))

    def _fail(self, request_id: Raw | bytes, error: TabaneError) -> None:
        data: dict[str, Any] = {"reason": error.reason} if error.reason else {}
        if isinstance(error, UnknownName) and error.near:
            data["near"] = list(error.near)
        self._error(request_id, error.code, error.text(self.lang), data or None)

    def _tool_failed(self, request_id: Raw, error: TabaneError) -> None:
        self._answer(request_id, tool_failure(error, self.lang))

    def _tool_failed_or_error(self, key: bytes, error: TabaneError, through: bool) -> None:
        if through:
            self._tool_failed(Raw(key), error)
        else:
            self._fail(key, error)

    def _oversized(self, head: bytes) -> None:
        megabytes = self._hub.settings.max_line >> 20
        self._error(json.id_in(head), eras.INVALID_REQUEST, f"a message may have {megabytes} MiB at most")

    def _run(self, request_id: Raw, work: Awaitable[None]) -> None:
        key = bytes(request_id)
        self._tasks[key] = self._loop.create_task(self._guard(request_id, work))

    async def _guard(self, request_id: Raw, work: Awaitable[None]) -> None:
        key = bytes(request_id)
        try:
            await work
        except Refusal as refusal:
            self._error(request_id, refusal.code, refusal.message, refusal.data)
        except TabaneError as error:
            self._fail(request_id, error)
        except Exception:
            log.exception("a request failed")
            self._error(request_id, eras.INTERNAL_ERROR, "internal error; see the hub's log: tabane logs")
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    def _capabilities(self) -> dict[str, Any]:
        return {"tools": {"listChanged": self.mode != "search"}}

    def _client(self, info: Raw | None) -> None:
        name = json.text(json.fields(info).get("name")) if info is not None else None
        if name:
            log.info("session %s is %s", self.caller.session, name[:100])

    def _close(self, why: str) -> None:
        for call, upstream in self._calls.values():
            upstream.cancel(call, "the client is gone")
        for task in self._tasks.values():
            task.cancel()
        self._calls.clear()
        self._listens.clear()
        self._hub.left(self)
        if not self.closed.done():
            self.closed.set_result(None)


_NOT_REQUESTS = frozenset({"not an object", "method is not a string"})


def _question(tool: Tool) -> CallerError:
    return CallerError(say(
        "{tool} wants to ask you something, which your client's protocol version cannot carry from "
        "this server. Give all it needs in the arguments.", tool=tool.alias))  # fmt: skip
