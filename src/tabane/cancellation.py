"""Work that must not be cut off in the middle when its caller is canceled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(work: Awaitable[T]) -> T:
    """Return the result of work. If the caller is canceled, the work ends before the cancellation goes on.

    Threads cannot be canceled: without this, one would go on with files or processes that are closed or
    used by the next step. A failure of the work is lost if the caller is canceled.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
        raise
