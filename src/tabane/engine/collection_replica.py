"""A local replica of one collection: copied once, then kept up to date by the changes of the truth.

The replica is derived data. If its mark is missing or names another source, all records are copied again.
Requests read it only if it has all changes that were committed before, or while the truth cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Protocol

import msgspec

from tabane.cancellation import run_to_end
from tabane.engine.collection_copying import batches
from tabane.engine.replica_mark import ReplicaMark, ReplicaMarkFile
from tabane.engine.replica_spaces import after_step, next_step, reached
from tabane.engine.replication import (
    MOST_REPLICATED,
    ChangedRecords,
    NumberedSpace,
    ReplicaPosition,
    ReplicationFeed,
)
from tabane.errors import StoreError
from tabane.search.engine import Collection
from tabane.search.records import Record

log = logging.getLogger(__name__)

PATIENCE = 0.25
"""Seconds that a request waits for the last changes, before the truth is asked."""

_ASKED = 3.0  # seconds for the number of the last change, before the truth counts as away
_ASKED_AGAIN = 0.3  # seconds while it is away
_POLLED = 1.0  # seconds between two questions for changes of other hubs
_LONGEST_PAUSE = 60.0  # seconds, after failures


class ReplicableCollection(Collection, Protocol):
    """The collection that holds the replica."""

    async def replicate(self, records: Sequence[Record], gone: Sequence[str]) -> None:
        """Make these records exactly as given, and delete keys, in one commit."""
        ...

    async def settle(self) -> None:
        """Wait until the keyword index has what was written."""
        ...


class ReplicaStorage(Protocol):
    """The files of one replica."""

    async def is_there(self, *, vectors: bool) -> bool:
        """Return whether the files are there; those of vectors as well."""
        ...

    async def opened(self) -> ReplicableCollection: ...

    async def emptied(self) -> ReplicableCollection:
        """Delete the files of the replica, and open a new one."""
        ...


class CollectionReplica:
    """Follows the truth in the background, and lends the replica when it is current.

    ``source`` names the collection and its database. ``patience``: seconds that a request waits for the last
    changes. A failure is logged once, and tried again later.
    """

    def __init__(
        self,
        source: str,
        feed: ReplicationFeed,
        storage: ReplicaStorage,
        marks: ReplicaMarkFile,
        patience: float = PATIENCE,
    ) -> None:
        self._source, self._feed, self._storage, self._marks = source, feed, storage, marks
        self._patience = patience
        self._local: ReplicableCollection | None = None
        self._mark: ReplicaMark | None = None
        self._reached: int | None = None
        self._position: ReplicaPosition | None = None
        self._newest = 0
        self._error: Exception | None = None
        self._away = False
        self._question: asyncio.Future[int] | None = None
        self._wanted, self._applied = asyncio.Event(), asyncio.Condition()
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    def wake(self) -> None:
        """Look for changes now."""
        self._wanted.set()

    def written(self) -> None:
        """Look for the change that the truth has just acknowledged, so it is not away."""
        if self._away:
            self._away, self._question = False, None
        self.wake()

    async def current(self) -> Collection | None:
        """Return the replica if it has all changes that were committed before; None if it has not by now.

        While the truth cannot be reached, it is the replica as it is.
        """
        if self._reached is None:
            return None
        newest = await self._asked()
        if newest is None:
            return self._local if self._reached is not None else None
        self._newest = max(self._newest, newest)
        if not self._has(newest):
            await self._expect(lambda: self._reached is None or self._has(newest), self._patience)
        return self._local if self._has(newest) else None

    @property
    def away(self) -> bool:
        """Return whether the replica answers because the truth could not be reached the last time."""
        return self._away and self._reached is not None

    async def alone(self) -> Collection | None:
        """Return the replica as it is if the truth cannot be reached; None if that can be asked."""
        return self._local if self._reached is not None and await self._asked() is None else None

    async def caught_up(self, seconds: float) -> bool:
        """Wait until the replica has all changes that were committed before. Return whether it has by then.

        While the truth cannot be reached, there is nothing to wait for.
        """
        newest = None if self._away else await self._asked()
        if newest is None or self._has(newest):
            return True
        await self._expect(lambda: self._has(newest), seconds)
        return self._has(newest)

    async def _asked(self) -> int | None:
        """Ask the truth for its newest change. None: it cannot be reached.

        While it is away, requests share one question, so that they do not fill its queue.
        """
        if self._question is None or self._question.done() or not self._away:
            self._question = asyncio.ensure_future(self._feed.newest())
            self._question.add_done_callback(_retrieved)
        try:
            async with asyncio.timeout(_ASKED_AGAIN if self._away else _ASKED):
                newest = await asyncio.shield(self._question)
        except (StoreError, TimeoutError):
            if not self._away:
                log.warning("%s cannot be reached: searches are answered by the replica", self._source)
            self._away = True
            return None
        self._away = False
        return newest

    async def _expect(self, applied: Callable[[], bool], seconds: float) -> None:
        """Wait until changes were applied, or until the time is over."""
        self.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._applied:
                await self._applied.wait_for(applied)

    @property
    def newest(self) -> int:
        """Return the last change of the truth that is known."""
        return self._newest

    def _has(self, change: int) -> bool:
        return self._reached is not None and self._reached >= change

    def report(self) -> dict[str, object]:
        """Return how far the replica is: ``state`` is current, behind, copying, away or failed."""
        if self.away:
            return {"state": "away"}
        if self._error is not None:
            return {"state": "failed", "error": str(self._error)}
        position = self._position
        if position is None or self._mark is None or not self._mark.complete:
            return {"state": "copying"} | ({} if position is None else {"row": position.row})
        state = "current" if self._has(self._newest) else "behind"
        return {"state": state, "change": position.change, "newest": max(self._newest, position.change)}

    # Following

    async def _follow(self) -> None:
        pause = _POLLED
        while True:
            try:
                await self._catch_up()
                self._error, pause = None, _POLLED
            except Exception as error:  # an unexpected one must not end following
                if self._error is None:
                    expected = isinstance(error, StoreError)
                    message = "the replica of %s cannot be brought up to date: %s"
                    log.warning(message, self._source, error, exc_info=not expected)
                self._error, pause = error, min(2 * pause, _LONGEST_PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            self._wanted.clear()

    async def _catch_up(self) -> None:
        """Apply all changes. What takes several commits is not lent meanwhile."""
        local, mark, position = await self._opened()
        newest = await self._asked()
        if newest is None:
            return
        self._newest = newest
        if self._newest < position.change:  # another database than before
            await self._forget()
            return
        while not self._has(self._newest):
            page = await self._feed.after(mark.name, position, MOST_REPLICATED)
            if page is None:
                await self._forget()
                return
            mark = await self._apply(local, mark, page)
            if not await self._feed.advance(mark.name, page.position):
                await self._forget()
                return
            position = self._position = page.position
            self._newest = max(self._newest, position.change)
            if page.complete:
                await self._reach(position.change)

    async def _reach(self, change: int | None) -> None:
        async with self._applied:
            self._reached = change
            self._applied.notify_all()

    async def _opened(self) -> tuple[ReplicableCollection, ReplicaMark, ReplicaPosition]:
        if self._local is not None and self._mark is not None and self._position is not None:
            return self._local, self._mark, self._position
        mark = await run_to_end(asyncio.to_thread(self._marks.read, self._source))
        if mark is not None:
            position = await self._feed.join(mark.name)
            there = await self._storage.is_there(vectors=bool(mark.spaces))
            if there and mark.token in (position.mark, position.coming):
                local = await run_to_end(self._storage.opened())
                if set(_stepped(mark, local).spaces.values()) == _names(local):
                    return self._begun(local, mark, position)
            await self._feed.leave(mark.name)
        await run_to_end(asyncio.to_thread(self._marks.forget))
        local, name = await run_to_end(self._storage.emptied()), f"replica-{token_hex(8)}"
        position = await self._feed.join(name)
        mark = await self._note(ReplicaMark(source=self._source, name=name, token=position.mark))
        return self._begun(local, mark, position)

    def _begun(
        self, local: ReplicableCollection, mark: ReplicaMark, position: ReplicaPosition
    ) -> tuple[ReplicableCollection, ReplicaMark, ReplicaPosition]:
        self._local, self._mark, self._position = local, mark, position
        return local, mark, position

    async def _forget(self) -> None:
        """Delete the mark, so that all records are copied again: the truth does not know this replica."""
        log.warning(
            "the replica of %s is unknown to the database: all records are copied again", self._source
        )
        await self._reach(None)
        self._mark = self._position = None
        await run_to_end(asyncio.to_thread(self._marks.forget))
        self.wake()

    async def _note(self, mark: ReplicaMark) -> ReplicaMark:
        await run_to_end(asyncio.to_thread(self._marks.write, mark))
        self._mark = mark
        return mark

    # Applying

    async def _apply(
        self, local: ReplicableCollection, mark: ReplicaMark, page: ChangedRecords
    ) -> ReplicaMark:
        parts = list(batches(page.records))
        if len(parts) > 1 or not page.complete:
            await self._reach(None)
        mark = await self._respaced(local, mark, page.spaces)
        for part in parts[1:]:
            await local.replicate([each.record for each in part], ())
        if parts or page.gone:
            await local.replicate([each.record for part in parts[:1] for each in part], page.gone)
        if page.complete and not mark.complete:
            await local.settle()
        complete = mark.complete or page.complete
        token = page.position.mark
        return await self._note(msgspec.structs.replace(mark, token=token, complete=complete))

    async def _respaced(
        self, local: ReplicableCollection, mark: ReplicaMark, spaces: Sequence[NumberedSpace]
    ) -> ReplicaMark:
        """Create, rename and drop spaces, so that they are those of the truth.

        Each step is noted before it is done: see :mod:`tabane.engine.replica_spaces`.
        """
        mark = _stepped(mark, local)
        wanted = {each.number: each.space for each in spaces}
        names = {number: space.name for number, space in wanted.items()}
        while (step := next_step(mark.spaces, names)) is not None:
            await self._reach(None)
            mark = await self._note(msgspec.structs.replace(mark, step=step))
            if step.kind == "drop":
                await run_to_end(local.drop_space(step.name))
            elif step.kind == "rename":
                await run_to_end(local.succeed(step.name, step.old))
            else:
                await run_to_end(local.add_space(wanted[step.number]))
            mark = await self._note(
                msgspec.structs.replace(mark, spaces=after_step(mark.spaces, step), step=None)
            )
        return mark

    async def close(self) -> None:
        """End following, once the work on files that has begun is done. A second call does nothing."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])


def _retrieved(question: asyncio.Future[int]) -> None:
    """Take note of a failure that nobody waits for any more."""
    if not question.cancelled():
        question.exception()


def _stepped(mark: ReplicaMark, local: Collection) -> ReplicaMark:
    """Return the mark after the step with a space that was perhaps cut off."""
    if mark.step is None:
        return mark
    return msgspec.structs.replace(mark, spaces=reached(mark.spaces, mark.step, _names(local)), step=None)


def _names(collection: Collection) -> set[str]:
    return {space.name for space in collection.spaces}
