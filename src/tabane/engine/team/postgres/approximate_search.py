"""The nearest vectors of one space: by its approximate index, or by an index outside of the database.

The index chooses candidates; their similarities are those of the full vectors. Where a filter leaves so
few records that comparing them all is faster, or the index does not find enough of them, nothing is
answered.

The nearest vectors of one space by an index outside of the database, in one transaction. The index
proposes rows that it holds at the position that the transaction sees. Rows that are new or have other
vectors since that position are compared as well. All similarities are those of the full vectors.

The index is asked at the position that was read last. Meanwhile, the database reads the current position,
counts what matches, and compares what the index lacks. If the position is another one by then, the index
is asked again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tabane.engine.team.postgres import change_log, formats
from tabane.engine.team.postgres.collection_state import CollectionRow, StoredSpace
from tabane.engine.team.postgres.database import WireVector
from tabane.engine.team.postgres.outside_index import BegunSearch, IndexLink, IndexPosition, IndexQuestion
from tabane.engine.team.postgres.record_table import RecordColumns, SqlCondition
from tabane.engine.team.postgres.vector_table import ApproximateIndex, VectorTable
from tabane.search.engine import EngineHit
from tabane.search.records import Filter, Shape

DEEPEST = 500
"""Hits that are searched with the index at most."""

_LEAST_CANDIDATES = 100
_MOST_LISTED = 1000  # the largest hnsw.ef_search
_STEP_COST = 7  # what a step of the index costs, in comparisons with a record that a filter leaves
_PATIENCE = 4  # times the steps that are expected until enough records match


@dataclass(frozen=True, slots=True)
class IndexProbe:
    """Whether there is an index, how many records match, and whether the index is the faster way."""

    ready: bool
    matching: int
    chosen: bool


class ApproximateSearch:
    """Searches in a space with so many vectors. ``whole``: every record has one."""

    def __init__(
        self,
        connection: psycopg.Connection,
        index: ApproximateIndex,
        records: RecordColumns,
        vectors: int,
        *,
        whole: bool,
    ) -> None:
        self._connection, self._index = connection, index
        self._records, self._vectors, self._whole = records, vectors, whole

    def probe(self, where: SqlCondition | None, wanted: int, *, iterative: bool) -> IndexProbe:
        """Ask for the index and the number of matching records, and prepare the transaction for a search.

        One statement does all of it. ``iterative``: the server can go on until enough records match.
        """
        candidates = candidates_for(wanted)
        prepared = {"enable_sort": "off", "hnsw.ef_search": str(min(candidates, _MOST_LISTED))}
        if iterative:
            prepared["hnsw.iterative_scan"] = "relaxed_order"
            steps = _PATIENCE * candidates * self._vectors
            prepared["hnsw.max_scan_tuples"] = str(steps)  # divided by the number of matching records
        matching, values = matching_count(
            where, self._records, self._index.table, self._vectors, whole=self._whole
        )
        settings = sql.SQL(" || ").join(
            sql.SQL(
                "set_config({}, greatest({}::bigint / matching, 1000)::text, true)"
                if name.endswith("tuples")
                else "set_config({}, {}, true)"
            ).format(sql.Literal(name), sql.Literal(value))
            for name, value in prepared.items()
        )
        query = sql.SQL(
            "WITH p AS MATERIALIZED (SELECT coalesce((SELECT indisvalid FROM pg_index "
            "WHERE indexrelid = to_regclass(%s)), false) AS ready, {} AS matching) "
            "SELECT ready, matching, CASE WHEN ready AND matching >= %s THEN {} END FROM p"
        ).format(matching, settings)
        few = fewest(candidates, self._vectors) if where else 1
        row = self._connection.execute(query, (self._index.name, *values, few)).fetchone()
        assert row is not None
        return IndexProbe(row[0], row[1], row[2] is not None)

    def nearest(
        self, vector: WireVector, where: SqlCondition | None, wanted: int, matching: int
    ) -> list[EngineHit] | None:
        """Return the nearest records, best first, equal ones in order of keys.

        None if the index has found too few, or more than the candidates are as similar as the last one.
        """
        candidates = candidates_for(wanted)
        source = sql.SQL("{} v").format(self._index.table.table)
        if where is not None:
            source = sql.SQL("{} JOIN {} r ON r.row = v.row").format(source, self._records.table)
        query = sql.SQL(
            "WITH near AS MATERIALIZED (SELECT v.row, v.vec FROM {} WHERE {} ORDER BY {} <#> {} LIMIT %s) "
            "SELECT row, (SELECT r.key FROM {} r WHERE r.row = near.row), 1 - (vec <=> %s::vector) FROM near"
        ).format(
            source,
            where.text if where else sql.SQL("TRUE"),
            self._index.indexed("v"),
            self._index.asked(),
            self._records.table,
        )
        values = (*(where.values if where else ()), vector, candidates, vector)
        rows = self._connection.execute(query, values).fetchall()
        hits = [EngineHit(formats.given(key), row, float(score)) for row, key, score in rows]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        if len(hits) < min(candidates, matching) or is_tied(hits, wanted, matching):
            self._connection.execute("SELECT set_config('enable_sort', 'on', true)")
            return None
        return hits[:wanted]


@dataclass(frozen=True, slots=True)
class MatchCount:
    """How many records match. If it is not ``exact``, there may be more."""

    count: int
    exact: bool = True


def matching_count(
    where: SqlCondition | None,
    records: RecordColumns,
    table: VectorTable,
    vectors: int,
    *,
    whole: bool,
    most: int | None = None,
) -> tuple[sql.Composable, tuple[Any, ...]]:
    """Return the number of records that match and have a vector, as an expression, and its values.

    ``vectors``: how many the table has. ``whole``: every record has one. ``most``: where counting ends.
    """
    if where is None:
        return sql.Literal(vectors), ()
    source = sql.SQL("{} r").format(records.table)
    if not whole:
        source = sql.SQL("{} JOIN {} v ON v.row = r.row").format(source, table.table)
    if most is None:
        return sql.SQL("(SELECT count(*) FROM {} WHERE {})").format(source, where.text), where.values
    count = sql.SQL("(SELECT count(*) FROM (SELECT FROM {} WHERE {} LIMIT {}) m)")
    return count.format(source, where.text, sql.Literal(most)), where.values


def fewest(candidates: int, vectors: int) -> int:
    """Return how many records must match for an index to be faster than comparing all of them."""
    return math.ceil(math.sqrt(_STEP_COST * candidates * vectors))


def candidates_for(wanted: int) -> int:
    """Return how many candidates are compared for so many hits."""
    return max(_LEAST_CANDIDATES, 2 * wanted)


def is_tied(hits: Sequence[EngineHit], wanted: int, matching: int) -> bool:
    """Return whether records that are not among the hits may be as similar as the last wanted one."""
    return len(hits) < matching and hits[-1].score == hits[wanted - 1].score


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
        name, (position, note) = change_log.set_name(self.prefix, space.number), at
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
        position, notes = (row[0], row[1]), change_log.read(row[2])
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
