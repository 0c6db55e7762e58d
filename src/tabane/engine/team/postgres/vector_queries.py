"""Queries over the vectors of one collection, each in one transaction.

The server computes the cosines of all vectors that a filter leaves, so results are exact; those of many
vectors are found by an approximate index, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine.team.postgres import spelling
from tabane.engine.team.postgres.approximate_index import ApproximateIndex
from tabane.engine.team.postgres.approximate_search import DEEPEST, ApproximateSearch, MatchCount
from tabane.engine.team.postgres.collection_state import CollectionRow, StoredSpace
from tabane.engine.team.postgres.database import WireVector
from tabane.engine.team.postgres.filter_conditions import SqlCondition
from tabane.engine.team.postgres.index_builder import ApproximateIndexBuilder
from tabane.engine.team.postgres.index_link import BegunSearch
from tabane.engine.team.postgres.outside_search import (
    BegunQuestion,
    OutsideIndex,
    OutsideSearch,
    VectorQuestion,
)
from tabane.engine.team.postgres.record_table import RecordColumns
from tabane.engine.team.postgres.record_writer import RecordWriter
from tabane.engine.unit_vectors import Array
from tabane.engine.vector_request import VectorRequest
from tabane.search.engine import Combination, EngineHit, EngineHits
from tabane.search.filters import Filter
from tabane.search.records import Shape

_TIED = 64  # further hits that are looked at, in case they are as similar as the last one


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Rows with their similarities, and their keys as one text with the length of each in bytes."""

    rows: Array
    similarities: Array
    lengths: Array
    keys: bytes

    def keys_of(self, first: int, last: int) -> list[str]:
        """Return the keys of a part."""
        ends = np.cumsum(self.lengths)
        start = int(ends[first - 1]) if first else 0
        found = []
        for end in ends[first:last].tolist():
            found.append(spelling.given(self.keys[start:end].decode()))
            start = end
        return found


@dataclass(frozen=True, slots=True)
class _Similarity:
    """The similarity of a row ``r`` as an expression, the tables that it needs, and its values.

    ``rows``: the row number; ``compared``: whether the record can be compared.
    """

    expression: sql.Composable
    values: tuple[Any, ...]
    source: sql.Composable
    rows: sql.Composable
    compared: sql.Composable


class SimilarityQueries:
    """The queries of one transaction. ``where`` is a condition on the row ``r``; None: no filter."""

    def __init__(
        self,
        connection: psycopg.Connection,
        state: CollectionRow,
        tables: RecordWriter,
        records: RecordColumns,
        shape: Shape,
        indexes: ApproximateIndexBuilder,
        outside: OutsideIndex | None = None,
    ) -> None:
        self._connection, self._state, self._tables = connection, state, tables
        self._records, self._shape, self._indexes = records, shape, indexes
        self._outside = outside

    def nearest(
        self,
        asked: VectorRequest,
        filtered: Filter,
        where: SqlCondition | None,
        limit: int,
        offset: int,
        begun: BegunQuestion | None = None,
    ) -> EngineHits:
        """Return the most similar records, equal ones in order of keys. ``where`` is what is ``filtered``.

        ``begun``: what :meth:`begin` returned.
        """
        wanted = limit + offset
        near, matching = self._near(asked, filtered, where, wanted, begun)
        hits = self._exact(asked, where, wanted) if near is None else near
        return self._counted(asked, where, hits[offset:wanted], limit, offset, matching)

    def begin(
        self, question: VectorQuestion | None, name: str, search: BegunSearch | None
    ) -> BegunQuestion | None:
        """Begin a search in the space of that name, by a state that may be an older one.

        ``search``: of the index outside of the database, for the same question.
        """
        space = self._state.get(name)
        if self._outside is None or question is None or space is None:
            return None
        if not self._outside.link.serves(space.vectors):
            return None
        return self._far(self._outside, space).begin(question, search)

    def _far(self, outside: OutsideIndex, space: StoredSpace) -> OutsideSearch:
        tables = self._records, self._tables.vectors(space)
        return OutsideSearch(self._connection, outside, tables, space, self._shape, self._state)

    def _near(
        self,
        asked: VectorRequest,
        filtered: Filter,
        where: SqlCondition | None,
        wanted: int,
        begun: BegunQuestion | None,
    ) -> tuple[list[EngineHit] | None, MatchCount | None]:
        """Return the hits of an index, if one is to be used, and how many records match."""
        if len(asked.vectors) > 1 or wanted > DEEPEST:
            return None, None
        name, vector = next(iter(asked.vectors.items()))
        space = self._state.fitting(name, vector.tobytes(), self._shape)
        if self._outside is not None:
            if not self._outside.link.serves(space.vectors):
                return None, None
            question = outside_question(asked, filtered, where, wanted)
            return self._far(self._outside, space).nearest(question, begun) if question else (None, None)
        table = self._tables.vectors(space)
        index = ApproximateIndex(table)
        iterative = self._indexes.has_iterative_scan
        if not self._indexes.wants(index, space.vectors) or (where is not None and not iterative):
            return None, None
        search = ApproximateSearch(
            self._connection, index, self._records, space.vectors, whole=self._state.is_whole(space)
        )
        probe = search.probe(where, wanted, iterative=iterative)
        if not probe.ready:
            self._indexes.miss(index, space.vectors)
        if not probe.chosen:
            return None, MatchCount(probe.matching)
        sent = WireVector(vector.astype("<f4").tobytes())
        return search.nearest(sent, where, wanted, probe.matching), MatchCount(probe.matching)

    def _exact(self, asked: VectorRequest, where: SqlCondition | None, wanted: int) -> list[EngineHit]:
        hits = self._best(asked, where, sql.SQL("LIMIT %s"), wanted + _TIED)
        if len(hits) == wanted + _TIED and hits[-1].score == hits[wanted - 1].score:
            # More are equal: which of them come first is decided by the keys of all.
            return self._best(asked, where, sql.SQL("FETCH FIRST %s ROWS WITH TIES"), wanted)
        return hits

    def _best(
        self, asked: VectorRequest, where: SqlCondition | None, most: sql.SQL, count: int
    ) -> list[EngineHit]:
        """Return the most similar records, best first, equal ones in order of keys."""
        found = self._similarity(asked, with_records=where is not None)
        query = sql.SQL(
            "WITH best AS MATERIALIZED (SELECT {rows} AS row, {similarity} AS similarity FROM {source} "
            "WHERE {conditions} ORDER BY 2 DESC {most}) "
            # By a subquery, so that the server does not read all records for a join with few rows.
            "SELECT row, (SELECT r.key FROM {records} r WHERE r.row = best.row) AS key, similarity FROM best "
            "ORDER BY similarity DESC, key"
        ).format(
            rows=found.rows,
            similarity=found.expression,
            source=found.source,
            conditions=self._conditions(found, where),
            most=most,
            records=self._records.table,
        )
        values = (*found.values, *(where.values if where else ()), count)
        rows = self._connection.execute(query, values).fetchall()
        return [EngineHit(spelling.given(key), row, float(score)) for row, key, score in rows]

    def _counted(
        self,
        asked: VectorRequest,
        where: SqlCondition | None,
        hits: list[EngineHit],
        limit: int,
        offset: int,
        matching: MatchCount | None,
    ) -> EngineHits:
        """Return hits with their total. ``matching``: how many records can be compared, if it is known."""
        threshold = asked.threshold
        if threshold is None:
            known = matching or MatchCount(self._compared(asked, where))
            return EngineHits(tuple(hits), known.count, known.exact)
        kept = tuple(hit for hit in hits if hit.score >= threshold)
        if len(kept) < limit and (kept or not offset):  # the last one is among them
            return EngineHits(kept, offset + len(kept))
        return EngineHits(kept, self._compared(asked, where, threshold))

    def _compared(
        self, asked: VectorRequest, where: SqlCondition | None, threshold: float | None = None
    ) -> int:
        """Count the records that can be compared, and reach the threshold."""
        if where is None and threshold is None and len(asked.vectors) == 1:
            return self._state.named(next(iter(asked.vectors)), self._shape).vectors
        found = self._similarity(asked, with_records=where is not None)
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
            found.source, self._conditions(found, where)
        )
        values: tuple[Any, ...] = where.values if where else ()
        if threshold is not None:
            query = sql.SQL("{} AND {} >= %s").format(query, found.expression)
            values = (*values, *found.values, threshold)
        row = self._connection.execute(query, values).fetchone()
        return int(row[0]) if row else 0

    def all(self, asked: VectorRequest, where: SqlCondition | None, *, ranked: bool) -> ComparedRows:
        """Return all records that can be compared, in order of rows, or ``ranked`` by similarity."""
        found = self._similarity(asked, with_records=True)
        order = sql.SQL("similarity DESC, row" if ranked else "row")
        query = sql.SQL(
            "SELECT string_agg(int8send(row), ''::bytea), string_agg(float4send(similarity), ''::bytea), "
            "string_agg(int4send(octet_length(key)), ''::bytea), "
            "string_agg(convert_to(key, 'UTF8'), ''::bytea) "
            "FROM (SELECT {} AS row, r.key AS key, ({})::real AS similarity FROM {} WHERE {} ORDER BY {}) t"
        ).format(found.rows, found.expression, found.source, self._conditions(found, where), order)
        values = (*found.values, *(where.values if where else ()))
        with self._connection.cursor(binary=True) as cursor:
            row = cursor.execute(query, values).fetchone() or (None,) * 4
        rows, similarities, lengths, keys = (each or b"" for each in row)
        return ComparedRows(
            np.frombuffer(rows, dtype=">i8"),
            np.frombuffer(similarities, dtype=">f4"),
            np.frombuffer(lengths, dtype=">i4"),
            keys,
        )

    def of_keys(self, asked: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        """Return the similarity of each of these records; None if it cannot be compared."""
        found = self._similarity(asked, with_records=True)
        query = sql.SQL("SELECT r.key, {} FROM {} WHERE {} AND r.key = ANY(%s)").format(
            found.expression, found.source, found.compared
        )
        wanted = [spelling.stored(key) for key in keys]
        known: dict[str, float] = dict(self._connection.execute(query, (*found.values, wanted)).fetchall())
        return [float(known[key]) if key in known else None for key in wanted]

    def _conditions(self, found: _Similarity, where: SqlCondition | None) -> sql.Composable:
        if where is None:
            return found.compared
        return sql.SQL("{} AND {}").format(found.compared, where.text)

    def _similarity(self, asked: VectorRequest, *, with_records: bool) -> _Similarity:
        """Return the similarity to a request. Raises BadArguments if it does not fit the current spaces."""
        spaces = [
            self._state.fitting(name, vector.tobytes(), self._shape) for name, vector in asked.vectors.items()
        ]
        values = tuple(WireVector(vector.astype("<f4").tobytes()) for vector in asked.vectors.values())
        tables = [self._tables.vectors(each).table for each in spaces]
        names = [sql.Identifier(f"v{place}") for place in range(len(tables))]
        cosines = [sql.SQL("(1 - ({}.vec <=> %s::vector))").format(name) for name in names]
        if len(tables) == 1:
            source = sql.SQL("{} v0").format(tables[0])
            if with_records:
                source = sql.SQL("{} JOIN {} r ON r.row = v0.row").format(source, self._records.table)
            return _Similarity(cosines[0], values, source, sql.SQL("v0.row"), sql.SQL("TRUE"))
        source = sql.SQL("{} r").format(self._records.table)
        for table, name in zip(tables, names, strict=True):
            source = sql.SQL("{} LEFT JOIN {} {} ON {}.row = r.row").format(source, table, name, name)
        word = " AND " if asked.whole else " OR "
        there = sql.SQL(word).join(sql.SQL("{}.row IS NOT NULL").format(name) for name in names)
        return _Similarity(
            _combined(asked, cosines), values, source, sql.SQL("r.row"), sql.SQL("({})").format(there)
        )


def outside_question(
    asked: VectorRequest, filtered: Filter, where: SqlCondition | None, wanted: int
) -> VectorQuestion | None:
    """Return the question for an index outside of the database; None if it cannot answer the request."""
    if len(asked.vectors) > 1 or wanted > DEEPEST:
        return None
    (vector,) = asked.vectors.values()
    return VectorQuestion(vector.astype("<f4").tobytes(), filtered, where, wanted)


def _combined(asked: VectorRequest, cosines: Sequence[sql.Composable]) -> sql.Composable:
    """Return the combination of cosines, of which those of absent vectors are null."""
    weights = [asked.weights[name] for name in asked.vectors]
    known = [sql.SQL("coalesce({}, 0)").format(each) for each in cosines]
    match asked.combination:
        case Combination.MAXIMUM:
            return sql.SQL("greatest({})").format(sql.SQL(", ").join(cosines))
        case Combination.MINIMUM:
            return sql.SQL("least({})").format(sql.SQL(", ").join(known))
        case Combination.PRODUCT:
            return sql.SQL("({})").format(sql.SQL(" * ").join(known))
        case Combination.WEIGHTED:
            return _weighted(known, weights)
        case Combination.AVERAGE:
            total = sum(weights)
            return _weighted(known, [weight / total for weight in weights])


def _weighted(known: Sequence[sql.Composable], weights: Sequence[float]) -> sql.Composable:
    parts = (
        sql.SQL("{}::float8 * {}").format(sql.Literal(weight), each)
        for each, weight in zip(known, weights, strict=True)
    )
    return sql.SQL("({})").format(sql.SQL(" + ").join(parts))
