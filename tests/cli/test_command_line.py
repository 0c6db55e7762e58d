"""The whole command line: help, usage, exit status, language, and startup time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tabane.cli.main import COMMANDS, GROUPS, main
from tabane.cli.options import json_option
from tabane.cli.output import Command, Terminal, lang, text
from tabane.cli.terminal_text import StyledText, cells
from tabane.errors import BadArguments, HubError, TabaneError, UnknownName
from tabane.messages import say
from tabane.settings import OPTIONS
from tests.harness.patience import LONG


def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {"TABANE_HOME": str(home), "TABANE_HTTP": "false", "TABANE_LANG": "en"}
    environ = {**os.environ, **own, **variables}
    command = [sys.executable, "-m", "tabane", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LONG)


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Return each visible command as the words that a user types."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif command is not None and not command.hidden:
            yield (*path, name)


def listed(*arguments: str) -> list[str]:
    """Return the commands that a help lists."""
    printed = CliRunner().invoke(main, list(arguments)).output
    return re.findall(r"^  ([a-z]+)  ", printed.partition(text(say("Everyday")))[2], re.MULTILINE)


@pytest.mark.parametrize(
    ("written", "word"), [('lang = "ja"\n', "毎日使うコマンド"), ("lang = \n", "Everyday")]
)
def test_a_command_speaks_the_language_of_the_settings(tmp_path: Path, written: str, word: str) -> None:
    settings = tmp_path / "tabane.toml"
    settings.write_text(written)
    settings.chmod(0o600)
    shown = run(tmp_path, "--help", TABANE_LANG="", LC_ALL="C.UTF-8", TABANE_CONFIG=str(settings)).stdout
    assert word in shown


def test_the_help_shows_the_everyday_commands_and_names_the_way_to_the_rest() -> None:
    shown = listed("--help")
    assert 10 <= len(shown) <= 14
    assert [name for name in shown if name != "setup"][:4] == ["status", "open", "servers", "tools"]
    assert "tabane --help-all" in CliRunner().invoke(main, ["--help"]).output
    assert listed("help") == shown == listed()


def test_every_command_is_listed_once_in_one_of_four_groups() -> None:
    everything = listed("--help-all")
    assert sorted(everything) == sorted(COMMANDS)
    assert len(GROUPS) == 4
    assert set(COMMANDS) <= {name for _, names in GROUPS for name in names.split()}


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_help_fits_eighty_columns(tmp_path: Path, lang: str) -> None:
    for flag in ("--help", "--help-all"):
        lines = run(tmp_path, flag, TABANE_LANG=lang, COLUMNS="80").stdout.splitlines()
        assert max(map(cells, lines)) <= 80


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_every_command_has_help_with_examples(path: tuple[str, ...]) -> None:
    found = CliRunner().invoke(main, [*path, "--help"], prog_name="tabane")
    assert found.exit_code == 0, found.output
    assert f"\n    tabane {' '.join(path)}" in found.output.partition(text(say("Examples:")))[2]


def test_help_imports_no_command_and_nothing_heavy() -> None:
    script = (
        "import sys\nsys.argv = ['tabane', '--help']\nfrom tabane.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'asyncio', 'msgspec', 'rich', 'logging', 'tabane.hub.hub', 'tabane.cli.lifecycle'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command", ["posts search", "docs search", "read", "tools search", "search", "jobs list"]
)
def test_options_of_a_command_import_no_event_loop(command: str) -> None:
    script = (
        f"import sys\nsys.argv = ['tabane', *{command.split()}, '--help']\nfrom tabane.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr


def test_wrong_usage_ends_with_two_and_names_the_mistake(tmp_path: Path) -> None:
    for arguments in (["nope"], ["status", "--nope"], ["mcp", "--mode", "loud"], ["logs", "-n", "0"]):
        done = run(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "Error" in done.stderr


def test_the_help_of_start_shows_what_matters_and_names_the_way_to_the_rest() -> None:
    short, whole = (CliRunner().invoke(main, ["start", flag]).output for flag in ("-h", "--help-all"))
    assert len(re.findall(r"^  -", short, re.MULTILINE)) <= 16
    assert "--help-all" in short
    assert "-h, --help" in short
    assert all(setting.flag in whole for setting in OPTIONS)
    assert "--audit-days DAYS" in whole
    assert "WHOLE" not in whole


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["instal"], "install"), (["servers", "ad"], "add"), (["docs", "serach"], "search")],
)
def test_a_misspelled_command_is_answered_with_the_one_that_was_meant(
    tmp_path: Path, arguments: list[str], near: str
) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert f"Did you mean {near}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ([], ["使い方: tabane [オプション] コマンド [引数]...", "オプション:", "毎日使うコマンド:"]),
        (["jobs", "--help"], ["使い方: tabane jobs [オプション] [コマンド] [引数]..."]),
        (
            ["docs", "search"],
            [
                "エラー: 次の引数がありません: 'QUERY'。例: tabane docs search 'how do we release'",
                "使い方: tabane docs search [オプション] QUERY",
            ],
        ),
        (
            ["logs", "-n", "x"],
            ["エラー: '-n' / '--lines' の値が正しくありません: 'x' は 整数 として正しくありません。"],
        ),
    ],
)
def test_usage_and_its_errors_are_japanese_for_a_japanese_user(
    tmp_path: Path, arguments: list[str], lines: list[str]
) -> None:
    done = run(tmp_path, *arguments, TABANE_LANG="ja")
    assert set(lines) <= set((done.stdout + done.stderr).splitlines())


def test_a_list_of_commands_shows_whole_sentences_in_japanese(tmp_path: Path) -> None:
    shown = re.sub(r"\n {4,}", "", run(tmp_path, "audit", "--help", TABANE_LANG="ja").stdout)
    listed = [line for line in shown.splitlines() if line.startswith(("  head", "  verify"))]
    assert len(listed) == 2
    assert all(line.endswith("。") and line.count("。") == 1 for line in listed), listed


def test_a_machine_gets_json_and_a_person_words(tmp_path: Path) -> None:
    assert json.loads(run(tmp_path, "status", "--json").stdout)["status"] == "stopped"
    assert run(tmp_path, "status").stdout.startswith("status\tstopped\n")
    assert run(tmp_path, "stop").stdout == "No hub is running.\n"


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (
            HubError(say("gone")),
            1,
            {
                "code": -32603,
                "message": "gone",
                "data": {"reason": "hub"},
                "help": "troubleshooting#the-hub-does-not-start-or-answer",
            },
        ),
        (BadArguments(say("wrong"), "x"), 2, {"code": -32602, "message": "wrong"}),
        (
            UnknownName(say("no tool x"), ("y",)),
            2,
            {"code": -32602, "message": "no tool x", "data": {"near": ["y"]}},
        ),
    ],
)
def test_an_error_ends_a_command_by_whose_fault_it_is(error: TabaneError, status: int, shown: object) -> None:
    @click.command(cls=Command)
    @json_option
    @click.pass_obj
    def fail(terminal: Terminal) -> None:
        raise error

    plain = CliRunner().invoke(fail, [], obj=Terminal())
    assert (plain.exit_code, plain.stdout) == (status, "")
    assert plain.stderr.splitlines()[0].endswith(f": {error.text(lang())}")
    machine = CliRunner().invoke(fail, ["--json"], obj=Terminal())
    assert json.loads(machine.stdout) == {"error": shown}


def test_rows_are_lines_of_tabs_where_nobody_watches() -> None:
    @click.command(cls=Command)
    @click.pass_obj
    def rows(terminal: Terminal) -> None:
        terminal.table(["a", "b"], [("x\ty\nz", None), (True, ["p", "q"]), ("c", StyledText("away", "red"))])

    lines = CliRunner().invoke(rows, [], obj=Terminal()).stdout.splitlines()
    assert lines[0].split("\t") == ["x y z", ""]
    assert lines[1].endswith("\tp, q")
    assert lines[2] == "c\taway"


def test_an_address_that_cannot_be_reached_says_what_can(tmp_path: Path) -> None:
    nobody = run(tmp_path, "health", TABANE_URL="http://127.0.0.1:1/rpc")
    assert nobody.returncode == 1
    assert "tabane start" in nobody.stderr
    done = run(tmp_path, "health", TABANE_URL="gopher://127.0.0.1:1/")
    assert done.returncode == 2
    assert "unix:" in done.stderr
