"""The table of clients: complete, sourced, as the documentation has it, with paths for each platform."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabane.servers.assistants.installation import present
from tabane.servers.assistants.table import CLIENTS, Client, UserMachine, client_named
from tests.conftest import ROOT
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

ASKED_FOR = [
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "windsurf",
    "codex",
    "gemini-cli",
    "antigravity",
    "zed",
    "cline",
    "roo-code",
    "continue",
    "goose",
    "lm-studio",
    "opencode",
    "kiro",
    "amp",
    "copilot-cli",
    "jetbrains",
    "warp",
]
HOME = Path("/home/hana")


def test_the_clients_that_people_use_are_known_under_their_names() -> None:
    names = [client.name for client in CLIENTS]
    assert len(names) == len(set(names)) >= 20
    assert [name for name in ASKED_FOR if name not in names] == []
    assert len({client.title for client in CLIENTS}) == len(names)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_row_says_where_it_is_from_and_why_its_mode(client: Client) -> None:
    assert client.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", client.looked_up)
    assert client.why.endswith(".")
    assert (client.user is None) == (client.by_hand is not None)


def test_hosts_that_search_by_themselves_get_all_tools() -> None:
    full = {client.name for client in CLIENTS if client.mode == "full"}
    assert full == {"claude-code", "codex", "cursor", "vscode", "vscode-insiders"}


@pytest.mark.parametrize(("name", "platform", "path"), CASES["paths_follow_the_platform"])
def test_paths_follow_the_platform(name: str, platform: str, path: str) -> None:
    assert path_of(name, UserMachine(platform, HOME)) == HOME / path


@pytest.mark.parametrize(("name", "variable", "path"), CASES["a_variable_moves_the_file"])
def test_a_variable_moves_the_file(name: str, variable: str, path: str) -> None:
    assert path_of(name, UserMachine("linux", HOME, {variable: "/else"})) == Path(path)
    assert path_of(name, UserMachine("linux", HOME, {variable: "relative"})).is_relative_to(HOME)


def test_the_file_that_exists_is_used_before_the_default(tmp_path: Path) -> None:
    machine = UserMachine("linux", tmp_path)
    folder = tmp_path / ".config" / "opencode"
    assert path_of("opencode", machine) == folder / "opencode.json"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}")
    assert path_of("opencode", machine) == folder / "opencode.jsonc"


def test_a_client_is_found_by_its_folder_a_trace_or_its_program(tmp_path: Path) -> None:
    machine = UserMachine("linux", tmp_path, {"PATH": str(tmp_path / "bin")})
    found = {client.name for client in CLIENTS if present(client, machine)}
    assert found == set()
    (tmp_path / ".codeium" / "windsurf").mkdir(parents=True)
    (tmp_path / ".continue").mkdir()
    (tmp_path / ".gemini" / "config").mkdir(parents=True)
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = {client.name for client in CLIENTS if present(client, machine)}
    assert found == {"windsurf", "continue", "antigravity", "codex"}, "Gemini CLI shares Antigravity's folder"


def test_the_documentation_has_the_same_table() -> None:
    for page in ("assistants.md", "assistants.ja.md"):
        path = ROOT / "docs" / page
        if not path.exists():
            continue
        rows = {
            cells[1].strip("` "): [cell.strip() for cell in cells[2:-1]]
            for cells in (line.split("|") for line in path.read_text(encoding="utf-8").splitlines())
            if len(cells) == 8 and cells[1].strip().startswith("`")
        }
        assert rows == {client.name: described(client) for client in CLIENTS}, page


def described(client: Client) -> list[str]:
    """The row of a client in docs/assistants.md."""
    user = client.user_file(UserMachine("linux", Path("/~")))
    shown = f"`{user.path}`".replace("/~/", "~/") if user else "–"
    key = f"`{'.'.join(user.place.key)}`" if user else "–"
    project = f"`{client.project.paths[0]}`" if client.project else "–"
    return [client.title, shown, key, project, client.mode]


def path_of(name: str, machine: UserMachine) -> Path:
    client = client_named(name)
    assert client is not None
    file = client.user_file(machine)
    assert file is not None
    return file.path
