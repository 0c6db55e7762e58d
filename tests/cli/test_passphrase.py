"""With a passphrase, no command changes what is allowed without it, also if it writes files itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from tabane.access.passphrase import record_of
from tests.harness.home import LIMIT, Home, hub
from tests.harness.terminal import on_terminal

WORDS = "correct horse battery"
RECORD = msgspec.json.encode(record_of(WORDS))
PROJECT = json.dumps({"mcpServers": {"theirs": {"command": "x"}}})


@pytest.fixture(params=[False, True], ids=["no hub", "hub"])
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    """A home with a passphrase, a server and a secret, and a file of a project."""
    home = Home(tmp_path)
    home.write_servers(
        {"up": {**home.child(), "env": {"API_KEY": "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"}}}
    )
    assert home.run("secrets", "set", "KEPT", stdin="a value").status == 0
    file = home.tabane / "passphrase.json"
    file.write_bytes(RECORD)
    file.chmod(0o600)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / ".mcp.json").write_text(PROJECT)
    with hub(home) if request.param else nullcontext():
        yield home


def kept(home: Home) -> Mapping[str, bytes]:
    """The files that decide what is allowed."""
    files = [
        home.servers,
        *(home.tabane / name for name in ("secrets.env", "passphrase.json", "projects.json")),
    ]
    return {path.name: path.read_bytes() for path in files if path.exists()}


@pytest.mark.parametrize(
    "command",
    [
        "servers add more --no-try -- true",
        "servers import --from shop/.mcp.json --yes",
        "servers remove up",
        "servers enable up",
        "servers disable up",
        "servers override up echo --name other",
        "servers sandbox up --preset none",
        "secrets set OTHER --stdin",
        "secrets remove KEPT --yes",
        "secrets adopt --yes",
        "projects trust shop --yes",
        "setup cursor --yes",
        "setup --undo",
    ],
)
def test_a_command_that_nobody_can_be_asked_by_changes_nothing(home: Home, command: str) -> None:
    before = kept(home)
    done = home.run(*command.split(), stdin="value")
    assert done.status == 1, done.out
    assert "A passphrase is set" in done.err
    assert kept(home) == before


@pytest.mark.parametrize(("typed", "status"), [(WORDS, 0), ("something else", 1)])
def test_a_terminal_asks_for_the_passphrase(home: Home, typed: str, status: int) -> None:
    before = kept(home)
    with on_terminal(home, "servers", "disable", "up") as terminal:
        terminal.answer("Passphrase:", typed, hidden=True)
        terminal.end(LIMIT)
    assert terminal.process.returncode == status, terminal.out
    assert typed not in terminal.out
    assert (kept(home) == before) is bool(status)


def test_a_backup_is_not_restored_without_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({})
    assert home.run("backup", str(tmp_path / "old.tar.gz")).status == 0
    file = home.tabane / "passphrase.json"
    file.write_bytes(RECORD)
    file.chmod(0o600)
    done = home.run("restore", "--force", str(tmp_path / "old.tar.gz"))
    assert done.status == 1
    assert "A passphrase is set" in done.err
    assert file.read_bytes() == RECORD
