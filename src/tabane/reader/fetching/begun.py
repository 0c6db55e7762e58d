"""Fetching as it is once it has begun: everything that the first fetch brings in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tabane.reader.fetching.fetch_errors import late
from tabane.reader.fetching.guarded_connections import Source
from tabane.reader.fetching.host_turns import Turns
from tabane.reader.fetching.interface import Fetched, Policy
from tabane.reader.fetching.network import Network
from tabane.reader.fetching.redirects import Ground, Journey
from tabane.reader.fetching.resolver import Resolver
from tabane.reader.fetching.robots import LIMIT, Robots
from tabane.reader.guard import Guard

_ROBOTS = "text/plain,*/*;q=0.5"


@dataclass(slots=True)
class _Standing:
    """What stands under one policy, and how many reads stand on it."""

    ground: Ground
    robots: Robots
    users: int = 0


class Begun:
    """What Fetching is after its first fetch; see there."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        resolve: Resolver,
        source: Source,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._policy, self._resolve, self._source = policy, resolve, source
        self._clock, self._wall, self._sleep = clock, wall, sleep
        self._turns = Turns(clock, sleep)
        self._changing = asyncio.Lock()
        self._now: _Standing | None = None

    async def fetch(self, url: str, headers: Mapping[str, str], accept: str | None) -> Fetched:
        policy = self._policy()
        async with self._standing(policy) as standing:
            journey = Journey(standing.ground, standing.robots.judge if policy.robots else None)
            try:
                async with asyncio.timeout(policy.timeout) as limit:
                    return await journey.go(url, headers, accept)
            except TimeoutError:
                if limit.expired():
                    raise late(journey.phase, policy.timeout) from None
                raise

    async def close(self) -> None:
        standing, self._now = self._now, None
        if standing is not None:
            await standing.ground.network.close()

    @asynccontextmanager
    async def _standing(self, policy: Policy) -> AsyncIterator[_Standing]:
        standing = await self._under(policy)
        try:
            yield standing
        finally:
            standing.users -= 1
            await self._retire(standing)

    async def _under(self, policy: Policy) -> _Standing:
        """What stands under ``policy``, with one user more."""
        async with self._changing:
            standing = self._now
            if standing is None or standing.ground.policy != policy:
                self._now = await self._made(policy)
                if standing is not None:
                    await self._retire(standing)
                standing = self._now
            standing.users += 1
            return standing

    async def _retire(self, standing: _Standing) -> None:
        if standing is not self._now and not standing.users:
            await standing.ground.network.close()

    async def _made(self, policy: Policy) -> _Standing:
        guard = Guard(policy.allowed, policy.ports, resolves=policy.proxy is None)

        network = await asyncio.to_thread(Network, policy, guard, self._resolve, self._source)
        ground = Ground(policy, guard, network, self._turns, self._sleep, self._wall)

        async def text(url: str) -> Fetched:
            return await Journey(ground, limit=LIMIT, cut=True).go(url, {}, _ROBOTS)

        return _Standing(ground, Robots(text, policy.product, policy.robots_timeout, self._clock))
