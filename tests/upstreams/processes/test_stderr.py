"""What servers write to stderr is kept: bounded, readable, without secrets."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.upstreams.processes import stderr
from tabane.upstreams.processes.stderr import (
    ServerLogFile,
    StderrLines,
    StderrLog,
    StderrRateLimit,
    file_name,
    plain,
    readable,
)
from tests.harness.child_processes import CHILD, PATH, SOON, keeping, linux
from tests.harness.patience import until


def kept(text: str) -> str:
    """Redacts nothing."""
    return text


@asynccontextmanager
async def server_log(
    folder: Path, redact: Callable[[str], str] = kept
) -> AsyncIterator[tuple[StderrLog, int]]:
    """A log of the server ``s``, and the descriptor that feeds it."""
    fd, feed = os.pipe()
    os.set_blocking(fd, False)
    log = StderrLog(asyncio.get_running_loop(), fd, folder, "s", redact)
    try:
        yield log, feed
    finally:
        log.close()
        os.close(feed)


def written(folder: Path) -> list[str]:
    """The lines of the file without their times."""
    return [line.split(" ", 2)[2] for line in (folder / "s.log").read_text().splitlines()]


# What is kept


async def test_the_last_words_are_those_written_up_to_now_without_waiting(tmp_path: Path) -> None:
    async with server_log(tmp_path) as (log, feed):
        assert log.last_words() == ""
        os.write(feed, "起動中\n\nFailed: no such file\n".encode())
        assert log.last_words() == "起動中\nFailed: no such file"
        assert log.lines() == ["起動中", "", "Failed: no such file"]
        log.close()
        assert log.last_words() == "起動中\nFailed: no such file"
        assert written(tmp_path) == ["起動中", "", "Failed: no such file"]


async def test_a_question_without_an_end_is_shown_once_it_is_waiting_for_its_answer(tmp_path: Path) -> None:
    async with server_log(tmp_path) as (log, feed):
        os.write(feed, b"API key: ")
        await until(log.last_words)
        assert log.last_words() == "API key: "
        log.close()
        assert log.lines() == ["API key: "]


async def test_what_a_dead_child_wrote_last_is_there(tmp_path: Path) -> None:
    async with keeping() as processes:
        child = await processes.spawn([sys.executable, CHILD, "--stderr", "I need a key", "--exit", "3"], {})
        fd, child.stderr_fd = child.stderr_fd, -1
        log = StderrLog(asyncio.get_running_loop(), fd, tmp_path, "s", kept)
        assert (await asyncio.wait_for(child.exited, SOON)).code == 3
        assert log.last_words() == "I need a key"
        log.close()


async def test_memory_holds_the_last_lines_and_last_words_are_few(tmp_path: Path) -> None:
    async with server_log(tmp_path) as (log, feed):
        os.write(feed, b"".join(b"line %d\n" % n for n in range(200)))
        assert log.lines() == [f"line {n}" for n in range(100, 200)]
        assert log.last_words().splitlines() == [f"line {n}" for n in range(190, 200)]
        os.write(feed, b"y" * 3000 + b"\n")
        assert log.last_words() == "y" * 1000


async def test_a_log_is_the_users_alone_and_made_when_there_is_something_to_log(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "servers"

    async with server_log(folder) as (log, feed):
        assert not folder.exists()
        os.write(feed, b"hello\n")
        log.lines()
        assert stat.S_IMODE((folder / "s.log").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_log_that_cannot_be_written_is_said_once_and_memory_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "s.log").symlink_to(tmp_path / "target")

    async with server_log(tmp_path) as (log, feed):
        for n in range(3):
            os.write(feed, b"line %d\n" % n)
            log.lines()
        assert log.lines() == ["line 0", "line 1", "line 2"]
    assert (tmp_path / "target").read_text() == "untouched"
    assert len([record for record in caplog.records if "s.log" in record.getMessage()]) == 1


async def test_closing_twice_and_after_the_end_of_file_closes_one_descriptor(tmp_path: Path) -> None:
    fd, feed = os.pipe()
    os.set_blocking(fd, False)
    log = StderrLog(asyncio.get_running_loop(), fd, tmp_path, "s", kept)
    os.close(feed)
    assert log.lines() == []
    again = os.open(os.devnull, os.O_RDONLY)  # gets the number that became free
    assert again in (fd, feed)
    log.close()
    log.close()
    os.close(again)


# Files


def test_a_log_rotates_and_one_predecessor_is_kept(tmp_path: Path) -> None:
    log = ServerLogFile(tmp_path, "s")
    for n in range(40):
        log.append([f"{n} {'x' * 1000}"] * 100)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"s.log", "s.log.1"}
    assert all(size <= stderr.FILE_LIMIT for size in sizes.values())
    assert [line.split(" ")[2] for line in log.last(1000)] == [
        f"{n}" for n in range(30, 40) for _ in range(100)
    ]


def test_two_instances_of_a_server_share_its_log_through_a_rotation(tmp_path: Path) -> None:
    one, other = ServerLogFile(tmp_path, "s"), ServerLogFile(tmp_path, "s")
    for n in range(30):
        (one, other)[n % 2].append([f"{n} {'x' * 1000}"] * 100)
    numbers = [int(line.split(" ")[2]) for line in one.last(2000)][::100]
    assert numbers == list(range(30))[-len(numbers) :]
    assert one.last(500) == other.last(500)


def test_the_last_lines_of_a_server_that_never_wrote_are_none(tmp_path: Path) -> None:
    assert ServerLogFile(tmp_path, "never").last(50) == []
    ServerLogFile(tmp_path, "s").append(["one"])
    assert ServerLogFile(tmp_path, "s").last(0) == []


names = st.text(min_size=1, max_size=80)


@given(names)
@example("..")
@example("../../etc/passwd")
@example("CON")
@example("a" * 300)
@example("あ" * 100)
@example("\ud83d")
def test_any_name_of_a_server_makes_a_safe_file_name(name: str) -> None:
    made = file_name(name)
    assert os.path.basename(made) == made
    assert made.isascii()
    assert len(made) <= 80
    assert made.endswith(".log")
    assert not made.startswith((".", "-"))


@given(names, names)
@example("git", "Git")
@example("a/b", "a_b")
@example("a", "a.log")
def test_servers_of_different_names_have_different_logs_even_where_case_is_not_told_apart(
    a: str, b: str
) -> None:
    if a != b:
        assert file_name(a).lower() != file_name(b).lower()


def test_a_plain_name_is_the_files_own() -> None:
    assert file_name("my-server_2.x") == "my-server_2.x.log"


# Lines


@given(st.lists(st.binary(max_size=30), max_size=8), st.data())
def test_lines_are_the_same_however_their_bytes_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    stream, cutter, taken = whole, StderrLines(), list[bytes]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        taken += [line for line, cut in cutter.feed(stream[:size]) if not cut]
        stream = stream[size:]
    taken += [line for line, _ in cutter.rest()]
    assert b"\n".join(taken) == (whole.removesuffix(b"\n") if whole.endswith(b"\n") else whole)


def test_a_line_without_end_is_cut_and_holds_no_memory() -> None:
    lines, taken = StderrLines(), list[tuple[bytes, bool]]()
    for _ in range(1000):
        taken += lines.feed(b"x" * 10_000)
    taken += lines.feed(b"\nnext\n")
    assert [(len(line) < 6000, cut) for line, cut in taken] == [(True, True), (True, False)]
    assert readable(taken, kept) == ["x" * stderr.LINE_LIMIT + " …", "next"]
    assert lines.rest() == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m text\r", "red text"),
        ("10%\r50%\r100%", "100%"),
        ("\x1b]0;title\x07shell\x1b(B", "shellB"),
        ("bell\x07 null\x00 c1\x9b tab\tkept", "bell null c1 tab\tkept"),
        ("日本語 ok", "日本語 ok"),
        ("\x1b", ""),
        ("\x1b]0;a title without end", ""),
    ],
)
def test_a_line_gives_no_orders_to_a_terminal(written: str, shown: str) -> None:
    assert plain(written) == shown
    assert plain(f"before\n{written}\nafter") == f"before\n{shown}\nafter"


@given(st.text())
def test_nothing_readable_holds_a_control_character(text: str) -> None:
    for line in readable([(text.encode("utf-8", "replace"), False)], kept):
        assert not [c for c in line if c != "\t" and (ord(c) < 32 or 127 <= ord(c) < 160)]


def test_bytes_that_are_no_utf_8_are_shown_as_such() -> None:
    assert readable([(b"caf\xe9 \xff", False)], kept) == ["caf\ufffd \ufffd"]


# Secrets


def hidden(text: str) -> str:
    return text.replace("s3cret-value", "***").replace("-----KEY\nBODY\nEND-----", "***")


async def test_a_secret_is_hidden_in_memory_and_file_even_if_it_comes_in_two_pieces(tmp_path: Path) -> None:
    async with server_log(tmp_path, hidden) as (log, feed):
        os.write(feed, b"token=s3cret")
        assert log.lines() == []
        os.write(feed, b"-value\nthen s3cret-value again\n")
        assert log.lines() == ["token=***", "then *** again"]
        os.write(feed, b"-----KEY\nBODY\nEND-----\nafter\n")
        assert log.lines() == ["token=***", "then *** again", "***", "after"]
        log.close()
        assert written(tmp_path) == ["token=***", "then *** again", "***", "after"]


async def test_a_secret_is_not_shown_in_part_where_a_flood_is_kept_in_parts(tmp_path: Path) -> None:
    chunk = b"lue\n" + b"z" * 32_742 + b"\nshort\ntoken=s3cret-va"
    assert len(chunk) == 1 << 15

    async with server_log(tmp_path, hidden) as (log, feed):
        for _ in range(60):
            os.write(feed, chunk)
            assert not [line for line in log.lines() if "s3c" in line]
        os.write(feed, b"lue\n")
    assert not [line for line in written(tmp_path) if "s3c" in line]


@given(st.integers(0, 200), st.integers(0, 40))
def test_a_secret_where_a_line_is_cut_is_not_shown_in_part(before: int, secrets: int) -> None:
    edge = stderr.LINE_LIMIT - before
    line = (
        b"s3cret-value" * secrets + b"x" * max(0, edge - 12 * secrets) + b"s3cret-value" * 200 + b"y" * 9000
    )
    for shown in readable(StderrLines().feed(line + b"\n"), hidden):
        assert "s3c" not in shown
        assert len(shown) <= stderr.LINE_LIMIT + 2


# Floods


def test_an_allowance_is_used_up_and_grows_again() -> None:
    allowance = StderrRateLimit(rate=10, burst=20, now=0.0)
    assert [allowance.take(15, 0.0), allowance.take(15, 0.0), allowance.take(15, 0.5)] == [True, False, False]
    assert allowance.take(15, 1.0)
    assert [allowance.take(21, 100.0), allowance.take(20, 100.0)] == [False, True]


@linux
async def test_a_flood_keeps_neither_the_hub_from_working_nor_memory_nor_disk(tmp_path: Path) -> None:
    async with keeping() as processes:
        command = [sys.executable, CHILD, "--flood-stderr", "0", "--ignore-eof"]
        child = await processes.spawn(command, PATH)
        fd, child.stderr_fd = child.stderr_fd, -1
        began = time.monotonic()
        log = StderrLog(asyncio.get_running_loop(), fd, tmp_path, "s", kept)
        written = ServerLogFile(tmp_path, "s")
        await until(lambda: any("bytes left out" in line for line in written.last(10_000)))
        assert len(log.lines()) == stderr.KEPT_LINES
        assert "flood " * 20 in log.lines()
        log.close()
        took = time.monotonic() - began
    spent = stderr.BURST + (took + 1) * stderr.RATE
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * spent


async def test_after_a_flood_everything_is_kept_again(tmp_path: Path) -> None:
    async with server_log(tmp_path) as (log, feed):
        os.set_blocking(feed, False)
        for _ in range(60):
            os.write(feed, b"z" * 30_000 + b"\n")
            log.lines()

        def said() -> bool:
            os.write(feed, b"quiet\n")
            return "quiet" in log.last_words()

        await until(said)
        log.close()
        assert "quiet" in written(tmp_path)[-1]
        assert any("bytes left out" in line for line in written(tmp_path))


def test_lines_behind_a_cursor_are_returned_once_also_after_a_rotation(tmp_path: Path) -> None:
    log = ServerLogFile(tmp_path, "s")
    cursor = log.end(10).cursor
    assert log.after(cursor, 10) == ([], cursor, False)
    log.append(["one", "two"])
    first = log.after(cursor, 10)
    assert [line.split(" ")[2] for line in first.lines] == ["one", "two"]
    assert log.end(1).cursor == first.cursor
    log.append(["three"])
    os.rename(log.path, f"{log.path}.1")
    log.append(["four"])
    second = log.after(first.cursor, 10)
    assert [line.split(" ")[2] for line in second.lines] == ["three", "four"]
    assert not second.missed
    assert log.after(second.cursor, 10) == ([], second.cursor, False)


def test_a_reader_that_fell_behind_is_told_so(tmp_path: Path) -> None:
    log = ServerLogFile(tmp_path, "s")
    log.append(["first"])
    cursor = log.end(1).cursor
    log.append([f"{number} {'x' * 1000}" for number in range(500)])
    found = log.after(cursor, 10_000)
    assert found.missed
    assert found.lines[-1].split(" ")[2] == "499"
    assert sum(map(len, found.lines)) < 1 << 18
    few = log.after(cursor, 5)
    assert (len(few.lines), few.missed) == (5, True)
    for number in range(2):
        os.rename(log.path, f"{log.path}.1")
        log.append([f"after {number}"])
    lost = log.after(cursor, 10)
    assert (lost.missed, [line.split(" ")[3] for line in lost.lines]) == (True, ["1"])


@pytest.mark.parametrize("cursor", ["", "x", "1:-1", "99999999999999:0", "1:99999999999999999999"])
def test_a_cursor_of_nobody_is_followed_by_what_is_there(tmp_path: Path, cursor: str) -> None:
    log = ServerLogFile(tmp_path, "s")
    log.append(["one"])
    assert len(log.after(cursor, 10).lines) == 1
