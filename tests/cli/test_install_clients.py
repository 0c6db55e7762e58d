"""`tabane install` for every client: lists, offers, projects, formats, and the doctor's check of entries."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tabane.servers.assistants.formats import at_path, definition, format_of, mode_of
from tabane.servers.assistants.table import CLIENTS, client_named
from tabane.servers.foreign_keys import our_definition
from tests.harness.home import Home

WRITTEN = [client.name for client in CLIENTS if client.user is not None]
SHARED = [client.name for client in CLIENTS if client.project is not None]


@pytest.fixture
def project(home: Home) -> Path:
    folder = home.folder / "work" / "shop"
    folder.mkdir(parents=True)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def entry_in(path: Path, name: str, *, shared: bool = False) -> dict[str, Any]:
    """The definition of Tabane in a client's file."""
    client = client_named(name)
    assert client is not None
    place = client.project if shared else client.user
    assert place is not None
    written = at_path(format_of(place.form).value(path.read_text()), (*place.key, "tabane"))
    found = definition(place.shape, written)
    assert found is not None
    return our_definition(found.items()).values


def test_every_client_is_set_up_in_an_empty_home_and_removed_again(home: Home) -> None:
    before = snapshot(home.folder)
    for name in WRITTEN:
        done = home.run("install", name, "--force", "--json").succeeded.json
        entry = entry_in(Path(done["path"]), name)
        assert os.path.isabs(entry["command"])
        client = client_named(name)
        assert client is not None
        assert mode_of(entry) == client.mode
    listed = {row["name"]: row for row in home.json("install", "--list")}
    assert [name for name in WRITTEN if not listed[name]["installed"]] == []
    removed = home.json("uninstall", "--all")
    assert {(row["client"], row["status"]) for row in removed} == {(name, "removed") for name in WRITTEN}
    left = {path for path in snapshot(home.folder) if not path.startswith(str(home.tabane))}
    assert left == {path for path in before if not path.startswith(str(home.tabane))}


def test_all_means_those_that_are_found(home: Home) -> None:
    (home.folder / ".cursor").mkdir()
    (home.folder / ".codex").mkdir()
    broken = home.folder / ".lmstudio" / "mcp.json"
    broken.parent.mkdir()
    broken.write_text("{")
    done = home.run("install", "--all", "--json")
    assert done.status == 1, "one of them failed"
    status = {row["client"]: row["status"] for row in done.json}
    assert (status["cursor"], status["codex"], status["lm-studio"]) == ("installed", "installed", "failed")
    assert broken.read_text() == "{"
    assert not (home.folder / ".factory").exists()


def test_without_a_name_it_says_what_was_found_and_names_setup(home: Home) -> None:
    (home.folder / ".codex").mkdir()
    refused = home.run("install")
    assert (refused.status, refused.out) == (2, "")
    said = refused.err.replace("\n", " ")
    assert "Found here: codex" in said
    assert "tabane setup" in said
    assert "--all" in said
    assert not (home.folder / ".codex" / "config.toml").exists()


@pytest.mark.parametrize("name", SHARED)
def test_a_projects_file_names_nothing_of_this_machine(home: Home, project: Path, name: str) -> None:
    done = home.run("install", name, "--project", "--json", cwd=project).succeeded.json
    path = Path(done["path"])
    assert path.is_relative_to(project)
    assert done["scope"] == "project"
    entry = entry_in(path, name, shared=True)
    assert entry["command"] == "tabane"
    assert str(home.folder) not in path.read_text()
    assert home.run("uninstall", name, "--project", str(project)).succeeded
    assert list(project.iterdir()) == []


def test_a_name_after_project_is_a_client(home: Home, project: Path) -> None:
    assert home.run("install", "--project", "cursor", cwd=project).succeeded
    assert (project / ".cursor" / "mcp.json").exists()


def test_where_a_project_cannot_be_written_it_says_why(home: Home, project: Path) -> None:
    none = home.run("install", "goose", "--project", cwd=project)
    assert (none.status, none.out) == (1, "")
    assert "project" in none.err
    assert home.run("install", "cursor", "--project", str(project / "gone")).status == 2
    own = home.run("install", "cursor", "--project", str(home.folder))
    assert own.status == 2
    assert "your home" in own.err


def test_a_client_without_a_file_is_named_as_such(home: Home) -> None:
    refused = home.run("install", "jetbrains", "--force")
    assert (refused.status, refused.out) == (1, "")
    assert "As JSON" in refused.err
    printed = home.run("install", "jetbrains", "--print").succeeded
    assert printed.json["mcpServers"]["tabane"]["args"][:1] == ["mcp"]
    assert "As JSON" in printed.err


@pytest.mark.parametrize("name", [client.name for client in CLIENTS])
def test_the_entry_is_printed_in_the_clients_format(home: Home, name: str) -> None:
    client = client_named(name)
    assert client is not None
    printed = home.run("install", name, "--print").succeeded.out
    form = client.user.form if client.user else "json"
    readers: dict[str, Any] = {"toml": tomllib.loads, "yaml": yaml.safe_load}
    value = readers.get(form, json.loads)(printed)
    assert at_path(value, (*(client.user.key if client.user else ("mcpServers",)), "tabane"))


def test_servers_of_each_format_are_imported(home: Home, project: Path) -> None:
    codex = '[mcp_servers.time]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n'
    dev = "extensions:\n  dev: {type: builtin, name: dev}\n"
    git = "  git: {type: stdio, cmd: uvx, args: [mcp-server-git], envs: {A: b}, enabled: true}\n"
    zed = '{"theme": "x", "context_servers": {"z": {"command": "zz"}, "ext": {"settings": {}}},}'
    files = {
        ".codex/config.toml": codex,
        "config/goose/config.yaml": dev + git,
        "config/opencode/opencode.jsonc": '{// mine\n"mcp": {"oc": {"command": ["npx", "oc"]}}}',
        "config/zed/settings.json": zed,
        ".continue/config.yaml": "name: a\nmcpServers:\n- name: cont\n  command: cc\n- uses: hub/x\n",
        "work/shop/.amp/settings.json": '{"amp.mcpServers": {"am": {"command": "aa"}}}',
    }
    for path, text in files.items():
        (home.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (home.folder / path).write_text(text)
    found = home.run("servers", "import", "--no-try", "--yes", "--json", cwd=project).succeeded.json
    assert {row["name"]: row["from"] for row in found["servers"]} == {
        "time": ["Codex"],
        "git": ["goose"],
        "oc": ["opencode"],
        "z": ["Zed"],
        "cont": ["Continue"],
        "am": ["Amp"],
    }
    servers = home.read_servers()
    assert servers["git"] == {
        "command": "uvx",
        "args": ["mcp-server-git"],
        "env": {"A": "b"},
        "enabled": True,
    }
    assert servers["oc"] == {"command": "npx", "args": ["oc"]}


@pytest.mark.parametrize("name", ["config.toml", "config.yaml", "settings.json"])
def test_a_named_file_of_any_program_is_read(home: Home, name: str) -> None:
    texts = {
        "config.toml": '[mcp_servers.a]\ncommand = "x"\n',
        "config.yaml": "extensions:\n  a: {type: stdio, cmd: x}\n",
        "settings.json": '{"context_servers": {"a": {"command": "x"}}}',
    }
    (home.folder / name).write_text(texts[name])
    home.run("servers", "import", "--no-try", "--yes", "--from", name).succeeded  # noqa: B018
    assert home.read_servers()["a"]["command"] == "x"


def test_aliases_that_stand_for_billions_are_refused(home: Home) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = home.folder / "config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))
    assert home.run("install", "goose").status == 1
    assert "goose" in home.run("servers", "import", "--dry-run").err


def test_the_doctor_names_entries_in_the_wrong_mode(home: Home, project: Path) -> None:
    (home.folder / ".cursor").mkdir()
    (home.folder / ".codeium" / "windsurf").mkdir(parents=True)
    home.run("install", "cursor", "--mode", "search").succeeded  # noqa: B018
    home.run("install", "windsurf", "--mode", "full").succeeded  # noqa: B018
    home.run("install", "kiro", "--project", cwd=project).succeeded  # noqa: B018
    done = home.run("doctor", "--quick", "--json", cwd=project)
    titles = {finding["title"]: finding for finding in done.json["findings"]}
    twice = next(finding for title, finding in titles.items() if "Cursor searches tools itself" in title)
    assert (twice["level"], twice["mend"]) == ("warning", "Set it up again: tabane install cursor")
    assert any("Windsurf may load all tools" in title for title in titles)
    assert not any("Kiro starts Tabane as tabane, which it may not find" in title for title in titles)
