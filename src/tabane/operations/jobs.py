"""Jobs and streams: operations that report their progress, wait for their turn, or answer in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tabane.messages import Lang, Message
    from tabane.operations.door import Caller


class Part(NamedTuple):
    """One part of a stream's answer. ``more`` is False on the last one, which every stream has."""

    value: Any
    more: bool


class Progress(Protocol):
    """Where a job tells how far it is."""

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        """So many of ``total`` are done; None where that is not known. ``note`` says what is done now.

        Costs next to nothing, any number of times. Called on the event loop. A ``done`` smaller than
        before begins a new stretch, whose rate is measured anew.
        """
        ...


@runtime_checkable
class Queued(Protocol):
    """A job that can report which other job it waits for."""

    def behind(self, ahead: Callable[[], object] | None) -> None:
        """Note that it waits for the job that ``ahead`` returns, which may change; None ends that."""
        ...


class Turn:
    """Lets one job at a time do something. Jobs that wait report which job is ahead of them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.holder: object = None
        """The job whose turn it is, as far as one has it."""

    @asynccontextmanager
    async def taken(self, progress: object = None) -> AsyncIterator[None]:
        """Wait for the turn, and keep it during the block."""
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


class Started(Protocol):
    """A job that was started."""

    def state(self, lang: Lang) -> dict[str, Any]:
        """How it is now: what every operation on jobs answers, its sentences in that language."""
        ...


Work = Callable[[Progress], Awaitable[Any]]
"""What a job does, given where it tells of it; its result is the job's."""


class Starter(Protocol):
    """Starts jobs; a door is given one."""

    def start(self, name: str, title: Message, work: Work, caller: Caller | None = None) -> Started:
        """Begin, and return at once. Raises HubError if too many run already, or the hub is ending.

        A job of a ``caller`` with a connection ends with that connection, unless it is detached.
        """
        ...
