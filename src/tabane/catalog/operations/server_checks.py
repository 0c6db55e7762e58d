"""Health of all servers, really tried: idle ones are started, and each is asked whether it answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import CheckServers
from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.servers.server import Server
from tabane.upstreams.upstream import Upstream
from tabane.upstreams.upstream_state import UpstreamState

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
        return _row(caller, server, healthy, done, begun, why)

    @staticmethod
    async def _answers(instance: Upstream, timeout: float) -> bool:
        return await instance.health.check(timeout)


def _row(
    caller: Caller, server: Server, healthy: bool, done: str, begun: float, why: Message | None
) -> dict[str, Any]:
    return {
        "name": server.name,
        "healthy": healthy,
        "done": done,
        "ms": round((time.perf_counter() - begun) * 1000, 1),
        "error": why.render(caller.lang) if why else None,
    }
