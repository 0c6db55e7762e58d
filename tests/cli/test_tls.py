"""`tabane tls`: a certificate for the home network, its settings, its renewal, and who trusts it."""

from __future__ import annotations

import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tabane.hub.http.certificate_facts import seen_certificate
from tests.harness.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    del home.environment["TABANE_HTTP"]
    return home


def settings_file(home: Home) -> Path:
    return home.servers.with_name("tabane.toml")


def accepted(home: Home, host: str) -> bool:
    """Return whether a client that trusts the authority alone accepts the certificate for a host."""
    folder = home.tabane / "tls"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "hub.pem", folder / "hub.key")
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by default
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (ours, theirs):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return ours.getpeercert() is not None


def issue(home: Home, authority: trustme.CA, name: str, days: int) -> None:
    """Write another certificate in place of the hub's: begun long ago, and with so many days left."""
    now = datetime.now(UTC)
    issued = authority.issue_cert(
        name, not_before=now - timedelta(days=300), not_after=now + timedelta(days=days)
    )
    (home.tabane / "tls" / "hub.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    (home.tabane / "tls" / "hub.key").write_bytes(issued.private_key_pem.bytes())


def test_a_certificate_is_made_for_names_and_set(home: Home) -> None:
    settings_file(home).parent.mkdir(parents=True)
    settings_file(home).write_text('# mine\nhosts = ["old.local"]\n')
    settings_file(home).chmod(0o600)
    made = home.json("tls", "create", "Hub.local", "192.168.1.20", "fd00::7")
    assert made["names"][:3] == ["hub.local", "192.168.1.20", "fd00::7"]
    assert made["new_authority"]
    text = settings_file(home).read_text()
    assert "# mine" in text
    assert 'hosts = ["old.local", "hub.local", "192.168.1.20", "[fd00::7]"]' in text
    assert 'public_url = "https://hub.local:8765"' in text
    folder = home.tabane / "tls"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert [accepted(home, host) for host in ("hub.local", "192.168.1.20", "fd00::7", "localhost")] == [
        True
    ] * 4
    assert not accepted(home, "other.local")
    shown = home.run("tls", "show").succeeded
    assert ["address of the hub", "https://hub.local:8765"] in shown.rows
    assert made["fingerprint"] in shown.out
    assert "PRIVATE" not in shown.out + shown.err
    assert "tabane settings set host 0.0.0.0" in shown.err


def test_a_renewal_keeps_the_names_and_the_authority(home: Home) -> None:
    first = home.json("tls", "create", "hub.local")
    again = home.json("tls", "create")
    assert (again["names"], again["authority_fingerprint"]) == (
        first["names"],
        first["authority_fingerprint"],
    )
    assert again["fingerprint"] != first["fingerprint"]
    assert not again["new_authority"]
    other = home.json("tls", "create", "box.local")
    assert other["address"] == "https://box.local:8765"
    assert (
        home.json("tls", "create", "--new-authority")["authority_fingerprint"]
        != first["authority_fingerprint"]
    )
    assert accepted(home, "box.local")


def test_the_authority_signs_for_no_site_of_others(home: Home) -> None:
    """Not even if somebody takes its key: clients check its constraints."""
    home.run("tls", "create", "hub.local").succeeded  # noqa: B018
    wrong = home.run("tls", "create", "bank.example.com")
    assert wrong.status == 2
    assert "--new-authority" in wrong.err
    assert accepted(home, "hub.local")
    folder = home.tabane / "tls"
    authority = trustme.CA.from_pem((folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())
    issue(home, authority, "bank.example.com", days=30)
    assert not accepted(home, "bank.example.com")


def test_an_authority_whose_change_was_killed_between_its_files_signs_nothing(home: Home) -> None:
    assert home.run("tls", "create", "hub.local").status == 0
    folder = home.tabane / "tls"
    authority, certificate = (folder / "ca.pem").read_bytes(), (folder / "hub.pem").read_bytes()
    assert home.run("tls", "create", "--new-authority").status == 0
    (folder / "ca.pem").write_bytes(authority)  # the key is new
    (folder / "hub.pem").write_bytes(certificate)
    refused = home.run("tls", "create")
    assert refused.status == 1
    assert "--new-authority" in refused.err
    assert (folder / "hub.pem").read_bytes() == certificate
    assert home.run("tls", "create", "--new-authority").status == 0
    assert accepted(home, "hub.local")


@pytest.mark.parametrize("name", ["a b", "https://hub.local", "*.local", "", "-x", "hub..local"])
def test_what_is_no_name_is_refused(home: Home, name: str) -> None:
    wrong = home.run("tls", "create", "--", name)
    assert wrong.status == 2
    assert "is not the name of a host" in wrong.err
    assert not (home.tabane / "tls" / "hub.pem").exists()


def test_another_certificate_is_not_replaced(home: Home, tmp_path: Path) -> None:
    home.run("tls", "create", "hub.local").succeeded  # noqa: B018
    for name in ("hub.pem", "hub.key"):
        (home.tabane / "tls" / name).rename(tmp_path / name)
    text = settings_file(home).read_text().replace(str(home.tabane / "tls"), str(tmp_path))
    settings_file(home).write_text(text)
    wrong = home.run("tls", "create", "hub.local")
    assert (wrong.status, str(tmp_path / "hub.pem") in wrong.err) == (1, True)
    shown = home.json("tls", "show")
    assert (shown["certificate"], shown["authority"]) == (str(tmp_path / "hub.pem"), None)


def test_without_a_certificate_it_says_how_to_make_one(home: Home) -> None:
    wrong = home.run("tls", "show")
    assert (wrong.status, "tabane tls create" in wrong.err) == (1, True)


def test_the_doctor_says_how_to_renew_it(home: Home) -> None:
    home.run("tls", "create", "hub.local").succeeded  # noqa: B018
    issue(home, trustme.CA(), "hub.local", days=5)
    assert "tabane tls create" in home.run("doctor", "--quick", "--json").out


def test_facts_are_those_of_the_file(home: Home) -> None:
    home.run("tls", "create", "hub.local").succeeded  # noqa: B018
    folder = home.tabane / "tls"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "hub.pem", folder / "hub.key")
    seen = seen_certificate(server, folder / "hub.pem", "hub.local")
    assert home.json("tls", "show")["expires"] == ssl.cert_time_to_seconds(str(seen["notAfter"]))
    assert os.listdir(folder)
