"""Fetching under one policy: its connections, its robots.txt files, and the chain of each request.

This module is imported late, at the first fetch: it loads httpcore2, h2 and brotli.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver, SentCookies
from tabane.reader.fetching.network import GuardedHttpClient, RequestTurns, Source
from tabane.reader.fetching.network import source as local_address
from tabane.reader.fetching.redirects import FetchContext, RedirectChain
from tabane.reader.fetching.responses import late
from tabane.reader.fetching.robots import LIMIT, RobotsCache
from tabane.reader.guard import Guard

_ROBOTS = "text/plain,*/*;q=0.5"


@dataclass(slots=True)
class PolicySession:
    """The connections and robots.txt files under one policy, and the number of fetches that use them."""

    context: FetchContext
    robots: RobotsCache
    users: int = 0

    async def fetch(
        self, url: str, headers: Mapping[str, str], accept: str | None, cookies: SentCookies | None
    ) -> FetchedResource:
        """Return the whole resource at ``url``.

        Raises ReadError, with cause ``timeout`` when the policy's time is over.
        """
        policy = self.context.policy
        chain = RedirectChain(self.context, self.robots.judge if policy.robots else None, cookies=cookies)
        try:
            async with asyncio.timeout(policy.timeout) as limit:
                return await chain.go(url, headers, accept)
        except TimeoutError:
            if limit.expired():
                raise late(chain.phase, policy.timeout) from None
            raise


async def open_session(
    policy: Policy,
    resolve: Resolver,
    source: Source | None,
    turns: RequestTurns | None,
    clock: Callable[[], float],
    wall: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> PolicySession:
    """Return a session under ``policy``. ``turns`` are those of an earlier session, whose limits go on."""
    guard = Guard(policy.allowed, policy.ports, resolves=policy.proxy is None)
    network = await asyncio.to_thread(GuardedHttpClient, policy, guard, resolve, source or local_address)
    context = FetchContext(policy, guard, network, turns or RequestTurns(clock, sleep), sleep, wall)

    async def robots_file(url: str) -> FetchedResource:
        return await RedirectChain(context, limit=LIMIT, cut=True).go(url, {}, _ROBOTS)

    return PolicySession(context, RobotsCache(robots_file, policy.product, policy.robots_timeout, clock))
