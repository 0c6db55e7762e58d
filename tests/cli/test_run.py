"""`tabane run` as a user runs it: output and result on stdout, errors on stderr."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.harness.home import LIMIT, Home, hub
from tests.harness.terminal import on_terminal


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.environment["TABANE_MODEL"] = "none"
    home.write_servers({"up": home.child()})
    with hub(home):
        yield home


def test_a_script_prints_what_it_prints_and_its_result(home: Home) -> None:
    script = home.folder / "report.py"
    script.write_text("from tools import list_documents\nprint(topic)\n[limit, len(await list_documents())]")
    ran = home.run("run", str(script), "--input", "topic=bugs", "--input", "limit=5")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("bugs\n[\n  5,\n")


def test_a_script_that_fails_ends_with_1(home: Home) -> None:
    script = home.folder / "wrong.py"
    script.write_text("print('before')\n1 / 0")
    ran = home.run("run", str(script))
    assert ran.status == 1
    assert ran.out == "before\n"
    assert "ZeroDivisionError" in ran.err


def test_a_file_that_is_missing_is_a_usage_error(home: Home) -> None:
    ran = home.run("run", str(home.folder / "none.py"))
    assert ran.status == 2
    assert "none.py cannot be read" in ran.err


def test_the_person_at_the_terminal_is_asked_about_each_change(home: Home) -> None:
    script = home.folder / "changes.py"
    script.write_text("from tools import up\nfor _ in range(2):\n    last = await up.count()\nlast")
    assert home.run("servers", "test", "up").status == 0
    with on_terminal(home, "run", str(script)) as terminal:
        for _ in range(2):
            terminal.read_until("[y/N]", LIMIT)
            terminal.out = ""
            os.write(terminal.fd, b"y\n")
        terminal.end(LIMIT)
    assert terminal.process.returncode == 0, terminal.out
    assert terminal.out.split()[-1] == "2"
