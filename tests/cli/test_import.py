"""`tabane servers import` on the files that other programs keep their servers in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import Home

SECRET = "sk-0123456789abcdef"
TIME = {"command": "uvx", "args": ["mcp-server-time"]}


class Desk(Home):
    """A home with the folders of other programs; ``project`` is where the user works."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        mac = folder / "Library" / "Application Support"
        config = mac if sys.platform == "darwin" else folder / "config"
        self.project = folder / "work" / "shop"
        self.project.mkdir(parents=True)
        self.files = {
            "claude-desktop": config / "Claude" / "claude_desktop_config.json",
            "claude-code": folder / ".claude.json",
            "claude-code project": self.project / ".mcp.json",
            "cursor": folder / ".cursor" / "mcp.json",
            "cursor project": self.project / ".cursor" / "mcp.json",
            "vscode": config / "Code" / "User" / "mcp.json",
            "vscode project": self.project / ".vscode" / "mcp.json",
            "windsurf": folder / ".codeium" / "windsurf" / "mcp_config.json",
        }

    def has(self, which: str, servers: dict[str, Any] | str) -> Path:
        path = self.files[which]
        path.parent.mkdir(parents=True, exist_ok=True)
        key = "servers" if which.startswith("vscode") else "mcpServers"
        path.write_text(servers if isinstance(servers, str) else json.dumps({key: servers}))
        return path

    def imported(self, *arguments: str) -> Any:
        done = self.run("servers", "import", "--no-try", "--yes", "--json", *arguments, cwd=self.project)
        assert done.status == 0, done.err
        assert done.json["status"] == ("imported" if done.json["servers"] else "unchanged")
        return done.json


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_every_program_is_looked_at(desk: Desk) -> None:
    for number, which in enumerate(desk.files):
        desk.has(which, {f"s{number}": {"command": f"run-{number}"}})
    found = desk.imported()
    assert {server["name"] for server in found["servers"]} == {f"s{number}" for number in range(8)}
    assert desk.read_servers() == {f"s{number}": {"command": f"run-{number}"} for number in range(8)}


def test_only_the_named_programs_are_looked_at(desk: Desk) -> None:
    desk.has("cursor", {"a": {"command": "x"}})
    desk.has("windsurf", {"b": {"command": "y"}})
    desk.has("vscode", {"c": {"command": "z"}})
    desk.imported("cursor", "vscode")
    assert list(desk.read_servers()) == ["a", "c"]


def test_a_program_that_is_not_known_is_wrong_usage(desk: Desk) -> None:
    failed = desk.run("servers", "import", "emacs")
    assert failed.status == 2
    assert "claude-desktop" in failed.err


def test_servers_of_claude_codes_projects_are_found_and_run_where_they_belong(desk: Desk) -> None:
    (desk.project / "index.js").touch()
    table = {"shop": {"command": "node", "args": ["index.js"]}, "time": TIME}
    desk.has("claude-code", json.dumps({"projects": {str(desk.project): {"mcpServers": table}, "/x": {}}}))
    desk.imported()
    assert desk.read_servers() == {"shop": table["shop"] | {"cwd": str(desk.project)}, "time": TIME}


def test_the_same_server_of_two_programs_is_taken_once_with_all_of_its_environment(desk: Desk) -> None:
    desk.has("claude-desktop", {"time": {**TIME, "env": {"TZ": "UTC"}}})
    desk.has("cursor", {"clock": {**TIME, "env": {"LEVEL": "1"}}})
    found = desk.imported()
    assert [(server["name"], server["from"]) for server in found["servers"]] == [
        ("time", ["Claude Desktop", "Cursor"])
    ]
    assert desk.read_servers() == {"time": {**TIME, "env": {"TZ": "UTC", "LEVEL": "1"}}}


def test_the_same_command_under_two_accounts_is_two_servers(desk: Desk) -> None:
    desk.has("claude-desktop", {"mail": {"command": "mail", "env": {"USER_NAME": "hana"}}})
    desk.has("cursor", {"mail": {"command": "mail", "env": {"USER_NAME": "taro"}}})
    desk.imported()
    assert {name: server["env"]["USER_NAME"] for name, server in desk.read_servers().items()} == {
        "mail": "hana",
        "mail-cursor": "taro",
    }


def test_another_server_of_a_taken_name_is_named_after_its_program(desk: Desk) -> None:
    desk.write_servers({"time": {"command": "ours"}})
    desk.has("cursor", {"time": {"command": "theirs"}})
    desk.has("windsurf", {"time": {"command": "others"}, "time-windsurf": {"command": "more"}})
    desk.imported()
    assert {name: server["command"] for name, server in desk.read_servers().items()} == {
        "time": "ours",
        "time-cursor": "theirs",
        "time-windsurf": "others",
        "time-windsurf-windsurf": "more",
    }


CONTAINED = {
    "monoread": {"command": "npx", "args": ["-y", "monoread@latest", "mcp"]},
    "reader": {"command": "npx", "args": ["-y", "@yukukotani/monoread", "mcp"]},
    "bun": {"command": "bunx", "args": ["monoread", "mcp"], "env": {"NOTION_API_KEY": "k"}},
    "shell": {"command": "sh", "args": ["-c", "exec npx -y monoread@0.4.1 mcp"]},
    "installed": {"command": "/usr/local/bin/monoread", "args": ["mcp"]},
    "twilog": {"command": "node", "args": ["dist/index.js"], "cwd": "/path/to/twilog-mcp-server"},
    "posts": {
        "command": "node",
        "args": ["/src/twilog-search/mcp/dist/index.js", "--websocket", "ws://localhost:9999"],
    },
    "uv-twilog": {"command": "uv", "args": ["run", "src/twilog_mcp_server.py"]},
    "docker-twilog": {"command": "docker", "args": ["run", "-i", "--rm", "ghcr.io/7shi/twilog-mcp-server:1"]},
    "semche": {"command": "uv", "args": ["run", "python", "src/semche/mcp_server.py"]},
    "notes": {"command": "uv", "args": ["--directory", "/home/me/semche", "run", "mcp", "run", "x.py"]},
    "old": {"command": "node", "args": ["/home/pater/semche/dist/index.js"]},
    "by-env": {"command": "python", "args": ["server.py"], "env": {"SEMCHE_CHROMA_DIR": "/x/chroma_db"}},
    "search-mcp": {"command": "node", "args": ["/path/to/search-mcp/dist/index.js"]},
}
OTHERS = {
    "brave": {"command": "npx", "args": ["-y", "brave-search-mcp"]},
    "named": {"command": "npx", "args": ["-y", "@other/monoread", "mcp"]},
    "reading": {"command": "npx", "args": ["-y", "monoread-extra", "mcp"]},
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/twilog"]},
}


def test_servers_that_tabane_contains_are_named_and_left_out(desk: Desk) -> None:
    desk.has("cursor", CONTAINED | OTHERS)
    found = desk.imported()
    assert {server["name"] for server in found["servers"]} == OTHERS.keys()
    assert {part["name"] for part in found["skipped"]} == CONTAINED.keys()
    why = {part["name"]: part["why"] for part in found["skipped"]}
    assert all("built in" in why[name] for name in CONTAINED if name != "search-mcp")
    assert "tabane posts import" in why["twilog"]
    assert "import-chroma" in why["notes"]
    assert "replaces search-mcp" in why["search-mcp"]
    shown = desk.run("servers", "import", "--dry-run", cwd=desk.project, environment={"LANG": "ja_JP.UTF-8"})
    assert "monoread のツール (read_url_content) は Tabane に内蔵されています" in shown.out


def test_servers_that_tabane_contains_are_taken_by_force(desk: Desk) -> None:
    desk.has("cursor", {"monoread": CONTAINED["monoread"], "semche": {"url": "http://localhost:8000/mcp"}})
    assert desk.imported()["servers"] == []
    assert {row["name"] for row in desk.imported("--force")["servers"]} == {"monoread", "semche"}


def test_a_second_import_takes_nothing_and_leaves_the_file_alone(desk: Desk) -> None:
    desk.has("cursor", {"time": TIME, "mail": {"command": "mail"}})
    desk.imported()
    before = desk.servers.read_bytes()
    again = desk.imported()
    assert again["servers"] == []
    assert [part["name"] for part in again["skipped"]] == ["time", "mail"]
    assert desk.servers.read_bytes() == before
    assert not desk.servers.with_name("mcp-servers.json.bak").exists()


@pytest.mark.parametrize(
    "definition",
    [
        {"command": "tabane", "args": ["mcp"]},
        {"command": "/opt/bin/tabane", "args": ["mcp", "--mode", "full"]},
        {"command": "uvx", "args": ["tabane@latest", "mcp"]},
        {"command": "uvx", "args": ["--from", "tabane", "tabane", "mcp"]},
        {"command": "python3", "args": ["-m", "tabane", "mcp"]},
    ],
)
def test_tabane_itself_is_never_taken(desk: Desk, definition: dict[str, Any]) -> None:
    desk.has("cursor", {"hub": definition, "other": {"command": "tabane-notes", "args": ["mcp"]}})
    found = desk.imported()
    assert list(desk.read_servers()) == ["other"]
    assert [part["name"] for part in found["skipped"]] == ["hub"]


def test_comments_in_the_source_are_read_and_the_source_is_left_as_it_was(desk: Desk) -> None:
    text = '{ // mine\n "inputs": [], "servers": {"time": {"command": "uvx", /* ! */ "args": [],},},\n}'
    path = desk.has("vscode", text)
    desk.imported()
    assert desk.read_servers() == {"time": {"command": "uvx", "args": []}}
    assert path.read_text() == text


def test_a_broken_source_is_named_and_the_others_go_on(desk: Desk) -> None:
    broken = desk.has("cursor", '{"mcpServers": {\n "a": }}')
    desk.has("windsurf", {"b": {"command": "y"}})
    done = desk.run("servers", "import", "--no-try", "--yes")
    assert done.status == 0
    assert f"Cursor: {broken}:2:7: expected a value" in done.err
    assert list(desk.read_servers()) == ["b"]


def test_a_source_that_its_group_may_write_is_read(desk: Desk) -> None:
    desk.has("cursor", {"time": TIME}).chmod(0o664)
    desk.imported()
    assert list(desk.read_servers()) == ["time"]
    assert desk.servers.stat().st_mode & 0o777 == 0o600


def test_secrets_are_taken_and_never_shown(desk: Desk) -> None:
    server = {"command": "api", "args": ["--token", SECRET], "env": {"OTHER": SECRET}}
    desk.has("cursor", {"api": server})
    desk.has("windsurf", {"web": {"serverUrl": f"https://x/mcp?api_key={SECRET}", "headers": {"A": SECRET}}})
    for options in (["--dry-run"], ["--dry-run", "--json"], ["--yes"], ["--yes", "--json"], []):
        shown = desk.run("servers", "import", *options)
        assert SECRET not in shown.out + shown.err
    assert desk.read_servers()["api"] == {
        "command": "api",
        "args": ["--token", "${API_TOKEN}"],
        "env": {"OTHER": "${OTHER}"},
    }
    assert SECRET not in desk.servers.read_text()


def test_what_will_not_start_says_so_before_it_is_taken(desk: Desk) -> None:
    desk.has(
        "vscode",
        {
            "asks": {"command": "x", "env": {"T": "${command:x}"}},
            "web": {"type": "http", "url": "https://example.com/mcp", "oauth": {"clientId": 1}},
            "missing": {"command": "x", "env": {"T": "${NOWHERE}"}},
            "off": {"command": "y", "disabled": True},
        },
    )
    found = desk.run("servers", "import", "--dry-run", "--json").json
    why = {server["name"]: server["disabled"] for server in found["servers"]}
    assert "${command:x} is not a variable" in why["asks"]
    assert "clientId" in why["web"]
    assert "NOWHERE" in why["missing"]
    assert "disabled" in why["off"]
    said = desk.run("servers", "import", "--dry-run").out
    assert "does not start: ${command:x}" in said


def test_keys_of_other_programs_become_ours_or_are_named(desk: Desk) -> None:
    desk.has(
        "windsurf",
        {
            "a": {
                "serverUrl": "https://example.com/mcp",
                "disabledTools": ["delete_*"],
                "autoApprove": ["read"],
                "timeout": 60,
            }
        },
    )
    found = desk.imported()
    assert desk.read_servers()["a"] == {"url": "https://example.com/mcp", "deny": ["delete_*"], "timeout": 60}
    assert found["servers"][0]["left_out"] == ["autoApprove"]


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    desk.has("cursor", {"time": TIME})
    shown = desk.run("servers", "import", "--dry-run")
    assert shown.status == 0
    assert shown.rows[0][:3] == ["time", "Cursor", "uvx mcp-server-time"]
    assert not desk.servers.exists()


def test_without_a_terminal_it_wants_yes_and_changes_nothing(desk: Desk) -> None:
    desk.has("cursor", {"time": TIME})
    failed = desk.run("servers", "import", "--no-try")
    assert failed.status == 2
    assert "--yes" in failed.err
    assert not desk.servers.exists()


@pytest.mark.parametrize(("typed", "taken"), [("y\n", True), ("\n", True), ("n\n", False)])
def test_on_a_terminal_it_asks(desk: Desk, typed: str, taken: bool) -> None:
    desk.has("cursor", {"time": TIME})
    done = desk.converse("servers", "import", "--no-try", typed=typed)
    assert done.status == 0
    assert f"Add these servers to {desk.servers}?" in done.out
    assert desk.servers.exists() == taken


def test_a_file_that_is_named_is_the_only_one(desk: Desk, tmp_path: Path) -> None:
    desk.has("cursor", {"no": TIME})
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"mcpServers": {"yes": {"command": "x"}}}))
    desk.imported("--from", str(given))
    assert list(desk.read_servers()) == ["yes"]


@pytest.mark.parametrize("text", [None, "[]", '{"mcpServers": 5}'])
def test_a_named_file_that_is_none_is_an_error(desk: Desk, tmp_path: Path, text: str | None) -> None:
    given = tmp_path / "given.json"
    if text is not None:
        given.write_text(text)
    failed = desk.run("servers", "import", "--no-try", "--yes", "--from", str(given))
    assert failed.status == 1
    assert str(given) in failed.err


def test_our_file_is_backed_up_and_keeps_what_it_had(desk: Desk) -> None:
    desk.write_servers('{"note": 1, "mcpServers": {"a": {"command": "x", "odd": [1]}}}')
    before = desk.servers.read_bytes()
    desk.has("cursor", {"time": TIME})
    desk.imported()
    assert json.loads(desk.servers.read_text()) == {
        "note": 1,
        "mcpServers": {"a": {"command": "x", "odd": [1]}, "time": TIME},
    }
    assert desk.servers.with_name("mcp-servers.json.bak").read_bytes() == before


def test_where_nothing_is_found_it_says_what_to_do(desk: Desk) -> None:
    done = desk.run("servers", "import", "--no-try")
    assert done.status == 0
    assert "--from FILE" in done.out
