"""Connections to HTTP upstreams: certificates, proxies, headers, and checks of a definition."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tabane.hub.hub import Hub
from tabane.net.routes import environment_proxy, proxy_for
from tabane.net.target import is_loopback
from tabane.settings import load_settings
from tests.harness.running_hub import Json, RunningHub, configured, running_hub, text
from tests.harness.servers.raw_http import Raw, Request, Wire, legacy, modern, raw
from tests.net.test_failures import why_not


@asynccontextmanager
async def place_in(folder: Path, servers: dict[str, Json], **environ: str) -> AsyncIterator[RunningHub]:
    """A hub in an environment of its own."""
    path = configured(folder, servers)
    own = {"HOME": str(folder), "TABANE_HOME": str(folder), **environ}
    hub = Hub(load_settings({"servers": str(path), "config": None}, own), own, asyncio.get_running_loop())
    hub.open()
    here = RunningHub(hub)
    try:
        yield here
    finally:
        await here.close()


def tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


class Proxy:
    """A proxy that forwards: to tunnels by CONNECT, and whole URLs; ``requests`` are the first lines."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.authorized: list[str] = []
        self.target = 0
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.requests.append(first)
        self.authorized += [line for line in lines if line.lower().startswith("proxy-authorization")]
        ahead, behind = await asyncio.open_connection("127.0.0.1", self.target)
        if first.startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            behind.write(
                head.replace(b"http://elsewhere.example:80", b"").replace(b"http://elsewhere.example", b"")
            )
        await asyncio.gather(_pipe(reader, behind), _pipe(ahead, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    found = Proxy()
    found.target = target
    server = await found.start()
    try:
        yield found
    finally:
        server.close()


async def test_an_authority_of_ones_own_is_trusted_where_it_is_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "home").mkdir(mode=0o700)
    authority.cert_pem.write_to_path(str(tmp_path / "home" / "own.pem"))
    async with raw(modern, tls=tls(authority, "127.0.0.1")) as server:
        definition = {"url": server.url, "ca": "own.pem"}
        async with running_hub(tmp_path / "home", {"web": definition}) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"


async def test_a_certificate_that_nobody_vouches_for_is_refused_with_a_word(tmp_path: Path) -> None:
    async with (
        raw(modern, tls=tls(trustme.CA(), "127.0.0.1")) as server,
        running_hub(tmp_path, {"web": {"url": server.url}}) as hub,
    ):
        why = await why_not(hub, await hub.connect())
        assert "is not trusted" in why
        assert 'set "ca" to its PEM file' in why
        assert server.requests == []


@pytest.mark.parametrize(
    "variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"]
)
async def test_the_bundle_of_the_environment_is_trusted(tmp_path: Path, variable: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "bundle.pem"))
    async with (
        raw(modern, tls=tls(authority, "127.0.0.1")) as server,
        place_in(
            tmp_path / "home", {"web": {"url": server.url}}, **{variable: str(tmp_path / "bundle.pem")}
        ) as hub,
    ):
        assert text(await (await hub.connect()).call("web__echo")) == "done"


async def test_a_bundle_of_another_program_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "bundle.pem"))
    named = {"SSL_CERT_FILE": str(tmp_path / "bundle.pem"), "NODE_EXTRA_CA_CERTS": str(tmp_path / "gone.pem")}
    async with (
        raw(modern, tls=tls(authority, "127.0.0.1")) as server,
        place_in(tmp_path / "home", {"web": {"url": server.url}}, **named) as hub,
    ):
        assert text(await (await hub.connect()).call("web__echo")) == "done"


async def test_a_file_of_authorities_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"web": {"url": "https://127.0.0.1:9/mcp", "ca": "gone.pem"}}) as hub:
        why = await why_not(hub, await hub.connect())
        assert f"the certificates in {tmp_path / 'gone.pem'} cannot be read" in why


@pytest.mark.parametrize("how", ["configured", "environment"])
async def test_a_proxy_is_gone_through(tmp_path: Path, how: str) -> None:
    async with raw(modern, path="/mcp") as server, proxy(server.port) as way:
        at = f"http://me:secretword@127.0.0.1:{way.port}"
        definition: Json = {"url": "http://elsewhere.example/mcp"}
        environ = {"HTTP_PROXY": at} if how == "environment" else {"PROXY": at}
        if how == "configured":
            definition["proxy"] = "${PROXY}"
        async with place_in(tmp_path, {"web": definition}, **environ) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
        assert way.requests[0].startswith("POST http://elsewhere.example")
        assert way.authorized[0].split(": ")[1] == "Basic bWU6c2VjcmV0d29yZA=="


async def test_a_tunnel_through_a_proxy_carries_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    async with raw(modern, tls=tls(authority, "elsewhere.example")) as server, proxy(server.port) as way:
        definition = {
            "url": "https://elsewhere.example/mcp",
            "ca": str(tmp_path / "own.pem"),
            "proxy": f"http://me:secretword@127.0.0.1:{way.port}",
            "headers": {"Authorization": "Bearer abcdefgh"},
        }
        async with running_hub(tmp_path / "home", {"web": definition}) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
        assert way.requests[0].startswith("CONNECT elsewhere.example:443")
        assert len(way.authorized) == len(way.requests)
        assert "proxy-authorization" not in server.requests[0].headers
        assert server.requests[0].headers["authorization"] == "Bearer abcdefgh"


async def test_this_computer_is_reached_without_the_proxy_of_the_environment(tmp_path: Path) -> None:
    async with raw(modern) as server, proxy(server.port) as way:
        environ = {"HTTP_PROXY": f"http://127.0.0.1:{way.port}"}
        async with place_in(tmp_path, {"web": {"url": server.url}}, **environ) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
        assert way.requests == []


@pytest.mark.parametrize(
    ("host", "environ", "expected"),
    [
        ("a.example", {}, None),
        ("a.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("a.example", {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "http://p:1"),
        ("a.example", {"HTTP_PROXY": "http://p:1"}, None),
        ("a.example", {"ALL_PROXY": "p:1"}, "http://p:1"),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example"}, None),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example, .a.example"}, None),
        ("ba.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "http://p:1"),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:443"}, None),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, "http://p:1"),
        ("a.example", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*.example"}, None),
        ("10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("11.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,,"}, "http://p:1"),
        ("127.9.9.9", {"HTTPS_PROXY": "http://p:1"}, None),
        ("localhost", {"HTTPS_PROXY": "http://p:1"}, None),
        ("::1", {"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_the_environment_says_which_proxy(host: str, environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for("https", host, 443, environ) == expected


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://a.example/x", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:443"}, None),
        ("http://a.example/x", {"HTTPS_PROXY": "http://p:1"}, None),
        ("http://a.example/x", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.example:80"}, None),
        ("http://[::1]:9/x", {"HTTP_PROXY": "http://p:1"}, None),
    ],
)
def test_the_proxy_of_a_url_is_that_of_its_host(
    url: str, environ: dict[str, str], expected: str | None
) -> None:
    assert environment_proxy(url, environ) == expected


@pytest.mark.parametrize(("host", "own"), [("LOCALHOST.", True), ("a.localhost", True), ("128.0.0.1", False)])
def test_this_computer_is_known_by_name(host: str, own: bool) -> None:
    assert is_loopback(host) is own


async def test_headers_carry_variables_and_the_name_of_the_program(tmp_path: Path) -> None:
    async with raw(legacy) as server:
        definition = {
            "url": server.url,
            "headers": {"Authorization": "Bearer ${TOKEN}", "user-agent": "mine"},
        }
        async with place_in(tmp_path, {"web": definition}, TOKEN="abcdefgh") as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer abcdefgh"}
        assert {request.headers["user-agent"] for request in server.requests} == {"mine"}


async def test_a_password_in_the_url_is_sent_as_one(tmp_path: Path) -> None:
    async with raw(modern) as server:
        url = server.url.replace("//", "//me:secretword@")
        async with running_hub(tmp_path, {"web": {"url": url}}) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
            configured_server = hub.hub.configuration.get("web")
            assert configured_server is not None
            assert "secretword" in configured_server.secrets
        assert server.requests[0].headers["authorization"] == "Basic bWU6c2VjcmV0d29yZA=="


async def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(500, b"you sent " + request.headers["authorization"].encode())

    caplog.set_level("DEBUG")
    async with raw(refuse) as server:
        headers = {"Authorization": "Bearer abcdefgh"}
        url = server.url + "?api_key=querysecret"
        async with running_hub(tmp_path, {"web": {"url": url, "headers": headers}}) as hub:
            assert "you sent" in await why_not(hub, await hub.connect())
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("tabane")]
    assert ours
    assert not any("abcdefgh" in line or "querysecret" in line for line in ours)
