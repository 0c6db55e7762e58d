"""The hub's end of the socket to a keeper: starts it, sends it requests, hands on its reports."""

from __future__ import annotations

import array
import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tabane.gateway.processes.frames import KeeperFrames, pack

_CHUNK = 1 << 16
_PACKAGE = str(Path(__file__).resolve().parents[3])
# As a module, not as a script: a script would be compiled again at each start.
_RUN = "import sys; sys.path.append(sys.argv[1]); from tabane.gateway.processes.keeper import main; main()"
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # where an interpreter may need to find its library


class KeeperLink:
    """A running keeper.

    ``report`` is given each of its reports; ``lost`` is called once when its end of the socket is
    closed, which it is when the keeper has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
        log_fd: int | None = None,
    ) -> None:
        """Start a keeper. Raises OSError if the system has no room for one."""
        self._loop, self._report, self._lost = loop, report, lost
        self._frames = KeeperFrames()
        self._outbox: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._blocked = False
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        try:
            self.pid = _start(theirs.fileno(), log_fd)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        loop.add_reader(self._socket, self._readable)

    def send(self, request: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a request with ``fds``, which are closed here once they are on their way."""
        self._outbox.append((memoryview(pack(request)), fds))
        if not self._blocked:
            self._flush()

    def end(self) -> None:
        """Let the keeper see that the hub is gone: it ends everything, then itself."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has gone before

    def close(self) -> None:
        """Let go of the socket and of what was not sent. May be called twice."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        while self._outbox:
            _close(self._outbox.popleft()[1])

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._lost()
            return
        for report in self._frames.feed(data):
            self._report(report)

    def _flush(self) -> None:
        try:
            while self._outbox:
                self._send_first()
        except BlockingIOError:
            self._block(True)
            return
        except OSError:
            return  # it is gone, as the reader is about to learn
        self._block(False)

    def _send_first(self) -> None:
        frame, fds = self._outbox[0]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self._socket.sendmsg([frame], rights)
        _close(fds)
        self._outbox[0] = frame[sent:], ()
        if sent == len(frame):
            self._outbox.popleft()

    def _block(self, blocked: bool) -> None:
        if blocked and not self._blocked:
            self._loop.add_writer(self._socket, self._flush)
        elif self._blocked and not blocked:
            self._loop.remove_writer(self._socket)
        self._blocked = blocked


def _start(channel: int, log_fd: int | None) -> int:
    """Start a keeper whose descriptor 0 is ``channel`` and whose stderr goes to ``log_fd``; its pid.

    It starts with the signals blocked that would end it before it can refuse them.
    """
    log = (
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        if log_fd is None
        else (os.POSIX_SPAWN_DUP2, log_fd, 2)
    )
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _RUN, _PACKAGE],
        {name: os.environ[name] for name in _LOADER if name in os.environ},
        file_actions=[
            log,
            (os.POSIX_SPAWN_DUP2, channel, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
        setsigmask=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
