"""The hub's log, redirected standard output, and the tail of a log file."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.cli.lifecycle import follow_file
from tabane.hub.process.logs import MOST_CAUSES, TRACE, HubLogs, LogBudget
from tabane.upstreams.processes.log_files import last_lines
from tests.harness.patience import LONG, wait_until

log = logging.getLogger("tabane.test")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    root = logging.getLogger()
    before = root.level
    yield str(tmp_path / "hub.log")
    root.setLevel(before)


def opened(
    path: str, level: str = "info", size: int = 1 << 20, count: int = 3
) -> contextlib.closing[HubLogs]:
    return contextlib.closing(HubLogs(path, level, size, count, aloud=False))


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("trace", ["t", "d", "i", "w", "e"]),
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
        ("silent", []),
    ],
)
def test_a_level_decides_what_is_written(path: str, level: str, seen: list[str]) -> None:
    with opened(path, level):
        for number, text in ((TRACE, "t"), (10, "d"), (20, "i"), (30, "w"), (40, "e")):
            log.log(number, text)
    assert [line.rpartition(" ")[2] for line in Path(path).read_text().splitlines()] == seen


def test_a_secret_is_hidden_in_messages_and_in_tracebacks(path: str) -> None:
    with opened(path) as logs:
        logs.hide(["s3cr3t-value"])
        log.info("the token is %s", "s3cr3t-value")
        try:
            raise ValueError("s3cr3t-value")
        except ValueError:
            log.exception("it failed")
    text = Path(path).read_text()
    assert "s3cr3t" not in text
    assert "the token is ***" in text
    assert "ValueError: ***" in text


def test_a_message_cannot_pretend_to_be_another_entry(path: str) -> None:
    with opened(path):
        log.info("session 1 is %s", "x\n2026-01-01 00:00:00.000 ERROR tabane: all is lost")
    lines = Path(path).read_text().splitlines()
    assert lines[1].startswith("    2026")


def test_files_are_rotated_bounded_and_their_users_alone(path: str) -> None:
    with opened(path, size=1000, count=3):
        for number in range(100):
            log.info("entry %d %s", number, "x" * 100)
    folder = Path(path).parent
    assert sorted(found.name for found in folder.iterdir()) == ["hub.log", "hub.log.1", "hub.log.2"]
    for found in folder.iterdir():
        assert found.stat().st_size <= 1000
        assert stat.S_IMODE(found.stat().st_mode) == 0o600
    assert "entry 99 " in Path(path).read_text()
    assert "entry 99 " not in (folder / "hub.log.1").read_text()


def test_a_log_that_another_put_in_its_place_is_not_renamed(path: str) -> None:
    with opened(path, size=1000, count=3):
        log.info("entry of the first")
        Path(path).unlink()
        Path(path).write_text("entry of another\n")
        for number in range(8):
            log.info("entry %d %s", number, "x" * 100)
        assert Path(path).read_text().startswith("entry of another\n")
        assert not Path(f"{path}.1").exists()


def test_one_file_is_enough(path: str) -> None:
    with opened(path, size=1000, count=1):
        for number in range(50):
            log.info("entry %d %s", number, "x" * 100)
    assert [found.name for found in Path(path).parent.iterdir()] == ["hub.log"]
    assert os.path.getsize(path) <= 1000


SERVER = logging.getLogger("tabane.upstreams.conversation")


def test_a_server_that_floods_the_log_is_summed_up_and_the_rest_of_the_history_stays(path: str) -> None:
    now = [0.0]
    with contextlib.closing(HubLogs(path, "info", 64 << 10, 1, aloud=False, clock=lambda: now[0])) as logs:
        log.info("the hub runs")
        for number in range(20_000):
            SERVER.warning("%s: skipped line %d", "noisy", number)
        SERVER.warning("%s: skipped a line", "calm")
        log.warning("%s wants something", "noisy", extra={"server": "noisy"})
        now[0] = 59.0
        logs.sum_up()
        assert "suppressed" not in Path(path).read_text()
        now[0] = 61.0
        logs.sum_up()
        SERVER.warning("%s: a minute later", "noisy")
    text = Path(path).read_text()
    assert "the hub runs" in text
    assert text.count("noisy: skipped") == 60
    assert "noisy wants" not in text
    assert "calm: skipped" in text
    assert "noisy: … 19941 more messages of this server were suppressed" in text
    assert text.splitlines()[-1].endswith("noisy: a minute later")


def test_long_entries_of_a_server_spend_its_budget_of_bytes(path: str) -> None:
    with opened(path) as logs:
        logs.hide(["s3cr3t-value"])
        for _ in range(50):
            SERVER.warning("%s: %s", "noisy", "x" * 20_000)
        SERVER.warning("%s: %s", "other", "y" * 50_000_000 + "s3cr3t-value")
    text = Path(path).read_text()
    assert text.count("x" * 20_000) == 2
    assert "48 more messages of this server" in text, "summed up at the end as well"
    assert len(text) < 100_000
    assert "s3cr3t" not in text


def test_any_line_of_source_is_bounded_whoever_causes_it(path: str) -> None:
    with opened(path):
        for number in range(1000):
            log.info("session %d of a client", number)
        log.info("another line")
    text = Path(path).read_text()
    assert text.count("of a client") == 300
    assert "700 more messages of this kind" in text
    assert "another line" in text


def test_causes_without_end_do_not_fill_the_memory(path: str) -> None:
    budget = LogBudget(lambda: 0.0)
    for number in range(5000):
        record = logging.LogRecord("tabane.catalog.x", logging.INFO, "", 0, "%s", (f"server {number}",), None)
        if budget.admits(record):
            budget.spend(record, 10)
    assert len(budget._counts) <= MOST_CAUSES + 1


def test_what_cannot_be_written_is_lost_and_nothing_else_happens(path: str) -> None:
    with opened(path, size=200):
        log.info("before")
        os.chmod(Path(path).parent, 0o500)
        try:
            Path(path).parent.rename(Path(path).parent.with_name("moved"))
            for _ in range(10):
                log.info("x" * 100)
                log.info("lone %s", "\ud800")
        finally:
            moved = Path(path).parent.with_name("moved")
            moved.chmod(0o700)
            moved.rename(Path(path).parent)


def test_the_last_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number} {'x' * 500}\n" for number in range(1000)))
    lines, end = last_lines(str(path), 3)
    assert [line.split()[1] for line in lines] == ["997", "998", "999"]
    assert end == path.stat().st_size
    assert len(last_lines(str(path), 5000)[0]) == 1000
    path.write_text("")
    assert last_lines(str(path), 3) == ([], 0)


def test_a_file_is_followed_over_its_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    seen: list[str] = []

    def follow() -> None:
        for line in follow_file(str(path), len("old\n")):
            seen.append(line)
            if line == "end":
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()

    def grown() -> bool:
        with path.open("a") as file:
            file.write("one\n")
        return "one" in seen

    wait_until(grown, "what is added is seen")
    path.rename(tmp_path / "log.1")
    path.write_text("two\nend\n")
    thread.join(LONG)
    assert not thread.is_alive()
    assert seen[-2:] == ["two", "end"]
    assert "old" not in seen


STEAL = """
import os, subprocess, sys
from tabane.hub.local.stdio import steal
read_fd, write_fd = steal()
print("a stray print", flush=True)
os.write(1, b"a stray write\\n")
subprocess.run(["echo", "a stray child"])
assert sys.stdin.read() == "", "nobody else reads what the client says"
os.write(write_fd, b"said: " + os.read(read_fd, 100))
"""


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    done = subprocess.run([sys.executable, "-c", STEAL], input=b"hello", capture_output=True, timeout=LONG)
    assert done.stdout == b"said: hello"
    assert done.stderr.splitlines() == [b"a stray print", b"a stray write", b"a stray child"]


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_are_no_obstacle(closed: str) -> None:
    steal = "from tabane.hub.local.stdio import steal; r, w = steal()"
    script = f"import os; {steal}; assert min(r, w) > 2; os.fstat(2)"
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{script}" {closed}'], timeout=LONG)
    assert done.returncode == 0
