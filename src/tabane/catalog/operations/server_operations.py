"""Operations on servers: their handlers, and servers as rows for people and programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import NameParams, NoServerParams, ServerLogs
from tabane.catalog.tools.disclosure import signature
from tabane.catalog.tools.listings import ServerListing
from tabane.catalog.tools.overridden_tool import override_faults
from tabane.errors import ConfigurationError
from tabane.messages import Lang, Message, say
from tabane.messages.server_states import SERVER_STATES
from tabane.operations import Caller
from tabane.servers.configuration import why_disabled
from tabane.servers.server import Server
from tabane.servers.server_keys import ToolHints
from tabane.servers.tool_overrides import ParameterOverride, ToolOverride, override_fault
from tabane.upstreams.processes.process_memory import ProcessMemory, read_process_memory
from tabane.upstreams.upstream import Upstream
from tabane.upstreams.upstream_state import UpstreamState

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
    listing = gateway.listing(server.name)
    listed = listing is not None and "tools" in listing.lists
    return {
        "name": server.name,
        "state": _state(gateway, server, instances),
        "tools": len(gateway.catalogue.of_server(server.name)) if listed else None,
        "era": listing.era.value if listing else None,
        "version": listing.version if listing else None,
        "pids": [i.connection.pid for i in instances if i.connection and i.connection.pid],
        "healthy": obstacle is None and all(instance.vitals.healthy for instance in instances),
        "download": _download(instances, lang),
        "error": _error(server, instances, lang, obstacle),
        "cause": _cause(server, instances, lang),
        "transport": server.transport,
        "run": server.run,
        "runs_at": gateway.runs_at(server.name) if server.run == "group" else "",
        "description": server.description,
        "tags": list(server.tags),
        "switched_off": server.switched_off,
        "sandboxed": server.sandboxed,
        "reason": _reason(server, lang),
        "warnings": _override_warnings(server, listing, lang),
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
    listing = gateway.listing(server.name)
    names = gateway.passed(server)
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
        **_offered(listing),
        "starts": sum(instance.vitals.starts for instance in instances),
        "deaths": sum(instance.vitals.deaths for instance in instances),
        "failures": max((instance.vitals.failures for instance in instances), default=0),
        "in_flight": sum(instance.in_flight for instance in instances),
        "last_failure": _last_failure(instances, lang),
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


def _override_warnings(server: Server, listing: ServerListing | None, lang: Lang) -> list[str]:
    """Return what is wrong with the overrides of its tools: as written, and with the tools that it listed."""
    faults = [override_fault(each, fault) for each in server.overrides for fault in each.faults]
    tools = listing.lists.get("tools") if listing and server.overrides and not server.disabled else None
    if tools is not None:
        faults += [override_fault(*found) for found in override_faults(server, map(bytes, tools))]
    return [fault.render(lang) for fault in faults]


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

    Restarts and calls are of the instances that exist now.
    """
    running = [instance for instance in instances if instance.connection]
    uptimes = [instance.uptime for instance in running if instance.uptime is not None]
    begun = [instance.vitals.ready_at for instance in running if instance.vitals.ready_at is not None]
    waits = [instance.retry_in for instance in instances if instance.retry_in is not None]
    return {
        "since": min(begun, default=None),
        "uptime": max(uptimes, default=None),
        "restarts": sum(max(0, instance.vitals.starts - 1) for instance in instances),
        "calls": sum(instance.vitals.calls for instance in instances),
        "failed_calls": sum(instance.vitals.failed_calls for instance in instances),
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


def _offered(listing: ServerListing | None) -> dict[str, int | None]:
    """Return the sizes of its other lists; None for a list that was not read yet."""
    lists = listing.lists if listing else {}
    return {name: len(lists[name]) if name in lists else None for name in _OFFERED}


def _last_failure(instances: list[Upstream], lang: Lang) -> str | None:
    failures = [i.vitals.last_failure for i in instances if i.vitals.last_failure]
    return failures[0].render(lang) if failures else None


def _reason(server: Server, lang: Lang) -> str | None:
    """Return why a server is disabled, without file and line."""
    why = why_disabled(server)
    return why.render(lang) if why else None


def _error(server: Server, instances: list[Upstream], lang: Lang, obstacle: Message | None) -> str | None:
    if server.disabled:
        return server.disabled.render(lang)
    if obstacle is not None:
        return say("It cannot start: {why}", why=obstacle).render(lang)
    errors: list[Message] = [i.vitals.error for i in instances if i.vitals.error]
    return errors[0].render(lang) if errors else None


def _cause(server: Server, instances: list[Upstream], lang: Lang) -> dict[str, Any] | None:
    """Return why it does not run as its output shows it: ``kind``, ``line``, ``fix``; None if unknown."""
    errors = [instance.vitals.error for instance in instances if instance.vitals.error]
    found = _cause_in(errors[0]) if errors and not server.disabled else None
    if found is None:
        return None
    fix = found.cause.fix
    return {"kind": found.cause.kind, "line": found.cause.line, "fix": fix.render(lang) if fix else None}


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

    async def servers(self, caller: Caller, params: NoServerParams) -> dict[str, Any]:
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

    async def health(self, caller: Caller, params: NoServerParams) -> dict[str, Any]:
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
        self._file.follow()
        await self._gateway.start(params.name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def stop(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        await self._gateway.stop(self._gateway.server(params.name).name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def restart(self, caller: Caller, params: NameParams) -> dict[str, Any]:
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
        tools = self._gateway.catalogue.of_server(params.name)
        detail = server_detail(self._gateway, instance.server, caller.lang)
        return detail | {"tools": [signature(tool) for tool in tools]}

    async def logs(self, caller: Caller, params: ServerLogs) -> dict[str, Any]:
        """Return lines, the cursor for those that follow, and whether lines before them were left out."""
        name = self._gateway.server(params.name).name
        log = self._gateway.log(name)
        if params.after is not None:
            found = await asyncio.to_thread(log.after, params.after, params.lines)
        else:
            found = await asyncio.to_thread(log.end, params.lines)
        return {"name": name, **found._asdict()}


def _cause_in(why: Message) -> FailedStart | None:
    from tabane.upstreams.launching.failure_causes import cause_in  # many rules, needed for failures alone

    return cause_in(why)
