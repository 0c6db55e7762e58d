"""A second core for searches by vectors: a process that searches the same mapped files while many wait.

The process starts when more questions wait than one core should answer, and ends after a minute without one.
It is sent which records are live and where their vectors are, before the first question after a change. So
its answer is of the moment at which the question was asked. Whatever fails, the caller searches here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from tabane.engine.embedded.columns import Array, ColumnSnapshot
from tabane.engine.embedded.vectors.space_index import Moment, SpaceSnapshot
from tabane.engine.embedded.vectors.vector_search import (
    VectorMatches,
    packed_question,
    read_matches,
    sent_moment,
)
from tabane.engine.vector_request import VectorRequest
from tabane.errors import WorkerEnded, WorkerError
from tabane.workers.resident import RequestRefused, ResidentWorker
from tabane.workers.worker import Program, environment, module

log = logging.getLogger(__name__)

MANY = 4
"""Questions under way at the same time that are too many for one core."""

CROWDED = 16
"""Questions within a second that met so many others, after which the process is started."""

SMALLEST = 20_000
"""Vectors of a space from which on a search takes longer than a message to the process."""

MOST_SENT = 4_000_000
"""Bytes of rows that are sent with a moment. With more, it is searched here."""

REST = 1.0
"""Seconds after the process died in which it is not started again."""

BETWEEN = 0.25
"""Seconds between two moments that are sent. While much is written, it is searched here."""

_PENDING = 12  # questions that wait for the process; with more, some are sooner answered here
_PAUSE = 60.0  # seconds after a failure in which the process is not used
_SILENCE = 10.0  # seconds
_CORES = 2  # from which on a second process is of use


@dataclass(frozen=True, slots=True)
class ForeseenMatches:
    """Matches of the moment at which a question was asked. ``origin`` is the row of place 0.

    ``exact``: as of :class:`~tabane.search.engine.EngineHits`.
    """

    matches: VectorMatches
    origin: int
    exact: bool


@dataclass(frozen=True, slots=True)
class _KnownMoment:
    """The last moment that was sent, under its number."""

    number: int = 0
    origin: int = 0
    alive: Array | None = None
    spaces: Moment = field(default_factory=dict)

    def has(self, snapshot: ColumnSnapshot, spaces: Moment) -> bool:
        """Return whether nothing of these spaces has changed since, and no record."""
        if (
            self.alive is None
            or self.origin != snapshot.origin
            or not _is_same_beginning(self.alive, snapshot.alive)
        ):
            return False
        return all(name in self.spaces and _is_unchanged(self.spaces[name], spaces[name]) for name in spaces)

    def following(self, snapshot: ColumnSnapshot, spaces: Moment) -> _KnownMoment:
        return _KnownMoment(self.number + 1, snapshot.origin, snapshot.alive, spaces)


def _is_unchanged(one: SpaceSnapshot, other: SpaceSnapshot) -> bool:
    if one.codes is not other.codes or one.straight != other.straight:
        return False
    pairs = ((one.rows, other.rows), (one.data, other.data))
    return all(_is_same_beginning(*pair) for pair in pairs)


def _is_same_beginning(one: Array, other: Array) -> bool:
    """Return whether two arrays are the same beginning of one array, which only grows at its end."""
    return one is other or (one.base is not None and one.base is other.base and len(one) == len(other))


class VectorSearchProcess:
    """The process of one collection. Use it on one event loop only."""

    def __init__(
        self,
        *,
        many: int = MANY,
        crowded: int = CROWDED,
        smallest: int = SMALLEST,
        between: float = BETWEEN,
        rest: float = REST,
    ) -> None:
        """The parameters replace the constants of the same names."""
        program = Program(
            module("tabane.engine.embedded.vectors.search_worker"), environment(os.environ), errors=2
        )
        self._resident = ResidentWorker(program, b"", silence=_SILENCE)
        self._many, self._crowded, self._smallest, self._between = many, crowded, smallest, between
        self._rest = rest
        self.answered = 0
        """Questions that the process answered."""
        self.crowds = 0
        """Times that so many questions were under way that the process was started."""
        self._under_way = self._pending = self._met = 0
        self._met_since = -1.0
        self._closed = False
        self._starting: asyncio.Task[None] | None = None
        self._known = _KnownMoment()
        self._pid: int | None = None
        self._sent_at = self._not_before = -_PAUSE

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._resident.pid

    @property
    def is_wanted(self) -> bool:
        """Return whether so many questions are under way that the process may take some."""
        enough = min(2, self._many) if self._resident.is_ready else self._many
        return self._under_way >= enough and _now() >= self._not_before and not self._closed

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a question that is under way, here or in the process."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def search(
        self, snapshot: ColumnSnapshot, moment: Moment, request: VectorRequest, wanted: int
    ) -> ForeseenMatches | None:
        """Search all live records. Return None if the caller should search: there are few questions, much
        is written, or the process is not there.
        """
        if not self._is_worth_asking(moment, request):
            return None
        if not self._resident.is_ready:
            self._count_crowd()
            return None
        if self._pending >= _PENDING:
            return None
        body = self._pack_question(snapshot, moment, request, wanted)
        return None if body is None else await self._ask_process(body, snapshot, request)

    async def close(self) -> None:
        """End the process. Questions that wait for it are answered by their callers."""
        self._closed = True
        await self._resident.close()
        if self._starting is not None:
            await asyncio.wait({self._starting})

    def _is_worth_asking(self, moment: Moment, request: VectorRequest) -> bool:
        if not self.is_wanted:
            return False
        spaces = [moment.get(name) for name in request.vectors]
        if any(
            view is None or view.dimension != len(request.vectors[name])
            for name, view in zip(request.vectors, spaces, strict=True)
        ):
            return False
        return any(view is not None and view.coded >= self._smallest for view in spaces)

    async def start(self) -> None:
        """Start the process, unless it runs, and wait until it is ready. If it cannot be, it is not used."""
        try:
            await self._resident.ask(b"", urgent=True)
        except (WorkerError, RequestRefused) as error:
            self._pause_after(error)

    def _count_crowd(self) -> None:
        """Count a question that met many others, and start the process after enough of them in a second."""
        if _now() - self._met_since > 1.0:
            self._met, self._met_since = 0, _now()
        self._met += 1
        if self._met >= self._crowded and (self._starting is None or self._starting.done()):
            self.crowds += 1
            self._starting = asyncio.get_running_loop().create_task(self.start())

    def _pause_after(self, error: Exception) -> None:
        """Search here for some time: a moment if the process died, so that it is started again."""
        if self._closed or _now() < self._not_before:
            return
        log.warning("vectors are searched without a process of their own: %s", error)
        self._not_before = _now() + (self._rest if isinstance(error, WorkerEnded) else _PAUSE)

    def _pack_question(
        self, snapshot: ColumnSnapshot, moment: Moment, request: VectorRequest, wanted: int
    ) -> bytes | None:
        """Return the message, with the moment if the process does not have it; None if that is too much."""
        spaces, sent = {name: moment[name] for name in request.vectors}, None
        met = self._pid == self._resident.pid
        if not met or not self._known.has(snapshot, spaces):
            if met and _now() - self._sent_at < self._between:
                return None
            others = {name: moment[name] for name in self._known.spaces if name in moment}
            sent = sent_moment(snapshot.origin, snapshot.alive, others | spaces, MOST_SENT)
            if sent is None:
                return None
            self._known = self._known.following(snapshot, others | spaces)
            self._pid, self._sent_at = self._resident.pid, _now()
        return packed_question(self._known.number, sent, request, wanted)

    async def _ask_process(
        self, body: bytes, snapshot: ColumnSnapshot, request: VectorRequest
    ) -> ForeseenMatches | None:
        self._pending += 1
        try:
            found = read_matches(await self._resident.ask(body, urgent=True, again=False))
        except (WorkerError, RequestRefused, msgspec.MsgspecError) as error:
            self._pause_after(error)
            return None
        finally:
            self._pending -= 1
        if found is None:  # another process, which was sent no moment yet
            self._pid = None
            return None
        self.answered += 1
        exact = found.whole or request.threshold is None
        return ForeseenMatches(found.matches, snapshot.origin, exact)


def search_process() -> VectorSearchProcess | None:
    """Return a process, which is not started yet; None if it would share its core with the hub."""
    return VectorSearchProcess() if (os.cpu_count() or 1) >= _CORES else None


def _now() -> float:
    return asyncio.get_running_loop().time()
