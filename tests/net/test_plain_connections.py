"""Connections to servers over plain HTTP: what is kept, what is refused, and what goes another way."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from yarl import URL

from tabane.errors import UpstreamUnavailable
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_connections import (
    LARGEST_HEAD,
    MOST_HEADERS,
    MOST_WAITING,
    HttpConnections,
    HttpResponse,
)
from tabane.net.http_failures import HttpConnectionBroken, HttpUnreachable, ResponseTooLong
from tabane.net.http_responses import body
from tabane.net.routes import Route
from tabane.servers.server import Server, target_of
from tests.harness.patience import until
from tests.harness.servers.raw_http import Handler, Raw, Request, Wire, raw

LIMIT = 1 << 20


@asynccontextmanager
async def client_of(
    handler: Handler, *, host: str = "127.0.0.1", **keys: Any
) -> AsyncIterator[tuple[Raw, UpstreamHttpClient]]:
    """A server, and a client of it."""
    async with raw(handler) as server:
        url = server.url.replace("127.0.0.1", host)
        client = UpstreamHttpClient(target_of(Server("web", "http", url=url, **keys)), {})
        try:
            yield server, client
        finally:
            await client.close()


async def ask(client: UpstreamHttpClient, method: str = "POST", content: bytes | None = b"{}") -> bytes:
    """The body of the response to a request."""
    response = await client.send(method, {"Content-Type": "application/json"}, content)
    try:
        return await body(response, LIMIT)
    finally:
        response.release()


def sends(data: bytes, *, closing: bool = False) -> Handler:
    """A server that answers everything with those bytes."""

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        wire.writer.write(data)
        wire.closing = closing

    return handle


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with client_of(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")) as (server, client):
        for _ in range(10):
            assert await ask(client) == b"hi"
        assert server.accepted == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdefg",
        b"HTTP/1.1 200 OK\nContent-Length: 7\n\nabcdefg",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdefg",
    ],
)
async def test_a_body_is_read_however_it_is_framed(answer: bytes) -> None:
    async with client_of(sends(answer)) as (server, client):
        assert [await ask(client), await ask(client)] == [b"abcdefg"] * 2
        assert server.accepted == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"])
async def test_a_body_without_a_length_ends_with_its_connection(head: bytes) -> None:
    async with client_of(sends(head + b"abc", closing=True)) as (server, client):
        assert [await ask(client), await ask(client)] == [b"abc"] * 2
        assert server.accepted == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nabcdefg",
        b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nabcdefg",
        # What nobody has asked for may be meant for the next request.
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdefgHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_connection_that_may_not_be_used_again_is_not(answer: bytes) -> None:
    async with client_of(sends(answer)) as (server, client):
        for count in (1, 2, 3):
            assert await ask(client) == b"abcdefg"
            assert server.accepted == count


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01\x00\x05",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (LARGEST_HEAD + 1),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (MOST_HEADERS + 1) + b"\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: br\r\n\r\nabc",
    ],
)
async def test_an_answer_that_is_not_understood_breaks_the_connection(answer: bytes) -> None:
    async with client_of(sends(answer)) as (server, client):
        with pytest.raises(HttpConnectionBroken, match="something that is not HTTP"):
            await ask(client)
        await until(lambda: not server.open, "the connection was closed")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
async def test_a_body_that_is_cut_off_is_no_body(answer: bytes) -> None:
    async with client_of(sends(answer, closing=True)) as (_, client):
        with pytest.raises(HttpConnectionBroken, match="too early"):
            await ask(client)


async def test_trailers_without_end_are_cut_off() -> None:
    async def endless(server: Raw, request: Request, wire: Wire) -> None:
        wire.head(200, transfer_encoding="chunked")
        wire.writer.write(b"1\r\nx\r\n0\r\nTrailer: " + b"x" * (2 * LARGEST_HEAD))
        await wire.gone()

    async with client_of(endless) as (server, client):
        with pytest.raises(HttpConnectionBroken, match="too early"):
            await ask(client)
        await until(lambda: not server.open, "the connection was closed")


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_only_what_may_be_repeated_is_sent_again_over_a_new_connection(method: str) -> None:
    dropped: list[Request] = []

    async def drops_second(server: Raw, request: Request, wire: Wire) -> None:
        if len(server.requests) == 2:
            dropped.append(request)
            wire.drop()
        else:
            wire.send(200, b"hi")

    async with client_of(drops_second) as (server, client):
        assert await ask(client) == b"hi"
        content = b"{}" if method == "POST" else None
        if method == "POST":
            with pytest.raises(HttpConnectionBroken):
                await ask(client, method, content)
            assert len(server.requests) == 2
        else:
            assert await ask(client, method, content) == b"hi"
            assert len(server.requests) == 3
        assert len(dropped) == 1


async def test_a_request_that_is_cancelled_ends_its_connection_and_no_other() -> None:
    async def slow(server: Raw, request: Request, wire: Wire) -> None:
        if request.body == b"slow":
            await wire.gone()
        else:
            wire.send(200, b"hi")

    async with client_of(slow) as (server, client):
        task = asyncio.create_task(ask(client, content=b"slow"))
        await until(lambda: server.open, "the request has arrived")
        assert await ask(client) == b"hi"
        task.cancel()
        await until(lambda: server.open == 1, "its connection was closed")
        assert await ask(client) == b"hi"
        assert server.accepted == 2


async def test_what_is_given_back_unread_is_not_read_on() -> None:
    async def endless(server: Raw, request: Request, wire: Wire) -> None:
        wire.head(200, content_length=str(1 << 30))
        while not wire.writer.is_closing():
            wire.writer.write(b"x" * 4096)
            await wire.writer.drain()

    async with client_of(endless) as (server, client):
        response = await client.send("GET", {})
        response.release()
        await until(lambda: not server.open, "the connection was closed")


async def test_a_server_is_not_read_faster_than_its_answer_is_taken() -> None:
    sent = 0

    async def much(server: Raw, request: Request, wire: Wire) -> None:
        nonlocal sent
        wire.writer.transport.set_write_buffer_limits(high=0)
        wire.head(200, transfer_encoding="chunked")
        for _ in range(2000):
            wire.chunk(b"x" * (64 << 10))
            await wire.writer.drain()
            sent += 64 << 10
        wire.end()

    async with client_of(much) as (_, client):
        response = await client.send("GET", {})
        before = -1
        while before != sent:  # until nothing more goes out
            before = sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert sent < 32 << 20  # the rest waits: at the server, and in the buffers of the system
        assert len(await response.content.readany()) <= MOST_WAITING + (8 << 10)
        taken = 0
        while part := await response.content.readany():
            taken += len(part)
        assert taken > 100 << 20


async def test_requests_above_the_limit_wait_for_a_connection() -> None:
    gate = asyncio.Event()

    async def held(server: Raw, request: Request, wire: Wire) -> None:
        await gate.wait()
        wire.send(200, b"hi")

    async with raw(held) as server:
        client = HttpConnections(
            URL(server.url), {}, Route(ssl.create_default_context), most=2, patience=60, keep=60
        )

        async def get() -> bytes:
            response = await client.send("GET", "/", {}, None)
            return await response.read()

        tasks = [asyncio.create_task(get()) for _ in range(6)]
        await until(lambda: len(server.requests) == 2, "the first have arrived")
        tasks.pop().cancel()  # one that waits
        gate.set()
        assert await asyncio.gather(*tasks) == [b"hi"] * 5
        assert (len(server.requests), server.accepted) == (5, 2)
        client.close()
        with pytest.raises(HttpConnectionBroken):
            await get()


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with raw(sends(b"HTTP/1.1 204 X\r\n\r\n")) as server:
        client = HttpConnections(
            URL(server.url), {}, Route(ssl.create_default_context), most=4, patience=60, keep=0.05
        )
        for _ in range(3):
            (await client.send("GET", "/", {}, None)).release()
            await until(lambda: not server.open, "it was closed")
        assert server.accepted == 3
        client.close()


async def test_a_connection_that_was_idle_while_the_loop_stood_still_is_not_used() -> None:
    async with raw(sends(b"HTTP/1.1 204 X\r\n\r\n")) as server:
        client = HttpConnections(URL(server.url), {}, Route(ssl.create_default_context), most=4, keep=0.05)
        (await client.send("POST", "/", {}, b"")).release()
        blocked = threading.Event()
        asyncio.get_running_loop().call_soon(blocked.wait, 0.1)
        await asyncio.sleep(0)
        (await client.send("POST", "/", {}, b"")).release()
        assert server.accepted == 2
        client.close()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "bare deflate"])
async def test_a_packed_body_is_unpacked_within_the_limit(coding: str) -> None:
    async def packed(server: Raw, request: Request, wire: Wire) -> None:
        assert "gzip" in request.headers["accept-encoding"]
        plain = request.body * 1000
        bare = zlib.compressobj(wbits=-15)
        data = {
            "gzip": gzip.compress(plain),
            "deflate": zlib.compress(plain),
            "bare deflate": bare.compress(plain) + bare.flush(),
        }[coding]
        wire.send(200, data, content_encoding=coding.rpartition(" ")[2])

    async with client_of(packed) as (_, client):
        assert await ask(client, content=b"abc") == b"abc" * 1000
        with pytest.raises(ResponseTooLong):
            await ask(client, content=b"abc" * 1000)


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\0b"])
async def test_a_header_never_becomes_two(value: str) -> None:
    async with client_of(sends(b"")) as (server, client):
        with pytest.raises(ValueError, match="header"):
            await client.send("POST", {"Mcp-Name": value}, b"{}")
        assert not server.requests


async def test_headers_of_the_user_replace_the_usual_ones() -> None:
    async def echo(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(200, json.dumps(request.headers).encode())

    async with client_of(echo, headers={"accept": "text/plain", "X-Key": "é", "HOST": "example.org"}) as (
        _,
        client,
    ):
        found = json.loads(await ask(client))
        assert (found["accept"], found["host"], found["content-length"]) == ("text/plain", "example.org", "2")
        assert found["x-key"].encode("latin-1") == "é".encode()


async def test_cookies_of_a_host_with_a_name_are_sent_back() -> None:
    async def once(server: Raw, request: Request, wire: Wire) -> None:
        cookie = request.headers.get("cookie", "")
        headers = {} if cookie else {"set_cookie": "node=7; Path=/"}
        wire.send(200, cookie.encode(), **headers)

    async with client_of(once, host="localhost") as (_, client):
        assert [await ask(client) for _ in range(3)] == [b"", b"node=7", b"node=7"]


async def test_a_redirect_with_the_same_method_is_followed_over_the_same_connection() -> None:
    async def moved(server: Raw, request: Request, wire: Wire) -> None:
        if request.target == "/mcp":
            wire.send(307, b"gone", location="/other?x=1")
        else:
            wire.send(200, request.method.encode() + request.target.encode() + request.body)

    async with client_of(moved) as (server, client):
        assert await ask(client, content=b"!") == b"POST/other?x=1!"
        assert server.accepted == 1


async def test_a_redirect_to_another_place_is_not_followed() -> None:
    answer = b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/mcp\r\nContent-Length: 0\r\n\r\n"
    async with client_of(sends(answer)) as (_, client):
        with pytest.raises(UpstreamUnavailable, match="another site"):
            await ask(client)


async def test_who_is_not_there_is_named_without_the_addresses() -> None:
    async with client_of(sends(b""), host="localhost") as (server, client):
        await server.stop()
        with pytest.raises(HttpUnreachable) as caught:
            await ask(client)
        assert str(caught.value.problem) == f"localhost:{server.port} cannot be reached: Connection refused"


async def test_a_long_request_arrives_whole() -> None:
    async def count(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(200, b"%d" % len(request.body))

    async with client_of(count) as (_, client):
        assert await ask(client, content=b"x" * (9 << 20)) == b"%d" % (9 << 20)
        assert await ask(client) == b"2"


async def test_a_response_is_of_the_common_kind() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nX-Two: 1\r\nx-two:  2 \r\nContent-Length: 2\r\n\r\nhi"
    async with client_of(sends(answer)) as (_, client):
        response: HttpResponse = await client.send("GET", {})
        assert (response.status, response.content_length) == (404, 2)
        assert response.headers.getall("x-two") == ["1", "2"]
        assert (response.headers.get("X-TWO"), "x-none" in response.headers) == ("1", False)
        assert (await response.read(), response.content.at_eof()) == (b"hi", True)
