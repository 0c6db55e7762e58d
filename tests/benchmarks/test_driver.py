"""The driver of ``make bench``."""

from __future__ import annotations

import pytest
from benchmarks.__main__ import main, run_all, summary
from benchmarks.machine import Load
from benchmarks.part_runs import Ended
from benchmarks.plan import PARTS, Chapter, Part

BROKEN = Part("test_broken", Chapter.GATEWAY, "benchmarks.no_such_module", seconds=60)
FINE = Part("test_fine", Chapter.GATEWAY, "this", seconds=60)


def test_a_part_that_fails_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    broken, fine = run_all((BROKEN, FINE), 0.0, look=lambda: Load(3.0, 0.5))
    assert (broken.part, fine.part) == (BROKEN, FINE)
    assert "No module named benchmarks.no_such_module" in broken.problem
    assert fine.problem == ""
    progress = capsys.readouterr().err
    assert "[1/2] test_broken, about 60 s; before it: 3% of the cores busy, load average 0.50" in progress
    assert "test_fine: done" in progress


def test_the_summary_names_what_failed_and_what_took_too_long() -> None:
    lines = list(summary([Ended(BROKEN, 1.0, "exit status 1"), Ended(FINE, 90.0)]))
    assert [line.split()[0] for line in lines[:2]] == ["test_broken", "test_fine"]
    assert (lines[0].split()[-1], lines[1].split()[-1]) == ("failed", "late")
    assert lines[-1] == "1.5 minutes; failed: test_broken"


def test_an_unknown_part_ends_with_2_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "no such part: nothing" in capsys.readouterr().err


def test_the_parts_are_listed_with_their_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    first = PARTS[0]
    assert listed[0].split()[:3] == [first.name, str(first.seconds), "s"]
    assert "1200 s" in listed[-1]
