"""What a person sees: commands on a real terminal of 80 and of 200 columns, in both languages."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import unicodedata
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tabane.cli.drawing import FIRST, progress
from tests.harness.home import CHILD, Home, hub
from tests.harness.patience import LONG
from tests.harness.terminal import on_terminal

COMMAND = (sys.executable, str(CHILD))
GREEN, DIM = "\x1b[32m", "\x1b[2m"
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\r")


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


SERVERS = {
    "時計サーバー": {"command": "uvx", "args": ["mcp-server-time"]},
    "off": {"command": "npx", "args": ["-y", "some-server"], "enabled": False},
}


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_table_fits_its_terminal_and_its_states_are_coloured(
    home: Home, columns: int, language: str
) -> None:
    home.write_servers(SERVERS)
    shown = home.converse("servers", "list", columns=columns, TABANE_LANG=language)
    words = {"en": ("enabled", "disabled"), "ja": ("有効", "無効")}[language]
    assert shown.status == 0
    assert GREEN + words[0] in shown.out
    assert DIM + words[1] in shown.out
    lines = CONTROL.sub("", shown.out).splitlines()
    assert max(width(line) for line in lines) <= columns


def test_a_machine_is_told_states_in_english_and_without_colour(home: Home) -> None:
    home.write_servers(SERVERS)
    listed = home.run("servers", "list", environment={"TABANE_LANG": "ja"})
    assert [row[1] for row in listed.rows] == ["enabled", "disabled"]
    assert "\x1b" not in listed.out


def test_no_colour_is_shown_to_who_wants_none(home: Home) -> None:
    home.write_servers(SERVERS)
    assert GREEN not in home.converse("servers", "list", NO_COLOR="1").out


def test_names_and_values_have_no_header(home: Home) -> None:
    lines = CONTROL.sub("", home.converse("status").out).splitlines()
    assert lines[0].split() == ["status", "stopped"]


def test_what_takes_long_shows_that_it_goes_on_and_leaves_no_trace(home: Home) -> None:
    added = home.converse("servers", "add", "slow", "--", *COMMAND, "--slow-start", "3")
    assert added.status == 0, added.out
    assert re.search("Testing slow [1-9]", added.out)
    before, _, after = added.out.rpartition("\r\x1b[K")
    assert "Testing slow" in before
    assert after.startswith("child works")


def test_what_is_quick_shows_nothing_of_the_kind(home: Home) -> None:
    home.write_servers(SERVERS)
    assert "\r" not in home.converse("servers", "list").out


@pytest.mark.parametrize("columns", [20, 80])
def test_the_line_of_progress_is_cut_to_the_terminal(home: Home, columns: int) -> None:
    options = ("--slow-start", "2")
    added = home.converse("servers", "add", "とても遅いサーバー", "--", *COMMAND, *options, columns=columns)
    steps = [part for part in added.out.split("\r\x1b[K")[1:-1] if part]
    assert steps
    assert max(width(step) for step in steps) < columns


def test_the_line_goes_on_after_that_of_a_block_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabane.cli.drawing._wanted", lambda: True)
    with progress("outer"):
        with progress("inner"):
            pass
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= FIRST
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    assert not 0 < left <= FIRST  # what was armed before, such as the limit of a test, goes on


def test_a_pipe_is_told_of_no_progress(home: Home) -> None:
    added = home.run("servers", "add", "slow", "--", *COMMAND, "--slow-start", "1.5")
    assert added.status == 0
    assert added.err == "No hub is running. The change takes effect when one starts.\n"


@pytest.mark.parametrize("place", [nullcontext, hub], ids=["alone", "with a hub"])
def test_ctrl_c_while_a_server_is_tried_keeps_nothing_and_leaves_nothing(
    home: Home, tmp_path: Path, place: Callable[[Home], AbstractContextManager[Home]]
) -> None:
    pids = tmp_path / "pids"
    options = ("--silent", "--ignore-eof", "--grandchildren", "group,session", "--pids", str(pids))
    with place(home), on_terminal(home, "servers", "add", "a", "--", *COMMAND, *options) as terminal:
        wait_until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 3)
        os.write(terminal.fd, b"\x03")
        terminal.end()
        tried = [int(line.split()[1]) for line in pids.read_text().splitlines()]
        wait_until(lambda: not [pid for pid in tried if alive(pid)])
    assert terminal.process.returncode == 130
    assert not home.servers.exists()


def test_the_log_of_a_server_is_followed_until_ctrl_c(home: Home) -> None:
    home.write_servers({"a": {"command": COMMAND[0], "args": [COMMAND[1], "--stderr", "I am up"]}})
    with hub(home):
        home.run("servers", "start", "a")
        with on_terminal(home, "servers", "logs", "a", "--follow") as terminal:
            terminal.read_until("I am up")
            for word in ("one", "two"):
                assert home.run("tools", "call", "a__log", f"text={word}").status == 0
                terminal.read_until(word)
            os.write(terminal.fd, b"\x03")
            terminal.end()
        assert terminal.process.returncode == 130
        assert terminal.out.count("one") == 1


def test_half_a_character_is_printed_as_a_replacement(home: Home) -> None:
    home.write_servers({"a": {"command": COMMAND[0], "args": [COMMAND[1]]}})
    with hub(home):
        assert home.run("tools", "call", "a__surrogate").out == "\ufffd!\n"
        machine = home.run("tools", "call", "a__surrogate", "--json")
        rpc = home.run("rpc", "call_tool", "--params", '{"name": "a__surrogate"}')
    for done in (machine, rpc):
        assert done.status == 0, done.err
        assert "\ufffd" in json.loads(done.out)["content"][0]["text"]


def test_a_name_that_no_terminal_takes_is_shown_all_the_same(home: Home) -> None:
    home.write_servers('{"mcpServers": {"a": {"command": "run", "description": "\\ud83d"}}}')
    for options, character in (([], "\ufffd"), (["--json"], "\\ud83d")):
        shown = home.run("servers", "show", "a", *options)
        assert shown.status == 0, shown.err
        assert character in shown.out


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool], limit: float = LONG) -> None:
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
