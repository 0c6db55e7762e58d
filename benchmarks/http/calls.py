"""How fast a call through a hub over HTTP is: python -m benchmarks.http.calls [--calls 4000]

Client → HTTP → hub → pipe → a server of the standard library that answers at once. Each client keeps its
connection; requests of 2026-07-28 and, in a session, of 2025-11-25.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.http.idle import ENVELOPE, HttpHub, Stream, begin

CLIENTS = (1, 16, 64)


def message(name: str, *, modern: bool) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {"text": "hi"}}
    if modern:
        params["_meta"] = ENVELOPE
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def client(hub: HttpHub, calls: int, name: str, *, modern: bool, times: list[float]) -> None:
    stream: Stream = await hub.connect()
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    if not modern:
        headers = await begin(hub, stream)
    for _ in range(calls):
        begun = time.perf_counter()
        await hub.ask(stream, "POST", headers, message(name, modern=modern))
        times.append(time.perf_counter() - begun)
    stream[1].close()


@dataclass(frozen=True)
class Rate:
    """So many clients of that version: calls a second, and seconds of a call."""

    version: str
    clients: int
    rate: float
    p50: float
    p99: float


async def measure(hub: HttpHub, name: str, calls: int) -> list[Rate]:
    found = []
    for version in ("2026-07-28", "2025-11-25"):
        modern = version == "2026-07-28"
        await client(hub, 50, name, modern=modern, times=[])
        for clients in CLIENTS:
            times: list[float] = []
            begun = time.perf_counter()
            each = calls // clients
            await asyncio.gather(
                *(client(hub, each, name, modern=modern, times=times) for _ in range(clients))
            )
            rate = len(times) / (time.perf_counter() - begun)
            p50, p99 = (statistics.quantiles(times, n=100)[at] for at in (49, 98))
            found.append(Rate(version, clients, rate, p50, p99))
    return found


def rates(calls: int) -> list[Rate]:
    """Both versions, with 1, 16 and 64 clients."""
    with tempfile.TemporaryDirectory() as folder:
        hub = HttpHub(Path(folder))
        child = Path(folder) / "echo.py"
        child.write_text(ECHO)
        hub.configure({"echo": {"command": sys.executable, "args": [str(child)]}})
        hub.start()
        try:
            return asyncio.run(measure(hub, "echo__echo", calls))
        finally:
            hub.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=4000)
    for one in rates(arguments.parse_args().calls):
        times = f"p50 {one.p50 * 1e6:6.0f} µs  p99 {one.p99 * 1e6:6.0f} µs"
        print(f"{one.version}  {one.clients:3} clients  {one.rate:7.0f} calls/s  {times}")


ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, about = message.get("method"), {"name": "echo", "version": "1"}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "hi"}]}
    else:
        error = {"code": -32601, "message": "not here"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


if __name__ == "__main__":
    main()
