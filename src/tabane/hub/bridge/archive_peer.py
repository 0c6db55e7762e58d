"""MCP for a server that only has the archive's JSON-RPC methods, such as the original twilog server.

The bridge itself answers the handshake and the list of tools. A call becomes a request to the server, and
its result the text that a hub would return. This module is loaded only for such a server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from tabane.build import this_build
from tabane.errors import TabaneError
from tabane.hub.bridge.ledger import canonical
from tabane.hub.bridge.websocket_peer import WebSocketPeer
from tabane.messages import Lang, Message, say
from tabane.operations import Operation
from tabane.operations.door import decode_params
from tabane.operations.operation import input_schema
from tabane.posts.table import PostRows, posts_table
from tabane.wire import era as eras
from tabane.wire import websocket

TOOLS = (
    "search_similar",
    "search_posts_by_text",
    "get_user_stats",
    "get_database_stats",
    "suggest_users",
    "get_status",
    "embed_text",
)

_SETTINGS = ("top_k", "user_filter", "date_filter")
_OURS = frozenset({"tags", "log_type", "diversity"})
"""Parameters that the original server does not know."""

_POST = {"content": "", "timestamp": "", "url": "", "user": ""}
_ASKED = {"search_similar": "query", "search_posts_by_text": "search_term"}


class _ArchiveCall(NamedTuple):
    """A tool call in flight: the id of the client's request, and its method."""

    id: bytes
    operation: Operation
    arguments: dict[str, Any]
    modern: bool


class ArchivePeer(WebSocketPeer):
    """Takes lines of MCP and returns lines of MCP; the connection itself carries JSON-RPC."""

    translates = True

    def __init__(self, fd: int, max_line: int, lang: str) -> None:
        super().__init__(fd, max_line)
        self._lang: Lang = "ja" if lang == "ja" else "en"

        def nowhere() -> NoReturn:
            raise AssertionError("the archive of another server is not opened here")

        table = posts_table(nowhere)
        self._operations = {operation.name: operation for operation in table if operation.name in TOOLS}
        self._calls: dict[int, _ArchiveCall] = {}
        self._count = 0
        self._answers: list[bytes] = []
        note = say(
            "This server offers only the tools of the archive. If it is a hub, set TABANE_TOKEN to "
            "the contents of the file token in its TABANE_HOME to use all tools."
        )
        print(f"tabane: {note.render(self._lang)}", file=sys.stderr, flush=True)

    def answered(self) -> list[bytes]:
        lines, self._answers = self._answers, []
        return lines

    def send(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(b"null", eras.PARSE_ERROR, "not a JSON-RPC message")
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict):
                self._take(one, line)

    def received(self, message: bytes) -> list[bytes]:
        try:
            answer = json.loads(message)
        except (ValueError, RecursionError):
            return []
        number = answer.get("id") if isinstance(answer, dict) else None
        call = self._calls.pop(number, None) if isinstance(number, int) else None
        return [] if call is None else [self._result_of(call, answer)]

    # -- requests of the client ------------------------------------------------------------------

    def _take(self, message: dict[str, Any], line: bytes) -> None:
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            return
        if "id" not in message:
            if method == "notifications/cancelled":
                self._forget(params.get("requestId"))
            return
        request_id = canonical(message["id"])
        if method == "tools/call":
            self._call(request_id, params, line)
            return
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "initialize": _initialize,
            "server/discover": _discover,
            "ping": lambda params: {},
            "logging/setLevel": lambda params: {},
            "tools/list": self._list,
        }
        if method in answers:
            self._answer(request_id, answers[method](params), _is_modern(params))
        else:
            self._refuse(request_id, eras.METHOD_NOT_FOUND, f"Method not found: {method[:200]}")

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        tools = [_definition(operation) for operation in self._operations.values()]
        return {"tools": tools, **({"ttlMs": 60_000, "cacheScope": "private"} if _is_modern(params) else {})}

    def _call(self, request_id: bytes, params: dict[str, Any], line: bytes) -> None:
        name, modern = params.get("name"), _is_modern(params)
        operation = self._operations.get(name) if isinstance(name, str) else None
        if operation is None:
            known = ", ".join(self._operations)
            self._refuse(request_id, eras.INVALID_PARAMS, f"Unknown tool: {str(name)[:200]}. Tools: {known}")
            return
        arguments = params.get("arguments") or {}
        try:
            decode_params(operation, json.dumps(arguments).encode())
        except TabaneError as error:
            self._answer(request_id, _failed_result(error.text(self._lang)), modern)
            return
        asked = _ASKED.get(operation.name)
        if asked is not None and not arguments[asked].strip():
            message = say("{parameter}: the search query is empty.", parameter=asked)
            self._answer(request_id, _failed_result(message.render(self._lang)), modern)
            return
        self._count += 1
        self._calls[self._count] = _ArchiveCall(request_id, operation, arguments, modern)
        params = _params(arguments, operation)
        wanted = {"jsonrpc": "2.0", "id": self._count, "method": operation.name, "params": params}
        self._frame(json.dumps(wanted).encode(), websocket.TEXT, line)

    def _forget(self, request_id: object) -> None:
        name = canonical(request_id)
        for number in [number for number, call in self._calls.items() if call.id == name]:
            del self._calls[number]

    # -- answers to the client --------------------------------------------------------------------

    def _result_of(self, call: _ArchiveCall, answer: dict[str, Any]) -> bytes:
        if "error" in answer:
            error = answer["error"]
            why = error.get("message") if isinstance(error, dict) else error
            message = say("The server answered with an error: {why}", why=why)
            return _line(call.id, _failed_result(message.render(self._lang)), call.modern)
        result, warning = answer.get("result"), str(answer.get("warning") or "")
        render = call.operation.text
        try:
            assert render is not None  # every tool has one
            text = render(_completed_result(call, result, warning), self._lang)
        except (AttributeError, KeyError, TypeError, ValueError):  # the server returns another form
            text = json.dumps(result, ensure_ascii=False, indent=2)
        return _line(call.id, {"content": [{"type": "text", "text": text}], "isError": False}, call.modern)

    def _answer(self, request_id: bytes, result: dict[str, Any], modern: bool) -> None:
        self._answers.append(_line(request_id, result, modern))

    def _refuse(self, request_id: bytes, code: int, text: str) -> None:
        error = json.dumps({"code": code, "message": text}).encode()
        self._answers.append(b'{"jsonrpc":"2.0","id":' + request_id + b',"error":' + error + b"}")


def _definition(operation: Operation) -> dict[str, Any]:
    schema = input_schema(operation.params)
    schema["properties"] = {name: part for name, part in schema["properties"].items() if name not in _OURS}
    return {
        "name": operation.name,
        "description": operation.description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
    }


def _params(arguments: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Return the parameters of the original's method: its filters are one object."""
    values = {name: value for name, value in arguments.items() if value is not None}
    values.pop("websocket_url", None)
    values.pop("remove_duplicates", None)
    if operation.name != "search_similar":
        return values
    settings = {**(values.pop("settings", None) or {})}
    settings |= {name: values.pop(name) for name in _SETTINGS if name in values}
    return {**values, **({"settings": settings} if settings else {})}


def _completed_result(call: _ArchiveCall, result: Any, warning: str) -> Any:
    """Return a result with fields that the text needs and an older server leaves out."""
    if call.operation.name == "search_similar":
        rows: Sequence[Any] = [{**row, "post": _POST | _with_known_fields(row["post"])} for row in result]
    elif call.operation.name == "search_posts_by_text":
        rows = [_POST | _with_known_fields(row) for row in result]
    elif call.operation.name == "get_user_stats":
        rows = result
    elif call.operation.name == "get_status":
        counts = dict.fromkeys(("total_posts", "total_users", "total_summaries", "total_tags"), 0)
        return {"ready": False, "server_type": "", "model": None, **result,
                "data_stats": counts | result.get("data_stats", {})}  # fmt: skip
    else:
        return result
    asked = str(call.arguments.get(_ASKED.get(call.operation.name, ""), ""))
    return PostRows(rows, asked, Message(warning) if warning else None)


def _with_known_fields(post: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in post.items() if value is not None}


def _initialize(params: dict[str, Any]) -> dict[str, Any]:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": eras.negotiate(version if isinstance(version, str) else None),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "tabane", "title": "Tabane", "version": this_build().name},
    }


def _discover(params: dict[str, Any]) -> dict[str, Any]:
    info = {"name": "tabane", "title": "Tabane", "version": this_build().name}
    return {
        "supportedVersions": [eras.MODERN],
        "capabilities": {"tools": {}},
        "ttlMs": 60_000,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": {eras.META_SERVER: info},
    }


def _is_modern(params: Mapping[str, Any]) -> bool:
    meta = params.get("_meta")
    return isinstance(meta, dict) and eras.META_VERSION in meta


def _failed_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _line(request_id: bytes, result: dict[str, Any], modern: bool) -> bytes:
    if modern:
        result = {**result, "resultType": "complete"}
    return b'{"jsonrpc":"2.0","id":' + request_id + b',"result":' + json.dumps(result).encode() + b"}"
