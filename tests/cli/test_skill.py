"""`tabane skill`: the file that assistants with a shell read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.home import Home


@pytest.mark.parametrize(("client", "folder"), [("claude-code", ".claude"), ("agents", ".agents")])
def test_a_skill_is_installed_and_removed_without_a_trace(home: Home, client: str, folder: str) -> None:
    before = sorted(home.folder.rglob("*"))
    done = home.json("skill", "install", client)
    path = home.folder / folder / "skills" / "tabane" / "SKILL.md"
    assert Path(done["file"]) == path
    assert path.read_text() == home.run("skill", "print").out
    assert home.json("skill", "install", client)["changed"] is False
    assert home.json("skill", "uninstall", client)["changed"] is True
    assert sorted(home.folder.rglob("*")) == before


def test_other_skills_stay(home: Home) -> None:
    other = home.folder / ".claude" / "skills" / "other" / "SKILL.md"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    home.run("skill", "install", "claude-code")
    home.run("skill", "uninstall", "claude-code")
    assert other.read_text() == "mine"


def test_a_skill_of_somebody_else_is_not_changed(home: Home) -> None:
    path = home.folder / ".agents" / "skills" / "tabane" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    for command in ("install", "uninstall"):
        assert home.run("skill", command, "agents").status == 1
    assert path.read_text() == "mine"


def test_a_project_has_its_own(home: Home, tmp_path: Path) -> None:
    done = home.run("skill", "install", "agents", "--project", cwd=tmp_path)
    assert done.status == 0
    assert (tmp_path / ".agents" / "skills" / "tabane" / "SKILL.md").exists()


def test_the_head_is_what_the_format_wants(home: Home) -> None:
    head = re.match(r"---\nname: (.*)\ndescription: (.*)\n---\n", home.run("skill", "print").out)
    assert head
    assert head[1] == "tabane"
    assert len(head[2]) <= 1024  # agentskills.io/specification
