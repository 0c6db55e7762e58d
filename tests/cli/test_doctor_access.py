"""`tabane doctor` and `tabane status` on who may use a hub: certificates, keys, OAuth and the audit log."""

from __future__ import annotations

import json
import resource
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tabane.audit.entry import audit_files
from tabane.hub.doctor.access import DAY, CertificatePeriod
from tests.harness.certificates import HubCertificate
from tests.harness.home import Home, Outcome, hub
from tests.harness.patience import wait_until
from tests.harness.ports import reserved_port

NOW = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


def findings(outcome: Outcome, check: str = "access") -> list[dict[str, Any]]:
    return [finding for finding in outcome.json["findings"] if finding["check"] == check]


def found(outcome: Outcome, words: str, check: str = "access") -> dict[str, Any]:
    (hit,) = [finding for finding in findings(outcome, check) if words in finding["title"]]
    return hit


def checked(home: Home, *flags: str, **settings: object) -> Outcome:
    environment = {f"TABANE_{name.upper()}": str(value) for name, value in settings.items()}
    done = home.run("doctor", "--json", "--quick", *flags, environment=environment)
    assert "Traceback" not in done.err
    assert (done.status == 1) == (done.json["status"] == "fault"), done.out + done.err
    return done


@pytest.fixture
def used(home: Home) -> Home:
    """A home with a key and some calls in the audit log, whose hub has ended."""
    with hub(home):
        home.run("keys", "create", "ci", "--allow", "*").succeeded  # noqa: B018
        home.run("keys", "list").succeeded  # noqa: B018
    return home


# -- certificates ------------------------------------------------------------------------------------


@pytest.fixture
def tls(home: Home) -> HubCertificate:
    return HubCertificate(home.folder, "tabane.example.com", "127.0.0.1")


def with_tls(home: Home, tls: HubCertificate, **settings: object) -> Outcome:
    return checked(home, http="true", port=1, **{**tls.settings, **settings})


def test_a_good_certificate_is_in_order(home: Home, tls: HubCertificate) -> None:
    done = with_tls(home, tls, public_url="https://tabane.example.com")
    assert found(done, "is valid until")["level"] == "ok"
    assert [finding["level"] for finding in findings(done)] == ["ok"]


def test_a_certificate_for_clients_too_is_looked_at_without_a_client(home: Home, tls: HubCertificate) -> None:
    done = with_tls(home, tls, tls_client_ca=tls.ca)
    assert found(done, "is valid until")["level"] == "ok"


def test_an_expired_certificate_is_a_fault_with_its_day(home: Home, tls: HubCertificate) -> None:
    end = datetime(2024, 3, 1, 12, tzinfo=UTC)
    issue(tls, end - timedelta(days=90), end)
    assert found(with_tls(home, tls), "expired on 2024-03-01")["level"] == "fault"


def test_a_certificate_that_expires_soon_is_a_warning(home: Home, tls: HubCertificate) -> None:
    now = datetime.now(UTC)
    issue(tls, now - timedelta(days=80), now + timedelta(days=10))
    assert found(with_tls(home, tls), "expires on")["level"] == "warning"


@pytest.mark.parametrize(
    ("days_before", "days_left", "level"),
    [
        (100, 100, "ok"),
        (100, 13, "warning"),
        (1, 5, "ok"),
        (5, 1, "warning"),
        (5, -1, "fault"),
        (-1, 9, "fault"),
    ],
)
def test_a_short_lived_certificate_is_not_always_about_to_expire(
    days_before: int, days_left: int, level: str
) -> None:
    period = CertificatePeriod(NOW - days_before * DAY, NOW + days_left * DAY)
    assert period.finding(NOW, Path("hub.pem"), own=False).level == level


def test_a_certificate_without_the_public_name_is_a_fault(home: Home, tls: HubCertificate) -> None:
    done = with_tls(home, tls, public_url="https://other.example.com")
    assert found(done, "does not have the name other.example.com")["level"] == "fault"


def test_behind_a_proxy_the_certificate_needs_no_public_name(home: Home, tls: HubCertificate) -> None:
    done = with_tls(home, tls, public_url="https://other.example.com", trusted_proxies="10.0.0.5")
    assert [finding["level"] for finding in findings(done)] == ["ok"]


def test_a_missing_certificate_is_named(home: Home, tls: HubCertificate) -> None:
    tls.certificate.unlink()
    assert found(with_tls(home, tls), str(tls.certificate))["level"] == "fault"


def test_a_key_of_the_certificate_that_others_can_read_is_made_private(
    home: Home, tls: HubCertificate
) -> None:
    tls.key.chmod(0o644)
    finding = found(with_tls(home, tls), str(tls.key))
    assert (finding["level"], finding["fixable"]) == ("fault", True)
    environment = {
        "TABANE_HTTP": "true",
        **{f"TABANE_{name.upper()}": str(path) for name, path in tls.settings.items()},
    }
    home.run("doctor", "--quick", "--fix", environment=environment)
    assert stat.S_IMODE(tls.key.stat().st_mode) == 0o600
    assert found(with_tls(home, tls), "is valid until")


def test_a_key_of_another_certificate_is_a_fault(home: Home, tls: HubCertificate, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = HubCertificate(tmp_path / "other")
    assert found(with_tls(home, tls, tls_key=other.key), "does not belong to")["level"] == "fault"


def issue(tls: HubCertificate, begins: datetime, ends: datetime) -> None:
    issued = tls.authority.issue_cert("127.0.0.1", not_before=begins, not_after=ends)
    tls.key.write_bytes(issued.private_key_pem.bytes())
    tls.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))


# -- keys and other machines -------------------------------------------------------------------------


def test_keys_are_counted_without_a_hub(used: Home) -> None:
    assert found(checked(used), "API keys: 1")["level"] == "ok"


def test_a_home_without_keys_has_nothing_to_say_about_access(home: Home) -> None:
    assert findings(checked(home)) == []


def test_keys_that_others_can_read_are_refused_and_made_private(used: Home) -> None:
    path = used.tabane / "access.db"
    path.chmod(0o644)
    finding = found(checked(used), "access.db, so its keys are not used")
    assert (finding["level"], finding["fixable"]) == ("fault", True)
    used.run("doctor", "--quick", "--fix")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert found(checked(used), "API keys: 1")


def test_a_damaged_file_of_keys_is_a_fault(used: Home) -> None:
    (used.tabane / "access.db").write_bytes(b"not a database" * 1000)
    assert found(checked(used), "access.db")["level"] == "fault"


def test_a_host_for_other_machines_needs_a_key(home: Home, tls: HubCertificate) -> None:
    finding = found(with_tls(home, tls, host="0.0.0.0"), "there is no API key")
    assert finding["level"] == "warning"
    assert "tabane keys create" in finding["mend"]


def test_a_host_for_other_machines_is_in_order_with_a_key(used: Home, tls: HubCertificate) -> None:
    assert all(finding["level"] == "ok" for finding in findings(with_tls(used, tls, host="0.0.0.0")))


# -- OAuth and traces --------------------------------------------------------------------------------


def test_an_authorization_server_that_does_not_answer_is_a_warning(home: Home) -> None:
    environment = {"TABANE_OAUTH_ISSUER": "http://127.0.0.1:1"}
    done = home.run("doctor", "--json", environment=environment).succeeded
    finding = found(done, "http://127.0.0.1:1", "authorization")
    assert finding["level"] == "warning"
    assert "oauth_issuer" in finding["mend"]


def test_an_authorization_server_that_gives_its_keys_is_in_order(home: Home) -> None:
    with metadata_of_an_issuer() as issuer:
        done = home.run("doctor", "--json", environment={"TABANE_OAUTH_ISSUER": issuer}).succeeded
    assert found(done, issuer, "authorization")["level"] == "ok"


@contextmanager
def metadata_of_an_issuer() -> Iterator[str]:
    """The URL of a server that publishes metadata and keys."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"issuer": issuer, "jwks_uri": f"{issuer}/keys", "keys": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        issuer = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield issuer
        server.shutdown()


def test_packages_that_the_settings_need_are_named(home: Home) -> None:
    without = "import sys\nsys.modules.update(dict.fromkeys(('jwt', 'opentelemetry')))\n"
    (home.folder / "sitecustomize.py").write_text(without)
    settings = {
        "oauth_issuer": "https://id.example.com",
        "otel_endpoint": "http://127.0.0.1:1",
        "http": "false",
    }
    assert findings(checked(home, **settings)) == []
    home.environment["PYTHONPATH"] = str(home.folder)
    done = checked(home, **settings)
    assert found(done, "tabane[oauth]")["level"] == "fault"
    assert found(done, "tabane[otel]")["level"] == "warning"


def test_quick_asks_no_authorization_server(home: Home) -> None:
    assert findings(checked(home, oauth_issuer="http://127.0.0.1:1"), "authorization") == []


def test_a_secret_for_introspection_that_is_not_set_is_a_fault(home: Home) -> None:
    done = checked(
        home,
        oauth_issuer="https://id.example.com",
        oauth_introspection_url="https://id.example.com/introspect",
        oauth_client_id="hub",
        oauth_client_secret="${HUB_SECRET}",
    )
    assert found(done, "HUB_SECRET")["level"] == "fault"


# -- the audit log -----------------------------------------------------------------------------------


def test_a_whole_audit_log_is_in_order(used: Home) -> None:
    assert found(checked(used), "Audit log:")["level"] == "ok"


def test_the_audit_log_of_a_running_hub_is_in_order(home: Home) -> None:
    with hub(home):
        assert found(checked(home), "Audit log:")["level"] == "ok"


def test_an_audit_log_that_is_off_is_a_note(home: Home) -> None:
    assert found(checked(home, audit="off"), "The audit log is off")["level"] == "note"


def test_a_folder_of_the_audit_log_that_others_can_open_is_made_private(used: Home) -> None:
    folder = used.tabane / "audit"
    folder.chmod(0o755)
    assert found(checked(used), "list and open")["fixable"]
    used.run("doctor", "--quick", "--fix")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_entries_that_were_cut_off_are_a_warning(used: Home) -> None:
    path = Path(audit_files(str(used.tabane / "audit"))[-1].path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    finding = found(checked(used), "The last 2 entries of the audit log are missing")
    assert finding["level"] == "warning"
    assert "tabane audit verify" in finding["mend"]


def test_a_changed_last_entry_is_a_warning(used: Home) -> None:
    path = Path(audit_files(str(used.tabane / "audit"))[-1].path)
    lines = path.read_bytes().splitlines(keepends=True)
    start, mark, mac = lines[-1].rpartition(b'"mac":"')
    path.write_bytes(b"".join([*lines[:-1], start, mark, bytes(reversed(mac[:64])), mac[64:]]))
    assert found(checked(used), "were changed")["level"] == "warning"


def test_a_missing_head_is_a_warning(used: Home) -> None:
    (used.tabane / "audit.head").unlink()
    assert found(checked(used), "head of the audit log is missing")["level"] == "warning"


def test_a_missing_key_of_the_log_is_a_fault(used: Home) -> None:
    (used.tabane / "audit.key").unlink()
    assert found(checked(used), "The key of the audit log is missing")["level"] == "fault"


# -- status ------------------------------------------------------------------------------------------


def test_status_shows_keys_and_profiles(home: Home) -> None:
    config = home.servers.parent / "tabane.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[profiles.work]\nallow = ["github__*"]\n[profiles.docs]\nallow = ["@documents"]\n')
    with hub(home):
        assert "API keys" not in home.run("status").out
        home.run("keys", "create", "ci", "--allow", "*").succeeded  # noqa: B018
        rows = dict(home.run("status").succeeded.rows)
        told = home.json("status")
    assert (rows["API keys"], rows["profiles"]) == ("1", "work, docs")
    assert (told["keys"], told["profiles"], told["audit_lost"]) == (1, ["work", "docs"], 0)


def test_status_says_why_keys_cannot_be_read(home: Home) -> None:
    with hub(home):
        (home.tabane / "access.db").write_bytes(b"x")
        (home.tabane / "access.db").chmod(0o644)
        assert "access.db" in dict(home.run("status").rows)["problem with the API keys"]


def test_status_says_why_calls_are_not_recorded(home: Home) -> None:
    (home.tabane / "audit").write_bytes(b"")  # not a folder
    with hub(home, "--audit-full", "drop"):
        assert "audit" in dict(home.run("status").rows)["problem with the audit log"]
        assert "audit" in found(checked(home), "cannot be opened")["title"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another process")
@pytest.mark.parametrize("full", ["drop", "stop"])
def test_a_full_disk_is_told_by_status_and_doctor(home: Home, full: str) -> None:
    with hub(home, "--audit-full", full):
        pid = home.json("status")["pid"]
        highest = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, highest))
        home.run("status")
        status = home.run("status")
        done = home.run("doctor", "--quick", "--json")
        assert done.status == 1
        (fault,) = [row for row in done.json["findings"] if row["level"] == "fault"]
        assert "The audit log cannot be written" in fault["title"]
        if full == "drop":
            rows = dict(status.succeeded.rows)
            assert "cannot be written" in rows["problem with the audit log"]
            assert int(rows["calls not recorded"]) > 0
            assert found(done, "missing in the audit log")["level"] == "warning"
        else:
            assert "calls are refused" in status.err
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (highest, highest))


def test_status_shows_that_a_changed_certificate_is_not_used(home: Home, tls: HubCertificate) -> None:
    port = reserved_port(home)
    home.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(port)}
    home.environment |= {f"TABANE_{name.upper()}": str(path) for name, path in tls.settings.items()}
    with hub(home):
        assert "tls_problem" not in home.json("status")
        tls.certificate.write_text("not a certificate")
        wait_until(lambda: "tls_problem" in home.json("status"))
        rows = dict(home.run("status").rows)
        assert str(tls.certificate) in rows["problem with the certificate"]
        assert "continues" in found(checked(home), str(tls.certificate))["mend"]
