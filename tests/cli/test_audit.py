"""`tabane audit` as a user runs it, over the log of a real hub."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, hub


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home whose hub has called a tool with a secret in its arguments, and has ended."""
    home = Home(tmp_path)
    home.write_servers({"work": home.child()})
    with hub(home):
        called = home.run("tools", "call", "work__echo", 'text={"password": "hunter2"}')
        assert called.status == 0, called.err
        yield home


def log_of(home: Home) -> list[dict[str, object]]:
    files = sorted((home.tabane / "audit").iterdir())
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def test_a_call_is_in_the_log_without_its_secrets(home: Home) -> None:
    text = json.dumps(log_of(home))
    calls = [entry for entry in log_of(home) if entry.get("name") == "work__echo"]
    assert "hunter2" not in text
    assert calls
    assert (calls[-1]["type"], calls[-1]["key"], calls[-1]["server"]) == ("call", "local", "work")


def test_a_log_is_verified_while_the_hub_runs(home: Home) -> None:
    assert home.run("audit", "verify").succeeded.out.startswith("The audit log is intact: ")
    job = home.json("rpc", "verify_audit_log")["job"]
    assert home.json("jobs", "follow", job)["intact"]


def test_a_log_is_intact_after_the_hub_was_killed(home: Home) -> None:
    os.kill(home.json("status")["pid"], signal.SIGKILL)
    assert home.json("audit", "verify")["intact"]
    home.run("start").succeeded  # noqa: B018
    assert home.json("audit", "verify")["intact"]


def test_a_changed_log_fails_and_names_the_entry(home: Home) -> None:
    kept = home.run("audit", "head").succeeded.out.strip()
    assert home.run("audit", "verify", "--head", kept).status == 0
    file = next((home.tabane / "audit").iterdir())
    file.write_bytes(file.read_bytes().replace(b'"local"', b'"other"', 1))
    outcome = home.run("audit", "verify")
    assert outcome.status == 1
    assert "was changed" in outcome.out
    assert "The audit log is not intact." in outcome.out


def test_a_copy_is_verified_without_a_hub(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    home.run("stop")
    os.rename(home.tabane, copy)
    other = Home(tmp_path / "elsewhere", made=False)
    other.folder.mkdir()
    assert other.run("audit", "verify", "--folder", str(copy / "audit")).status == 0
    assert other.run("audit", "verify").status == 1
    os.rename(copy, home.tabane)


def test_a_wrong_head_is_a_wrong_argument(home: Home) -> None:
    outcome = home.run("audit", "verify", "--head", "nonsense")
    assert outcome.status == 2
    assert "is not a head of an audit log" in outcome.err
