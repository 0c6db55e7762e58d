"""Sixty mistakes of newcomers: the first line of each answer says what is right."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.main import COMMANDS
from tests.harness.cases import cases_beside
from tests.harness.home import Home, Outcome

MISTAKES = cases_beside(str(Path(__file__).with_name("newcomers.py")))["mistake"]
OTHER_USER = 12_345


def first_line(done: Outcome) -> str:
    """Return the line that a person reads first."""
    seen = done.out + done.err if done.status == 0 else done.err + done.out
    return next((line for line in seen.splitlines() if line.strip()), "")


def answer(mistake: dict[str, Any], folder: Path) -> tuple[str, list[str]]:
    """Make a mistake in an empty home. Return the first line of the answer, and what it must contain."""
    home = Home(folder)
    for name, value in mistake.get("env", {}).items():
        home.environment[name] = value
        if not value:
            del home.environment[name]
    if mistake.get("servers"):
        home.write_servers({"clock": home.child()})
    for name in mistake.get("files", ()):
        (folder / name).write_text("# Tea\n")
    needs, port = mistake.get("needs", ""), ""
    with socket.socket() as taken:
        if needs == "port":
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
        if needs in ("hub", "port"):
            home.environment["TABANE_HTTP"] = "true"
            home.environment["TABANE_PORT"] = "0"
        if needs == "root":
            for path in (folder, *folder.rglob("*")):
                os.chown(path, OTHER_USER, OTHER_USER)
        words = [word.replace("{port}", port) for word in mistake["run"]]
        done = home.converse(*words, typed="\x04") if needs == "terminal" else home.run(*words)
        if needs in ("hub", "port"):
            home.run("stop")
    return first_line(done), [part.replace("{port}", port) for part in mistake["first"]]


def unanswered(mistakes: list[dict[str, Any]], root: Path) -> dict[str, str]:
    """Return the first lines of the answers that do not say what they must."""
    wrong = {}
    for mistake in mistakes:
        if mistake.get("command", "status") not in COMMANDS:
            continue
        if mistake.get("needs") == "root" and os.geteuid() != 0:
            continue
        line, parts = answer(mistake, Path(tempfile.mkdtemp(dir=root)))
        if not all(part in line for part in parts):
            wrong[mistake["what"]] = line
    return wrong


def test_there_are_sixty() -> None:
    assert len({mistake["what"] for mistake in MISTAKES}) == len(MISTAKES) == 60


def test_the_first_line_says_what_is_right(tmp_path: Path) -> None:
    mistakes = [each for each in MISTAKES if "needs" not in each]
    wrong = unanswered(mistakes, tmp_path)
    assert not wrong


@pytest.mark.heavy("starts hubs and servers")
def test_the_first_line_says_what_is_right_where_a_process_starts(tmp_path: Path) -> None:
    mistakes = [each for each in MISTAKES if "needs" in each]
    wrong = unanswered(mistakes, tmp_path)
    assert not wrong
