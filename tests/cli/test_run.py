"""`tabane run` as a user runs it: output and result on stdout, errors on stderr."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.home import Home, hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.environment["TABANE_MODEL"] = "none"
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
