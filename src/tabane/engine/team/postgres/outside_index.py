"""An index outside of the database: the link of a hub to it, and the follower that fills it.

A search may begin before the transaction that needs its result, so that both servers work at the same
time. If a call fails, searches do without the index until the follower has reached it again. That is
logged once.

Fills an index outside of the database with the vectors of one collection, and keeps it up to date.

It goes on from the position that the database knows, if the sets have the mark of that position;
otherwise, it fills them again. A position is noted when everything up to it can be seen by searches of
all hubs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tabane.engine.candidate_index import CandidateIndex, IndexedVector
from tabane.engine.team.postgres import change_log
from tabane.engine.team.postgres.change_feed import ChangeBatch, ChangeFeed
from tabane.engine.team.postgres.change_log import FeedPosition
from tabane.engine.team.postgres.collection_state import StoredSpace
from tabane.engine.team.postgres.database import READERS, IndexTurn
from tabane.engine.vector_request import normalized
from tabane.errors import StoreError
from tabane.search.records import Filter, Shape

log = logging.getLogger(__name__)

T = TypeVar("T")

_REST, _LONGEST_REST = 1.0, 60.0  # seconds after a failure, doubled with each
_MOST_FAILURES = 10  # that are counted
_THREADS = 2  # for all calls but searches


class LinkState(StrEnum):
    """``CONNECTING``: it was not asked yet."""

    CONNECTING = "connecting"
    READY = "ready"
    AWAY = "away"


IndexPosition = tuple[int, int]
"""The last change and the last row that an index has."""


@dataclass(frozen=True, slots=True)
class IndexQuestion:
    """One search of an index.

    The fields are the parameters of :meth:`~tabane.engine.candidate_index.CandidateIndex.nearest`, and
    ``position``: how far the index is at least. An index may have the same note at several positions.
    """

    name: str
    vector: bytes
    where: Filter
    shape: Shape
    most: int
    note: str
    position: IndexPosition


@dataclass(frozen=True, slots=True)
class BegunSearch:
    """A search of the index that runs in a thread of its own."""

    question: IndexQuestion
    answer: Future[Sequence[int]]


class IndexLink:
    """An index, as all stores of a hub use it. ``least``: vectors of a space from which it is searched."""

    def __init__(self, index: CandidateIndex, least: int | None) -> None:
        self.index, self.least = index, least
        self.state = LinkState.CONNECTING
        self.server = ""
        self.problem: StoreError | None = None
        self.losses = 0
        self._failures, self._rested = 0, 0.0
        self._gate = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "vector-index")
        self._searchers = ThreadPoolExecutor(READERS, "vector-search")
        self._free = threading.Semaphore(READERS)

    @property
    def place(self) -> str:
        """Return the address of the index without secrets."""
        return self.index.place

    @property
    def follower(self) -> str:
        """Return the name of the follower that fills the index."""
        return self.place

    def serves(self, vectors: int) -> bool:
        """Return whether a space with so many vectors is searched with the index, if it can be reached."""
        return self.state is LinkState.READY and self.least is not None and vectors >= self.least

    def begin(self, question: IndexQuestion) -> BegunSearch | None:
        """Begin a search; None if as many run as there are threads."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            answer = self._searchers.submit(self._search_index, question)
        except RuntimeError:  # the link was closed
            self._free.release()
            return None
        answer.add_done_callback(lambda _: self._free.release())
        return BegunSearch(question, answer)

    def nearest(self, question: IndexQuestion, begun: BegunSearch | None = None) -> Sequence[int] | None:
        """Return candidates; None if the index cannot be used, which is then known for the next search.

        They are those of a search that has ``begun``, if it has the same question.
        """
        try:
            if begun is None or begun.question != question:
                found = self._search_index(question)
            else:
                found = begun.answer.result()
        except StoreError as error:
            self.lose(error)
            return None
        except CancelledError:  # the link was closed
            return None
        self._failures = 0
        return found

    def _search_index(self, asked: IndexQuestion) -> Sequence[int]:
        return self.index.nearest(asked.name, asked.vector, asked.where, asked.shape, asked.most, asked.note)

    async def ask(self, work: Callable[[CandidateIndex], T]) -> T:
        """Run work in a thread. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self.index)

    async def connect(self) -> None:
        """Reach the index, if it is not known to be there. Raises StoreError, at once after a failure."""
        if self.state is LinkState.READY:
            return
        if self.problem is not None and time.monotonic() < self._rested:
            raise self.problem
        try:
            server = await self.ask(lambda index: index.version())
        except StoreError as error:
            self.lose(error)
            raise
        with self._gate:
            self.server, self.problem = server, None
            was, self.state = self.state, LinkState.READY
        if was is LinkState.AWAY:
            log.info("the vector index %s can be used again", self.place)

    def lose(self, error: StoreError) -> None:
        """Note that a call failed."""
        with self._gate:
            was, self.state = self.state, LinkState.AWAY
            self.problem = error
            self.losses += 1
            self._rested = time.monotonic() + min(_REST * 2**self._failures, _LONGEST_REST)
            self._failures = min(self._failures + 1, _MOST_FAILURES)
        if was is not LinkState.AWAY:
            log.warning("searches go on in PostgreSQL without the vector index: %s", error)

    async def close(self) -> None:
        """End the threads and the connections. A call that still waits ends by its own limit."""
        self._searchers.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self.index.close)


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
        spaces = change_log.read(position.note)
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
        began, known = time.monotonic(), change_log.read(position.note).keys()
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
        await self._feed.advance(self._link.follower, batch.position.noted(change_log.written(notes)))

    async def _fill_set(self, space: StoredSpace, batch: ChangeBatch, *, new: bool) -> None:
        def filling(index: CandidateIndex, name: str) -> None:
            if new:
                index.reset(name, space.space.dimension, self._shape)
            index.put(name, list(_unit_vectors(batch, space)), self._shape)

        await self._ask_set(space.number, filling)

    async def _ask_set(self, space: int, work: Callable[[CandidateIndex, str], T]) -> T:
        """Run work on a set. If it fails, the index is away until it answers again."""
        name = change_log.set_name(self._prefix, space)
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
