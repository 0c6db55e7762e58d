"""Politeness: turns of the requests to each host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

AT_ONCE = 8
"""Requests under way, to whomever."""

PER_HOST = 2
"""Requests under way to one host."""

_SWEEP = 256


@dataclass(slots=True)
class _HostTurn:
    """How one host stands: who asks it or waits to (``users``), and when it may be asked next."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PER_HOST))
    users: int = 0
    next: float = 0.0


class RequestTurns:
    """Hands out turns. ``clock`` is in seconds, from any point in time."""

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._clock, self._sleep = clock, sleep
        self._rows: dict[str, _HostTurn] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        """Hosts that are remembered."""
        return len(self._rows)

    @asynccontextmanager
    async def turn(self, host: str, gap: float) -> AsyncIterator[None]:
        """Wait until ``host`` may be asked: ``gap`` seconds after the last time, not too many at once."""
        row = self._rows.setdefault(host, _HostTurn())
        row.users += 1
        try:
            async with row.places:
                await self._wait(row, gap)
                async with self._places:
                    yield
        finally:
            row.users -= 1
            self._forget()

    async def _wait(self, row: _HostTurn, gap: float) -> None:
        now = self._clock()
        begin = max(now, row.next)
        row.next = begin + gap
        if begin > now:
            await self._sleep(begin - now)

    def _forget(self) -> None:
        """Hosts that nobody asks, and that could be asked at once, are not remembered."""
        if len(self._rows) > _SWEEP:
            now = self._clock()
            self._rows = {host: row for host, row in self._rows.items() if row.users or row.next > now}
