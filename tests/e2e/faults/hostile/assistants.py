"""A hub, three assistants that use it all the time, a caller, and hostile servers."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tabane import __version__
from tabane.hub.local.client import HubClient
from tabane.hub.local.connector import HubConnector
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello
from tests.harness.bridge import INITIALIZE, BridgeClient, Lines
from tests.harness.patience import wait_until
from tests.harness.servers.hostile_entry import Entry
from tests.harness.servers.hostile_schemas import SCHEMAS
from tests.harness.user import User

LIMIT = 120.0
"""Seconds after which something that should have happened counts as not happening."""

Json = dict[str, Any]
SERVERS = Path(__file__).parents[3] / "harness" / "servers"
SETTINGS = {
    "TABANE_HTTP": "true",
    "TABANE_PORT": "0",
    "TABANE_START_TIMEOUT": "20",
    "TABANE_PROBE_TIMEOUT": "2",
    "TABANE_GRACE": "1",
    "TABANE_LIST_WAIT": "60",
}


class LongLines(Lines):
    """Lines of many megabytes, read without looking at each byte more than once."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._buffer = bytearray()

    def next(self, limit: float = LIMIT) -> bytes:
        deadline, looked = time.monotonic() + limit, 0
        while (end := self._buffer.find(b"\n", looked)) < 0:
            looked = len(self._buffer)
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no line in {limit} s; so far {bytes(self._buffer[:200])!r}")
            chunk = os.read(self.fd, 1 << 20)
            if not chunk:
                raise EOFError(bytes(self._buffer[:200]))
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


class Bridged:
    """An assistant over stdio. Each of its requests has an id of its own, answered exactly once."""

    def __init__(self, user: User, *flags: str) -> None:
        self._client: BridgeClient = user.client(*flags)
        self._client.out = LongLines(self._client.out.fd)
        self._client.initialize()
        self._numbers = itertools.count(1)
        self._open: dict[int, Json] = {}

    def send(self, name: str, arguments: Json) -> int:
        number = next(self._numbers)
        self._open[number] = arguments
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        self._client.send(json.dumps(body).encode())
        return number

    def answers(self, numbers: list[int], limit: float = LIMIT) -> list[Json]:
        """Return the answers to these requests. Raises AssertionError for additional or other answers."""
        found: dict[int, Json] = {}
        deadline = time.monotonic() + limit
        while len(found) < len(numbers):
            line = self._client.out.next(max(0.1, deadline - time.monotonic()))
            message = json.loads(line, parse_int=_whole)
            if "method" in message:
                continue
            number = message["id"]
            assert number in numbers, f"an answer that nobody asked for: {str(message)[:500]}"
            assert number not in found, f"a second answer to {number}"
            found[number] = message
        return [found[number] for number in numbers]

    def round(self) -> None:
        """Make four calls at once, each with its own answer."""
        sent = {self.send("good__echo", (given := {"n": os.urandom(8).hex()})): given for _ in range(4)}
        for answer, given in zip(self.answers([*sent]), sent.values(), strict=True):
            assert said(answer) == given


class Posting:
    """An assistant over HTTP, with a session of the handshake era."""

    def __init__(self, user: User, url: str) -> None:
        self._host = url.split("/")[2]
        self._token = (user.tabane / "token").read_text().strip()
        self._session = ""
        self._number = 0
        self._post("initialize", INITIALIZE)

    def round(self) -> None:
        given = {"n": os.urandom(8).hex()}
        answer = self._post("tools/call", {"name": "good__echo", "arguments": given})
        assert answer["id"] == self._number
        assert said(answer) == given

    def _post(self, method: str, params: Json) -> Json:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self._token}",
        }
        if self._session:
            headers |= {"Mcp-Session-Id": self._session, "Mcp-Protocol-Version": "2025-06-18"}
        with contextlib.closing(http.client.HTTPConnection(self._host, timeout=LIMIT)) as connection:
            connection.request("POST", "/mcp", json.dumps(body).encode(), headers)
            response = connection.getresponse()
            self._session = self._session or response.headers.get("Mcp-Session-Id", "")
            return self._answer(response.read().decode())

    def _answer(self, text: str) -> Json:
        lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
        messages = [json.loads(line) for line in lines if line.startswith("{")]
        answers = [message for message in messages if "method" not in message]
        assert len(answers) == 1, text[:500]
        return dict(answers[0])


class SharedHub:
    """Everything around one hub. End it with ``end``."""

    def __init__(self, folder: Path) -> None:
        self.user = User(folder)
        self.user.environment |= SETTINGS
        self._good = json.loads(self.user.servers.read_text())["mcpServers"]["small"]
        self._write({"good": self._good})
        self.user.json("start")
        self.pid = self.user.holder.pid
        self.url = str(self.user.json("status")["http"])
        self.caller = Bridged(self.user)
        self.assistants: list[Bridged | Posting] = [
            Bridged(self.user),
            Bridged(self.user, "--mode", "light"),
            Posting(self.user, self.url),
        ]
        self._threads = ThreadPoolExecutor(len(self.assistants))
        self._count = 0
        self.last = ""
        """The name of the last hostile server."""
        self.sound = True
        """Whether the next test may use it too."""

    def end(self) -> None:
        self._threads.shutdown()
        self.user.close()

    def status(self, server: str) -> Json:
        """Return the hub's status of a server."""
        with self._hub() as hub:
            return dict(hub.call("show_server", {"name": server}, LIMIT))

    @contextlib.contextmanager
    def hostile(self, definition: Json) -> Iterator[str]:
        """Put a hostile server into the servers file; its name is new each time."""
        self._count += 1
        name = self.last = f"bad{self._count}"
        self._write({"good": self._good, name: definition})
        self._reload(lambda names: name in names)
        try:
            yield name
        finally:
            self._write({"good": self._good})
            self._reload(lambda names: name not in names)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the three assistants call meanwhile, and check that each call is answered."""
        over = threading.Event()
        working = [self._threads.submit(_work, assistant, over) for assistant in self.assistants]
        try:
            yield
        finally:
            over.set()
        _settle(working)

    def check(self) -> None:
        """Check that the hub is the same one, and serves everybody."""
        assert self.user.holder.pid == self.pid
        self.caller.round()
        for assistant in self.assistants:
            assistant.round()

    def _hub(self) -> HubClient:
        endpoint = Endpoint(str(self.user.tabane), self.user.environment)
        approach = HubConnector(
            endpoint, Hello(__version__, "rpc", str(self.user.tabane)), self.user.environment, None
        )
        return HubClient(approach.reach(LIMIT))

    def _write(self, servers: Json) -> None:
        part = self.user.servers.with_suffix(".part")
        part.write_text(json.dumps({"mcpServers": servers}))
        part.chmod(0o600)
        part.replace(self.user.servers)

    def _reload(self, done: Callable[[set[str]], bool]) -> None:
        os.kill(self.pid, signal.SIGHUP)
        with self._hub() as hub:

            def names() -> set[str]:
                return {row["name"] for row in hub.call("list_servers", {}, LIMIT)["results"]}

            wait_until(lambda: done(names()), "the servers file is read again", LIMIT)


def stdio(entry: Entry) -> Json:
    """Return the definition of a server over stdio with that misbehavior."""
    command = [str(SERVERS / "hostile_stdio.py"), entry.name]
    return {"command": sys.executable, "args": command, "timeout": entry.timeout}


@contextlib.contextmanager
def over_http(entry: Entry) -> Iterator[Json]:
    """Return the same over HTTP, with the process of the server."""
    command = [sys.executable, str(SERVERS / "hostile_http.py"), entry.name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(Lines(process.stdout.fileno()).next(LIMIT))
        yield {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "timeout": entry.timeout}
    finally:
        process.kill()
        process.communicate()


def misbehave(shared_hub: SharedHub, entry: Entry, definition: Json) -> None:
    """Let a server misbehave, and check that nobody else is affected and nothing hangs."""
    shared_hub.sound = False
    with shared_hub.hostile(definition) as server:
        with shared_hub.in_use():
            answers = call(shared_hub, entry, server)
        for answer in answers:
            called = "Unknown tool" not in str(answer.get("error"))
            assert called or entry.moment != "call", "it was never called"
            assert entry.ends in ("either", "failure" if failed(answer) else "result"), str(answer)[:1000]
        if entry.shown:
            wait_until(
                lambda: shown(shared_hub.status(server)), f"a problem in {shared_hub.status(server)}", LIMIT
            )
        shared_hub.check()
    shared_hub.sound = True


def call(shared_hub: SharedHub, entry: Entry, server: str) -> list[Json]:
    """Call the tool `hit` as the entry says. Return the answers, which come within a time limit."""
    arguments: Json = {"bulk": "x" * entry.bulk} if entry.bulk else {}
    name = f"{server}__hit"
    if entry.through:
        made = SCHEMAS[entry.name.removeprefix("schema_")]()[1]
        name, arguments = "call_tool", {"name": name, "arguments": made}
    numbers = [shared_hub.caller.send(name, arguments) for _ in range(entry.calls)]
    return shared_hub.caller.answers(numbers, entry.timeout + LIMIT)


def failed(answer: Json) -> bool:
    """Return whether it is an error with a text, or a result marked as one."""
    if "error" in answer:
        assert answer["error"]["message"]
        return True
    return isinstance(answer["result"], dict) and answer["result"].get("isError") is True


def shown(status: Json) -> bool:
    """Return whether status names a problem of the server."""
    return bool(status["error"] or status["skipped_lines"] or status["last_failure"])


def said(answer: Json) -> Any:
    """Return the JSON of the tool `echo`."""
    assert "result" in answer, answer
    return json.loads(answer["result"]["content"][0]["text"])


def _whole(digits: str) -> int:
    # Python refuses the longest, which a server may send.
    return int(digits) if len(digits) < 1000 else -1


def _work(assistant: Bridged | Posting, over: threading.Event) -> None:
    for number in itertools.count():
        assistant.round()
        if over.is_set() and number >= 2:
            return


def _settle(working: list[Future[None]]) -> None:
    for one in working:
        one.result(LIMIT)
