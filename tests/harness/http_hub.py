"""A hub in this process that is served over HTTP, and clients that send handwritten requests."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tabane.hub.http.authentication import HttpIdentities
from tabane.hub.http.door import HttpDoor, HttpWaits
from tabane.hub.hub import Hub
from tabane.hub.process.administration import HubAdministration, table_of
from tabane.hub.process.joining import group_of, routing_of, shared_servers_of
from tabane.operations import Caller, OperationTable
from tabane.wire.sse import Event, EventParser
from tests.harness.running_hub import ENVELOPE, SOON, Json, RunningHub, running_hub

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
BOTH = "application/json, text/event-stream"


Identities = HttpIdentities | Callable[[Hub], HttpIdentities] | None
"""Who is known over HTTP besides the local user: given, or those of the hub itself."""


@dataclass
class Answer:
    """The head of a response, and its body where that was read."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    lines: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def streams(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def code(self) -> Any:
        """The code of the JSON-RPC error that it is."""
        return self.json["error"]["code"]


class HttpClient:
    """One connection, kept alive until it is closed."""

    def __init__(self, hub: HttpHub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hub, self.reader, self.writer = hub, reader, writer
        self._parser = EventParser()
        self._events: list[Event] = []
        self.ended = False

    # -- requests --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    def send(self, method: str, path: str, headers: Mapping[str, str | None], body: bytes = b"") -> None:
        """A request. A header of None is left out of those that there are by default."""
        given = {"host": f"127.0.0.1:{self.hub.door.port}", "authorization": self.hub.bearer, **headers}
        if body or method == "POST":
            given.setdefault("content-length", str(len(body)))
        lines = [f"{name}: {value}\r\n" for name, value in given.items() if value is not None]
        self.write(f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1") + body)

    def send_message(self, message: Any, path: str = "/mcp/full", **headers: str | None) -> None:
        """A POST. Words of headers are joined by underscores here."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send("POST", path, {"accept": BOTH, "content-type": "application/json", **named}, body)

    async def post(self, message: Any, path: str = "/mcp/full", **headers: str | None) -> Answer:
        """A POST, and all of its response: on a slow machine, any answer may become a stream."""
        self.send_message(message, path, **headers)
        return await self.whole(batch=isinstance(message, list))

    async def begin(self, message: Any, path: str = "/mcp/full", **headers: str | None) -> Answer:
        """A POST whose response is a stream; its events are left to the caller."""
        self.send_message(message, path, **headers)
        return await self.answer()

    async def get(self, path: str, **headers: str | None) -> Answer:
        self.send("GET", path, {name.replace("_", "-"): value for name, value in headers.items()})
        return await self.answer()

    # -- responses -------------------------------------------------------------------------------

    async def head(self) -> Answer:
        """The head of the next response; of a stream, the events come after it."""
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), SOON)
        self._parser, self._events, self.ended = EventParser(), [], False
        first, *lines = raw.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(int(first.split()[1]), headers, lines=lines)

    async def answer(self) -> Answer:
        """The next response; with its body, unless it is a stream."""
        found = await self.head()
        if "content-length" in found.headers:
            length = int(found.headers["content-length"])
            found.body = await asyncio.wait_for(self.reader.readexactly(length), SOON)
        return found

    async def whole(self, *, batch: bool = False) -> Answer:
        """The next response with its answer as the body, also where that is the end of a stream.

        The answers to a ``batch`` are a list. What a stream tells before its answer is passed over.
        """
        found = await self.answer()
        if found.streams:
            answers = []
            while (event := await self.event()) is not None:
                message = json.loads(event.data) if event.data else {"method": None}
                if "method" not in message:
                    answers.append(message)
            assert answers, "the stream ended without an answer"
            found.body = json.dumps(answers if batch else answers[0]).encode()
        return found

    async def reply(self) -> Json:
        """The message of the next response, which is a stream where the answer took long."""
        return cast("Json", (await self.whole()).json)

    async def event(self) -> Event | None:
        """The next event of the stream that the last response is; None at its end."""
        while not self._events:
            if self.ended:
                return None
            chunk = await self.chunk()
            self.ended = not chunk
            self._events += self._parser.feed(chunk)
        return self._events.pop(0)

    async def message(self) -> Json:
        """The next event that has data, decoded."""
        while True:
            event = await self.event()
            assert event is not None, "the stream has ended"
            if event.data:
                message: Json = json.loads(event.data)
                return message

    async def chunk(self) -> bytes:
        """The next chunk of a body sent in chunks; empty for the last."""
        size = int(await asyncio.wait_for(self.reader.readline(), SOON), 16)
        data = await asyncio.wait_for(self.reader.readexactly(size + 2), SOON)
        return data[:-2]

    async def closed(self) -> bool:
        """Wait until the hub has closed the connection; whether it did."""
        try:
            while await asyncio.wait_for(self.reader.read(1 << 16), SOON):
                pass
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        """Go away without a word."""
        self.writer.transport.abort()


class RecordedProcess:
    """What the administration administers: it counts who ends it, and lives on."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.kept_on = 0
        self.stored: dict[str, Any] = {}
        """What status shows of stored data."""

    def report(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    async def kept(self) -> dict[str, Any]:
        return self.stored

    def settings_report(self, caller: Caller) -> list[dict[str, Any]]:
        return []

    def beginning(self, caller: Caller) -> dict[str, Any] | None:
        return None

    def end(self, why: str) -> None:
        self.ends.append(why)

    def sign_in_link(self) -> str:
        raise NotImplementedError

    def restart(self) -> None:
        raise NotImplementedError

    async def try_port(self) -> None:
        pass

    def keep(self) -> None:
        self.kept_on += 1


class HttpHub:
    """A running hub with its door over HTTP. Its clients are closed with it."""

    def __init__(self, running: RunningHub, door: HttpDoor, trusted: ssl.SSLContext | None = None) -> None:
        self.running, self.door, self.hub = running, door, running.hub
        self.trusted = trusted
        """How clients trust the hub's certificate, if it has one."""
        self.process = RecordedProcess()
        """Records what was asked of the hub's process."""
        self._clients: list[HttpClient] = []

    @property
    def bearer(self) -> str | None:
        return f"Bearer {self.door.token}" if self.door.token else None

    @property
    def mcp_url(self) -> str:
        assert self.door.url
        return self.door.url

    def url(self, path: str = "/", scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.door.port}{path}"

    async def peer(self, limit: int = 1 << 26, *, trusted: ssl.SSLContext | None = None) -> HttpClient:
        """A client on a connection of its own."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.door.port, limit=limit, ssl=trusted or self.trusted
        )
        self._clients.append(HttpClient(self, reader, writer))
        return self._clients[-1]

    async def session(self, peer: HttpClient, version: str = LEGACY, **capabilities: Any) -> dict[str, str]:
        """The headers of a session that has begun, in the words of :meth:`Peer.post`."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = await peer.post(request("initialize", params, 0))
        assert answer.status == 200, answer
        headers = {"mcp_session_id": answer.headers["mcp-session-id"]}
        if version != "2025-03-26":
            headers["mcp_protocol_version"] = version
        told = await peer.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
        assert told.status == 202
        return headers

    async def close(self) -> None:
        for client in self._clients:
            client.close()
        await self.door.close()


def request(method: str, params: Json | None = None, number: Any = 1) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def call(name: str, number: Any = 1, /, **arguments: Any) -> Json:
    return request("tools/call", {"name": name, "arguments": arguments}, number)


def modern(message: Json, **meta: Any) -> tuple[Json, dict[str, str]]:
    """A message of 2026-07-28, and the headers that repeat it."""
    params = {**message["params"], "_meta": {**ENVELOPE, **meta}}
    headers = {"mcp_protocol_version": MODERN, "mcp_method": message["method"]}
    if "name" in params or "uri" in params:
        headers["mcp_name"] = params.get("name") or params["uri"]
    return {**message, "params": params}, headers


def text_of(message: Json) -> Any:
    """What the tool said that a message is the result of."""
    return json.loads(message["result"]["content"][0]["text"])


@asynccontextmanager
async def open_door(
    folder: Path,
    servers: Mapping[str, Json],
    table: Callable[[Hub], OperationTable],
    waits: HttpWaits | None = None,
    identities: Identities = None,
    **settings: Any,
) -> AsyncIterator[tuple[RunningHub, HttpDoor]]:
    """Run a hub over those servers, and serve the operations of ``table`` at a free port."""
    os.chmod(folder, 0o700)
    given = {"http": True, "port": 0, **settings}
    async with running_hub(folder, servers, **given) as running:
        running.group = group = group_of(running.hub)
        known = identities(running.hub) if callable(identities) else identities
        links = shared_servers_of(running.hub, group)
        routing = routing_of(group)
        door = HttpDoor(running.hub, waits or HttpWaits(), table(running.hub), known, routing, links)
        door.open()
        assert door.problem is None, door.problem
        if group is not None:
            group.open()
        try:
            yield running, door
        finally:
            if group is not None:
                await group.close()


@asynccontextmanager
async def http_hub(
    folder: Path,
    servers: Mapping[str, Json] | None = None,
    *,
    waits: HttpWaits | None = None,
    identities: Identities = None,
    trusted: ssl.SSLContext | None = None,
    **settings: Any,
) -> AsyncIterator[HttpHub]:
    """Run a hub over those servers, with the product's operations, at a free port."""
    administration = HubAdministration()

    def table(hub: Hub) -> OperationTable:
        return table_of(hub, administration)

    async with open_door(folder, servers or {}, table, waits, identities, **settings) as (running, door):
        served = HttpHub(running, door, trusted)
        administration.of(served.process)
        try:
            yield served
        finally:
            await served.close()


@asynccontextmanager
async def http_peer(
    folder: Path, servers: Mapping[str, Json] | None = None, **given: Any
) -> AsyncIterator[tuple[HttpHub, HttpClient]]:
    """Run a hub as :func:`http_hub` does, with a client that is connected to it."""
    async with http_hub(folder, servers, **given) as here:
        yield here, await here.peer()
