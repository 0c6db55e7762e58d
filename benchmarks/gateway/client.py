"""A small MCP client over the standard input and output of a process that it starts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

PATIENCE = 120.0
"""Seconds in which one measurement has to be over."""

_INTRODUCTION = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Failed(Exception):
    """A request was not answered as it should have been: nothing to be measured."""


class Client:
    """Requests by id, any number at once. ``began`` is when the process was about to be started."""

    def __init__(self, process: asyncio.subprocess.Process, began: float) -> None:
        self._process, self.began = process, began
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> Client:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
            limit=1 << 26,
        )
        return cls(process, began)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def request(self, method: str, params: Json) -> Json:
        """A request's result. Raises Failed where there is none."""
        self._number = number = self._number + 1
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._send(message)
        response = await answer
        if "result" not in response:
            raise Failed(f"{method}: {response}")
        result: Json = response["result"]
        return result

    async def initialize(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            result = await self.request("initialize", _INTRODUCTION)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    async def call(self, params: Json) -> str:
        """The text that a tool answers with. Raises Failed where it is an error."""
        result = await self.request("tools/call", params)
        if result.get("isError"):
            raise Failed(f"{params}: {result}")
        return "\n".join(block.get("text", "") for block in result["content"])

    async def close(self) -> None:
        """End of file, and wait for the process to end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
        await self._reading

    def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            waiting = self._waiting.pop(message.get("id"), None)
            if waiting and not waiting.done():
                waiting.set_result(message)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Failed("the process ended"))
