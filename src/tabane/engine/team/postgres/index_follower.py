"""The follower that fills an index outside of the database with the vectors of one collection.

It goes on from the position that the database knows, if the sets have the mark of that position;
otherwise, it fills them again. A position is noted when everything up to it can be seen by searches of
all hubs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tabane.engine.candidate_index import CandidateIndex, IndexedVector
from tabane.engine.team.postgres.change_feed import ChangeBatch, ChangeFeed
from tabane.engine.team.postgres.collection_state import FeedPosition, StoredSpace
from tabane.engine.team.postgres.database import IndexTurn
from tabane.engine.team.postgres.outside_index import IndexLink, read_notes, set_name, written_notes
from tabane.engine.vector_request import normalized
from tabane.errors import StoreError
from tabane.search.records import Shape

log = logging.getLogger(__name__)

T = TypeVar("T")

_REST, _LONGEST_REST = 1.0, 60.0  # seconds after a failure, doubled with each
BATCH = 2000  # records
_POLL = 2.0  # seconds after which changes of other hubs are looked for
_VERIFIED = 30.0  # seconds after which marks are compared again


@dataclass(frozen=True, slots=True)
class IndexFilling:
    """An index that the stores of a hub fill, and the turn to do so."""

    link: IndexLink
    turn: IndexTurn


class IndexFollower:
    """Follows one collection. ``prefix``: what the names of its sets begin with."""

    def __init__(self, feed: ChangeFeed, filling: IndexFilling, prefix: str, shape: Shape) -> None:
        self._feed, self._link, self._turn = feed, filling.link, filling.turn
        self._prefix, self._shape = prefix, shape
        self._news, self._ended = asyncio.Event(), False
        self._verified: int | None = None  # how often the index had been lost when its marks were compared
        self._verified_until = 0.0
        self._task = asyncio.create_task(self._follow_feed())

    def wake(self) -> None:
        """Look for changes soon."""
        self._news.set()

    async def close(self) -> None:
        """Stop. What a step has begun is repeated by the next follower."""
        self._ended = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _follow_feed(self) -> None:
        rest = _REST
        while not self._ended:
            try:
                idle = await self._take_step()
                rest = _REST
            except Exception as error:
                if not isinstance(error, StoreError):
                    log.exception("the vector index %s was not updated", self._link.index.place)
                await asyncio.sleep(rest)
                rest = min(2 * rest, _LONGEST_REST)
                continue
            if idle:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL):
                        await self._news.wait()
                self._news.clear()

    async def _take_step(self) -> bool:
        """Take a step if it is this hub's turn. Return whether there is nothing to do for a while."""
        await self._link.connect()
        if not await self._turn.held():
            self._verified = None
            return True
        position = await self._feed.join(self._link.follower)
        position = await self._verify_marks(position)
        batch = await self._feed.after(self._link.follower, position, BATCH)
        if batch is None:
            self._verified = None
            return False
        if batch.position.change == position.change and batch.position.row == position.row:
            return True
        await self._apply_batch(position, batch)
        return batch.complete

    # The index

    async def _verify_marks(self, position: FeedPosition) -> FeedPosition:
        """Compare the marks of the sets with that of the position, if it is time to.

        Begin again if one is another: the index or the database was emptied or restored.
        """
        losses = self._link.losses
        if self._verified == losses and time.monotonic() < self._verified_until:
            return position
        spaces = read_notes(position.note)
        for space in spaces:
            mark = await self._ask_set(space, lambda index, name: index.mark(name, self._shape))
            if mark not in (position.mark, position.coming):
                log.warning("the vector index %s is not that of the database", self._link.place)
                position = await self._restart(spaces)
                break
        self._verified, self._verified_until = losses, time.monotonic() + _VERIFIED
        return position

    async def _restart(self, spaces: Iterable[int]) -> FeedPosition:
        """Begin again when all searches have ended that may still use the sets."""
        log.warning("the vector index %s is filled again", self._link.place)
        position = await self._feed.restart(self._link.follower)
        await asyncio.sleep(self._link.index.slowest)
        for space in spaces:
            await self._ask_set(space, lambda index, name: index.drop(name))
        return position

    async def _apply_batch(self, position: FeedPosition, batch: ChangeBatch) -> None:
        began, known = time.monotonic(), read_notes(position.note).keys()
        current = {each.number: each for each in batch.spaces}
        # A set with the number 0 has keywords, which versions up to 0.17 searched there.
        for space in known - current.keys():
            await self._ask_set(space, lambda index, name: index.drop(name))
        for number, each in current.items():
            await self._fill_set(each, batch, new=number not in known)
        if batch.removed:
            # Searches that began before these rows were removed must still find them.
            await asyncio.sleep(max(0.0, began + self._link.index.slowest - time.monotonic()))
            rows = sorted(batch.removed)
            for space in current:
                await self._ask_set(space, lambda index, name: index.remove(name, rows))
        mark, complete = batch.position.mark, batch.complete
        notes = {
            space: await self._ask_set(
                space, lambda index, name: index.advance(name, mark, complete=complete)
            )
            for space in current
        }
        await self._feed.advance(self._link.follower, batch.position.noted(written_notes(notes)))

    async def _fill_set(self, space: StoredSpace, batch: ChangeBatch, *, new: bool) -> None:
        def filling(index: CandidateIndex, name: str) -> None:
            if new:
                index.reset(name, space.space.dimension, self._shape)
            index.put(name, list(_unit_vectors(batch, space)), self._shape)

        await self._ask_set(space.number, filling)

    async def _ask_set(self, space: int, work: Callable[[CandidateIndex, str], T]) -> T:
        """Run work on a set. If it fails, the index is away until it answers again."""
        name = set_name(self._prefix, space)
        try:
            return await self._link.ask(lambda index: work(index, name))
        except StoreError as error:
            self._link.lose(error)
            raise


def _unit_vectors(batch: ChangeBatch, space: StoredSpace) -> Iterator[IndexedVector]:
    """Yield the unit vectors of a space."""
    name, dimension = space.space.name, space.space.dimension
    for stored in batch.records:
        if name in stored.record.vectors:
            unit = normalized(stored.record.vectors[name], dimension)[0].astype("<f4").tobytes()
            yield IndexedVector(stored.row, unit, stored.record.fields)
