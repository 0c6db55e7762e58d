"""One fetch: its limits, where it may go, and what another place never gets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tabane.errors import UpstreamError
from tabane.messages import Message, say
from tabane.net.fetching import MOST_ORIGINS, HttpFetcher
from tabane.net.http_failures import HttpFailure, HttpUnreachable, ResponseTooLong
from tests.harness.patience import until
from tests.harness.servers.raw_http import Handler, Raw, Request, Wire, raw
from tests.net.test_plain_connections import sends
from tests.net.test_secure_connections import peer

LIMIT = 1000


@asynccontextmanager
async def fetcher(proxy: str | None = None, **given: Any) -> AsyncIterator[HttpFetcher]:
    found = HttpFetcher(ssl.create_default_context, lambda url: proxy, **given)
    try:
        yield found
    finally:
        found.close()


async def fetched(url: str, *, seconds: float = 60, **given: Any) -> bytes:
    async with fetcher() as http:
        return (await http.fetch(url, limit=LIMIT, seconds=seconds, **given)).body


def answers(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(status, body, **headers)

    return handle


async def test_answers_come_over_one_connection() -> None:
    async with raw(answers(b"hi", x_y="1")) as server, fetcher(headers={"X-Own": "2"}) as http:
        for _ in range(3):
            found = await http.fetch(server.url, limit=2, seconds=60, headers={"X-More": "3"})
            assert (found.status, found.headers["X-Y"], found.body) == (200, "1", b"hi")
        assert server.accepted == 1
        sent = server.requests[0].headers
        assert (sent["x-own"], sent["x-more"], sent["accept-encoding"]) == ("2", "3", "identity")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_not_read_on(chunked: bool) -> None:
    async def endless(server: Raw, request: Request, wire: Wire) -> None:
        if chunked:
            wire.head(200, transfer_encoding="chunked")
        else:
            wire.head(200, content_length=str(1 << 40))
        while not wire.writer.is_closing():
            wire.chunk(b"x" * 4096) if chunked else wire.writer.write(b"x" * 4096)
            await wire.writer.drain()

    async with raw(endless) as server:
        with pytest.raises(ResponseTooLong):
            await fetched(server.url)
        await until(lambda: not server.open, "the connection was closed")


async def test_the_limit_counts_unpacked_bytes() -> None:
    packed = gzip.compress(b"x" * (LIMIT + 1))
    async with raw(answers(packed, content_encoding="gzip")) as server:
        with pytest.raises(ResponseTooLong):
            await fetched(server.url, packed=True)
        with pytest.raises(HttpFailure, match="compressed body"):
            await fetched(server.url)


async def test_a_time_is_that_of_the_whole_answer() -> None:
    async def slow(server: Raw, request: Request, wire: Wire) -> None:
        wire.head(200, content_length="9")
        wire.writer.write(b"x")
        await wire.gone()

    async with raw(slow) as server:
        with pytest.raises(TimeoutError):
            await fetched(server.url, seconds=0.2)
        await until(lambda: not server.open, "the connection was closed")


async def test_a_packed_body_that_is_not_read_is_not_refused() -> None:
    async with raw(answers(gzip.compress(b"no"), 404, content_encoding="gzip")) as server:
        async with fetcher() as http:
            assert (await http.fetch(server.url, limit=LIMIT, seconds=60)).status == 404
        with pytest.raises(HttpFailure, match="compressed body"):
            await fetched(server.url, shown=1)


@pytest.mark.parametrize("place", ["http://xn--a/", "mailto:a@b.example", "http://a:99999/", "http://[::1/"])
async def test_a_redirect_to_what_is_no_address_of_http_is_refused(place: str) -> None:
    async with raw(answers(b"", 302, location=place)) as server:
        with pytest.raises(UpstreamError, match="redirects to an invalid URL"):
            await fetched(server.url, redirects=True)


@pytest.mark.parametrize("host", [".example.com", "a" * 70 + ".example"])
async def test_a_name_that_cannot_be_one_of_a_host_is_refused_behind_a_proxy_too(host: str) -> None:
    async def opens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()
        writer.close()

    async with peer(opens) as port, fetcher(f"http://127.0.0.1:{port}") as http:
        with pytest.raises(HttpUnreachable, match="cannot be reached"):
            await http.fetch(f"https://{host}/", limit=LIMIT, seconds=60)


async def test_of_a_status_that_is_not_wanted_only_the_beginning_is_read() -> None:
    async with raw(answers(b"abcdef" * 1000, 500)) as server:
        assert await fetched(server.url) == b""
        assert await fetched(server.url, shown=3) == b"abc"
        assert len(await fetched(server.url, shown=10**6)) == 6000


@pytest.mark.parametrize("url", ["ftp://a/", "http:///x", "x", "http://a:99999/", "http://[::1/", ""])
async def test_another_address_than_one_of_http_is_refused(url: str) -> None:
    with pytest.raises(HttpFailure, match="the URL cannot be used"):
        await fetched(url)


async def test_redirects_stay_at_their_origin_and_carry_nothing_elsewhere() -> None:
    async with raw(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")) as other:

        async def moved(server: Raw, request: Request, wire: Wire) -> None:
            where = {"/mcp": "/next", "/loop": "/loop", "/away": other.url}.get(request.target)
            if where is None:
                wire.send(200, request.method.encode() + request.body)
            else:
                wire.send(302 if request.target == "/away" else 307, location=where)

        async with raw(moved) as server:
            assert await fetched(server.url, form=b"!", redirects=True) == b"POST!"
            assert await fetched(server.url, redirects=True) == b"GET"
            assert await fetched(server.url) == b""
            loop, away = (server.url.replace("/mcp", path) for path in ("/loop", "/away"))
            with pytest.raises(HttpFailure, match="too many times"):
                await fetched(loop, redirects=True)
            with pytest.raises(HttpFailure, match="another site"):
                await fetched(away, redirects=True, headers={"Authorization": "Bearer x"})
            assert await fetched(away, form=b"!", redirects=True) == b""  # not sent as a GET
        assert not other.accepted


async def test_addresses_are_judged_before_they_are_connected_to() -> None:
    judged: list[tuple[str, str]] = []

    def policy(host: str, address: str) -> Message | None:
        judged.append((host, address))
        return say("{host} is refused", host=host)

    async with raw(answers(b"")) as server, fetcher(policy=policy) as http:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(HttpFailure, match=f"{host} is refused"):
                await http.fetch(server.url.replace("127.0.0.1", host), limit=1, seconds=60)
        assert not server.accepted
        assert {address for host, address in judged if host == "localhost"} <= {"127.0.0.1", "::1"}


async def test_a_proxy_is_not_judged_and_another_kind_of_proxy_is_refused() -> None:
    def policy(host: str, address: str) -> Message | None:
        return say("refused")

    async with raw(answers(b"by proxy")) as server:
        async with fetcher(f"http://127.0.0.1:{server.port}", policy=policy) as http:
            found = await http.fetch("http://far.example/x?y=1", limit=LIMIT, seconds=60)
            assert found.body == b"by proxy"
            assert server.requests[0].target == "http://far.example/x?y=1"
        async with fetcher("socks5://127.0.0.1:1") as http:
            with pytest.raises(HttpFailure, match="other proxies are not supported"):
                await http.fetch("http://far.example/", limit=LIMIT, seconds=60)


async def test_connections_to_few_origins_are_kept() -> None:
    async with raw(answers(b"hi")) as server, fetcher() as http:
        for number in range(MOST_ORIGINS + 4):
            url = server.url.replace("127.0.0.1", f"127.0.0.{number + 1}")
            with contextlib.suppress(HttpFailure):  # the server listens at one address
                await http.fetch(url, limit=9, seconds=60)
        await until(lambda: not server.open, "the oldest was closed")


async def test_nothing_is_fetched_after_the_end() -> None:
    async with raw(answers(b"hi")) as server, fetcher() as http:
        http.close()
        with pytest.raises(HttpFailure, match="was closed"):
            await http.fetch(server.url, limit=9, seconds=60)
        assert not server.accepted


async def test_a_request_that_is_cancelled_ends_its_connection() -> None:
    async def never(server: Raw, request: Request, wire: Wire) -> None:
        await wire.gone()

    async with raw(never) as server, fetcher() as http:
        task = asyncio.create_task(http.fetch(server.url, limit=9, seconds=60))
        await until(lambda: bool(server.requests), "it has arrived")
        task.cancel()
        await until(lambda: not server.open, "the connection was closed")
