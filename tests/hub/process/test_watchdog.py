"""A hub that is stuck ends, saves its stacks, and is replaced; a hub that was only stopped continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.bridge import BridgeClient, Lines, request
from tests.harness.hub_with_jobs import BLOCKED
from tests.harness.patience import wait_until
from tests.harness.user import User, echo, said

LIMIT = 120.0
"""Seconds after which something that should have happened counts as not happening."""

HELD = "held by native code"
WAYS = ["waiting", "computing", HELD]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment["TABANE_STUCK_AFTER"] = "5"
    yield user
    user.close()


class Supervised:
    """A hub with an operation that blocks, as a process whose parent learns how it ended."""

    def __init__(self, user: User) -> None:
        command = [sys.executable, "-m", "tests.harness.hub_with_jobs", "hand"]
        self.process = subprocess.Popen(command, env=user.environment, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert Lines(self.process.stdout.fileno()).next(LIMIT) == b"open"
        self.pid = self.process.pid
        self.dump = user.tabane / "logs" / f"stuck-{self.pid}.txt"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def hub(user: User) -> Iterator[Supervised]:
    hub = Supervised(user)
    yield hub
    hub.end()


def block(user: User, way: str) -> subprocess.Popen[bytes]:
    """Send the operation that blocks, from a program of its own."""
    command = [sys.executable, "-m", "tabane", "rpc", "block", "--params", f'{{"way": "{way}"}}']
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=user.environment, stdout=quiet, stderr=quiet)


def put_in_flight(user: User, client: BridgeClient, number: int) -> None:
    client.send(request(number, name="small__wait", arguments={}))
    wait_until((user.folder / "waiting").exists, "a call is in flight", LIMIT)
    (user.folder / "waiting").unlink()


@pytest.mark.heavy("a hub with real servers")
@pytest.mark.parametrize("way", WAYS)
def test_a_stuck_hub_ends_with_its_stacks_and_the_next_one_serves(
    user: User, hub: Supervised, way: str
) -> None:
    caller, bystander = user.assistant(), user.assistant()
    upstream = int(bystander.call(1, name="small__pid")["result"]["content"][0]["text"])
    put_in_flight(user, caller, 1)
    program = block(user, way)
    try:
        status = hub.process.wait(LIMIT)
    finally:
        program.kill()
        program.wait()
    assert status == (-signal.SIGPROF if way == HELD else 70)
    error = caller.answer(1, LIMIT)["error"]
    assert "stopped responding" in error["message"]
    assert str(hub.dump) in error["message"]
    assert "in block" in hub.dump.read_text()

    bystander.send(request(2, name="small__echo", arguments={"n": 2}))
    assert said(bystander.answer(2, LIMIT)) == {"n": 2}
    assert said(echo(caller, 3, n=3)) == {"n": 3}
    assert user.holder.pid != hub.pid
    assert not (user.folder / "waiting").exists(), "the call was sent again"
    wait_until(
        lambda: not psutil.pid_exists(upstream), "the keeper ended the servers of the stuck hub", LIMIT
    )
    told_of(user, hub)


@pytest.mark.heavy("a hub that does not end in order")
@pytest.mark.parametrize("way", ["a thread waits", "held by a thread"])
def test_stop_ends_a_hub_whatever_its_threads_do(user: User, way: str) -> None:
    user.environment["TABANE_STUCK_AFTER"] = "0"
    hub = Supervised(user)
    try:
        assert block(user, way).wait(LIMIT) == 0
        wait_until((Path(user.environment["HOME"]) / BLOCKED).exists, "a thread of the hub is blocked", LIMIT)
        stopped = subprocess.run([sys.executable, "-m", "tabane", "stop"], env=user.environment, check=False)
        assert stopped.returncode == 0
        assert hub.process.wait(LIMIT) == (0 if way == "a thread waits" else -signal.SIGKILL)
    finally:
        hub.end()


def told_of(user: User, hub: Supervised) -> None:
    """Check that log, status and checkup name the dump."""
    log = (user.tabane / "logs" / "hub.log").read_text()
    assert f"the last hub (process {hub.pid}) stopped responding" in log
    assert "in block" in log
    assert user.json("status")["stuck"] == str(hub.dump)
    findings = user.json("doctor", "--quick")["findings"]
    found = [finding for finding in findings if f"(process {hub.pid}) stopped responding" in finding["title"]]
    assert [finding["level"] for finding in found] == ["warning"]
    assert str(hub.dump) in found[0]["mend"]


@pytest.mark.everything("it stops a hub for longer than its limit, which is seconds")
def test_a_hub_that_was_stopped_for_longer_than_its_limit_goes_on(user: User) -> None:
    client = user.assistant()
    assert said(echo(client, 1, n=1)) == {"n": 1}
    pid = user.kill_hub(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the hub is stopped", LIMIT)
    stopped = time.monotonic()
    wait_until(lambda: time.monotonic() > stopped + 8, "it was stopped for longer than its limit", LIMIT)
    os.kill(pid, signal.SIGCONT)
    continued, number = time.monotonic(), 1
    while time.monotonic() < continued + 8:
        number += 1
        client.send(request(number, name="small__echo", arguments={"n": number}))
        assert said(client.answer(number, LIMIT)) == {"n": number}
    assert user.holder.pid == pid
    assert not user.json("status")["stuck"]


def test_a_hub_that_ends_in_order_leaves_no_dump(user: User) -> None:
    user.json("start")
    logs = user.tabane / "logs"
    assert [found.stat().st_size for found in logs.glob("stuck-*")] == [0]
    user.json("stop")
    assert list(logs.glob("stuck-*")) == []


def test_dumps_are_bounded_in_number(user: User) -> None:
    logs = user.tabane / "logs"
    logs.mkdir(parents=True, mode=0o700)
    user.tabane.chmod(0o700)
    for number in range(10):
        path = logs / f"stuck-{number + 1}.txt"
        path.write_text("stacks" if number else "")
        os.utime(path, (number, number))
    user.json("start")
    left = {found.name for found in logs.glob("stuck-*") if found.stat().st_size}
    assert left == {f"stuck-{number}.txt" for number in (8, 9, 10)}


def test_no_watchdog_is_a_choice(user: User) -> None:
    user.json("start", "--stuck-after=0")
    assert list((user.tabane / "logs").glob("stuck-*")) == []
