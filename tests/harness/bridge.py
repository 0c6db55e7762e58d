"""A client of `tabane mcp`, and a fake hub that a bridge connects to."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tabane.build import this_build
from tabane.hub.local import handshake as hellos
from tabane.hub.local import lock
from tabane.hub.local.endpoint import Endpoint
from tests.harness.forked_commands import ForkedProcess, can_be_forked
from tests.harness.patience import LONG, wait_until

PATIENCE = LONG
"""Seconds after which something that should have happened counts as not happening."""

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def request(number: object, method: str = "tools/call", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def answer(number: object, result: Any = None) -> bytes:
    name, body = json.dumps(number), json.dumps(result if result is not None else {})
    return f'{{"jsonrpc":"2.0","id":{name},"result":{body}}}'.encode()


class Lines:
    """Lines from a descriptor, each waited for with a limit."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._seen = b""
        self.ended = False

    def next(self, limit: float = PATIENCE) -> bytes:
        """The next line. Raises AssertionError when none comes, EOFError at the end."""
        deadline = time.monotonic() + limit
        while b"\n" not in self._seen:
            if self.ended:
                raise EOFError(self._seen)
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no line in {limit} s; so far {self._seen[:200]!r}")
            chunk = os.read(self.fd, 1 << 20)
            self.ended = not chunk
            self._seen += chunk
        line, _, self._seen = self._seen.partition(b"\n")
        return line

    def rest(self) -> list[bytes]:
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(self.next())
        return found


class BridgeClient:
    """An assistant: the process of `tabane mcp` and what passes through its pipes."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *flags: str,
        stdin: int | IO[bytes] = subprocess.PIPE,
        python: str = sys.executable,
        cwd: Path | None = None,
        forks: bool = False,
    ) -> None:
        """Start the bridge. ``forks``: it and a hub that it starts are forks, if the variables allow it."""
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if forks and python == sys.executable and can_be_forked(environ):
            self.process = ForkedProcess(["mcp", *flags], environ, cwd or Path.cwd())
        else:
            self.process = subprocess.Popen(
                [python, "-m", "tabane", "mcp", *flags],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                bufsize=0,
                cwd=cwd,
            )
        assert self.process.stdout is not None
        self.out = Lines(self.process.stdout.fileno())

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        rest = memoryview(b"".join(line + b"\n" for line in lines))
        while rest:
            rest = rest[self.process.stdin.write(rest) or 0 :]

    def next(self, limit: float = PATIENCE) -> Any:
        return json.loads(self.out.next(limit))

    def answer(self, number: object, limit: float = PATIENCE) -> Any:
        """The answer to that request; notifications before it are passed over."""
        while True:
            message = self.next(limit)
            if message.get("id") == number and "method" not in message:
                return message

    def call(self, number: object, method: str = "tools/call", **params: Any) -> Any:
        self.send(request(number, method, **params))
        return self.answer(number)

    def initialize(self) -> Any:
        answer = self.call(0, "initialize", **INITIALIZE)
        if "error" not in answer:  # a bridge that refuses ends
            self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, limit: float = PATIENCE) -> int:
        return self.process.wait(limit)

    def errors(self) -> str:
        """What stands on standard error; call it when the process has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class BridgeConnection:
    """A bridge's connection as a hub that the test plays has it."""

    def __init__(self, peer: socket.socket, lines: Lines, hello: hellos.Hello) -> None:
        self.peer, self.lines, self.hello = peer, lines, hello

    def next(self, limit: float = PATIENCE) -> Any:
        return json.loads(self.lines.next(limit))

    def send(self, *lines: bytes) -> None:
        self.peer.sendall(b"".join(line + b"\n" for line in lines))

    def close(self) -> None:
        self.peer.close()


class FakeHub:
    """A hub whose every word is the test's: the lock is held and the socket listened at."""

    def __init__(self, home: Path, version: str | None = None, held: lock.HomeLock | None = None) -> None:
        self._home = home
        version = version or this_build().name
        self._endpoint = Endpoint(str(home), os.environ)
        self._endpoint.prepare()
        self.welcome = hellos.Welcome(version, os.getpid(), None)
        mine: lock.HomeLock = held or wait_until(
            lambda: lock.acquire(self._endpoint.lock), "the lock of the home"
        )
        self._lock: lock.HomeLock | None = mine
        mine.write(lock.LockHolder(os.getpid(), version, lock.HAND))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._endpoint.socket)
        self._socket.bind(self._endpoint.socket)
        self._socket.listen()
        self.connections: list[BridgeConnection] = []

    def accept(self, answer: hellos.Welcome | hellos.HelloRefused | None = None) -> BridgeConnection:
        """The next connection, welcomed or answered otherwise. Those that say nothing are passed over."""
        while True:
            peer, _ = self._socket.accept()
            peer.settimeout(PATIENCE)
            lines = Lines(peer.fileno())
            try:
                line = BridgeConnection(peer, lines, hellos.read_hello(lines.next()))
            except EOFError:
                peer.close()
                continue
            peer.sendall(hellos.encode(answer or self.welcome))
            self.connections.append(line)
            return line

    def die(self) -> None:
        """Gone at once, as by kill -9."""
        self._hang_up()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def succeeded(self, version: str | None = None) -> FakeHub:
        """Gone, and another in its place before anybody else could start one."""
        self._hang_up()
        mine, self._lock = self._lock, None
        return FakeHub(self._home, version, held=mine)

    def _hang_up(self) -> None:
        self._socket.close()
        for line in self.connections:
            line.close()


@contextlib.contextmanager
def fake_hub(home: Path, version: str | None = None) -> Iterator[FakeHub]:
    with playing(FakeHub(home, version)) as hub:
        yield hub


@contextlib.contextmanager
def playing(hub: FakeHub) -> Iterator[FakeHub]:
    try:
        yield hub
    finally:
        with contextlib.suppress(OSError):
            hub.die()


def environment(home: Path, **more: str) -> dict[str, str]:
    """A user's environment with a home of its own for everything that Tabane keeps."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    config = {"XDG_CONFIG_HOME": str(home.parent / "config")}
    own = {"TABANE_HOME": str(home), "TABANE_HTTP": "false", "TABANE_MODEL": "none"}
    return {**kept, **config, **own, **more}


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss / 1e6)
