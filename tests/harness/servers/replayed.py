"""An MCP server over stdio that lists the tools of a JSON file, and answers each call with a recorded result.

[sys.executable, REPLAYED, FILE]
[sys.executable, REPLAYED, "-", JSON]

The file, or the JSON itself, has an object: ``tools`` are definitions as the server lists them, and
``results`` are texts by the name of a tool. A tool without a recorded result answers ``ok``. ``prompts`` are
texts by the name of a prompt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RECORDED = json.loads(sys.argv[2] if sys.argv[1] == "-" else Path(sys.argv[1]).read_text())


def reply(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        server = {"name": "replayed", "version": "1"}
        can: dict[str, Any] = {"tools": {}} | ({"prompts": {}} if "prompts" in RECORDED else {})
        return {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": server}
    if method == "tools/list":
        return {"tools": RECORDED["tools"]}
    if method == "tools/call":
        text = RECORDED.get("results", {}).get(params["name"], "ok")
        return {"content": [{"type": "text", "text": text}], "isError": False}
    if method == "prompts/list":
        return {"prompts": [{"name": name} for name in RECORDED["prompts"]]}
    if method == "prompts/get":
        content = {"type": "text", "text": RECORDED["prompts"][params["name"]]}
        return {"messages": [{"role": "user", "content": content}]}
    return {}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": reply(message)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
