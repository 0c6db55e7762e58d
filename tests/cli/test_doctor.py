"""`tabane doctor` as a user runs it: real homes, real hubs and real servers, each broken in its way."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.doctor import process
from tabane.hub.doctor.files import LITTLE, TOO_LITTLE, room
from tabane.hub.doctor.installation import examine
from tabane.hub.local import lock
from tabane.upstreams.launching.kept_package import npx_entry
from tabane.upstreams.launching.package_run import package_run
from tests.cli.test_install import file_of, write
from tests.harness.home import CHILD, Home, Outcome, hub
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port
from tests.harness.servers.raw_http import modern, serving


def examined(home: Home, *flags: str, environment: Mapping[str, str] | None = None) -> Outcome:
    done = home.run("doctor", "--json", *flags, environment=environment)
    assert "Traceback" not in done.err
    assert (done.status == 1) == (done.json["status"] == "fault"), done.out + done.err
    return done


def found(outcome: Outcome, words: str, level: str | None = None) -> dict[str, Any]:
    """The one finding with these words in it."""
    findings: list[dict[str, Any]] = outcome.json["findings"]
    hits = [finding for finding in findings if words in finding["title"]]
    assert len(hits) == 1, f"{words!r} in {json.dumps(findings, indent=1)}"
    assert level is None or hits[0]["level"] == level, hits[0]
    return hits[0]


def levels(outcome: Outcome) -> set[str]:
    # Another test's hub may be on its last legs elsewhere on the machine.
    findings = outcome.json["findings"]
    return {finding["level"] for finding in findings if "home was deleted" not in finding["title"]}


# -- in order ------------------------------------------------------------------------------------


def test_an_empty_home_has_no_fault_and_is_told_how_to_begin(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.tabane.rmdir()
    done = examined(home)
    assert done.status == 0
    assert "tabane servers import" in found(done, "no servers yet", "note")["mend"]
    assert "tabane setup" in found(done, "None of the assistants", "note")["mend"]
    assert not home.tabane.exists()


def test_what_is_in_order_is_said_to_be_and_nothing_is_left_behind(home: Home) -> None:
    del home.environment["TABANE_MODEL"]
    home.write_servers({"one": home.child(), "two": home.child("--era", "modern", "--tools", "3")})
    write(file_of(home, "cursor"), "{}")
    home.run("install", "cursor")
    before = sorted(home.folder.rglob("*"))
    done = examined(home)
    assert done.status == 0
    assert levels(done) == {"ok"}
    assert "protocol 2025-11-25" in found(done, "one starts in")["title"]
    assert "protocol 2026-07-28" in found(done, "two starts in")["title"]
    assert sorted(home.folder.rglob("*")) == before
    assert not lock.held(str(home.tabane / "hub.lock"))


def test_quick_starts_no_server(home: Home) -> None:
    pids = home.folder / "pids"
    home.write_servers({"one": home.child("--pids", str(pids)), "bad": home.child("--exit", "3")})
    assert examined(home, "--quick").status == 0
    assert not pids.exists()


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_person_reads_a_line_a_finding_with_its_mend_below(home: Home) -> None:
    home.write_servers({"bad": {"command": "no-such-program"}})
    plain = home.run("doctor", "--quick")
    lines = plain.out.splitlines()
    at = next(number for number, line in enumerate(lines) if "no-such-program" in line)
    assert lines[at].startswith("✗ bad: ")
    assert lines[at + 1].startswith("  → ")
    assert "Faults: 1" in plain.out
    shown = home.run_on_terminal("doctor", "--quick", columns=60)
    assert shown.status == 1
    assert "\x1b[31m✗" in shown.out
    ascii_only = home.run("doctor", "--quick", environment={"PYTHONIOENCODING": "ascii"})
    assert "\nx bad: " in ascii_only.out


def test_it_speaks_japanese(home: Home) -> None:
    home.write_servers({"bad": {"command": "no-such-program"}})
    said = home.run("doctor", "--quick", environment={"TABANE_LANG": "ja"}).out
    assert "no-such-program" in said
    for line in (line for line in said.splitlines() if line and "Python" not in line):
        assert any("ぁ" <= letter <= "ヿ" or "一" <= letter <= "龥" for letter in line) or line == "Tabane", (
            line
        )


# -- what the user wrote -------------------------------------------------------------------------


def test_a_broken_servers_file_is_a_fault_with_its_place_and_the_rest_is_still_looked_at(home: Home) -> None:
    home.write_servers('{"mcpServers": {\n  "a": {"command": }\n}}')
    done = examined(home)
    assert done.status == 1
    found(done, f"{home.servers}:2:20: ", "fault")
    found(done, "Only you have access", "ok")


def test_broken_settings_are_a_fault_and_the_rest_is_still_looked_at(home: Home) -> None:
    home.write_servers({"one": home.child()})
    config = write(home.servers.parent / "tabane.toml", "grace = 'soon'\n", 0o600)
    done = examined(home)
    found(done, f"{config}:1: grace", "fault")
    found(done, "one starts in", "ok")
    variable = examined(home, "--quick", environment={"TABANE_CONFIG": "/nowhere/tabane.toml"})
    found(variable, "/nowhere/tabane.toml", "fault")


def test_a_missing_variable_and_a_server_that_is_switched_off_are_told_apart(home: Home) -> None:
    home.write_servers(
        {"api": home.child() | {"env": {"KEY": "${NOWHERE_KEY}"}}, "off": {"command": "x", "enabled": False}}
    )
    done = examined(home, "--quick")
    assert "tabane secrets set NOWHERE_KEY" in found(done, "NOWHERE_KEY", "fault")["title"]
    found(done, "disabled: 1", "ok")
    assert "off cannot be started" not in done.out


def test_a_variable_of_this_terminal_alone_is_pointed_out_until_it_is_in_the_secrets_file(home: Home) -> None:
    home.write_servers({"api": home.child() | {"env": {"KEY": "${SOME_KEY}"}}})
    environment = {"SOME_KEY": "value-of-the-key"}
    done = examined(home, "--quick", environment=environment)
    assert "secrets.env" in found(done, "api uses variables", "note")["mend"]
    assert "value-of-the-key" not in done.out
    write(home.tabane / "secrets.env", "SOME_KEY=x\n", 0o600)
    assert "SOME_KEY" not in examined(home, "--quick", environment=environment).out


def test_a_command_that_is_not_found_says_what_to_install(home: Home) -> None:
    home.write_servers({"a": {"command": "npx"}, "b": {"command": "/no/such/program"}})
    done = examined(home, environment={"PATH": "/nonexistent"})
    assert "nodejs.org" in found(done, "a: the command npx", "fault")["mend"]
    assert str(home.servers) in found(done, "b: the command /no/such/program", "fault")["mend"]
    assert "starts" not in [finding["check"] for finding in done.json["findings"]]


def test_doctor_records_the_path(home: Home) -> None:
    examined(home, "--quick", environment={"PATH": "/some/tools:/usr/bin"})
    assert json.loads((home.tabane / "environment").read_text())["path"] == "/some/tools:/usr/bin"
    examined(home, "--quick", environment={"PATH": "/usr/bin"})
    assert "/usr/bin" in json.loads((home.tabane / "environment").read_text())["path"]


# -- servers -------------------------------------------------------------------------------------


def test_a_server_that_fails_is_a_fault_with_its_exit_status_and_last_words(home: Home) -> None:
    home.write_servers(
        {"bad": home.child("--exit", "3", "--stderr", "the token is missing"), "good": home.child()}
    )
    done = examined(home)
    finding = found(done, "bad does not work", "fault")
    assert "exit status 3" in finding["title"]
    assert "the token is missing" in finding["title"]
    assert "tabane servers test bad" in finding["mend"]
    assert done.err == ""
    found(done, "good starts in", "ok")


def test_the_advice_for_a_server_that_fails_is_what_its_output_shows(home: Home) -> None:
    home.write_servers(
        {
            "keyless": home.child("--exit", "1", "--stderr", "Error: NOTES_API_KEY is required"),
            "taken": home.child("--exit", "1", "--stderr", "Error: listen EADDRINUSE: :::3333"),
        }
    )
    done = examined(home)
    keyless = found(done, "keyless does not work: Error: NOTES_API_KEY is required", "fault")
    assert "tabane secrets set NOTES_API_KEY" in keyless["mend"]
    assert "uses this port" in found(done, "taken does not work", "fault")["mend"]


@pytest.mark.skipif(sys.platform != "linux", reason="what uses a folder is known on Linux only")
def test_a_broken_package_of_npx_is_repaired_once_it_is_not_in_use(home: Home, tmp_path: Path) -> None:
    cache = tmp_path / "npm"
    run = package_run("npx", ["-y", "@acme/notes"])
    assert run is not None
    entry = npx_entry(run, {"npm_config_cache": str(cache)})
    assert entry is not None
    package = entry / "node_modules" / "@acme" / "notes"
    missing = package / "index.js"
    package.mkdir(parents=True)
    (package / "package.json").write_text("{}")
    (entry / "package.json").write_text('{"dependencies": {"@acme/notes": "*"}}')
    listed: dict[str, object] = {"packages": {"node_modules/@acme/notes": {}}}
    (entry / "node_modules" / ".package-lock.json").write_text(json.dumps(listed))
    other = entry.with_name("0123456789abcdef")
    other.mkdir()
    npx = tmp_path / "npx"
    npx.write_text(
        f"#!/bin/sh\nif [ -d '{entry}' ]; then\n"
        f"echo \"Error [ERR_MODULE_NOT_FOUND]: Cannot find module '{missing}'\" >&2; exit 1; fi\n"
        f"exec '{sys.executable}' '{CHILD}'\n"
    )
    npx.chmod(0o700)
    definition = {"command": str(npx), "args": ["-y", "@acme/notes"], "env": {"npm_config_cache": str(cache)}}
    home.write_servers({"notes": definition})
    with subprocess.Popen(["sleep", "600"], cwd=entry) as user:
        kept = examined(home, "--fix")
        user.kill()
    finding = found(kept, "notes does not work", "fault")
    assert finding["fixable"]
    assert "tabane doctor --fix" in finding["mend"]
    assert any("in use" in row["reason"] for row in kept.json["not_mended"]), kept.json
    assert entry.exists()
    found(examined(home, "--fix"), "notes starts in", "ok")
    assert not entry.exists()
    assert other.exists()


def test_servers_are_started_together_and_a_silent_one_is_given_up(home: Home) -> None:
    home.write_servers(
        {"a": home.child("--silent"), "b": home.child("--silent"), "c": home.child("--slow-start", "0.5")}
    )
    limits = {"TABANE_START_TIMEOUT": "15", "TABANE_PROBE_TIMEOUT": "5"}
    done = examined(home, environment=limits)
    for name in "ab":
        found(done, f"{name} does not work", "fault")
    found(done, "c starts in", "ok")


def test_a_server_without_tools_is_a_warning(home: Home) -> None:
    home.write_servers({"none": home.child("--no-tools")})
    found(examined(home), '"none" starts in', "warning")


# -- the hub -------------------------------------------------------------------------------------


def test_what_runs_in_the_hub_is_not_started_again(home: Home) -> None:
    pids = home.folder / "pids"
    home.write_servers({"one": home.child("--pids", str(pids)), "two": home.child()})
    with hub(home):
        assert home.run("servers", "start", "one").status == 0
        assert home.run("servers", "stop", "two").status == 0
        started = pids.read_text()
        done = examined(home)
        found(done, "The hub is running (process ", "ok")
        found(done, "one runs: ", "ok")
        assert "tabane servers start two" in found(done, "two was stopped by a user", "note")["mend"]
        assert pids.read_text() == started


def test_a_server_that_starts_here_but_not_in_the_hub_is_told(home: Home) -> None:
    home.write_servers({"api": home.child() | {"env": {"KEY": "${ONLY_HERE}"}}})
    with hub(home):
        done = examined(home, environment={"ONLY_HERE": "x"})
        finding = found(done, "api starts here, but not in the running hub", "warning")
        assert "tabane restart" in finding["mend"]


def test_a_change_that_the_hub_did_not_take_is_told(home: Home) -> None:
    home.write_servers({"one": home.child()})
    with hub(home):
        home.write_servers('{"mcpServers": {')
        wait_until(lambda: home.run("status", "--json").json["problem"], "the hub sees the broken file")
        done = examined(home, "--quick")
        found(done, str(home.servers), "fault")
        found(done, "continues with the last valid version", "note")


def test_a_hub_that_does_not_answer_is_a_fault(home: Home) -> None:
    home.write_servers({})
    with hub(home):
        holder = lock.read_holder(str(home.tabane / "hub.lock"))
        assert holder is not None
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            done = examined(home, "--quick")
        finally:
            os.kill(holder.pid, signal.SIGCONT)
        finding = found(done, f"(process {holder.pid}) does not respond", "fault")
        assert "tabane restart" in finding["mend"]


def test_what_a_killed_hub_left_is_told_and_cleared_away(home: Home) -> None:
    home.write_servers({})
    assert home.run("start").status == 0
    holder = lock.read_holder(str(home.tabane / "hub.lock"))
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not lock.held(str(home.tabane / "hub.lock")), "the hub is gone")
    left = Path(holder.socket)
    assert left.is_socket()
    done = examined(home, "--quick")
    found(done, f"(process {holder.pid}) ended unexpectedly", "note")
    assert found(done, str(left), "warning")["fixable"]
    assert left.is_socket(), "looking changes nothing"
    mended = examined(home, "--quick", "--fix")
    assert any(str(left) in title for title in mended.json["mended"])
    assert not left.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the folder of a process")
def test_a_hub_whose_home_was_deleted_is_found(home: Home, tmp_path: Path) -> None:
    home.forks_hub = False
    home.write_servers({})
    assert home.run("start").status == 0
    holder = lock.read_holder(str(home.tabane / "hub.lock"))
    assert holder is not None
    away = tmp_path / "away"
    os.kill(holder.pid, signal.SIGSTOP)  # or it would end once it notices, perhaps before it is found
    home.tabane.rename(away)
    for path in sorted(away.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    away.rmdir()
    try:
        finding = found(examined(home, "--quick"), "home was deleted", "warning")
        assert str(holder.pid) in finding["mend"].split()
    finally:
        os.kill(holder.pid, signal.SIGKILL)


# -- files ---------------------------------------------------------------------------------------


def test_rights_of_others_are_found_and_taken_from_them(home: Home) -> None:
    home.write_servers({"one": home.child() | {"env": {"A": "${A_KEY}"}}}).chmod(0o666)
    secrets = write(home.tabane / "secrets.env", "A_KEY=x\n", 0o644)
    log = write(home.tabane / "logs" / "hub.log", "", 0o644)
    log.parent.chmod(0o777)
    home.tabane.chmod(0o755)
    done = examined(home, "--quick")
    assert done.status == 1
    assert found(done, f"{secrets} is not used", "fault")["fixable"]
    found(done, f"Other users can write to {log.parent}", "fault")
    found(done, f"Other users can list and open {home.tabane}", "warning")
    found(done, str(log), "warning")
    mended = examined(home, "--quick", "--fix")
    assert mended.status == 0, mended.out
    for path in (secrets, home.servers):
        assert any(f"{path} is not used" in title for title in mended.json["mended"]), "one hides the other"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (home.tabane, log.parent, secrets, log)}
    assert modes == {home.tabane: 0o700, log.parent: 0o700, secrets: 0o600, log: 0o600}
    assert stat.S_IMODE(home.servers.stat().st_mode) & 0o022 == 0
    assert examined(home, "--quick", "--fix").json["mended"] == []


def test_caches_of_servers_that_are_gone_are_forgotten(home: Home) -> None:
    home.write_servers({"one": home.child(), "two": home.child()})
    home.run("tools", "list")
    home.run("servers", "test", "two")
    home.run("stop")
    home.write_servers({"one": home.child()})
    assert found(examined(home, "--quick"), "no longer configured: two", "note")["fixable"]
    examined(home, "--quick", "--fix")
    assert "no longer configured" not in examined(home, "--quick").out
    with closing(sqlite3.connect(home.tabane / "catalogue.db")) as database:
        assert database.execute("SELECT server FROM listing").fetchall() == [("one",)]
        assert database.execute("SELECT count(*) FROM alias WHERE server = 'two'").fetchone()[0] > 0


def test_a_broken_cache_is_put_aside_and_then_deleted(home: Home) -> None:
    home.write_servers({"one": home.child()})
    cache = write(home.tabane / "catalogue.db", "this is no database, but long enough to be read" * 50, 0o600)
    assert found(examined(home, "--quick"), f"{cache} is damaged", "warning")["fixable"]
    done = examined(home, "--quick", "--fix")
    assert len(done.json["mended"]) == 2
    assert not cache.exists()
    assert list(home.tabane.glob("*.broken")) == []
    assert home.run("tools", "list").status == 0
    home.run("stop")


def test_a_disk_that_is_nearly_full_is_a_warning_then_a_fault(tmp_path: Path) -> None:
    shown = [room(free, tmp_path).level for free in (LITTLE, LITTLE - 1, TOO_LITTLE, TOO_LITTLE - 1)]
    assert shown == ["ok", "warning", "warning", "fault"]


def test_what_cannot_be_mended_is_said_with_the_reason(home: Home) -> None:
    home.write_servers({})
    (home.tabane / "catalogue.broken").mkdir(mode=0o700)
    done = home.run("doctor", "--quick", "--fix")
    assert "Could not be fixed" in done.err
    assert str(home.tabane / "catalogue.broken") in done.err


def test_a_server_at_a_url_is_asked(home: Home) -> None:
    with serving(modern) as server:
        home.write_servers({"web": {"url": server.url}, "off": {"url": "http://x", "enabled": False}})
        done = examined(home)
    answers = found(done, "web answers in", "ok")
    assert "2 tools, protocol 2026-07-28" in answers["title"]


def test_a_server_at_a_url_that_is_gone_is_a_fault_with_the_reason(home: Home) -> None:
    home.write_servers({"web": {"url": f"http://127.0.0.1:{reserved_port(home)}/mcp"}})
    found(examined(home), "cannot be reached: Connection refused", "fault")


def test_without_a_network_there_is_one_fault_and_what_needs_it_is_named(home: Home, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "npx").write_text("#!/bin/sh\necho 'npm error code EAI_AGAIN' >&2\nexit 1\n")
    (programs / "npx").chmod(0o755)
    servers = {
        "package": {"command": "npx", "args": ["-y", "nobody-has-this-package"]},
        "elsewhere": {"url": "https://mcp.invalid/mcp"},
        "here": home.child(),
    }
    home.write_servers(servers)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HTTPS_PROXY": f"http://127.0.0.1:{reserved_port(home)}",
    }
    done = examined(home, environment=environment)
    assert "HTTPS_PROXY" in found(done, "There is no network", "fault")["mend"]
    found(done, "Not started without the network: package, elsewhere", "note")
    found(done, "here starts in", "ok")
    assert [row["level"] for row in done.json["findings"]].count("fault") == 1


def test_secrets_over_plain_http_are_a_warning(home: Home) -> None:
    headers = {"Authorization": "Bearer abcdefgh"}
    home.write_servers(
        {
            "open": {"url": "http://a.example/mcp", "headers": headers},
            "own": {"url": "http://127.0.0.1:9/mcp", "headers": headers, "ca": "gone.pem"},
            "safe": {"url": "https://a.example/mcp", "headers": headers},
        }
    )
    done = examined(home, "--quick")
    assert "where others can read them" in found(done, 'Secrets are sent to "open"', "warning")["title"]
    assert done.out.count("Secrets are sent to") == 1
    found(done, "own: the certificates in", "fault")


# -- assistants ----------------------------------------------------------------------------------


def test_servers_that_an_assistant_has_twice_are_named(home: Home) -> None:
    child = home.child()
    home.write_servers({"one": child, "two": {"command": "x", "args": ["y"]}})
    table = {"mine": child | {"type": "stdio"}, "off": {"command": "x", "args": ["y"], "disabled": True}}
    write(file_of(home, "cursor"), json.dumps({"mcpServers": table}))
    write(file_of(home, "windsurf"), json.dumps({"mcpServers": table}))
    home.run("install", "cursor")
    done = examined(home, "--quick")
    finding = found(done, "twice", "warning")
    assert "Cursor has the server one twice" in finding["title"]
    assert "tabane setup cursor" in finding["mend"]


def test_an_assistant_that_starts_a_tabane_that_is_gone_is_a_fault(home: Home) -> None:
    table = {"hub": {"command": "/gone/bin/tabane", "args": ["mcp"]}}
    write(file_of(home, "vscode"), "// mine\n" + json.dumps({"servers": table}))
    done = examined(home, "--quick")
    assert "tabane install vscode" in found(done, "/gone/bin/tabane", "fault")["mend"]
    home.run("install", "vscode", "--name", "hub")
    found(examined(home, "--quick"), "VS Code uses Tabane", "ok")


def test_a_broken_file_of_an_assistant_is_a_warning(home: Home) -> None:
    path = write(file_of(home, "claude-desktop"), "{")
    found(examined(home, "--quick"), f"{path}:1:", "warning")


def test_the_socket_of_a_hub_that_has_just_started_is_left_alone(home: Home) -> None:
    path = home.tabane / "hub.sock"
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(str(path))
    fixes = [finding.fix for finding in process.hub(examine(home.environment, None, None)) if finding.fix]
    assert len(fixes) == 1
    held = lock.acquire(str(home.tabane / "hub.lock"))
    assert held is not None
    fixes[0]()
    assert path.exists()
    held.release()
    fixes[0]()
    assert not path.exists()


# -- what is stored ------------------------------------------------------------------------------


@pytest.fixture
def stored(home: Home) -> Path:
    """The file of a store that was used: a hub has searched the documentation."""
    home.write_servers({})
    with hub(home):
        assert home.run("search", "token", "--in", "docs").status == 0
    return home.tabane / "store" / "cache.db"


@pytest.mark.heavy("real commands, a hub and servers")
@pytest.mark.parametrize("runs", [False, True])
def test_a_store_in_order_is_whole_whether_a_hub_has_it_open_or_not(
    home: Home, stored: Path, runs: bool
) -> None:
    if not runs:
        found(examined(home, "--quick"), f"{stored} is not damaged", "ok")
        return
    with hub(home):
        assert home.run("search", "token", "--in", "docs").status == 0
        found(examined(home, "--quick"), f"{stored} is not damaged", "ok")


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_damaged_store_of_derived_things_is_put_aside_and_made_anew(home: Home, stored: Path) -> None:
    with stored.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(16384))
    found(examined(home, "--quick"), "is damaged", "warning")
    assert home.run("search", "token", "--in", "docs").status == 1
    home.run("stop")
    examined(home, "--quick", "--fix")
    searched = home.run("search", "token", "--in", "docs", "--json")
    assert searched.json["results"]
    home.run("stop")
    for path in (home.tabane / "store").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_what_is_kept_as_documents_is_looked_at_and_never_thrown_away(home: Home) -> None:
    home.write_servers({})
    file = home.tabane / "store" / "documents.db"
    with hub(home):
        assert home.run("docs", "put", "-", "--id", "a", stdin="words").status == 0
    found(examined(home, "--quick"), f"{file} is not damaged", "ok")
    with file.open("r+b") as opened:
        opened.seek(8192)
        opened.write(os.urandom(16384))
    found(examined(home, "--quick", "--fix"), " is damaged", "fault")
    assert file.stat().st_size > 16384


def test_folders_of_documents_that_are_away_are_told(home: Home, tmp_path: Path) -> None:
    home.write_servers({})
    notes, gone = tmp_path / "notes", tmp_path / "gone"
    notes.mkdir()
    home.environment["TABANE_DOCUMENTS_ROOTS"] = f"{notes},{gone}"
    with hub(home):
        assert home.run("docs", "watch", str(notes)).status == 0
        whole = examined(home, "--quick")
        found(whole, f"{notes} is watched", "ok")
        found(whole, f"{gone}, a folder from which assistants may save files, is not a folder", "warning")
        shown = home.run("status", "--json").json
        assert (shown["documents"], shown["documents_watched"]) == (0, 1)
        notes.rename(tmp_path / "elsewhere")
        deadline = time.monotonic() + LONG
        while "are not up to date" not in (examined(home, "--quick")).out:
            assert time.monotonic() < deadline
