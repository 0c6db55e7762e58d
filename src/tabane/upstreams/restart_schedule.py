"""Times at which a server that failed is started again, and the circuit breaker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from tabane.upstreams.upstream_limits import UpstreamLimits
from tabane.upstreams.upstream_state import UpstreamState


class RestartSchedule:
    """The time of the next start of one instance. ``start`` is called then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Callable[[], None]) -> None:
        self._loop, self._start = loop, start
        self._resume_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """Return the seconds until the next start; zero or less if it may start now."""
        return self._resume_at - self._loop.time()

    def failed(self, failures: int, limits: UpstreamLimits) -> UpstreamState:
        """Choose the time after so many failures in a row. Return the state until then."""
        if failures >= limits.circuit_failures:
            self._resume_at = self._loop.time() + limits.circuit_wait
            return UpstreamState.OPEN
        delay = min(limits.restart_max, limits.restart_first * 2 ** max(0, failures - 1))
        # Jitter keeps servers that died together from starting together.
        self._resume_at = self._loop.time() + delay * random.uniform(0.75, 1.25)
        return UpstreamState.WAITING

    def arm(self) -> None:
        """Start at that time, unless that is planned already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self.left, self._due)

    def clear(self) -> None:
        """Allow a start now."""
        self._resume_at = 0.0

    def cancel(self) -> None:
        """Do not start at that time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._start()
