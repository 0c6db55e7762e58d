"""The keeper: a small process that starts the hub's upstream servers, and ends them when the hub is gone.

It is the parent of every upstream, so it notices each death at once. On Linux it is their subreaper, so that
processes that leave a server's group (npx → sh → node, setsid, double fork) come back to it. It holds a
socket to the hub, whose end of file means that the hub has ended, for whatever reason. If the keeper itself
is killed, the kernel kills the servers it started (PR_SET_PDEATHSIG), and the hub kills what they leave
behind.

Requests and reports are dictionaries in frames over that socket; texts for the system are bytes. From the
hub: ``spawn`` {key, argv, env, cwd, cage, marker} with three file descriptors (stdin, stdout, stderr),
``stop`` {key, grace}, ``kill`` {key}, ``ping``. To the hub: ``spawned`` {key, pid} or ``failed`` {key, step:
cwd|exec|fork|cage:PART, errno}; ``exited`` {key, code, signal} when the server itself has ended; ``gone``
{key} when nothing of it is left; ``pong``.

The keeper must use little memory. So it uses only the standard library, and of that ``_socket``, ``_signal``
and ``marshal`` instead of socket, signal and json, whose imports (enum, selectors, re) would take a sixth
more memory and twice the time to start. Both ends of the socket run the same interpreter.
"""

from __future__ import annotations

import _socket
import marshal
import os
import select
import sys
import time

from tabane.upstreams.processes import launch, process_table
from tabane.upstreams.processes.descriptors import close_inherited
from tabane.upstreams.processes.frames import KeeperFrames, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any
else:
    import _signal as signal

GRACE = 2.0  # seconds between SIGTERM and SIGKILL, if the hub named none
PATIENCE = 4.0  # seconds from the end of the hub to the end of everything
_AGAIN = 0.02, 1.0  # seconds between two rounds of SIGKILL, the first and at most: it may fork as we look
_CHUNK = 1 << 16


class SupervisedProcess:
    """A server that the hub requested, until nothing of it is left."""

    __slots__ = ("again", "alive", "deadline", "grace", "key", "marker", "pid", "pipe", "sent")

    def __init__(self, key: int, marker: bytes, pid: int, pipe: int) -> None:
        self.key = key
        self.marker = marker
        self.pid = pid
        self.pipe: int | None = pipe  # says how exec went; None once that is known
        self.alive = True
        self.grace: float | None = None  # None until it was asked to end
        self.sent = 0  # the signal it was sent last
        self.deadline: float | None = None  # when to go one step further
        self.again = _AGAIN[0]


class Keeper:
    """The state of the keeper and its loop. ``channel`` is a non-blocking socket to the hub."""

    def __init__(self, channel: _socket.socket, control: Callable[..., int] | None) -> None:
        self._channel = channel
        self._control = control
        self._frames = KeeperFrames()
        self._fds: list[int] = []
        self._unsent = bytearray()
        self._instances: dict[int, SupervisedProcess] = {}
        self._table: dict[int, process_table.ProcessEntry] | None = None
        self._over: float | None = None  # when to have ended, once the hub is gone
        self._wake = _alarm()

    def run(self) -> None:
        """Serve until the hub is gone and everything has ended, or :data:`PATIENCE` has."""
        while self._over is None or (self._instances and time.monotonic() < self._over):
            ready = self._wait()
            self._table = None
            if self._over is None and self._channel.fileno() in ready and not self._receive():
                self._abandon()
            for instance in [i for i in self._instances.values() if i.pipe in ready]:
                self._settle(instance)
            self._reap()
            self._advance()
            self._report_gone()
            self._flush()

    def end(self) -> None:
        """Kill whatever is left below this process."""
        for pid in process_table.descendants(process_table.processes(), [os.getpid()]):
            _signal_sent(os.kill, pid, signal.SIGKILL)
        for instance in self._instances.values():
            _signal_sent(os.killpg, instance.pid, signal.SIGKILL)

    # Events

    def _wait(self) -> set[int]:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._over is None:
            poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        for instance in self._instances.values():
            if instance.pipe is not None:
                poll.register(instance.pipe, select.POLLIN)
        ready = {fd for fd, event in poll.poll(self._timeout()) if event != select.POLLOUT}
        if self._wake in ready:
            os.read(self._wake, _CHUNK)
        return ready

    def _timeout(self) -> float | None:
        """Return the milliseconds until the next deadline; None if there is none."""
        deadlines = [i.deadline for i in self._instances.values() if i.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 + 1 if deadlines else None

    # Requests of the hub

    def _receive(self) -> bool:
        """Handle requests of the hub. Return False if the hub has ended, or sends what cannot be parsed."""
        try:
            data, ancillary, flags, _ = self._channel.recvmsg(
                _CHUNK, _socket.CMSG_SPACE(64), getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _level, _kind, fds in ancillary:
            for start in range(0, len(fds) - 3, 4):
                self._fds.append(int.from_bytes(fds[start : start + 4], sys.byteorder))
                os.set_inheritable(self._fds[-1], False)
        # A lost descriptor would give the next server another's pipes. Starting no server is better.
        if not data or flags & _socket.MSG_CTRUNC:
            return False
        for request in self._frames.feed(data):
            self._handle(request)
        return True

    def _handle(self, request: dict[str, Any]) -> None:
        if request["do"] == "ping":
            self._tell({"is": "pong"})
            return
        if request["do"] == "spawn":
            key, stdio, self._fds = request["key"], self._fds[:3], self._fds[3:]
            try:
                command = request["argv"], request["env"], request["cwd"]
                pid, pipe = launch.launch(*command, stdio, self._control, request["cage"])
                self._instances[key] = SupervisedProcess(key, request["marker"], pid, pipe)
            except OSError as error:
                self._tell({"is": "failed", "key": key, "step": "fork", "errno": error.errno})
            for fd in stdio:
                os.close(fd)
            return
        instance = self._instances.get(request["key"])
        if instance is None or not instance.alive:
            return
        if request["do"] == "kill":
            self._signal(instance, signal.SIGKILL)
        elif instance.grace is None:
            instance.grace = request["grace"]
            instance.deadline = time.monotonic() + instance.grace

    # Ends of servers

    def _settle(self, instance: SupervisedProcess) -> None:
        """Read the result of exec: a pipe that ends without data means success."""
        if instance.pipe is None:
            return
        said = os.read(instance.pipe, _CHUNK)
        os.close(instance.pipe)
        instance.pipe = None
        if not said:
            self._tell({"is": "spawned", "key": instance.key, "pid": instance.pid})
            return
        del self._instances[instance.key]
        step, errno = marshal.loads(said)
        self._tell({"is": "failed", "key": instance.key, "step": step, "errno": errno})

    def _reap(self) -> None:
        """Notice every child that has ended: servers, and orphans that came back."""
        while pid_status := _ended():
            pid, status = pid_status
            for instance in [i for i in self._instances.values() if i.pid == pid and i.alive]:
                self._settle(instance)
                if instance.key in self._instances:
                    code = os.waitstatus_to_exitcode(status)
                    instance.alive = False
                    killed = code < 0
                    self._tell(
                        {
                            "is": "exited",
                            "key": instance.key,
                            "code": None if killed else code,
                            "signal": -code if killed else None,
                        }
                    )
                    if not instance.sent:
                        self._signal(instance, signal.SIGTERM)
        self._table = None

    def _advance(self) -> None:
        """Take the next step for all that had their time: SIGTERM, SIGKILL, and SIGKILL again."""
        now = time.monotonic()
        for instance in self._instances.values():
            if instance.deadline is not None and instance.deadline <= now:
                self._signal(instance, signal.SIGKILL if instance.sent else signal.SIGTERM)

    def _report_gone(self) -> None:
        """Report the servers that have ended and of which nothing is left."""
        for instance in [i for i in self._instances.values() if not i.alive]:
            if not launch.LINUX:
                left = _signal_sent(os.killpg, instance.pid, 0)
            else:
                left = bool(self._members(instance))
            if not left:
                del self._instances[instance.key]
                self._tell({"is": "gone", "key": instance.key})

    def _members(self, instance: SupervisedProcess) -> set[int]:
        """Return its processes, in whatever group. One whose owner is unknown counts as the last server's."""
        table, keeper = self._processes(), os.getpid()
        if len(self._instances) == 1:
            return process_table.descendants(table, [keeper])
        return process_table.belonging(
            table, keeper, (instance.pid,), lambda pid: process_table.carries(pid, instance.marker)
        )

    def _processes(self) -> dict[int, process_table.ProcessEntry]:
        """Return the table of processes, read once in a round of the loop."""
        if self._table is None:
            self._table = process_table.processes()
        return self._table

    def _signal(self, instance: SupervisedProcess, number: int) -> None:
        """Send ``number`` to the group, and to each process of the server that has left it."""
        if number == signal.SIGTERM:
            wait = GRACE if instance.grace is None else instance.grace
        else:
            wait = instance.again
            instance.again = min(2 * wait, _AGAIN[1])
        instance.sent = number
        instance.deadline = time.monotonic() + wait
        table, members = self._processes(), self._members(instance)
        outside = {pid for pid in members if table[pid].group != instance.pid}
        # A group without members has ended, and its number may belong to another group now.
        if instance.alive or not launch.LINUX or len(outside) < len(members):
            if _signal_sent(os.killpg, instance.pid, number):
                outside.discard(instance.pid)
            elif instance.alive:
                outside.add(instance.pid)  # it has not created its group yet
        for pid in outside:
            _signal_sent(os.kill, pid, number)

    def _abandon(self) -> None:
        """End everything, because the hub has ended."""
        self._over = time.monotonic() + PATIENCE
        strays = process_table.descendants(self._processes(), [os.getpid()])
        for instance in self._instances.values():
            strays -= self._members(instance)
            if not instance.sent:
                instance.grace = GRACE
                self._signal(instance, signal.SIGTERM)
        for pid in strays:
            _signal_sent(os.kill, pid, signal.SIGTERM)

    # Reports to the hub

    def _tell(self, report: dict[str, Any]) -> None:
        self._unsent += pack(report)

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            return  # the hub is busy; a server causes three reports at most, so this stays small
        except OSError:
            self._unsent.clear()  # the hub has ended, as the next read will show


def _alarm() -> int:
    """Return a pipe that becomes readable when a child has ended."""
    wake, bell = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(bell, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    return wake


def _ended() -> tuple[int, int] | None:
    """Return the pid and status of a child that has ended, reaped; None if there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _signal_sent(send: Callable[[int, int], None], target: int, number: int) -> bool:
    """Return whether there was a process to send the signal to."""
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _hub() -> _socket.socket:
    """Return the socket to the hub, from descriptor 0; /dev/null replaces stdin and stdout."""
    channel = _socket.socket(fileno=os.dup(0))
    channel.setblocking(False)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return channel


def main() -> None:
    """Run as the keeper: descriptor 0 is the socket, descriptor 2 gets error messages."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    close_inherited()
    control = None
    if launch.LINUX:
        control = launch.prctl()
        control(launch.SET_SUBREAPER, 1)
        control(launch.SET_NAME, b"tabane-keeper")
    keeper = Keeper(_hub(), control)
    try:
        keeper.run()
    finally:
        keeper.end()
