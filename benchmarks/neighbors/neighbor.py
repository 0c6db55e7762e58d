"""Assistants that call a well-behaved server all the time, and the latency of their calls."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.neighbors.caller import INITIALIZE

PAUSE = 0.002
"""Seconds between an answer and the next call of the same assistant."""

MOST_LINE = 1 << 20
CALL: dict[str, Any] = {"name": "good__echo", "arguments": {"text": "hi"}}


class Neighbor(Protocol):
    """An assistant that is connected."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request and wait for its answer."""


class Bridged:
    """An assistant over stdio."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._number = 0

    @classmethod
    async def connect(cls, environment: Mapping[str, str]) -> Bridged:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "tabane", "mcp"]
        neighbor = cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, env=dict(environment), limit=MOST_LINE
            )
        )
        await neighbor.ask("initialize", INITIALIZE)
        return neighbor

    async def ask(self, method: str, params: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(body).encode() + b"\n")
        while True:
            answer = json.loads(await self.process.stdout.readline())
            if answer.get("id") == self._number and "method" not in answer:
                assert "result" in answer, answer
                return


class Posting:
    """An assistant over HTTP, in a session of the handshake era."""

    def __init__(
        self, host: str, token: str, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self._host, self._token = host, token
        self._reader, self._writer = streams
        self._session = ""
        self._number = 0

    @classmethod
    async def connect(cls, url: str, token: str) -> Posting:
        host, _, port = url.split("/")[2].partition(":")
        neighbor = cls(f"{host}:{port}", token, await asyncio.open_connection(host, int(port)))
        await neighbor.ask("initialize", INITIALIZE)
        return neighbor

    async def ask(self, method: str, params: Mapping[str, Any]) -> None:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        body = json.dumps(message).encode()
        head = [
            "POST /mcp HTTP/1.1", f"Host: {self._host}", f"Authorization: Bearer {self._token}",
            "Content-Type: application/json", "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
        ]  # fmt: skip
        if self._session:
            head += [f"Mcp-Session-Id: {self._session}", "Mcp-Protocol-Version: 2025-06-18"]
        self._writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await self._answer()

    async def _answer(self) -> None:
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        assert first.split()[1] == "200", first
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self._session = headers.get("mcp-session-id", self._session)
        assert b'"result"' in await self._reader.readexactly(int(headers["content-length"]))


@dataclass(frozen=True)
class Latency:
    """How long the calls of all assistants took, in seconds."""

    calls: int
    p50: float
    p99: float
    longest: float


async def measure(
    neighbors: Sequence[Neighbor],
    seconds: float,
    pause: float = PAUSE,
    until: Coroutine[Any, Any, object] | None = None,
) -> Latency:
    """Let all of them call for that many seconds, or ``until`` something has ended."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    ended = asyncio.ensure_future(until) if until is not None else None

    async def work(neighbor: Neighbor) -> None:
        while time.perf_counter() < end and not (ended and ended.done()):
            begun = time.perf_counter()
            await neighbor.ask("tools/call", CALL)
            times.append(time.perf_counter() - begun)
            await asyncio.sleep(pause)

    await asyncio.gather(*map(work, neighbors))
    if ended is not None:
        await ended
    if len(times) < 2:
        times *= 2
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return Latency(len(times), cuts[49], cuts[98], max(times))
