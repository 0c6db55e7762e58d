"""Calls to tools as pure values: what stands inside call_tool, and failures as a model reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from tabane.errors import BadArguments, CallerError, TabaneError
from tabane.gateway.tools.tool import Tool
from tabane.messages import Lang, say
from tabane.wire import json
from tabane.wire.json import Garbage, Members


class ToolCallRequest(msgspec.Struct, frozen=True):
    """A call to a tool: its public name, and the parameters of the request that carry it.

    ``params`` keeps every member of the request (``inputResponses``, ``requestState`` and whatever
    comes later), with ``arguments`` those of the tool itself.
    """

    name: str
    params: Members
    read_only: bool = False

    @property
    def arguments(self) -> bytes:
        return bytes(self.params.get("arguments", b"{}"))

    def params_for(self, tool: Tool) -> Members:
        """Return the parameters as the upstream is sent them: under the tool's own name."""
        return {**self.params, "name": Raw(json.quote(tool.name))}

    def check_marks(self, tool: Tool) -> None:
        """Raise CallerError if only read-only tools may be called and this tool is not."""
        if self.read_only and not tool.read_only:
            raise CallerError(say("{tool} is not marked read-only: call it with call_tool.", tool=tool.alias))


def tool_call_request(params: Members, *, read_only: bool = False) -> ToolCallRequest:
    """Return the call inside call_tool. Raises BadArguments that names what is missing.

    Arguments given as a string of JSON, as models do now and then, are taken for what they say.
    """
    try:
        given = json.fields(params.get("arguments", Raw(b"{}")))
    except Garbage:
        raise BadArguments(say("arguments must be an object with name and arguments."), "arguments") from None
    name = json.text(given.get("name"))
    if not name:
        raise BadArguments(say("name: the name of a tool is required, such as server__tool."), "name")
    return ToolCallRequest(name, {**params, "arguments": _arguments(given.get("arguments"))}, read_only)


def _arguments(raw: Raw | None) -> Raw:
    if raw is None:
        return Raw(b"{}")
    first = bytes(memoryview(raw)[:1])
    if first == b"n":
        return Raw(b"{}")
    if first == b'"':
        raw = Raw((json.text(raw) or "").encode("utf-8", "surrogatepass"))
    try:
        json.fields(raw)
    except Garbage:
        raise BadArguments(
            say("arguments: an object with the tool's parameters is required."), "arguments"
        ) from None
    return raw


def tool_failure(error: TabaneError, lang: Lang) -> bytes:
    """Return a failure as the result of a tool: what happened and what to do."""
    return _failure(error.text(lang))


def upstream_failure(tool: Tool, error: Raw) -> bytes:
    """Return an upstream's JSON-RPC error as the result of a tool, whole in ``_meta``."""
    try:
        body: Any = json.decode(error)
    except Garbage:
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    code = body.get("code") if isinstance(body, dict) else None
    return _failure(f"{tool.alias}: {message or 'error'} ({code})", {"io.github.tabane/error": error})


def _failure(text: str, meta: dict[str, Raw] | None = None) -> bytes:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if meta:
        result["_meta"] = meta
    return json.encode(result)
