"""Upstreams, keepers and hubs that die repeatedly: no process is left, and each call is answered once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tabane.hub.local import lock
from tests.harness.bridge import BridgeClient, environment, request, resident
from tests.harness.patience import wait_until
from tests.harness.process_list import command
from tests.harness.running_hub import Json, child, configured, text

pytestmark = pytest.mark.heavy("kills real processes, many times")

WIDTH = 8
"""Calls that are under way all the time."""

ANSWERS = 2 * WIDTH
"""Answers to wait for after a death: more than can have been on their way before it."""


GROWTH = 3.0
"""Megabytes that a process may have grown by: what it needs to tell of a loss is loaded at the first."""


class Load:
    """Keeps calls under way, by call_tool and by the tool's own name in turns; each is answered once.

    ``succeeded`` counts the answers of the upstream, ``failures`` are the texts of the others.
    """

    def __init__(self, client: BridgeClient) -> None:
        self._client = client
        self._open: set[int] = set()
        self._number = 0
        self.succeeded = 0
        self.failures: list[str] = []

    def work(self, count: int) -> None:
        """Call until the upstream has answered so many more; what is under way by then stays so."""
        goal = self.succeeded + count
        while self.succeeded < goal:
            while len(self._open) < WIDTH:
                self._ask()
            self._take()

    def finish(self) -> None:
        """Take the answers that are due, and see that no other comes."""
        while self._open:
            self._take()
        assert self._client.call("last", "ping")["result"] == {}

    def _ask(self) -> None:
        self._number = number = self._number + 1
        self._open.add(number)
        call: Json = {"name": "up__echo", "arguments": {"n": number}}
        through: Json = {"name": "call_tool", "arguments": call}
        self._client.send(request(number, **(through if number % 2 else call)))

    def _take(self) -> None:
        answer = self._client.next()
        # KeyError: it was answered before, or never asked.
        self._open.remove(answer["id"])
        failure = _failure(answer)
        if failure is None:
            assert answer["result"]["structuredContent"] == {"n": answer["id"]}
            self.succeeded += 1
        else:
            self.failures.append(failure)


def _failure(answer: Json) -> str | None:
    if "error" in answer:
        return str(answer["error"]["message"])
    return text(answer["result"]) if answer["result"].get("isError") else None


class Life:
    """A hub with one upstream, and a client of it under load.

    ``flags`` are those of `tabane mcp`; ``upstream`` are arguments of the child. ``before`` is what the
    client's process held when it had been answered for the first time.
    """

    def __init__(self, folder: Path, *flags: str, upstream: tuple[str, ...] = ()) -> None:
        self._pids = folder / "pids"
        self._pids.touch()
        servers = configured(folder / "config", {"up": child("--pids", str(self._pids), *upstream)})
        self.home = folder / "home"
        variables = {
            "TABANE_SERVERS": str(servers),
            "TABANE_RESTART_FIRST": "0.01",
            "TABANE_CIRCUIT_FAILURES": "1000",
            "TABANE_LOG_LEVEL": "error",
        }
        self.client = BridgeClient(environment(self.home, **variables), *flags)
        self.client.initialize()
        self.client.call("first", name="up__echo", arguments={})
        self.load = Load(self.client)
        self.before = held(self.client.pid)

    @property
    def starts(self) -> list[int]:
        """The processes that the upstream has had so far."""
        return [int(line.split()[1]) for line in self._pids.read_text().splitlines()]

    def until_started(self, times: int) -> None:
        """Go on with the load until the upstream has been started so often."""
        while len(self.starts) < times:
            self.load.work(1)

    def settled(self) -> None:
        """See that the client's process holds no more than it did before."""
        settled(self.client.pid, self.before)

    def ended(self) -> None:
        """See that no process of the upstream is left, of all it had."""
        starts = self.starts
        wait_until(lambda: not any(map(self._lives, starts)), "every process of the upstream has ended")

    def _lives(self, pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            # Another program may have got the number since.
            return process.status() != psutil.STATUS_ZOMBIE and str(self._pids) in command(process)
        return False


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Makes a life in a hub of its own, the client's process; at the end nothing may be left of it."""
    lives: list[Life] = []

    def start(*upstream: str) -> Life:
        lives.append(Life(tmp_path, "--standalone", upstream=upstream))
        return lives[-1]

    yield start
    for life in lives:
        life.client.end_input()
        assert life.client.wait() == 0
        life.client.close()
        life.ended()


def held(pid: int) -> tuple[int, int]:
    """The descriptors that a process has open, and the processes below it."""
    process = psutil.Process(pid)
    return process.num_fds(), len(process.children(recursive=True))


def settled(pid: int, before: tuple[int, int]) -> None:
    """Wait until a process holds no more descriptors than before, and has as many processes.

    It may hold less: when it was answered for the first time, it may still have been writing files.
    """

    def is_so() -> bool:
        now = held(pid)
        return now[0] <= before[0] and now[1] == before[1]

    wait_until(is_so, f"{held(pid)} becomes {before} or less")


def keeper_of(pid: int) -> int:
    return next(c.pid for c in psutil.Process(pid).children() if "keeper" in " ".join(command(c)))


def reason(failure: str) -> str:
    """Why a call failed: one of the three clear errors, or the words themselves."""
    for said, why in WHY.items():
        if said in failure:
            return why
    return failure


WHY = {
    "up ended during the call": "ended",
    "up is not running": "not running",
    "The hub stopped while this request was being handled": "hub",
}


def test_a_hundred_restarts_under_load_leave_nothing_behind(standalone: Callable[..., Life]) -> None:
    life = standalone("--crash-after", "6")
    hub = life.client.pid
    keeper = keeper_of(hub)
    before = held(keeper)
    life.until_started(20)
    memory = resident(hub)
    life.until_started(100)
    life.load.finish()
    life.settled()
    settled(keeper, before)
    assert resident(hub) < memory + GROWTH
    assert keeper_of(hub) == keeper
    assert {reason(failure) for failure in life.load.failures} == {"ended"}


def test_an_upstream_killed_again_and_again_under_load_loses_what_it_had_taken_alone(
    standalone: Callable[..., Life],
) -> None:
    life = standalone()
    for times in range(15):
        life.until_started(times + 1)
        life.load.work(ANSWERS)
        os.kill(life.starts[-1], signal.SIGKILL)
    life.until_started(16)
    life.load.finish()
    life.settled()
    assert {reason(failure) for failure in life.load.failures} <= {"ended"}


def test_a_keeper_killed_again_and_again_under_load_leaves_nothing_behind(
    standalone: Callable[..., Life],
) -> None:
    life = standalone()
    hub = life.client.pid
    keepers = []
    for times in range(8):
        life.until_started(times + 1)
        life.load.work(ANSWERS)
        keepers.append(keeper_of(hub))
        os.kill(keepers[-1], signal.SIGKILL)
    life.until_started(9)
    life.load.finish()
    life.settled()
    assert len(set(keepers)) == 8
    assert {reason(failure) for failure in life.load.failures} <= {"ended"}


def test_hubs_killed_again_and_again_under_load_leave_the_bridge_as_it_was(tmp_path: Path) -> None:
    life = Life(tmp_path)
    bridge = life.client.pid
    hubs: list[int] = []
    memory = resident(bridge)
    try:
        for _ in range(6):
            life.load.work(ANSWERS)
            hubs.append(hub_of(life))
            os.kill(hubs[-1], signal.SIGKILL)
        life.load.work(ANSWERS)
        life.load.finish()
        life.settled()
        assert resident(bridge) < memory + GROWTH
        assert len(set(hubs)) == 6
        assert {reason(failure) for failure in life.load.failures} <= {"hub"}
    finally:
        life.client.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(hub_of(life), signal.SIGKILL)
    life.ended()


def hub_of(life: Life) -> int:
    holder = lock.read_holder(str(life.home / "hub.lock"))
    assert holder is not None
    return holder.pid
