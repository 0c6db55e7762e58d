"""Tasks go on after the hub was killed: those of a server at a URL, and finished ones of the hub."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bridge import BridgeClient
from tests.harness.patience import wait_until
from tests.harness.running_hub import ENVELOPE
from tests.harness.user import User

ROOT = Path(__file__).parents[3]
META = {
    **ENVELOPE,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


@contextmanager
def remote(folder: Path) -> Iterator[str]:
    """The URL of a server with tasks, a process that is not the hub's."""
    command = [sys.executable, "-m", "tests.harness.servers.tasks", "http", str(folder / "marks")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()


class ModernClient:
    """A client that announces tasks, on a bridge."""

    def __init__(self, line: BridgeClient) -> None:
        self._line, self._number = line, 0

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        return self._line.call(self._number, method, **params, _meta=META)

    def begin(self, name: str, **arguments: Any) -> str:
        """The id of the task that a call becomes, once the server has listed its tools."""
        found: list[Any] = []

        def called() -> bool:
            found[:] = [self.ask("tools/call", name=name, arguments=arguments)]
            return "result" in found[0]

        wait_until(called, "the call becomes a task")
        return str(found[0]["result"]["taskId"])

    def reach(self, task: str, status: str) -> Any:
        found: list[Any] = []

        def there() -> bool:
            answer = self.ask("tasks/get", taskId=task)
            found[:] = [answer.get("result", {})]  # a request in flight fails with its hub
            return bool(found[0].get("status") == status)

        wait_until(there, f"the task is {status}")
        return found[0]


@pytest.mark.heavy("kills real processes, many times")
def test_tasks_after_the_hub_was_killed(tmp_path: Path) -> None:
    with remote(tmp_path) as url, closing(User(tmp_path / "user")) as user:
        user.environment |= {"TABANE_TASK_AFTER": "0.2", "TABANE_MODE": "full"}
        here = {
            "command": sys.executable,
            "args": ["-m", "tests.harness.servers.tasks", "stdio"],
            "cwd": str(ROOT),
        }
        user.write_servers({"far": {"type": "http", "url": url}, "near": here})
        client = ModernClient(user.client())
        go = tmp_path / "go"
        far = client.begin("far__told", until=str(go), text="far")
        slow = client.begin("near__nap", seconds=0, until=str(go))
        done = client.begin("near__slow_compute", label="kept")
        client.reach(done, "completed")

        killed = user.kill_hub()
        assert client.reach(far, "working")["taskId"] == far
        assert user.holder.pid != killed
        lost = client.reach(slow, "failed")
        assert "restarted" in lost["error"]["message"]
        assert client.reach(done, "completed")["result"]["content"][0]["text"] == "computed kept"
        go.touch()
        assert client.reach(far, "completed")["result"]["content"][0]["text"] == "done, far"
        assert client.ask("tasks/get", taskId="task-other")["error"]["code"] == -32602
        rows = {row["task"]: row for row in user.json("tasks", "list")["results"]}
        assert set(rows) == {far, slow, done}
        assert rows[far]["tool"] == "far__told"
        assert user.json("tasks", "show", done)["result"]["isError"] is False
        again = client.begin("far__told", until=str(tmp_path / "never"))
        assert user.json("tasks", "cancel", again)["status"] == "cancelled"
        assert client.reach(again, "cancelled")["taskId"] == again
