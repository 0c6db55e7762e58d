"""`tabane install` and `uninstall` as a user runs them, on sample files of assistants."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.servers.assistants import installation
from tabane.servers.assistants.table import ClientFile, ServersPlace
from tests.harness.home import Home, hub
from tests.servers.test_splicing import files

MAC = sys.platform == "darwin"
NAMES = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf")
ENTRY = {"command": "/opt/tabane", "args": ["mcp"]}


def file_of(home: Home, client: str) -> Path:
    settings = home.folder / ("Library/Application Support" if MAC else "config")
    return {
        "claude-desktop": settings / "Claude" / "claude_desktop_config.json",
        "claude-code": home.folder / ".claude.json",
        "cursor": home.folder / ".cursor" / "mcp.json",
        "vscode": settings / "Code" / "User" / "mcp.json",
        "windsurf": home.folder / ".codeium" / "windsurf" / "mcp_config.json",
    }[client]


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(mode)
    return path


def entry_in(path: Path, key: str = "mcpServers") -> dict[str, Any]:
    entry = json.loads(path.read_text())[key]["tabane"]
    assert isinstance(entry, dict)
    return entry


# -- installing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", NAMES)
def test_each_assistant_is_given_a_command_that_runs(home: Home, client: str) -> None:
    path = write(file_of(home, client), "{}")
    done = home.run("install", client, "--json")
    assert done.status == 0, done.err
    assert (done.json["status"], done.json["path"]) == ("installed", str(path))
    entry = entry_in(path, "servers" if client == "vscode" else "mcpServers")
    assert done.json["entry"] == json.loads(path.read_text())
    assert os.path.isabs(entry["command"])
    assert os.access(entry["command"], os.X_OK)
    line = initialized(entry, {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"})
    assert line["result"]["serverInfo"]["name"] == "tabane"
    assert home.run("stop").status == 0


@pytest.mark.parametrize(
    ("client", "mode"),
    [
        ("claude-desktop", "search"),
        ("claude-code", "full"),
        ("cursor", "full"),
        ("vscode", "full"),
        ("windsurf", "search"),
    ],
)
def test_assistants_that_search_tools_themselves_are_given_all(home: Home, client: str, mode: str) -> None:
    wanted = home.run("install", client, "--print").json
    (entry,) = next(iter(wanted.values())).values()
    assert mode_of(entry) == mode
    assert ("type" in entry) == (client in ("claude-code", "vscode"))
    chosen = home.run("install", client, "--print", "--mode", "light").json
    assert mode_of(next(iter(chosen.values()))["tabane"]) == "light"


def test_the_rest_of_a_file_stays_as_it_was_comments_and_mode_too(home: Home) -> None:
    before = (
        '{\n\t// mine\n\t"mcpServers": {\n\t\t"time": {"command": "uvx"}, // clock\n\t},\n'
        '\t"theme": "dunkel", "big": 123456789012345678901234567890, "half": 1.50\n}\n'
    )
    path = write(file_of(home, "cursor"), before, 0o640)
    done = home.run("install", "cursor")
    assert done.status == 0
    assert "Cursor" in done.out
    assert "tabane setup" in done.err
    after = path.read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert Path(f"{path}.bak").read_text() == before
    assert home.run("uninstall", "cursor").status == 0
    assert path.read_text() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_is_made_is_the_users_alone(home: Home) -> None:
    path = file_of(home, "windsurf")
    path.parent.mkdir(parents=True)
    assert home.run("install", "windsurf").status == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not Path(f"{path}.bak").exists()


def test_installing_again_says_so_or_brings_up_to_date(home: Home) -> None:
    path = write(file_of(home, "cursor"), "{}")
    home.run("install", "cursor")
    text = path.read_text()
    again = home.run("install", "cursor", "--json").json
    assert (again["status"], again["backup"], path.read_text()) == ("unchanged", None, text)
    written = json.loads(text)
    written["mcpServers"]["tabane"] |= {"command": "/gone/tabane", "disabled": True}
    write(path, json.dumps(written))
    assert home.run("install", "cursor", "--mode", "light", "--json").json["status"] == "updated"
    entry = entry_in(path)
    assert mode_of(entry) == "light"
    assert entry["command"] != "/gone/tabane"
    assert entry["disabled"] is True, "what a person added stays"


def test_another_server_of_that_name_is_not_replaced(home: Home) -> None:
    text = '{"mcpServers": {"tabane": {"command": "other"}}}'
    path = write(file_of(home, "cursor"), text)
    for command in ("install", "uninstall"):
        refused = home.run(command, "cursor")
        assert (refused.status, refused.out) == (2, "")
        assert "--name" in refused.err
        assert path.read_text() == text
    assert home.run("install", "cursor", "--name", "hub").status == 0
    assert set(json.loads(path.read_text())["mcpServers"]) == {"tabane", "hub"}
    assert home.run("install", "cursor", "--force").status == 0
    assert "mcp" in entry_in(path)["args"]


def test_a_dry_run_shows_what_would_be_written_and_writes_nothing(home: Home) -> None:
    secret = '{"mcpServers": {"a": {"command": "x", "env": {"KEY": "sk-012345"}}}}'
    path = write(file_of(home, "cursor"), secret)
    before = sorted(home.folder.rglob("*"))
    shown = home.run("install", "cursor", "--dry-run")
    assert shown.status == 0
    assert '"tabane"' in shown.out
    assert "sk-012345" not in shown.out + shown.err
    assert path.read_text() == secret
    assert sorted(home.folder.rglob("*")) == before


def test_an_assistant_that_is_not_there_is_not_given_a_file_unless_forced(home: Home) -> None:
    for client in NAMES:
        refused = home.run("install", client)
        assert refused.status == 1, client
        assert "does not seem to be installed" in refused.err
        assert not file_of(home, client).exists()
    assert home.run("install", "vscode", "--force").status == 0
    assert "tabane" in json.loads(file_of(home, "vscode").read_text())["servers"]
    (home.folder / ".claude").mkdir()
    assert home.run("install", "claude-code").status == 0


def test_an_unknown_assistant_is_answered_with_those_that_are_known(home: Home) -> None:
    for arguments in (["install", "cusor"], ["uninstall", "cusor"], ["install"]):
        refused = home.run(*arguments)
        assert refused.status == 2
        assert all(name in refused.err for name in NAMES)
    shown = home.run("install", "emacs", "--print")
    assert list(shown.json) == ["mcpServers"]


@pytest.mark.parametrize(
    ("text", "words"),
    [('{"mcpServers": {]}', ":1:17: "), ('{"mcpServers": ["a"]}', '"tabane"'), ("[]", '"tabane"')],
)
def test_a_file_that_cannot_be_changed_is_left_and_said_why(home: Home, text: str, words: str) -> None:
    path = write(file_of(home, "cursor"), text)
    failed = home.run("install", "cursor")
    assert failed.status == 1
    assert str(path) in failed.err
    assert words in failed.err
    assert path.read_text() == text


def test_uninstalling_what_is_not_there_is_no_fault(home: Home) -> None:
    assert home.run("uninstall", "cursor", "--json").json["status"] == "absent"
    assert not file_of(home, "cursor").parent.exists()


def test_it_speaks_japanese(home: Home) -> None:
    write(file_of(home, "cursor"), "{}")
    said = home.run("install", "cursor", environment={"TABANE_LANG": "ja"})
    assert any("ぁ" <= letter <= "ん" for letter in said.out)


def file_at(path: Path) -> ClientFile:
    return ClientFile(path, "user", ServersPlace(()))


# -- any file ------------------------------------------------------------------------------------


@given(files(), st.booleans())
def test_uninstall_gives_back_what_install_found(file: tuple[str, dict[str, Any]], marked: bool) -> None:
    text = ("\ufeff" if marked else "") + file[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mcp.json"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        installation.install(file_at(path), "tabane", ENTRY)
        assert installation.installed(file_at(path))["tabane"] == ENTRY
        installation.uninstall(file_at(path), "tabane")
        assert path.read_bytes().decode() == text


def test_what_changed_meanwhile_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "mcp.json", '{"a": 1}')
    installation.install(file_at(path), "tabane", ENTRY)
    write(path, path.read_text().replace('"a": 1', '"a": 2'))
    installation.uninstall(file_at(path), "tabane")
    assert json.loads(path.read_text()) == {"a": 2, "mcpServers": {}}


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mcp.json")
    with pytest.raises(ConfigurationError):
        installation.install(file_at(tmp_path / "mcp.json"), "tabane", ENTRY)


# -- the PATH ------------------------------------------------------------------------------------


def test_a_hub_with_a_poor_path_finds_what_the_terminal_found(home: Home) -> None:
    tools = home.folder / "tools"
    tools.mkdir()
    (tools / "my-server").symlink_to(sys.executable)
    write(file_of(home, "cursor"), "{}")
    home.write_servers({"mine": {"command": "my-server", "args": home.child()["args"]}})
    rich = f"{tools}{os.pathsep}{home.environment['PATH']}"
    home.environment["PATH"] = "/usr/bin:/bin"
    with hub(home):
        assert home.run("servers", "test", "mine").status == 1
    assert home.run("install", "cursor", environment={"PATH": rich}).status == 0
    assert stat.S_IMODE((home.tabane / "environment").stat().st_mode) == 0o600
    with hub(home):
        tested = home.run("servers", "test", "mine")
        assert tested.status == 0, tested.err


# -- inside --------------------------------------------------------------------------------------


def mode_of(entry: dict[str, Any]) -> str | None:
    args = entry["args"]
    return args[args.index("--mode") + 1] if "--mode" in args else None


def initialized(entry: dict[str, Any], environment: dict[str, str]) -> Any:
    """What the command answers to an assistant, in the environment of a program with windows."""
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    question = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with subprocess.Popen(
        [entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        process.stdin.close()
    return json.loads(line)
