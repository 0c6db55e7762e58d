"""A hub over asking servers, and its clients of either era."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.harness.running_hub import ENVELOPE, Json, SocketClient, text

ASKING = str(Path(__file__).parents[3] / "harness" / "servers" / "asking.py")

FORM: Json = {
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name"],
    },
}
URL: Json = {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "e-1"}
SAMPLING: Json = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5}
SAMPLED: Json = {"role": "assistant", "content": {"type": "text", "text": "Ho"}, "model": "m"}
ROOTED: Json = {"roots": [{"uri": "file:///mine"}]}
ACCEPTED: Json = {"action": "accept", "content": {"name": "花"}}
EVERYTHING: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

FORM_STEP: Json = {"ask": [{"method": "elicitation/create", "params": FORM}]}
URL_STEP: Json = {"ask": [{"method": "elicitation/create", "params": URL}]}
SAMPLING_STEP: Json = {"ask": [{"method": "sampling/createMessage", "params": SAMPLING}]}
ROOTS_STEP: Json = {"ask": [{"method": "roots/list", "params": {}}]}


def asking(era: str = "legacy", version: str = "2025-11-25", **keys: Any) -> Json:
    """The configuration of an asking server."""
    return {"command": sys.executable, "args": [ASKING, era, "--version", version], **keys}


def able(**capabilities: Any) -> Json:
    """The ``_meta`` of a modern request whose client has those capabilities; all of them if none is given."""
    given = capabilities or EVERYTHING
    return {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": given}


def call_of(*steps: Json, name: str = "up__ask", through: str = "", meta: Json | None = None) -> Json:
    """The parameters of a call that asks, directly or through call_tool."""
    given: Json = {"name": name, "arguments": {"steps": list(steps)}}
    if through:
        given = {"name": through, "arguments": given}
    return {**given, "_meta": able() if meta is None else meta}


def answers_to(asked: Json, *answers: Any) -> Json:
    """What a client adds to its request to answer the questions in a result, in their order."""
    assert asked["resultType"] == "input_required", asked
    keys = list(asked["inputRequests"])
    assert len(keys) == len(answers)
    return {"inputResponses": dict(zip(keys, answers, strict=True)), "requestState": asked["requestState"]}


def answered(result: Json) -> Any:
    """The answers that the server got, by step."""
    return json.loads(text(result))


async def asked_once(line: SocketClient, params: Json, method: str = "tools/call") -> Json:
    """The result of a request that must end with questions."""
    result = await line.result(method, params)
    assert result["resultType"] == "input_required", result
    return result
