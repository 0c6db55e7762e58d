"""An MCP server with the tools of one server of the world: ``python tool_server.py NAME WORLD``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(name: str, world: Path) -> None:
    listed = json.loads(world.read_text("utf-8"))["tools"][name]
    tools = [
        {
            "name": tool,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": {each: {"type": "string"} for each in parameters},
            },
        }
        for tool, (description, parameters) in listed.items()
    ]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        answer: dict[str, Any] = {}
        if request["method"] == "initialize":
            answer = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"},
            }
        elif request["method"] == "tools/list":
            answer = {"tools": tools}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
