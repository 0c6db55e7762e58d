"""Commands that download a package: what is recognized, and what is left alone."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.upstreams.launching import package_run as tables
from tabane.upstreams.launching.package_run import package_run
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

# command line, kind, package, program of the package, its arguments
RUNS = CASES["runs"]
OTHERS = CASES["others"]


@pytest.mark.parametrize(("line", "runner", "package", "executable", "arguments"), RUNS)
def test_a_command_that_downloads_is_recognized(
    line: str, runner: str, package: str, executable: str, arguments: list[str]
) -> None:
    command, *args = shlex.split(line)
    run = package_run(command, args)
    assert run is not None
    assert (run.runner, run.program) == (runner, command)
    assert (run.package, run.executable, list(run.arguments)) == (package, executable, arguments)
    assert tuple(args[: len(run.subcommand) + len(run.options)]) == (*run.subcommand, *run.options)


@pytest.mark.parametrize("line", OTHERS)
def test_other_commands_are_left_alone(line: str) -> None:
    command, *args = shlex.split(line) or [""]
    assert package_run(command, args) is None


def test_options_are_read_by_name() -> None:
    run = package_run("uvx", ["--index=a", "-p", "3.12", "--index", "b", "-q", "foo", "--index", "c"])
    assert run is not None
    assert (run.option("index"), run.option("python", "p"), run.option("q", "quiet")) == ("b", "3.12", "")
    assert run.option("from") is None


WORDS = st.sampled_from(
    ["run", "exec", "x", "tool", "container", "--", "-", "-y", "-p", "-it", "-e", "--from", "--package=", ""]
)
PROGRAMS = st.sampled_from(
    ["npx", "npm", "uvx", "uv", "pipx", "bunx", "bun", "docker", "podman", "deno", "/x/NPX.CMD", ""]
)


@given(PROGRAMS | st.text(), st.lists(WORDS | st.text(max_size=12), max_size=8))
def test_any_command_is_recognized_or_left_alone(command: str, args: list[str]) -> None:
    run = package_run(command, args)
    if run is not None:
        assert run.package.strip()
        assert run.option("no such option") is None
        assert [*run.subcommand, *run.options] == args[: len(run.subcommand) + len(run.options)]
        assert len(run.arguments) < len(args)


@pytest.mark.parametrize(
    "table", [tables.NPM, tables.UV, tables.PIPX, tables.BUN, tables.DENO, tables.CONTAINER]
)
def test_no_option_both_takes_a_value_and_takes_none(table: tables.OptionTable) -> None:
    assert not table.values & table.switches
