"""A server like those that drive a browser: it has one open page, which all callers share."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = {"open": "Opens a page.", "read": "The page that is open.", "history": "All pages, oldest first."}


def answer(method: str, params: dict[str, Any], pages: list[str]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"serverInfo": {"name": "browser", "version": "1"}, "capabilities": {"tools": {}}}
        return {"protocolVersion": params["protocolVersion"], **about}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"url": {"type": "string"}}}
        return {"tools": [{"name": n, "description": d, "inputSchema": schema} for n, d in TOOLS.items()]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": use(params["name"], params["arguments"], pages)}]}
    return {} if method == "ping" else None


def use(name: str, arguments: dict[str, Any], pages: list[str]) -> str:
    if name == "open":
        pages.append(arguments["url"])
    if name == "history":
        return "\n".join(pages)
    return pages[-1] if pages else "about:blank"


def main() -> None:
    pages: list[str] = []
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {}, pages)
        body = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
