"""Questions to a hub of a group, and calls of tools at it."""

from __future__ import annotations

from typing import Any

from tests.harness.http_hub import HttpHub, call, modern, request


async def ask(hub: HttpHub, method: str, /, **params: Any) -> Any:
    """The result of an operation of the local user."""
    answer = await (await hub.peer()).post(request(method, params), "/rpc")
    assert "result" in answer.json, answer.json
    return answer.json["result"]


async def refused(hub: HttpHub, method: str, /, **params: Any) -> str:
    """Why an operation of the local user fails."""
    answer = await (await hub.peer()).post(request(method, params), "/rpc")
    return str(answer.json["error"]["message"])


async def call_tool(hub: HttpHub, name: str, /, **arguments: Any) -> None:
    """Call a tool as a client that has no session."""
    message, headers = modern(call(name, 1, **arguments))
    answer = await (await hub.peer()).post(message, **headers)
    assert "result" in answer.json, answer.json
