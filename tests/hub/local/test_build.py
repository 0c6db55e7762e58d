"""Builds: version, commit, and which build replaces the hub of another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.build import COMMIT_FILE, commit_of, this_build
from tabane.hub.local.handshake import Hello, Welcome, supersedes
from tests.conftest import ROOT, absent

ONE, OTHER = "a" * 40, "0123456789" * 4


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "src" / "tabane"
    folder.mkdir(parents=True)
    return folder


def repository(root: Path, head: str) -> Path:
    git = root / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text(head + "\n")
    return git


def test_a_checkout_on_a_branch_has_the_commit_of_the_branch(code: Path) -> None:
    git = repository(code.parents[1], "ref: refs/heads/main")
    assert commit_of(str(code)) == ""
    (git / "packed-refs").write_text(f"# pack-refs\n{OTHER} refs/heads/mainly\n{ONE} refs/heads/main\n")
    assert commit_of(str(code)) == ONE
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text(OTHER + "\n")
    assert commit_of(str(code)) == OTHER


def test_a_checkout_without_a_branch_has_the_commit_of_its_head(code: Path) -> None:
    repository(code.parents[1], ONE)
    assert commit_of(str(code)) == ONE


def test_a_worktree_has_its_own_head_and_the_references_of_the_repository(code: Path, tmp_path: Path) -> None:
    git = repository(tmp_path / "main", ONE)
    own = git / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/side\n")
    (own / "commondir").write_text("../..\n")
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "side").write_text(OTHER)
    (code.parents[1] / ".git").write_text(f"gitdir: {own}\n")
    assert commit_of(str(code)) == OTHER


def test_an_installed_package_has_the_commit_that_was_packed(tmp_path: Path) -> None:
    package = tmp_path / "project" / "site-packages" / "tabane"
    package.mkdir(parents=True)
    repository(package.parents[1], OTHER)  # somebody else's
    assert commit_of(str(package)) == ""
    (package / COMMIT_FILE).write_text(ONE + "\n")
    assert commit_of(str(package)) == ONE


@given(head=st.binary(max_size=100))
def test_a_head_that_says_anything_is_no_error(tmp_path_factory: pytest.TempPathFactory, head: bytes) -> None:
    root = tmp_path_factory.mktemp("any")
    repository(root, "")
    (root / ".git" / "HEAD").write_bytes(head)
    (root / "src" / "tabane").mkdir(parents=True)
    assert isinstance(commit_of(str(root / "src" / "tabane")), str)


def test_the_commit_is_the_one_that_git_names() -> None:
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    if done.returncode:
        absent("the history of git")
    build = this_build()
    assert done.stdout.strip() == build.commit
    version = subprocess.run(
        [sys.executable, "-m", "tabane", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert version.stdout.split()[-1] == build.name == f"{build.version}+g{build.commit[:7]}"


@pytest.mark.parametrize(
    ("mine", "hub", "on_disk", "replaced"),
    [
        (("0.3.0+ga", "/a"), ("0.2.0+gb", "/b"), "0.3.0+ga", True),
        (("0.3.0", ""), ("0.2.0", ""), "", True),
        (("0.2.0+ga", "/a"), ("0.3.0+gb", "/a"), "0.2.0+ga", False),
        (("0.2.0+ga", "/a"), ("0.2.0+gb", "/a"), "0.2.0+ga", True),
        (("0.2.0+gb", "/a"), ("0.2.0+ga", "/a"), "0.2.0+ga", False),
        (("0.2.0+ga", "/a"), ("0.2.0+gb", "/b"), "0.2.0+ga", False),
        (("0.2.0+ga", "/a"), ("0.2.0+ga", "/a"), "0.2.0+ga", False),
        (("0.2.0+ga", "/a"), ("0.2.0", "/a"), "0.2.0+ga", False),
        (("0.2.0", "/a"), ("0.2.0+ga", "/a"), "0.2.0", False),
        (("0.2.0+ga", ""), ("0.2.0+gb", ""), "0.2.0+ga", False),
    ],
)
def test_a_hub_makes_way_for_a_later_release_and_for_the_code_its_checkout_has_now(
    mine: tuple[str, str], hub: tuple[str, str], on_disk: str, replaced: bool
) -> None:
    hello, welcome = Hello(mine[0], "mcp", code=mine[1]), Welcome(hub[0], 1, code=hub[1])
    assert supersedes(hello, welcome, on_disk) is replaced


_BUILDS = st.tuples(
    st.sampled_from(["0.1.0", "0.2.0+ga", "0.2.0+gb", "0.3.0+ga"]), st.sampled_from(["/a", "/b"])
)


@given(one=_BUILDS, other=_BUILDS, disk=st.dictionaries(st.sampled_from(["/a", "/b"]), st.sampled_from("ab")))
def test_two_builds_never_replace_each_other(
    one: tuple[str, str], other: tuple[str, str], disk: dict[str, str]
) -> None:
    def replaces(mine: tuple[str, str], hub: tuple[str, str]) -> bool:
        on_disk = f"0.2.0+g{disk.get(mine[1], '')}"
        return supersedes(Hello(mine[0], "mcp", code=mine[1]), Welcome(hub[0], 1, code=hub[1]), on_disk)

    assert not (replaces(one, other) and replaces(other, one))
