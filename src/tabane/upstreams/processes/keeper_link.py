"""The hub's end of the socket to a keeper, and the cleanup after a keeper that was lost.

On Linux the hub is a subreaper while it has children. If the keeper is killed, the kernel kills the servers
that the keeper started, and the processes that those had started become children of the hub, which kills
and reaps them. On other systems the hub kills the process groups of the servers: it can find nothing else.
"""

from __future__ import annotations

import array
import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from tabane.upstreams.processes import launch, process_table
from tabane.upstreams.processes.frames import KeeperFrames, pack

log = logging.getLogger(__name__)

_CHUNK = 1 << 16
_PACKAGE = str(Path(__file__).resolve().parents[3])
# As a module, not as a script: a script would be compiled again at each start.
_RUN = "import sys; sys.path.append(sys.argv[1]); from tabane.upstreams.processes.keeper import main; main()"
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # where an interpreter may need to find its library


CLEANUP_LIMIT = 5.0
"""Seconds after which the hub gives up on processes that cannot be killed."""

_PAUSE = 0.002, 0.05  # seconds between two checks, at first and at most


class KeeperLink:
    """A running keeper.

    ``report`` is called with each of its reports. ``lost`` is called once when the keeper has ended, which
    closes its end of the socket. ``token`` is part of the marker in the environments of its children.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
        token: str,
        log_fd: int | None = None,
    ) -> None:
        """Start a keeper. Raises OSError if the system has no room for one."""
        self._loop, self._report, self._lost, self._token = loop, report, lost, token
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

    def marker(self, key: int) -> bytes:
        """Return the marker in the environment of a child, as /proc shows it."""
        return process_table.marker(self._token, key)

    def kill(self) -> None:
        """Send SIGKILL to the keeper, if it has not ended already."""
        kill_if_alive(os.kill, self.pid)

    def end(self) -> None:
        """Close the hub's side, so that the keeper ends everything and then itself."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended already

    def close(self) -> None:
        """Close the socket and drop what was not sent. May be called twice."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        while self._outbox:
            _close(self._outbox.popleft()[1])

    async def end_orphans(self, leaders: Collection[int]) -> None:
        """Kill and reap the keeper, and what is left of the servers it had started.

        ``leaders`` are the servers' pids. Takes at most :data:`CLEANUP_LIMIT`.
        """
        kill_if_alive(os.kill, self.pid)
        if not launch.LINUX:
            for leader in leaders:
                kill_if_alive(os.killpg, leader)
        marker = process_table.marker(self._token)
        pause, until = _PAUSE[0], asyncio.get_running_loop().time() + CLEANUP_LIMIT
        while not (_reap(self.pid) and not _end_some(leaders, marker)):
            if asyncio.get_running_loop().time() > until:
                log.warning("a process that keeper %d left behind cannot be killed", self.pid)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE[1])

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
                frame, fds = self._outbox[0]
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                sent = self._socket.sendmsg([frame], rights)
                _close(fds)
                self._outbox[0] = frame[sent:], ()
                if sent == len(frame):
                    self._outbox.popleft()
        except BlockingIOError:
            self._block(True)
            return
        except OSError:
            return  # it has ended, as the reader will notice
        self._block(False)

    def _block(self, blocked: bool) -> None:
        if blocked and not self._blocked:
            self._loop.add_writer(self._socket, self._flush)
        elif self._blocked and not blocked:
            self._loop.remove_writer(self._socket)
        self._blocked = blocked


def _start(channel: int, log_fd: int | None) -> int:
    """Start a keeper whose descriptor 0 is ``channel`` and whose stderr is ``log_fd``; return its pid.

    Signals that would end it before it can ignore them are blocked at its start.
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


class Subreaper:
    """Makes this process the parent of orphans below it, if the system supports that."""

    def __init__(self) -> None:
        self._control = launch.prctl() if launch.LINUX else None
        self._before = 0
        if self._control is not None:
            import ctypes  # which prctl has imported

            before = ctypes.c_int()
            self._control(launch.GET_SUBREAPER, ctypes.byref(before))
            self._before = before.value
            self._control(launch.SET_SUBREAPER, 1)

    def end(self) -> None:
        """Restore the setting from before."""
        if self._control is not None:
            self._control(launch.SET_SUBREAPER, self._before)


def kill_if_alive(kill: Callable[[int, int], None], target: int) -> None:
    """Send SIGKILL to a process or group that may have ended already."""
    try:
        kill(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _end_some(leaders: Collection[int], marker: bytes) -> bool:
    """Kill what is running and reap what has ended. Return whether there was any such process."""
    table, hub = process_table.processes(), os.getpid()
    if hub not in table:
        return False
    members = process_table.belonging(table, hub, leaders, lambda pid: process_table.carries(pid, marker))
    left = False
    for process in table.values():
        # A zombie shows no marker. The hub's own children stay in its session; an orphan has another.
        orphan = process.zombie and process.parent == hub and process.session != table[hub].session
        if process.pid not in members and not orphan:
            continue
        left = True
        if not process.zombie:
            kill_if_alive(os.kill, process.pid)
        elif process.parent == hub:
            _reap(process.pid)
    return left


def _reap(pid: int) -> bool:
    """Return whether a child has ended and is reaped, now or before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
