"""`tabane projects`: a person sees what would run, agrees, and the servers are there for that folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bridge import BridgeClient
from tests.harness.home import Home
from tests.harness.patience import wait_until


@pytest.fixture
def project(home: Home) -> Path:
    folder = home.folder / "work" / "shop"
    folder.mkdir(parents=True)
    write(folder, {"db": home.child("--pids", str(folder / "started.txt"))})
    return folder


def write(folder: Path, servers: dict[str, Any]) -> None:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def rows(home: Home) -> list[tuple[str, str]]:
    return [(row["folder"], row["state"]) for row in home.json("projects", "list")["results"]]


def test_a_project_is_shown_trusted_listed_and_forgotten(home: Home, project: Path) -> None:
    shown = home.run("projects", "trust", str(project), "--yes").succeeded
    assert "child.py" in shown.err
    assert "is trusted" in shown.out
    assert rows(home) == [(str(project), "trusted")]
    again = home.run("projects", "trust", "--yes", cwd=project).succeeded
    assert "child.py" not in again.err
    assert home.run("projects", "forget", cwd=project).succeeded
    assert rows(home) == []
    assert home.run("projects", "forget", str(project)).status != 0


def test_a_script_has_to_say_that_it_trusts(home: Home, project: Path) -> None:
    refused = home.run("projects", "trust", str(project))
    assert refused.status != 0
    assert "--yes" in refused.err
    assert "child.py" in refused.err
    assert rows(home) == []


def test_a_person_who_only_presses_enter_trusts_nothing(home: Home, project: Path) -> None:
    home.converse("projects", "trust", str(project), typed="\n")
    assert rows(home) == []
    home.converse("projects", "trust", str(project), typed="y\n")
    assert rows(home) == [(str(project), "trusted")]


def test_a_change_is_shown_before_it_is_trusted(home: Home, project: Path) -> None:
    write(project, {"db": {"command": "old-db", "env": {"A": "1"}}, "gone": {"command": "gone-server"}})
    home.run("projects", "trust", str(project), "--yes").succeeded  # noqa: B018
    write(
        project, {"db": {"command": "new-db", "env": {"A": "1"}}, "more": {"url": "https://example.org/mcp"}}
    )
    assert rows(home) == [(str(project), "changed")]
    shown = home.run("projects", "trust", str(project)).err
    lines = {line.strip() for line in shown.splitlines()}
    assert {"-     old-db", "+     new-db", "- gone", "+ more", "+     https://example.org/mcp"} <= lines
    write(project, {"db": {"command": "old-db", "env": {"A": "2"}}, "gone": {"command": "gone-server"}})
    assert "Something else" in home.run("projects", "trust", str(project)).err


def test_a_folder_that_was_deleted_can_be_forgotten(home: Home, project: Path) -> None:
    home.run("projects", "trust", str(project), "--yes").succeeded  # noqa: B018
    shutil.rmtree(project)
    assert rows(home) == [(str(project), "missing")]
    home.run("projects", "forget", str(project)).succeeded  # noqa: B018
    assert rows(home) == []


@pytest.mark.parametrize(("folder", "why"), [(".", "home folder"), ("missing", "no folder")])
def test_what_is_no_project_is_refused(home: Home, folder: str, why: str) -> None:
    refused = home.run("projects", "trust", folder, "--yes")
    assert refused.status != 0
    assert why in refused.err


def test_a_folder_without_servers_says_which_files_define_them(home: Home, project: Path) -> None:
    (project / ".mcp.json").unlink()
    refused = home.run("projects", "trust", str(project), "--yes")
    assert refused.status != 0
    assert ".vscode/mcp.json" in refused.err


def test_assistants_in_different_folders_share_a_hub_but_not_the_servers(home: Home, project: Path) -> None:
    inside = BridgeClient(home.environment, "--mode", "full", cwd=project)
    outside = BridgeClient(home.environment, "--mode", "full", cwd=home.folder)
    try:
        inside.initialize()
        outside.initialize()

        def names(client: BridgeClient, number: int) -> set[str]:
            listed = client.call(number, "tools/list")["result"]["tools"]
            return {tool["name"] for tool in listed if tool["name"].startswith("db__")}

        assert not names(inside, 1)
        assert not (project / "started.txt").exists()
        offered = wait_until(lambda: home.json("status")["projects_offered"], "the project is offered")
        assert [(row["folder"], row["servers"]) for row in offered] == [(str(project), 1)]
        assert "tabane projects trust" in home.run("status").out
        assert "tabane projects trust" in home.run("doctor", "--quick").out
        assert rows(home) == [(str(project), "offered")]
        home.run("projects", "trust", str(project), "--yes").succeeded  # noqa: B018
        numbers = iter(range(10, 1_000_000))
        wait_until(lambda: names(inside, next(numbers)), "the servers are there")
        assert "db__echo" in names(inside, 2)
        assert not names(outside, 2)
        pids = [int(line.split()[1]) for line in (project / "started.txt").read_text().splitlines()]
        assert len(pids) == 1
        assert home.json("status")["projects_offered"] == []
        assert "no longer configured" not in home.run("doctor", "--quick").out
        home.run("projects", "forget", str(project)).succeeded  # noqa: B018
        wait_until(lambda: not names(inside, next(numbers)), "the servers are gone")
        wait_until(lambda: not os.path.exists(f"/proc/{pids[0]}"), "the server has ended")
    finally:
        inside.close()
        outside.close()
        home.run("stop")
