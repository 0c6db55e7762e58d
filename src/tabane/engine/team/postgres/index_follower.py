"""Fills an index outside of the database with the vectors of one collection, and keeps it up to date.

If the index takes sparse vectors, one more set has those of the texts.

It goes on from the position that the database knows, if the sets have the mark of that position; otherwise,
it fills them again. A position is noted when everything up to it can be seen by searches of all hubs.
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
from tabane.engine.team.postgres import index_sets
from tabane.engine.team.postgres.change_feed import ChangeBatch, ChangeFeed
from tabane.engine.team.postgres.change_log import FeedPosition
from tabane.engine.team.postgres.collection_state import StoredSpace
from tabane.engine.team.postgres.index_link import IndexLink
from tabane.engine.team.postgres.index_turn import IndexTurn
from tabane.engine.team.postgres.keyword_vectors import KeywordVectors
from tabane.engine.unit_vectors import normalised
from tabane.errors import StoreError
from tabane.search.records import Shape

log = logging.getLogger(__name__)

T = TypeVar("T")

BATCH = 2000  # records
_POLL = 2.0  # seconds after which changes of other hubs are looked for
_VERIFIED = 30.0  # seconds after which marks are compared again
_REST, _LONGEST_REST = 1.0, 60.0  # seconds after a failure, doubled with each


@dataclass(frozen=True, slots=True)
class IndexFilling:
    """An index that the stores of a hub fill, and the turn to do so."""

    link: IndexLink
    turn: IndexTurn


class IndexFollower:
    """Follows one collection. ``prefix``: what the names of its sets begin with."""

    def __init__(
        self, feed: ChangeFeed, filling: IndexFilling, prefix: str, shape: Shape, keywords: KeywordVectors
    ) -> None:
        self._feed, self._link, self._turn = feed, filling.link, filling.turn
        self._prefix, self._shape, self._keywords = prefix, shape, keywords
        self._news, self._ended = asyncio.Event(), False
        self._verified: int | None = None  # how often the index had been lost when its marks were compared
        self._verified_until = 0.0
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Have it look for changes soon."""
        self._news.set()

    async def close(self) -> None:
        """Stop. What a step has begun is repeated by the next follower."""
        self._ended = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        rest = _REST
        while not self._ended:
            try:
                idle = await self._turned()
                rest = _REST
            except Exception as error:
                if not isinstance(error, StoreError):
                    log.exception("the vector index %s was not updated", self._link.index.place)
                await asyncio.sleep(rest)
                rest = min(2 * rest, _LONGEST_REST)
                continue
            if idle:
                await self._wait()

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL):
                await self._news.wait()
        self._news.clear()

    async def _turned(self) -> bool:
        """Take a step if it is this hub's turn. Return whether there is nothing to do for a while."""
        await self._link.connect()
        if not await self._turn.held():
            self._verified = None
            return True
        position = await self._feed.join(self._link.follower)
        position = await self._verify(position)
        batch = await self._feed.after(self._link.follower, position, BATCH)
        if batch is None:
            self._verified = None
            return False
        if batch.position.change == position.change and batch.position.row == position.row:
            return True
        await self._apply(position, batch)
        return batch.complete

    # The index

    async def _verify(self, position: FeedPosition) -> FeedPosition:
        """Compare the marks of the sets with that of the position, if it is time to.

        Begin again if one is another: the index or the database was emptied or restored.
        """
        losses = self._link.losses
        if self._verified == losses and time.monotonic() < self._verified_until:
            return position
        spaces = index_sets.read(position.note)
        if position.row and self._link.sparse and index_sets.KEYWORDS not in spaces:
            position, spaces = await self._restart(spaces), {}
        for space in spaces:
            mark = await self._ask(space, lambda index, name: index.mark(name, self._shape))
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
            await self._ask(space, lambda index, name: index.drop(name))
        return position

    async def _apply(self, position: FeedPosition, batch: ChangeBatch) -> None:
        began, known = time.monotonic(), index_sets.read(position.note).keys()
        current: dict[int, StoredSpace | None] = {each.number: each for each in batch.spaces}
        if self._link.sparse:
            current[index_sets.KEYWORDS] = None
        for space in known - current.keys():
            await self._ask(space, lambda index, name: index.drop(name))
        for number, each in current.items():
            if number not in known:
                await self._reset(number, each)
            await self._put(number, each, batch)
        if batch.removed:
            # Searches that began before these rows were removed must still find them.
            await asyncio.sleep(max(0.0, began + self._link.index.slowest - time.monotonic()))
            rows = sorted(batch.removed)
            for space in current:
                await self._ask(space, lambda index, name: index.remove(name, rows))
        mark = batch.position.mark
        notes = {
            space: await self._ask(space, lambda index, name: index.advance(name, mark)) for space in current
        }
        await self._feed.advance(self._link.follower, batch.position.noted(index_sets.written(notes)))

    async def _reset(self, number: int, space: StoredSpace | None) -> None:
        dimension = None if space is None else space.space.dimension
        await self._ask(number, lambda index, name: index.reset(name, dimension, self._shape))

    async def _put(self, number: int, space: StoredSpace | None, batch: ChangeBatch) -> None:
        def putting(index: CandidateIndex, name: str) -> None:
            found = self._words(batch) if space is None else _vectors(batch, space)
            index.put(name, list(found), self._shape)

        await self._ask(number, putting)

    def _words(self, batch: ChangeBatch) -> Iterator[IndexedVector]:
        """Yield the sparse vectors of the texts that have words."""
        for stored in batch.records:
            vector = self._keywords.of_texts(stored.record.texts, batch.lexical)
            if vector:
                yield IndexedVector(stored.row, vector, stored.record.fields)

    async def _ask(self, space: int, work: Callable[[CandidateIndex, str], T]) -> T:
        """Run work on a set. If it fails, the index is away until it answers again."""
        name = index_sets.set_name(self._prefix, space)
        try:
            return await self._link.ask(lambda index: work(index, name))
        except StoreError as error:
            self._link.lose(error)
            raise


def _vectors(batch: ChangeBatch, space: StoredSpace) -> Iterator[IndexedVector]:
    """Yield the unit vectors of a space."""
    name, dimension = space.space.name, space.space.dimension
    for stored in batch.records:
        if name in stored.record.vectors:
            unit = normalised(stored.record.vectors[name], dimension)[0].astype("<f4").tobytes()
            yield IndexedVector(stored.row, unit, stored.record.fields)
