"""Operations on servers: their logins and health, and servers as rows for people and programs.

A health check really tries each server: idle ones are started, and each is asked whether it answers. The
memory of a server is that of its process with everything that it started, on Linux only.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.table import (
    CheckServers,
    FinishLogin,
    GetLogin,
    LogoutServer,
    NameParams,
    ServerLogs,
    StartLogin,
)
from tabane.catalog.tools.disclosure import signature
from tabane.catalog.tools.overridden_tool import override_faults
from tabane.errors import BadArguments, ConfigurationError, TabaneError, UpstreamUnavailable
from tabane.messages import Lang, Message, say
from tabane.messages.server_states import SERVER_STATES
from tabane.operations import Caller, NoParameters
from tabane.servers.configuration import why_disabled
from tabane.servers.server import Server
from tabane.servers.server_keys import ToolHints, is_scope
from tabane.servers.tool_overrides import ParameterOverride, ToolOverride, override_fault
from tabane.upstreams.connection import UpstreamState
from tabane.upstreams.logins.login_book import Flow
from tabane.upstreams.logins.logins import ServerLogins
from tabane.upstreams.processes.stderr import ServerLogFile
from tabane.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from tabane.servers.editing import ReloadableServersFile
    from tabane.upstreams.launching.failure_causes import FailedStart


FRESH = 2.0
"""Seconds for which a measurement of memory is used again."""

_OFFERED = ("prompts", "resources", "templates")


def server_row(
    gateway: Gateway, server: Server, lang: Lang, obstacle: Message | None = None
) -> dict[str, Any]:
    """Describe one server in a line: name, state, tools, era, process id, and problem.

    ``obstacle`` is why it cannot be started, if it was not tried yet.
    """
    instances = gateway.instances(server.name)
    listing = gateway.catalogs.listing(server.name)
    listed = listing is not None and "tools" in listing.lists
    faults = [override_fault(each, fault) for each in server.overrides for fault in each.faults]
    tools = listing.lists.get("tools") if listing and server.overrides and not server.disabled else None
    if tools is not None:
        faults += [override_fault(*found) for found in override_faults(server, map(bytes, tools))]
    why = why_disabled(server)  # without file and line
    errors = [instance.vitals.error for instance in instances if instance.vitals.error]
    found = _cause_in(errors[0]) if errors and not server.disabled else None
    if found is None:
        cause = None
    else:
        fix = found.cause.fix
        cause = {
            "kind": found.cause.kind,
            "line": found.cause.line,
            "how": found.how.render(lang),
            "fix": fix.render(lang) if fix else None,
        }
    return {
        "name": server.name,
        "state": _state(gateway, server, instances),
        "tools": len(gateway.catalog.of_server(server.name)) if listed else None,
        "era": listing.era.value if listing else None,
        "version": listing.version if listing else None,
        "pids": [i.connection.pid for i in instances if i.connection and i.connection.pid],
        "healthy": obstacle is None and all(instance.vitals.healthy for instance in instances),
        "download": _download(instances, lang),
        "error": _error(server, instances, lang, obstacle),
        "cause": cause,
        "transport": server.transport,
        "run": server.run,
        "runs_at": gateway.runs_at(server.name) if server.run == "group" else "",
        "description": server.description,
        "tags": list(server.tags),
        "switched_off": server.switched_off,
        "sandboxed": server.sandboxed,
        "reason": why.render(lang) if why else None,
        "warnings": [fault.render(lang) for fault in faults],
        "odd_definitions": [each.render(lang) for each in gateway.repairs(server.name)],
        "login": _login(gateway, server, lang),
        "definition_changes": gateway.review.counts(server.name),
        **_activity(instances),
    }


def server_detail(
    gateway: Gateway, server: Server, lang: Lang, obstacle: Message | None = None
) -> dict[str, Any]:
    """Return all that is known of one server. Values of its environment and headers are never shown."""
    instances = gateway.instances(server.name)
    listing = gateway.catalogs.listing(server.name)
    names = gateway.passed(server)
    lists = listing.lists if listing else {}
    failures = [i.vitals.last_failure for i in instances if i.vitals.last_failure]
    return server_row(gateway, server, lang, obstacle) | {
        "inherit": list(server.inherit),
        "environment": list(names.passed),
        "download_environment": list(names.download),
        "withheld_environment": list(names.withheld),
        "category": server.category,
        "keywords": list(server.keywords),
        "examples": list(server.examples),
        "tool_hints": {hints.pattern: _hinted(hints) for hints in server.hints},
        "overrides": {each.tool: _overridden(each) for each in server.overrides if each.tool},
        "share": gateway.sharing.shared(server).share,
        "timeout": server.timeout,
        "max_concurrency": server.max_concurrency,
        "max_result_tokens": server.max_result_tokens,
        "cwd": server.cwd,
        "about": listing.about if listing else None,
        "listed_at": listing.listed if listing else None,
        **{name: len(lists[name]) if name in lists else None for name in _OFFERED},
        "starts": sum(instance.vitals.starts for instance in instances),
        "deaths": sum(instance.vitals.deaths for instance in instances),
        "failures": max((instance.vitals.failures for instance in instances), default=0),
        "in_flight": sum(instance.in_flight for instance in instances),
        "last_failure": failures[0].render(lang) if failures else None,
        "skipped_lines": sum(i.connection.conversation.garbage for i in instances if i.connection),
    }


def _state(gateway: Gateway, server: Server, instances: list[Upstream]) -> str:
    """Return the state of a server. One that is connected, and refuses its token, requires a login too."""
    needs = gateway.logins is not None and gateway.logins.needed(server.name) is not None
    state = state_of(server, instances)
    return UpstreamState.LOGIN.value if needs and state == UpstreamState.READY.value else state


def _login(gateway: Gateway, server: Server, lang: Lang) -> dict[str, Any] | None:
    """Return the state of its login without secrets; None if it is used without one."""
    if gateway.logins is None:
        return None
    found = gateway.logins.describe(server)
    if found["state"] == "none":
        return None
    reason = found["reason"]
    return found | {"reason": reason.render(lang) if reason else None}


def _hinted(hints: ToolHints) -> dict[str, Any]:
    """Return what a person says of some tools, without what is not said."""
    found = {
        "description": hints.description,
        "tags": list(hints.tags),
        "keywords": list(hints.keywords),
        "examples": list(hints.examples),
    }
    return {key: value for key, value in found.items() if value}


def _overridden(override: ToolOverride) -> dict[str, Any]:
    """Return what an override replaces. Values are not shown: they may be secrets."""
    found = {
        "name": override.name,
        "title": override.title,
        "description": override.description,
        "annotations": dict(override.annotations),
        "hidden": override.hidden,
        "parameters": {each.name: _replaced(each) for each in override.parameters},
    }
    return {key: value for key, value in found.items() if value}


def _replaced(given: ParameterOverride) -> dict[str, Any]:
    found = {
        "description": given.description,
        "hidden": given.hidden,
        "fixed": given.fixed is not None,
        "default": given.default is not None,
    }
    return {key: value for key, value in found.items() if value}


def _download(instances: list[Upstream], lang: Lang) -> dict[str, Any] | None:
    """Return the download before a start, if one runs: package, seconds, bytes written, last line of output.

    ``note`` says the same as a sentence.
    ``bytes`` is None if it is not known.
    """
    for instance in instances:
        if (at := instance.download) is not None:
            return {
                "package": at.package,
                "seconds": round(at.seconds, 1),
                "bytes": at.written,
                "waits": at.waits,
                "line": at.line,
                "note": at.describe().render(lang),
            }
    return None


def _activity(instances: list[Upstream]) -> dict[str, Any]:
    """Return since when its oldest instance runs, its restarts and calls, and when it is tried again.

    Restarts and calls are of the instances that exist now; ``last_call`` is in seconds since 1970.
    """
    running = [instance for instance in instances if instance.connection]
    uptimes = [instance.uptime for instance in running if instance.uptime is not None]
    begun = [instance.vitals.ready_at for instance in running if instance.vitals.ready_at is not None]
    called = [instance.vitals.called_at for instance in instances if instance.vitals.called_at is not None]
    waits = [instance.retry_in for instance in instances if instance.retry_in is not None]
    return {
        "since": min(begun, default=None),
        "uptime": max(uptimes, default=None),
        "restarts": sum(max(0, instance.vitals.starts - 1) for instance in instances),
        "calls": sum(instance.vitals.calls for instance in instances),
        "failed_calls": sum(instance.vitals.failed_calls for instance in instances),
        "last_call": max(called, default=None),
        "retry_in": max(waits, default=None),
    }


def state_of(server: Server, instances: list[Upstream]) -> str:
    """Return the state of a server: disabled, or the most active state of its instances."""
    if server.disabled:
        return "disabled"
    states: set[UpstreamState] = {instance.state for instance in instances}
    for state in (
        UpstreamState.READY,
        UpstreamState.STARTING,
        UpstreamState.DOWNLOADING,
        UpstreamState.LOGIN,
        UpstreamState.WAITING,
        UpstreamState.OPEN,
        UpstreamState.STOPPED,
    ):
        if state in states:
            return str(state.value)
    return UpstreamState.IDLE.value


def _error(server: Server, instances: list[Upstream], lang: Lang, obstacle: Message | None) -> str | None:
    if server.disabled:
        return server.disabled.render(lang)
    if obstacle is not None:
        return say("It cannot start: {why}", why=obstacle).render(lang)
    errors: list[Message] = [i.vitals.error for i in instances if i.vitals.error]
    return errors[0].render(lang) if errors else None


class _RecentMemory:
    """The memory of all processes, read at most once in :data:`FRESH` seconds, in a thread."""

    def __init__(self) -> None:
        self._read: asyncio.Task[ProcessMemory] | None = None
        self._until = 0.0

    async def now(self) -> ProcessMemory:
        loop = asyncio.get_running_loop()
        if self._read is None or (self._read.done() and loop.time() > self._until):
            self._read = loop.create_task(asyncio.to_thread(read_process_memory))
            self._until = loop.time() + FRESH
        return await asyncio.shield(self._read)


class ServerOperations:
    """Shows, checks, starts and stops upstream servers. ``file`` is read before one starts."""

    def __init__(self, gateway: Gateway, file: ReloadableServersFile) -> None:
        self._gateway, self._file = gateway, file
        self._memory = _RecentMemory()
        self.logins, self.checks = LoginOperations(gateway), ServerChecks(gateway)

    async def servers(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return a row for each server that the caller may see."""
        return {"results": await self._rows(caller)}

    async def _rows(self, caller: Caller) -> list[dict[str, Any]]:
        gateway, blocked = self._gateway, await self._gateway.health.obstacles()
        servers = list(gateway.servers.values())
        rows = [server_row(gateway, server, caller.lang, blocked.get(server.name)) for server in servers]
        return await self._with_memory(rows)

    async def _with_memory(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add ``memory_mb`` to the rows: of all processes of a running server, None for others."""
        memory = await self._memory.now() if any(row["pids"] for row in rows) else None
        for row in rows:
            used = memory.of(row["pids"]) if memory and row["pids"] else None
            row["memory_mb"] = None if used is None else round(used / 1e6, 1)
        return rows

    async def show(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Return one server in detail, with its sandbox and memory."""
        server = self._gateway.server(params.name)
        blocked = await self._gateway.health.obstacles()
        detail = server_detail(self._gateway, server, caller.lang, blocked.get(server.name))
        detail["sandbox"] = await self._cage(server, caller.lang)
        return (await self._with_memory([detail]))[0]

    async def _cage(self, server: Server, lang: Lang) -> dict[str, Any] | None:
        """Return the cage of a server with its sentences; None if it has none."""
        cages = self._gateway.cages
        found = None if cages is None else await asyncio.to_thread(cages.describe, server)
        if found is None:
            return None
        problem = found["problem"]
        return found | {
            "uncovered": [each.render(lang) for each in found["uncovered"]],
            "problem": problem.render(lang) if problem else None,
        }

    async def health(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return ``{name: bool}`` for every server that should run, and ``details`` of all.

        A server that cannot be started is false, with the reason as ``error``. A server that was not started
        yet but can be is true, and its ``remark`` says so.
        """
        healthy = await self._gateway.health.check()
        details = {row["name"]: row | {"remark": None} for row in await self._rows(caller)}
        for name in healthy.keys() & details.keys():
            if not self._gateway.health.tried(name) and not details[name]["error"]:
                details[name]["remark"] = SERVER_STATES["idle"].words.render(caller.lang)
        return {**healthy, "details": details}

    async def start(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Start a server and wait until it has listed its tools. Raises TabaneError."""
        self._file.follow()
        await self._gateway.start(params.name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def stop(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Stop all instances of a server, until it is started again."""
        await self._gateway.stop(self._gateway.server(params.name).name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def restart(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Stop a server, then start it. Raises TabaneError."""
        self._file.follow()
        await self._gateway.stop(self._gateway.server(params.name).name)
        return await self.start(caller, params)

    async def test(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Start the server if it is not running; return its era, version and tools. Raises TabaneError.

        A servers file that is not in force is an error: another definition would be tested.
        """
        if (problem := self._file.follow()) is not None:
            raise ConfigurationError(problem)
        instance = await self._gateway.start(params.name)
        tools = self._gateway.catalog.of_server(params.name)
        detail = server_detail(self._gateway, instance.server, caller.lang)
        return detail | {"tools": [signature(tool) for tool in tools]}

    async def logs(self, caller: Caller, params: ServerLogs) -> dict[str, Any]:
        """Return lines, the cursor for those that follow, and whether lines before them were left out."""
        name = self._gateway.server(params.name).name
        log = ServerLogFile(self._gateway.logs, name)
        if params.after is not None:
            found = await asyncio.to_thread(log.after, params.after, params.lines)
        else:
            found = await asyncio.to_thread(log.end, params.lines)
        return {"name": name, **found._asdict()}


def _cause_in(why: Message) -> FailedStart | None:
    from tabane.upstreams.launching.failure_causes import cause_in  # many rules, needed for failures alone

    return cause_in(why)


_FLOWS: dict[str, Flow] = {"browser": "authorization_code", "device": "device_code"}


class LoginOperations:
    """Begins, finishes, shows and ends logins at servers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def start(self, caller: Caller, params: StartLogin) -> dict[str, Any]:
        """Return ``id``, ``expires`` and ``url``, or ``user_code`` and ``verification_url``.

        A client that acts for itself is logged in at once; then the state is returned, as by :meth:`get`.
        """
        server = self._server(params.server)
        if not all(map(is_scope, params.scopes)):
            raise BadArguments(say("A scope has no spaces, quotes or special characters."), "scopes")
        flow = _FLOWS[params.flow] if params.flow else None
        begun = await self._logins.start(server, flow, params.redirect, params.scopes, restart=params.restart)
        return _rendered(begun, caller.lang)

    async def finish(self, caller: Caller, params: FinishLogin) -> dict[str, Any]:
        """Return the state after the login, as :meth:`get` does."""
        name = await self._logins.finish(params.id, params.redirected_url)
        return self._state(self._server(name), caller.lang)

    async def get(self, caller: Caller, params: GetLogin) -> dict[str, Any]:
        """Return ``state`` (none, needed, waiting, signed_in, failed), ``expires``, ``scopes``, reason."""
        server = self._gateway.server(params.server, caller.access)
        await self._logins.wait(server, params.wait)
        return self._state(server, caller.lang)

    async def logout(self, caller: Caller, params: LogoutServer) -> dict[str, Any]:
        """Return ``was_signed_in``, and whether the authorization server has ``revoked`` the tokens."""
        return await self._logins.logout(self._gateway.server(params.server))

    def _state(self, server: Server, lang: Lang) -> dict[str, Any]:
        return {"server": server.name, **_rendered(self._logins.describe(server), lang)}

    def _server(self, name: str) -> Server:
        server = self._gateway.server(name)
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        return server

    @property
    def _logins(self) -> ServerLogins:
        logins = self._gateway.logins
        if logins is None:
            raise UpstreamUnavailable(say("This hub logs in nowhere."))
        return logins


def _rendered(found: dict[str, Any], lang: Lang) -> dict[str, Any]:
    reason = found.get("reason")
    return found | ({"reason": reason.render(lang)} if reason else {})


AT_ONCE = 8
"""Servers that are tried at the same time."""


class ServerChecks:
    """Tries servers. One that was idle runs afterwards, as after its first call."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def check(self, caller: Caller, params: CheckServers) -> dict[str, Any]:
        """Return a row for each server: whether it answers, what was done, the milliseconds, and the error.

        ``done`` is ``asked`` of a running server, ``started`` of one that was idle, and ``stopped``,
        ``disabled`` or ``left out`` of one that was not tried. Raises UnknownName.
        """
        names = params.names or list(self._gateway.servers)
        servers = [self._gateway.server(name, caller.access) for name in names]
        turns = asyncio.Semaphore(AT_ONCE)

        async def row(server: Server) -> dict[str, Any]:
            if (done := self._untried(server)) is not None:
                return {"name": server.name, "healthy": None, "done": done, "ms": None, "error": None}
            async with turns:
                return await self._tried(caller, server, params.timeout)

        return {"results": await asyncio.gather(*map(row, servers))}

    def _untried(self, server: Server) -> str | None:
        """Return why a server is not tried; None if it is."""
        if server.disabled:
            return "disabled"
        instances = self._gateway.instances(server.name)
        if instances and all(each.state is UpstreamState.STOPPED for each in instances):
            return "stopped"
        # It runs for the folder of a client, and there is none.
        return "left out" if server.needs_folder and not instances else None

    async def _tried(self, caller: Caller, server: Server, timeout: float) -> dict[str, Any]:
        running = [each for each in self._gateway.instances(server.name) if each.connection is not None]
        begun, why = time.perf_counter(), None
        try:
            async with asyncio.timeout(timeout):
                if not running:
                    running = [await self._gateway.start(server.name)]
                    done = "started"
                else:
                    done = "asked"
                answers = await asyncio.gather(*(self._answers(each, timeout) for each in running))
            healthy = all(answers)
        except TimeoutError:
            healthy, done = False, "asked" if running else "started"
        except TabaneError as error:
            healthy, done, why = False, "started", error.message
        if not healthy and why is None:
            why = say("It did not answer within {seconds:g} s.", seconds=timeout)
        return {
            "name": server.name,
            "healthy": healthy,
            "done": done,
            "ms": round((time.perf_counter() - begun) * 1000, 1),
            "error": why.render(caller.lang) if why else None,
        }

    @staticmethod
    async def _answers(instance: Upstream, timeout: float) -> bool:
        return await instance.check(timeout)


_RESIDENT = 21
"""Position of the resident pages in /proc/PID/stat, counted from the state (proc_pid_stat(5))."""


class ProcessMemory:
    """The resident pages of every running process, read once."""

    def __init__(self, stats: Mapping[int, bytes]) -> None:
        """Parse the texts of /proc/PID/stat by pid. Texts that are not of that form are left out."""
        self._pages: dict[int, int] = {}
        self._below: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            fields = stat.rpartition(b")")[2].split()
            if len(fields) > _RESIDENT:
                self._pages[pid] = int(fields[_RESIDENT])
                # parent, group and session: a grandchild whose parent has ended is still in its group
                for above in {int(field) for field in fields[1:4]} - {pid}:
                    self._below.setdefault(above, []).append(pid)

    def of(self, pids: Iterable[int]) -> int | None:
        """Return the bytes of these processes and their descendants; None if none of them runs.

        Memory that several of them share is counted for each.
        """
        found: set[int] = set()
        waiting = [pid for pid in pids if pid in self._pages]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting.extend(self._below.get(pid, ()))
        if not found:
            return None
        return sum(self._pages[pid] for pid in found) * os.sysconf("SC_PAGE_SIZE")


def read_process_memory() -> ProcessMemory:
    """Read the memory of all processes from /proc. Blocks for some microseconds for each process."""
    stats: dict[int, bytes] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return ProcessMemory({})
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    stats[int(name)] = file.read(4096)
            except OSError:
                continue  # ended since the folder was listed
    return ProcessMemory(stats)
