"""A hub in this process, real upstream processes, and clients that exchange raw lines over a socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from tabane.group.membership import HubGroup
from tabane.hub.hub import Hub
from tabane.hub.local.handshake import Hello
from tabane.settings import load_settings
from tests.harness.patience import LONG

CHILD = str(Path(__file__).parents[1] / "harness" / "servers" / "child.py")
SOON = LONG
"""Seconds after which something that should have happened has not."""

Json = dict[str, Any]
Client = Literal["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def child(*arguments: str, **keys: Any) -> Json:
    """The configuration of a child.py with those arguments, and further keys of the servers file."""
    return {"command": sys.executable, "args": [CHILD, *arguments], **keys}


def _refuse(constant: str) -> Any:
    """Refuse NaN and Infinity, as clients in JavaScript do: the whole connection ends."""
    raise AssertionError(f"the hub sent {constant}, which is not JSON")


class SocketClient:
    """An MCP client on one end of a socket: requests and answers as they go over the wire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: Client) -> None:
        self.version = version
        self.notifications: list[Json] = []
        self.unexpected: list[bytes] = []
        self.questions: list[Json] = []
        self.answer: Callable[[Json], Json | None] = lambda question: None
        self._reader, self._writer = reader, writer
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._number = 0
        self._changed = asyncio.Event()
        self._pump = asyncio.ensure_future(self._read())

    @property
    def modern(self) -> bool:
        return self.version == "2026-07-28"

    @property
    def last(self) -> int:
        """The id of the last request that was numbered here."""
        return self._number

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def notify(self, method: str, params: Json | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.send_raw(json.dumps(message).encode() + b"\n")

    def begin(
        self, method: str, params: Json | None = None, *, request_id: Any = None
    ) -> asyncio.Future[Json]:
        """Send a request; the future is its whole response."""
        self._number += 1
        number = self._number if request_id is None else request_id
        params = dict(params or {})
        if self.modern:
            params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        future = self.expect(number)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.send_raw(json.dumps(message).encode() + b"\n")
        return future

    def expect(self, request_id: Any) -> asyncio.Future[Json]:
        """The response to a request that is sent by other means."""
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        return future

    async def request(self, method: str, params: Json | None = None) -> Json:
        """A request and its whole response."""
        return await asyncio.wait_for(self.begin(method, params), SOON)

    async def result(self, method: str, params: Json | None = None) -> Json:
        """The result of a request that must succeed."""
        response = await self.request(method, params)
        assert "result" in response, response
        result: Json = response["result"]
        return result

    async def call(self, name: str, /, **arguments: Any) -> Json:
        """The result of a direct call."""
        return await self.result("tools/call", {"name": name, "arguments": arguments})

    async def through(self, name: str, /, **arguments: Any) -> Json:
        """The result of a call through call_tool."""
        return await self.call("call_tool", name=name, arguments=arguments)

    async def noticed(self, method: str) -> Json:
        """The first notification of that method, once it has come."""
        async with asyncio.timeout(SOON):
            while True:
                for note in self.notifications:
                    if note["method"] == method:
                        return note
                self._changed.clear()
                await self._changed.wait()

    def reply(self, question: Json, answer: Json) -> None:
        """Answer a question of the hub: ``answer`` has a result or an error."""
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")

    async def questioned(self, count: int = 1) -> Json:
        """The question of that number, once it has come."""
        async with asyncio.timeout(SOON):
            while len(self.questions) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.questions[count - 1]

    def _asked(self, question: Json) -> None:
        self.questions.append(question)
        answer = self.answer(question)
        if answer is not None:
            self.reply(question, answer)

    def pause(self) -> None:
        """Read nothing more, until :meth:`resume`."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def close(self) -> None:
        self._pump.cancel()
        self._writer.close()

    async def _read(self) -> None:
        while line := await self._reader.readline():
            message = json.loads(line, parse_constant=_refuse)
            if "tabane" in message:  # it is for a bridge
                continue
            waiting = self._waiting.pop(message.get("id"), None) if "method" not in message else None
            if waiting and not waiting.done():
                waiting.set_result(message)
            elif "method" in message and "id" in message:
                self._asked(message)
            elif "method" in message:
                self.notifications.append(message)
            else:
                self.unexpected.append(line)
            self._changed.set()


def text(result: Json) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


class RunningHub:
    """A running hub and the means to connect to it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.group: HubGroup | None = None
        """Its place in a group of hubs, if it is served over HTTP and the settings name one."""
        self._lines: list[SocketClient] = []

    async def connect(
        self,
        version: Client = "2025-06-18",
        *,
        mode: str | None = None,
        lang: str = "en_US",
        capabilities: Json | None = None,
        **hello: Any,
    ) -> SocketClient:
        """A client of that version, past its handshake, with those capabilities."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        fd = theirs.detach()
        self.hub.sessions.attach(fd, fd, Hello("0.1.0", "mcp", mode=mode, lang=lang, **hello))
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 28)
        line = SocketClient(reader, writer, version)
        self._lines.append(line)
        if not line.modern:
            await line.result(
                "initialize",
                {
                    "protocolVersion": version,
                    "capabilities": capabilities or {},
                    "clientInfo": {"name": "test", "version": "1"},
                },
            )
            line.notify("notifications/initialized")
        return line

    async def close(self) -> None:
        for line in self._lines:
            await line.close()
        await self.hub.close()


def configured(folder: Path, servers: Mapping[str, Json]) -> Path:
    """A servers file in that folder."""
    folder.mkdir(exist_ok=True, mode=0o700)
    path = folder / "mcp-servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    path.chmod(0o600)
    return path


@asynccontextmanager
async def running_hub(
    folder: Path, servers: Mapping[str, Json], **settings: Any
) -> AsyncIterator[RunningHub]:
    """A hub over those servers, its home in ``folder``; everything is ended at the end.

    Lists wait for servers that start, and each server is asked for its era, also on a loaded machine.
    """
    path = configured(folder, servers)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TABANE_HOME": str(folder),
        "TABANE_MODEL": "none",
    }
    given = {"servers": str(path), "config": None, "list_wait": 60, "probe_timeout": 60, **settings}
    hub = Hub(load_settings(given, environ), environ, asyncio.get_running_loop())
    hub.open()
    here = RunningHub(hub)
    try:
        yield here
    finally:
        await here.close()


@asynccontextmanager
async def connected_hub(
    folder: Path,
    servers: Mapping[str, Json],
    version: Client = "2025-06-18",
    *,
    capabilities: Json | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[RunningHub, SocketClient]]:
    """A hub as :func:`running_hub` gives it, with a client of that version and capabilities."""
    async with running_hub(folder, servers, **settings) as here:
        yield here, await here.connect(version, capabilities=capabilities)


async def loop_turns(count: int = 300) -> None:
    """Let everything in this process continue for a number of turns of its loop."""
    for _ in range(count):
        await asyncio.sleep(0)
