"""A small MCP server with large or malformed answers, and lists of a given length.

[sys.executable, BULKY, "--tools", COUNT, "--padding", BYTES, "--once"]

With --once it ends after its first large answer.
"""

from __future__ import annotations

import argparse
import json
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--tools", type=int, default=0)
parser.add_argument("--padding", type=int, default=0)
parser.add_argument("--pages", type=int, default=1)
parser.add_argument("--once", action="store_true")
given = parser.parse_args()

ODD = {
    "plain": b'"' + b"x" * 100 + b'"',
    "surrogate": b'"\\ud83d"',
    "nan": b"[NaN,-Infinity]",
    "digits": b"9" * 1000,
    "stray": b'"\xff\xfe"',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "broken": b'{"a":',
}


def tool(name: str) -> dict[str, object]:
    return {"name": name, "description": "y" * given.padding, "inputSchema": {"type": "object"}}


def page(cursor: str | None) -> dict[str, object]:
    number = int(cursor or 0)
    each = given.tools // given.pages
    tools = [tool("answer"), tool("echo")] if not number else []
    tools += [tool(f"tool_{n:06}") for n in range(number * each, (number + 1) * each)]
    return {"tools": tools, **({"nextCursor": str(number + 1)} if number + 1 < given.pages else {})}


def say(number: int, result: bytes) -> None:
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (number, result))
    sys.stdout.buffer.flush()


def call(number: int, name: str, arguments: dict[str, object]) -> None:
    if name == "echo":
        say(number, json.dumps({"content": [{"type": "text", "text": json.dumps(arguments)}]}).encode())
        return
    filling = b"x" * int(str(arguments.get("bytes", 0)))
    odd = ODD[str(arguments.get("kind", "plain"))]
    say(number, b'{"content":[{"type":"text","text":"%b"}],"structuredContent":{"odd":%b}}' % (filling, odd))
    if given.once:
        sys.exit(0)


for line in sys.stdin.buffer:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        continue
    if method == "initialize":
        hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        say(message["id"], json.dumps({**hello, "serverInfo": {"name": "bulky", "version": "1"}}).encode())
    elif method == "tools/list":
        say(message["id"], json.dumps(page(params.get("cursor"))).encode())
    elif method == "tools/call":
        call(message["id"], params["name"], params.get("arguments") or {})
    else:
        say(message["id"], b"{}")
