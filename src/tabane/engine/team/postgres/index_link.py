"""The link of a hub to an index outside of the database: its state, and threads that wait for it.

A search may begin before the transaction that needs its result, so that both servers work at the same time.
If a call fails, searches do without the index until the follower has reached it again. That is logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tabane.engine.candidate_index import CandidateIndex, SparseVector
from tabane.engine.team.postgres.database import READERS
from tabane.errors import StoreError
from tabane.search.filters import Filter
from tabane.search.records import Shape

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
    vector: bytes | SparseVector
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
        self.server, self.sparse = "", False
        self.problem: StoreError | None = None
        self.losses = 0
        self._failures, self._rested = 0, 0.0
        self._gate = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "vector-index")
        self._searchers = ThreadPoolExecutor(READERS, "vector-search")
        self._free = threading.Semaphore(READERS)

    @property
    def place(self) -> str:
        return self.index.place

    @property
    def follower(self) -> str:
        """Return the name of the follower that fills the index."""
        return self.place

    def serves(self, vectors: int) -> bool:
        """Return whether a space with so many vectors is searched with the index, if it can be reached."""
        return self.state is LinkState.READY and self.least is not None and vectors >= self.least

    def serves_keywords(self, records: int) -> bool:
        """Return whether keywords of so many records are searched with the index."""
        return self.sparse and self.serves(records)

    def begin(self, question: IndexQuestion) -> BegunSearch | None:
        """Begin a search; None if as many run as there are threads."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            answer = self._searchers.submit(self._found, question)
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
                found = self._found(question)
            else:
                found = begun.answer.result()
        except StoreError as error:
            self.lose(error)
            return None
        except CancelledError:  # the link was closed
            return None
        self._failures = 0
        return found

    def _found(self, asked: IndexQuestion) -> Sequence[int]:
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
            found = await self.ask(lambda index: index.version())
        except StoreError as error:
            self.lose(error)
            raise
        with self._gate:
            self.server, self.sparse, self.problem = found.server, found.sparse, None
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
