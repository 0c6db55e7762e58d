"""Turns of jobs that must not run at the same time. A file of its own, since it needs asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tabane.errors import HubError, StoreError
from tabane.messages import say
from tabane.operations.jobs import Queued, TurnHolder

LOOK = 1.0
"""Seconds between two attempts to get the turn that a job of another hub has."""

CHECK = 5.0
"""Seconds between two checks whether a job still has the turn among all hubs."""


class SharedTurn(Protocol):
    """The turn of one job among several hubs."""

    async def held(self) -> bool:
        """Return whether this job has the turn, and take it if no other has it. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Give the turn back."""
        ...


TurnOpener = Callable[[], Awaitable[SharedTurn]]
"""Returns the turn of a job, which does not have it yet. Raises StoreError."""


class Turn(TurnHolder):
    """Lets one job run at a time. Jobs that wait report the job ahead of them.

    ``shared`` opens the turn among all hubs; None: the jobs of other hubs do not matter. ``look`` and
    ``check`` are the seconds between two attempts to get it, and between two checks that it is held.
    """

    def __init__(self, shared: TurnOpener | None = None, look: float = LOOK, check: float = CHECK) -> None:
        self._lock, self._shared = asyncio.Lock(), shared
        self._look, self._check = look, check
        self.holder = None

    @asynccontextmanager
    async def taken(self, progress: object = None) -> AsyncIterator[None]:
        """Wait for the turn, and hold it during the block.

        Raises StoreError if it cannot be asked for, and HubError if a job of another hub got it meanwhile.
        """
        waiting = progress if self._lock.locked() and isinstance(progress, Queued) else None
        if waiting is not None:
            waiting.behind(self)
        try:
            await self._lock.acquire()
        finally:
            if waiting is not None:
                waiting.behind(None)
        try:
            self.holder = progress
            async with self._take_among_hubs(progress):
                yield
        finally:
            self.holder = None
            self._lock.release()

    @asynccontextmanager
    async def _take_among_hubs(self, progress: object) -> AsyncIterator[None]:
        if self._shared is None:
            yield
            return
        turn = await self._shared()
        try:
            await self._wait_for(turn, progress if isinstance(progress, Queued) else None)
            async with self._keep_turn(turn):
                yield
        finally:
            await turn.close()

    async def _wait_for(self, turn: SharedTurn, waiting: Queued | None) -> None:
        if await turn.held():
            return
        if waiting is not None:
            waiting.behind(TurnHolder())
        try:
            while not await turn.held():  # noqa: ASYNC110 - the server announces nothing
                await asyncio.sleep(self._look)
        finally:
            if waiting is not None:
                waiting.behind(None)

    @asynccontextmanager
    async def _keep_turn(self, turn: SharedTurn) -> AsyncIterator[None]:
        """End the block if a job of another hub has got the turn, after this one lost its connection."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                watching = asyncio.create_task(self._watch_turn(turn, limit))
                try:
                    yield
                finally:
                    watching.cancel()
                    await asyncio.wait([watching])
        except TimeoutError:
            if not limit.expired():
                raise
            message = say(
                "The connection to the database was lost, and another hub does this work now. Completed work "
                "is kept."
            )
            raise HubError(message) from None

    async def _watch_turn(self, turn: SharedTurn, limit: asyncio.Timeout) -> None:
        held = True
        while held:
            await asyncio.sleep(self._check)
            with contextlib.suppress(StoreError):  # while the database is away, nobody else gets the turn
                held = await turn.held()
        limit.reschedule(asyncio.get_running_loop().time())
