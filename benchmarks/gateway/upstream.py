"""A synthetic MCP server over stdio, deliberately cheap: it lists many tools and echoes every call.

    python -S upstream.py KIND          one of the kinds of wares.py
    python -S upstream.py many COUNT

The standard library alone, one message at a time, some 10 MB.
"""

from __future__ import annotations

import json
import os
import sys

# It is run as a script, without site-packages and from anywhere.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.gateway.wares import definitions, many  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("2025-06-18", "2025-11-25")


class Server:
    """Answers requests of the handshake era."""

    def __init__(self, name: str, tools: list[dict[str, Any]]) -> None:
        self._name, self._tools = name, tools
        self._names = {tool["name"] for tool in tools}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message.get("method"), message.get("params") or {}
        if method == "tools/call" and params.get("name") in self._names:
            return {"result": self._echo(params)}
        if method == "tools/call":
            return {"error": {"code": -32602, "message": f"Unknown tool: {params.get('name')}"}}
        if method == "tools/list":
            return {"result": {"tools": self._tools}}
        if method == "initialize":
            return {"result": self._introduction(params.get("protocolVersion"))}
        if method == "ping":
            return {"result": {}}
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}

    def _echo(self, params: dict[str, Any]) -> dict[str, Any]:
        said = json.dumps({"tool": params["name"], "arguments": params.get("arguments") or {}})
        return {"content": [{"type": "text", "text": said}], "isError": False}

    def _introduction(self, version: str | None) -> dict[str, Any]:
        return {
            "protocolVersion": version if version in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._name, "version": "1"},
        }


def main() -> None:
    kind = sys.argv[1]
    server = Server(kind, many(int(sys.argv[2])) if kind == "many" else definitions(kind))
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], **server.answer(message)}
            write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            flush()


if __name__ == "__main__":
    main()
