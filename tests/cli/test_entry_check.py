"""A call through an assistant's entry, as a desktop program starts it."""

from __future__ import annotations

import sys

import pytest

from tabane.servers.assistants.entry_check import check_entry, desktop_environment
from tests.harness.home import CHILD

SERVER = [str(CHILD)]


def test_a_command_that_answers_works() -> None:
    found = check_entry({"command": sys.executable, "args": SERVER}, {"HOME": "/tmp"})
    assert (found.problem, found.called) == (None, None)
    assert found.tools > 0


BROKEN = [
    ({"command": "/gone/tabane"}, "cannot be started"),
    ({"command": sys.executable, "args": [*SERVER, "--exit", "3"]}, "status 3"),
    ({"command": sys.executable, "args": [*SERVER, "--silent"]}, "in time"),
    ({"command": sys.executable, "args": [*SERVER, "--era", "modern"]}, "it answered"),
]


@pytest.mark.parametrize(("entry", "why"), BROKEN)
def test_a_command_that_does_not_work_is_named(entry: dict[str, object], why: str) -> None:
    found = check_entry(entry, {"HOME": "/tmp"}, limit=1.0 if why == "in time" else 20.0)
    assert found.problem is not None
    assert why in found.problem.render("en")


def test_nothing_of_a_shell_is_passed_on() -> None:
    found = desktop_environment({"HOME": "/h", "PATH": "/opt/node/bin", "TABANE_HOME": "/t", "API_KEY": "k"})
    assert "TABANE_HOME" not in found
    assert "API_KEY" not in found
    assert "/opt/node" not in found["PATH"]
