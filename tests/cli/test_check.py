"""`tabane check`: findings with file and line, exit statuses, and no hub."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tabane.guard.definitions.definition import DefinitionKey
from tabane.guard.definitions.pins import (
    PINS_FILE,
    Pin,
    PinFile,
    PinnedDefinition,
    PinState,
    PinWrites,
    ServerPins,
)
from tests.harness.home import Home
from tests.harness.user import SMALL

GOOD = {"small": {"command": sys.executable, "args": [SMALL, "."]}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def write(home: Home, text: str, name: str = ".mcp.json") -> str:
    home.write_servers(text, home.folder / name)
    return name


def pin(home: Home, state: PinState, tool: str = "echo", digest: bytes = bytes(32)) -> None:
    """Record a definition of the server ``small``."""
    file = PinFile(home.tabane / PINS_FILE)
    pinned = PinnedDefinition(DefinitionKey("tool", tool), Pin(digest, state, "changed", 1.0))
    file.write(PinWrites("small", (pinned,), head=ServerPins(lists={"tool"})))
    file.close()


def test_a_good_configuration_needs_no_hub_and_writes_nothing(home: Home) -> None:
    home.write_servers(GOOD)
    before = sorted(home.folder.rglob("*"))
    assert home.run("check").succeeded.out == "Everything is in order.\n"
    assert home.run("check", "--json", "--strict").succeeded.json["findings"] == []
    assert sorted(home.folder.rglob("*")) == before


MISTAKES = """{
  "mcpServers": {
    "absent": {"command": "no-such-command-here"},
    "unset": {"command": "/bin/sh", "args": ["${NO_SUCH_VARIABLE}"]},
    "plain": {
      "command": "/bin/sh",
      "env": {"API_KEY": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
      "colour": 1
    }
  }
}
"""
FOUND = (
    (".mcp.json:3: error: ", "no-such-command-here was not found"),
    (".mcp.json:4: error: ", "NO_SUCH_VARIABLE"),
    (".mcp.json:5: warning: ", "plain text: env.API_KEY"),
    (".mcp.json:8: warning: ", '"colour" is unknown'),
)


def test_each_mistake_is_one_line_with_its_place(home: Home) -> None:
    done = home.run("check", "--servers", write(home, MISTAKES))
    assert done.status == 1
    *lines, summary = done.out.splitlines()
    assert len(lines) == len(FOUND), lines
    for line, (place, words) in zip(lines, FOUND, strict=True):
        assert line.startswith(place), line
        assert words in line
    assert summary == "Errors: 2. Warnings: 2."
    assert "ghp_" not in done.out + done.err


def test_findings_for_github_and_as_json(home: Home) -> None:
    name = write(home, MISTAKES)
    lines = home.run("check", "--servers", name, "--github").out.splitlines()
    assert lines[0].startswith("::error file=.mcp.json,line=3::")
    found: Any = home.run("check", "--servers", name, "--json").json
    assert (found["status"], found["errors"], found["warnings"]) == (1, 2, 2)
    assert [row["line"] for row in found["findings"]] == [3, 4, 5, 8]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"mcpServers": {\n  "a": {"command": "x",\n', ".mcp.json:3: error: "),
        ("[]", ".mcp.json:1: error: "),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_at_its_line(home: Home, text: str, place: str) -> None:
    done = home.run("check", "--servers", write(home, text))
    assert done.status == 1
    assert done.out.startswith(place), done.out


def test_a_file_that_does_not_exist_is_an_error(home: Home) -> None:
    done = home.run("check", "--servers", "none.json")
    assert done.status == 1
    assert done.out.startswith("none.json: error: ")


def test_warnings_fail_if_they_are_to(home: Home) -> None:
    home.write_servers({"small": {**GOOD["small"], "colour": 1}})
    assert home.run("check").status == 0
    assert home.run("check", "--strict").status == 3
    assert home.run("check", "--no-such-option").status == 2


def test_settings_and_patterns_without_a_server_are_warnings(home: Home) -> None:
    config = home.folder / "own.toml"
    config.write_text('prot = 1\n[profiles.work]\nallow = ["small__*", "gone__*", "@posts"]\n')
    config.chmod(0o600)
    home.write_servers(GOOD)
    done = home.run("check", "--config", "own.toml", "--servers", str(home.servers), "--strict")
    assert done.status == 3, done
    second, first, _ = done.out.splitlines()
    assert first.startswith("own.toml:1: warning: ")
    assert "gone__*" in second
    assert "small__*" not in done.out


def test_definitions_that_wait_for_acceptance_have_their_own_exit_status(home: Home) -> None:
    home.write_servers(GOOD)
    pin(home, PinState.OPEN)
    done = home.run("check")
    assert done.status == 4
    assert "1 definition of small changed and waits for acceptance: echo" in done.out
    pin(home, PinState.ACCEPTED)
    assert home.run("check").status == 0
    home.write_servers({**GOOD, "absent": {"command": "no-such-command-here"}})
    pin(home, PinState.OPEN)
    assert home.run("check").status == 1


def test_started_servers_are_compared_with_their_pins(home: Home) -> None:
    home.write_servers(GOOD)
    assert home.run("check", "--start").succeeded
    pin(home, PinState.TRUSTED, digest=hashlib.sha256(b"another").digest())
    assert home.run("check").status == 0
    done = home.run("check", "--start")
    assert done.status == 4
    assert "3 definitions of small are not as pinned: echo, pid, wait" in done.out


def test_a_server_that_does_not_start_is_an_error(home: Home) -> None:
    home.write_servers({"ends": {"command": sys.executable, "args": ["-c", "raise SystemExit(7)"]}})
    assert home.run("check").status == 0
    done = home.run("check", "--start")
    assert done.status == 1
    assert ": error: " in done.out
