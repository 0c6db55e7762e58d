"""Queries over one collection: records by filters, their counts, and the nearest of their vectors.

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

from tabane.engine.input_checks import RecordsCursor
from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.collection_state import CollectionRow, StoredSpace
from tabane.engine.team.postgres.database import WireVector
from tabane.engine.team.postgres.outside_index import (
    BegunQuestion,
    BegunSearch,
    OutsideIndex,
    OutsideSearch,
    VectorQuestion,
)
from tabane.engine.team.postgres.record_table import (
    STORED,
    RecordColumns,
    SqlCondition,
    column_value,
    joined,
    record_of,
    scalar,
    stored_record,
)
from tabane.engine.team.postgres.record_writer import RecordWriter
from tabane.engine.team.postgres.vector_table import (
    DEEPEST,
    ApproximateIndex,
    ApproximateIndexBuilder,
    ApproximateSearch,
    MatchCount,
    VectorTable,
)
from tabane.engine.vector_request import Array, VectorRequest
from tabane.search.engine import Combination, EngineHit, EngineHits, Order
from tabane.search.records import Filter, Kind, Record, Scalar, Shape, StoredRecord

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
            found.append(formats.given(self.keys[start:end].decode()))
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
        request: VectorRequest,
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
        near, matching = self._search_index(request, filtered, where, wanted, begun)
        hits = self._compare_all(request, where, wanted) if near is None else near
        return self._with_total(request, where, hits[offset:wanted], limit, offset, matching)

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
        return self._outside_search(self._outside, space).begin(question, search)

    def _outside_search(self, outside: OutsideIndex, space: StoredSpace) -> OutsideSearch:
        tables = self._records, self._tables.vectors(space)
        return OutsideSearch(self._connection, outside, tables, space, self._shape, self._state)

    def _search_index(
        self,
        request: VectorRequest,
        filtered: Filter,
        where: SqlCondition | None,
        wanted: int,
        begun: BegunQuestion | None,
    ) -> tuple[list[EngineHit] | None, MatchCount | None]:
        """Return the hits of an index, if one is to be used, and how many records match."""
        if len(request.vectors) > 1 or wanted > DEEPEST:
            return None, None
        name, vector = next(iter(request.vectors.items()))
        space = self._state.fitting(name, vector.tobytes(), self._shape)
        if self._outside is not None:
            if not self._outside.link.serves(space.vectors):
                return None, None
            question = outside_question(request, filtered, where, wanted)
            return (
                self._outside_search(self._outside, space).nearest(question, begun)
                if question
                else (None, None)
            )
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

    def _compare_all(
        self, request: VectorRequest, where: SqlCondition | None, wanted: int
    ) -> list[EngineHit]:
        hits = self._best_hits(request, where, sql.SQL("LIMIT %s"), wanted + _TIED)
        if len(hits) == wanted + _TIED and hits[-1].score == hits[wanted - 1].score:
            # More are equal: which of them come first is decided by the keys of all.
            return self._best_hits(request, where, sql.SQL("FETCH FIRST %s ROWS WITH TIES"), wanted)
        return hits

    def _best_hits(
        self, request: VectorRequest, where: SqlCondition | None, most: sql.SQL, count: int
    ) -> list[EngineHit]:
        """Return the most similar records, best first, equal ones in order of keys."""
        found = self._similarity(request, with_records=where is not None)
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
            conditions=self._join_conditions(found, where),
            most=most,
            records=self._records.table,
        )
        values = (*found.values, *(where.values if where else ()), count)
        rows = self._connection.execute(query, values).fetchall()
        return [EngineHit(formats.given(key), row, float(score)) for row, key, score in rows]

    def _with_total(
        self,
        request: VectorRequest,
        where: SqlCondition | None,
        hits: list[EngineHit],
        limit: int,
        offset: int,
        matching: MatchCount | None,
    ) -> EngineHits:
        """Return hits with their total. ``matching``: how many records can be compared, if it is known."""
        threshold = request.threshold
        if threshold is None:
            known = matching or MatchCount(self._count_compared(request, where))
            return EngineHits(tuple(hits), known.count, known.exact)
        kept = tuple(hit for hit in hits if hit.score >= threshold)
        if len(kept) < limit and (kept or not offset):  # the last one is among them
            return EngineHits(kept, offset + len(kept))
        return EngineHits(kept, self._count_compared(request, where, threshold))

    def _count_compared(
        self, request: VectorRequest, where: SqlCondition | None, threshold: float | None = None
    ) -> int:
        """Count the records that can be compared, and reach the threshold."""
        if where is None and threshold is None and len(request.vectors) == 1:
            return self._state.named(next(iter(request.vectors)), self._shape).vectors
        found = self._similarity(request, with_records=where is not None)
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
            found.source, self._join_conditions(found, where)
        )
        values: tuple[Any, ...] = where.values if where else ()
        if threshold is not None:
            query = sql.SQL("{} AND {} >= %s").format(query, found.expression)
            values = (*values, *found.values, threshold)
        row = self._connection.execute(query, values).fetchone()
        return int(row[0]) if row else 0

    def all(self, request: VectorRequest, where: SqlCondition | None, *, ranked: bool) -> ComparedRows:
        """Return all records that can be compared, in order of rows, or ``ranked`` by similarity."""
        found = self._similarity(request, with_records=True)
        order = sql.SQL("similarity DESC, row" if ranked else "row")
        query = sql.SQL(
            "SELECT string_agg(int8send(row), ''::bytea), string_agg(float4send(similarity), ''::bytea), "
            "string_agg(int4send(octet_length(key)), ''::bytea), "
            "string_agg(convert_to(key, 'UTF8'), ''::bytea) "
            "FROM (SELECT {} AS row, r.key AS key, ({})::real AS similarity FROM {} WHERE {} ORDER BY {}) t"
        ).format(found.rows, found.expression, found.source, self._join_conditions(found, where), order)
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

    def of_keys(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        """Return the similarity of each of these records; None if it cannot be compared."""
        found = self._similarity(request, with_records=True)
        query = sql.SQL("SELECT r.key, {} FROM {} WHERE {} AND r.key = ANY(%s)").format(
            found.expression, found.source, found.compared
        )
        wanted = [formats.stored(key) for key in keys]
        known: dict[str, float] = dict(self._connection.execute(query, (*found.values, wanted)).fetchall())
        return [float(known[key]) if key in known else None for key in wanted]

    def _join_conditions(self, found: _Similarity, where: SqlCondition | None) -> sql.Composable:
        if where is None:
            return found.compared
        return sql.SQL("{} AND {}").format(found.compared, where.text)

    def _similarity(self, request: VectorRequest, *, with_records: bool) -> _Similarity:
        """Return the similarity to a request. Raises BadArguments if it does not fit the current spaces."""
        spaces = [
            self._state.fitting(name, vector.tobytes(), self._shape)
            for name, vector in request.vectors.items()
        ]
        values = tuple(WireVector(vector.astype("<f4").tobytes()) for vector in request.vectors.values())
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
        word = " AND " if request.whole else " OR "
        there = sql.SQL(word).join(sql.SQL("{}.row IS NOT NULL").format(name) for name in names)
        return _Similarity(
            _combined(request, cosines), values, source, sql.SQL("r.row"), sql.SQL("({})").format(there)
        )


def outside_question(
    request: VectorRequest, filtered: Filter, where: SqlCondition | None, wanted: int
) -> VectorQuestion | None:
    """Return the question for an index outside of the database; None if it cannot answer the request."""
    if len(request.vectors) > 1 or wanted > DEEPEST:
        return None
    (vector,) = request.vectors.values()
    return VectorQuestion(vector.astype("<f4").tobytes(), filtered, where, wanted)


def _combined(request: VectorRequest, cosines: Sequence[sql.Composable]) -> sql.Composable:
    """Return the combination of cosines; those of absent vectors are null."""
    weights = [request.weights[name] for name in request.vectors]
    known = [sql.SQL("coalesce({}, 0)").format(each) for each in cosines]
    match request.combination:
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


class RecordQueries:
    """The queries of one transaction over the table of records."""

    def __init__(self, connection: psycopg.Connection, table: RecordColumns, shape: Shape) -> None:
        self._connection, self._table, self._shape = connection, table, shape

    def get(self, keys: Sequence[str]) -> list[Record | None]:
        """Return the records of these keys, in order; None for a missing one."""
        query = sql.SQL("SELECT key, texts, fields, payload FROM {} WHERE key = ANY(%s)")
        wanted = [formats.stored(key) for key in keys]
        rows = self._connection.execute(query.format(self._table.table), (wanted,))
        found = {row[0]: record_of(*row) for row in rows}
        return [found.get(key) for key in wanted]

    def rows_of(self, keys: Sequence[str]) -> list[int | None]:
        """Return the rows of these keys, in order; None for a missing one."""
        found = self._table.known(self._connection, keys)
        return [found[key][0] if key in found else None for key in keys]

    def select(
        self, where: SqlCondition, order: Sequence[Order], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        """Return up to ``most`` matching records behind a cursor in order, ties by key."""
        if after is None:
            behind = SqlCondition(sql.SQL("TRUE"))
        else:
            found, level = list[SqlCondition](), list[SqlCondition]()
            for each, value in zip(order, after.values, strict=True):
                field, column = self._table.fields[each.field][0], self._column(each.field)
                there = None if value is None else column_value(value, field)
                if there is not None:
                    text = "({} < %s OR {} IS NULL)" if each.descending else "({} > %s OR {} IS NULL)"
                    beyond = SqlCondition(sql.SQL(text).format(column, column), (there,))
                    found.append(joined(" AND ", [*level, beyond], "TRUE"))
                    level.append(SqlCondition(sql.SQL("{} = %s").format(column), (there,)))
                else:
                    level.append(SqlCondition(sql.SQL("{} IS NULL").format(column)))
            last = SqlCondition(sql.SQL("r.key > %s"), (formats.stored(after.key),))
            found.append(joined(" AND ", [*level, last], "TRUE"))
            behind = joined(" OR ", found, "FALSE")
        query = sql.SQL("SELECT {} FROM {} r WHERE {} AND {} ORDER BY {} LIMIT %s").format(
            STORED, self._table.table, where.text, behind.text, self._order_by(order)
        )
        rows = self._connection.execute(query, (*where.values, *behind.values, most))
        return [stored_record(*row) for row in rows]

    def _order_by(self, order: Sequence[Order]) -> sql.Composable:
        parts = [
            sql.SQL("{} DESC NULLS LAST" if each.descending else "{} ASC NULLS LAST").format(
                self._column(each.field)
            )
            for each in order
        ]
        return sql.SQL(", ").join([*parts, sql.SQL("r.key")])

    def count(self, where: SqlCondition) -> int:
        """Return the number of matching records."""
        query = sql.SQL("SELECT count(*) FROM {} r WHERE {}").format(self._table.table, where.text)
        return self._fetch_number(query, where.values)

    def facet(self, name: str, where: SqlCondition, limit: int | None) -> list[tuple[Scalar, int]]:
        """Return the values of a field with their counts, most frequent first; None: all of them."""
        field = self._shape.field(name)
        listed = field.kind is Kind.STRINGS
        value = sql.SQL("value") if listed else self._column(name)
        source = sql.SQL("{} r").format(self._table.table)
        if listed:  # a stored list has each value once
            source = sql.SQL("{}, unnest({}) AS u(value)").format(source, self._column(name))
        query = sql.SQL(
            "SELECT {value}, count(*) FROM {source} WHERE {where} AND {value} IS NOT NULL "
            "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %s"
        ).format(value=value, source=source, where=where.text)
        rows = self._connection.execute(query, (*where.values, limit)).fetchall()
        return [(scalar(value, field), count) for value, count in rows]

    def histogram(self, name: str, bounds: Sequence[float], where: SqlCondition) -> list[int]:
        """Return the number of matching records from each bound to before the next."""
        query = sql.SQL(
            "SELECT width_bucket({}, %s::float8[]), count(*) FROM {} r WHERE {} AND {} IS NOT NULL GROUP BY 1"
        ).format(self._column(name), self._table.table, where.text, self._column(name))
        found: dict[int, int] = dict(
            self._connection.execute(query, ([float(each) for each in bounds], *where.values)).fetchall()
        )
        return [int(found.get(place, 0)) for place in range(1, len(bounds))]

    def firsts(self, name: str, order: Order, where: SqlCondition) -> dict[Scalar, str]:
        """Return the key of the first matching record for each value of a field of strings."""
        field, column = self._shape.field(name), self._column(name)
        query = sql.SQL(
            "SELECT DISTINCT ON ({}) {}, r.key FROM {} r WHERE {} AND {} IS NOT NULL ORDER BY {}, {}"
        ).format(column, column, self._table.table, where.text, column, column, self._order_by((order,)))
        rows = self._connection.execute(query, where.values).fetchall()
        return {scalar(value, field): formats.given(key) for value, key in rows}

    def listing(self, order: Order, where: SqlCondition) -> ComparedRows:
        """Return all matching records in order, equal ones in order of rows; they have no similarity."""
        direction = sql.SQL("DESC" if order.descending else "ASC")
        query = sql.SQL(
            "SELECT string_agg(int8send(row), ''::bytea), "
            "string_agg(int4send(octet_length(key)), ''::bytea), "
            "string_agg(convert_to(key, 'UTF8'), ''::bytea) FROM (SELECT r.row, r.key FROM {} r WHERE {} "
            "ORDER BY {} {} NULLS LAST, r.row) t"
        ).format(self._table.table, where.text, self._column(order.field), direction)
        with self._connection.cursor(binary=True) as cursor:
            row = cursor.execute(query, where.values).fetchone() or (None,) * 3
        rows, lengths, keys = (each or b"" for each in row)
        none: Array = np.empty(0, dtype=">f4")
        return ComparedRows(np.frombuffer(rows, dtype=">i8"), none, np.frombuffer(lengths, dtype=">i4"), keys)

    def live_keys(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the keys of those of the rows that have a record."""
        query = sql.SQL("SELECT row, key FROM {} WHERE row = ANY(%s)").format(self._table.table)
        found = self._connection.execute(query, (list(rows),)).fetchall()
        return {row: formats.given(key) for row, key in found}

    # Records without a vector

    def embedded(self, vectors: VectorTable, where: SqlCondition) -> int:
        """Return the number of matching records that have a vector."""
        query = sql.SQL("SELECT count(*) FROM {} v JOIN {} r ON r.row = v.row WHERE {}")
        return self._fetch_number(query.format(vectors.table, self._table.table, where.text), where.values)

    def lacking(
        self, vectors: VectorTable, after: int, limit: int, where: SqlCondition
    ) -> list[StoredRecord]:
        """Return matching records behind row ``after`` without a vector, in order of rows."""
        query = sql.SQL("{} AND r.row > %s ORDER BY r.row LIMIT %s").format(
            self._select_lacking(vectors, where)
        )
        rows = self._connection.execute(query, (*where.values, after, limit))
        return [stored_record(*row) for row in rows]

    def waiting(
        self, vectors: VectorTable, where: SqlCondition, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        """Return matching records without a vector, newest first, without the first ``skip``."""
        times = sql.SQL("{} DESC NULLS LAST, ").format(self._column(newest)) if newest else sql.SQL("")
        query = sql.SQL("{} ORDER BY {}r.row DESC OFFSET %s LIMIT %s").format(
            self._select_lacking(vectors, where), times
        )
        rows = self._connection.execute(query, (*where.values, skip, limit))
        return [stored_record(*row) for row in rows]

    def _select_lacking(self, vectors: VectorTable, where: SqlCondition) -> sql.Composable:
        return sql.SQL(
            "SELECT {} FROM {} r WHERE {} AND NOT EXISTS (SELECT FROM {} v WHERE v.row = r.row)"
        ).format(STORED, self._table.table, where.text, vectors.table)

    def _column(self, name: str) -> sql.Composable:
        return sql.SQL("r.{}").format(sql.Identifier(self._table.fields[name][1]))

    def _fetch_number(self, query: sql.Composed, values: Sequence[Any]) -> int:
        row = self._connection.execute(query, values).fetchone()
        return int(row[0]) if row else 0
