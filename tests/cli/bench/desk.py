"""A server for tasks: notes in a folder, and sums. Its argument is the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool("write_note", "Write a note to a file.", path=TEXT, content=TEXT),
    tool("read_note", "Read a note from a file.", path=TEXT),
    tool("add_numbers", "Add two numbers.", a=NUMBER, b=NUMBER),
]


def called(name: str, given: dict[str, Any]) -> str:
    if name == "write_note":
        Path(given["path"]).write_text(given["content"], encoding="utf-8")
        return "Written."
    if name == "read_note":
        return Path(given["path"]).read_text(encoding="utf-8")
    return str(given["a"] + given["b"])


def answered(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            about = {"name": "desk", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            try:
                text, failed = called(params["name"], params["arguments"]), False
            except OSError as error:
                text, failed = str(error), True
            return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": answered(message)}
        print(json.dumps(answer), flush=True)
