"""Pauses between the starts of a program that fails, so that it is not started continually."""

from __future__ import annotations

import asyncio

from tabane.errors import WorkerUnavailable
from tabane.messages import say

STARTS = 3
"""Processes that may fail in a row before the requests that wait for one fail."""

_PAUSE = 0.1  # seconds after the first failed start, doubled by each that follows
_LONGEST_PAUSE = 30.0
_PATIENCE = 1.0  # seconds of that pause that a request waits for; if more remain, it fails at once


class RestartPolicy:
    """The recent failures of a program. Use it on one event loop only."""

    def __init__(self) -> None:
        self.failures = 0
        self._not_before = 0.0

    def failed(self) -> None:
        """Note that a process failed before it was of any use."""
        self._not_before = _now() + min(_PAUSE * 2**self.failures, _LONGEST_PAUSE)
        self.failures += 1

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures, self._not_before = 0, 0.0

    async def pause(self) -> None:
        """Wait until the next start. Raises WorkerUnavailable if that takes too long."""
        wait = self._not_before - _now()
        if wait > _PATIENCE:
            raise WorkerUnavailable(
                say(
                    "A worker process cannot be started. Tabane tries again in {seconds:.0f} s.", seconds=wait
                )
            )
        if wait > 0:
            await asyncio.sleep(wait)


def _now() -> float:
    return asyncio.get_running_loop().time()
