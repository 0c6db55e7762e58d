"""`tabane servers sandbox` on a real hub: the sandbox of a real server, shown and chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.guard.cages.cage import find_mechanisms
from tests.harness.home import Home, Outcome
from tests.harness.patience import wait_until
from tests.harness.user import User

WRITING = str(Path(__file__).parents[1] / "harness" / "servers" / "writing.py")


class NotesUser(User):
    """A user with a server that writes notes, and folders that it may and may not write to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("notes", "other"):
            (folder / name).mkdir()
        self.write_servers({"notes": {"command": sys.executable, "args": [WRITING]}})

    def note(self, folder: str) -> Outcome:
        """Let the server write a note."""
        return self.run("tools", "call", "notes__write", f"path={self.folder / folder / 'note'}")

    def is_refused(self, folder: str) -> bool:
        done = self.note(folder)
        return "refused" in done.out + done.err


@pytest.fixture
def user(tmp_path: Path) -> Iterator[NotesUser]:
    user = NotesUser(tmp_path)
    yield user
    user.run("stop")
    user.close()


@pytest.fixture
def caging() -> None:
    found = find_mechanisms(os.environ)
    if not found.suffice:
        pytest.skip("needs bubblewrap, or Landlock of Linux 6.2")


# -- shown and chosen ------------------------------------------------------------------------------


def test_a_server_without_a_sandbox_is_told_how_to_get_one(user: NotesUser) -> None:
    shown = user.run("servers", "sandbox", "notes").succeeded
    assert shown.out == (
        "notes runs without a sandbox. Add one with: tabane servers sandbox notes --preset files\n"
    )
    assert user.json("servers", "sandbox", "notes") == {"name": "notes", "sandbox": None}
    assert not any(row[0] == "sandbox" for row in user.run("servers", "show", "notes").rows)
    assert user.note("other").out.strip() == "written"


@pytest.mark.usefixtures("caging")
def test_a_preset_holds_for_the_running_server_and_is_taken_back(user: NotesUser) -> None:
    assert user.note("other").succeeded.out.strip() == "written"
    done = user.run("servers", "sandbox", "notes", "--preset", "files").succeeded
    assert done.out == "notes now runs in a sandbox (files).\n"
    assert user.read_servers()["notes"]["sandbox"] == "files"
    wait_until(lambda: user.is_refused("other"), "the server runs in its sandbox")
    shown = user.run("servers", "sandbox", "notes").succeeded
    assert shown.rows[0] == ["preset", "files"]
    assert shown.rows[1][0] == "enforced by"
    assert "seccomp" in shown.rows[1][1]
    assert shown.rows[2] == ["network", "no"]
    assert "Memory is not limited." in shown.err
    [row] = [row for row in user.run("servers", "show", "notes").rows if row[0] == "sandbox"]
    assert row[1] == f"files: {shown.rows[1][1]}"
    assert user.json("servers", "list")["results"][0]["sandboxed"] is True
    off = user.run("servers", "sandbox", "notes", "--preset", "none").succeeded
    assert off.out == "notes now runs without a sandbox.\n"
    wait_until(lambda: not user.is_refused("other"), "the server runs without a sandbox")


@pytest.mark.usefixtures("caging")
def test_json_says_what_a_sandbox_allows_and_what_it_leaves_open(user: NotesUser) -> None:
    folder = str(user.folder / "notes")
    server = {"command": sys.executable, "args": [WRITING]}
    user.write_servers({"notes": server | {"sandbox": {"write": [folder], "memory": "1G", "cpu": 60}}})
    found = user.json("servers", "sandbox", "notes")["sandbox"]
    assert (found["preset"], found["write"], found["network"]) == ("files", [folder], False)
    assert (found["memory"], found["cpu"], found["problem"]) == (1 << 30, 60, None)
    assert "Memory is not limited." not in found["uncovered"]
    assert user.is_refused("other")
    assert not user.is_refused("notes")


def test_a_sandbox_that_cannot_be_had_says_why_wherever_the_server_is_shown(user: NotesUser) -> None:
    server = {"command": sys.executable, "args": [WRITING], "sandbox": {"write": ["/nonexistent/folder"]}}
    user.write_servers({"notes": server})
    why = "/nonexistent/folder"
    assert why in user.run("servers", "sandbox", "notes").succeeded.err
    [row] = [row for row in user.run("servers", "show", "notes").rows if row[0] == "sandbox"]
    assert why in row[1]
    started = user.run("servers", "start", "notes")
    assert started.status != 0
    assert why in started.err
    examined = user.run("doctor", "--quick", "--json")
    assert examined.status == 1
    [fault] = [each for each in examined.json["findings"] if each["title"].startswith("notes does not start")]
    assert fault["level"] == "fault"
    assert why in fault["title"]
    assert str(user.servers) in fault["mend"]


@pytest.mark.usefixtures("caging")
def test_doctor_names_what_enforces_each_sandbox_and_what_stays_open(user: NotesUser) -> None:
    server = {"command": sys.executable, "args": [WRITING]}
    user.write_servers({"notes": server | {"sandbox": "network"}, "free": server})
    lines = user.run("doctor", "--quick").succeeded.out.splitlines()
    section = lines[lines.index("Sandboxes") + 1 : lines.index("Semantic search") - 1]
    assert section[0].startswith("✓ notes runs in a sandbox: ")
    assert "· notes: Memory is not limited." in section
    assert not any("free" in line for line in section)
    user.write_servers({"free": server})
    assert "Sandboxes" not in user.run("doctor", "--quick").out.splitlines()


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["notes", "--learn"], "--learn"),
        (["notes", "--preset", "all"], "'files', 'network', 'none'"),
        (["ntoes"], "Unknown server: ntoes"),
        (["ntoes", "--preset", "files"], "Did you mean notes?"),
    ],
)
def test_wrong_arguments_are_refused(user: Home, arguments: list[str], words: str) -> None:
    before: Any = user.read_servers()
    failed = user.run("servers", "sandbox", *arguments)
    assert failed.status == 2
    assert words in failed.err
    assert user.read_servers() == before


# -- links -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("caging")
def test_a_folder_that_became_a_link_is_refused_until_the_person_accepts_it(user: NotesUser) -> None:
    listed = user.folder / "listed"
    listed.mkdir()
    server = {"command": sys.executable, "args": [WRITING], "sandbox": {"write": [str(listed)]}}
    user.write_servers({"notes": server})
    assert not user.is_refused("listed")
    assert user.run("stop").succeeded
    (listed / "note").unlink()
    listed.rmdir()
    listed.symlink_to(user.folder / "other")
    why = "a link was put there"
    assert why in user.note("listed").err
    assert why in user.run("servers", "sandbox", "notes").succeeded.err
    assert why in user.run("doctor").out
    assert not (user.folder / "other" / "note").exists()
    assert why not in user.run("servers", "sandbox", "notes", "--accept-links").succeeded.err
    user.run("servers", "restart", "notes")
    assert not user.is_refused("listed")
    assert (user.folder / "other" / "note").exists()
