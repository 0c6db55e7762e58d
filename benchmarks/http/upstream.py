"""An MCP server over HTTP that does as little as one can: python -m benchmarks.http.upstream

2026-07-28, one tool, an ASGI application on uvicorn. Its first line of output is its URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any

import uvicorn

ABOUT = {"name": "echo", "version": "1"}
CACHED = {"ttlMs": 60_000, "cacheScope": "public"}
COMPLETE = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": ABOUT}}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    method = message["method"]
    if method == "tools/call":
        return COMPLETE | {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
    if method == "tools/list":
        return COMPLETE | CACHED | {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    return COMPLETE | CACHED | {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    message = json.loads(body)
    result = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(result))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": result})


def main() -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_level="error", access_log=False, lifespan="off", loop="asyncio")
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(uvicorn.Server(config).serve([listening]))


if __name__ == "__main__":
    main()
