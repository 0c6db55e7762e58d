"""Files of a project: which one is found, which one is refused, and what a person is shown of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tabane.errors import ConfigurationError
from tabane.servers.projects.project_folders import project_of
from tabane.servers.projects.project_servers import (
    LIMIT,
    MOST_TRUSTED,
    ProjectFile,
    ProjectTrust,
    definitions_in,
    described,
    project_files,
    read_project_file,
)

ENTRY = {"mcpServers": {"db": {"command": "db-server"}}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / ".mcp.json").write_text(json.dumps(ENTRY))
    return folder


def problem(folder: Path) -> str:
    """Why the one file of a project cannot be used."""
    [found] = project_files(str(folder))
    assert isinstance(found, ConfigurationError)
    return str(found)


def test_a_file_that_is_a_link_is_refused(project: Path) -> None:
    (project / ".mcp.json").rename(project / "real.json")
    (project / ".mcp.json").symlink_to(project / "real.json")
    assert "symbolic link" in problem(project)


def test_a_folder_on_the_way_that_is_a_link_is_refused(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / ".mcp.json").rename(project / "elsewhere" / "mcp.json")
    (project / ".cursor").symlink_to(project / "elsewhere")
    assert "symbolic link" in problem(project)


def test_a_link_that_leads_nowhere_is_refused(project: Path) -> None:
    (project / ".mcp.json").unlink()
    (project / ".mcp.json").symlink_to(project / "missing.json")
    assert "symbolic link" in problem(project)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(project: Path) -> None:
    os.chown(project / ".mcp.json", 12345, 12345)
    if os.geteuid() == 0 and os.stat(project / ".mcp.json").st_uid == 12345:
        assert "belongs to #12345" in problem(project)


def test_a_file_that_is_too_large_is_refused(project: Path) -> None:
    (project / ".mcp.json").write_text(json.dumps(ENTRY) + " " * LIMIT)
    assert str(LIMIT) in problem(project)


def test_a_pipe_is_refused_without_waiting(project: Path) -> None:
    (project / ".mcp.json").unlink()
    os.mkfifo(project / ".mcp.json")
    assert "is not a file" in problem(project)


def test_a_file_instead_of_a_folder_is_no_project(project: Path) -> None:
    (project / ".mcp.json").rename(project / ".vscode")
    assert list(project_files(str(project))) == []


@pytest.mark.parametrize("text", ["{", '{"mcpServers": []}', "[" * 100_000, "\udcff"])
def test_a_broken_file_is_an_error_that_names_it(project: Path, text: str) -> None:
    (project / ".mcp.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    file = read_project_file(str(project), ".mcp.json")
    with pytest.raises(ConfigurationError, match=r"\.mcp\.json"):
        definitions_in(file)
    with pytest.raises(ConfigurationError, match=r"\.mcp\.json"):
        ProjectTrust(project.parent / "home").add([file])


def test_the_nearest_project_above_a_folder_is_found(project: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert project_of(str(project / "src" / "deep"), home) == str(project)
    assert project_of(str(project), home) == str(project)
    inner = project / "packages" / "inner"
    (inner / ".cursor").mkdir(parents=True)
    (inner / ".cursor" / "mcp.json").write_text("{}")
    assert project_of(str(inner / "src"), home) == str(inner)


def test_the_home_folder_and_those_above_it_are_no_projects(project: Path) -> None:
    assert project_of(str(project), str(project)) is None
    assert project_of(str(project), str(project / "me")) is None
    assert project_of(str(project / "work"), str(project)) is None


def test_a_person_is_shown_what_runs_and_names_but_no_values() -> None:
    lines = described(
        {
            "command": "npx",
            "args": ["-y", "pkg with space", "--token", "abcdef123456", "${KEY}"],
            "env": {"API_KEY": "s3cret-value", "LD_PRELOAD": "evil.so"},
            "cwd": "/elsewhere",
        }
    )
    shown = "\n".join(lines)
    assert lines[0].startswith("npx -y 'pkg with space' --token")
    assert "env: API_KEY, LD_PRELOAD" in lines
    assert "cwd: /elsewhere" in lines
    assert "variables: KEY" in lines
    assert "abcdef123456" not in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize("hidden", ["\x1b[2K", "\r", "\u202e", "\n", "\x07", "\u200b"])
def test_characters_that_could_hide_a_command_are_replaced(hidden: str) -> None:
    [line] = described({"command": "rm", "args": [f"-rf{hidden}ls"]})
    assert hidden not in line
    assert line.count("\N{REPLACEMENT CHARACTER}") >= 1


@pytest.mark.parametrize("entry", [None, 3, [], {"command": 4, "args": "no"}, {"url": ["x"]}, {"env": [1]}])
def test_an_entry_of_a_wrong_type_is_described_without_an_error(entry: object) -> None:
    assert isinstance(described(entry), list)


def test_trust_is_kept_in_a_private_file_and_counts_for_these_bytes_alone(project: Path) -> None:
    trust = ProjectTrust(project.parent / "home")
    file = read_project_file(str(project), ".mcp.json")
    trust.add([file])
    [kept] = trust.files()
    assert (kept.path, kept.digest) == (file.path, file.digest)
    assert kept.servers == {"db": ("db-server",)}
    assert trust.path.stat().st_mode & 0o777 == 0o600
    (project / ".mcp.json").write_text(json.dumps(ENTRY) + "\n")
    assert read_project_file(str(project), ".mcp.json").digest != kept.digest
    assert trust.forget(str(project)) == (kept,)
    assert trust.files() == ()
    assert trust.forget(str(project)) == ()


def test_a_file_of_trust_that_others_can_read_or_that_is_broken_is_refused(project: Path) -> None:
    trust = ProjectTrust(project.parent / "home")
    trust.add([read_project_file(str(project), ".mcp.json")])
    trust.path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        trust.files()
    trust.path.chmod(0o600)
    trust.path.write_text('{"files": [{"folder": 1}]}')
    with pytest.raises(ConfigurationError, match="is not valid"):
        trust.files()


def test_the_number_of_trusted_files_is_limited(tmp_path: Path) -> None:
    trust = ProjectTrust(tmp_path / "home")
    data = json.dumps(ENTRY).encode()
    trust.add(ProjectFile(f"/p{number}", ".mcp.json", data) for number in range(MOST_TRUSTED))
    with pytest.raises(ConfigurationError, match="tabane projects forget"):
        trust.add([ProjectFile("/more", ".mcp.json", data)])
    assert len(trust.files()) == MOST_TRUSTED
