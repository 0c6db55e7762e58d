"""Operations on servers: their handlers, and servers as rows for people and programs."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.gateway.gateway import Gateway
from tabane.gateway.parameters import NameParams, NoServerParams, ServerLogs
from tabane.gateway.servers.server import Server
from tabane.gateway.tools.disclosure import signature
from tabane.gateway.tools.listings import ServerListing
from tabane.gateway.upstreams.upstream import Upstream, UpstreamState
from tabane.messages import Lang, Message, say
from tabane.operations import Caller

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
        "state": state_of(server, instances),
        "tools": len(gateway.catalogue.of_server(server.name)) if listed else None,
        "era": listing.era.value if listing else None,
        "version": listing.version if listing else None,
        "pids": [i.connection.pid for i in instances if i.connection and i.connection.pid],
        "healthy": obstacle is None and all(instance.vitals.healthy for instance in instances),
        "error": _error(server, instances, lang, obstacle),
    }


def server_detail(
    gateway: Gateway, server: Server, lang: Lang, obstacle: Message | None = None
) -> dict[str, Any]:
    """Return all that is known of one server. Values of its environment and headers are never shown."""
    instances = gateway.instances(server.name)
    listing = gateway.listing(server.name)
    return server_row(gateway, server, lang, obstacle) | {
        "transport": server.transport,
        "description": server.description,
        "tags": list(server.tags),
        "category": server.category,
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
        "failed_calls": sum(instance.vitals.failed_calls for instance in instances),
        "last_failure": _last_failure(instances, lang),
        "skipped_lines": sum(i.connection.conversation.garbage for i in instances if i.connection),
    }


def state_of(server: Server, instances: list[Upstream]) -> str:
    """Return the state of a server: disabled, or the most active state of its instances."""
    if server.disabled:
        return "disabled"
    states: set[UpstreamState] = {instance.state for instance in instances}
    for state in (
        UpstreamState.READY,
        UpstreamState.STARTING,
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


def _error(server: Server, instances: list[Upstream], lang: Lang, obstacle: Message | None) -> str | None:
    if server.disabled:
        return server.disabled.render(lang)
    if obstacle is not None:
        return say("It cannot start: {why}", why=obstacle).render(lang)
    errors: list[Message] = [i.vitals.error for i in instances if i.vitals.error]
    return errors[0].render(lang) if errors else None


class ServerOperations:
    """Shows, checks, starts and stops upstream servers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def servers(self, caller: Caller, params: NoServerParams) -> dict[str, Any]:
        return {"results": await self._rows(caller)}

    async def _rows(self, caller: Caller) -> list[dict[str, Any]]:
        gateway, blocked = self._gateway, await self._gateway.health.obstacles()
        servers = gateway.servers.values()
        return [server_row(gateway, server, caller.lang, blocked.get(server.name)) for server in servers]

    async def show(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        server = self._gateway.server(params.name)
        blocked = await self._gateway.health.obstacles()
        return server_detail(self._gateway, server, caller.lang, blocked.get(server.name))

    async def health(self, caller: Caller, params: NoServerParams) -> dict[str, Any]:
        """Return ``{name: bool}`` for every server that should run, and ``details`` of all.

        A server that cannot be started is false, with the reason as ``error``. A server that was not started
        yet but can be is true, and its ``remark`` says so.
        """
        healthy = await self._gateway.health.check()
        details = {row["name"]: row | {"remark": None} for row in await self._rows(caller)}
        for name in healthy.keys() & details.keys():
            if not self._gateway.health.tried(name) and not details[name]["error"]:
                details[name]["remark"] = say("not started yet").render(caller.lang)
        return {**healthy, "details": details}

    async def start(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        await self._gateway.start(params.name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def stop(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        await self._gateway.stop(self._gateway.server(params.name).name)
        return server_detail(self._gateway, self._gateway.server(params.name), caller.lang)

    async def restart(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        await self._gateway.stop(self._gateway.server(params.name).name)
        return await self.start(caller, params)

    async def test(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """Start the server if it is not running; return its era, version and tools."""
        instance = await self._gateway.start(params.name)
        tools = self._gateway.catalogue.of_server(params.name)
        detail = server_detail(self._gateway, instance.server, caller.lang)
        return detail | {"tools": [signature(tool) for tool in tools]}

    async def logs(self, caller: Caller, params: ServerLogs) -> dict[str, Any]:
        name = self._gateway.server(params.name).name
        loop = asyncio.get_running_loop()
        lines = await loop.run_in_executor(None, self._gateway.log_lines, name, params.lines)
        return {"name": name, "lines": lines}
