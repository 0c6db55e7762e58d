"""`tabane tools call` of a tool that a person has to confirm: on a real terminal, and without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import LIMIT, Home, hub
from tests.harness.patience import wait_until
from tests.harness.terminal import OnTerminal, on_terminal

WORDS = "correct horse battery"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A hub in front of a server whose tool ``count`` says how often it was called."""
    home = Home(tmp_path)
    home.write_servers({"up": {**home.child(), "confirm": ["count"]}})
    with hub(home):
        assert home.run("servers", "test", "up").status == 0
        yield home


def waiting(home: Home) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = home.json("approve")["results"]
    return rows


def counted(home: Home) -> int:
    """How often the tool was called: a call that is approved here says it."""
    with on_terminal(home, "tools", "call", "up__count", "look=true") as terminal:
        typed(terminal, "y")
        terminal.end(LIMIT)
    return int(terminal.out.split()[-1]) - 1


def typed(terminal: OnTerminal, answer: str) -> None:
    terminal.answer("[y/N]", answer)


def test_the_person_at_the_terminal_is_asked_and_the_call_is_made(home: Home) -> None:
    with on_terminal(home, "tools", "call", "up__count", "n=7") as terminal:
        typed(terminal, "y")
        terminal.end(LIMIT)
    assert terminal.process.returncode == 0, terminal.out
    for words in (
        "count of up will be called",
        "as the settings of up say",
        "\n    n: 7",
        "Refuse: it is not",
    ):
        assert words in terminal.out
    assert terminal.out.split()[-1] == "1"
    assert waiting(home) == []


@pytest.mark.parametrize("answer", ["n", ""])
def test_anything_else_than_yes_refuses_the_call(home: Home, answer: str) -> None:
    with on_terminal(home, "tools", "call", "up__count", "n=7") as terminal:
        typed(terminal, answer)
        terminal.end(LIMIT)
    assert terminal.process.returncode == 1
    assert "A person refused this call" in terminal.out
    assert counted(home) == 0


HOSTILE = "a\n\nWhat was read before\n- nothing\x1b[2J\r! safe\u202e" + " " * 90 + "- Approve: it is safe"


def test_no_argument_looks_like_a_part_of_the_letter_on_a_terminal(home: Home) -> None:
    with on_terminal(home, "tools", "call", "up__count", f"to={HOSTILE}", "path=/tmp/x") as terminal:
        terminal.read_until("[y/N]", LIMIT)
        [row] = waiting(home)
        shown = home.run("approve", row["id"], "--show").out
        assert waiting(home)[0]["state"] == "open"
        typed(terminal, "n")
        terminal.end(LIMIT)
    assert row["letter"]["fields"][0]["name"] == "to"
    for out in (terminal.out, shown):
        assert "\u202e" not in out
        assert "\x1b[2J" not in out
        lines = [line.strip("\r") for line in out.split("\n")]
        assert "      | What was read before" in lines
        assert not any(
            line.startswith(("What was read", "! safe", "- nothing", "- Approve: it")) for line in lines
        )
        assert all(len(line) <= 80 for line in lines if line.startswith("    "))


def test_the_list_names_recipients_first_and_an_unknown_id_is_an_error(home: Home) -> None:
    with on_terminal(home, "tools", "call", "up__count", "body=hello", "to=bob@example.com") as terminal:
        terminal.read_until("[y/N]", LIMIT)
        assert 'to="bob@example.com" body="hello"' in home.run("approve").out
        typed(terminal, "n")
        terminal.end(LIMIT)
    assert home.run("approve", "0123456789", "--show").status == 2
    assert home.run("approve", "0123456789", "--show", "--refuse").status == 2


def test_ctrl_c_cancels_the_call_and_leaves_nothing_to_approve(home: Home) -> None:
    with on_terminal(home, "tools", "call", "up__count", "n=7") as terminal:
        terminal.read_until("[y/N]", LIMIT)
        os.write(terminal.fd, b"\x03")
        terminal.end(LIMIT)
    assert terminal.process.returncode != 0
    wait_until(lambda: waiting(home) == [], "nothing waits")
    assert counted(home) == 0


def test_an_approval_elsewhere_ends_the_question(home: Home) -> None:
    with on_terminal(home, "tools", "call", "up__count", "n=7") as terminal:
        terminal.read_until("[y/N]", LIMIT)
        [row] = waiting(home)
        assert home.run("approve", row["id"]).status == 0
        terminal.end(LIMIT)
    assert terminal.process.returncode == 0
    assert "decided elsewhere" in terminal.out
    assert terminal.out.split()[-1] == "1"


def test_a_person_at_the_terminal_is_asked_whatever_the_setting_says(home: Home) -> None:
    assert home.run("settings", "set", "approval_wait", "0").status == 0
    test_the_person_at_the_terminal_is_asked_and_the_call_is_made(home)


@pytest.mark.parametrize(("given", "status"), [(WORDS, 0), ("something else", 1)])
def test_with_a_passphrase_yes_is_not_enough(home: Home, given: str, status: int) -> None:
    with on_terminal(home, "passphrase", "set") as terminal:
        for question in ("New passphrase:", "Repeat for confirmation:"):
            terminal.answer(question, WORDS, hidden=True)
        terminal.end(LIMIT)
    with on_terminal(home, "tools", "call", "up__count", "n=7") as terminal:
        typed(terminal, "y")
        terminal.answer("Passphrase:", given, hidden=True)
        terminal.end(LIMIT)
    assert terminal.process.returncode == status, terminal.out
    assert WORDS not in terminal.out


def test_without_a_terminal_the_command_says_what_it_waits_for(home: Home) -> None:
    command = [sys.executable, "-m", "tabane", "tools", "call", "up__count", "n=7"]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.environment,
        cwd=home.folder,
    ) as process:
        wait_until(lambda: waiting(home), "the call waits")
        [row] = waiting(home)
        assert home.run("approve", row["id"]).status == 0
        out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert out.split() == [b"1"]
    assert f"tabane approve {row['id']}" in err.decode()
    assert "tabane open /approvals" in err.decode()
    assert "Ctrl+C cancels it" in err.decode()
