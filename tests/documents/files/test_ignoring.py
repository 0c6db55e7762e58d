"""Files excluded by .gitignore, compared with git."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.documents.files.file_tree import FileTree, IgnoreRules, lines_of
from tests.harness.patience import assert_in_proportion

NAMES = ("a", "b", "foo", "x.log", "keep", "d.md", "b]", "a b", "-z")
WRITTEN = r"""
a b foo *.log keep /a a/ !a !keep/ foo/* !foo/a a/** **/b a/**/b /* !/foo/ f* ? [ab] !*.md /foo/a
keep/ * !b a/b [!a] \a !x.log ** **/ a*/b []] b[]] [ a\ #a \#a \!a [a-f]oo [^a] foo/**/*.md
*** **/a/** a** *o* / // ! [a-]z [-]z **/** a//b b\] *b* **foo /** /**/a **/a/**/b
?b *[.]log b[/]a [--a]z **/*.md !**/*.md x.*g x*.l*g *a*b /*/ !*/ /a/*/b a/**/keep/** ?*b* foo/**
"""
PATTERNS = (
    *WRITTEN.split(),
    "a\\ ", "a\\ b", "a  ", "a b", "", "  ", "*.log\r",
)  # fmt: skip

lines = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=5)
shape = st.recursive(
    st.none(), lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=4), max_leaves=12
)


def made(top: Path, inside: object, rules: st.DataObject, depth: int = 0) -> None:
    """Folders as dictionaries say, with a .gitignore in some of them."""
    assert isinstance(inside, dict)
    if rules.draw(st.booleans()) or depth == 0:
        written = rules.draw(lines)
        (top / ".gitignore").write_text("\n".join(written) + "\n", newline="")
    for name, below in inside.items():
        if isinstance(below, dict):
            (top / name).mkdir()
            made(top / name, below, rules, depth + 1)
        else:
            (top / name).touch()


def not_ignored(top: Path) -> set[str]:
    """The files that git would add."""
    done = subprocess.run(
        ["git", "-C", top, "ls-files", "-z", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
    )  # fmt: skip
    return {name for name in done.stdout.split("\0") if name and not name.endswith(".gitignore")}


def found(top: Path, *ignore: str) -> set[str]:
    tree = FileTree(str(top), ignore)
    tree.look()
    return {name for name, _ in tree.files()}


@pytest.mark.heavy("many files")
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), shape, min_size=2, max_size=5), st.data())
def test_what_git_ignores_is_left_out_and_nothing_else(inside: object, rules: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        subprocess.run(["git", "init", "-q", top], check=True)
        made(top, inside, rules)
        assert found(top) == not_ignored(top)
        for below in inside if isinstance(inside, dict) else ():
            # A folder within a repository is under the rules above it, too.
            if (top / below).is_dir() and any(name.startswith(f"{below}/") for name in found(top)):
                inner = {n.removeprefix(f"{below}/") for n in not_ignored(top) if n.startswith(f"{below}/")}
                assert found(top / below) == inner


def test_the_repositorys_own_exclusions_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("secret.md\n/sub/inner.md\n")
    (tmp_path / "sub").mkdir()
    for name in ("secret.md", "open.md", "sub/inner.md", "sub/secret.md", "sub/b.md"):
        (tmp_path / name).touch()
    assert found(tmp_path) == not_ignored(tmp_path) == {"open.md", "sub/b.md"}
    assert found(tmp_path / "sub") == {"b.md"}


def test_a_byte_order_mark_is_no_part_of_the_first_pattern() -> None:
    assert IgnoreRules(lines_of("\ufeffa.md\r\nb.md\r\n")).decide(("a.md",), False) is True


def test_globs_of_ones_own_go_before_everything(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("a.log", "b.md", "c.md", ".hidden.md"):
        (tmp_path / name).touch()
    assert found(tmp_path, "c.*", "!a.log", "!.hidden.md") == {"a.log", "b.md", ".hidden.md"}


HOSTILE = (
    "*a" * 40 + "b", "**/a/" * 55 + "b", "[a-z]*" * 45 + "!", "*" * 290 + "b", "?*" * 99 + "b",
    "a/**/" * 50 + "*a*a*b", "**/*a*a*/" * 30 + "b", "**/" + "*/" * 90 + "*a*b",
)  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_long(pattern: str) -> None:
    rules = IgnoreRules([pattern])

    def decided(size: int) -> None:
        for _ in range(50):
            assert rules.decide(("a",) * 99 + ("a" * size,), False) is None

    assert_in_proportion(decided, 100)
