"""A client of a bridge, in either era, that answers each question at once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.questions.asker import VERSIONS

CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}
ANSWER = {"action": "accept", "content": {"name": "Hana", "sure": True}}
LONGEST_LINE = 1 << 20


class AnsweringClient:
    """One client. Calls are made one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, era: str) -> None:
        self.process, self._era = process, era
        self._number = 0

    @classmethod
    async def connect(cls, environment: Mapping[str, str], era: str) -> AnsweringClient:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "tabane", "mcp", "--mode=full"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, env=dict(environment), limit=LONGEST_LINE
        )
        client = cls(process, era)
        if era == "legacy":
            about = {"name": "client", "version": "1"}
            params = {
                "protocolVersion": VERSIONS[era], "capabilities": CAPABILITIES, "clientInfo": about,
            }  # fmt: skip
            client._send({"id": client._next(), "method": "initialize", "params": params})
            await client._line()
            client._send({"method": "notifications/initialized"})
        return client

    async def call(self, name: str) -> None:
        """Call a tool, and answer what it asks."""
        number = self._begin(name)
        while True:
            message = await self._line()
            if "method" in message:
                if "id" in message:
                    self._send({"id": message["id"], "result": ANSWER})
                continue
            if message["id"] != number:
                continue
            assert "result" in message, message
            if message["result"].get("resultType") != "input_required":
                return
            number = self._resume(name, message["result"])

    async def park(self, name: str, count: int) -> list[dict[str, Any]]:
        """Make so many calls that ask, and answer none of them. Return what each returned.

        They begin one after the other: on one pipe, nothing shows which of several calls asks.
        """
        found = []
        for _ in range(count):
            number = self._begin(name)
            message = await self._line()
            while message.get("id") != number:
                message = await self._line()
            assert message["result"]["resultType"] == "input_required", message
            found.append(message["result"])
        return found

    async def close(self) -> None:
        self.process.kill()
        await self.process.communicate()

    def _begin(self, name: str, **more: Any) -> int:
        params: dict[str, Any] = {"name": name, "arguments": {"text": "hi"}, **more}
        if self._era == "modern":
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
                "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
            }
        number = self._next()
        self._send({"id": number, "method": "tools/call", "params": params})
        return number

    def _resume(self, name: str, result: Mapping[str, Any]) -> int:
        answers = dict.fromkeys(result["inputRequests"], ANSWER)
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return self._begin(name, inputResponses=answers, **state)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "the bridge has ended"
        message: dict[str, Any] = json.loads(line)
        return message
