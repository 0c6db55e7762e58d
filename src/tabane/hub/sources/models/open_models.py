"""Open models: a limited number at the same time. None is closed while it is in use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from tabane.errors import ModelUnavailable
from tabane.messages import say


class CloseableModel(Protocol):
    async def close(self) -> None: ...


S = TypeVar("S")
T = TypeVar("T", bound=CloseableModel)


class OpenModel(Generic[S, T]):
    """One model that is open. ``source`` identifies what it was opened from."""

    def __init__(self, name: str, source: S, thing: T) -> None:
        self.name, self.source, self.thing = name, source, thing
        self.users = 0
        self.retired = False


class OpenModels(Generic[S, T]):
    """Open models, by name.

    If all of ``most`` places are taken, the least recently used one is closed, or if all are in use, the
    first that becomes free.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, OpenModel[S, T]] = {}  # the one used last at the end
        self._turn = asyncio.Lock()
        self._vacated: asyncio.Future[OpenModel[S, T]] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def standing(self) -> list[OpenModel[S, T]]:
        """Return all that are open."""
        return list(self._open.values())

    def get(self, name: str) -> OpenModel[S, T] | None:
        return self._open.get(name)

    async def open(
        self, source: S, start: Callable[[], Awaitable[T]], name: Callable[[T], str]
    ) -> OpenModel[S, T]:
        """Return the model of this source: the one that is open, else a new one, one at a time.

        One of the same name from another source is replaced, and closed when nobody uses it any more. Raises
        what ``start`` raises, and ModelUnavailable after :meth:`close`.
        """
        async with self._turn:
            self._check()
            for standing in self._open.values():
                if standing.source == source:
                    return standing
            await self._make_room()
            thing = await start()
            if self._closed:
                await thing.close()
            self._check()
            standing = OpenModel(name(thing), source, thing)
            former = self._open.pop(standing.name, None)
            self._open[standing.name] = standing
            if former is not None:
                self._retire(former)
            return standing

    @contextlib.asynccontextmanager
    async def using(self, standing: OpenModel[S, T]) -> AsyncIterator[T]:
        """Yield an open model, which stays open for the block.

        Call it without an await after getting the model.
        """
        standing.users += 1
        self._open[standing.name] = self._open.pop(standing.name)
        try:
            yield standing.thing
        finally:
            standing.users -= 1
            if not standing.users:
                self._free(standing)

    async def close(self) -> None:
        """Close everything, in use or not; nothing is opened any more."""
        self._closed = True
        if self._vacated is not None and not self._vacated.done():
            self._vacated.set_exception(_ended())
        standing, self._open = list(self._open.values()), {}
        await asyncio.gather(*(each.thing.close() for each in standing), *self._closing)

    def _check(self) -> None:
        if self._closed:
            raise _ended()

    async def _make_room(self) -> None:
        while len(self._open) >= self._most:
            idle = next((each for each in self._open.values() if not each.users), None)
            if idle is None:
                self._vacated = asyncio.get_running_loop().create_future()
                try:
                    idle = await self._vacated
                finally:
                    self._vacated = None
            else:
                del self._open[idle.name]
            await idle.thing.close()

    def _free(self, standing: OpenModel[S, T]) -> None:
        if standing.retired:
            self._close(standing)
        elif self._vacated is not None and not self._vacated.done() and standing.name in self._open:
            # At once, or the last user would take it again before the waiting one has its turn.
            self._vacated.set_result(self._open.pop(standing.name))

    def _retire(self, standing: OpenModel[S, T]) -> None:
        standing.retired = True
        if not standing.users:
            self._close(standing)

    def _close(self, standing: OpenModel[S, T]) -> None:
        task = asyncio.create_task(standing.thing.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _ended() -> ModelUnavailable:
    return ModelUnavailable(say("The embedding process is stopping."))
