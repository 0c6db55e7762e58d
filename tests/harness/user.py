"""A user with a home: commands, assistants, and the processes they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tabane.hub.local import lock
from tests.harness.bridge import BridgeClient
from tests.harness.home import Home
from tests.harness.patience import LONG, wait_until

SMALL = str(Path(__file__).parents[1] / "harness" / "servers" / "small.py")


class User(Home):
    """A home that does not exist yet, a servers file with the server ``small``, and assistants.

    Everything lies under ``folder``; so :meth:`processes` finds what the user left running.
    """

    def __init__(self, folder: Path, name: str = "home") -> None:
        super().__init__(folder, name, made=False)
        self.environment["TABANE_MODEL"] = "none"
        self.write_servers(self.small)
        self.clients: list[BridgeClient] = []

    @property
    def small(self) -> dict[str, Any]:
        """The definition of the one small server."""
        return {"small": {"command": sys.executable, "args": [SMALL, str(self.folder)]}}

    def client(self, *flags: str, python: str = sys.executable, **variables: str) -> BridgeClient:
        environment = {**self.environment, **variables}
        self.clients.append(BridgeClient(environment, *flags, python=python, forks=self.forks_hub))
        return self.clients[-1]

    def assistant(self, *flags: str, python: str = sys.executable, **variables: str) -> BridgeClient:
        """A client with its handshake done."""
        client = self.client(*flags, python=python, **variables)
        client.initialize()
        return client

    @property
    def holder(self) -> lock.LockHolder:
        """The note in the lock file."""
        found = lock.read_holder(str(self.tabane / "hub.lock"))
        assert found is not None
        return found

    @property
    def runs(self) -> bool:
        return lock.held(str(self.tabane / "hub.lock"))

    def kill_hub(self, number: int = signal.SIGKILL) -> int:
        """Send the hub a signal; returns the process it was sent to."""
        pid = self.holder.pid
        os.kill(pid, number)
        return pid

    def processes(self) -> list[psutil.Process]:
        """Whatever still runs for this user."""
        return [process for process in psutil.process_iter() if self._mine(process)]

    def gone(self) -> None:
        """Wait until nothing is left of this user."""
        wait_until(lambda: not self.processes(), f"nothing runs; still {self.processes()}")

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _mine(self, process: psutil.Process) -> bool:
        mark = str(self.folder)
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            environ = process.environ()
            return any(mark in part for part in process.cmdline()) or environ.get(
                "TABANE_HOME", ""
            ).startswith(mark)
        except psutil.Error:
            return False


def echo(client: BridgeClient, number: object, **arguments: Any) -> Any:
    return client.call(number, name="small__echo", arguments=arguments)


def said(answer: Any) -> Any:
    """What a tool said, as JSON."""
    return json.loads(answer["result"]["content"][0]["text"])


class Assistant:
    """A session with a bridge."""

    def __init__(self, client: BridgeClient) -> None:
        self.client = client
        self._count = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Return the whole answer to a request."""
        self._count += 1
        self.client.send(
            json.dumps({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}).encode()
        )
        return self.client.answer(self._count, LONG)

    def tools(self) -> dict[str, Any]:
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return the result of a tool."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        assert "result" in answer, answer
        return answer["result"]

    def text(self, name: str, /, **arguments: Any) -> str:
        """Return the text of a tool's result, which must not be an error."""
        result = self.call(name, **arguments)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    def failure(self, name: str, /, **arguments: Any) -> str:
        """Return the text of a tool's result, which must be an error."""
        result = self.call(name, **arguments)
        assert result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text


@contextlib.contextmanager
def assistant(home: Home, *flags: str, **variables: str) -> Iterator[Assistant]:
    """Connect a client of `tabane mcp FLAGS`, with its handshake done."""
    client = BridgeClient({**home.environment, **variables}, *flags, forks=home.forks_hub)
    try:
        found = Assistant(client)
        client.initialize()
        yield found
    finally:
        client.close()
