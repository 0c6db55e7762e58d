"""An HTTP server whose answers a test controls byte for byte; by default it is a correct MCP server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.harness.patience import LONG
from tests.harness.ports import reserved_port

Json = dict[str, Any]
TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}},
    {"name": "peek", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


@dataclass
class Request:
    """One request as it came; ``headers`` by lower-cased name."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    message: Json = field(default_factory=dict)

    @property
    def rpc(self) -> str:
        """The JSON-RPC method; empty where there is none."""
        return str(self.message.get("method", ""))

    @property
    def tool(self) -> str:
        return str(self.message.get("params", {}).get("name", "")) if self.rpc == "tools/call" else ""

    def result(self, result: Json) -> Json:
        return {
            "jsonrpc": "2.0",
            "id": self.message.get("id"),
            "result": {"resultType": "complete", **result},
        }

    def text(self, text: str = "done") -> Json:
        """The response to a call, with that text."""
        return self.result({"content": [{"type": "text", "text": text}]})


class Wire:
    """Where a request is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.closing = False

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole response; ``content_type`` stands for Content-Type."""
        headers.setdefault("content_length", str(len(body)))
        self.head(status, **headers)
        self.writer.write(body)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.send(status, json.dumps(value).encode(), content_type="application/json", **headers)

    def head(self, status: int, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    def stream(self, **headers: str) -> None:
        """Begin a stream of events."""
        self.head(200, content_type="text/event-stream", transfer_encoding="chunked", **headers)

    def chunk(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, value: Any, *, id: str | None = None, name: str = "message") -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        head = f"id: {id}\n" if id is not None else ""
        self.chunk(f"{head}event: {name}\ndata: {data}\n\n".encode())

    def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")

    def drop(self) -> None:
        """Cut the connection in the middle of whatever it does."""
        self.closing = True
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        self.closing = True
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1024):
                pass


Handler = Callable[["Raw", Request, Wire], Awaitable[None]]


class Raw:
    """The server. ``requests`` is all that came, over ``accepted`` connections; ``answer`` is the test's."""

    def __init__(self, answer: Handler | None, tls: ssl.SSLContext | None, path: str) -> None:
        self.requests: list[Request] = []
        self.open = self.accepted = 0
        self.sessions: set[str] = set()
        self.tools: list[Json] = list(TOOLS)
        self._answer = answer
        self._tls, self._path = tls, path
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = reserved_port(self)  # also while it is stopped

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls, limit=1 << 24
        )

    async def stop(self) -> None:
        """Go, as a process that is killed: no connection is taken, those there are cut."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{self._path}"

    def asked(self, rpc: str) -> list[Request]:
        """The requests of that JSON-RPC method, or of that HTTP method."""
        return [request for request in self.requests if rpc in (request.rpc, request.method, request.tool)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open += 1
        self.accepted += 1
        try:
            while request := await _request(reader):
                self.requests.append(request)
                wire = Wire(reader, writer)
                await (self._answer or type(self).default)(self, request, wire)
                await writer.drain()
                if wire.closing:
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self._writers.discard(writer)
            writer.close()

    async def default(self, request: Request, wire: Wire) -> None:
        """A modern server that answers as it should."""
        await modern(self, request, wire)


async def modern(server: Raw, request: Request, wire: Wire) -> None:
    """A stateless server of 2026-07-28."""
    if request.method != "POST":
        wire.send(405)
    elif request.rpc == "server/discover":
        wire.json(
            request.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0})
        )
    elif request.rpc == "tools/list":
        wire.json(request.result({"tools": server.tools, "ttlMs": 0, "cacheScope": "public"}))
    elif request.rpc == "tools/call":
        wire.json(request.text())
    else:
        error = {"code": -32601, "message": "no such method"}
        wire.json({"jsonrpc": "2.0", "id": request.message.get("id"), "error": error}, 404)


async def legacy(server: Raw, request: Request, wire: Wire) -> None:
    """A server of 2025-11-25 with sessions and no stream of its own."""
    session = request.headers.get("mcp-session-id", "")
    if request.rpc == "initialize":
        name = f"s{len(server.requests)}"
        server.sessions.add(name)
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
        wire.json(request.result(result), mcp_session_id=name)
    elif session not in server.sessions:
        wire.send(404 if session else 400, b"session not found")
    elif request.method == "DELETE":
        server.sessions.discard(session)
        wire.send(200)
    elif request.method != "POST":
        wire.send(405)
    elif "id" not in request.message or "method" not in request.message:
        wire.send(202)
    elif request.rpc == "tools/list":
        wire.json(request.result({"tools": server.tools}))
    elif request.rpc == "tools/call":
        wire.json(request.text())
    else:
        wire.json(request.result({}))


@asynccontextmanager
async def raw(
    answer: Handler | None = None, *, tls: ssl.SSLContext | None = None, path: str = "/mcp"
) -> AsyncIterator[Raw]:
    """A server that answers with ``answer``, and goes at the end."""
    server = Raw(answer, tls, path)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextmanager
def serving(answer: Handler | None = None) -> Iterator[Raw]:
    """The same in a thread, for tests of whole processes."""
    loop = asyncio.new_event_loop()
    server = Raw(answer, None, "/mcp")
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(LONG)
        yield server
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(LONG)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _request(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
        if name
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    request = Request(method, target, headers, body)
    with contextlib.suppress(ValueError):
        message = json.loads(body) if body else {}
        request.message = message if isinstance(message, dict) else {}
    return request
