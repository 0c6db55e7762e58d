"""Servers on the official SDK as forks of a process that has imported it: its import takes over a second.

``python -m tests.harness.sdk_forks SOCKET`` listens there and forks for each request. It ends with its
standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
_SDK = (
    *("mcp", "mcp.client.session", "mcp.server.context", "mcp.server.extension", "mcp.server.mcpserver"),
    *("mcp.server.sse", "mcp.server.stdio", "mcp.server.streamable_http_manager", "mcp.shared.exceptions"),
    *("mcp_types", "pydantic", "starlette.applications", "uvicorn", "uvicorn.protocols.http.auto"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.websockets.auto"),
)
"""Modules that the servers of the tests import, and those that the SDK imports when a server runs."""

_FORKED = str(ROOT / "tests" / "harness" / "servers" / "forked.py")


def sdk_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a server: a module of the tests that is run as a program."""
    if sys.platform != "linux":
        return [sys.executable, "-m", module, *arguments]
    return [sys.executable, "-I", "-S", _FORKED, _address(), module, *arguments]


@cache
def _address() -> str:
    """Start the process that forks; it ends with this one."""
    folder = tempfile.mkdtemp(prefix="sdk-")
    address = str(Path(folder) / "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.sdk_forks", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address


class _Forks:
    """The forks that run. Each has a connection, whose end means that it is not wanted any more."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> None:
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            peers = {peer.fileno(): pid for pid, peer in self._running.items()}
            ready, _, _ = select.select([0, self._listener.fileno(), woken, *peers], [], [])
            if 0 in ready:
                break
            if woken in ready:
                os.read(woken, 1 << 12)
                self._reap()
            for descriptor, pid in peers.items():
                if descriptor in ready and pid in self._running:
                    _kill(pid)
            if self._listener.fileno() in ready:
                self._begin(self._listener.accept()[0], (woken, wake))
        for pid in self._running:
            _kill(pid)

    def _begin(self, peer: socket.socket, ours: Sequence[int]) -> None:
        try:
            head, streams, _, _ = socket.recv_fds(peer, 4, 3)
            with peer.makefile("rb") as file:
                command, variables, folder = marshal.loads(file.read(int.from_bytes(head, "big")))
        except (EOFError, OSError, ValueError):
            peer.close()
            return
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for connection in (self._listener, peer, *self._running.values()):
                connection.close()
            for descriptor in ours:
                os.close(descriptor)
            _become(command, variables, folder, streams)
        self._running[pid] = peer
        for descriptor in streams:
            os.close(descriptor)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._running.pop(pid) as peer, contextlib.suppress(OSError):
                peer.send(b"%d" % os.waitstatus_to_exitcode(status))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _become(command: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> NoReturn:
    """Be the process of a server: its streams, variables, folder and arguments."""
    from tests.harness.command_forker import ended, open_streams

    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        module, *sys.argv[1:] = command
        open_streams()
        os._exit(ended(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def main(address: str) -> None:
    for name in (*_SDK, "tests.harness.command_forker"):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("listening", flush=True)
        _Forks(listener).serve()


if __name__ == "__main__":
    main(sys.argv[1])
