"""The nearest vectors of one space by its approximate index, in one transaction.

The index chooses candidates; their similarities are those of the full vectors. Where a filter leaves so few
records that comparing them all is faster, or the index does not find enough of them, nothing is answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tabane.engine.team.postgres import spelling
from tabane.engine.team.postgres.approximate_index import ApproximateIndex
from tabane.engine.team.postgres.database import WireVector
from tabane.engine.team.postgres.filter_conditions import SqlCondition
from tabane.engine.team.postgres.record_table import RecordColumns
from tabane.engine.team.postgres.vector_table import VectorTable
from tabane.search.engine import EngineHit

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
        hits = [EngineHit(spelling.given(key), row, float(score)) for row, key, score in rows]
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
