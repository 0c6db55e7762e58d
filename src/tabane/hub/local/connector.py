"""Connector to the hub of a home: finds it, waits while it starts or ends, launches one if none runs."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from tabane.build import on_disk
from tabane.hub.local import handshake, lock
from tabane.hub.local.endpoint import Endpoint, UnsafeEndpoint, absolute
from tabane.hub.local.handshake import Hello, Welcome, say

COMMAND = "_hub"
"""The internal command that is a hub's process; see :mod:`tabane.__main__`."""

TRY = "--try"
"""The only argument of that command if it is to import all that a hub needs, and to end."""

LIMIT = 60.0
"""Seconds that a hub may take to start, including the end of an earlier one."""

MOST_DESCRIPTORS = 1 << 16

READY, LOST, FAILED = "ready", "lost", "failed"
_PATHS = (
    *("TABANE_HOME", "TABANE_CONFIG", "TABANE_SERVERS"),
    *("TABANE_POSTS_EMBEDDINGS", "TABANE_POSTS_REASONING", "TABANE_POSTS_SUMMARY"),
)


class LaunchOutcome(NamedTuple):
    """Outcome of a start. ``texts`` are why it failed, by language; empty if the hub reported nothing."""

    state: str
    texts: dict[str, str]
    pid: int = 0

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode() + b"\n"


def read_outcome(said: bytes) -> LaunchOutcome:
    """Parse the report from a hub's pipe. If it cannot be read, the start failed without a reason."""
    try:
        note = json.loads(said)
        return LaunchOutcome(str(note["state"]), dict(note["texts"]), int(note["pid"]))
    except (ValueError, KeyError, TypeError):
        return LaunchOutcome(FAILED, {})


def launch(endpoint: Endpoint, flags: Sequence[str], started_by: str, environ: Mapping[str, str]) -> int:
    """Start a detached hub. Return the reading end of the pipe for its report.

    ``flags`` are settings as ``--name=value``. Raises OSError if no process can be created.
    """
    endpoint.prepare()
    words = os.open(endpoint.last_words, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    read_end, write_end = os.pipe()
    try:
        child = os.fork()
        if not child:
            # -P: the working directory is no place to import from.
            arguments = [sys.executable, "-P", "-m", "tabane", COMMAND]
            arguments += [f"--started-by={started_by}", f"--pipe={write_end}", *flags]
            _detach(endpoint, arguments, environ, words, write_end)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(words)
        os.close(write_end)
    os.waitpid(child, 0)
    return read_end


def _detach(
    endpoint: Endpoint, arguments: list[str], environ: Mapping[str, str], words: int, pipe: int
) -> NoReturn:
    """Start a new session, detach from the parent, and run the hub. Never returns."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for source, target in ((null, 0), (words, 1), (words, 2)):
            os.dup2(source, target)
        # What the client left open in the bridge must not stay open for as long as the hub lives.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, MOST_DESCRIPTORS)
        os.set_inheritable(pipe, True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # The hub has another working directory than its launcher.
        variables = dict(environ)
        variables.pop("TABANE_MODE", None)  # how one client wants its tools is not how all do
        for name in _PATHS:
            if variables.get(name):
                variables[name] = absolute(variables[name], environ)
        os.chdir(endpoint.home)
        os.execve(sys.executable, arguments, variables)
    finally:
        os._exit(127)


ANSWER_LIMIT = 15.0
"""Seconds that a hub may take to answer a hello. A hub on a machine short of memory or disk can need many."""

REACH_LIMIT = 60.0
"""Seconds to find or start a hub, the end of one that is about to go included."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two looks at a hub that is coming or going."""

TRANSIENT = ("ending", "full")
"""Codes of refusals after which another try may be welcome."""

MOST_REPLACED = 3
"""Older hubs that one client asks to end, one after the other."""

Pause = Callable[[float, int], None]
"""Waits for so many seconds, or until the descriptor (-1 for none) can be read. May raise to give up."""


class HubUnreachable(Exception):
    """No hub can be reached. ``texts`` say why and what to do, by language; ``code`` is for programs."""

    def __init__(self, texts: Mapping[str, str], code: str = "unreachable") -> None:
        super().__init__(texts.get("en", ""))
        self.texts, self.code = dict(texts), code

    def text(self, lang: str) -> str:
        return self.texts.get(lang) or self.texts["en"]


class HubConnection(NamedTuple):
    """A welcome: the connected, non-blocking descriptor, and what the hub sent after its welcome."""

    fd: int
    welcome: Welcome
    rest: bytes


def pause(seconds: float, fd: int = -1) -> None:
    """Sleep: the plain :data:`Pause`."""
    poll = select.poll()
    if fd >= 0:
        poll.register(fd, select.POLLIN)
    poll.poll(seconds * 1000)


class HubConnector:
    """Finds the hub of one home for one kind of client.

    ``flags`` are those that a hub is started with; None if none is to be started. If ``hello`` is that of a
    bridge, a hub of an older version is asked to end.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        hello: Hello,
        environ: Mapping[str, str],
        flags: Sequence[str] | None = (),
        started_by: str = lock.BRIDGE,
        pause: Pause = pause,
    ) -> None:
        self.endpoint, self.hello = endpoint, hello
        self._environ, self._flags, self._started_by = environ, flags, started_by
        self._pause = pause
        self._keep_older, self._replaced = False, 0

    @property
    def starts(self) -> bool:
        """Return whether a hub is started if none runs."""
        return self._flags is not None

    def connect(self, limit: float = ANSWER_LIMIT) -> HubConnection | None:
        """Try once to connect. Return None if no hub serves at this moment.

        ``limit`` is in seconds, for the answer to the hello.
        Raises :class:`HubUnreachable` if a retry cannot help.
        """
        found = self._say_hello(self.hello, limit)
        if found is None:
            return None
        if self.hello.role == "mcp" and handshake.supersedes(self.hello, found.welcome, on_disk().name):
            return self._replace(found)
        return found

    def reach(self, limit: float = REACH_LIMIT) -> HubConnection:
        """Return a hub that serves; it is started if needed. Raises :class:`HubUnreachable`."""
        deadline = time.monotonic() + limit
        wait = FIRST_PAUSE
        while True:
            found = self.connect(min(ANSWER_LIMIT, max(0.0, deadline - time.monotonic())))
            if found:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise HubUnreachable(self._unresponsive(), "silent")
            if self._flags is None:
                if not lock.held(self.endpoint.lock):
                    raise HubUnreachable(say("No hub is running. Start one with: tabane start"), "absent")
            elif not lock.held(self.endpoint.lock):
                self._start(self._flags, left)
                continue
            self._pause(wait, -1)
            wait = min(wait * 2, LONGEST_PAUSE)

    def _start(self, flags: Sequence[str], limit: float) -> None:
        try:
            pipe = launch(self.endpoint, flags, self._started_by, self._environ)
        except OSError as error:
            why = error.strerror or str(error)
            raise HubUnreachable(say("The hub could not be started: {why}", why=why), "failed") from None
        try:
            outcome = read_outcome(self._read_to_end(pipe, limit))
        finally:
            os.close(pipe)
        if outcome.state == READY:
            # If this build is older, so is the code on disk, and the next hub would be old again.
            self._keep_older = True
        if outcome.state == FAILED:
            raise HubUnreachable(outcome.texts or self._died(), "failed")

    def _read_to_end(self, pipe: int, limit: float) -> bytes:
        received, deadline = b"", time.monotonic() + limit
        while (left := deadline - time.monotonic()) > 0:
            self._pause(left, pipe)
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            if not poll.poll(0):
                continue
            chunk = os.read(pipe, 1 << 16)
            received += chunk
            if not chunk or chunk.endswith(b"\n"):
                return received
        raise HubUnreachable(self._unresponsive(), "silent")

    def _say_hello(self, hello: Hello, limit: float = ANSWER_LIMIT) -> HubConnection | None:
        fd = self._open()
        if fd is None:
            return None
        try:
            found = self._welcome(fd, hello, limit)
        except BaseException:
            os.close(fd)
            raise
        if found is None:
            os.close(fd)
        return found

    def _open(self) -> int | None:
        try:
            path = self.endpoint.reachable()
        except UnsafeEndpoint as error:
            raise HubUnreachable(say("{why}. Remove it, and try again.", why=error), "unsafe") from None
        with socket.socket(socket.AF_UNIX) as peer:
            peer.setblocking(False)
            try:
                peer.connect(path)
            except PermissionError:
                text = say("The hub at {path} belongs to another user.", path=path)
                raise HubUnreachable(text, "user") from None
            except OSError:
                # There is no hub, it has just ended, or it is busy: each of these may change.
                return None
            return peer.detach()

    def _welcome(self, fd: int, hello: Hello, limit: float) -> HubConnection | None:
        try:
            os.write(fd, handshake.encode(hello))
            received = self._first_line(fd, limit)
        except OSError:
            return None
        if received is None:
            return None
        line, _, rest = received.partition(b"\n")
        try:
            answer = handshake.read_answer(line)
        except handshake.InvalidHello as error:
            text = say(
                "The program that listens at {path} is not a hub: {why}", path=self.endpoint.socket, why=error
            )
            raise HubUnreachable(text, "stranger") from None
        if isinstance(answer, Welcome):
            return HubConnection(fd, answer, rest)
        if answer.code in TRANSIENT:
            return None
        if self.hello.role != "replace":
            raise HubUnreachable(answer.texts or {"en": answer.code}, answer.code)
        self._keep_older = True
        return None

    def _first_line(self, fd: int, limit: float) -> bytes | None:
        received, deadline = b"", time.monotonic() + limit
        while b"\n" not in received:
            left = deadline - time.monotonic()
            if left <= 0 or len(received) > handshake.MAX_HELLO:
                raise HubUnreachable(self._unresponsive(), "silent")
            self._pause(left, fd)
            try:
                chunk = os.read(fd, 1 << 16)
            except BlockingIOError:
                continue
            if not chunk:
                return None
            received += chunk
        return received

    def _replace(self, old: HubConnection) -> HubConnection | None:
        """Ask an older hub to end. Return None when it is gone, and the connection if it refuses."""
        if self._keep_older:
            return old
        # A process of the older version may start the next hub first: that hub is asked too.
        self._replaced += 1
        self._keep_older = self._replaced >= MOST_REPLACED
        os.close(old.fd)
        mine, self.hello = self.hello, self.hello._replace(role="replace")
        try:
            going = self._say_hello(self.hello)
        finally:
            self.hello = mine
        if going:
            try:
                self._await_end(going.fd, old.welcome.grace)
            finally:
                os.close(going.fd)
        return None

    def _await_end(self, fd: int, grace: float) -> None:
        deadline = time.monotonic() + grace + ANSWER_LIMIT
        while (left := deadline - time.monotonic()) > 0:
            self._pause(left, fd)
            try:
                if not os.read(fd, 1 << 16):
                    return
            except BlockingIOError:
                continue
            except OSError:
                return

    def _unresponsive(self) -> dict[str, str]:
        holder = lock.read_holder(self.endpoint.lock)
        return say(
            "The hub (process {pid}) does not respond. Restart it with: tabane restart",
            pid=holder.pid if holder else "?",
        )

    def _died(self) -> dict[str, str]:
        try:
            with open(self.endpoint.last_words, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
                words = file.read().decode(errors="replace").strip()
        except OSError:
            words = ""
        return say(
            "The hub stopped while it was starting. See {log}. {words}",
            log=self.endpoint.log,
            words=words.rpartition("\n")[2],
        )
