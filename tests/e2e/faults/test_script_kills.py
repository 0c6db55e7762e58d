"""Scripts whose process or hub is killed, and what a worker process has of its hub."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.harness.bridge import BridgeClient, request
from tests.harness.home import Outcome
from tests.harness.patience import LONG, wait_until
from tests.harness.running_hub import text
from tests.harness.user import User

SECRET = "hunter2-of-the-hub"
WAITING = "from tools import small\nprint('begun')\nawait small.wait()\n'done'"

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class ScriptUser(User):
    """A user whose assistants run scripts. The hub has a secret in its environment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment |= {"SERVICE_TOKEN": SECRET, "TABANE_SCRIPT_WRITES": "allow"}
        self.numbers = iter(range(1_000))

    def begin(self, line: BridgeClient, code: str) -> int:
        number = next(self.numbers)
        line.send(request(number, name="run_script", arguments={"code": code}))
        return number

    def run_script(self, line: BridgeClient, code: str) -> str:
        return text(line.answer(self.begin(line, code), LONG)["result"])

    def begun(self) -> None:
        """Wait until the call of a script has arrived at the server, and forget that it has."""
        mark = self.folder / "waiting"
        wait_until(mark.exists, "the call arrives")
        mark.unlink()

    @property
    def arrived(self) -> bool:
        return (self.folder / "waiting").exists()

    def workers(self) -> list[psutil.Process]:
        return [
            each
            for each in psutil.Process(self.holder.pid).children(recursive=True)
            if each.name() == "monty"
        ]

    def calls(self) -> list[str]:
        """Return the outcome of each call that waits, from the audit log."""
        found = self.json("rpc", "query_audit_logs", "--params", '{"tool": "small__wait"}')["results"]
        return [entry["outcome"] for entry in found]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[ScriptUser]:
    with closing(ScriptUser(tmp_path)) as found:
        yield found


@linux
def test_a_worker_has_nothing_of_its_hub(user: ScriptUser) -> None:
    line = user.assistant()
    number = user.begin(line, WAITING)
    user.begun()
    (worker,) = user.workers()
    process = Path("/proc") / str(worker.pid)
    assert SECRET.encode() in (Path("/proc") / str(user.holder.pid) / "environ").read_bytes()
    assert process.joinpath("environ").read_bytes() == b""
    assert SECRET.encode() not in process.joinpath("cmdline").read_bytes()
    assert str(user.tabane).encode() not in process.joinpath("cmdline").read_bytes()
    assert worker.cwd() == "/"
    opened = {entry.name: entry.readlink() for entry in process.joinpath("fd").iterdir()}
    assert sorted(opened) == ["0", "1", "2"]
    assert str(opened["0"]).startswith("pipe:")
    assert str(opened["1"]).startswith("pipe:")
    assert str(opened["2"]) == "/dev/null"
    status = process.joinpath("status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert worker.rlimit(psutil.RLIMIT_CORE) == (0, 0)
    assert worker.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    (user.folder / "go").touch()
    assert text(line.answer(number, LONG)["result"]) == "begun\ndone"


def test_a_killed_worker_fails_its_script_alone_and_sends_nothing_again(user: ScriptUser) -> None:
    line = user.assistant()
    number = user.begin(line, WAITING)
    user.begun()
    (worker,) = user.workers()
    other = user.begin(line, "import asyncio\nfor i in range(3):\n    await asyncio.sleep(0.01)\n'other'")
    worker.kill()
    assert text(line.answer(other, LONG)["result"]) == "other"
    (user.folder / "go").touch()
    said = text(line.answer(number, LONG)["result"])
    assert "ended unexpectedly" in said
    assert "may have taken effect" in said
    assert user.run_script(line, "6 * 7") == "42"
    assert not user.arrived
    assert user.calls() == ["ok"]


def test_a_killed_hub_leaves_no_worker_and_sends_nothing_again(user: ScriptUser) -> None:
    line = user.assistant()
    number = user.begin(line, WAITING)
    user.begun()
    computing = user.begin(line, "while True:\n    pass")
    wait_until(lambda: len(user.workers()) == 2, "both scripts run")
    workers = user.workers()
    user.kill_hub()
    wait_until(lambda: not any(map(_runs, workers)), "no worker is left")
    for failed in (number, computing):
        assert "error" in line.answer(failed, LONG)
    assert _verified(user.run("audit", "verify"))
    (user.folder / "go").touch()
    assert user.run_script(line, "6 * 7") == "42"
    assert user.run_script(line, "from tools import small\nawait small.echo(n=1)") == '{"n":1}'
    assert not user.arrived
    assert _verified(user.run("audit", "verify"))


def _verified(outcome: Outcome) -> bool:
    return outcome.succeeded.out.startswith("The audit log is intact")


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
