"""Hub process: lock, listener, signals, log, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabane.build import on_disk, this_build
from tabane.errors import ConfigurationError, HubError, UnknownName
from tabane.hub.clients.session import Session
from tabane.hub.hub import Hub
from tabane.hub.local import endpoint
from tabane.hub.local import lock as locks
from tabane.hub.local.connector import COMMAND, TRY
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello, HelloRefused, Welcome
from tabane.hub.local.listener import ClientReceiver, HubIdentity, HubListener
from tabane.hub.local.lock import HomeLock, LockHolder
from tabane.hub.process import MODEL_FILE
from tabane.hub.process.administration import AdministeredHub, HubAdministration, settings_report, table_of
from tabane.hub.process.home_version import DiskRoom, write_stamp
from tabane.hub.process.joining import UNTIL_KNOWN, group_of, routing_of, shared_servers_of
from tabane.hub.process.logs import HubLogs
from tabane.hub.process.watchdog import Watchdog
from tabane.hub.replacement import CodeGuard
from tabane.messages import Message, language, say
from tabane.operations import LOCAL, Caller, Face
from tabane.servers.redaction import Redactor
from tabane.settings import Settings
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.group.membership import HubGroup
    from tabane.hub.http.door import HttpDoor, HubIdentities
    from tabane.hub.rpc.dispatcher import RpcSession

log = logging.getLogger(__name__)

MOST_PROGRAMS = 256
"""Connections of programs at the same time; assistants have a limit of their own."""

MOST_LAST_WORDS = 1 << 20
"""Bytes of what is written to standard error beside the log."""

HOME_LOOK = 2.0
"""Seconds between two checks that the home, and the socket in it, still belong to this hub."""

THREADS = 5.0
"""Seconds that the threads of an ending hub may still work after everything is closed."""

LONG_CALL = 1.0
"""Seconds after which a call counts as long: a hub that gives way to another build waits for it."""

MOST_PATIENCE = 600.0
"""Seconds for which such a hub waits for long calls and jobs."""

GRACE = 45.0
"""Seconds that calls in flight get from such a hub. Bridges hold new requests for a minute."""

CLOSING = 20.0
"""Seconds that upstreams and keeper may take to end before the process goes without waiting."""


class LaunchOrigin:
    """The start of this hub: by whom, with which flags.

    ``asked`` is whether a user waits for this start, and sees its failures. ``detached`` is whether it is a
    process of its own, which another process can start again in the same way.
    """

    def __init__(self, started_by: str, flags: Sequence[str], *, asked: bool = False) -> None:
        self.started_by, self.flags, self.asked = started_by, tuple(flags), asked
        self.detached = False


class Daemon(ClientReceiver, AdministeredHub):
    """A hub, its door, and all that ends it. Made with the lock of its home held."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        lock: HomeLock,
        origin: LaunchOrigin,
        logs: HubLogs,
    ) -> None:
        self._settings, self._environment, self._lock, self._origin = settings, environment, lock, origin
        self._endpoint = Endpoint(str(settings.home), environment)
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[str] = self._loop.create_future()
        self._hurry = asyncio.Event()
        self._started, self._used = time.time(), self._loop.time()
        self._sessions: dict[Session, Hello] = {}
        self._programs: set[RpcSession] = set()
        self._count = 0
        self._idle: asyncio.TimerHandle | None = None
        self._watchdog = Watchdog(self._loop, settings.stuck_after, self._endpoint.logs)
        self._stuck: str | None = None
        self._room = DiskRoom(settings.home)
        self.http: HttpDoor | None = None
        """The address wanted for HTTP, whether or not it could be had."""
        self.group: HubGroup | None = None
        self._identities: HubIdentities | None = None
        self._restarter: subprocess.Popen[bytes] | None = None
        self.gives_way = False
        """Whether this process becomes the hub of another build, which was installed over this one."""
        self._guard = CodeGuard()
        self.interrupted = False
        """Whether Ctrl+C ends it."""
        self.homeless = False
        """Whether the home was deleted or replaced under this hub: what is at its paths is not its own."""

    # -- life ------------------------------------------------------------------------------------

    def open(self, umask: int | None = None) -> None:
        """Make the hub and listen. ``umask`` is the user's own, which upstream servers are given.

        Raises TabaneError that says why it cannot be.
        """
        self._room.look()
        self._tell_of_last()
        self._write_lock(None)
        self.hub = Hub(self._settings, self._environment, self._loop)
        self.hub.processes.umask = umask
        self.hub.on_reload = self._apply_settings
        self._apply_settings()
        administration = HubAdministration()
        administration.of(self)
        self._door = self.hub.door.over(table_of(self.hub, administration))
        self.group = group_of(self.hub)
        self.http = self._http()
        write_stamp(self._endpoint.home)
        self.hub.open()
        if self.group and self.http and self.http.url:
            self.group.open()
        if (self.settings.home / MODEL_FILE).exists():
            from tabane.hub.process import settings_operations

            settings_operations.resume_reembedding(self.hub)
        listener = HubListener(self._loop, self._endpoint.socket, self)
        try:
            listener.open()
        except OSError as error:
            text = say("The hub cannot listen at {path}: {why}.", path=listener.path, why=error.strerror)
            raise HubError(text) from None
        self._listener = listener
        self._apply_settings()  # The token must not appear in the log either.
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signaled, number)
        self._loop.add_signal_handler(signal.SIGHUP, self.hub.follower.now)
        self._guard.install()
        if self._origin.started_by != locks.STANDALONE:  # its client holds the pipes of this process
            self.hub.context.code.give_way(self._await_quiet, COMMAND, TRY)
        self._await_idleness()
        self._look_for_home()
        self._trim_last_words()
        self._start_watchdog()
        log.info("hub %s runs as process %d at %s", this_build().name, os.getpid(), self._listener.path)

    async def serve(self, ends_within: Callable[[float], None] = lambda seconds: None) -> str:
        """Run until something ends it, then end it in order. Returns what that was.

        ``ends_within`` is told the seconds after which the process is to be gone, whatever still runs in it.
        """
        why = await self._ending
        log.info("the hub ends: %s", why)
        self._guard.lifted = True  # what an end needs has to be there, whatever it is
        drain = CLOSING + self.settings.drain_notice + UNTIL_KNOWN if self.group else 0.0
        ends_within(drain + self._grace + CLOSING + THREADS)
        if self.group and self.group.joined:
            await self._unless_hurried(self._left_group(self.group), CLOSING + self.settings.drain_notice)
        if not self.homeless:
            self._listener.close()
        await self._finish(why)
        self._listener.close()  # until then, it keeps the next hub of this folder from its files
        self._write_lock(why)
        log.info("the hub has ended")
        self._watchdog.stop()
        ends_within(THREADS)
        return why

    def attach(self, read_fd: int, write_fd: int, hello: Hello) -> Session:
        """Attach an MCP client, over the socket or over the standard input and output of this process."""
        session = self.hub.sessions.attach(read_fd, write_fd, hello)
        self._sessions[session] = hello
        session.closed.add_done_callback(lambda _: self._forget_session(session))
        return session

    @property
    def settings(self) -> Settings:
        """Return the current settings: they follow the file while the hub runs."""
        return self.hub.settings

    def _apply_settings(self) -> None:
        secrets = [secret for server in self.hub.configuration.servers for secret in server.secrets]
        if self.http and self.http.token:
            secrets.append(self.http.token)
        self._logs.hide(secrets)
        self.hub.audit.hide(secrets, Redactor(secrets).text)
        self._logs.set_level(self.settings.log_level)

    # -- reception -------------------------------------------------------------------------------

    def house(self) -> HubIdentity:
        """Return what a client has to know to accept this hub: its build, home and servers file."""
        replaceable = self._origin.started_by != locks.STANDALONE
        self._check_home()
        return HubIdentity(
            this_build().name,
            self._endpoint.home,
            str(self.settings.servers),
            replaceable,
            this_build().code,
            on_disk().name,
            not self.homeless,
        )

    def welcome(self) -> Welcome:
        """Return the answer to an accepted hello."""
        settings = self.settings
        return Welcome(
            this_build().name,
            os.getpid(),
            str(settings.servers),
            settings.max_line,
            settings.grace + (settings.drain_notice + UNTIL_KNOWN if self.group else 0.0),
            this_build().code,
        )

    def refuses(self, hello: Hello) -> HelloRefused | None:
        try:
            access = self.hub.access.narrowed(hello.profile)
        except UnknownName as error:
            return HelloRefused("profile", {"en": error.text("en"), "ja": error.text("ja")})
        try:
            if hello.server:
                self.hub.gateway.server(hello.server, access)
        except UnknownName as error:
            return HelloRefused("server", {"en": error.text("en"), "ja": error.text("ja")})
        return None

    def full(self, hello: Hello) -> bool:
        if hello.role == "mcp":
            # Clients over HTTP are bounded by a setting of their own.
            return len(self._sessions) >= self.settings.max_sessions
        return hello.role == "rpc" and len(self._programs) >= MOST_PROGRAMS

    def take(self, fd: int, hello: Hello) -> None:
        self._used = self._loop.time()
        if hello.role == "mcp":
            self.attach(fd, fd, hello)
            return
        if hello.role == "replace":
            log.info("version %s takes over", hello.version)
            if not self._ending.done():
                self.gives_way = self.hub.context.code.replaced
            self.end("replace")
        self._take_program(fd, hello)

    def _take_program(self, fd: int, hello: Hello) -> None:
        from tabane.hub.rpc.dispatcher import RpcSession

        self._count += 1
        caller = Caller(
            identity="local",
            face=Face.RPC,
            session=f"rpc-{self._count}",
            lang=language(self.settings.lang, hello.lang, self._environment.get("LANG")),
            client=hello.client,
            cwd=hello.cwd or None,
            roots=hello.roots,
            connected=True,
            pid=hello.pid,
            access=LOCAL,
        )
        session = RpcSession(
            self._loop,
            self.hub.batch,
            fd,
            self._door,
            caller,
            self._hung_up,
            code=self.hub.context.code,
            max_line=self.settings.max_line,
            max_outbox=self.settings.outbox,
        )
        self._programs.add(session)
        session.start()

    def _hung_up(self, program: RpcSession) -> None:
        self._programs.discard(program)
        self.hub.gateway.leave(program.caller.session)
        self.hub.jobs.session_ended(program.caller.session)
        self._used = self._loop.time()

    def _forget_session(self, session: Session) -> None:
        self._sessions.pop(session, None)
        self._used = self._loop.time()

    # -- administration --------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        problem = self._room.problem()
        return {
            "status": "stopping" if self._ending.done() else "running",
            "version": this_build().name,
            "pid": os.getpid(),
            "home": self._endpoint.home,
            "servers_file": str(self.settings.servers),
            "socket": self._listener.path,
            **(
                self.http.report(language(self.settings.lang, self._environment.get("LANG")))
                if self.http
                else {}
            ),
            "log": self._endpoint.log,
            "stuck": self._stuck,
            **({"disk_problem": problem.render(self.hub.lang)} if problem else {}),
            "started_by": self._origin.started_by,
            "restartable": self._origin.detached,
            "flags": list(self._origin.flags),
            "uptime": round(time.time() - self._started, 1),
            "memory_mb": _memory(),
            **self.hub.status(),
        }

    async def kept(self) -> dict[str, Any]:
        hub = self.hub
        offers = [offer.row(hub.lang) for offer in await hub.sessions.offers.now()]
        found = await hub.access.report(hub.lang) | hub.audit.report() | await hub.documents.counts()
        group = {"group": self.group.report(hub.lang)} if self.group else {}
        return found | {"projects_offered": offers} | await hub.stores.report(hub.lang) | group

    async def try_port(self) -> None:
        """Listen at the port that was taken, if it is free by now; else find out who has it."""
        if not self._try_port() and self.http:
            await self.http.look_again()

    def _try_port(self) -> bool:
        if self._ending.done() or self.http is None or not self.http.try_port():
            return False
        if self.group:
            self.group.open()
        return True

    def settings_report(self, caller: Caller) -> list[dict[str, Any]]:
        return settings_report(self.settings, caller.lang)

    def end(self, why: str) -> None:
        if not self._ending.done():
            self._ending.set_result(why)
        elif why != "replace":
            self.gives_way = False

    def beginning(self, caller: Caller) -> dict[str, Any] | None:
        opening = self.hub.posts.beginning
        return opening.state(caller.lang) if opening else None

    def sign_in_link(self) -> str:
        if self.http is None:
            raise HubError(say("The hub does not serve HTTP (the setting http)."))
        return self.http.sign_in_link()

    def restart(self) -> None:
        if not self._origin.detached:
            raise HubError(
                say(
                    "This hub cannot restart itself, because it runs in the foreground or in the process of "
                    "an assistant. Restart it there."
                )
            )
        from tabane.hub.process.check_up_operations import check_restart, environment_of

        check_restart(self._origin.flags, self._environment, self.report())
        if self._restarter is None or self._restarter.poll() is not None:
            log.info("the hub is asked to restart")
            self._restarter = start_restart(environment_of(self.settings, self._environment))

    def keep(self) -> None:
        if self._origin.started_by == locks.BRIDGE:
            self._origin.started_by = locks.HAND
            self._write_lock(None)

    # -- the end ---------------------------------------------------------------------------------

    def _await_quiet(self, open_before: frozenset[object] = frozenset(), since: float = 0.0) -> None:
        """Give way to the build that was installed over this one, once no long work is open."""
        now, code = self._loop.time(), self.hub.context.code
        since = since or now
        open_now = self.hub.sessions.open_requests()
        long = open_before & open_now or self.hub.jobs.running or (not open_before and open_now)
        if self._ending.done():
            return
        if long and not code.awaited and now - since < MOST_PATIENCE:
            self._loop.call_later(LONG_CALL, self._await_quiet, open_now, since)
            return
        self.gives_way = True
        self.end("replace")

    @property
    def _grace(self) -> float:
        """Seconds for calls in flight. Nobody waits for the end of a hub that gives way to another build."""
        return max(self.settings.grace, GRACE) if self.gives_way else self.settings.grace

    def _signaled(self, number: signal.Signals) -> None:
        self.gives_way = False
        if self._ending.done():
            log.warning("a second signal: the hub ends at once")
            self._hurry.set()
        else:
            self.interrupted = number == signal.SIGINT
            self.end(f"signal {signal.Signals(number).name}")

    async def _finish(self, why: str) -> None:
        for program in self._programs:
            program.drain()
        if self.http:
            self.http.drain()
        for session, hello in self._sessions.items():
            if hello.role == "mcp":
                session.drain()
        if not await self._unless_hurried(self._drain(), self._grace):
            log.warning("calls are still in flight; they are cancelled")
        if not await self._unless_hurried(self._close(why), CLOSING):
            log.warning("upstream servers did not end in time; the keeper ends them")

    async def _left_group(self, group: HubGroup) -> None:
        """Let load balancers and the other hubs know that this one ends, and serve until they do."""
        await group.announce("draining")
        await asyncio.sleep(self.settings.drain_notice)
        await group.announce("leaving")
        await asyncio.sleep(UNTIL_KNOWN)

    async def _drain(self) -> None:
        await self.hub.drain(self._grace)
        programs = [program.idle() for program in self._programs]
        await asyncio.gather(*programs, *([self.http.idle()] if self.http else []))

    async def _close(self, why: str) -> None:
        if self.group:
            await self.group.close()
        await (self.hub.abandon() if self.homeless else self.hub.close())
        for program in list(self._programs):
            program.close(f"the hub ended: {why}")
        if self.http:
            await self.http.close()
        if self._identities:
            await self._identities.close()

    async def _unless_hurried(self, work: Any, limit: float) -> bool:
        """Return whether the work was done in time; a second signal cuts it short."""
        task = self._loop.create_task(work)
        hurry = self._loop.create_task(self._hurry.wait())
        await asyncio.wait({task, hurry}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        done = task.done()
        for one in (task, hurry):
            one.cancel()
        failed = (await asyncio.gather(task, hurry, return_exceptions=True))[0]
        if isinstance(failed, Exception):
            log.error("the shutdown of the hub failed", exc_info=failed)
        return done

    def _http(self) -> HttpDoor | None:
        """Raise HubError if the user who starts this hub asked for HTTP, and HTTP is not possible."""
        # A hub in an assistant's process belongs to that assistant: it opens a port only on request.
        requested = "http" in self.settings.sources
        if not self.settings.http or (self._origin.started_by == locks.STANDALONE and not requested):
            return None
        from tabane.hub.http.door import HttpDoor, HubIdentities

        self._identities = HubIdentities(self.hub)
        links = shared_servers_of(self.hub, self.group)
        door = HttpDoor(
            self.hub,
            table=self._door.table,
            identities=self._identities,
            routing=routing_of(self.group),
            server_links=links,
        )
        self._identities.door = door
        door.open()
        unbound = door.problem if door.refused_port is not None else None
        if unbound and self._origin.asked and self.settings.insists_on_http:
            raise HubError(unbound)
        return door

    # -- what it leaves behind -------------------------------------------------------------------

    def _write_lock(self, ended: str | None) -> None:
        origin, socket, version = self._origin, self._endpoint.socket, this_build().name
        self._lock.write(
            LockHolder(os.getpid(), version, origin.started_by, origin.flags, self._started, socket, ended)
        )

    def _start_watchdog(self) -> None:
        try:
            self._watchdog.start()
        except OSError as error:
            log.warning("no watchdog: %s", error)

    def _tell_of_last(self) -> None:
        """Log the stacks of the previous hub if its watchdog ended it."""
        last = locks.read_holder(self._endpoint.lock)
        endpoint.tidy(self._endpoint.logs)
        for dump in endpoint.dumps(self._endpoint.logs):
            if last and last.ended is None and last.pid == dump.pid:
                self._stuck = dump.path
                with contextlib.suppress(OSError):
                    log.error(
                        "the last hub (process %d) stopped responding and was ended; the stacks of its "
                        "threads, also in %s:\n%s", dump.pid, dump.path, dump.text(),
                    )  # fmt: skip

    def _trim_last_words(self) -> None:
        """Limit the file for standard error of a detached hub: libraries may write there."""
        with contextlib.suppress(OSError):
            mine, words = os.fstat(2), os.stat(self._endpoint.last_words)
            if os.path.samestat(mine, words):
                if mine.st_size > MOST_LAST_WORDS:
                    os.ftruncate(2, 0)
                self._loop.call_later(60, self._trim_last_words)

    def _await_idleness(self) -> None:
        limit = self.settings.idle_end * 60
        if self._ending.done() or not limit:
            return
        used = max(self._used, self.hub.jobs.used, self.http.used if self.http else 0.0)
        left = limit if self._busy else used + limit - self._loop.time()
        if left <= 0:
            self.end("idle")
        else:
            self._loop.call_later(left, self._await_idleness)

    @property
    def _busy(self) -> bool:
        """Return whether the hub may not end because of idleness."""
        over_http = self.http is not None and self.http.busy
        at_work = self.hub.jobs.running or self.hub.documents.watches or self.hub.tools.tasks.tasks.running
        in_use = self._sessions or self._programs or over_http or at_work
        return bool(in_use) or self._origin.started_by != locks.BRIDGE

    def _look_for_home(self) -> None:
        self._check_home()
        if self._ending.done():
            return
        self._room.look()
        self.hub.context.code.look()
        self._logs.sum_up()
        self._try_port()
        try:
            self._listener.reopen()
        except OSError as error:
            log.error("the hub cannot listen again: %s", error.strerror)
        self._loop.call_later(HOME_LOOK, self._look_for_home)

    def _check_home(self) -> None:
        """End the hub if its lock is lost: nobody can find it, and another hub may serve the home by now."""
        if self._lock.lost:
            self.homeless = True
            self.end("its home is gone")


def prepare_home(settings: Settings) -> None:
    """Make the home a folder that only the user can access. Raises ConfigurationError."""
    private_folder(settings.home)
    private_folder(settings.home / "logs")


def open_logs(settings: Settings, *, aloud: bool) -> HubLogs:
    """Open the log of a hub with these settings. Raises ConfigurationError if it cannot be written."""
    path = str(settings.home / "logs" / "hub.log")
    try:
        return HubLogs(path, settings.log_level, settings.log_size, settings.log_files, aloud=aloud)
    except OSError as error:
        raise ConfigurationError(
            say("The log {path} cannot be written: {why}.", path=path, why=error.strerror)
        ) from None


def held_by(endpoint: Endpoint) -> Message:
    """Return the error for a process that needs the lock: it names the holder."""
    holder = locks.read_holder(endpoint.lock)
    return say(
        "A hub is already running in {home} (process {pid}). Stop it with: tabane stop",
        home=endpoint.home,
        pid=holder.pid if holder else "?",
    )


def start_restart(environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `tabane restart` as a process that outlives this one. Raises HubError."""
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tabane", "restart"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        raise HubError(
            say("The hub cannot be restarted: {why}. Run: tabane restart", why=error.strerror)
        ) from None


def _memory() -> float | None:
    """Return the megabytes of memory that this process uses; None if the platform does not report them."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return round(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    return None
