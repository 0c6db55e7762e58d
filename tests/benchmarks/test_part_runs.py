"""Parts run in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from benchmarks.machine import Load, wait_until_quiet
from benchmarks.made_data import linked, made_data
from benchmarks.part_runs import Ended, end, run_part
from benchmarks.plan import Chapter, Part

from tests.harness.child_processes import commands_of_children
from tests.harness.child_processes import ended as child_ended

PART = Part("calls", Chapter.GATEWAY, "benchmarks.calls", seconds=60)


def running(code: str) -> Callable[[Part], Sequence[str]]:
    return lambda part: [sys.executable, "-c", code]


def run(code: str, folder: Path, limit: float | None = None) -> Ended:
    return run_part(PART, {"GIVEN": "yes"}, command=running(code), logs=folder, limit=limit)


def test_a_part_that_ends_well_has_no_problem_and_a_log(tmp_path: Path) -> None:
    ended = run("import os; print('GIVEN is', os.environ['GIVEN'])", tmp_path)
    assert ended.problem == ""
    assert (tmp_path / "calls.log").read_text() == "GIVEN is yes\n"


def test_a_part_that_fails_says_why(tmp_path: Path) -> None:
    ended = run("raise SystemExit('the peer is not installed')", tmp_path)
    assert "exit status 1" in ended.problem
    assert "the peer is not installed" in ended.problem


def test_a_part_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = (
        "import subprocess, sys, time;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True);"
        "time.sleep(600)"
    )
    ended = run(child, tmp_path, limit=2)
    assert "took longer than 2 s" in ended.problem
    started = int((tmp_path / "calls.log").read_text().split()[0])
    assert child_ended([started])


def test_a_part_is_interrupted_first_so_that_it_can_clean_up(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "try:\n print('ready', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt:\n print('stopped the hub', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"ready\n"
        end(process)
        assert output.read() == b"stopped the hub\n"


def test_a_part_that_ignores_the_interrupt_is_killed() -> None:
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as output:
        output.readline()
        end(process, grace=0.1)
    assert process.returncode == -signal.SIGKILL


def test_an_interrupt_of_the_driver_ends_the_part(tmp_path: Path) -> None:
    code = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGINT); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        run(code, tmp_path)
    assert [each for each, command in commands_of_children() if code in command] == []


def test_the_wait_for_a_quiet_machine_ends_when_it_is_quiet() -> None:
    loads = iter([Load(90, 5.0), Load(40, 4.0), Load(3, 3.5), Load(99, 9.0)])
    assert wait_until_quiet(60, lambda: next(loads), lambda: 0.0) == Load(3, 3.5)


def test_the_wait_for_a_quiet_machine_is_bounded() -> None:
    times = iter([0.0, 10.0, 20.0, 31.0])
    assert wait_until_quiet(30, lambda: Load(90, 5.0), lambda: next(times)) == Load(90, 5.0)
    assert list(times) == []


def test_data_is_made_once_and_again_when_its_maker_changes(tmp_path: Path) -> None:
    maker, made = tmp_path / "maker.py", list[Path]()

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "data").write_text(str(len(made)))
        made.append(folder)

    maker.write_text("1")
    first = made_data("posts-10", [maker], make, folder=tmp_path / "kept")
    assert made_data("posts-10", [maker], make, folder=tmp_path / "kept") == first
    maker.write_text("2")
    second = made_data("posts-10", [maker], make, folder=tmp_path / "kept")
    assert (second / "data").read_text() == "1"
    assert list((tmp_path / "kept").iterdir()) == [second]
    assert (linked(second, tmp_path / "run") / "data").read_text() == "1"


def test_data_that_could_not_be_made_is_made_again(tmp_path: Path) -> None:
    maker = tmp_path / "maker.py"
    maker.write_text("1")

    def fail(folder: Path) -> None:
        folder.mkdir()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        made_data("posts", [maker], fail, folder=tmp_path / "kept")
    assert made_data("posts", [maker], Path.mkdir, folder=tmp_path / "kept").is_dir()
