"""Cages that cannot be had: the server is not started, and the reason is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane.guard.cages.cage import CageMechanisms, CageUnavailable, find_bubblewrap, uncovered
from tabane.guard.cages.cage import sandbox_exec_profile as macos_profile
from tabane.guard.cages.cages import Cages
from tabane.guard.cages.limits import ControlGroups
from tabane.messages import say
from tabane.servers.server import Server
from tabane.servers.server_keys import sandbox

NO_BUBBLEWRAP = say("bubblewrap (bwrap) is not installed")


def build(folder: Path, value: Any, mechanisms: CageMechanisms) -> Any:
    profile = sandbox(value)
    assert profile is not None
    groups = ControlGroups(folder / "cgroup", folder / "none")
    cages = Cages(folder / "home", [], {"HOME": str(folder), "PATH": "/bin"}, [], mechanisms, groups)
    return cages.build(Server(name="a", command="/bin/true", sandbox=profile), profile, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("mechanisms", "value", "reason"),
    [
        (CageMechanisms(machine="x86_64", no_bubblewrap=NO_BUBBLEWRAP), "files", "Landlock is missing"),
        (
            CageMechanisms(landlock=2, machine="x86_64", no_bubblewrap=NO_BUBBLEWRAP),
            "files",
            r"version 2, 3 is needed\), and bubblewrap \(bwrap\) is not installed",
        ),
        (CageMechanisms(landlock=7), "files", "its processor is not supported"),
        (CageMechanisms(), "network", "this system offers none"),
        (CageMechanisms(sandbox_exec="/x"), {"network": ["a.example"]}, "needs Linux"),
        (
            CageMechanisms(landlock=7, machine="x86_64", no_bubblewrap=NO_BUBBLEWRAP),
            {"unixSockets": True},
            "bubblewrap is needed",
        ),
        (
            CageMechanisms(landlock=7, machine="x86_64", root=True),
            {"processes": 5},
            "no control group can be created",
        ),
        (CageMechanisms(landlock=7, machine="x86_64"), {"write": ["/nonexistent"]}, "does not exist"),
    ],
)
def test_a_cage_that_cannot_be_had_is_refused(
    mechanisms: CageMechanisms, value: Any, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(CageUnavailable, match=reason):
        build(tmp_path, value, mechanisms)


def test_the_files_of_the_hub_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for key in ("write", "read"):
        with pytest.raises(CageUnavailable, match="Tabane's own files"):
            build(tmp_path, {key: [str(tmp_path / "home")]}, CageMechanisms(landlock=7, machine="x86_64"))


def test_what_stays_open_is_said() -> None:
    profile = sandbox({"network": True})
    assert profile is not None
    weak = CageMechanisms(landlock=5, machine="x86_64", no_bubblewrap=NO_BUBBLEWRAP)
    texts = [each.render("en") for each in uncovered(profile, weak)]
    assert any("send signals" in text for text in texts)
    assert any("command lines of other processes" in text for text in texts)
    assert any("every address" in text for text in texts)
    strong = CageMechanisms(landlock=7, machine="x86_64", bubblewrap="/usr/bin/bwrap")
    full = sandbox({"memory": "1G"})
    assert full is not None
    assert uncovered(full, strong) == []


def test_a_bubblewrap_that_fails_is_not_used(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    program, why = find_bubblewrap({"PATH": f"{tmp_path}:/bin"})
    assert program == ""
    assert "No permissions to create new namespace" in str(why)


def test_a_profile_of_macos_denies_before_it_allows() -> None:
    text = macos_profile(['/a "b"'], None, ["/home/u/.ssh"], network=False)
    lines = text.splitlines()
    assert lines[0] == "(version 1)"
    assert lines.index("(deny file-write*)") < lines.index('(allow file-write* (subpath "/a \\"b\\""))')
    assert '(deny file-read* file-write* (subpath "/home/u/.ssh"))' in lines
    assert lines[-1] == "(deny network*)"
    assert "network" not in macos_profile([], None, [], network=True)


def test_on_macos_what_is_hidden_in_a_writable_folder_stays_hidden() -> None:
    home, ssh, own = "/Users/u", "/Users/u/.ssh", "/Users/u/tabane"
    lines = macos_profile([home, f"{own}/cages/a"], None, [ssh, own], network=True).splitlines()
    deciding = [line for line in lines if line.startswith(("(allow file-read*", "(deny file-read*"))]
    assert deciding == [
        f'(deny file-read* file-write* (subpath "{ssh}"))',
        f'(deny file-read* file-write* (subpath "{own}"))',
        f'(allow file-read* file-write* (subpath "{own}/cages/a"))',
    ]
