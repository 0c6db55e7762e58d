"""An MCP server that spells its messages as told: ``python -m tests.harness.servers.spelling WAY…``."""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
NAN = float("nan")
OPEN: Json = {"type": "object"}
TOOLS = [
    {"name": "echo", "description": "Echo.", "inputSchema": OPEN},
    {"name": "odd", "description": "A value that JSON does not have.", "inputSchema": OPEN},
    {"name": "garbage", "description": "Bytes that are no text.", "inputSchema": OPEN},
    {"name": "slow", "description": "Tells its progress.", "inputSchema": OPEN},
    {
        "name": "scaled",
        "description": "Has an odd default.",
        "inputSchema": {
            "type": "object",
            "properties": {"by": {"type": "number", "default": NAN, "maximum": float("inf")}},
        },
    },
]
WAYS = set(sys.argv[1:])


def write(message: Json, *, marked: bool = True) -> None:
    request_id = message.get("id")
    if "text-ids" in WAYS and request_id is not None:
        message["id"] = str(request_id)
    if "float-ids" in WAYS and isinstance(request_id, int):
        message["id"] = float(request_id)
    if "id-last" in WAYS and "id" in message:
        message = {**{key: value for key, value in message.items() if key != "id"}, "id": message["id"]}
    mark = b"\xef\xbb\xbf" if "marks" in WAYS and marked else b""
    sys.stdout.buffer.write(mark + json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def result_of(method: str, params: Json) -> Json | None:
    odd = {"content": [{"type": "text", "text": "see the value"}], "structuredContent": {"value": NAN}}
    contents = [{"uri": "odd://a", "text": "x", "_meta": {"n": NAN}}]
    messages = [{"role": "user", "content": {"type": "text", "text": "x", "_meta": {"n": -float("inf")}}}]
    capabilities: Json = {"tools": {}, "resources": {}, "prompts": {}}
    if "undeclared" in WAYS:
        del capabilities["tools"]
    about = {"name": "spelling", "version": "1"}
    results: dict[str, Json] = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about},
        "tools/list": {"tools": TOOLS},
        "resources/list": {"resources": [{"uri": "odd://a", "name": "a", "size": NAN}]},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": [{"name": "ask", "arguments": [{"name": "a", "required": NAN}]}]},
        "resources/read": {"contents": contents},
        "prompts/get": {"messages": messages},
        "ping": {},
    }
    if method != "tools/call":
        return results.get(method)
    if params["name"] in ("odd", "slow"):
        return odd if params["name"] == "odd" else {"content": [{"type": "text", "text": "slowly"}]}
    return {"content": [{"type": "text", "text": json.dumps(params.get("arguments") or {})}]}


for line in sys.stdin.buffer:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    given = request.get("params") or {}
    token = given.get("_meta", {}).get("progressToken")
    if given.get("name") == "slow" and token is not None:
        for done in (1, NAN, 3):
            progress = {"progressToken": token, "progress": done}
            write({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    if given.get("name") == "garbage":
        head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request["id"]
        sys.stdout.buffer.write(head + b"\xff" * 900_000 + b'"}]}}\n')
        sys.stdout.buffer.flush()
        continue
    found = result_of(request["method"], given)
    said = {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
    write({"jsonrpc": "2.0", "id": request["id"], **said})
