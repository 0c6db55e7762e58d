"""`tabane setup` and `--undo` as a user runs them, with real servers behind a real hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import CHILD, Home
from tests.servers.assistants.realistic_files import FILES

MAC = sys.platform == "darwin"
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SMALL: dict[str, Any] = {"command": sys.executable, "args": [str(CHILD), "--name", "small"]}
OTHER: dict[str, Any] = {"command": sys.executable, "args": [str(CHILD), "--name", "other"]}
CLAUDE = {"theme": "dark", "mcpServers": {"small": {"type": "stdio", **SMALL, "env": {"API_TOKEN": SECRET}}}}
CURSOR = {
    "mcpServers": {"small": {**SMALL, "env": {"API_TOKEN": SECRET}}, "other": {**OTHER, "disabled": True}}
}


class Desk(Home):
    """A home with Claude Code and Cursor, which share a server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment["PATH"] = "/usr/bin:/bin"
        self.claude = self.write(".claude.json", json.dumps(CLAUDE, indent=2))
        self.cursor = self.write(".cursor/mcp.json", json.dumps(CURSOR, indent="\t"))
        self.texts = {path: path.read_bytes() for path in (self.claude, self.cursor)}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def is_as_it_was(self) -> bool:
        return all(path.read_bytes() == text for path, text in self.texts.items())


@pytest.fixture
def desk(tmp_path: Path) -> Any:
    desk = Desk(tmp_path)
    yield desk
    desk.run("stop")


def test_one_command_moves_all_servers_and_a_call_through_each_entry_works(desk: Desk) -> None:
    done = desk.run("setup", "--yes", "--json").succeeded.json
    rows = {row["client"]: row for row in done["assistants"]}
    assert set(rows) == {"claude-code", "cursor"}
    assert all(row["check"]["works"] for row in rows.values()), rows
    assert [row["server"] for row in rows["cursor"]["moved"]] == ["small", "other"]
    assert done["secrets"] == ["API_TOKEN"]
    for path in (desk.claude, desk.cursor):
        assert list(json.loads(path.read_text())["mcpServers"]) == ["tabane"]
        assert SECRET not in path.read_text()
    servers = desk.read_servers()
    assert servers["small"]["env"] == {"API_TOKEN": "${API_TOKEN}"}
    assert servers["other"]["disabled"] is True
    assert desk.json("tools", "call", "small__echo", "text=hi")
    assert desk.json("setup", "--yes")["status"] == "unchanged"
    undone = desk.json("setup", "--undo")
    assert {row["status"] for row in undone["files"]} == {"restored"}
    assert desk.is_as_it_was()
    assert desk.json("setup", "--undo") == {"status": "unchanged", "files": []}
    assert "small" in desk.read_servers()


def test_a_real_call_goes_through_the_entry_as_it_is_written(desk: Desk) -> None:
    desk.run("setup", "--yes").succeeded  # noqa: B018
    entry = json.loads(desk.claude.read_text())["mcpServers"]["tabane"]
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "small__echo", "arguments": {"text": "through the entry"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    bridge = subprocess.Popen(
        [entry["command"], *entry["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(desk.folder), "PATH": "/usr/bin:/bin"},
        text=True,
    )
    with bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        for line in lines:
            bridge.stdin.write(json.dumps(line) + "\n")
        bridge.stdin.flush()
        answers = [json.loads(bridge.stdout.readline()) for _ in range(2)]
        bridge.stdin.close()
    assert "through the entry" in json.dumps(answers[-1]["result"])


def test_it_shows_what_will_happen_asks_once_and_ends_with_what_to_do(desk: Desk) -> None:
    refused = desk.converse("setup", typed="n\n", columns=80)
    assert refused.status == 0
    assert "Nothing was changed." in refused.out
    assert desk.is_as_it_was()
    agreed = desk.converse("setup", typed="y\n", columns=80)
    assert agreed.status == 0
    assert agreed.out.count("Set this up?") == 1
    assert SECRET not in agreed.out
    for words in ("Claude Code", "~/.cursor/mcp.json", "other (off)", "Restart Claude Code, Cursor."):
        assert words in agreed.out
    assert "tools listed" in agreed.out
    assert "tabane setup --undo" in agreed.out


def test_without_a_person_and_without_yes_nothing_changes(desk: Desk) -> None:
    refused = desk.run("setup")
    assert refused.status == 2
    assert "--yes" in refused.err
    assert desk.run("setup", "--dry-run").status == 0
    assert desk.json("setup", "--dry-run")["status"] == "dry_run"
    assert desk.is_as_it_was()
    assert not desk.servers.exists()


def test_only_named_assistants_are_set_up(desk: Desk) -> None:
    done = desk.run("setup", "cursor", "--yes", "--json").succeeded.json
    assert [row["client"] for row in done["assistants"]] == ["cursor"]
    assert desk.claude.read_bytes() == desk.texts[desk.claude]
    assert desk.run("setup", "emacs").status == 2


def test_an_assistant_that_cannot_be_set_up_fails_alone(desk: Desk) -> None:
    desk.write(".lmstudio/mcp.json", "{")
    done = desk.run("setup", "--yes", "--json")
    assert done.status == 1
    rows = {row["client"]: row for row in done.json["assistants"]}
    assert "mcp.json:1" in rows["lm-studio"]["problem"]
    assert rows["cursor"]["check"]["works"]


def test_servers_can_stay_in_the_files(desk: Desk) -> None:
    desk.run("setup", "--keep-servers", "--yes").succeeded  # noqa: B018
    assert set(json.loads(desk.cursor.read_text())["mcpServers"]) == {"small", "other", "tabane"}
    assert "small" in desk.read_servers()


def test_codex_gets_an_entry_for_each_server_if_asked(desk: Desk) -> None:
    path = desk.write(".codex/config.toml", f'[mcp_servers.third]\ncommand = "{OTHER["command"]}"\n')
    with path.open("a") as file:
        file.write(f"args = {json.dumps([*OTHER['args'], '--instructions', 'third'])}\n")
    before = path.read_bytes()
    done = desk.run("setup", "codex", "--per-server", "--yes", "--json").succeeded.json
    assert done["assistants"][0]["entries"] == ["tabane", "third"]
    servers = tomllib.loads(path.read_text())["mcp_servers"]
    assert servers["third"]["args"][-2:] == ["--server", "third"]
    assert desk.json("setup", "--undo")["status"] == "undone"
    assert path.read_bytes() == before


def test_a_server_whose_question_nobody_answered_stays_where_it_is(desk: Desk) -> None:
    folder = "Library/Application Support" if MAC else "config"
    vscode = {
        "inputs": [{"id": "key", "type": "promptString", "password": True}],
        "servers": {"asks": {"command": "x", "env": {"KEY": "${input:key}"}}},
    }
    path = desk.write(f"{folder}/Code/User/mcp.json", json.dumps(vscode))
    done = desk.run("setup", "vscode", "--yes", "--json").succeeded.json
    assert set(json.loads(path.read_text())["servers"]) == {"asks", "tabane"}
    assert [each["servers"] for each in done["missing"]] == [["asks"]]
    assert done["assistants"][0]["stays"][0]["name"] == "asks"


def test_servers_that_were_imported_before_move_out(desk: Desk) -> None:
    desk.run("servers", "import", "--yes", "--no-try").succeeded  # noqa: B018
    done = desk.run("setup", "--yes", "--json").succeeded.json
    assert done["servers"] == []
    assert [row["server"] for row in done["assistants"][1]["moved"]] == ["small", "other"]
    assert list(json.loads(desk.cursor.read_text())["mcpServers"]) == ["tabane"]


def test_where_no_hub_can_start_nothing_changes(desk: Desk) -> None:
    desk.environment["TABANE_CONFIG"] = str(desk.folder / "gone.toml")
    done = desk.run("setup", "cursor", "--yes", "--json")
    assert done.status != 0
    assert desk.is_as_it_was()


def test_a_machine_without_assistants_is_told_what_to_do(home: Home) -> None:
    home.environment["PATH"] = "/usr/bin:/bin"
    done = home.run("setup").succeeded
    assert "tabane install --print" in done.out.replace("\n", " ")


def test_a_program_without_a_file_is_explained(desk: Desk) -> None:
    folder = "Library/Application Support" if MAC else "config"
    (desk.folder / folder / "JetBrains").mkdir(parents=True)
    shown = desk.run("setup", "--dry-run").succeeded.out
    assert "As JSON" in shown
    assert "tabane install jetbrains --print" in shown.replace("\n", " ")
    only = desk.run("setup", "jetbrains", "--yes").succeeded.out
    assert "nothing to do" not in only


def test_undo_after_edits_says_what_it_did(desk: Desk) -> None:
    desk.run("setup", "--yes").succeeded  # noqa: B018
    value = json.loads(desk.cursor.read_text())
    value["mcpServers"]["small"] = {"command": "mine"}
    desk.cursor.write_text(json.dumps(value))
    desk.claude.unlink()
    undone = desk.run("setup", "--undo").succeeded.out
    assert "your newer entry small was kept" in undone
    assert "deleted after the setup" in undone
    assert set(json.loads(desk.cursor.read_text())["mcpServers"]) == {"small", "other"}
    assert desk.run("setup", "--undo").succeeded.out == "There is no setup to undo.\n"


def test_uninstalling_says_how_the_servers_come_back(desk: Desk) -> None:
    desk.run("setup", "cursor", "--yes").succeeded  # noqa: B018
    removed = desk.run("uninstall", "cursor").succeeded
    assert "tabane setup --undo cursor" in removed.err.replace("\n", " ")
    desk.run("setup", "--undo").succeeded  # noqa: B018
    assert json.loads(desk.cursor.read_text()) == CURSOR


def test_a_backup_of_the_home_has_no_file_of_an_assistant(desk: Desk) -> None:
    desk.run("setup", "cursor", "--yes").succeeded  # noqa: B018
    made = desk.run("backup", str(desk.folder / "home.tar"), "--with-secrets", "--json").succeeded.json
    assert made["left_out"] == []  # its backups are known, and belong to this machine alone
    desk.run("setup", "--undo").succeeded  # noqa: B018
    assert desk.is_as_it_was()


def test_completion_of_fish_is_offered_and_undone(desk: Desk) -> None:
    fish = desk.folder / "config" / "fish"
    fish.mkdir(parents=True)
    desk.environment["SHELL"] = "/usr/bin/fish"
    desk.converse("setup", "cursor", typed="y\ny\n").out  # noqa: B018
    script = fish / "completions" / "tabane.fish"
    assert "complete" in script.read_text()
    desk.run("setup", "--undo").succeeded  # noqa: B018
    assert list(fish.iterdir()) == []


@pytest.mark.heavy
def test_thirty_assistants_are_set_up_and_restored(desk: Desk) -> None:
    from tabane.servers.assistants.table import UserMachine, client_named

    machine = UserMachine(sys.platform, desk.folder, desk.environment)
    paths: dict[str, Path] = {}
    for name, text in FILES.items():
        client = client_named(name)
        assert client is not None
        file = client.user_file(machine)
        assert file is not None
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(text.encode())
        paths[name] = file.path
    done = desk.run("setup", "--yes", "--json")
    assert done.status == 0, done.err
    assert {row["client"] for row in done.json["assistants"] if row["moved"]} == set(FILES)
    assert all(row["check"]["works"] for row in done.json["assistants"])
    desk.run("setup", "--undo").succeeded  # noqa: B018
    assert {name: path.read_bytes() for name, path in paths.items()} == {
        name: text.encode() for name, text in FILES.items()
    }
    assert os.listdir(desk.tabane / "setup") == [] if (desk.tabane / "setup").exists() else True
