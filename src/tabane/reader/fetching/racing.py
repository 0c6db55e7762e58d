"""Happy eyeballs: several addresses tried one shortly after the other, the first that answers wins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

AFTER = 0.25
"""Seconds before the next address is tried beside those that have not answered yet (RFC 8305, 5)."""

MOST = 6
"""Addresses that are tried at all."""


async def first(
    openings: Sequence[Callable[[], Coroutine[Any, Any, T]]],
    close: Callable[[T], Awaitable[None]],
    after: float = AFTER,
) -> T:
    """What the first opening that succeeds made; those that come too late are closed.

    Raises the error of the last that failed where all do.
    """
    waiting = list(openings)
    tasks: set[asyncio.Task[T]] = set()
    failed: list[BaseException] = []
    won: asyncio.Task[T] | None = None
    try:
        while won is None and (waiting or tasks):
            if waiting:
                tasks.add(asyncio.create_task(waiting.pop(0)()))
            done, _ = await asyncio.wait(
                tasks, timeout=after if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            won = next((task for task in done if task.exception() is None), None)
            failed += [error for task in done if (error := task.exception()) is not None]
            tasks -= {task for task in done if task.exception() is not None} | {won}
    finally:
        await _left(tasks, close)
    if won is None:
        raise failed[-1]
    return won.result()


async def _left(tasks: set[asyncio.Task[T]], close: Callable[[T], Awaitable[None]]) -> None:
    for task in tasks:
        task.cancel()
    for made in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(made, BaseException):
            await close(made)
