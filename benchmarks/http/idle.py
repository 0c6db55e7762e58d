"""What idle clients over HTTP cost a hub in memory: python -m benchmarks.http.idle [--clients 1000]

Starts a hub in a folder of its own, connects clients in three ways, and prints what each adds to the
hub's resident memory: a connection that is kept alive after a request of 2026-07-28; a session of
2025-11-25 with its connection; such a session whose client listens on a stream besides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.hub import HubProcess

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = "application/json, text/event-stream"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpHub(HubProcess):
    """A hub of its own, and connections to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TABANE_HTTP_SESSIONS="100000")

    @property
    def kilobytes(self) -> float:
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            return sum(float(line.split()[1]) for line in file if line.startswith("Rss:"))

    async def connect(self) -> Stream:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(
        self, stream: Stream, method: str, headers: dict[str, str], message: Any = None
    ) -> dict[str, str]:
        """A request; the headers of its answer, whose body is read where it has a length."""
        reader, writer = stream
        body = json.dumps(message).encode() if message else b""
        given = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.token}",
            "accept": ACCEPT,
            "content-type": "application/json",
            "user-agent": "an idle client/1.0",
            "content-length": str(len(body)),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        writer.write(f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        raw = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        assert raw[0].split()[1].startswith("2"), raw
        pairs = (line.partition(": ") for line in raw[1:] if line)
        found = {name.lower(): value for name, _, value in pairs}
        await reader.readexactly(int(found.get("content-length", 0)))
        return found


async def modern(hub: HttpHub) -> list[Stream]:
    """A request of 2026-07-28, and a connection that stays."""
    stream = await hub.connect()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
    await hub.ask(stream, "POST", headers, message)
    return [stream]


async def session(hub: HttpHub) -> list[Stream]:
    """A session of 2025-11-25, its list of tools taken, and a connection that stays."""
    stream = await hub.connect()
    await begin(hub, stream)
    return [stream]


async def listening(hub: HttpHub) -> list[Stream]:
    """The same, and a stream for what belongs to no request."""
    stream, events = await hub.connect(), await hub.connect()
    headers = await begin(hub, stream)
    await hub.ask(events, "GET", headers)
    return [stream, events]


async def begin(hub: HttpHub, stream: Stream) -> dict[str, str]:
    """Begin a session of 2025-11-25; the headers of its requests."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}, "roots": {"listChanged": True}},
        "clientInfo": {"name": "an idle client", "version": "1.0"},
    }
    begun = await hub.ask(
        stream, "POST", {}, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    )
    headers = {"mcp-session-id": begun["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await hub.ask(stream, "POST", headers, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    await hub.ask(stream, "POST", headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    return headers


Way = Callable[[HttpHub], Awaitable[list[Stream]]]
WAYS = (modern, session, listening)


async def cost(hub: HttpHub, way: Way, clients: int) -> float:
    """Kilobytes that each of so many clients adds."""
    kept = [await way(hub) for _ in range(20)]  # What is loaded once is no client's cost.
    before = hub.kilobytes
    for _ in range(clients // 50):
        kept += await asyncio.gather(*(way(hub) for _ in range(50)))
    await asyncio.sleep(2.5)
    grown = hub.kilobytes - before
    for _, writer in (stream for streams in kept for stream in streams):
        writer.transport.abort()
    return grown / (clients // 50 * 50)


def measure(way: Way, clients: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        hub = HttpHub(Path(folder))
        hub.start()
        try:
            return asyncio.run(cost(hub, way, clients))
        finally:
            hub.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clients", type=int, default=1000)
    clients = arguments.parse_args().clients
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for way in WAYS:
        print(f"{way.__name__:10} {measure(way, clients):6.1f} KB a client   {way.__doc__}")


if __name__ == "__main__":
    main()
