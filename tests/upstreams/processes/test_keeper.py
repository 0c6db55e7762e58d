"""The keeper process: small, and it ends every child when its hub ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.upstreams.processes import process_table
from tabane.upstreams.processes.frames import KeeperFrames, pack
from tabane.upstreams.processes.keeper_link import KeeperLink
from tests.harness.child_processes import (
    CHILD,
    HUB,
    SOON,
    ended,
    heard,
    keeping,
    linux,
    misbehaving,
    noted,
    running,
)

# When the hub is gone, or does not make sense


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--grandchildren", "group,session,nameless"],
        ["--ignore-eof", "--ignore-term", "--stubborn", "--grandchildren", "group,session,nameless"],
    ],
    ids=["good", "grandchildren", "stubborn"],
)
def test_nothing_survives_the_hub(tmp_path: Path, flags: list[str], number: int) -> None:
    pids = tmp_path / "pids"
    hub = subprocess.Popen(
        [sys.executable, HUB, "2", "--pids", str(pids), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert hub.stdout is not None
        about = json.loads(hub.stdout.readline())
        everyone = [about["keeper"], *(pid for group in noted(pids).values() for pid in group)]
        assert all(running(pid) for pid in everyone)
        hub.send_signal(number)
        assert ended(everyone)
    finally:
        hub.kill()
        hub.communicate()


@linux
def test_servers_do_not_survive_a_hub_and_a_keeper_that_are_killed_together(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = [sys.executable, HUB, "2", "--pids", str(pids), "--ignore-eof", "--ignore-term"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as hub:
        assert hub.stdout is not None
        about = json.loads(hub.stdout.readline())
        os.kill(about["keeper"], signal.SIGSTOP)
        hub.kill()
        hub.wait()
        os.kill(about["keeper"], signal.SIGKILL)
        assert ended([about["keeper"], *noted(pids)["child"]])


@linux
async def test_a_keeper_that_fails_takes_everything_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    flags = ["--ignore-eof", "--stubborn", "--grandchildren", "group,session", "--pids", str(pids)]

    reports: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    lost = asyncio.Event()
    link = KeeperLink(asyncio.get_running_loop(), reports.put_nowait, lost.set, "token")
    (child_in, hub_in), (hub_out, child_out) = os.pipe(), os.pipe()
    argv = [os.fsencode(part) for part in (sys.executable, CHILD, *flags)]
    request = {
        "do": "spawn",
        "key": 7,
        "argv": argv,
        "env": {},
        "cwd": None,
        "cage": None,
        "marker": b"X=1\0",
    }
    link.send(request, [child_in, child_out, os.dup(2)])
    started = await asyncio.wait_for(reports.get(), SOON)
    assert (started["is"], started["key"]) == ("spawned", 7)
    os.write(hub_in, b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}\n')
    os.set_blocking(hub_out, False)
    await heard(hub_out)
    link.send({"do": "something else"})
    await asyncio.wait_for(lost.wait(), SOON)
    assert ended([pid for group in noted(pids).values() for pid in group])
    for fd in (hub_in, hub_out):
        os.close(fd)
    assert (await asyncio.to_thread(os.waitpid, link.pid, 0))[1] != 0


# Small


@linux
def test_the_keeper_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); from tabane.upstreams.processes import keeper, launch;"
        "launch.prctl(); print(*sys.modules)"
    )
    sources = str(Path(process_table.__file__).parents[3])
    command = [sys.executable, "-I", "-S", "-c", code, sources]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in modules if name.startswith("tabane")}
    assert ours == {
        "tabane",
        "tabane.upstreams",
        "tabane.upstreams.processes",
        *(
            f"tabane.upstreams.processes.{name}"
            for name in ("descriptors", "frames", "keeper", "launch", "process_table")
        ),
    }
    heavy = {"json", "re", "enum", "socket", "signal", "selectors", "subprocess", "typing", "collections"}
    assert not heavy & set(modules)


@linux
async def test_the_keeper_stays_small_with_children_under_it() -> None:
    async with keeping() as processes:
        for _ in range(3):
            await misbehaving(processes)
        rss = psutil.Process(processes.keeper_pid).memory_info().rss
        assert rss < 12 << 20  # 9.8 MB where this was written


# Frames

values = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=8), inner, max_size=4),
    max_leaves=10,
)
messages = st.dictionaries(st.text(max_size=8), values, max_size=5)


@pytest.mark.heavy("real servers as processes")
@given(st.lists(messages, max_size=5), st.data())
def test_messages_come_out_of_frames_as_they_went_in_however_they_are_cut(
    sent: list[dict[str, Any]], data: st.DataObject
) -> None:
    stream, frames, received = b"".join(map(pack, sent)), KeeperFrames(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += frames.feed(stream[:size])
        stream = stream[size:]
    assert received == sent


# Who descends from whom


@pytest.mark.parametrize("name", [b"sh", b"a b", b") R 1 (", b"((", b"", b"\xff\n)"])
def test_a_process_may_be_called_what_it_likes(name: bytes) -> None:
    process = process_table.parse(b"42 (" + name + b") Z 7 41 40 0 -1 4194560 1 0")
    assert (process.pid, process.parent, process.group, process.session, process.zombie) == (
        42,
        7,
        41,
        40,
        True,
    )


@pytest.mark.parametrize("line", [b"", b"42", b"42 (sh)", b"42 (sh) S", b"x (sh) S 1 2 3"])
def test_what_is_no_process_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        process_table.parse(line)


def family(*rows: tuple[int, int, int, int]) -> dict[int, process_table.ProcessEntry]:
    """A table of (pid, parent, group, session)."""
    return {row[0]: process_table.ProcessEntry(*row, zombie=False) for row in rows}


def test_what_belongs_to_a_server_is_its_group_its_session_the_marked_and_all_below() -> None:
    keeper, one, other = 10, 20, 30
    table = family(
        *((1, 0, 1, 1), (keeper, 1, 10, 10)),
        *((one, keeper, 20, 20), (21, one, 20, 20), (22, 21, 22, 22)),  # the server, a child, one that left
        *((23, keeper, 20, 20), (24, keeper, 24, 20), (25, keeper, 25, 25), (26, 25, 26, 26)),  # orphans
        *((other, keeper, 30, 30), (31, keeper, 31, 31)),
        *((99, 1, 20, 20),),  # of the same numbers, but not below the keeper
    )
    marked = {one, 25}
    assert process_table.belonging(table, keeper, (one,), marked.__contains__) == {20, 21, 22, 23, 24, 25, 26}


@given(st.dictionaries(st.integers(1, 30), st.integers(0, 30), max_size=30), st.integers(0, 30))
def test_descendants_are_those_whose_ancestors_lead_to_the_root(parents: dict[int, int], root: int) -> None:
    def leads_to_root(pid: int) -> bool:
        seen = set[int]()
        while pid in parents and pid not in seen:
            seen.add(pid)
            pid = parents[pid]
            if pid == root:
                return True
        return False

    table = family(*((pid, parent, pid, pid) for pid, parent in parents.items()))
    assert process_table.descendants(table, [root]) == {pid for pid in parents if leads_to_root(pid)}


@linux
def test_a_marker_is_found_in_the_environment_of_its_own_instance_alone() -> None:
    # The word comes once the program runs: until then /proc shows the environment of the fork.
    with subprocess.Popen(
        ["/bin/sh", "-c", "echo; read x"],
        env={"A": "1", "TABANE_INSTANCE": "cafe.12"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = {
            (token, number): process_table.carries(process.pid, process_table.marker(token, number))
            for token in ("cafe", "caf", "beef")
            for number in (None, 1, 12, 123)
        }
        assert {key for key, value in found.items() if value} == {("cafe", None), ("cafe", 12)}
        process.communicate(b"")
