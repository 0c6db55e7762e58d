"""Three ways to run a hub: detached, in the foreground, or in the process of an assistant's client."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import NoReturn

from tabane.errors import HubError, TabaneError
from tabane.hub.backup.restore_journal import complete_restore
from tabane.hub.local import connector
from tabane.hub.local import lock as locks
from tabane.hub.local.connector import FAILED, LOST, READY, LaunchOutcome
from tabane.hub.local.endpoint import Endpoint, UnsafeEndpoint, home_of
from tabane.hub.local.handshake import Hello
from tabane.hub.local.lock import HomeLock, LockHolder
from tabane.hub.local.stdio import waits
from tabane.hub.process.daemon import Daemon, LaunchOrigin, held_by, open_logs, prepare_home
from tabane.hub.process.home_version import FULL, free_bytes, refuse_downgrade
from tabane.hub.process.logs import HubLogs
from tabane.hub.process.watchdog import end_within
from tabane.messages import say
from tabane.settings import Settings, load_settings
from tabane.settings.files import refuse_foreign_home
from tabane.settings.sources import flags_of

LOST_STATUS = 3
"""Exit status of a hub process that found another one serving."""

_LOOK = 0.05
_MOST_WORDS = 16 << 10  # bytes

log = logging.getLogger(__name__)

INTERRUPTED = 130
"""The exit status after Ctrl+C."""


def run_detached(arguments: Sequence[str]) -> int:
    """Run the process that :func:`tabane.hub.local.connector.launch` started. Return its exit status."""
    if list(arguments) == [connector.TRY]:
        return 0
    faulthandler.enable()  # a crash of native code leaves its last words, too
    origin, pipe, *flags = arguments
    started_by = origin.removeprefix("--started-by=")
    voice = _LaunchReport(int(pipe.removeprefix("--pipe=")))
    try:
        return _detached(started_by, flags, voice)
    except TabaneError as error:
        voice.say(LaunchOutcome(FAILED, {"en": error.text("en"), "ja": error.text("ja")}))
        return 1


def run_foreground(flags: Mapping[str, object]) -> int:
    """Run `tabane start --foreground`: a hub that also logs to standard error, until a signal ends it.

    Return the exit status: 130 after Ctrl+C, else 0. Raises HubError if one runs already, ConfigurationError
    if a setting or file is wrong.
    """
    settings = load_settings(flags, os.environ)
    endpoint = _prepare_endpoint(settings)
    lock = take(endpoint, connector.LIMIT)
    if lock is None:
        raise HubError(held_by(endpoint))
    if complete_restore(endpoint.home):
        settings = load_settings(flags, os.environ)
    origin = LaunchOrigin(locks.HAND, settings.as_flags(), asked=True)
    opened: list[Daemon] = []

    def ready(daemon: Daemon) -> None:
        opened.append(daemon)
        report_ready(os.environ)

    _run(settings, lock, origin, aloud=True, then=ready)
    return INTERRUPTED if any(daemon.interrupted for daemon in opened) else 0


def run_standalone(read_fd: int, write_fd: int, hello: Hello, flags: Sequence[str]) -> int | None:
    """Run a hub in this process. Its first client is on these descriptors; it ends with that client.

    Return the exit status; None if another hub holds the home, so that the caller becomes a bridge to it.
    Raises TabaneError if the hub cannot start.
    """
    settings = load_settings(flags_of(flags), os.environ)
    endpoint = _prepare_endpoint(settings)
    lock = locks.acquire(endpoint.lock)
    if lock is None:
        return None
    lock = _await_lost_hub(endpoint, lock, time.monotonic() + connector.LIMIT)
    if complete_restore(endpoint.home):
        settings = load_settings(flags_of(flags), os.environ)

    def attach(daemon: Daemon) -> None:
        session = daemon.attach(_readable(read_fd), _writable(write_fd), hello)
        session.closed.add_done_callback(lambda _: daemon.end("its client is gone"))

    talks = settings.log_level in ("trace", "debug")
    origin = LaunchOrigin(locks.STANDALONE, settings.as_flags(), asked=True)
    _run(settings, lock, origin, aloud=talks, then=attach)
    return 0


def take(endpoint: Endpoint, limit: float) -> HomeLock | None:
    """Return the lock of the home; wait while its holder starts or ends. None if a hub serves.

    Raises HubError if neither happens within ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while True:
        lock = locks.acquire(endpoint.lock)
        if lock is not None:
            return _await_lost_hub(endpoint, lock, deadline)
        if _serves(endpoint):
            return None
        if time.monotonic() > deadline:
            raise HubError(held_by(endpoint))
        time.sleep(_LOOK)


def _await_lost_hub(endpoint: Endpoint, lock: HomeLock, deadline: float) -> HomeLock:
    """Return the lock when no hub is left that lost its own; such a hub ends soon. Raises HubError."""
    while _serves(endpoint):
        if time.monotonic() > deadline:
            lock.release()
            raise HubError(held_by(endpoint))
        time.sleep(_LOOK)
    return lock


def inherited(origin: LaunchOrigin, last: LockHolder | None) -> LaunchOrigin:
    """Return the origin of the hub that a bridge's hub continues, if that one did not end on purpose."""
    if origin.started_by != locks.BRIDGE or last is None or not last.to_be_continued:
        return origin
    if last.started_by == locks.STANDALONE:
        return origin
    flags = {flag.partition("=")[0]: flag for flag in (*last.flags, *origin.flags)}
    return LaunchOrigin(last.started_by, tuple(flags.values()))


class _LaunchReport:
    """The pipe to the launcher of this process. It carries one report."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        if fd >= 0:
            os.set_inheritable(fd, False)

    def say(self, outcome: LaunchOutcome) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # nobody listens any more
                os.write(self._fd, outcome.encode())
            os.close(self._fd)
            self._fd = -1


def _detached(started_by: str, flags: Sequence[str], voice: _LaunchReport) -> int:
    home = flags_of(flags).get("home")
    endpoint = Endpoint(home_of(os.environ, str(home) if home else None), os.environ)
    refuse_foreign_home(endpoint.home, os.environ)
    lock = take(endpoint, connector.LIMIT)
    if lock is None:
        voice.say(LaunchOutcome(LOST, {}))
        return LOST_STATUS
    complete_restore(endpoint.home)
    last = locks.read_holder(endpoint.lock)
    words = _last_words(endpoint) if last and last.ended is None else ""
    # Standard error is the file of last words: from now on, those of earlier hubs are in the log.
    with contextlib.suppress(OSError):
        os.ftruncate(2, 0)
    own = LaunchOrigin(started_by, flags, asked=started_by == locks.HAND)
    origin = inherited(own, last)
    origin.detached = True
    settings = load_settings(flags_of(origin.flags), os.environ)
    _prepare_endpoint(settings)
    ready = LaunchOutcome(READY, {}, os.getpid())
    _run(settings, lock, origin, aloud=False, then=lambda _: voice.say(ready), words=words)
    return 0


def _last_words(endpoint: Endpoint) -> str:
    """Return the end of what a crashed hub wrote to standard error, such as a crash of native code."""
    try:
        with open(endpoint.last_words, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_WORDS))
            return file.read(_MOST_WORDS).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _run(
    settings: Settings,
    lock: HomeLock,
    origin: LaunchOrigin,
    *,
    aloud: bool,
    then: Callable[[Daemon], object] = lambda daemon: None,
    words: str = "",
) -> None:
    """Run a hub from its opening to its end; ``then`` is called when it is open.

    ``words`` are the last ones of the previous hub, if that hub crashed.
    """

    async def serve(logs: HubLogs) -> Daemon:
        if words:
            log.error("the last hub crashed; the end of its standard error:\n%s", words)
        daemon = Daemon(settings, os.environ, lock, origin, logs)
        try:
            daemon.open(umask)
        except BaseException as error:
            # This hub never served: the next one continues the hub before it.
            lock.write(last)
            room = free_bytes(settings.home)
            if isinstance(error, Exception) and room is not None and room < FULL:
                log.exception("the hub cannot start")
                raise HubError(
                    say(
                        "The hub cannot start: the disk that holds {home} is full ({detail}). Free some "
                        "space there, then start it again.",
                        home=settings.home,
                        detail=error,
                    )
                ) from error
            raise
        gc.freeze()  # what a hub has at its start stays: no later collection looks at it
        gc.enable()
        then(daemon)
        await daemon.serve(end_within)
        return daemon

    refuse_downgrade(settings.home)
    last = locks.read_holder(str(settings.home / "hub.lock"))
    if settings.http and origin.started_by != locks.STANDALONE:
        from tabane.hub.rpc.tcp_peers import await_port

        await_port(settings)
    umask = os.umask(0o077)
    with contextlib.closing(open_logs(settings, aloud=aloud)) as logs, asyncio.Runner() as runner:
        daemon = runner.run(serve(logs))
        if daemon.homeless:
            # Open stores would be closed now, and write to files that may belong to another hub.
            os._exit(0)
    if daemon.gives_way:
        _become_next(origin, lock, umask)


def _become_next(origin: LaunchOrigin, lock: HomeLock, umask: int) -> NoReturn:
    """Become the hub of the build that is installed now, with the same process and lock.

    So a service manager keeps its process, and no bridge starts another hub in between.
    """
    os.umask(umask)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)  # a new program would keep them
    command = ["start", "--foreground"]
    if origin.detached:
        command = [connector.COMMAND, f"--started-by={origin.started_by}", "--pipe=-1"]
    arguments = [sys.executable, "-P", "-m", "tabane", *command, *origin.flags]
    os.execve(sys.executable, arguments, {**os.environ, **lock.pass_on()})


def _prepare_endpoint(settings: Settings) -> Endpoint:
    prepare_home(settings)
    endpoint = Endpoint(str(settings.home), os.environ)
    try:
        endpoint.prepare()
    except UnsafeEndpoint as error:
        raise HubError(say("{why}. Remove it, and try again.", why=error)) from None
    return endpoint


def _serves(endpoint: Endpoint) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.setblocking(False)
            peer.connect(endpoint.reachable())
    except OSError:
        return False
    return True


def _writable(fd: int) -> int:
    if waits(fd):
        os.set_blocking(fd, False)
    return fd


def _readable(fd: int) -> int:
    """Return a descriptor that an event loop can watch: ``fd``, or a pipe into which a file is copied."""
    if waits(fd):
        return _writable(fd)
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    threading.Thread(target=_pump, args=(fd, write_end), name="stdin", daemon=True).start()
    return read_end


def _pump(source: int, target: int) -> None:
    with contextlib.suppress(OSError):
        while chunk := os.read(source, 1 << 16):
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(target, rest) :]
    os.close(target)


def report_ready(environ: MutableMapping[str, str]) -> None:
    """Send READY=1 to the socket in NOTIFY_SOCKET, if there is one, and remove the variable.

    No child process may report anything in the hub's name. A message that cannot be sent is not an error:
    the service manager reports a timeout.
    """
    address = environ.pop("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):  # the abstract namespace of Linux
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.setblocking(False)
        peer.sendto(b"READY=1", address)
