"""A thread that does one step of work after another, each of which an event loop awaits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Step = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class StepThread:
    """Does steps in order. Cheaper than an executor: a script takes two steps for each call of a tool."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps: SimpleQueue[_Step | None] = SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, step: Callable[[], T]) -> asyncio.Future[T]:
        """Do a step after those before. The future has its result or its exception.

        It is cancelled if the thread was told to end.
        """
        ended: asyncio.Future[T] = self._loop.create_future()
        if self._over:
            ended.cancel()
        else:
            self._steps.put((step, ended))
        return ended

    def end(self) -> None:
        """End the thread after the steps that were begun."""
        self._over = True
        self._steps.put(None)

    def join(self) -> None:
        """Wait for the end of the thread. Blocks."""
        self._thread.join()

    def _work(self) -> None:
        while (found := self._steps.get()) is not None:
            step, ended = found
            try:
                result = step()
            except BaseException as error:
                self._tell(_fail, ended, error)
            else:
                self._tell(_settle, ended, result)
                del result
            del step, ended, found

    def _tell(self, settle: Callable[[asyncio.Future[Any], Any], None], *what: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(settle, *what)


def _settle(ended: asyncio.Future[Any], result: Any) -> None:
    if not ended.done():
        ended.set_result(result)


def _fail(ended: asyncio.Future[Any], error: BaseException) -> None:
    if not ended.done():
        ended.set_exception(error)
