"""A server over stdio with one tool, whose argument ``region`` is mirrored into a header over HTTP."""

from __future__ import annotations

import json
import sys

REGION = {"type": "string", "x-mcp-header": "Region"}
TOOL = {"name": "mirrored", "inputSchema": {"type": "object", "properties": {"region": REGION}}}


def answer(method: str) -> object:
    if method == "initialize":
        about = {"name": "mirrored", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    return {"tools": [TOOL]} if method == "tools/list" else {"content": []}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        method = message["method"]
        body = (
            {"error": {"code": -32601, "message": "not here"}}
            if method == "server/discover"
            else {"result": answer(method)}
        )
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
