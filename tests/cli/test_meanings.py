"""What words of other tools and other orders mean. The tables agree with the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tabane.cli import main as command_line
from tabane.cli.main import COMMANDS, GROUPS, main
from tabane.cli.meanings import ADVICE, EXTRA, OPTIONS, RUN, claude_words, server_mistake
from tests.harness.cases import cases_beside
from tests.harness.home import Home

CASES = cases_beside(__file__)
EXPECTED = {name for _, names in GROUPS for name in names.split()}
"""The commands, also those that other changes add."""


def meant(line: str) -> str:
    """Return the words that the top level makes of a line."""
    with main.make_context("tabane", ["status"]) as ctx:
        words = command_line._meant(ctx, shlex.split(line))
    group = main.get_command(click.Context(main), words[0])
    if isinstance(group, click.Group) and len(words) > 1:
        name, _, rest = group.resolve_command(click.Context(group, info_name=words[0], parent=ctx), words[1:])
        words = [words[0], name or "", *rest]
    return shlex.join(words)


@pytest.mark.parametrize(("typed", "run"), CASES["words_are_run_as_the_command_that_they_mean"])
def test_words_are_run_as_the_command_that_they_mean(typed: str, run: str) -> None:
    assert meant(typed) == run


def is_command(words: list[str]) -> bool:
    """Return whether words begin with a command, and inside of a group with one of its commands."""
    if words[0] not in COMMANDS:
        return words[0] in EXPECTED
    group = main.get_command(click.Context(main), words[0])
    if not isinstance(group, click.Group) or len(words) == 1 or not words[1].islower():
        return True
    return group.get_command(click.Context(group), words[1]) is not None


def test_each_word_leads_to_a_command_and_hides_none() -> None:
    for typed, run in RUN.items():
        words = run.split()
        assert not words or words[0].startswith("-") or is_command(words) or run in RUN, typed
    for typed in (*RUN, *ADVICE):
        words = typed.split()
        assert typed not in COMMANDS
        assert len(words) == 1 or words[0] not in COMMANDS or words[0] == "mcp" or not is_command(words), (
            typed
        )
    for path in EXTRA:
        assert is_command(path.split()), path


def test_advice_names_commands_that_exist() -> None:
    for message in (*ADVICE.values(), *EXTRA.values(), *OPTIONS.values()):
        for line in re.findall(r"tabane ((?:[a-z][a-z-]*)(?: [a-z-]+)?)", message.template):
            words = line.split()
            assert is_command(words) or is_command(words[:1]), line


@pytest.mark.parametrize(("typed", "run"), CASES["a_pasted_line_of_another_program_is_that_of_servers_add"])
def test_a_pasted_line_of_another_program_is_that_of_servers_add(typed: str, run: str) -> None:
    assert claude_words(shlex.split(typed), ["--env", "--header"]) == shlex.split(run)


@pytest.mark.parametrize(("typed", "line"), CASES["a_server_without_a_name_gets_a_line_with_one"])
def test_a_server_without_a_name_gets_a_line_with_one(typed: str, line: str) -> None:
    mistake = server_mistake(shlex.split(typed))
    assert mistake is not None
    assert mistake.render("en").endswith(line)


@pytest.mark.parametrize("typed", CASES["a_server_with_a_name_is_taken_as_it_is"])
def test_a_server_with_a_name_is_taken_as_it_is(typed: str) -> None:
    assert server_mistake(shlex.split(typed)) is None


def test_an_option_of_another_tool_is_answered_with_what_is_right() -> None:
    for option in OPTIONS:
        done = CliRunner().invoke(main, ["policy", "labels", option], prog_name="tabane")
        if "No such option" in (first := done.output.splitlines()[0]):
            assert first.partition("'. ")[2], option


def test_a_setting_is_changed_by_two_words_or_one_with_an_equals_sign(tmp_path: Path) -> None:
    home = Home(tmp_path)
    try:
        assert "lang is ja now" in home.run("settings", "set", "lang=ja").succeeded.out
        assert "VALUE" in home.run("settings", "set", "lang").err.splitlines()[0]
    finally:
        home.run("stop")
