"""A hub with a home of its own in a temporary folder, and an assistant that talks to it.

Its processes have a mark in their environment. They and the folder are gone at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal

import click

from tabane import __version__
from tabane.build import this_build
from tabane.cli.output import INTERRUPTED
from tabane.errors import TabaneError
from tabane.hub.local.client import HubClient, unreachable
from tabane.hub.local.connector import HubConnector, HubUnreachable
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello
from tabane.messages import say

MARK = "RUN_OF_TABANE"
"""The variable that marks all processes of a demo or of a benchmark.

Children inherit it. A process keeps it when it changes its group, session or parent.
"""


def marked(mark: str) -> dict[int, str]:
    """Return the processes with ``mark`` except this one: pid to program name."""
    found = _from_proc(mark) if sys.platform == "linux" else _from_ps(mark)
    found.pop(os.getpid(), None)
    return found


def wait_until_gone(mark: str, seconds: float) -> dict[int, str]:
    """Wait until no process has ``mark``. Return those that are left after ``seconds``."""
    deadline = time.monotonic() + seconds
    while left := marked(mark):
        if time.monotonic() >= deadline:
            return left
        time.sleep(0.05)
    return {}


def kill(processes: dict[int, str]) -> None:
    """Kill processes that :func:`marked` returned. Those that have ended are skipped."""
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _from_proc(mark: str) -> dict[int, str]:
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if wanted not in environ.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as name:
                found[int(entry)] = name.read().strip()
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def _from_ps(mark: str) -> dict[int, str]:
    table = subprocess.run(
        ["ps", "-axwwE", "-o", "pid=,command="], capture_output=True, text=True, errors="replace", check=True
    )
    rows = (line.split(None, 1) for line in table.stdout.splitlines() if f"{MARK}={mark}" in line.split())
    return {int(pid): command.split()[0] for pid, command in rows}


_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl+C, SIGTERM and SIGHUP end the block with all its processes and its folder."""
    numbers = [each for each in _INTERRUPTING if signal.getsignal(each) is not signal.SIG_IGN]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)  # nothing must interrupt the cleanup
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


PROTOCOL = "2025-11-25"
MAX_WAITING = 1000
"""Limit of lines that wait to be read."""

CLOSING = 10.0
"""Time limit for a child to end after its input is closed, in seconds."""


class NoAnswer(TabaneError):
    """The child ended, did not answer in time, or answered with a protocol error."""


class MethodRefused(NoAnswer):
    """The child answered with a protocol error."""


@dataclass(frozen=True, slots=True)
class AssistantReply:
    """The result of a request, the size of its line in bytes, and the time in seconds."""

    result: dict[str, Any]
    size: int
    seconds: float

    @property
    def text(self) -> str:
        """Return the text blocks of a tool's result."""
        blocks = self.result.get("content", [])
        return "\n".join(block["text"] for block in blocks if block.get("type") == "text")

    @property
    def failed(self) -> bool:
        """Whether the tool reported an error."""
        return bool(self.result.get("isError"))


class Assistant:
    """An MCP client of the child process ``command``, over its standard streams.

    The child has its own session, so that Ctrl+C reaches only this process, which then closes the child. Its
    stderr goes to the file ``log``. ``instructions`` are those for a model, empty until :meth:`open`.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], log: str, *, name: str = "tabane-demo"
    ) -> None:
        self.instructions = ""
        self._name = name
        self._began = time.perf_counter()
        self._number = 0
        self._lines: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        with open(log, "ab") as errors:
            self._child = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        threading.Thread(target=self._read, name="assistant", daemon=True).start()

    def open(self, timeout: float) -> float:
        """Shake hands. Returns the seconds from the start of the child to its first answer."""
        opened = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": self._name, "version": __version__},
            },
            timeout,
        )
        seconds = time.perf_counter() - self._began
        self.instructions = str(opened.result.get("instructions") or "")
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return seconds

    def request(self, method: str, params: Mapping[str, Any], timeout: float = 60.0) -> AssistantReply:
        """Ask and wait for the answer. Raises NoAnswer."""
        self._number += 1
        began = time.perf_counter()
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            line = self._next(method, began + timeout)
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                return self._answer(method, message, len(line), time.perf_counter() - began)
            if "method" in message and "id" in message:
                self._refuse(message["id"])

    def call(self, name: str, arguments: Mapping[str, Any]) -> AssistantReply:
        """Call a tool of the list. Raises NoAnswer; a tool's own failure is in the answer."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def ask(self, name: str, arguments: Mapping[str, Any]) -> AssistantReply:
        """Call a tool that must not fail. Raises NoAnswer."""
        answer = self.call(name, arguments)
        if answer.failed:
            raise NoAnswer(say("{tool} failed: {text}", tool=name, text=answer.text))
        return answer

    def tools(self) -> tuple[list[dict[str, Any]], AssistantReply]:
        """Return the whole list, and the last page's reply with the sizes and times of all pages."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        size, seconds = 0, 0.0
        while True:
            page = self.request("tools/list", params)
            found += page.result["tools"]
            size, seconds = size + page.size, seconds + page.seconds
            if page.result.get("nextCursor") is None:
                return found, AssistantReply(page.result, size, seconds)
            params = {"cursor": page.result["nextCursor"]}

    def close(self) -> bool:
        """Close the child's input and wait for its end; it is killed after ten seconds.

        Returns whether it ended by itself.
        """
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(CLOSING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            return False
        return True

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _next(self, method: str, deadline: float) -> bytes:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.perf_counter()))
        except queue.Empty:
            raise NoAnswer(say("{method} got no answer in time.", method=method)) from None
        if not line:
            self._lines.put(b"")
            raise NoAnswer(say("tabane mcp ended before it answered {method}.", method=method))
        return line

    def _answer(self, method: str, message: dict[str, Any], size: int, seconds: float) -> AssistantReply:
        if "error" in message:
            reason = message["error"].get("message", "")
            raise MethodRefused(say("{method} was refused: {reason}", method=method, reason=reason))
        return AssistantReply(message["result"], size, seconds)

    def _refuse(self, identifier: object) -> None:
        error = {"code": -32601, "message": "This client answers no questions."}
        self._write({"jsonrpc": "2.0", "id": identifier, "error": error})

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), line)
        except BrokenPipeError:
            raise NoAnswer(say("tabane mcp ended too early.")) from None


BenchModel = Literal["words", "auto"]
"""``words``: no embedding model. ``auto``: the model that is installed on this machine."""

LISTING = 180.0
"""Time limit for all servers to list their tools, in seconds."""

SETTLED, LONGEST_SETTLING = 5.0, 300.0
"""With a model, answers must be the same for so many seconds before anything is measured: until then the hub
may still make vectors. After the longest time they are taken as they are."""

_PROBES = 8
_TABANE = (sys.executable, "-m", "tabane")
_STOPPING = 30.0
_OPENING = 60.0


class TemporaryHub:
    """A hub over some servers, while the block runs. ``definitions`` are those of a servers file.

    Nothing of the user's own settings is used, except models that are installed. No model is downloaded.
    """

    def __init__(
        self, folder: Path, definitions: Mapping[str, Mapping[str, Any]], model: BenchModel = "words"
    ) -> None:
        self.folder = folder
        self._model = model
        self._mark = f"{folder.name}-{os.getpid()}"
        self.environ = self._environment(model)
        self._servers = list(definitions)
        self._assistants: list[Assistant] = []
        self._client: HubClient | None = None
        # One assistant does all tasks in a row, as nobody does, and nobody is there to approve a call.
        write_private_text(folder / "tabane.toml", 'list_wait = 60\nflow_policy = "off"\n')
        marked_servers = {name: self._with_mark(each) for name, each in definitions.items()}
        text = json.dumps({"mcpServers": marked_servers}, ensure_ascii=False)
        write_private_text(folder / "mcp-servers.json", text)

    def __enter__(self) -> TemporaryHub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def assistant(self, *options: str) -> Assistant:
        """Return a connected client: `tabane mcp` with these options. Raises NoAnswer."""
        log = str(self.folder / "bridge.log")
        found = Assistant((*_TABANE, "mcp", *options), self.environ, log, name="tabane-bench")
        self._assistants.append(found)
        found.open(timeout=_OPENING)
        return found

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an operation of the hub. Raises HubError and CallerError."""
        if self._client is None:
            self._client = self._connect()
        return self._client.call(method, params)

    def aliases(self) -> dict[tuple[str, str], str]:
        """Return the public name of each tool, by server and name, once all servers have listed theirs.

        Servers that failed have no tools.
        """
        deadline = time.monotonic() + LISTING
        while True:
            found = self.call("list_tools")
            if not found["waiting"] or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        names = (row["name"] for row in found["results"])
        details = (self.call("get_tool", {"name": name}) for name in names)
        return {(each["server"], each["original"]): each["name"] for each in details}

    def settle(self, queries: Sequence[str]) -> None:
        """Wait until searches find the same again and again: a model may still make vectors of tools."""
        deadline = time.monotonic() + (LONGEST_SETTLING if self._model != "words" else 0)
        last, since = None, time.monotonic()
        while (now := time.monotonic()) < deadline and now - since < SETTLED:
            params = ({"query": query, "limit": 10} for query in queries[:_PROBES])
            found = [self.call("search_tools", each)["results"] for each in params]
            if found != last:
                last, since = found, now
            time.sleep(0.2)

    def close(self) -> None:
        """Stop the hub and all that it started. Another Ctrl+C does not interrupt this."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._client is not None:
                self._client.close()
                self._client = None
            for assistant in self._assistants:
                assistant.close()
            self._assistants.clear()
            if marked(self._mark):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        [*_TABANE, "stop"],
                        env=self.environ,
                        capture_output=True,
                        timeout=_STOPPING,
                        check=False,
                    )
                kill(wait_until_gone(self._mark, _STOPPING))
        finally:
            signal.signal(signal.SIGINT, before)

    def _connect(self) -> HubClient:
        home = self.environ["TABANE_HOME"]
        build = this_build()
        hello = Hello(
            version=build.name,
            role="rpc",
            home=home,
            pid=os.getpid(),
            cwd=str(self.folder),
            lang="en",
            client="tabane bench",
            servers=self.environ["TABANE_SERVERS"],
            code=build.code,
        )
        connector = HubConnector(Endpoint(home, self.environ), hello, self.environ, (), "hand")
        try:
            return HubClient(connector.reach())
        except HubUnreachable as error:
            raise unreachable(error, "en") from None

    def _environment(self, model: BenchModel) -> dict[str, str]:
        environ = own_environment(self.folder, self._mark)
        local = ",".join(filter(None, (environ.get("NO_PROXY", environ.get("no_proxy")), "127.0.0.1")))
        return environ | {
            "TABANE_SERVERS": str(self.folder / "mcp-servers.json"),
            "TABANE_LANG": "en",
            "TABANE_MODEL": "none" if model == "words" else "auto",
            "NO_PROXY": local,
            "no_proxy": local,
        }

    def _with_mark(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        if "command" not in definition:
            return dict(definition)
        return {**definition, "env": {**definition.get("env", {}), MARK: self._mark}}


class TemporaryFolder:
    """A folder that is deleted at the end of the block, also after Ctrl+C."""

    def __enter__(self) -> Path:
        # resolved, because servers compare paths with those that they were given
        self._path = Path(tempfile.mkdtemp(prefix="tabane-bench-")).resolve()
        return self._path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def own_environment(folder: Path, mark: str) -> dict[str, str]:
    """Return the environment of marked processes with a home in this folder, without the user's settings.

    No model is downloaded, but one that is on this machine is used.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TABANE_")}
    home = folder / "home"
    home.mkdir(mode=0o700)
    return environ | {
        "TABANE_HOME": str(home),
        "TABANE_CONFIG": str(folder / "tabane.toml"),
        "TABANE_HTTP": "false",
        "TABANE_MODEL_OFFLINE": "true",
        MARK: mark,
    }


def write_private_text(file: Path, text: str) -> None:
    """Write a text to a new file that only the user can read."""
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
