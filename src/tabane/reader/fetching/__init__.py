"""Fetching: the resource at a URL, whole and decompressed, under the guard and within every limit.

Large dependencies (httpcore2, h2, brotli) are imported on the first fetch.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tabane.errors import ReadError
from tabane.reader.fetching.interface import (
    FetchedResource,
    Fetcher,
    Policy,
    Resolver,
    SentCookies,
    SystemResolver,
)
from tabane.reader.guard import Target, target

if TYPE_CHECKING:
    from tabane.reader.fetching.network import RequestTurns, Source
    from tabane.reader.fetching.redirects import PolicySession
    from tabane.reader.fetching.robots import RobotsRules

__all__ = ["PageFetcher", "Policy", "Resolver"]


_Fetch = Callable[[str, Mapping[str, str], str | None, SentCookies | None], Awaitable[FetchedResource]]

Within = Callable[[Target], bool]
"""Returns whether a redirect may lead to an address."""


class _BoundedFetcher:
    """Fetches without redirects to addresses that are not within bounds."""

    def __init__(self, fetch: Callable[..., Awaitable[FetchedResource]], within: Within) -> None:
        self._fetch, self._within = fetch, within

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        return await self._fetch(url, headers or {}, accept, None, self._within)


class _CookieFetcher:
    """Fetches for one read with imported cookies.

    A page may name other URLs that belong to it. Only those of its own origin are fetched with cookies.
    """

    def __init__(self, fetch: _Fetch, cookies: SentCookies) -> None:
        self._fetch, self._cookies = fetch, cookies

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        own = target(url).origin == self._cookies.origin
        return await self._fetch(url, headers or {}, accept, self._cookies if own else None)


class PageFetcher:
    """Fetches pages from the network, under the guard: see
    :class:`~tabane.reader.fetching.interface.Fetcher`.

    ``policy`` is called at each fetch, so that changed settings apply from the next one on; connections under
    the old ones are closed when no fetch uses them any more. ``resolve`` looks up names. ``source`` returns
    the local address that packets to an address leave from. ``clock`` is monotonic, ``wall`` is the time of
    day, ``sleep`` waits.

    Use it only on the event loop of its first fetch.

    Causes of its ReadErrors: url, scheme, refused, dns, connect, tls, timeout, redirect, status, rate,
    robots, large, broken, outside. Raises ConfigurationError if the policy allows something that is not a
    host.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        *,
        resolve: Resolver | None = None,
        source: Source | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._policy, self._resolve, self._source = policy, resolve or SystemResolver(), source
        self._clock, self._wall, self._sleep = clock, wall, sleep
        self._changing = asyncio.Lock()
        self._turns: RequestTurns | None = None
        self._current: PolicySession | None = None

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        """Return the whole resource at ``url``. ``headers`` are sent only to its own host."""
        return await self._fetch_resource(url, headers or {}, accept, None)

    def with_cookies(self, cookies: SentCookies) -> Fetcher:
        """Return a fetcher for one read, which sends imported cookies."""
        return _CookieFetcher(self._fetch_resource, cookies)

    def bounded(self, within: Within) -> Fetcher:
        """Return a fetcher that follows redirects only to addresses that are ``within`` bounds.

        Others raise ReadError, cause ``outside``.
        """
        return _BoundedFetcher(self._fetch_resource, within)

    async def robots_rules(self, url: str) -> RobotsRules:
        """Return what the robots.txt of a host says to this reader. Raises ReadError.

        If the policy does not obey it, no path is closed.
        """
        from tabane.reader.fetching.robots import RobotsRules

        policy = self._policy()
        session = await self._acquire_session(policy)
        try:
            rules = await session.robots.rules_for(session.context.guard.target(url))
            return rules if policy.robots else replace(rules, lines=())
        except ReadError as error:
            if policy.robots or error.cause != "robots":
                raise
            return RobotsRules()
        finally:
            session.users -= 1
            await self._retire_session(session)

    async def _fetch_resource(
        self,
        url: str,
        headers: Mapping[str, str],
        accept: str | None,
        cookies: SentCookies | None,
        within: Within | None = None,
    ) -> FetchedResource:
        session = await self._acquire_session(self._policy())
        try:
            return await session.fetch(url, headers, accept, cookies, within)
        finally:
            session.users -= 1
            await self._retire_session(session)

    async def close(self) -> None:
        """Close every connection; fetches that are under way fail."""
        session, self._current = self._current, None
        if session is not None:
            await session.context.network.close()

    async def _acquire_session(self, policy: Policy) -> PolicySession:
        """Return the session under ``policy``, with one user more."""
        async with self._changing:
            session = self._current
            if session is None or session.context.policy != policy:
                self._current = await self._made(policy)
                if session is not None:
                    await self._retire_session(session)
                session = self._current
            session.users += 1
            return session

    async def _retire_session(self, session: PolicySession) -> None:
        if session is not self._current and not session.users:
            await session.context.network.close()

    async def _made(self, policy: Policy) -> PolicySession:
        # In a thread: it takes a tenth of a second, in which the hub has other things to do.
        await asyncio.to_thread(importlib.import_module, "tabane.reader.fetching.redirects")
        from tabane.reader.fetching.redirects import open_session

        session = await open_session(
            policy, self._resolve, self._source, self._turns, self._clock, self._wall, self._sleep
        )
        self._turns = session.context.turns
        return session
