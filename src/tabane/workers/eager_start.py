"""Coroutines that run at once, and become tasks only if they have to wait.

Most requests are answered without a wait, and a task costs more than all their coroutines together. Until its
first wait, a coroutine runs inside the function that starts it, in its context, and has no task of its own.
What needs these (``asyncio.timeout``, ``asyncio.current_task``, setting a context variable) awaits
:func:`own_task` before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any

_ENDED: Any = object()


def start(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run a coroutine up to its first wait. Return the task that goes on with it; None if it has ended.

    Raises what the coroutine raises before its first wait, but for ``CancelledError``, which ends it as it
    ends a task.
    """
    try:
        awaited = next(work.__await__(), _ENDED)  # raises no StopIteration, which costs more
    except asyncio.CancelledError:
        return None
    return None if awaited is _ENDED else loop.create_task(_StartedWork(work, awaited))


async def own_task() -> None:
    """Return in a task that belongs to this coroutine alone. It costs a turn of the event loop."""
    await asyncio.sleep(0)


class _StartedWork(Coroutine[Any, Any, None]):
    """A coroutine that waits for ``awaited`` already; None if it only lets others run.

    Its task gets ``awaited`` first, as if the coroutine had begun to wait in the task.
    """

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: asyncio.Future[Any] | None) -> None:
        self._work, self._awaited = work, awaited

    def send(self, value: Any) -> Any:
        awaited, self._awaited = self._awaited, None
        return self._work.send(value) if awaited is None else awaited

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        awaited, self._awaited = self._awaited, None
        if awaited is not None and awaited.cancel():
            return awaited  # canceled before its first step: what it waits for is canceled, as a task does it
        return self._work.throw(error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()
