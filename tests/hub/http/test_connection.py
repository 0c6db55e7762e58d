"""Connections of clients: HTTP/1.1 below the application, over real sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tabane.hub.http.door import HttpWaits
from tabane.hub.http.request import HttpReply, HttpRequest
from tabane.hub.http.server import MOST_WAITING, AsgiApp, HttpConnection, HttpServer, date_line
from tests.harness.patience import until
from tests.harness.running_hub import loop_turns


class Owner(HttpServer):
    """The server of connections to one application."""

    full = False

    def __init__(self, app: AsgiApp) -> None:
        self.app, self.loop = cast("Any", app), asyncio.get_running_loop()
        self.open_connections, self.tasks = set(), set()
        self.date, self.waits = date_line(0), HttpWaits(idle=75.0)

    def refresh(self) -> None: ...

    def lost(self) -> None: ...

    def admit(self, request: HttpRequest) -> None: ...

    def upgraded(self, transport: asyncio.Transport, admission: Any) -> None: ...

    @property
    def connection(self) -> HttpConnection:
        (found,) = self.open_connections
        assert isinstance(found, HttpConnection)
        return found


class Peer:
    """A client that sends bytes."""

    def __init__(self, owner: Owner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.owner, self.reader, self.writer = owner, reader, writer

    def send(self, text: str) -> None:
        self.writer.write(text.replace("\n", "\r\n").encode())

    async def until(self, end: str) -> str:
        found = await self.reader.readuntil(end.replace("\n", "\r\n").encode())
        return found.decode().replace("\r\n", "\n")

    async def rest(self) -> str:
        return (await self.reader.read()).decode().replace("\r\n", "\n")


@asynccontextmanager
async def peer_of(app: AsgiApp) -> AsyncIterator[Peer]:
    """A client of an application."""
    owner = Owner(app)
    server = await owner.loop.create_server(lambda: HttpConnection(owner), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 28)
    try:
        yield Peer(owner, reader, writer)
    finally:
        writer.transport.abort()
        server.close()


async def told(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with what it was asked."""
    request = HttpRequest(scope, receive, send)
    body = await request.body(1 << 24)
    said = f"{request.method} {request.path} {scope['query_string'].decode()} {len(body)}"
    await request.reply(HttpReply(200, said.encode()))


def answer(text: str, *more: str) -> str:
    lines = ["HTTP/1.1 200 OK", "date: Thu, 01 Jan 1970 00:00:00 GMT", f"content-length: {len(text)}", *more]
    return "\n".join([*lines, "", text])


async def test_a_body_in_pieces_arrives_whole() -> None:
    async with peer_of(told) as peer:
        peer.send("POST /a HTTP/1.1\ncontent-length: 6\n\n")
        for part in ("ab", "cd", "ef"):
            await until(lambda: peer.owner.connection.answering, "the head has arrived")
            peer.send(part)
            await peer.writer.drain()
        assert await peer.until("/a  6") == answer("POST /a  6")
        peer.send("POST /b HTTP/1.1\ntransfer-encoding: chunked\n\n3\nabc\n1\nd\n0\n\n")
        assert (await peer.until("/b  4")).endswith("POST /b  4")


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async with peer_of(told) as peer:
        peer.send("POST /a HTTP/1.1\ncontent-length: 2\nexpect: 100-continue\n\n")
        assert await peer.until("\n\n") == "HTTP/1.1 100 Continue\n\n"
        peer.send("ab")
        assert await peer.until("/a  2") == answer("POST /a  2")


async def test_requests_in_one_piece_are_answered_one_after_the_other() -> None:
    running = 0

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1
        await told(scope, receive, send)

    async with peer_of(slow) as peer:
        peer.send("".join(f"GET /{n}?q={n} HTTP/1.1\n\n" for n in range(5)))
        expected = "".join(answer(f"GET /{n} q={n} 0") for n in range(5))
        assert await peer.until("q=4 0") == expected
        assert not peer.owner.connection.answering


@pytest.mark.parametrize(
    ("target", "said"), [("/a%20b?x=%20", "/a b x=%20"), ("http://hub:1/a?x", "/a x"), ("/a#part", "/a ")]
)
async def test_the_path_is_found_in_any_form_of_the_target(target: str, said: str) -> None:
    async with peer_of(told) as peer:
        peer.send(f"GET {target} HTTP/1.1\n\n")
        assert (await peer.until(f"GET {said} 0")).startswith("HTTP/1.1 200 OK\n")


@pytest.mark.parametrize("request_text", ["GET /a HTTP/1.0\n\n", "GET /a HTTP/1.1\nconnection: close\n\n"])
async def test_a_connection_ends_after_the_answer_if_the_client_wants_that(request_text: str) -> None:
    async with peer_of(told) as peer:
        peer.send(request_text)
        assert await peer.rest() == answer("GET /a  0", "connection: close")


async def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    async with peer_of(told) as peer:
        peer.send("HEAD /a HTTP/1.1\n\nGET /b HTTP/1.1\n\n")
        head = answer("HEAD /a  0").removesuffix("HEAD /a  0")
        assert await peer.until("/b  0") == head + answer("GET /b  0")


def start(status: int = 200, **headers: str) -> Any:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}


def part(body: bytes, *, more: bool = True) -> Any:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def test_an_answer_without_a_length_is_sent_in_chunks() -> None:
    async def streams(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        for text in (b"one", b"", b"two"):
            await send(part(text))
            await asyncio.sleep(0)
        await send(part(b"", more=False))

    async with peer_of(streams) as peer:
        peer.send("GET / HTTP/1.1\n\n")
        head, _, body = (await peer.until("\n0\n\n")).partition("\n\n")
        assert head.endswith("\ntransfer-encoding: chunked")
        assert body == "3\none\n3\ntwo\n0\n\n"


async def fails(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError


async def never_answers(scope: Any, receive: Any, send: Any) -> None: ...


async def sends_two_headers_in_one(scope: Any, receive: Any, send: Any) -> None:
    await send(start(x="1\r\ny: 2"))


@pytest.mark.parametrize("app", [fails, never_answers])
async def test_an_application_that_fails_is_an_error_of_the_server(app: AsgiApp) -> None:
    async with peer_of(app) as peer:
        peer.send("GET / HTTP/1.1\n\n")
        said = await peer.rest()
        assert said.startswith("HTTP/1.1 500 ")
        assert said.endswith("\n\nInternal Server Error")


async def fails_late(scope: Any, receive: Any, send: Any) -> None:
    await send(start())
    await send(part(b"begun"))
    raise ValueError


async def is_too_short(scope: Any, receive: Any, send: Any) -> None:
    await send(start(content_length="9"))
    await send(part(b"short", more=False))


async def is_too_long(scope: Any, receive: Any, send: Any) -> None:
    await send(start(content_length="2"))
    await send(part(b"long", more=False))


@pytest.mark.parametrize("app", [fails_late, is_too_short, is_too_long, sends_two_headers_in_one])
async def test_a_response_that_breaks_off_looks_like_one(app: AsgiApp) -> None:
    async with peer_of(app) as peer:
        peer.send("GET / HTTP/1.1\n\n")
        said = await peer.rest()
        assert "\n0\n\n" not in said
        assert "long" not in said
        assert "y: 2" not in said


async def test_an_application_hears_that_its_client_is_gone() -> None:
    heard: list[str] = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        scope["tabane.connection"].on_lost = lambda: heard.append("lost")
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    async with peer_of(waits) as peer:
        peer.send("GET / HTTP/1.1\n\n")
        await until(lambda: heard, "the request has arrived")
        peer.writer.transport.abort()
        await until(lambda: not peer.owner.tasks, "the application has ended")
        assert heard == ["http.request", "lost", "http.disconnect"]


async def later(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers when its client has had time to close its half."""
    request = HttpRequest(scope, receive, send)
    await request.body(1 << 24)
    await loop_turns(50)
    await request.reply(HttpReply(200, b"later"))


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere such a client cannot be told from one that left"
)
@pytest.mark.parametrize("app", [told, later])
async def test_a_client_that_has_closed_its_own_half_is_answered(app: AsgiApp) -> None:
    async with peer_of(app) as peer:
        peer.send("POST /a HTTP/1.1\ncontent-length: 2\n\nxy")
        peer.writer.write_eof()
        said = await peer.rest()
        assert said.startswith("HTTP/1.1 200 OK")
        assert said.endswith("later" if app is later else "POST /a  2")
        await until(lambda: not peer.owner.open_connections, "the connection is closed")


async def test_a_request_that_breaks_off_is_not_answered() -> None:
    async with peer_of(told) as peer:
        peer.send("POST /a HTTP/1.1\ncontent-length: 20\n\nxy")
        peer.writer.write_eof()
        assert await peer.rest() == ""


@pytest.mark.parametrize("half_first", [False, True])
async def test_a_client_that_closes_is_gone_at_once(half_first: bool) -> None:
    heard: list[str] = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    async with peer_of(waits) as peer:
        peer.send("GET / HTTP/1.1\n\n")
        await until(lambda: heard, "the request has arrived")
        connection = peer.owner.connection
        if half_first:
            peer.writer.write_eof()
            await loop_turns(20)
            assert peer.owner.tasks
        peer.writer.close()
        await loop_turns(20)
        connection.overdue(peer.owner.loop.time())  # as the server does each second
        await until(lambda: not peer.owner.tasks, "the application has ended")
        assert heard == ["http.request", "http.disconnect"]


async def test_a_body_that_nobody_takes_is_not_read_on() -> None:
    gate, sizes = asyncio.Event(), list[int]()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        while True:
            message = await receive()
            sizes.append(len(message["body"]))
            if not message["more_body"]:
                break
        await send(start(204))
        await send(part(b"", more=False))

    async with peer_of(late) as peer:
        length = 32 << 20
        peer.send(f"POST / HTTP/1.1\ncontent-length: {length}\n\n")
        peer.writer.write(b"x" * length)
        await until(lambda: not peer.owner.connection.transport.is_reading(), "reading has stopped")
        gate.set()
        assert (await peer.until("\n\n")).startswith("HTTP/1.1 204 ")
        assert sum(sizes) == length
        assert max(sizes) < 4 * MOST_WAITING


async def test_a_client_that_does_not_read_stops_the_application() -> None:
    sent = 0

    async def much(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(start())
        for _ in range(1000):
            await send(part(b"x" * (64 << 10)))
            sent += 1
        await send(part(b"", more=False))

    async with peer_of(much) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send("GET / HTTP/1.1\n\n")
        await until(lambda: peer.owner.connection.write_paused, "the application waits")
        assert sent < 1000
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await peer.until("\n0\n\n")
        assert sent == 1000


async def test_a_whole_answer_waits_for_a_client_that_does_not_read() -> None:
    async def big(scope: Any, receive: Any, send: Any) -> None:
        await HttpRequest(scope, receive, send).reply(HttpReply(200, b"x" * (16 << 20)))

    async with peer_of(big) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send("GET / HTTP/1.1\n\nGET / HTTP/1.1\n\nGET / HTTP/1.1\nconnection: close\n\n")
        await until(lambda: peer.owner.connection.write_paused, "the first is on its way")
        await loop_turns()
        assert peer.owner.connection.transport.get_write_buffer_size() < 20 << 20  # the others wait
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await peer.rest()) > 3 * (16 << 20)


async def test_an_idle_connection_is_closed_after_its_time_and_not_before() -> None:
    async with peer_of(told) as peer:
        peer.send("GET /a HTTP/1.1\n\n")
        await peer.until("/a  0")
        connection, now = peer.owner.connection, peer.owner.loop.time()
        await until(lambda: not connection.answering, "it is idle")
        connection.overdue(now + 70)
        peer.send("GET /b HTTP/1.1\n\n")
        await peer.until("/b  0")
        connection.overdue(peer.owner.loop.time() + 80)
        assert await peer.rest() == ""
        await until(lambda: not peer.owner.open_connections, "it is gone")
