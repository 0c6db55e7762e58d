"""Slices of time on the event loop, for work that takes longer."""

from __future__ import annotations

import asyncio
import time


class TimeSlices:
    """Slices of time on the event loop. Between two slices it serves other requests."""

    def __init__(self, seconds: float = 0.004) -> None:
        self._seconds = seconds
        self._end = time.perf_counter() + seconds

    async def pause(self) -> None:
        """Let other requests run when a slice is over."""
        if time.perf_counter() > self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + self._seconds
