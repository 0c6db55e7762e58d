"""An MCP server over stdio whose one tool writes a file, or says why it may not.

[sys.executable, WRITING]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "write",
    "description": "Writes a note.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def call(path: str) -> dict[str, Any]:
    try:
        Path(path).write_text("written")
    except OSError as error:
        return {"content": [{"type": "text", "text": f"refused: {error.strerror}"}], "isError": True}
    return {"content": [{"type": "text", "text": "written"}], "isError": False}


def reply(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        server = {"name": "writing", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return call(params["arguments"]["path"])
    return {}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": reply(message)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
