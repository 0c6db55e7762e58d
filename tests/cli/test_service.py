"""`tabane service`: the file that systemd gets, and what a stand-in for systemctl is asked."""

from __future__ import annotations

import os
import plistlib
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.cli.service import kept_variables, launchd_agent, systemd_unit
from tabane.hub.process.serve import report_ready
from tests.harness.home import Home

linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd")
COMMAND = ['/opt/my $tools/100% "mine"/tabane', "start", "--foreground"]


@pytest.fixture
def systemctl(home: Home, tmp_path: Path) -> Path:
    """Put a systemctl first on PATH. Return the file in which it notes its arguments."""
    notes, folder = tmp_path / "notes", tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {notes}\ncase "$*" in *is-active*) echo active;; esac\n')
    program.chmod(0o755)
    home.environment["PATH"] = f"{folder}{os.pathsep}{home.environment['PATH']}"
    return notes


@linux
def test_a_service_is_installed_shown_and_removed(home: Home, systemctl: Path) -> None:
    done = home.json("service", "install")
    unit = Path(done["file"])
    assert unit == home.folder / "config" / "systemd" / "user" / "tabane.service"
    assert unit.read_text() == done["content"]
    assert f'"TABANE_HOME={home.tabane}"' in done["content"]
    assert home.json("service", "status")["running"] is True
    assert home.json("service", "remove")["removed"] is True
    assert not unit.exists()
    assert home.run("service", "status").status == 1
    asked = systemctl.read_text().splitlines()
    assert [line.removeprefix("--user ").split()[0] for line in asked] == [
        *("show-environment", "daemon-reload", "enable", "restart", "is-active"),
        *("show-environment", "disable", "daemon-reload", "reset-failed"),
    ]


@linux
def test_the_file_of_somebody_else_is_neither_replaced_nor_removed(home: Home, systemctl: Path) -> None:
    unit = home.folder / "config" / "systemd" / "user" / "tabane.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    for command in ("install", "remove"):
        done = home.run("service", command)
        assert done.status == 1
        assert "--force" in done.err
    assert unit.read_text() == "[Service]\n"
    assert home.run("service", "install", "--force").status == 0


@linux
def test_without_systemd_nothing_is_written_and_another_way_is_named(home: Home) -> None:
    done = home.run("service", "install", environment={"PATH": str(home.folder)})
    assert done.status == 1
    assert "tabane start --foreground" in done.err
    assert not (home.folder / "config" / "systemd").exists()


def test_printing_and_trying_change_nothing(home: Home) -> None:
    for option in ("--print", "--dry-run"):
        assert home.run("service", "install", option).status == 0
    assert not (home.folder / "config" / "systemd").exists()
    assert not (home.folder / "Library").exists()


def test_secrets_and_settings_of_clients_are_not_written() -> None:
    given = {"PATH": "/bin", "TABANE_HOME": "/h", "TABANE_X_TOKEN": "s", "TABANE_MODE": "full", "AWS": "a"}
    assert kept_variables(given) == {"PATH": "/bin", "TABANE_HOME": "/h"}
    assert kept_variables({"TABANE_LANG": "en\nExecStart=/bin/evil"}) == {}


def test_words_of_a_unit_are_quoted() -> None:
    unit = systemd_unit(COMMAND, {"PATH": "/a b:/100%"})
    assert r'ExecStart="/opt/my $$tools/100%% \"mine\"/tabane" "start" "--foreground"' in unit
    assert 'Environment="PATH=/a b:/100%%"' in unit


@linux
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "tabane.service"
    unit.write_text(systemd_unit([sys.executable, "start"], {"PATH": "/bin:/a b"}))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "tabane.service:" in done.stderr) == (0, False), done.stderr


def test_launchd_gets_a_property_list() -> None:
    agent = plistlib.loads(launchd_agent(COMMAND, {"PATH": "/bin"}).encode())
    assert agent["ProgramArguments"] == COMMAND
    assert agent["EnvironmentVariables"] == {"PATH": "/bin"}


def test_systemd_is_told_when_the_hub_serves(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        environ = {"NOTIFY_SOCKET": address}
        report_ready(environ)
        assert listener.recv(100) == b"READY=1"
    assert environ == {}
    report_ready({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    report_ready({})
