"""Client certificates for servers at a URL: shown, missing, changed, and turned off verification."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import trustme

from tabane.net.routes import UpstreamTls
from tabane.servers.server import Server, target_of
from tests.harness.patience import until
from tests.harness.running_hub import Json, running_hub, text
from tests.harness.servers.raw_http import modern, raw
from tests.net.test_connecting import tls
from tests.net.test_failures import why_not


def write_certificate(folder: Path, authority: trustme.CA, name: str = "client") -> Json:
    """Write a client's certificate and key, and return what a definition says of them."""
    issued = authority.issue_cert(name)
    (folder / "client.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key = folder / "client.key"
    key.unlink(missing_ok=True)
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(issued.private_key_pem.bytes())
    return {"cert": "client.pem", "key": "client.key"}


def strict(authority: trustme.CA) -> ssl.SSLContext:
    """A server that only serves clients with a certificate of that authority."""
    context = tls(authority, "127.0.0.1")
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def home_of(folder: Path, authority: trustme.CA) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    authority.cert_pem.write_to_path(str(home / "own.pem"))
    return home


async def test_a_client_certificate_is_shown_where_it_is_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    home = home_of(tmp_path, authority)
    async with raw(modern, tls=strict(authority)) as server:
        files = {"ca": "own.pem", **write_certificate(home, authority)}
        async with running_hub(home, {"web": {"url": server.url, "tls": files}}) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"


async def test_a_server_that_wants_a_certificate_names_the_setting(tmp_path: Path) -> None:
    authority = trustme.CA()
    home = home_of(tmp_path, authority)
    context = strict(authority)
    # With TLS 1.3, a server says so after the handshake, where a reset may overtake it.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with raw(modern, tls=context) as server:
        definition = {"url": server.url, "tls": {"ca": "own.pem"}}
        async with running_hub(home, {"web": definition}) as hub:
            said = await why_not(hub, await hub.connect())
            assert '"cert"' in said, said


async def test_a_certificate_that_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    authority = trustme.CA()
    home = home_of(tmp_path, authority)
    files = write_certificate(home, authority)

    async def refused(definition: Json, *expected: str) -> None:
        async with running_hub(home, {"web": {"url": "https://127.0.0.1:1", "tls": definition}}) as hub:
            (server,) = hub.hub.configuration.servers
            said = str(server.disabled or "") or await why_not(hub, await hub.connect())
            assert all(one in said for one in expected), said

    await refused({**files, "cert": "none.pem"}, "none.pem")
    (home / "client.key").chmod(0o644)
    await refused(files, "chmod 600")
    (home / "client.key").chmod(0o600)
    (home / "client.key").write_text("nothing of use")
    await refused(files, "client.key", "PEM")
    await refused({"key": "client.key"}, "beside cert")
    await refused({"cert": 1}, "a text")
    await refused({"certificate": "x"}, "ca, cert, key or verify")


async def test_an_unverified_server_is_served_with_a_warning(tmp_path: Path) -> None:
    home = home_of(tmp_path, trustme.CA())
    async with raw(modern, tls=tls(trustme.CA(), "elsewhere.example")) as server:
        definition = {"url": server.url, "tls": {"verify": False}}
        async with running_hub(home, {"web": definition}) as hub:
            assert text(await (await hub.connect()).call("web__echo")) == "done"
            assert "not verified" in str([str(one) for one in hub.hub.configuration.warnings])


async def test_changed_files_are_used_for_new_connections_and_broken_ones_are_not(tmp_path: Path) -> None:
    authority = trustme.CA()
    home = home_of(tmp_path, authority)
    write_certificate(home, authority)
    server = Server(
        "web", "http", url="https://x", cert=str(home / "client.pem"), key=str(home / "client.key")
    )
    following = UpstreamTls(target_of(server), {})
    first = following.context()
    (home / "client.pem").write_text("nothing of use")
    assert following.context() is first
    write_certificate(home, authority)
    await until(lambda: following.context() is not first, "the new certificate is used")
