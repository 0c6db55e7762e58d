"""Turns of jobs that must not run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tabane.operations.jobs import Queued


class Turn:
    """Lets one job run at a time. Jobs that wait report the job ahead of them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.holder: object = None
        """The job whose turn it is, or None."""

    @asynccontextmanager
    async def taken(self, progress: object = None) -> AsyncIterator[None]:
        """Wait for the turn, and hold it during the block."""
        waiting = progress if self._lock.locked() and isinstance(progress, Queued) else None
        if waiting is not None:
            waiting.behind(lambda: self.holder)
        try:
            await self._lock.acquire()
        finally:
            if waiting is not None:
                waiting.behind(None)
        try:
            self.holder = progress
            yield
        finally:
            self.holder = None
            self._lock.release()
