"""An index outside of the database: the link of a hub to it, its sets, and searches with it.

A search may begin before the transaction that needs its result, so that both servers work at the same
time. If a call fails, searches do without the index until the follower has reached it again. That is
logged once.

The nearest vectors of one space by an index outside of the database, in one transaction. The index
proposes rows that it holds at the position that the transaction sees. Rows that are new or have other
vectors since that position are compared as well. All similarities are those of the full vectors.

The index is asked at the position that was read last. Meanwhile, the database reads the current position,
counts what matches, and compares what the index lacks. If the position is another one by then, the index
is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import sql

from tabane.engine.candidate_index import CandidateIndex
from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.collection_state import CollectionRow, StoredSpace
from tabane.engine.team.postgres.database import READERS, WireVector
from tabane.engine.team.postgres.record_table import RecordColumns, SqlCondition
from tabane.engine.team.postgres.vector_table import (
    MatchCount,
    VectorTable,
    candidates_for,
    fewest,
    matching_count,
)
from tabane.errors import StoreError
from tabane.search.engine import EngineHit
from tabane.search.records import Filter, Shape

_IDENTITY = (
    "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute') "
    "THEN (SELECT system_identifier::text FROM pg_control_system()) END, current_database(), current_schema()"
)
_NOTES = msgspec.json.Decoder(dict[str, str])


def set_prefix(connection: psycopg.Connection, collection: int) -> str:
    """Return what the names of the sets of a collection begin with. No other database has the same."""
    found = connection.execute(_IDENTITY).fetchone()
    return f"{hashlib.sha256(repr(found).encode()).hexdigest()[:12]}_{collection}"


def set_name(prefix: str, space: int) -> str:
    """Return the name of the set of a space."""
    return f"{prefix}_{space}"


def written_notes(notes: Mapping[int, str]) -> str:
    """Return a note of the follower: number of a space → what a search of its set has to pass."""
    return msgspec.json.encode({str(number): note for number, note in notes.items()}).decode()


def read_notes(note: str) -> dict[int, str]:
    """Parse a note of :func:`written_notes`: number of a space → what a search of its set has to pass."""
    return {int(number): each for number, each in _NOTES.decode(note).items()} if note else {}


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


_STATE = (
    "SELECT f.change, f.row, f.note, (SELECT array_agg(DISTINCT touched) FROM change_log l, "
    "unnest(l.rows) AS touched WHERE l.collection = f.collection AND l.change > f.change AND l.space = %s), "
    "{} AS matching FROM follower f WHERE f.collection = %s AND f.name = %s"
)
_LEAST_OUTSIDE_CANDIDATES = 40  # indexes of int8 vectors lose none of 10 hits with half of them
_WIDER = 8  # times as many candidates, if too few of them match
_MARGIN = (
    2.0  # times as many candidates as are expected to be enough for a filter that the index cannot apply
)
_COUNTED = 100_000  # matching records that are counted at most, unless the choice of the way needs more


@dataclass(frozen=True, slots=True)
class VectorQuestion:
    """A unit vector of float32 and a filter, which is also a condition on the row ``r`` if it is one."""

    vector: bytes
    where: Filter
    condition: SqlCondition | None
    wanted: int


def _candidates(question: VectorQuestion) -> int:
    """Return how many candidates are compared."""
    if question.condition is not None:  # a graph of which a filter leaves a part loses more
        return candidates_for(question.wanted)
    return max(_LEAST_OUTSIDE_CANDIDATES, 2 * question.wanted)


class OutsideIndex:
    """The sets of a collection in an index, and how far it was when that was read last.

    ``prefix``: what the names of the sets begin with.
    """

    def __init__(self, link: IndexLink, prefix: str) -> None:
        self.link, self.prefix = link, prefix
        self._read: tuple[IndexPosition, Mapping[int, str]] = ((0, 0), {})

    def learn(self, position: IndexPosition, notes: Mapping[int, str]) -> None:
        """Remember a position, and its notes: number of a space → what a search of its set has to pass."""
        self._read = position, notes

    def begin(self, asked: VectorQuestion, space: StoredSpace, shape: Shape) -> BegunSearch | None:
        """Begin the search that will probably be needed, if that does not depend on the transaction."""
        position, notes = self._read
        note = notes.get(space.number)
        if note is None or not self.link.serves(space.vectors) or not self.narrows(asked, shape):
            return None
        most = min(_candidates(asked), self.link.index.most)
        return self.link.begin(self.question(asked, space, shape, most, (position, note)))

    def narrows(self, asked: VectorQuestion, shape: Shape) -> bool:
        """Return whether all candidates match the filter."""
        return asked.condition is None or self.link.index.narrows(asked.where, shape)

    def question(
        self,
        asked: VectorQuestion,
        space: StoredSpace,
        shape: Shape,
        most: int,
        at: tuple[IndexPosition, str],
    ) -> IndexQuestion:
        """Return what to ask the set of a space, ``at`` a position with a note."""
        name, (position, note) = set_name(self.prefix, space.number), at
        return IndexQuestion(name, asked.vector, asked.where, shape, most, note, position)


@dataclass(frozen=True, slots=True)
class _IndexState:
    """The index is at ``position``, but there are other vectors of the rows that are ``attached``.

    ``note``: what a search has to pass. ``matching``: how many records match. ``lags``: the index does not
    have all rows.
    """

    position: IndexPosition
    note: str
    attached: tuple[int, ...]
    matching: MatchCount
    lags: bool

    @property
    def row(self) -> int:
        return self.position[1]


@dataclass(frozen=True, slots=True)
class BegunQuestion:
    """A search that was sent to the index, and the query for its position that was sent to the database.

    ``number``, ``whole``: of the space as it was known then.
    """

    number: int
    whole: bool
    position: psycopg.Cursor
    search: BegunSearch | None


@dataclass(frozen=True, slots=True)
class _Compared:
    """The nearest of some rows, and how many rows were compared."""

    hits: list[EngineHit]
    count: int


_NONE = _Compared([], 0)


class OutsideSearch:
    """Searches in one space, in a transaction that sees this ``state`` of the collection."""

    def __init__(
        self,
        connection: psycopg.Connection,
        index: OutsideIndex,
        tables: tuple[RecordColumns, VectorTable],
        space: StoredSpace,
        shape: Shape,
        state: CollectionRow,
    ) -> None:
        self._connection, self._index, self._space, self._shape = connection, index, space, shape
        self._records, self._vectors = tables
        self._collection = state

    def begin(self, question: VectorQuestion, search: BegunSearch | None) -> BegunQuestion:
        """Send what another search of the transaction may read if its state is the same."""
        position = self._connection.execute(*self._position_query(question))
        return BegunQuestion(self._space.number, self._whole, position, search)

    def nearest(
        self, question: VectorQuestion, begun: BegunQuestion | None
    ) -> tuple[list[EngineHit] | None, MatchCount | None]:
        """Return the nearest records, best first, and how many match.

        No hits: the index cannot be used, finds too few, or comparing all that match is faster.
        """
        if begun is not None and (begun.number, begun.whole) != (self._space.number, self._whole):
            begun = None
        state = self._read_state(question, begun)
        if state is None:
            return None, None
        candidates = _candidates(question)
        if question.condition is not None and state.matching.count < fewest(candidates, self._space.vectors):
            return None, state.matching
        tail = self._compare_tail(question, state) if state.lags else _NONE
        for most in self._widths(question, candidates, state.matching.count):
            asked = self._index.question(
                question, self._space, self._shape, most, (state.position, state.note)
            )
            rows = self._index.link.nearest(asked, begun.search if begun else None)
            if rows is None:
                break
            hits = self._compare_candidates(question, state, tail, rows)
            if hits is not None:
                return hits, state.matching
        return None, state.matching

    @property
    def _whole(self) -> bool:
        return self._collection.is_whole(self._space)

    def _position_query(self, question: VectorQuestion) -> tuple[sql.Composed, tuple[Any, ...]]:
        """Return the statement that asks how far the index is, and how many records match a filter."""
        most, vectors = self._most_counted(question), self._space.vectors
        matching = SqlCondition(sql.SQL("0"))
        if question.condition is not None:
            counted = matching_count(
                question.condition, self._records, self._vectors, vectors, whole=self._whole, most=most
            )
            matching = SqlCondition(*counted)
        asked = (self._space.number, *matching.values, self._records.number, self._index.link.follower)
        return sql.SQL(_STATE).format(matching.text), asked

    def _read_state(self, question: VectorQuestion, begun: BegunQuestion | None) -> _IndexState | None:
        """Return how far the index is, and how many records match; None if it does not have the space yet."""
        answer = begun.position if begun else self._connection.execute(*self._position_query(question))
        row = answer.fetchone()
        if row is None:
            return None
        position, notes = (row[0], row[1]), read_notes(row[2])
        self._index.learn(position, notes)
        note = notes.get(self._space.number)
        if note is None:
            return None
        attached = tuple(each for each in row[3] or () if each <= row[1])
        lags = bool(attached) or row[1] < self._collection.next - 1
        matching = MatchCount(row[4], row[4] != self._most_counted(question))
        if question.condition is None:
            matching = MatchCount(self._space.vectors)
        return _IndexState(position, note, attached, matching, lags)

    def _most_counted(self, question: VectorQuestion) -> int | None:
        """Return how many matching records are counted at most; None: all, because the width needs it."""
        if question.condition is None or not self._index.narrows(question, self._shape):
            return None
        return max(_COUNTED, fewest(_candidates(question), self._space.vectors))

    def _widths(self, question: VectorQuestion, candidates: int, matching: int) -> list[int]:
        """Return how many candidates to ask for, and how many if these are not enough."""
        most = self._index.link.index.most
        if not self._index.narrows(question, self._shape):
            candidates = math.ceil(_MARGIN * candidates * self._space.vectors / max(matching, 1))
        first = min(candidates, most)
        return list(dict.fromkeys((first, min(_WIDER * first, most))))

    def _compare_candidates(
        self, question: VectorQuestion, state: _IndexState, tail: _Compared, rows: Sequence[int]
    ) -> list[EngineHit] | None:
        """Compare the candidates. Return None if another record may be among the nearest."""
        known = {row for row in rows if row <= state.row}.difference(state.attached)
        live = self._compare_part(question, self._select_rows(question, known))
        hits = sorted([*live.hits, *tail.hits], key=lambda hit: (-hit.score, hit.key))[: question.wanted]
        if live.count + tail.count >= state.matching.count:
            return hits
        # If the last candidate is a hit, or as similar as the last hit, so may be one that was not proposed.
        return hits if live.count > len(live.hits) else None

    def _compare_tail(self, question: VectorQuestion, state: _IndexState) -> _Compared:
        """Compare the attached rows and those that the index does not have."""
        attached = self._select_rows(question, state.attached)
        newer = self._select_part(question, SqlCondition(sql.SQL("v.row > %s"), (state.row,)))
        text = sql.SQL("({}) UNION ALL ({})").format(attached.text, newer.text)
        return self._compare_part(question, SqlCondition(text, (*attached.values, *newer.values)))

    def _compare_part(self, question: VectorQuestion, part: SqlCondition) -> _Compared:
        """Return the nearest of some rows, with all that are as similar as the last one."""
        query = sql.SQL(
            "WITH part AS MATERIALIZED ({part}) SELECT row, (SELECT r.key FROM {records} r "
            "WHERE r.row = near.row), similarity, (SELECT count(*) FROM part) "
            "FROM (SELECT row, similarity FROM part ORDER BY similarity DESC "
            "FETCH FIRST %s ROWS WITH TIES) near"
        ).format(part=part.text, records=self._records.table)
        found = self._connection.execute(query, (*part.values, question.wanted)).fetchall()
        hits = [EngineHit(formats.given(key), row, float(score)) for row, key, score, _ in found]
        return _Compared(hits, found[0][3] if found else 0)

    def _select_rows(self, question: VectorQuestion, rows: Iterable[int]) -> SqlCondition:
        """Return the statement for these rows. Both tables are read by them."""
        listed = f"{{{','.join(map(str, rows))}}}"
        which = SqlCondition(sql.SQL("v.row = ANY(%s::bigint[])"), (listed,))
        if question.condition is not None:
            text = sql.SQL("{} AND r.row = ANY(%s::bigint[])").format(which.text)
            which = SqlCondition(text, (listed, listed))
        return self._select_part(question, which)

    def _select_part(self, question: VectorQuestion, which: SqlCondition) -> SqlCondition:
        """Return the statement for some rows that match."""
        source, where = sql.SQL("{} v").format(self._vectors.table), question.condition
        if where is not None:
            source = sql.SQL("{} JOIN {} r ON r.row = v.row").format(source, self._records.table)
            which = SqlCondition(
                sql.SQL("{} AND {}").format(which.text, where.text), (*which.values, *where.values)
            )
        text = sql.SQL("SELECT v.row, 1 - (v.vec <=> %s::vector) AS similarity FROM {} WHERE {}")
        return SqlCondition(text.format(source, which.text), (WireVector(question.vector), *which.values))
