"""Health of upstream servers: checks on request, and regular checks with consequences."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine

from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.instances import Instances
from tabane.gateway.upstreams.upstream import UpstreamState
from tabane.messages import Message


class HealthChecks:
    """Checks the instances of all enabled servers.

    ``interval`` returns the seconds between two regular checks, which ``spawn`` runs. ``obstacle`` returns
    why a server cannot be started, as far as files show; it blocks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instances: Instances,
        enabled: Callable[[], list[Server]],
        obstacle: Callable[[Server], Message | None],
        interval: Callable[[], float],
        spawn: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self.timeout = 10.0
        self._loop, self._instances, self._enabled = loop, instances, enabled
        self._obstacle, self._interval, self._spawn = obstacle, interval, spawn
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check regularly from now on. Instances that nobody uses are ended at the same time."""
        self._timer = self._loop.call_later(self._interval(), self._tick)

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    async def check(self) -> dict[str, bool]:
        """Return at once whether every running instance answers; wait for those that are starting.

        A server that is not running counts as healthy unless it cannot be started (see :meth:`obstacles`). A
        server that is disabled or stopped is left out.
        """
        names = [server.name for server in self._enabled()]
        found = dict(zip(names, await asyncio.gather(*map(self._healthy, names)), strict=True))
        blocked = await self.obstacles()
        return {name: well and name not in blocked for name, well in found.items() if well is not None}

    async def obstacles(self) -> dict[str, Message]:
        """Return why servers that are not running cannot be started, as far as files show.

        Servers that already failed are left out.
        """
        idle = [server for server in self._enabled() if not self.tried(server.name)]
        found = await asyncio.to_thread(lambda: [(server.name, self._obstacle(server)) for server in idle])
        return {name: why for name, why in found if why is not None}

    def tried(self, name: str) -> bool:
        """Return whether the server is running, or the result of its last start is known."""
        return any(instance.state is not UpstreamState.IDLE for instance in self._instances.of(name))

    async def _healthy(self, name: str) -> bool | None:
        every = list(self._instances.of(name))
        instances = [instance for instance in every if instance.state is not UpstreamState.STOPPED]
        if not instances:
            return None if every else True
        starting = [instance for instance in instances if instance.state is UpstreamState.STARTING]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                await asyncio.gather(*(each.ensure() for each in starting), return_exceptions=True)
        instances = [instance for instance in instances if instance.state is not UpstreamState.IDLE]
        results = await asyncio.gather(*(instance.check(self.timeout) for instance in instances))
        return all(results)

    def _tick(self) -> None:
        self.start()
        self._instances.expire()
        self._spawn(self._look_after())

    async def _look_after(self) -> None:
        running = [instance for instance in self._instances if instance.connection]
        await asyncio.gather(*(instance.look_after(self.timeout) for instance in running))
