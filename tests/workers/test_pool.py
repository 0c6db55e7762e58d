"""Workers answer, and a failure of a worker affects only its own request."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tabane.errors import WorkerBusy, WorkerEnded, WorkerError, WorkerSpent, WorkerUnavailable
from tabane.workers.frames import LONGEST
from tabane.workers.pool import Budget, Capacity, Lane, Pool
from tabane.workers.worker import LOWER, Program, environment
from tests.harness.patience import until

COMMAND = (sys.executable, "-m", "tests.workers.child")
LONG = 120.0
BUDGET = Budget(seconds=60, deadline=LONG)
SHORT = Budget(seconds=0.3, deadline=LONG)


def program(*more: str, memory: int = 0, errors: int | None = None) -> Program:
    return Program((*COMMAND, *more), {**os.environ}, memory, errors)


@asynccontextmanager
async def open_pool(
    started: Program | None = None, capacity: Capacity | None = None, *, idle: float = LONG
) -> AsyncIterator[Pool]:
    pool = Pool(started or program(), capacity, idle=idle)
    try:
        yield pool
    finally:
        await pool.close()
        assert pool.pids == []


def block_until(path: Path) -> None:
    """Hold the loop until a file is there."""
    deadline = time.monotonic() + LONG
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_request_is_answered_and_the_worker_is_used_again() -> None:
    async with open_pool() as pool:
        assert pool.pids == []
        assert await pool.ask(b"a", BUDGET) == b"a"
        first = pool.pids
        assert [await pool.ask(b"%d" % nth, BUDGET) for nth in range(20)] == [b"%d" % n for n in range(20)]
        assert pool.pids == first
        assert len(first) == 1


async def test_an_answer_may_be_long() -> None:
    async with open_pool() as pool:
        body = b"x" * 20_000_000
        assert await pool.ask(body, BUDGET) == body


async def test_a_body_that_is_too_long_is_refused() -> None:
    async with open_pool() as pool:
        with pytest.raises(ValueError, match="bytes"):
            await pool.ask(bytes(LONGEST + 1), BUDGET)
        assert await pool.ask(b"next", BUDGET) == b"next"


@pytest.mark.parametrize("verb", [b"spin", b"c"])
async def test_work_beyond_its_processor_time_is_given_up(verb: bytes) -> None:
    async with open_pool() as pool:
        with pytest.raises(WorkerSpent, match="CPU time"):
            await pool.ask(verb, SHORT)
        assert await pool.ask(b"next", BUDGET) == b"next"


async def test_the_processor_time_of_one_request_is_not_taken_from_the_next() -> None:
    async with open_pool() as pool:
        first = await pool.ask(b"pid", BUDGET)
        for _ in range(50):
            assert await pool.ask(b"x" * 1_000_000, Budget(seconds=5, deadline=LONG))
        assert await pool.ask(b"pid", BUDGET) == first


async def test_work_that_hangs_is_given_up_by_the_clock(tmp_path: Path) -> None:
    async with open_pool() as pool:
        await pool.ask(b"a", BUDGET)
        with pytest.raises(WorkerSpent, match="did not finish"):
            await pool.ask(b"wait %s" % bytes(tmp_path / "never"), Budget(seconds=60, deadline=0.2))
        assert await pool.ask(b"next", BUDGET) == b"next"


async def test_others_are_answered_while_one_request_is_pending(tmp_path: Path) -> None:
    async with open_pool() as pool:
        pending = [
            asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "go"), BUDGET, key="slow"))
            for _ in range(5)
        ]
        for nth in range(20):
            assert await pool.ask(b"%d" % nth, BUDGET, key=f"other {nth % 3}") == b"%d" % nth
        assert not any(task.done() for task in pending)
        assert len(pool.pids) == 2
        (tmp_path / "go").touch()
        assert await asyncio.gather(*pending) == [b"waited"] * 5


async def test_keys_take_turns(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(turns=1, each=1)) as pool:
        order: list[str] = []

        async def ask(key: str, body: bytes) -> None:
            await pool.ask(body, BUDGET, key=key)
            order.append(key)

        begun = asyncio.create_task(ask("a", b"wait %s" % bytes(tmp_path / "go")))
        await until(lambda: bool(pool.busy))
        waiting = [asyncio.create_task(ask(key, b"x")) for key in "aaaabc"]
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        await asyncio.gather(begun, *waiting)
        assert order == ["a", "a", "b", "c", "a", "a", "a"]


QUICK = Budget(seconds=60, deadline=LONG, quick=0.1)
LANES = Capacity(turns=3, each=2, slow=2)


def is_lowered(pid: int) -> bool:
    return psutil.Process(pid).nice() == min(psutil.Process().nice() + LOWER, 19)


@pytest.mark.heavy("many cases")
async def test_slow_requests_of_many_keys_leave_a_worker_to_the_others(tmp_path: Path) -> None:
    async with open_pool(capacity=LANES) as pool:
        body = b"burn %s" % bytes(tmp_path / "go")
        slow = [asyncio.create_task(pool.ask(body, QUICK, key=f"slow {nth}")) for nth in range(5)]
        await until(lambda: len(pool.busy) == 2 and all(is_lowered(pid) for pid in pool.busy))
        for nth in range(20):
            assert await pool.ask(b"%d" % nth, QUICK, key=f"other {nth}") == b"%d" % nth
            assert len(pool.pids) <= 3
        assert not any(task.done() for task in slow)
        (tmp_path / "go").touch()
        assert await asyncio.gather(*slow) == [b"burned"] * 5


async def test_a_worker_of_a_slow_request_is_not_used_again(tmp_path: Path) -> None:
    async with open_pool(capacity=LANES) as pool:
        slow = asyncio.create_task(pool.ask(b"burn %s" % bytes(tmp_path / "go"), QUICK))
        await until(lambda: any(map(is_lowered, pool.busy)))
        (tmp_path / "go").touch()
        assert await slow == b"burned"
        other = int(await pool.ask(b"pid", QUICK, key="other"))
        assert not is_lowered(other)
        assert int(await pool.ask(b"pid", QUICK, key="other")) == other


async def test_a_key_with_a_slow_request_begins_in_the_slow_lane_until_a_request_is_quick(
    tmp_path: Path,
) -> None:
    async with open_pool(capacity=LANES) as pool:
        assert await pool.ask(b"pid", QUICK, key="a")
        slow = asyncio.create_task(pool.ask(b"burn %s" % bytes(tmp_path / "go"), QUICK, key="a"))
        await until(lambda: any(map(is_lowered, pool.busy)))
        (tmp_path / "go").touch()
        await slow
        first = int(await pool.ask(b"pid", QUICK, key="a"))
        second = int(await pool.ask(b"pid", QUICK, key="a"))
        third = int(await pool.ask(b"pid", QUICK, key="a"))
        assert first != second, "the first one was answered by a worker of the slow lane"
        assert second == third


async def test_a_worker_is_reserved_for_keys_that_were_quick(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(turns=3, each=2, slow=2, reserved=1)) as pool:
        assert await pool.ask(b"first", QUICK, key="known") == b"first"
        body = b"wait %s" % bytes(tmp_path / "go")
        unknown = [asyncio.create_task(pool.ask(body, QUICK, key=f"new {nth}")) for nth in range(5)]
        await until(lambda: len(pool.busy) == 2)
        for nth in range(5):
            assert await pool.ask(b"%d" % nth, QUICK, key="known") == b"%d" % nth
        assert len(pool.busy) == 2
        (tmp_path / "go").touch()
        assert await asyncio.gather(*unknown) == [b"waited"] * 5


async def test_a_request_that_may_take_a_while_leaves_the_reserved_worker_to_others(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(turns=3, each=3, slow=2, reserved=1)) as pool:
        for key in ("a", "b"):
            assert await pool.ask(b"first", QUICK, key=key) == b"first"
        body = b"wait %s" % bytes(tmp_path / "go")
        long = [asyncio.create_task(pool.ask(body, QUICK, key="a", lane=Lane.NEW)) for _ in range(4)]
        await until(lambda: len(pool.busy) == 2)
        assert await pool.ask(b"quick", QUICK, key="b") == b"quick"
        assert len(pool.busy) == 2
        (tmp_path / "go").touch()
        assert await asyncio.gather(*long) == [b"waited"] * 4


@pytest.mark.heavy("many cases")
async def test_requests_without_a_quick_time_are_never_slow(tmp_path: Path) -> None:
    async with open_pool(capacity=LANES) as pool:
        body = b"burn %s" % bytes(tmp_path / "go")
        tasks = [asyncio.create_task(pool.ask(body, BUDGET, key=f"{nth}")) for nth in range(3)]
        await until(lambda: len(pool.busy) == 3)
        await until(lambda: all(psutil.Process(pid).cpu_times().user > 0.3 for pid in pool.busy))
        assert not any(map(is_lowered, pool.busy))
        (tmp_path / "go").touch()
        assert await asyncio.gather(*tasks) == [b"burned"] * 3


async def test_too_many_requests_of_a_key_are_refused_and_another_key_is_not(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(waiting=2)) as pool:
        pending = [
            asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "go"), BUDGET, key="slow"))
            for _ in range(6)
        ]
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        refused = [task for task in pending if task.done()]
        assert [type(task.exception()) for task in refused] == [WorkerBusy] * 3
        assert await pool.ask(b"x", BUDGET, key="other") == b"x"
        (tmp_path / "go").touch()
        assert await asyncio.gather(*(task for task in pending if task not in refused)) == [b"waited"] * 3


async def test_too_many_bytes_are_refused(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(size=1000)) as pool:
        pending = asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "go"), BUDGET))
        await until(lambda: bool(pool.busy))
        with pytest.raises(WorkerBusy):
            await pool.ask(b"x" * 1000, BUDGET)
        (tmp_path / "go").touch()
        await pending
        assert await pool.ask(b"x" * 1000, BUDGET) == b"x" * 1000


async def test_a_request_waits_for_its_turn_no_longer_than_it_wants(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(turns=1)) as pool:
        pending = asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "go"), BUDGET))
        await until(lambda: bool(pool.busy))
        with pytest.raises(WorkerBusy):
            await pool.ask(b"x", Budget(patience=0.01))
        assert not pending.done()
        (tmp_path / "go").touch()
        await pending


async def test_a_request_that_nobody_waits_for_any_more_leaves_no_trace(tmp_path: Path) -> None:
    async with open_pool(capacity=Capacity(turns=1, size=1000)) as pool:
        begun = asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "go"), BUDGET))
        await until(lambda: bool(pool.busy))
        waiting = asyncio.create_task(pool.ask(b"x", BUDGET))
        await asyncio.sleep(0)
        waiting.cancel()
        begun.cancel()
        results = await asyncio.gather(begun, waiting, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert pool.pids == []
        assert await pool.ask(b"next", BUDGET) == b"next"


async def test_a_worker_that_died_of_something_else_costs_no_request(tmp_path: Path) -> None:
    async with open_pool() as pool:
        assert await pool.ask(b"once %s" % bytes(tmp_path / "died"), BUDGET) == b"once %s" % bytes(
            tmp_path / "died"
        )


async def test_a_request_that_kills_twice_is_given_up(tmp_path: Path) -> None:
    async with open_pool() as pool:
        others = [asyncio.create_task(pool.ask(b"%d" % nth, BUDGET, key="other")) for nth in range(5)]
        with pytest.raises(WorkerEnded):
            await pool.ask(b"die", BUDGET)
        assert await asyncio.gather(*others) == [b"%d" % nth for nth in range(5)]


@pytest.mark.heavy("many cases")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to its memory")
async def test_memory_is_bounded() -> None:
    async with open_pool(program(memory=600_000_000)) as pool:
        first = await pool.ask(b"pid", BUDGET)
        assert await pool.ask(b"grow", BUDGET) == b"no memory"
        assert await pool.ask(b"pid", BUDGET) != first


async def test_a_worker_ends_after_its_last_answer_and_the_next_request_has_another() -> None:
    async with open_pool() as pool:
        first = await pool.ask(b"pid", BUDGET)
        assert await pool.ask(b"last", Budget(tries=1)) == b"last"
        assert await pool.ask(b"pid", Budget(tries=1)) != first


async def test_a_worker_that_is_killed_at_rest_is_replaced() -> None:
    async with open_pool() as pool:
        first = int(await pool.ask(b"pid", BUDGET))
        os.kill(first, 9)
        assert int(await pool.ask(b"pid", BUDGET)) != first


async def test_workers_without_work_end() -> None:
    async with open_pool(idle=0.01) as pool:
        pid = int(await pool.ask(b"pid", BUDGET))
        await until(lambda: gone(pid))
        assert await pool.ask(b"next", BUDGET) == b"next"


@pytest.mark.parametrize("broken", [program("broken"), Program(("/nowhere/at/all",))])
async def test_a_program_that_cannot_run_is_an_error_and_not_tried_without_end(broken: Program) -> None:
    async with open_pool(broken) as pool:
        said = ""
        while "tries again" not in said:
            with pytest.raises(WorkerUnavailable) as raised:
                await pool.ask(b"a", BUDGET)
            said = str(raised.value)
        assert pool.pids == []


async def test_closing_ends_what_is_being_done(tmp_path: Path) -> None:
    pool = Pool(program(), Capacity(turns=1))
    asked = [asyncio.create_task(pool.ask(b"wait %s" % bytes(tmp_path / "no"), BUDGET)) for _ in range(3)]
    await until(lambda: bool(pool.busy))
    (pid,) = pool.busy
    await pool.close()
    assert gone(pid)
    for result in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(result, WorkerError)
    with pytest.raises(WorkerUnavailable):
        await pool.ask(b"more", BUDGET)


async def test_workers_end_with_the_hub_even_at_work(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from tests.workers.test_pool import BUDGET, Pool, program\n"
        "from tests.harness.patience import until\n"
        "async def main():\n"
        "    pool = Pool(program())\n"
        "    keep = [asyncio.create_task(pool.ask(b'wait ' + sys.argv[1].encode(), BUDGET, key='a')),\n"
        "            asyncio.create_task(pool.ask(b'a', BUDGET, key='b'))]\n"
        "    await keep[1]\n"
        "    await until(lambda: bool(pool.busy))\n"
        "    print(*pool.pids, flush=True)\n"
        "    os._exit(1)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "never"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await parent.communicate()
    pids = [int(word) for word in out.split()]
    assert len(pids) == 2
    await until(lambda: all(map(gone, pids)))


async def test_what_a_library_prints_goes_to_the_errors() -> None:
    with tempfile.TemporaryFile() as file:
        async with open_pool(program(errors=file.fileno())) as pool:
            assert await pool.ask(b"print something", BUDGET) == b"print something"
        file.seek(0)
        assert file.read() == b"something\n"


def test_a_worker_knows_no_keys() -> None:
    known = environment({"PATH": "/bin", "GITHUB_TOKEN": "secret", "HOME": "/h"})
    assert known.keys() == {"PATH", "HOME", "PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS"}


@pytest.mark.heavy("many cases")
async def test_a_request_given_up_in_the_middle_of_a_long_answer_leaves_nothing_open(tmp_path: Path) -> None:
    """What was written and not read must not keep the end of its process from being noticed."""
    go = tmp_path / "go"
    async with open_pool(program("long"), Capacity(turns=1)) as pool:
        before = psutil.Process().num_fds()
        asking = asyncio.ensure_future(pool.ask(str(go).encode(), BUDGET))
        await until(Path(f"{go}.begun").exists)
        [pid] = pool.pids
        go.touch()
        # Nothing is read meanwhile, so that there is more to read in the moment of giving up.
        block_until(Path(f"{go}.more"))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: gone(pid) and psutil.Process().num_fds() <= before)
        assert await pool.ask(b"", BUDGET) == b""
