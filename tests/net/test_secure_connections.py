"""Connections over TLS and through proxies: what is kept, what is refused, and who sees what."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from yarl import URL

from tabane.errors import UpstreamUnavailable
from tabane.net.http_client import UpstreamHttpClient
from tabane.net.http_connections import LARGEST_TUNNEL_HEAD, HttpConnections, HttpResponse
from tabane.net.http_failures import HttpFailure, HttpUnreachable
from tabane.net.http_responses import body
from tabane.net.routes import Route
from tabane.net.target import Target
from tests.harness.patience import until
from tests.harness.servers.raw_http import Raw, Request, Wire, raw
from tests.net.test_connecting import tls
from tests.net.test_plain_connections import ask, sends

HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def client_to(
    url: str, authority: trustme.CA, folder: Path, proxy: str = ""
) -> AsyncIterator[UpstreamHttpClient]:
    """A client that trusts the authority."""
    bundle = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    client = UpstreamHttpClient(Target("web", url, 4, proxy=proxy, ca=str(bundle)), {})
    try:
        yield client
    finally:
        await client.close()


Speaks = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def peer(speaks: Speaks, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that does as it is told with each connection."""
    server = await asyncio.start_server(speaks, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_requests_over_tls_share_a_connection(authority: trustme.CA, tmp_path: Path) -> None:
    async with (
        raw(sends(HI), tls=tls(authority, "127.0.0.1")) as server,
        client_to(server.url, authority, tmp_path) as client,
    ):
        for _ in range(5):
            assert await ask(client) == b"hi"
        assert server.accepted == 1


async def test_a_request_over_a_kept_tls_connection_is_sent_at_once(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async with (
        raw(sends(HI), tls=tls(authority, "127.0.0.1")) as server,
        client_to(server.url, authority, tmp_path) as client,
    ):
        found: list[object] = []
        assert client.send_at_once({}, b"{}", found.append) is None
        await ask(client)
        assert client.send_at_once({}, b"{}", found.append) is not None
        await until(lambda: bool(found), "it was answered")
        assert (server.accepted, len(server.requests)) == (1, 2)


async def test_a_changed_context_ends_kept_connections(authority: trustme.CA) -> None:
    contexts = [ssl.create_default_context(), ssl.create_default_context()]
    for context in contexts:
        authority.configure_trust(context)
    async with raw(sends(HI), tls=tls(authority, "127.0.0.1")) as server:
        route = Route(lambda: contexts[-1])
        connections = HttpConnections(URL(server.url), {}, route, most=1, patience=60, keep=60)

        async def get() -> None:
            response = await connections.send("GET", "/", {}, None)
            assert await response.read() == b"hi"

        await get()
        await get()
        contexts.pop()
        await get()
        assert server.accepted == 2
        contexts.append(ssl.create_default_context())
        with pytest.raises(HttpUnreachable, match="is not trusted"):
            await get()
        connections.close()


async def test_a_request_cancelled_as_the_handshake_ends_gives_back_its_place(authority: trustme.CA) -> None:
    asked: list[asyncio.Task[object]] = []

    class Cancelling(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            if len(asked) == 1:
                asked[0].cancel()

    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.sslobject_class = Cancelling
    async with raw(sends(HI), tls=tls(authority, "127.0.0.1")) as server:
        connections = HttpConnections(URL(server.url), {}, Route(lambda: context), most=1, patience=5)
        asked.append(asyncio.create_task(connections.send("GET", "/", {}, None)))
        with pytest.raises(asyncio.CancelledError):
            await asked[0]
        asked.append(asyncio.create_task(connections.send("GET", "/", {}, None)))
        await asked[1]
        await until(lambda: server.open == 1, "the first connection was closed")
        connections.close()


async def test_an_ended_connection_leaves_nothing_to_the_garbage_collector(authority: trustme.CA) -> None:
    """TLS has buffers of 280 KB for each connection."""

    class OfClient(ssl.SSLObject):
        pass

    def alive(kind: type) -> int:
        return sum(isinstance(each, kind) for each in gc.get_objects())

    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.sslobject_class = OfClient
    async with raw(sends(HI), tls=tls(authority, "127.0.0.1")) as server:
        gc.disable()
        try:
            for _ in range(5):
                connections = HttpConnections(URL(server.url), {}, Route(lambda: context), most=5)
                response = await connections.send("GET", "/", {}, None)
                assert await response.read() == b"hi"
                connections.close()
            await until(lambda: alive(OfClient) == 0, "no connection is left")
        finally:
            gc.enable()


async def test_an_answer_that_ends_with_its_connection_is_given_once() -> None:
    async def answer(server: Raw, request: Request, wire: Wire) -> None:
        if len(server.requests) == 1:
            wire.send(200, b"hi")
        else:
            wire.head(200)
            wire.writer.write(b"hi")
            wire.closing = True

    async with raw(answer) as server:
        client = UpstreamHttpClient(Target("web", server.url, 4), {})
        await ask(client)
        found: list[HttpResponse | HttpFailure] = []
        assert client.send_at_once({}, b"{}", found.append) is not None
        await until(lambda: not server.open, "the connection was closed")
        (response,) = found
        assert isinstance(response, HttpResponse)
        assert await body(response, 2) == b"hi"
        await client.close()


async def test_a_certificate_of_another_host_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    async with (
        raw(sends(HI), tls=tls(authority, "elsewhere.example")) as server,
        client_to(server.url, authority, tmp_path) as client,
    ):
        with pytest.raises(HttpUnreachable, match="is not trusted") as caught:
            await ask(client)
        assert caught.value.untrusted
        assert not server.requests


async def test_a_handshake_that_is_broken_off_names_the_setting(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with (
        peer(hangs_up) as port,
        client_to(f"https://127.0.0.1:{port}/mcp", authority, tmp_path) as client,
    ):
        with pytest.raises(HttpUnreachable, match="during the TLS handshake"):
            await ask(client)


async def test_who_does_not_speak_tls_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async with peer(speaks) as port, client_to(f"https://127.0.0.1:{port}/", authority, tmp_path) as client:
        with pytest.raises(HttpUnreachable, match="no TLS connection"):
            await ask(client)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def proxy_to(port: int, heads: list[bytes]) -> Speaks:
    """A proxy that leads to a port; ``heads`` are those of its requests."""

    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        ahead, behind = await asyncio.open_connection("127.0.0.1", port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        else:
            behind.write(head)
        await asyncio.gather(_pipe(reader, behind), _pipe(ahead, writer))

    return speaks


@pytest.mark.parametrize("secure_server", [False, True])
@pytest.mark.parametrize("secure_proxy", [False, True])
async def test_a_proxy_may_be_reached_by_tls_too(
    authority: trustme.CA, tmp_path: Path, secure_server: bool, secure_proxy: bool
) -> None:
    heads: list[bytes] = []
    async with raw(sends(HI), tls=tls(authority, "far.example") if secure_server else None) as server:
        async with peer(
            proxy_to(server.port, heads), tls(authority, "127.0.0.1") if secure_proxy else None
        ) as port:
            way = f"{'https' if secure_proxy else 'http'}://me:secret@127.0.0.1:{port}"
            url = f"{'https' if secure_server else 'http'}://far.example/mcp"
            async with client_to(url, authority, tmp_path, way) as client:
                assert [await ask(client) for _ in range(3)] == [b"hi"] * 3
        first = b"CONNECT far.example:443 " if secure_server else b"POST http://far.example/mcp "
        assert len(heads) == server.accepted == 1
        assert heads[0].startswith(first)
        assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in heads[0]
        if secure_server:
            assert not any("proxy-authorization" in request.headers for request in server.requests)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Who\r\nContent-Length: 3\r\n\r\nwho", r"does not connect to far.example:443 \(407\)"),
        (b"HTTP/1.1 200 OK\r\n\r\n\x16\x03\x03early", "something that is not HTTP"),
        (b"hello\r\n\r\n", "something that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (LARGEST_TUNNEL_HEAD + 1), "something that is not HTTP"),
        (b"", "closed the connection"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_gets_nothing_else(
    authority: trustme.CA, tmp_path: Path, answer: bytes, words: str
) -> None:
    later: list[bytes] = []

    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if answer:
            later.append(await reader.read())
        writer.close()

    async with peer(speaks) as port:
        way = f"http://127.0.0.1:{port}"
        async with client_to("https://far.example/mcp", authority, tmp_path, way) as client:
            with pytest.raises(HttpUnreachable, match=words):
                await ask(client)
        if answer:
            await until(lambda: bool(later), "the connection was closed")
            assert later == [b""]


async def test_the_proxy_of_plain_http_does_not_matter_to_a_server_over_tls(
    authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    heads: list[bytes] = []
    async with (
        raw(sends(HI), tls=tls(authority, "far.example")) as server,
        peer(proxy_to(server.port, heads)) as port,
    ):
        proxies = {"HTTP_PROXY": "socks5://127.0.0.1:1", "HTTPS_PROXY": f"http://127.0.0.1:{port}"}
        client = UpstreamHttpClient(Target("web", "https://far.example/", 4, ca=str(bundle)), proxies)
        assert await ask(client) == b"hi"
        await client.close()


async def test_a_proxy_that_is_not_there_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    async with client_to("https://far.example/mcp", authority, tmp_path, "http://127.0.0.1:1") as client:
        with pytest.raises(HttpUnreachable, match=r"the proxy 127\.0\.0\.1:1 cannot be reached"):
            await ask(client)


async def test_a_redirect_to_another_port_is_not_followed_by_tls_either(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async def moved(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(308, location=secure.url)

    async with raw(sends(HI), tls=tls(authority, "127.0.0.1")) as secure, raw(moved) as server:
        async with client_to(server.url, authority, tmp_path) as client:
            with pytest.raises(UpstreamUnavailable, match="another site"):
                await ask(client)
        assert not secure.requests


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
async def test_a_header_of_the_user_does_not_contradict_the_framing(name: str) -> None:
    async with raw(sends(HI)) as server:
        client = UpstreamHttpClient(Target("web", server.url, 4, headers={name: "7"}), {})
        assert await ask(client, content=b"{}") == b"hi"
        assert server.requests[0].body == b"{}"
        assert "transfer-encoding" not in server.requests[0].headers
        await client.close()
