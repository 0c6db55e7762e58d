"""A small MCP server for tests of the hub's processes: it echoes, waits for a file, and tells its pid.

[sys.executable, UPSTREAM, FOLDER]
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

FOLDER = sys.argv[1]
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}},
    {"name": "wait", "description": "Wait for a file named go.", "inputSchema": {"type": "object"}},
    {"name": "pid", "description": "The process.", "inputSchema": {"type": "object"}},
]


def call(params: dict[str, Any]) -> str:
    if params["name"] == "wait":
        open(os.path.join(FOLDER, "waiting"), "w").close()
        while not os.path.exists(os.path.join(FOLDER, "go")):
            select.select([], [], [], 0.01)
    if params["name"] == "pid":
        return str(os.getpid())
    return json.dumps(params.get("arguments") or {})


def reply(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        server = {"name": "small", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(params)}], "isError": False}
    return {}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": reply(message)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
