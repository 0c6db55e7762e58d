"""The nearest vectors of one space by an index outside of the database, in one transaction.

The index proposes rows that it holds at the position that the transaction sees. Rows that are new or have
other vectors since that position are compared as well. All similarities are those of the full vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tabane.postgres import index_sets, spelling
from tabane.postgres.approximate_search import candidates_for, fewest, is_tied, matching_count
from tabane.postgres.collection_state import StoredSpace
from tabane.postgres.database import WireVector
from tabane.postgres.filter_conditions import SqlCondition
from tabane.postgres.index_link import IndexLink
from tabane.postgres.record_table import RecordColumns
from tabane.postgres.vector_table import VectorTable
from tabane.search.engine import EngineHit
from tabane.search.filters import Filter
from tabane.search.records import Shape

_STATE = (
    "SELECT f.change, f.row, f.note, (SELECT array_agg(DISTINCT touched) FROM change_log l, "
    "unnest(l.rows) AS touched WHERE l.collection = f.collection AND l.change > f.change AND l.space = %s), "
    "{} AS matching FROM follower f WHERE f.collection = %s AND f.name = %s"
)
_WIDER = 8  # times as many candidates, if too few of them match
_MARGIN = (
    2.0  # times as many candidates as are expected to be enough for a filter that the index cannot apply
)
_TIED = 64  # further hits that are looked at, in case they are as similar as the last one


@dataclass(frozen=True, slots=True)
class OutsideIndex:
    """The sets of a collection in an index: what their names begin with."""

    link: IndexLink
    prefix: str


@dataclass(frozen=True, slots=True)
class VectorQuestion:
    """A unit vector of float32 and a filter, which is also a condition on the row ``r`` if it is one."""

    vector: bytes
    where: Filter
    condition: SqlCondition | None
    wanted: int


@dataclass(frozen=True, slots=True)
class _IndexState:
    """The index has rows up to ``row``, but other vectors of those that are ``attached``.

    ``note``: what a search has to pass. ``matching``: how many records match.
    """

    row: int
    note: str
    attached: tuple[int, ...]
    matching: int


class OutsideSearch:
    """Searches in one space. ``whole``: every record has a vector in it."""

    def __init__(
        self,
        connection: psycopg.Connection,
        index: OutsideIndex,
        tables: tuple[RecordColumns, VectorTable],
        space: StoredSpace,
        shape: Shape,
        *,
        whole: bool,
    ) -> None:
        self._connection, self._index, self._space, self._shape = connection, index, space, shape
        self._records, self._vectors = tables
        self._whole = whole

    def nearest(self, question: VectorQuestion) -> tuple[list[EngineHit] | None, int | None]:
        """Return the nearest records, best first, and how many match.

        No hits: the index cannot be used, finds too few, or comparing all that match is faster.
        """
        state = self._state(question)
        if state is None:
            return None, None
        candidates = candidates_for(question.wanted)
        if question.condition is not None and state.matching < fewest(candidates, self._space.vectors):
            return None, state.matching
        for most in self._widths(question, candidates, state.matching):
            rows = self._proposed(question, most, state.note)
            if rows is None:
                break
            hits = self._compared(question, state, rows)
            if hits is not None:
                return hits, state.matching
        return None, state.matching

    def _state(self, question: VectorQuestion) -> _IndexState | None:
        """Return how far the index is, and how many records match; None if it does not have the space yet."""
        matching, values = matching_count(
            question.condition, self._records, self._vectors, self._space.vectors, whole=self._whole
        )
        row = self._connection.execute(
            sql.SQL(_STATE).format(matching),
            (self._space.number, *values, self._records.number, self._index.link.follower),
        ).fetchone()
        note = index_sets.read(row[2]).get(self._space.number) if row else None
        if row is None or note is None:
            return None
        return _IndexState(row[1], note, tuple(each for each in row[3] or () if each <= row[1]), row[4])

    def _widths(self, question: VectorQuestion, candidates: int, matching: int) -> list[int]:
        """Return how many candidates to ask for, and how many if these are not enough."""
        link = self._index.link
        if question.condition is not None and not link.index.narrows(question.where, self._shape):
            candidates = math.ceil(_MARGIN * candidates * self._space.vectors / max(matching, 1))
        first = min(candidates, link.index.most)
        return list(dict.fromkeys((first, min(_WIDER * first, link.index.most))))

    def _proposed(self, question: VectorQuestion, most: int, note: str) -> Sequence[int] | None:
        name = index_sets.set_name(self._index.prefix, self._space.number)
        return self._index.link.nearest(name, question.vector, question.where, self._shape, most, note)

    def _compared(
        self, question: VectorQuestion, state: _IndexState, rows: Sequence[int]
    ) -> list[EngineHit] | None:
        """Compare candidates and the tail. Return None if another record may be among the nearest."""
        known = {row for row in rows if row <= state.row}.difference(state.attached)
        found = self._queried(question, list(known), state)
        hits = [EngineHit(spelling.given(key), row, float(score)) for row, key, score, _, _ in found]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        live, compared = found[0][3:] if found else (0, 0)
        enough = live >= question.wanted or compared >= state.matching
        if not enough or is_tied(hits, question.wanted, state.matching):
            return None
        return hits[: question.wanted]

    def _queried(
        self, question: VectorQuestion, known: list[int], state: _IndexState
    ) -> list[tuple[int, str, float, int, int]]:
        """Return the nearest of the candidates, the attached rows and those that the index does not have.

        Row, key, similarity, and how many candidates match, and how many rows were compared.
        """
        limit = question.wanted + _TIED
        parts = [self._part(question, 1, "v.row = ANY(%s::bigint[])", known)]
        if state.attached:
            parts.append(self._part(question, 0, "v.row = ANY(%s::bigint[])", list(state.attached)))
        parts.append(self._part(question, 0, "v.row > %s", state.row, limit))
        query = sql.SQL(
            "SELECT row, (SELECT r.key FROM {records} r WHERE r.row = near.row), similarity, live, compared "
            "FROM (SELECT row, similarity, sum(known) OVER () AS live, count(*) OVER () AS compared "
            "FROM ({parts}) parts ORDER BY similarity DESC LIMIT %s) near"
        ).format(
            records=self._records.table,
            parts=sql.SQL(" UNION ALL ").join(sql.SQL("({})").format(each.text) for each in parts),
        )
        values = tuple(value for each in parts for value in each.values)
        return self._connection.execute(query, (*values, limit)).fetchall()

    def _part(
        self, question: VectorQuestion, known: int, which: str, value: object, most: int | None = None
    ) -> SqlCondition:
        """Return the statement for some rows that match, or the ``most`` nearest of them."""
        source, where = sql.SQL("{} v").format(self._vectors.table), question.condition
        if where is not None:
            source = sql.SQL("{} JOIN {} r ON r.row = v.row").format(source, self._records.table)
        text = sql.SQL(
            "SELECT v.row, 1 - (v.vec <=> %s::vector) AS similarity, {} AS known FROM {} WHERE {} AND {}"
        ).format(sql.Literal(known), source, sql.SQL(which), where.text if where else sql.SQL("TRUE"))
        values = (WireVector(question.vector), value, *(where.values if where else ()))
        if most is None:
            return SqlCondition(text, values)
        return SqlCondition(sql.SQL("{} ORDER BY 2 DESC LIMIT %s").format(text), (*values, most))
