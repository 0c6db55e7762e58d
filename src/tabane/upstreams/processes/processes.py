"""Child processes of upstream servers, as the hub sees them: their start, their exit, their end.

The hub does not start them itself: the keeper does, and reports their deaths. This costs one small process,
but the hub needs no thread, no signal handler and no child watcher, and nothing is left behind however the
hub ends. When the keeper is lost, every child counts as ended, the hub kills what it left, and the next spawn
starts a new keeper.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.upstreams.processes.keeper_link import KeeperLink, Subreaper


_T = TypeVar("_T")

GRACE = 2.0
"""Seconds from end of file to SIGTERM, and from there to SIGKILL."""

SLACK = 3.0
"""Seconds, beyond what the signals are given, in which a keeper has to report the end."""


class ChildExit(Struct, frozen=True):
    """The end of a child: its status, or the signal that killed it; neither if unknown."""

    code: int | None = None
    signal: int | None = None

    def describe(self) -> Message:
        """Return the second half of a sentence about the server."""
        if self.signal is not None:
            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = f"signal {self.signal}"
            return say("it was killed by {signal}", signal=name)
        if self.code is not None:
            return say("it ended with exit status {code}", code=self.code)
        return say("it was lost when the process that managed it ended")

    def __str__(self) -> str:
        return self.describe().render("en")


class ChildProcess:
    """A running child.

    The three descriptors are the hub's ends of its pipes, non-blocking. They belong to the caller, who closes
    them. ``exited`` is done as soon as the process has ended, ``gone`` when nothing of it is left, neither in
    its group nor outside.
    """

    def __init__(self, key: int, pid: int, fds: Sequence[int], processes: ChildProcesses) -> None:
        loop = asyncio.get_running_loop()
        self.key = key
        self.pid = pid
        self.stdin_fd, self.stdout_fd, self.stderr_fd = fds
        self.exited: asyncio.Future[ChildExit] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._processes = processes

    async def stop(self, grace: float = GRACE) -> ChildExit:
        """End it: after ``grace`` seconds by SIGTERM, after as many more by SIGKILL to all of it.

        Close its stdin first: the first wait is for its reaction to end of file. Returns when nothing is
        left, at the latest :data:`SLACK` and a second after the SIGKILL. Never raises.
        """
        self._processes.ask({"do": "stop", "key": self.key, "grace": float(grace)})
        if not (await asyncio.wait([self.gone], timeout=2 * grace + SLACK))[0]:
            await self._processes.prod()
        return self.exited.result() if self.exited.done() else ChildExit()

    def kill(self) -> None:
        """Send SIGKILL to all of it, at once."""
        self._processes.ask({"do": "kill", "key": self.key})


class _SpawnRequest(Struct, frozen=True):
    """A start that was requested from the keeper, the hub's ends of the pipes, and the future."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes | None
    fds: list[int]
    answer: asyncio.Future[ChildProcess]


class ChildProcesses:
    """Starts and ends children through a keeper, which is started with the first of them.

    ``log_fd`` gets the keeper's stderr, which is empty unless it fails. A start that takes more than
    ``timeout`` seconds is given up. ``umask`` is the children's, if it differs from the hub's: Tabane's own
    files are private, but a server's files follow the user's umask.

    Belongs to one event loop, in the main thread.
    """

    def __init__(self, *, log_fd: int | None = None, timeout: float = 10.0) -> None:
        self._log_fd, self._timeout = log_fd, timeout
        self.umask: int | None = None
        self._token = os.urandom(8).hex()
        self._keys = count(1)
        self._link: KeeperLink | None = None
        self._requests: dict[int, _SpawnRequest] = {}
        self._children: dict[int, ChildProcess] = {}
        self._adoption: Subreaper | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._clear = asyncio.Event()  # there is no keeper, and no process of an earlier one
        self._clear.set()
        self._pong = asyncio.Event()
        self._closed = False

    @property
    def keeper_pid(self) -> int | None:
        """Return the pid of the keeper; None if there is none."""
        return None if self._link is None else self._link.pid

    async def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        cage: Mapping[str, Any] | None = None,
    ) -> ChildProcess:
        """Start a program, in its own session, with only ``env`` and the marker as environment.

        ``argv[0]`` is looked up on the PATH of ``env``. ``cage`` is what the keeper is told about its cage;
        None for none. Raises UpstreamUnavailable, whose message names what is missing, if it could not be
        started.
        """
        command = _encoded(argv, env, cwd)
        link = await self._keeper()
        key, request = self._request(link, *command, None if cage is None else dict(cage))
        try:
            async with asyncio.timeout(self._timeout):
                return await request.answer
        except TimeoutError:
            self._withdraw(key, request)
            await self.prod()
            message = say("{command} did not start within {time} s.", command=argv[0], time=self._timeout)
            raise UpstreamUnavailable(message) from None
        except asyncio.CancelledError:
            self._withdraw(key, request)
            raise

    async def close(self, grace: float = GRACE) -> None:
        """End every child as :meth:`ChildProcess.stop` does, then the keeper. Limited in time; final."""
        self._closed = True
        await asyncio.gather(*(child.stop(grace) for child in list(self._children.values())))
        if self._link is not None:
            self._link.end()
            try:
                await asyncio.wait_for(self._clear.wait(), 2 * GRACE + SLACK)
            except TimeoutError:
                self._kill_keeper()
        await self._clear.wait()
        if self._adoption is not None:
            self._adoption.end()
            self._adoption = None

    def ask(self, request: dict[str, Any]) -> None:
        """Send the keeper a request about a child; nothing if the child is already gone."""
        if self._link is not None and (request["key"] in self._children or request["key"] in self._requests):
            self._link.send(request)

    async def prod(self) -> None:
        """Ask the keeper for a sign of life. Without one in a second, it is killed, with all its children."""
        if self._link is None:
            return
        self._pong.clear()
        self._link.send({"do": "ping"})
        try:
            await asyncio.wait_for(self._pong.wait(), 1.0)
        except TimeoutError:
            self._kill_keeper()

    def _kill_keeper(self) -> None:
        if self._link is not None:
            self._link.kill()

    async def _keeper(self) -> KeeperLink:
        """Return the keeper; start a new one if the last was lost and its processes have ended."""
        while self._link is None:
            await self._clear.wait()
            if self._closed:
                raise UpstreamUnavailable(self._why_lost())
            if self._link is None:
                self._link = self._start()
                self._clear.clear()
        return self._link

    def _start(self) -> KeeperLink:
        from tabane.upstreams.processes.keeper_link import KeeperLink, Subreaper  # with the first child

        if self._adoption is None:
            self._adoption = Subreaper()
        before = os.umask(self.umask) if self.umask is not None else None
        try:
            return KeeperLink(
                asyncio.get_running_loop(), self._report, self._handle_keeper_loss, self._token, self._log_fd
            )
        except OSError as error:
            message = say(
                "The process that starts servers cannot be started: {path}: {detail}.",
                path=sys.executable,
                detail=os.strerror(error.errno or 0),
            )
            raise UpstreamUnavailable(message) from None
        finally:
            if before is not None:
                os.umask(before)

    def _request(
        self,
        link: KeeperLink,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes | None,
        cage: dict[str, Any] | None,
    ) -> tuple[int, _SpawnRequest]:
        key = next(self._keys)
        ours, theirs = _pipes()
        marker = link.marker(key)
        name, _, value = marker.rstrip(b"\0").partition(b"=")
        request = _SpawnRequest(
            argv, {**env, name: value}, cwd, ours, asyncio.get_running_loop().create_future()
        )
        self._requests[key] = request
        link.send(
            {
                "do": "spawn",
                "key": key,
                "argv": argv,
                "env": request.env,
                "cwd": cwd,
                "cage": cage,
                "marker": marker,
            },
            theirs,
        )
        return key, request

    def _withdraw(self, key: int, request: _SpawnRequest) -> None:
        """End the process of a start that nobody waits for any more."""
        self.ask({"do": "kill", "key": key})
        if request.answer.cancelled() or request.answer.exception() is None:
            _close(request.fds)

    # Reports of the keeper

    def _report(self, report: dict[str, Any]) -> None:
        kind, key = report["is"], report.get("key", 0)
        if kind == "pong":
            self._pong.set()
        elif kind == "spawned":
            self._note_spawned(key, report["pid"])
        elif kind == "failed":
            self._refuse_failed(key, report["step"], report["errno"])
        elif kind == "exited":
            _settle(self._children[key].exited, ChildExit(report["code"], report["signal"]))
        elif kind == "gone":
            _settle(self._children.pop(key).gone, None)

    def _note_spawned(self, key: int, pid: int) -> None:
        request = self._requests.pop(key)
        self._children[key] = child = ChildProcess(key, pid, request.fds, self)
        if not request.answer.done():
            request.answer.set_result(child)

    def _refuse_failed(self, key: int, step: str, number: int) -> None:
        from tabane.upstreams.processes.launch_errors import launch_error  # many texts, only for failures

        request = self._requests.pop(key)
        message = launch_error(request.argv, request.env, request.cwd, step, number)
        self._refuse(request, UpstreamUnavailable(message))

    def _refuse(self, request: _SpawnRequest, error: UpstreamUnavailable) -> None:
        if not request.answer.done():
            _close(request.fds)
            request.answer.set_exception(error)

    def _handle_keeper_loss(self) -> None:
        """Handle the end of the keeper: every child has ended, and their remaining processes are killed."""
        link, self._link = self._link, None
        if link is None:
            return
        requests, self._requests = self._requests, {}
        children, self._children = self._children, {}
        for request in requests.values():
            self._refuse(request, UpstreamUnavailable(self._why_lost()))
        for child in children.values():
            _settle(child.exited, ChildExit())
        self._sweep = asyncio.get_running_loop().create_task(self._end_leavings(link, children))

    async def _end_leavings(self, link: KeeperLink, children: dict[int, ChildProcess]) -> None:
        try:
            await link.end_orphans({child.pid for child in children.values()})
        finally:
            for child in children.values():
                _settle(child.gone, None)
            self._clear.set()

    def _why_lost(self) -> Message:
        if self._closed:
            return say("Tabane is shutting down.")
        return say("The process that starts servers has ended. Try again: the next start uses a new one.")


def _encoded(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[list[bytes], dict[bytes, bytes], bytes | None]:
    """Return the command as bytes for the system. Raises UpstreamUnavailable if it cannot be encoded."""
    try:
        command = [os.fsencode(part) for part in argv]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        folder = None if cwd is None else os.fsencode(cwd)
    except UnicodeEncodeError as error:
        message = say(
            "{command} cannot be started: its command, arguments, environment or cwd contain a "
            "character that the system does not accept ({detail}).",
            command=ascii(argv[0]),
            detail=error.reason,
        )
        raise UpstreamUnavailable(message) from None
    return command, variables, folder


def _pipes() -> tuple[list[int], list[int]]:
    """Return three pipes: the hub's ends, non-blocking, and the child's, each as stdin, stdout, stderr."""
    made: list[tuple[int, int]] = []
    try:
        made.extend(os.pipe() for _ in range(3))
    except OSError as error:
        _close([fd for pair in made for fd in pair])
        message = say(
            "The system has no file descriptors left ({detail}). Close some programs, or raise the limit.",
            detail=os.strerror(error.errno or 0),
        )
        raise UpstreamUnavailable(message) from None
    (child_in, hub_in), (hub_out, child_out), (hub_err, child_err) = made
    ours = [hub_in, hub_out, hub_err]
    for fd in ours:
        os.set_blocking(fd, False)
    return ours, [child_in, child_out, child_err]


def _settle(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():  # a caller's wait_for may have canceled it
        future.set_result(value)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
