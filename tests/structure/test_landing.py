"""The second try of a landing and its ledger, what a test may cost, and which tests a tier has."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.landing import Entry, digest, overdue
from tests.plugins.prices import read_prices, write_prices
from tests.plugins.tiers import ROOT

FAILS_AT_FIRST = """
from pathlib import Path
def test_unsteady():
    tries = Path(__file__).with_name("tries")
    with tries.open("a") as file:
        file.write("x")
    assert len(tries.read_text()) > {failures}, "the port was taken"
def test_steady(): pass
"""
OPEN = Entry(test="t", date="2026-01-01", commit="c", traceback="0")
CLOSED = Entry(test="t", date="2026-01-01", commit="c", traceback="0", cause="a port", fix="Any free one.")


pytestmark = pytest.mark.heavy("starts pytest, once or twice a test")


def landed(folder: Path, suite: str, ci: str = "") -> tuple[int, str]:
    """Run a suite as `make test` runs this one. Return the exit status and the output."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "tests.landing", "ordinary", "--root", str(folder)]
    ours = ["-n", "0", "-p", "no:cacheprovider", "test_suite.py"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "CI": ci}
    done = subprocess.run([*command, *ours], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def ledger(folder: Path) -> list[dict[str, str]]:
    file = folder / "tests" / "unsteady.toml"
    rows: list[dict[str, str]] = tomllib.loads(file.read_text()).get("entry", []) if file.exists() else []
    return rows


@pytest.mark.parametrize("ci", ["", "true"], ids=["working copy", "ci"])
def test_what_fails_once_passes_with_an_entry(tmp_path: Path, ci: str) -> None:
    status, output = landed(tmp_path, FAILS_AT_FIRST.format(failures=1), ci=ci)
    assert status == 0, output
    assert "the port was taken" in output.partition("== passed in the second try")[2]
    assert '[[entry]]\ntest = "' in output
    tests = [row["test"] for row in ledger(tmp_path)]
    assert tests == ([] if ci else ["test_suite.py::test_unsteady"])


def test_what_fails_twice_fails_the_run_without_an_entry(tmp_path: Path) -> None:
    status, output = landed(tmp_path, FAILS_AT_FIRST.format(failures=2))
    assert (status, ledger(tmp_path)) == (1, []), output
    assert "failed twice" in output


def test_more_than_three_failures_get_no_second_try(tmp_path: Path) -> None:
    suite = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_four(n): assert n > 9\n"
    status, output = landed(tmp_path, suite)
    assert status == 1
    assert "once more, alone" not in output


def test_an_error_of_collection_is_not_passed_over(tmp_path: Path) -> None:
    status, output = landed(tmp_path, "import nothing_of_that_name\n")
    assert status not in (0, 5), output


def test_five_open_entries_fail_every_run(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "unsteady.toml").write_text(
        "\n".join(entry.as_toml() for entry in [CLOSED] * 9 + [OPEN] * 5)
    )
    status, output = landed(tmp_path, "def test_passes(): pass\n")
    assert (status, "5 tests passed only in a second try" in output) == (1, True), output
    assert overdue([CLOSED] * 9 + [OPEN] * 4) == ""


def test_one_failure_has_one_hash_in_every_process_and_folder() -> None:
    one = "/tmp/pytest-of-me/pytest-1/test_0/x.py:12: <Hub at 0x7f12> port 4711"
    other = "/tmp/pytest-of-you/pytest-22/test_3/x.py:12: <Hub at 0xabc> port 80"
    assert digest(one) == digest(other) != digest("AssertionError")


def test_a_new_test_that_costs_seconds_needs_a_mark_which_keeps_it_out_of_the_ordinary_run(
    tmp_path: Path,
) -> None:
    burn = "import time\ndef test_burns():\n    while time.process_time() < 4.2 + BEGUN: pass\n"
    suite = burn.replace("def test", "BEGUN = time.process_time()\n{mark}\ndef test")
    status, output = landed(tmp_path, suite.format(mark=""))
    assert (status, "costs 4." in output) == (1, True), output
    mark = "import pytest\n@pytest.mark.heavy('burns CPU')"
    status, output = landed(tmp_path, suite.format(mark=mark) + "def test_other(): pass\n")
    assert (status, "1 passed, 1 deselected" in output) == (0, True), output


def test_prices_are_kept_of_files_and_of_tests_that_cost_something(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    write_prices({"b.py::x": 0.26, "a.py::y[1::2]": 0.02, "a.py::z": 1.0}, table)
    assert read_prices(table) == ({"a.py": 1.0, "b.py": 0.3}, {"a.py::z": 1.0, "b.py::x": 0.26})
