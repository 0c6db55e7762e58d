"""Parts of one call that are under way at once: all of them, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable


async def together(parts: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all parts. The first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
