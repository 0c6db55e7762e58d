"""A client that ignores its limits: python -m benchmarks.access.flood WAY URL KEY

It sends as fast as the hub takes it, until it is killed. Ways: see :data:`WAYS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.http.idle import ACCEPT, ENVELOPE

from tabane.wire import websocket

TOOL = "echo__echo"
CONNECTIONS, SOCKETS = 500, 8
CHUNK = 200
"""Messages that are written to a WebSocket at once."""

Target = tuple[str, int, str]
"""Host, port and key."""


def direct(number: int, **meta: Any) -> dict[str, Any]:
    params = {"name": TOOL, "arguments": {"text": "hi"}, **meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def through(number: int, **meta: Any) -> dict[str, Any]:
    params = {"name": "call_tool", "arguments": {"name": TOOL, "arguments": {"text": "hi"}}, **meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def method(number: int) -> dict[str, Any]:
    params = {"name": TOOL, "arguments": {"text": "hi"}}
    return {"jsonrpc": "2.0", "id": number, "method": "call_tool", "params": params}


async def post(target: Target, message: dict[str, Any]) -> None:
    """Send the message again as soon as it is answered, on a connection that is kept."""
    host, port, key = target
    body = json.dumps(message).encode()
    head = {
        "host": f"{host}:{port}", "authorization": f"Bearer {key}", "accept": ACCEPT,
        "content-type": "application/json", "content-length": str(len(body)),
        "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call",
        "mcp-name": message["params"]["name"],
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    request = f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body
    reader, writer = await asyncio.open_connection(host, port)
    while True:
        writer.write(request)
        raw = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = raw.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or b"0"))


async def pour(target: Target, made: Callable[[int], dict[str, Any]], protocol: str, path: str) -> None:
    """Send messages on a WebSocket without waiting for answers, which are read and dropped."""
    host, port, key = target
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head, head
    drain = asyncio.ensure_future(_drop(reader))
    number = 0
    while not drain.done():
        frames = []
        for _ in range(CHUNK):
            number += 1
            frames.append(websocket.frame(json.dumps(made(number)).encode(), websocket.TEXT, os.urandom(4)))
        writer.write(b"".join(frames))
        await writer.drain()


async def _drop(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 18):
        pass


def posting(made: Callable[..., dict[str, Any]]) -> Callable[[Target], list[Awaitable[None]]]:
    return lambda target: [post(target, made(1, _meta=ENVELOPE)) for _ in range(CONNECTIONS)]


def pouring(
    made: Callable[[int], dict[str, Any]], protocol: str = "", path: str = "/rpc"
) -> Callable[[Target], list[Awaitable[None]]]:
    return lambda target: [pour(target, made, protocol, path) for _ in range(SOCKETS)]


MCP = "Sec-WebSocket-Protocol: mcp\r\n"
WAYS: dict[str, tuple[str, Callable[[Target], list[Awaitable[None]]]]] = {
    "http": (f"HTTP, direct calls, {CONNECTIONS} connections", posting(direct)),
    "http_through": (f"HTTP, call_tool, {CONNECTIONS} connections", posting(through)),
    "websocket": (
        f"WebSocket (MCP), direct calls, {SOCKETS} connections",
        pouring(lambda number: direct(number, _meta=ENVELOPE), MCP),
    ),
    "rpc": (f"WebSocket (JSON-RPC), call_tool, {SOCKETS} connections", pouring(method)),
}


async def flood(way: str, target: Target) -> None:
    await asyncio.gather(*WAYS[way][1](target))


if __name__ == "__main__":
    chosen, url, key = sys.argv[1:]
    host, _, port = url.split("/")[2].partition(":")
    asyncio.run(flood(chosen, (host, int(port), key)))
