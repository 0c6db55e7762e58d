"""Servers whose tools are listed but do nothing: over HTTP on the loopback, in a thread of this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tabane.cli.bench.tool_set import Definitions

_MOST_BYTES = 1 << 20
_ABOUT = {"name": "listed-tools", "version": "1"}
_CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}
_COMPLETE = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": _ABOUT}}
REFUSAL = "This tool is only listed in the benchmark. It cannot do anything."


class ToolSite:
    """Serves each server of ``servers`` at its own URL while the block runs."""

    def __init__(self, servers: Definitions) -> None:
        class Handler(ListedTools):
            lists = {name: list(tools) for name, tools in servers.items()}

        self._names = list(servers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="listed tools", daemon=True)

    def __enter__(self) -> ToolSite:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """The servers as a servers file has them."""
        port = self._server.server_address[1]
        return {name: {"url": f"http://127.0.0.1:{port}/{name}"} for name in self._names}


class ListedTools(BaseHTTPRequestHandler):
    """Answers MCP of both eras. ``lists`` are the tools by the path."""

    protocol_version = "HTTP/1.1"
    lists: Mapping[str, list[Any]]

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            self._send(413, b"")
            return
        message = json.loads(self.rfile.read(size))
        if "id" not in message:
            self._send(202, b"")
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], **self._answer(message)}
        self._send(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(405, b"")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        match message.get("method"):
            case "server/discover":
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                return {"result": _COMPLETE | _CACHED | versions}
            case "initialize":
                return {
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": _ABOUT,
                    }
                }
            case "tools/list":
                return {"result": _COMPLETE | _CACHED | {"tools": self.lists.get(self.path[1:], [])}}
            case "tools/call":
                content = [{"type": "text", "text": REFUSAL}]
                return {"result": _COMPLETE | {"content": content, "isError": True}}
            case "ping":
                return {"result": {}}
        return {"error": {"code": -32601, "message": "no such method"}}

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
