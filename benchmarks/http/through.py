"""What the hub adds between HTTP and HTTP: python -m benchmarks.http.through [--rounds 5]

The same clients call the same server, in turn directly and through a hub: client → HTTP → hub → HTTP →
server, all of 2026-07-28 with connections that are kept. The figures are medians over the rounds, and the
ratio is taken round by round, so that it holds on a machine whose speed drifts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.http.calls import message
from benchmarks.http.idle import HttpHub

CALLS = 1500
CLIENTS = 16


@dataclass(frozen=True)
class Target:
    """Where calls go, and the name of the tool there."""

    port: int
    tool: str
    token: str = ""

    def request(self) -> bytes:
        body = json.dumps(message(self.tool, modern=True)).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nauthorization: Bearer {self.token}\r\n"
            f"accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
            f"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {self.tool}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


async def client(target: Target, calls: int, times: list[float]) -> None:
    """Calls one after the other on one connection; the seconds of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    request = target.request()
    for _ in range(calls):
        begun = time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        times.append(time.perf_counter() - begun)
        assert b'"hi"' in body, body
    writer.close()


async def measure(target: Target, clients: int) -> tuple[float, float]:
    """(median seconds of a call, calls a second) with so many clients."""
    times: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(client(target, CALLS // clients, times) for _ in range(clients)))
    return statistics.median(times), len(times) / (time.perf_counter() - begun)


@dataclass(frozen=True)
class Comparison:
    """So many clients: of each round (median seconds of a call, calls a second), direct and through."""

    clients: int
    rounds: list[tuple[tuple[float, float], tuple[float, float]]]

    @property
    def ratios(self) -> list[float]:
        return sorted(there[0] / here[0] for here, there in self.rounds)

    def p50(self, way: int) -> float:
        return statistics.median(pair[way][0] for pair in self.rounds)

    def rate(self, way: int) -> float:
        return statistics.median(pair[way][1] for pair in self.rounds)


async def compare(direct: Target, through: Target, rounds: int) -> list[Comparison]:
    found = []
    for clients in (1, CLIENTS):
        await measure(through, clients)
        pairs = [(await measure(direct, clients), await measure(through, clients)) for _ in range(rounds)]
        found.append(Comparison(clients, pairs))
    return found


def through(rounds: int) -> list[Comparison]:
    """Both ways with 1 and 16 clients, in turn."""
    command = [sys.executable, "-m", "benchmarks.http.upstream"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        hub = HttpHub(Path(folder))
        hub.configure({"echo": {"url": url}})
        hub.start()
        try:
            direct = Target(urlsplit(url).port or 0, "echo")
            return asyncio.run(compare(direct, Target(hub.port, "echo__echo", hub.token), rounds))
        finally:
            hub.stop()
            server.terminate()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    for one in through(arguments.parse_args().rounds):
        for label, way in (("direct", 0), ("through the hub", 1)):
            times = f"p50 {one.p50(way) * 1e6:6.0f} µs  {one.rate(way):6.0f} calls/s"
            print(f"{one.clients:3} clients  {label:16} {times}")
        low, middle, high = one.ratios[0], statistics.median(one.ratios), one.ratios[-1]
        print(f"{one.clients:3} clients  ratio of p50 {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
