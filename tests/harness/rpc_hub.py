"""A hub in this process that serves JSON-RPC over TCP, fake operations, and handwritten WebSocket frames."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from tabane.errors import TabaneError
from tabane.hub.http.door import HttpDoor, HttpWaits
from tabane.hub.hub import Hub
from tabane.messages import Message
from tabane.operations import Caller, Face, Operation, OperationTable, Privilege, Progress, StreamPart
from tabane.wire import websocket
from tabane.wire.websocket import Event, WebSocketDecoder
from tests.harness.http_hub import HttpClient, HttpHub, open_door, request
from tests.harness.running_hub import SOON, Json, RunningHub

RPC = frozenset({Face.RPC})


class Echo(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=1 << 22)] = ""
    number: Annotated[int, Meta(ge=1, le=100)] = 1
    mode: Literal["content", "summary"] = "content"
    times: Annotated[int, Meta(ge=0, le=10_000)] = 1


class Count(Struct, frozen=True, forbid_unknown_fields=True):
    """``fail`` is the part that is not made any more."""

    parts: Annotated[int, Meta(ge=1, le=100_000)] = 3
    size: Annotated[int, Meta(ge=0, le=1 << 21)] = 10
    fail: int = 0


class FakeOperations:
    """The operations, and what became of them."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.made = 0
        self.running = self.cancelled = self.left = self.streams = 0
        self.callers: list[Caller] = []
        self.stopped = False

    async def echo(self, caller: Caller, params: Echo) -> str:
        self.callers.append(caller)
        return params.text * params.times

    async def wait(self, caller: Caller, params: Echo) -> str:
        self.running += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return "opened"

    async def posts(self, caller: Caller, params: Echo) -> list[Json]:
        """As many posts as asked for, each with 1,000 characters that can be left out."""
        more = {"reasoning": "r" * 400, "summary": "s" * 300, "tags": ["t" * 300]}
        post = {"post_id": 1, "content": params.text, "user": "alice", **more}
        return [{"rank": rank, "score": 0.5, "post": post} for rank in range(params.times)]

    async def raw(self, caller: Caller, params: Echo) -> Raw:
        return Raw(b'{"tags":["not of a post"]}')

    async def fail(self, caller: Caller, params: Echo) -> None:
        raise ZeroDivisionError("a secret of ours")

    async def loading(self, caller: Caller, params: Echo) -> None:
        error = TabaneError(Message("The model is loading."))
        error.reason = "loading"  # type: ignore[misc]
        raise error

    async def count(self, caller: Caller, params: Count) -> AsyncIterator[StreamPart]:
        self.streams += 1
        try:
            for number in range(1, params.parts + 1):
                if number == params.fail:
                    raise ZeroDivisionError("a secret of ours")
                self.made += 1
                yield StreamPart({"number": number, "data": "x" * params.size}, number < params.parts)
        finally:
            self.left += 1

    async def work(self, caller: Caller, params: Echo, progress: Progress) -> str:
        return await self.wait(caller, params)

    async def stop(self, caller: Caller, params: Echo) -> dict[str, str]:
        self.stopped = True
        return {"status": "stopping"}

    def table(self) -> list[Operation]:
        read = Privilege.READ
        return [
            Operation("echo", "", Echo, self.echo, RPC, read, public=True),
            Operation("wait", "", Echo, self.wait, RPC, read, public=True),
            Operation("posts", "", Echo, self.posts, RPC, read, public=True),
            Operation("raw", "", Echo, self.raw, RPC, read, public=True),
            Operation("fail", "", Echo, self.fail, RPC, read, public=True),
            Operation("loading", "", Echo, self.loading, RPC, read, public=True),
            Operation("count", "", Count, self.count, RPC, read, kind="stream", public=True),
            Operation("secret", "", Echo, self.echo, RPC, read),
            Operation("work", "", Echo, self.work, RPC, read, kind="job"),
            Operation("stop_server", "", Echo, self.stop, RPC, Privilege.ADMIN),
            Operation("assistants_only", "", Echo, self.echo, frozenset({Face.MCP}), read, public=True),
        ]


class WebSocketClient:
    """A client that writes its frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._decoder = WebSocketDecoder(1 << 26, masked=False)
        self._events: list[Event] = []
        self.pongs = True
        """Whether it answers pings, as a client has to."""
        self.pings = 0

    def write(self, payload: bytes, opcode: int = websocket.TEXT) -> None:
        self.writer.write(websocket.frame(payload, opcode, os.urandom(4)))

    def send(self, value: Any) -> None:
        self.write(json.dumps(value).encode())

    async def event(self) -> Event | None:
        """The next thing the hub says; None where it has hung up. Pings are answered and passed over."""
        while True:
            while not self._events:
                data = await asyncio.wait_for(self._read(), SOON)
                if not data:
                    return None
                self._events += self._decoder.feed(data)
            event = self._events.pop(0)
            if not isinstance(event, websocket.WebSocketPing):
                return event
            self.pings += 1
            if self.pongs:
                self.write(event.data, websocket.PONG)

    async def _read(self) -> bytes:
        try:
            return await self.reader.read(1 << 18)
        except ConnectionError:
            return b""

    async def next(self) -> Any:
        event = await self.event()
        assert isinstance(event, websocket.WebSocketMessage), event
        assert event.text
        return json.loads(event.data)

    async def ask(self, method: str, params: Json | None = None, number: object = 1) -> Any:
        self.send(request(method, params, number))
        return await self.next()

    def close(self) -> None:
        self.writer.close()


class RpcHub(HttpHub):
    """A hub with its door, and the operations ``works`` that programs call there."""

    def __init__(self, running: RunningHub, door: HttpDoor, works: FakeOperations) -> None:
        super().__init__(running, door)
        self.works = works

    async def connect(
        self, path: str = "/", **headers: str | None
    ) -> tuple[int, dict[str, str], WebSocketClient]:
        """Ask for a WebSocket. Words of headers are joined by underscores here."""
        client = await self.peer()
        given: dict[str, str | None] = {
            "authorization": None,
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-version": "13",
            "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
        }
        client.send("GET", path, given | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = await client.head()
        return answer.status, answer.headers, WebSocketClient(client.reader, client.writer)

    async def frames(self, path: str = "/", **headers: str | None) -> WebSocketClient:
        status, _, frames = await self.connect(path, **headers)
        assert status == 101
        return frames


@asynccontextmanager
async def rpc_hub(folder: Path, *, waits: HttpWaits | None = None, **settings: Any) -> AsyncIterator[RpcHub]:
    """Run a hub without servers that serves :class:`FakeOperations` at a free port."""
    works = FakeOperations()

    def table(hub: Hub) -> OperationTable:
        return OperationTable([*works.table(), *hub.jobs.table()])

    async with open_door(folder, {}, table, waits, **settings) as (running, door):
        served = RpcHub(running, door, works)
        try:
            yield served
        finally:
            await served.close()


@asynccontextmanager
async def rpc_peer(folder: Path, **given: Any) -> AsyncIterator[tuple[RpcHub, HttpClient]]:
    """Run a hub as :func:`rpc_hub` does, with a client that is connected to it."""
    async with rpc_hub(folder, **given) as here:
        yield here, await here.peer()


@asynccontextmanager
async def rpc_frames(folder: Path, **given: Any) -> AsyncIterator[tuple[RpcHub, WebSocketClient]]:
    """Run a hub as :func:`rpc_hub` does, with a WebSocket to it."""
    async with rpc_hub(folder, **given) as here:
        yield here, await here.frames()
