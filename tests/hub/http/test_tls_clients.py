"""Tabane's own clients of a hub with TLS: the bridge and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from tests.harness.certificates import HubCertificate
from tests.harness.patience import wait_until
from tests.harness.user import Assistant, User, echo, said


class TlsUser(User):
    """A user whose hub has a certificate of an authority of the user's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.certificate = HubCertificate(folder, "127.0.0.1")
        self.environment |= {
            "TABANE_HTTP": "true",
            "TABANE_PORT": "0",
            "TABANE_TLS_CERTIFICATE": str(self.certificate.certificate),
            "TABANE_TLS_KEY": str(self.certificate.key),
        }

    @property
    def ca(self) -> str:
        return str(self.certificate.ca)

    def address(self, scheme: str = "wss", path: str = "") -> str:
        """The address of the running hub."""
        found = urlsplit(self.json("status")["http"])
        assert found.scheme == "https"
        return f"{scheme}://{found.netloc}{path}"


@pytest.fixture
def user(tmp_path: Path) -> Iterator[TlsUser]:
    user = TlsUser(tmp_path)
    yield user
    user.close()


@pytest.mark.heavy("a hub with real servers")
def test_an_assistant_reaches_a_hub_over_tls(user: TlsUser) -> None:
    assert user.run("start").status == 0
    for scheme, path in (("wss", ""), ("https", "/mcp/full")):
        client = user.assistant(f"--url={user.address(scheme, path)}", TABANE_CA=user.ca)
        assert said(echo(client, 7, n=1))
        long = "x" * (3 << 20)
        answer = Assistant(client).call("call_tool", name="small__echo", arguments={"text": long})
        assert not answer.get("isError")
        client.end_input()
        client.wait()


def test_an_assistant_is_told_that_a_certificate_is_not_trusted(user: TlsUser) -> None:
    assert user.run("start").status == 0
    trustme.CA().cert_pem.write_to_path(str(user.folder / "other.pem"))
    for variables, text in (
        ({}, "TABANE_CA"),
        ({"TABANE_CA": str(user.folder / "other.pem")}, "certificate not trusted"),
        ({"TABANE_CA": str(user.folder / "none.pem")}, "none.pem"),
    ):
        client = user.client(f"--url={user.address()}", **variables)
        client.send(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
        )
        assert text in str(client.answer(1))


def test_an_assistant_returns_to_a_hub_that_was_started_again(user: TlsUser) -> None:
    assert user.run("start").status == 0
    address = user.address()
    user.environment["TABANE_PORT"] = str(urlsplit(address).port)
    client = user.assistant(f"--url={address}", TABANE_CA=user.ca)
    assert said(echo(client, 1, n=1))
    user.kill_hub()
    wait_until(lambda: not user.runs, "the hub is gone")
    assert user.run("start").status == 0
    assert said(echo(client, 2, n=2))


def test_the_command_line_reaches_a_hub_over_tls(user: TlsUser) -> None:
    assert user.run("start").status == 0
    token = (user.tabane / "token").read_text().strip()
    address = user.address("https")
    user.environment |= {"TABANE_TOKEN": token, "TABANE_CA": user.ca}
    found = user.json("tools", "search", "echo", "--url", address)
    assert "small__echo" in str(found)
    del user.environment["TABANE_CA"]
    refused = user.run("tools", "search", "echo", "--url", address)
    assert refused.status != 0
    assert "TABANE_CA" in refused.err
