"""Slices of time on the event loop and in threads, for work that takes longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LONGEST_REST = 0.01
"""Seconds between two slices in a thread, at most."""

Pause = Callable[[], None]
"""Is called often by long work in a thread."""


def no_pause() -> None:
    """Go on: the work is short, or nobody else needs the interpreter."""


def thread_slices(seconds: float = 0.002, rest: float = 0.5) -> Pause:
    """Return what lets other threads have the interpreter after each slice of ``seconds``.

    A thread that only computes gives it to one that asks for it every 5 ms, and the event loop has to ask
    several times for each request. So this one sleeps, by default half as long as the slice was (``rest``): a
    step that took 20 ms, because it cannot be cut, is followed by time enough for whole requests.
    """
    began = time.perf_counter()

    def pause() -> None:
        nonlocal began
        took = time.perf_counter() - began
        if took > seconds:
            time.sleep(min(took * rest, LONGEST_REST))
            began = time.perf_counter()

    return pause


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
