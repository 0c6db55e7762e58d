"""The hub's port with TLS: handshakes, certificates that change, and clients that do without."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
import websockets
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tabane.errors import ConfigurationError
from tabane.hub.http.door import HttpWaits
from tabane.hub.http.tls import MOST_OF_SOURCE, MOST_PENDING
from tabane.settings import load_settings
from tests.harness.certificates import HubCertificate
from tests.harness.http_hub import HttpHub, http_hub, http_peer, modern, open_door, request
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import until
from tests.harness.running_hub import SOON, child


async def test_an_official_client_is_served_over_https(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, {"small": child()}, **certificate.settings) as here:
        assert here.mcp_url.startswith("https://127.0.0.1:")
        headers = {"Authorization": str(here.bearer)}
        async with (
            httpx2.AsyncClient(verify=certificate.trusted(), headers=headers, timeout=SOON) as http,
            streamable_http_client(f"{here.mcp_url}/full", http_client=http) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            assert "small__echo" in {tool.name for tool in (await session.list_tools()).tools}


async def test_a_websocket_is_served_over_tls(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with (
        http_hub(tmp_path, **certificate.settings) as here,
        websockets.connect(
            here.url("/rpc", "wss"),
            ssl=certificate.trusted(),
            additional_headers={"Authorization": str(here.bearer)},
        ) as socket,
    ):
        await socket.send('{"jsonrpc":"2.0","id":1,"method":"get_status","params":{}}')
        assert "result" in await asyncio.wait_for(socket.recv(), SOON)
        long = "x" * (1 << 20)
        await socket.send(f'{{"jsonrpc":"2.0","id":2,"method":"{long}"}}')
        assert "error" in await asyncio.wait_for(socket.recv(), SOON)


async def test_browsers_are_told_to_stay_with_https(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, trusted=certificate.trusted(), **certificate.settings) as here:
        answer = await (await here.peer()).get("/healthz")
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    async with http_hub(tmp_path) as here:
        assert "strict-transport-security" not in (await (await here.peer()).get("/healthz")).headers


async def test_a_request_without_tls_is_told_what_the_port_speaks(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, trusted=certificate.trusted(), **certificate.settings) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.door.port)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000)
        said = await asyncio.wait_for(reader.read(), SOON)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"https://" in said
        writer.close()
        assert (await (await here.peer()).get("/healthz")).status == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("key", "value"),
    [("maximum_version", ssl.TLSVersion.TLSv1_1), ("ciphers", "AES256-SHA:AES128-GCM-SHA256")],
)
async def test_old_versions_and_ciphers_without_forward_secrecy_are_refused(
    tmp_path: Path, key: str, value: Any
) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, **certificate.settings) as here:
        old = certificate.trusted()
        if key == "ciphers":
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            old.set_ciphers(value + ":@SECLEVEL=0")
        else:
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = value
            old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, OSError)):
            await here.peer(trusted=old)


async def test_alpn_settles_on_http_1_1(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, **certificate.settings) as here:
        both = certificate.trusted()
        both.set_alpn_protocols(["h2", "http/1.1"])
        peer = await here.peer(trusted=both)
        assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


def serial(peer: Any) -> str:
    return str(peer.writer.get_extra_info("peercert")["serialNumber"])


async def test_a_new_certificate_is_used_for_new_connections_and_a_broken_one_is_not(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_peer(tmp_path, trusted=certificate.trusted(), **certificate.settings) as (here, first):
        certificate.issue("127.0.0.1")
        assert here.door.tls is not None
        here.door.tls.look()
        second = await here.peer()
        assert serial(first) != serial(second)
        for peer in (first, second):
            assert (await peer.get("/healthz")).status == 200
        certificate.certificate.write_text("nothing of use")
        here.door.tls.look()
        assert "tls_certificate" in here.door.report("en")["tls_problem"]
        third = await here.peer()
        assert serial(third) == serial(second)
        certificate.issue("127.0.0.1")
        here.door.tls.look()
        assert "tls_problem" not in here.door.report("en")
        assert serial(await here.peer()) != serial(second)


async def test_changed_files_are_noticed_without_being_told(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, trusted=certificate.trusted(), **certificate.settings) as here:
        before = serial(await here.peer())
        assert here.door.tls is not None
        tls, old = here.door.tls, here.door.tls.context
        certificate.issue("127.0.0.1")
        await until(lambda: tls.context is not old, "the hub has read its files again")
        assert serial(await here.peer()) != before


async def problem_with(here: Path, **settings: Any) -> str:
    """Why a hub with those settings does not serve HTTP."""
    try:
        async with open_door(here, {}, lambda hub: hub.table, **settings):
            return ""
    except AssertionError as problem:
        return str(problem)


async def test_files_that_cannot_be_used_are_named_with_the_setting(tmp_path: Path) -> None:
    certificate, other = HubCertificate(tmp_path), tmp_path / "other"
    other.mkdir()
    key = certificate.key
    key.chmod(0o640)
    assert f"chmod 600 {key}" in await problem_with(tmp_path, **certificate.settings)
    key.chmod(0o600)
    mixed = {**certificate.settings, "tls_key": HubCertificate(other).key}
    assert "does not belong to the certificate" in await problem_with(tmp_path, **mixed)
    assert "there is no file" in await problem_with(
        tmp_path, **{**certificate.settings, "tls_certificate": tmp_path / "none.pem"}
    )
    key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert "openssl pkey" in await problem_with(tmp_path, **certificate.settings)
    key.write_text("-----BEGIN PRIVATE KEY-----\n")
    assert "cannot be used" in await problem_with(tmp_path, **certificate.settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls_certificate": "c.pem"}, "tls_key is not"),
        ({"tls_key": "k.pem"}, "tls_certificate is not"),
        ({"tls_client_ca": "ca.pem"}, "tls_certificate is not"),
    ],
)
def test_half_of_a_certificate_is_refused(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_settings(settings, {"TABANE_HOME": str(tmp_path), "HOME": str(tmp_path)})


async def test_a_client_needs_a_certificate_where_an_authority_of_clients_is_set(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    settings = {**certificate.settings, "tls_client_ca": tmp_path / "clients.pem"}
    async with http_hub(tmp_path, **settings) as here:
        known = certificate.trusted()
        authority.issue_cert("client").configure_cert(known)
        assert (await (await here.peer(trusted=known)).get("/healthz")).status == 200
        message, headers = modern(request("tools/list"))
        peer = await here.peer(trusted=known)
        assert (await peer.post(message, "/mcp/full", **{**headers, "authorization": None})).status == 401
        strange = certificate.trusted()
        trustme.CA().issue_cert("client").configure_cert(strange)
        for context in (certificate.trusted(), strange):
            with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
                await (await here.peer(trusted=context)).get("/healthz")


async def silent(here: HttpHub, count: int) -> list[asyncio.StreamWriter]:
    """Connections that never begin a handshake."""
    return [(await asyncio.open_connection("127.0.0.1", here.door.port))[1] for _ in range(count)]


async def test_connections_that_never_shake_hands_are_bounded(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    assert MOST_OF_SOURCE < MOST_PENDING
    async with http_hub(tmp_path, trusted=certificate.trusted(), **certificate.settings) as here:
        assert (await (await here.peer()).get("/healthz")).status == 200
        silents = await silent(here, MOST_OF_SOURCE + 20)
        await until(lambda: here.door.connections <= MOST_OF_SOURCE + 1, "the rest was closed")
        for writer in silents:
            writer.close()
        await until(lambda: here.door.connections <= 1, "all are gone")
        assert (await (await here.peer()).get("/healthz")).status == 200


async def test_rubbish_instead_of_a_handshake_hurts_nobody(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    async with http_hub(tmp_path, trusted=certificate.trusted(), **certificate.settings) as here:
        for data in (b"\x16", b"\x16\x03\x01\xff\xff" + os.urandom(512), os.urandom(64), b"\0" * 9):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.door.port)
            writer.write(data)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), SOON)
            writer.close()
        answer = await (await here.peer()).get("/metrics")
        assert 'tabane_http_refused_total{reason="handshake"}' in answer.body.decode()
        assert here.door.connections <= 3


async def test_a_refused_request_is_answered_before_the_end_of_the_connection(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    waits = HttpWaits(head=0.2, look=0.05)
    async with http_hub(tmp_path, trusted=certificate.trusted(), waits=waits, **certificate.settings) as here:
        peer = await here.peer()
        peer.write(b"GET /healthz HTTP/1.1\r\n")
        answer = await peer.answer()
        assert answer.status == 408
        assert await peer.closed()


async def test_an_address_that_others_reach_needs_tls_and_a_key(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    said = await problem_with(tmp_path, host="0.0.0.0", **certificate.settings)
    assert "tabane keys create" in said
    keys = GivenKeys(team=GivenAccess("key:team"))
    async with http_hub(
        tmp_path,
        trusted=certificate.trusted(),
        identities=identities(keys),
        host="0.0.0.0",
        hosts=["hub.example.com"],
        public_url="https://tabane.example.com",
        **certificate.settings,
    ) as here:
        peer = await here.peer()
        message, headers = modern(request("tools/list"))
        for host in ("hub.example.com", f"hub.example.com:{here.door.port}", "tabane.example.com",
                     "TABANE.example.com:443", "127.0.0.1"):  # fmt: skip
            shown = {**headers, "host": host, "authorization": "Bearer tbn_team"}
            assert (await peer.post(message, **shown)).status == 200, host
        for host in ("evil.example.com", "0.0.0.0", "hub.example.com:1", "tabane.example.com:8443", ""):
            shown = {**headers, "host": host, "authorization": "Bearer tbn_team"}
            assert (await peer.post(message, **shown)).status == 421, host
