"""Commands of `tabane` in processes that are forked, not started: a command costs a tenth of what it does.

Each is a process of its own, with its own streams, variables and folder. It only finds its modules imported.
What a fresh interpreter has to prove (which modules a command imports, how Python starts) needs a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_OWN = ("PYTHON", "LC_", "LD_", "MALLOC_", "TZ", "TABANE_LANG")
"""Beginnings of variables that an interpreter, or a command, reads when it starts and imports."""

_LANG = "C.UTF-8"
_PIECE = 1 << 16
_PADDING = "x" * 16384
"""Room for the arguments, and for the variables, that a fork shows in the list of processes."""


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Return whether a command in this environment finds nothing else in a fresh interpreter."""
    if sys.platform != "linux" or environment.get("LANG") != _LANG:
        return False
    return not any(name.startswith(_OWN) for name in environment)


def run_forked(
    arguments: Sequence[str],
    stdin: bytes,
    environment: Mapping[str, str],
    folder: Path,
    limit: float,
    *,
    forks_hub: bool,
    python: str = sys.executable,
) -> subprocess.CompletedProcess[bytes]:
    """Run `tabane ARGUMENTS` as :func:`subprocess.run` does, with its outputs captured.

    ``forks_hub``: a hub that the command starts is forked, too. ``python`` has imported another version,
    if it is not the one that runs. Raises subprocess.TimeoutExpired.
    """
    told = _request(arguments, environment, folder, forks_hub)
    return _forker(python).run(told, stdin, limit)


def _request(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, forks_hub: bool
) -> Mapping[str, Any]:
    return {
        "arguments": list(arguments),
        "environment": dict(environment),
        "folder": str(folder),
        "forks_hub": forks_hub,
    }


@cache
def _forker(python: str = sys.executable) -> CommandForker:
    return CommandForker(python)


class ForkedProcess:
    """`tabane ARGUMENTS` as a process with pipes, and what subprocess.Popen has of it. Its hub is forked."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        (in_read, in_write), *outputs = (os.pipe() for _ in range(4))
        given = [in_read, *(write for _, write in outputs)]
        _forker().send(_request(arguments, environment, folder, True), given)
        out, err, self._report = (read for read, _ in outputs)
        self.stdin = open(in_write, "wb", buffering=0)  # noqa: SIM115 (they live as long as the process)
        self.stdout = open(out, "rb", buffering=0)  # noqa: SIM115
        self.stderr = open(err, "rb")  # noqa: SIM115
        self.args = ["tabane", *arguments]
        self.returncode: int | None = None
        self._said = b""
        while not self._said.endswith(b"\n"):
            self._said += os.read(self._report, 1)
        self.pid = int(self._said)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
        return self._settled(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status. Raises subprocess.TimeoutExpired."""
        status = self._settled(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _settled(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], seconds)[0]:
            self.returncode = int(os.read(self._report, _PIECE))
            os.close(self._report)
        return self.returncode


class CommandForker:
    """The process that forks; it ends with this one."""

    def __init__(self, python: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [python, "-m", "tests.harness.command_forker", str(theirs.fileno()), _PADDING],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={
                    "PATH": os.environ["PATH"],
                    "LANG": _LANG,
                    "OPENBLAS_NUM_THREADS": "1",
                    "PADDING": _PADDING,
                },
                pass_fds=[theirs.fileno()],
            )

    def send(self, told: Mapping[str, Any], given: Sequence[int]) -> None:
        """Request a process with these descriptors, which are closed here."""
        try:
            socket.send_fds(self._control, [json.dumps(told).encode()], given)
        finally:
            for descriptor in given:
                os.close(descriptor)

    def run(self, told: Mapping[str, Any], stdin: bytes, limit: float) -> subprocess.CompletedProcess[bytes]:
        pipes = [os.pipe() for _ in range(4)]
        (in_read, in_write), *outputs = pipes
        self.send(told, [in_read, *(write for _, write in outputs)])
        streams = _Streams(in_write, stdin, [read for read, _ in outputs])
        command = ["tabane", *told["arguments"]]
        out, err, report = streams.exchanged(command, limit)
        return subprocess.CompletedProcess(command, int(report.split()[1]), out, err)


class _Streams:
    """The ends of a command's pipes that are ours: what is written to it, and what it and its end say."""

    def __init__(self, target: int, data: bytes, sources: Sequence[int]) -> None:
        self._rest = memoryview(data)
        self._target = target
        self._said = {source: bytearray() for source in sources}
        self._selector = selectors.DefaultSelector()
        os.set_blocking(target, False)
        self._selector.register(target, selectors.EVENT_WRITE)
        for source in sources:
            self._selector.register(source, selectors.EVENT_READ)

    def exchanged(self, command: Sequence[str], limit: float) -> list[bytes]:
        """Return all that the sources say until each has ended. Kills the command at the time limit."""
        deadline = time.monotonic() + limit
        try:
            while self._selector.get_map():
                ready = self._selector.select(deadline - time.monotonic())
                if not ready and time.monotonic() >= deadline:
                    self._kill()
                    raise subprocess.TimeoutExpired(list(command), limit)
                for key, _ in ready:
                    self._write() if key.fd == self._target else self._read(key.fd)
        finally:
            for key in list(self._selector.get_map().values()):
                self._close(key.fd)
            self._selector.close()
        return [bytes(part) for part in self._said.values()]

    def _write(self) -> None:
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._target, self._rest[:_PIECE]) :]
        except BrokenPipeError:
            self._rest = self._rest[:0]
        if not self._rest:
            self._close(self._target)

    def _read(self, source: int) -> None:
        chunk = os.read(source, _PIECE)
        self._said[source] += chunk
        if not chunk:
            self._close(source)

    def _close(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)

    def _kill(self) -> None:
        *_, report = self._said.values()
        if report:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(report.split()[0]), signal.SIGKILL)
