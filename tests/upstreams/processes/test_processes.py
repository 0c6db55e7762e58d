"""Child processes: exact arguments and environment, detected ends, complete termination."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from tabane.errors import UpstreamUnavailable
from tabane.upstreams.processes import launch
from tabane.upstreams.processes.child_environment import child_environment
from tabane.upstreams.processes.processes import ChildExit, ChildProcess, ChildProcesses
from tests.harness.child_processes import (
    PATH,
    SOON,
    answering,
    descriptors,
    end_input,
    everything,
    in_process_table,
    keeping,
    let_go,
    linux,
    misbehaving,
    noted,
    running,
    zombies,
)

pytestmark = linux


# What a child is given


def test_a_child_inherits_what_programs_need_and_what_is_configured() -> None:
    hub = {
        "HOME": "/home/a",
        "LOGNAME": "a",
        "PATH": "/bin",
        "SHELL": "/bin/sh",
        "TERM": "xterm",
        "USER": "a",
        "LANG": "ja_JP.UTF-8",
        "SECRET": "s",
        "PYTHONPATH": "/x",
    }
    assert child_environment(hub, {"KEY": "v", "PATH": "/opt/bin"}) == {
        "HOME": "/home/a",
        "LOGNAME": "a",
        "PATH": "/opt/bin",
        "SHELL": "/bin/sh",
        "TERM": "xterm",
        "USER": "a",
        "LANG": "ja_JP.UTF-8",
        "KEY": "v",
    }


def test_a_shell_function_in_the_hubs_environment_is_not_inherited_but_may_be_configured() -> None:
    hub = {"HOME": "/home/a", "TERM": "() { :; }"}
    assert child_environment(hub, {}) == {"HOME": "/home/a"}
    assert child_environment(hub, {"TERM": "() { :; }"}) == hub


async def test_a_childs_environment_is_what_it_was_given_and_the_marker() -> None:
    async with keeping() as processes:
        given = {**PATH, "名": "値", "EMPTY": "", "LINES": "a\nb"}
        child = await processes.spawn(["cat", "/proc/self/environ"], given)
        pairs = dict(
            part.split("=", 1) for part in os.fsdecode(await everything(child.stdout_fd)).split("\0") if part
        )
        assert pairs.pop("TABANE_INSTANCE")
        assert pairs == given


async def test_a_child_has_its_three_pipes_and_no_other_descriptor() -> None:
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)

    try:
        async with keeping() as processes:
            for _ in range(3):
                await processes.spawn(["sleep", "100"], PATH)
            child = await processes.spawn(["ls", "-l", "/proc/self/fd"], PATH)
            listing = (await everything(child.stdout_fd)).decode().splitlines()[1:]
            targets = {line.split(" -> ")[0].split()[-1]: line.split(" -> ")[1] for line in listing}
            assert {fd: target.split(":")[0] for fd, target in targets.items() if fd in "012"} == {
                "0": "pipe",
                "1": "pipe",
                "2": "pipe",
            }
            assert len(targets) == 4  # and the one of the listing
    finally:
        os.close(leaked)


async def test_a_child_leads_a_session_of_its_own_with_every_signal_at_its_default() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with keeping() as processes:
            child = await processes.spawn(["cat", "/proc/self/stat", "/proc/self/status"], PATH)
            shown = (await everything(child.stdout_fd)).decode()
            fields = shown.splitlines()[0].rpartition(")")[2].split()
            assert (int(fields[2]), int(fields[3])) == (child.pid, child.pid)
            status = dict(line.split(":\t") for line in shown.splitlines()[1:] if ":\t" in line)
            assert int(status["SigBlk"], 16) == 0
            assert int(status["SigIgn"], 16) & 0x7FFFFFFF == 0  # 32 and 33 are the C library's own
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_command_is_looked_up_on_the_childs_own_path_and_runs_in_its_cwd(tmp_path: Path) -> None:
    program = tmp_path / "where-am-i"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o700)
    async with keeping() as processes:
        for command in ("where-am-i", "./where-am-i"):
            child = await processes.spawn([command], {"PATH": f"/nowhere:{tmp_path}:/bin"}, str(tmp_path))
            assert (await everything(child.stdout_fd)).decode().strip() == str(tmp_path)


# What cannot be started


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        ("no-such-command", None, "no-such-command was not found on PATH (/nowhere:/bin). Install it"),
        ("./no-such-command", None, "./no-such-command does not exist"),
        ("{tmp}/plain", None, "{tmp}/plain cannot be executed"),
        ("{tmp}/orphaned", None, "{tmp}/orphaned exists, but its interpreter /no/such/interpreter does not"),
        ("{tmp}/rubbish", None, "{tmp}/rubbish is neither a program for this machine"),
        ("sh", "{tmp}/nowhere", "The working directory {tmp}/nowhere does not exist"),
        ("sh", "{tmp}/plain", "The working directory {tmp}/plain cannot be used (Not a directory)"),
        ("sh\0", None, "could not be started (Invalid argument)"),
        ("sh\ud800", None, "contain a character that the system does not accept"),
    ],
)
async def test_a_start_that_fails_says_what_is_missing(
    tmp_path: Path, command: str, cwd: str | None, said: str
) -> None:
    for name, text, mode in (
        ("plain", "x", 0o600),
        ("orphaned", "#!/no/such/interpreter -x\n", 0o700),
        ("rubbish", "rubbish", 0o700),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    async with keeping() as processes:
        await processes.spawn(["true"], PATH)
        before = descriptors()
        with pytest.raises(UpstreamUnavailable) as refused:
            await processes.spawn(
                [command.format(tmp=tmp_path)], {"PATH": "/nowhere:/bin"}, cwd and cwd.format(tmp=tmp_path)
            )
        assert said.format(tmp=tmp_path) in refused.value.text()
        assert descriptors() == before


async def test_arguments_that_are_too_long_are_refused() -> None:
    async with keeping() as processes:
        with pytest.raises(UpstreamUnavailable, match="longer than the system allows"):
            await processes.spawn(["true", *["x" * 100_000] * 50], PATH)


# How a child ends


@pytest.mark.parametrize(
    ("script", "how", "said"),
    [
        ("exit 3", ChildExit(code=3), "it ended with exit status 3"),
        ("exit 0", ChildExit(code=0), "it ended with exit status 0"),
        ("kill -9 $$", ChildExit(signal=9), "it was killed by SIGKILL"),
    ],
)
async def test_how_a_child_ended_is_told(script: str, how: ChildExit, said: str) -> None:
    async with keeping() as processes:
        child = await processes.spawn(["sh", "-c", script], PATH)
        assert await asyncio.wait_for(child.exited, SOON) == how
    assert str(how) == said


async def test_a_child_that_heeds_end_of_file_is_sent_no_signal() -> None:
    async with keeping() as processes:
        child = await misbehaving(processes)
        end_input(child)
        start = time.monotonic()
        assert await child.stop(SOON) == ChildExit(code=0)
        assert time.monotonic() - start < SOON / 2


@pytest.mark.parametrize(
    ("flags", "how", "rounds"),
    [
        (["--ignore-eof"], ChildExit(signal=signal.SIGTERM), 1),
        (["--ignore-eof", "--ignore-term"], ChildExit(signal=signal.SIGKILL), 2),
    ],
)
async def test_a_child_that_ignores_its_end_is_ended_in_time(
    flags: list[str], how: ChildExit, rounds: int
) -> None:
    grace = 0.3

    async with keeping() as processes:
        child = await misbehaving(processes, *flags)
        end_input(child)
        start = time.monotonic()
        assert await child.stop(grace) == how
        assert rounds * grace <= time.monotonic() - start < SOON
    assert not in_process_table(child.pid)


KINDS = ["group", "session", "nameless", "group,session,nameless,session"]


@pytest.mark.parametrize("stubborn", [[], ["--stubborn"]], ids=["", "stubborn"])
@pytest.mark.parametrize("kinds", KINDS)
async def test_stopping_a_child_ends_its_grandchildren_wherever_they_went(
    tmp_path: Path, kinds: str, stubborn: list[str]
) -> None:
    async with keeping() as processes:
        pids = tmp_path / "pids"
        child = await misbehaving(processes, "--grandchildren", kinds, "--pids", str(pids), *stubborn)
        everyone = [pid for group in noted(pids).values() for pid in group]
        assert len(everyone) == 1 + len(kinds.split(","))
        assert all(running(pid) for pid in everyone)
        end_input(child)
        await child.stop(0.2)
        assert not [pid for pid in everyone if in_process_table(pid)]


@pytest.mark.parametrize("kinds", KINDS)
async def test_what_a_child_leaves_behind_when_it_dies_is_ended(tmp_path: Path, kinds: str) -> None:
    async with keeping() as processes:
        pids = tmp_path / "pids"
        child = await misbehaving(processes, "--grandchildren", kinds, "--pids", str(pids), "--stubborn")
        everyone = [pid for group in noted(pids).values() for pid in group]
        order = list[str]()  # a test that comes to its turn late finds both done
        child.exited.add_done_callback(lambda _: order.append("exited"))
        child.gone.add_done_callback(lambda _: order.append("gone"))
        os.kill(child.pid, signal.SIGKILL)
        assert await asyncio.wait_for(child.exited, SOON) == ChildExit(signal=signal.SIGKILL)
        await asyncio.wait_for(child.gone, SOON)
        assert order == ["exited", "gone"]
        assert not [pid for pid in everyone if in_process_table(pid)]


async def test_killing_a_child_is_immediate_and_whole(tmp_path: Path) -> None:
    async with keeping() as processes:
        pids = tmp_path / "pids"
        flags = ["--ignore-eof", "--ignore-term", "--stubborn", "--grandchildren", "group,session"]
        child = await misbehaving(processes, *flags, "--pids", str(pids))
        child.kill()
        await asyncio.wait_for(child.gone, SOON)
        assert not [pid for group in noted(pids).values() for pid in group if in_process_table(pid)]


async def test_ending_one_child_leaves_the_others_and_theirs_alone(tmp_path: Path) -> None:
    async with keeping() as processes:
        flags = ["--grandchildren", "group,session"]
        one = await misbehaving(processes, *flags, "--pids", str(tmp_path / "one"))
        other = await misbehaving(processes, *flags, "--pids", str(tmp_path / "other"))
        one.kill()
        await asyncio.wait_for(one.gone, SOON)
        theirs = [pid for group in noted(tmp_path / "other").values() for pid in group]
        assert len(theirs) == 3
        assert all(running(pid) for pid in theirs)
        assert not other.exited.done()
        assert not [p for group in noted(tmp_path / "one").values() for p in group if in_process_table(p)]


async def test_a_grandchild_that_holds_the_pipes_does_not_hide_the_childs_death(tmp_path: Path) -> None:
    async with keeping() as processes:
        child = await misbehaving(processes, "--grandchildren", "session", "--stubborn")
        os.kill(child.pid, signal.SIGTERM)
        assert await asyncio.wait_for(child.exited, SOON) == ChildExit(signal=signal.SIGTERM)
        with pytest.raises(BlockingIOError):  # no end of file: the grandchild could still write
            os.read(child.stdout_fd, 1)


# Many


@pytest.fixture
def zombies_before() -> list[int]:
    """Return the orphans of other tests that a hub in this process has adopted."""
    return zombies()


async def test_a_hundred_starts_leave_no_descriptor_and_no_zombie(zombies_before: list[int]) -> None:
    before = descriptors()
    async with keeping() as processes:
        first = await processes.spawn(["true"], PATH)
        let_go(first)
        await asyncio.wait_for(first.gone, SOON)
        keeper = processes.keeper_pid
        assert keeper is not None
        held = descriptors(), descriptors(keeper)
        for number in range(100):
            child = await processes.spawn(["sh", "-c", "exit 0" if number % 2 else "exec sleep 100"], PATH)
            let_go(child)
            child.kill()
            await asyncio.wait_for(child.gone, SOON)
            assert not in_process_table(child.pid)
        assert (descriptors(), descriptors(keeper)) == held
        assert processes.keeper_pid == keeper
    assert not zombies(besides=zombies_before)
    assert descriptors() == before


async def test_twenty_start_at_once_and_none_gets_anothers_pipes() -> None:
    # Some megabytes in all, so that the requests do not fit into the socket at once.
    filler = {f"FILLER_{n}": "x" * 60_000 for n in range(3)}
    async with keeping() as processes:
        commands = [["sh", "-c", f"echo out {n}; echo err {n} >&2; cat"] for n in range(20)]
        children = await asyncio.gather(*(processes.spawn(c, {**PATH, **filler}) for c in commands))
        for number, child in enumerate(children):
            os.write(child.stdin_fd, b"in %d" % number)
            end_input(child)
            assert await everything(child.stdout_fd) == b"out %d\nin %d" % (number, number)
            assert await everything(child.stderr_fd) == b"err %d\n" % number
            let_go(child)
        await asyncio.wait_for(asyncio.gather(*(child.gone for child in children)), SOON)


# Giving up


async def test_a_start_that_nobody_waits_for_any_more_leaves_nothing(
    tmp_path: Path, zombies_before: list[int]
) -> None:
    async with keeping() as processes:
        await processes.spawn(["true"], PATH)
        before = descriptors()
        for turns in range(6):  # canceled at each of its steps in turn
            task = asyncio.create_task(processes.spawn(["sleep", "100"], {**PATH, "MARK": str(tmp_path)}))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        witness = await processes.spawn(["true"], PATH)
        let_go(witness)
        await asyncio.wait_for(witness.gone, SOON)
        assert descriptors() == before
        await processes.close(0.1)
    assert not zombies(besides=zombies_before)


async def test_stopping_a_child_twice_and_after_its_end_is_no_error() -> None:
    async with keeping() as processes:
        child = await misbehaving(processes)
        end_input(child)
        # The first of them says how long the child has: as long as it needs.
        first, second = await asyncio.gather(child.stop(SOON), child.stop(0.1))
        assert first == second == await child.stop(0.1) == ChildExit(code=0)
        child.kill()


async def test_closing_ends_all_in_bounded_time_and_nothing_starts_afterwards(tmp_path: Path) -> None:
    before = descriptors()
    processes = ChildProcesses()
    flags = ["--ignore-eof", "--ignore-term", "--stubborn", "--grandchildren", "group,session"]
    pids = tmp_path / "pids"
    children = [await misbehaving(processes, *flags, "--pids", str(pids)) for _ in range(3)]
    keeper = processes.keeper_pid
    assert keeper is not None
    await asyncio.wait_for(processes.close(0.2), SOON)
    assert all(child.gone.done() for child in children)
    assert not [pid for group in noted(pids).values() for pid in group if in_process_table(pid)]
    assert not in_process_table(keeper)
    with pytest.raises(UpstreamUnavailable, match="shutting down"):
        await processes.spawn(["true"], PATH)
    await processes.close()
    for child in children:
        let_go(child)
    assert descriptors() == before


async def test_orphans_of_other_programs_are_not_adopted_once_it_is_closed() -> None:
    def adopting() -> int:
        value = ctypes.c_int()
        launch.prctl()(launch.GET_SUBREAPER, ctypes.byref(value))
        return value.value

    assert adopting() == 0
    async with keeping() as processes:
        await processes.spawn(["true"], PATH)
        assert adopting() == 1
    assert adopting() == 0


async def test_closing_while_starting_answers_the_start(tmp_path: Path, zombies_before: list[int]) -> None:
    before = descriptors()
    processes = ChildProcesses()
    starts = [asyncio.create_task(processes.spawn(["sleep", "100"], PATH)) for _ in range(5)]
    await asyncio.sleep(0)
    await processes.close(0.1)
    for start in starts:
        outcome = (await asyncio.wait_for(asyncio.gather(start, return_exceptions=True), SOON))[0]
        if isinstance(outcome, ChildProcess):
            assert outcome.gone.done()
            let_go(outcome)
        else:
            assert isinstance(outcome, UpstreamUnavailable)
    assert descriptors() == before
    assert not zombies(besides=zombies_before)


# Losing the keeper


@pytest.mark.parametrize("kinds", ["group", "session", "group,session,session"])
async def test_killing_the_keeper_leaves_nothing_and_the_next_start_has_a_new_one(
    tmp_path: Path, kinds: str, zombies_before: list[int]
) -> None:
    async with keeping() as processes:
        pids = tmp_path / "pids"
        flags = ["--ignore-eof", "--stubborn", "--grandchildren", kinds, "--pids", str(pids)]
        children = [await misbehaving(processes, *flags) for _ in range(2)]
        keeper = processes.keeper_pid
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)
        for child in children:
            assert await asyncio.wait_for(child.exited, SOON) == ChildExit()
        await asyncio.wait_for(asyncio.gather(*(child.gone for child in children)), SOON)
        assert not [pid for group in noted(pids).values() for pid in group if in_process_table(pid)]
        assert not in_process_table(keeper)
        again = await misbehaving(processes)
        assert processes.keeper_pid not in (None, keeper)
        assert running(again.pid)
    assert not zombies(besides=zombies_before)


async def test_a_keeper_that_no_longer_answers_is_replaced() -> None:
    async with keeping() as processes:
        child = await misbehaving(processes, "--ignore-eof")
        keeper = processes.keeper_pid
        assert keeper is not None
        os.kill(keeper, signal.SIGSTOP)
        processes._timeout = 0.1  # for this start alone: others need the time that they need
        with pytest.raises(UpstreamUnavailable, match="did not start within"):
            await processes.spawn(["true"], PATH)
        processes._timeout = SOON
        assert await asyncio.wait_for(child.exited, SOON) == ChildExit()
        await asyncio.wait_for(child.gone, SOON)
        assert not in_process_table(child.pid)
        assert not in_process_table(keeper)
        await misbehaving(processes)


async def test_a_keeper_that_runs_out_of_descriptors_is_replaced_and_mixes_up_no_pipes() -> None:
    async with keeping() as processes:
        child = await misbehaving(processes)
        keeper = processes.keeper_pid
        assert keeper is not None
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (7, 7))
        with pytest.raises(UpstreamUnavailable, match="Try again"):
            await processes.spawn(["true"], PATH)
        assert await asyncio.wait_for(child.exited, SOON)
        await misbehaving(processes)


async def test_children_outlive_the_signals_that_end_a_session() -> None:
    async with keeping() as processes:
        child = await misbehaving(processes)
        keeper = processes.keeper_pid
        assert keeper is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(keeper, number)
        await misbehaving(processes)
        await answering(child)
        assert os.getsid(keeper) == keeper
        assert processes.keeper_pid == keeper


async def test_the_keeper_holds_nothing_of_the_hubs() -> None:
    leaked = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(leaked, True)

    try:
        processes = ChildProcesses()
        try:
            await processes.spawn(["true"], PATH)
            folder = f"/proc/{processes.keeper_pid}/fd"
            held: dict[str, str] = {}
            for fd in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    held[fd] = os.readlink(f"{folder}/{fd}")
            assert {held.pop(fd) for fd in ("0", "1", "2")} == {os.devnull}
            # It looks through /proc itself, now and then.
            others = [target for target in held.values() if not f"{target}/".startswith("/proc/")]
            assert sorted(target.split(":")[0] for target in others) == ["pipe", "pipe", "socket"]
        finally:
            await processes.close(0.1)
    finally:
        os.close(leaked)
