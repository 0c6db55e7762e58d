"""The Fetcher of the product, which costs nothing until it fetches."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from tabane.reader.fetching.interface import Fetched, Policy
from tabane.reader.fetching.resolver import Names, Resolver

if TYPE_CHECKING:
    from tabane.reader.fetching.begun import Begun
    from tabane.reader.fetching.guarded_connections import Source


class Fetching:
    """Gets pages from the network, under the guard: see :class:`~tabane.reader.fetching.interface.Fetcher`.

    ``policy`` is asked at each fetch, so that settings that change hold from the next one on; connections
    of the old ones are closed when nobody reads over them. ``resolve`` looks names up, ``source`` tells the
    address that packets to another leave from; ``clock`` and ``wall`` tell the time, ``sleep`` waits.

    It belongs to the event loop that it first fetches on.

    Causes of its ReadErrors: url, scheme, refused, dns, connect, tls, timeout, redirect, status, rate,
    robots, large, broken. Raises ConfigurationError where the policy allows what is no host.
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
        self._policy, self._resolve, self._source = policy, resolve or Names(), source
        self._clock, self._wall, self._sleep = clock, wall, sleep
        self._begun: Begun | None = None

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Fetched:
        """What is at ``url``, whole. ``headers`` go to its own host alone."""
        begun = self._begun or await self._begin()
        return await begun.fetch(url, headers or {}, accept)

    async def close(self) -> None:
        """Close every connection; reads that are under way fail."""
        if self._begun is not None:
            await self._begun.close()

    async def _begin(self) -> Begun:
        # In a thread: it takes a tenth of a second, in which the hub has other things to do.
        await asyncio.to_thread(importlib.import_module, "tabane.reader.fetching.begun")
        from tabane.reader.fetching.begun import Begun
        from tabane.reader.fetching.guarded_connections import source

        if self._begun is None:
            self._begun = Begun(
                self._policy,
                self._resolve,
                self._source or source,
                self._clock,
                self._wall,
                self._sleep,
            )
        return self._begun
