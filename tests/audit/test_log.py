"""The log keeps each acknowledged entry: after kill -9, on a full disk, over rotation, and for one writer."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec import structs

from tabane.audit.chain import own_key
from tabane.audit.entry import AuditEntry, AuditOptions, decode_entry
from tabane.audit.log import DAY, AuditLog, old_files
from tabane.errors import AuditError
from tests.audit.written_log import (
    CALLER,
    SMALL,
    TARGET,
    entries,
    files,
    lines,
    names,
    opened,
    paths,
    verified,
    write,
)
from tests.harness.patience import until

DROPPING = AuditOptions(full="drop")


def call(log: AuditLog, request: str = "1") -> None:
    log.record(CALLER, TARGET, log.prepare(b"{}"), request)


@contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """No file of this process can grow beyond ``room`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


# -- entries -------------------------------------------------------------------------------------------


def test_an_entry_says_who_called_what(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.record(CALLER, TARGET, log.prepare(b'{"n":1}'), "7", "failed", 0.0125, 42, 5, 'not "found"')
    entry = entries(tmp_path)[-1]
    assert (entry.type, entry.key, entry.client, entry.face, entry.session) == (
        "call", "local", "an assistant", "mcp", "s1",
    )  # fmt: skip
    assert (entry.kind, entry.name, entry.server, entry.request) == (
        "tool", "github__get_issue", "github", "7",
    )  # fmt: skip
    assert bytes(entry.arguments) == b'{"n":1}'
    assert (entry.outcome, entry.reason, entry.ms) == ("failed", 'not "found"', 12.5)
    assert (entry.bytes, entry.saved) == (42, 5)
    assert re.fullmatch(r"2027-01-15T08:00:0\d\.000Z", entry.time)


def test_an_entry_is_in_the_file_when_record_returns(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        call(log, "now")
        assert entries(tmp_path)[-1].request == "now"


@pytest.mark.parametrize("text", ['"', "\n", "\ud800", "日本語", "\0", "x" * 100_000, "\\"])
def test_no_text_of_a_client_breaks_a_line(tmp_path: Path, text: str) -> None:
    with opened(tmp_path) as log:
        log.record(
            structs.replace(CALLER, client=text, session=text),
            TARGET,
            log.prepare(b""),
            text,
            "ok",
            0,
            0,
            0,
            text,
        )
        log.event("access", text, text, "refused", text, label=text, source=text)
        call(log, "after")
    assert [entry.request for entry in entries(tmp_path)][-1] == "after"
    assert verified(tmp_path).intact


def test_metadata_has_no_arguments(tmp_path: Path) -> None:
    write(tmp_path, 1, AuditOptions("metadata"))
    assert b'"arguments"' not in lines(tmp_path)[-1]


def test_settings_take_effect_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.use(AuditOptions("off"))
        call(log, "unseen")
        log.event("admin", "local", "unseen")
        log.use(AuditOptions("metadata"))
        log.record(CALLER, TARGET, log.prepare(b'{"n":1}'), "seen")
    assert [entry.request for entry in entries(tmp_path)][-1] == "seen"
    assert names(tmp_path) == ["file", "off", "metadata", "github__get_issue"]
    assert b'"arguments"' not in lines(tmp_path)[-1]


def test_only_the_owner_can_read_the_log(tmp_path: Path) -> None:
    write(tmp_path, 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"audit": 0o700, "audit.key": 0o600, "audit.head": 0o600}
    assert stat.S_IMODE(files(tmp_path)[0].stat().st_mode) == 0o600


# -- events --------------------------------------------------------------------------------------------


def test_an_event_is_an_entry(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.event("admin", "local", "keys_create", detail="work", label="me")
    entry = entries(tmp_path)[-1]
    assert (entry.type, entry.key, entry.name, entry.outcome, entry.reason) == (
        "admin", "local", "keys_create", "ok", "work",
    )  # fmt: skip


def test_a_flood_of_failed_attempts_is_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for _ in range(1000):
            log.event("access", "", "sign_in", "refused", "unknown key", source="192.0.2.1")
        log.event("access", "", "sign_in", "refused", "unknown key", source="192.0.2.2")
    found = [(entry.source, entry.count) for entry in entries(tmp_path) if entry.type == "access"]
    assert found == [("192.0.2.1", 0), ("192.0.2.2", 0), ("192.0.2.1", 999)]


def test_a_flood_from_many_sources_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for number in range(5000):
            log.event("access", "", "sign_in", "refused", source=f"2001:db8::{number:x}")
    found = [entry for entry in entries(tmp_path) if entry.type == "access"]
    assert len(found) < 110
    assert sum(max(1, entry.count) for entry in found) == 5000


# -- start and end -------------------------------------------------------------------------------------


def test_the_next_start_continues_the_chain(tmp_path: Path) -> None:
    for _ in range(3):
        write(tmp_path, 2)
    assert [entry.seq for entry in entries(tmp_path)] == list(range(1, 8))
    assert len(files(tmp_path)) == 1
    assert verified(tmp_path).intact


def test_a_second_process_cannot_write_the_log(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(AuditError, match="Another process is writing the audit log"):
        AuditLog(str(tmp_path), AuditOptions(), asyncio.new_event_loop())


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    write(tmp_path, 3)
    with files(tmp_path)[0].open("ab") as file:
        file.write(b'{"seq":5,"time":"20')
    write(tmp_path, 1)
    assert names(tmp_path)[4:] == ["torn", "github__get_issue"]
    assert verified(tmp_path).intact


def test_an_entry_beyond_the_stored_head_is_taken_over(tmp_path: Path) -> None:
    write(tmp_path, 3)
    head = (tmp_path / "audit.head").read_bytes()
    write(tmp_path, 2)
    (tmp_path / "audit.head").write_bytes(head)
    write(tmp_path, 1)
    assert names(tmp_path)[-1] == "github__get_issue"
    assert verified(tmp_path).intact


def test_an_entry_beyond_the_head_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    write(tmp_path, 3)
    forged = lines(tmp_path)[-1].replace(b'"seq":4', b'"seq":5')
    with files(tmp_path)[0].open("ab") as file:
        file.write(forged)
    write(tmp_path, 1)
    assert "changed" in names(tmp_path)
    assert verified(tmp_path).problems[0][:2] == ("changed", 5)


def test_a_log_without_a_key_that_can_be_read_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "audit.key").write_text("short")
    with pytest.raises(AuditError, match="does not contain a key"):
        AuditLog(str(tmp_path), AuditOptions(), asyncio.new_event_loop())


def keys_of_two(path: str, moment: int) -> list[bytes]:
    """Return the key of a hub, after that of another, which makes it before system call ``moment``."""
    calls, keys = itertools.count(), list[bytes]()

    def before_call(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__module__ == "posix" and next(calls) == moment:
            sys.setprofile(None)
            keys.append(own_key(path))

    sys.setprofile(before_call)
    try:
        keys.append(own_key(path))
    finally:
        sys.setprofile(None)
    return keys


def test_hubs_that_make_the_key_at_once_have_the_same_key(tmp_path: Path) -> None:
    for moment in itertools.count():
        keys = keys_of_two(str(tmp_path / f"{moment}.key"), moment)
        assert len(set(keys)) == 1, f"before call {moment}"
        if len(keys) == 1:
            break
    assert moment > 5
    assert {file.suffix for file in tmp_path.iterdir()} == {".key"}


def test_a_folder_that_cannot_be_made_is_an_error_that_helps(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file")
    with pytest.raises(AuditError, match='audit = "off"'):
        AuditLog(str(tmp_path), AuditOptions(), asyncio.new_event_loop())


@pytest.mark.heavy("a large log")
def test_no_acknowledged_entry_is_lost_by_kill_9(tmp_path: Path) -> None:
    for _ in range(12):
        acknowledged = killed(tmp_path)
        found = {entry.request for entry in entries_so_far(tmp_path)}
        assert {str(number) for number in acknowledged} <= found
        assert verified(tmp_path).intact
    write(tmp_path, 1)
    assert verified(tmp_path).intact


def killed(home: Path, most: int = 700) -> list[int]:
    """Run a process that writes the log, kill it in the midst of that, and return what it acknowledged."""
    command = [sys.executable, "-m", "tests.audit.child_writer", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        seen = [int(child.stdout.readline()) for _ in range(most)]
        child.kill()
        rest = child.stdout.read().splitlines(keepends=True)
    return seen + [int(line) for line in rest if line.endswith(b"\n")]


def entries_so_far(home: Path) -> list[AuditEntry]:
    return [decode_entry(line) for line in lines(home) if line.endswith(b"\n")]


# -- disk ----------------------------------------------------------------------------------------------


def test_a_full_disk_stops_calls_until_it_has_room(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        call(log, "before")
        with full_disk(files(tmp_path)[0].stat().st_size + 50):
            with pytest.raises(AuditError, match="audit log cannot be written"):
                call(log, "lost")
            with pytest.raises(AuditError, match="calls are refused"):
                log.prepare(b"{}")
        call(log, "after")
    found = entries(tmp_path)
    assert [entry.request for entry in found if entry.type == "call"] == ["before", "after"]
    assert [(entry.name, entry.count) for entry in found if entry.name == "lost"] == [("lost", 1)]
    assert verified(tmp_path).intact


def test_a_full_disk_drops_and_counts_entries_if_it_may(tmp_path: Path) -> None:
    with opened(tmp_path, DROPPING) as log:
        with full_disk(files(tmp_path)[0].stat().st_size + 50):
            for _ in range(5):
                call(log, "lost")
        assert log.lost == 5
        call(log, "after")
        assert log.lost == 0
    assert [entry.count for entry in entries(tmp_path) if entry.name == "lost"] == [5]
    assert verified(tmp_path).intact


def test_a_partly_written_entry_leaves_nothing_behind(tmp_path: Path) -> None:
    with opened(tmp_path, DROPPING) as log:
        size = files(tmp_path)[0].stat().st_size
        with full_disk(size + 100):
            call(log, "lost")
        assert files(tmp_path)[0].stat().st_size == size


def test_a_rotation_on_a_full_disk_is_made_up_for(tmp_path: Path) -> None:
    with opened(tmp_path, AuditOptions(size=64 << 10, full="drop")) as log:
        while files(tmp_path)[0].stat().st_size < SMALL.size:
            call(log)
        with full_disk(0):
            call(log, "lost")
        call(log, "after")
    assert names(tmp_path)[-3:] == ["file", "lost", "github__get_issue"]
    assert verified(tmp_path).intact


async def test_a_strict_log_with_an_old_head_answers_on_a_full_disk(tmp_path: Path) -> None:
    head, loop = Path(paths(tmp_path).head), asyncio.get_running_loop()
    log = AuditLog(str(tmp_path), AuditOptions(), loop)
    call(log)
    old = head.read_bytes()
    call(log)
    log.close()
    head.write_bytes(old)  # as a crash may leave it
    log = AuditLog(str(tmp_path), AuditOptions(sync="strict", full="drop"), loop)
    try:
        with full_disk(files(tmp_path)[-1].stat().st_size):
            waits = log.record(CALLER, TARGET, log.prepare(b"{}"), "lost")
            assert waits is not None
            await asyncio.wait_for(waits, 10)
    finally:
        log.close()


async def test_a_strict_log_answers_when_entries_are_on_disk(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path), AuditOptions(sync="strict"), asyncio.get_running_loop())
    waits = [log.record(CALLER, TARGET) for _ in range(200)]
    assert None not in waits
    await asyncio.gather(*(wait for wait in waits if wait is not None))
    log.close()
    assert len(entries(tmp_path)) == 201


# -- files ---------------------------------------------------------------------------------------------


def test_files_follow_each_other(tmp_path: Path) -> None:
    write(tmp_path, 1000, SMALL)
    assert all(file.stat().st_size < SMALL.size + 1000 for file in files(tmp_path))
    firsts = [file.read_bytes().splitlines()[0] for file in files(tmp_path)]
    assert all(b'"name":"file","previous":"' in first for first in firsts)


async def test_files_beyond_the_limit_are_removed_and_that_is_recorded(tmp_path: Path) -> None:
    await many(tmp_path, AuditOptions(size=64 << 10, files=3))
    report = verified(tmp_path)
    assert report.intact
    assert report.first > 1
    assert "removed" in names(tmp_path)
    assert len(files(tmp_path)) <= 4


async def many(home: Path, options: AuditOptions) -> None:
    log = AuditLog(str(home), options, asyncio.get_running_loop())
    for _ in range(8):
        before = files(home)[-1]
        while files(home)[-1] == before:
            call(log)
        await until(lambda: len(files(home)) <= options.files)
    log.close()


async def test_old_files_are_removed(tmp_path: Path) -> None:
    await aging(tmp_path)
    assert verified(tmp_path).intact
    assert entries(tmp_path)[0].seq > 1


async def aging(home: Path) -> None:
    log, clock = daily(home)
    first = files(home)[0]
    for _ in range(12):
        go_on(log, home, clock, DAY)
    await until(lambda: not first.exists())
    log.close()


def daily(home: Path) -> tuple[AuditLog, Clock]:
    """Return a log that is kept for eight days, with an entry."""
    clock = Clock()
    log = AuditLog(str(home), AuditOptions(days=8), asyncio.get_running_loop(), clock=clock)
    call(log)
    written_at(home, clock)
    return log, clock


def go_on(log: AuditLog, home: Path, clock: Clock, seconds: float) -> None:
    """Write an entry after so much time."""
    clock.now += seconds
    call(log)
    written_at(home, clock)


def written_at(home: Path, clock: Clock) -> None:
    """Give the newest file the time of the clock; the others keep theirs."""
    os.utime(files(home)[-1], (clock.now,) * 2)


@pytest.mark.parametrize("years", [1, 10, 70])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_clock_that_jumps_deletes_nothing_and_one_that_stays_does(
    years: int, restarts: bool, tmp_path: Path
) -> None:
    log, clock = daily(tmp_path)
    for _ in range(5):
        go_on(log, tmp_path, clock, DAY)
    before = files(tmp_path)
    if restarts:
        log.close()
        clock.now += years * 365 * DAY
        log = AuditLog(str(tmp_path), AuditOptions(days=8), asyncio.get_running_loop(), clock=clock)
    else:
        clock.now += years * 365 * DAY
    for _ in range(4):
        go_on(log, tmp_path, clock, DAY)
        assert old_files(log.folder, 1_000, 8, clock) is None
    log.close()
    assert set(before) <= set(files(tmp_path))
    log = AuditLog(str(tmp_path), AuditOptions(days=8), asyncio.get_running_loop(), clock=clock)
    for _ in range(6):
        go_on(log, tmp_path, clock, DAY)
    await until(lambda: not before[0].exists())
    log.close()
    report = verified(tmp_path)
    assert report.intact
    assert report.removed[0].first == 1
    assert report.removed[-1].last == report.first - 1


async def test_a_file_that_somebody_else_removes_is_no_retention(tmp_path: Path) -> None:
    await many(tmp_path, AuditOptions(size=64 << 10, files=3))
    files(tmp_path)[0].unlink()
    assert verified(tmp_path).problems[0].kind == "removed"
