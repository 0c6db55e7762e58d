"""The thread in which all files of an import are read: what is handed to it is done in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ReadingThread:
    """Does work in the only thread of a pool, whose owner ends it."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    async def __call__(self, work: Callable[[], T]) -> T:
        return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have it done while the caller goes on."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
