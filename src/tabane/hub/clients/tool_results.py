"""What an operation answered, or failed with, as the result of a tool of MCP; pure."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from tabane.errors import TabaneError
from tabane.gateway.tools.tool import tool_failure
from tabane.messages import Lang
from tabane.operations import Operation
from tabane.wire import json


def as_result(operation: Operation | None, value: Any, lang: Lang) -> bytes:
    """The result: text for a model to read, and beside it the structure that the operation declares."""
    if isinstance(value, Raw):
        return bytes(value)  # an upstream's own result, to be passed on as it is
    if operation is None:
        return json.encode({"content": [_text(json.encode(value).decode())], "isError": False})
    content = (
        operation.content(value, lang) if operation.content else [_text(_worded(operation, value, lang))]
    )
    failed = operation.failed is not None and operation.failed(value)
    result: dict[str, Any] = {"content": content, "isError": failed}
    if operation.structured:
        result["structuredContent"] = operation.structured(value, lang)
    return json.encode(result)


def as_failure(operation: Operation | None, error: TabaneError, lang: Lang) -> bytes:
    """A failure as a result, so that the model reads it."""
    if operation is None or operation.failure is None:
        return tool_failure(error, lang)
    return json.encode({"content": [_text(operation.failure(error, lang))], "isError": True})


def _worded(operation: Operation, value: Any, lang: Lang) -> str:
    return operation.text(value, lang) if operation.text else json.encode(value).decode()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
