"""Jobs at the command line: a bar, Ctrl+C, `tabane jobs`; against a hub that works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.drawing import FINE, PLAIN, bar_line, clock
from tabane.cli.terminal_text import cells
from tabane.hub.local import lock
from tests.harness.bridge import answer, fake_hub
from tests.harness.home import Home, Outcome
from tests.harness.patience import LONG, wait_until
from tests.harness.terminal import OnTerminal, on_terminal

HUB = str(Path(__file__).parent.parent / "harness" / "hub_with_jobs.py")
COUNTING = str(Path(__file__).parent / "counting.py")
LIMIT = LONG


class Working:
    """A hub of this home that works when it is told to."""

    def __init__(self, home: Home, started_by: str) -> None:
        self.home = home
        self.gate = str(home.folder / "gate")
        os.mkfifo(self.gate)
        # Kept open, so that what is written stays until the job reads it.
        self._gate = os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)
        self.process = subprocess.Popen(
            [sys.executable, HUB, started_by], env=home.environment, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"open\n"

    def let(self, word: str = "end") -> None:
        os.write(self._gate, word.encode())

    def begin(self) -> str:
        """Begin a job from a program that goes away at once."""
        begun = self.home.run("rpc", "count", "--params", f'{{"gate": "{self.gate}"}}')
        assert begun.status == 0, begun.err
        return str(begun.json["job"])

    def state(self, job: str) -> Any:
        return self.home.run("rpc", "follow_job", "--params", f'{{"job": "{job}"}}').json

    def follow(self, *options: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, COUNTING, self.gate, *options],
            env={**self.home.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def job(self) -> str:
        """The one job that runs, once it does."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            rows = self.home.run("jobs", "--json").json["results"]
            if [row for row in rows if row["status"] == "running" and row["done"]]:
                return str(rows[0]["job"])
        raise AssertionError("no job was begun")

    def close(self) -> None:
        os.close(self._gate)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def working(home: Home) -> Iterator[Working]:
    hub = Working(home, lock.HAND)
    yield hub
    hub.close()


def ended(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=LIMIT)
    return Outcome(process.returncode, out, err)


def counting(working: Working, *options: str) -> Any:
    return on_terminal(working.home, working.gate, *options, script=COUNTING)


def interrupt(terminal: OnTerminal) -> None:
    os.write(terminal.fd, b"\x03")
    terminal.end()


def gone(process: subprocess.Popen[bytes], within: float) -> bool:
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_a_bar_is_shown_while_the_job_runs_and_leaves_no_trace(working: Working) -> None:
    with counting(working) as terminal:
        terminal.read_until("50 % 100/200")
        working.let()
        terminal.end()
    assert terminal.process.returncode == 0
    before, _, after = terminal.out.rpartition("\r\x1b[K")
    assert "count to 200" in before
    assert after == "counted to 200\r\n"


def test_a_pipe_is_given_the_result_alone(working: Working) -> None:
    process = working.follow("--json")
    working.let()
    assert ended(process) == Outcome(0, '{\n  "counted": 200\n}\n', "")


def test_a_failure_is_that_of_the_command(working: Working) -> None:
    process = working.follow(TABANE_LANG="ja")
    working.let("fail")
    done = ended(process)
    assert (done.status, done.out) == (1, "")
    assert "何も見つかりませんでした。" in done.err


def test_a_failure_is_told_to_machines_with_its_reason(working: Working) -> None:
    process = working.follow("--json")
    working.let("fail")
    error = ended(process).json["error"]
    assert (error["code"], error["data"]) == (-32603, {"reason": "storage"})


def test_ctrl_c_cancels_the_job_and_says_that_what_was_done_stays(working: Working) -> None:
    with counting(working) as terminal:
        terminal.read_until("100/200")
        interrupt(terminal)
    assert terminal.process.returncode == 130
    assert "Completed work is kept; run the same command to continue." in terminal.out
    assert "Traceback" not in terminal.out
    [row] = working.home.run("jobs", "--json").json["results"]
    assert (row["status"], row["done"]) == ("cancelled", 100)


def test_ctrl_c_while_the_job_is_begun_cancels_it_as_soon_as_it_is_known(home: Home) -> None:
    begun = {"job": "3fa9c1", "status": "running", "version": 1, **state(0)}
    with fake_hub(home.tabane) as hub, on_terminal(home, "gate", script=COUNTING) as terminal:
        first = hub.accept()
        assert first.next()["method"] == "count"
        os.write(terminal.fd, b"\x03")
        terminal.read_until("^C")
        first.send(answer(1, begun))
        second = hub.accept()
        asked = second.next()
        assert (asked["method"], asked["params"]) == ("cancel_job", {"job": "3fa9c1"})
        second.send(answer(1, {**begun, "status": "cancelled"}))
        terminal.end()
    assert terminal.process.returncode == 130
    assert "Completed work is kept" in terminal.out


def test_a_hub_that_does_not_answer_is_left_by_a_second_ctrl_c(home: Home) -> None:
    with fake_hub(home.tabane) as hub, on_terminal(home, "gate", script=COUNTING) as terminal:
        hub.accept().next()
        # Pressed again until it is heard: two at the same time are one signal.
        while not gone(terminal.process, within=1):
            with contextlib.suppress(OSError):  # it may end just now
                os.write(terminal.fd, b"\x03")
        terminal.end()
    assert terminal.process.returncode == 1


def test_a_hub_that_dies_is_said_to_be_gone(working: Working) -> None:
    process = working.follow()
    working.job()
    working.process.kill()
    done = ended(process)
    assert done.status == 1
    assert "The hub stopped while the job was running." in done.err


def test_a_hub_that_ends_tells_who_follows_at_once(working: Working) -> None:
    process = working.follow()
    working.job()
    assert working.home.run("stop").status == 0
    done = ended(process)
    assert done.status == 1
    assert "The hub stopped. Completed work is kept" in done.err


def status_of(working: Working, job: str) -> str:
    return str(working.state(job)["status"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_job_does_not_outlive_the_command_that_follows_it(working: Working, number: signal.Signals) -> None:
    process = working.follow()
    job = working.job()
    assert working.state(job)["owner"] == {"client": "counting.py", "pid": process.pid, "detached": False}
    process.send_signal(number)
    process.communicate()
    wait_until(lambda: status_of(working, job) == "cancelled", "the job is cancelled")
    assert "The program that started the job ended." in working.state(job)["error"]["message"]


def test_a_job_does_not_outlive_its_terminal(working: Working) -> None:
    with counting(working) as terminal:
        terminal.read_until("100/200")
        job = working.job()
        os.close(terminal.fd)
        try:
            wait_until(lambda: status_of(working, job) == "cancelled", "the job is cancelled")
        finally:
            terminal.fd = os.open(os.devnull, os.O_RDWR)
            terminal.process.kill()


def test_a_detached_job_goes_on_and_is_listed_with_its_owner(working: Working) -> None:
    process = working.follow("--detach")
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (0, "")
    job = working.job()
    assert f"tabane jobs follow {job}" in out
    assert working.state(job)["owner"] == {"client": "counting.py", "pid": process.pid, "detached": True}
    [row] = working.home.run("jobs").rows
    assert row[5] == f"counting.py (process {process.pid}), detached"
    working.let()
    assert working.home.run("jobs", "follow", job).json == {"counted": 200}


def test_a_job_that_waits_for_another_says_for_which(working: Working) -> None:
    first = working.follow("--operation", "count_in_turn")
    ahead = working.job()
    second = working.follow("--operation", "count_in_turn", "--to", "50")

    def behind() -> list[Any]:
        rows = working.home.run("jobs", "--json").json["results"]
        return [row for row in rows if row["waits_for"]]

    wait_until(behind, "the second job waits")
    [row] = behind()
    assert row["waits_for"] == {"job": ahead, "title": "count to 200"}
    assert row["note"] == f"waiting for job {ahead}: count to 200"
    shown = {cells[0]: cells for cells in working.home.run("jobs").rows}
    assert shown[row["job"]][1] == "waiting"
    assert ahead in shown[row["job"]][4]
    assert f"(process {second.pid})" in shown[row["job"]][5]
    first.kill()
    first.communicate()
    wait_until(lambda: not behind(), "the second has its turn")
    working.let()
    assert ended(second) == Outcome(0, "counted to 50\n", "")
    assert working.state(row["job"])["waits_for"] is None


def test_a_bar_says_for_which_job_it_waits(working: Working) -> None:
    first = working.follow("--operation", "count_in_turn")
    ahead = working.job()
    with counting(working, "--operation", "count_in_turn") as terminal:
        terminal.read_until(f"waiting for job {ahead}")
        terminal.process.kill()
    first.kill()
    first.communicate()


def test_jobs_are_listed_and_counted(working: Working) -> None:
    assert working.home.run("jobs", "list").out == ""
    job = working.begin()
    for command in (["jobs"], ["jobs", "list"]):
        [row] = working.home.run(*command).rows
        assert row[:2] == [job, "running"]
        assert row[2].split()[0] == "100/200"  # a rate comes after it as soon as one is known
        assert row[4] == "count to 200"
    assert working.home.run("status", "--json").json["jobs"] == 1
    assert "running" in working.home.converse("jobs").out


def test_a_job_is_watched_by_others_and_runs_on_when_they_leave(working: Working) -> None:
    job = working.begin()
    with on_terminal(working.home, "jobs", "follow", job) as terminal:
        terminal.read_until("100/200")
        interrupt(terminal)
    assert terminal.process.returncode == 130
    assert f"tabane jobs cancel {job}" in terminal.out
    assert working.state(job)["status"] == "running"
    working.let()
    assert working.home.run("jobs", "follow", job).json == {"counted": 200}


def test_a_job_is_cancelled_by_its_id(working: Working) -> None:
    job = working.begin()
    assert working.home.run("jobs", "cancel", job).out == "count to 200: cancelled\n"
    assert working.home.run("jobs", "cancel", job, "--json").json["status"] == "cancelled"
    followed = working.home.run("jobs", "follow", job)
    assert followed.status == 1
    assert "The job was cancelled." in followed.err


def test_a_job_that_is_none_is_the_callers_mistake(working: Working) -> None:
    for command in ("follow", "cancel"):
        done = working.home.run("jobs", command, "nothing")
        assert (done.status, done.out) == (2, "")
        assert "There is no job nothing." in done.err


def test_ids_are_completed(working: Working) -> None:
    job = working.begin()
    words = {"_TABANE_COMPLETE": "bash_complete", "COMP_WORDS": "tabane jobs follow ", "COMP_CWORD": "3"}
    assert working.home.run(environment=words).out == f"plain,{job}\n"


def test_where_no_hub_runs_none_is_started(home: Home) -> None:
    assert home.run("jobs").status == 1
    assert not lock.held(str(home.tabane / "hub.lock"))


# -- the line ------------------------------------------------------------------------------------


def state(done: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    empty = {"title": "Importing", "note": None, "rate": None, "left": None}
    return {**empty, "done": done, "total": total, **more}


def test_a_bar_says_what_how_far_how_fast_and_how_long_yet() -> None:
    line = bar_line(state(11_600, 20_000, note="posts", rate=1234.4, left=7.2), 100, "en")
    assert line == f"Importing: posts {'█' * 17}{'░' * 13} 58 % 11,600/20,000 1,234/s 0:07 left"


def test_a_job_without_an_end_in_sight_has_a_wheel() -> None:
    assert bar_line(state(5, rate=0.25), 100, "en", PLAIN, step=1) == "\\ Importing 5 0.2/s"


def test_the_line_is_in_the_language_of_the_terminal() -> None:
    assert bar_line(state(1, 4, rate=20.0, left=3700), 40, "ja").endswith("25 % 1/4 20/秒 残り 1:01:40")


@pytest.mark.parametrize("columns", range(5, 120, 5))
@pytest.mark.parametrize("title", ["Importing", "とても長い名前のファイルを読み込んでいます"])
@pytest.mark.parametrize("glyphs", [FINE, PLAIN])
def test_the_line_fits_its_terminal(columns: int, title: str, glyphs: Any) -> None:
    for total in (None, 10**9):
        line = bar_line(state(10**8, total, title=title, rate=1e6, left=900.0), columns, "en", glyphs)
        assert cells(line) <= columns


def test_more_than_all_is_no_more_than_a_full_bar() -> None:
    assert "░" not in bar_line(state(11, 10), 80, "en")
    assert "100 %" in bar_line(state(11, 10), 80, "en")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")]
)
def test_spans_of_time(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown
