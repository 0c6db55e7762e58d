"""The approximate index (HNSW) of the vectors of one space.

It holds unit vectors in half precision, so that it is half as large, and no given number is out of its range.
It chooses candidates, whose similarities are computed from the full vectors.
https://github.com/pgvector/pgvector#hnsw
"""

from __future__ import annotations

from enum import StrEnum

import psycopg
from psycopg import sql

from tabane.engine.team.postgres.vector_table import VectorTable

_LARGEST = 4000  # dimensions of a halfvec that can be indexed
_EDGES, _EFFORT = 16, 64  # m and ef_construction
_MOST_MEMORY = 1 << 20  # kB for building
_MEMORY = (
    "SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes("
    "current_setting('maintenance_work_mem')) / 1024, %s)::text, false)"
)
_STATE = (
    "SELECT i.indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.relid = i.indrelid) "
    "FROM pg_index i WHERE i.indexrelid = to_regclass(%s)"
)


class IndexState(StrEnum):
    """``MISSING``: also one whose building was interrupted."""

    READY = "ready"
    BUILDING = "building"
    MISSING = "missing"


class ApproximateIndex:
    """The index of a table of vectors."""

    def __init__(self, table: VectorTable) -> None:
        self.table = table
        self.name = f"near_{table.name}"

    @property
    def is_possible(self) -> bool:
        return self.table.dimension <= _LARGEST

    def indexed(self, alias: str) -> sql.Composed:
        """Return what is indexed of a row with that alias."""
        return self._halved(sql.SQL("l2_normalize({}.vec)").format(sql.Identifier(alias)))

    def asked(self) -> sql.Composed:
        """Return what is compared with it: a unit vector as a parameter."""
        return self._halved(sql.SQL("%s::vector"))

    def _halved(self, vector: sql.Composable) -> sql.Composed:
        return sql.SQL("({}::halfvec({}))").format(vector, sql.Literal(self.table.dimension))

    def state(self, connection: psycopg.Connection) -> IndexState:
        found = connection.execute(_STATE, (self.name,)).fetchone()
        if found is None:
            return IndexState.MISSING
        valid, building = found
        if valid:
            return IndexState.READY
        return IndexState.BUILDING if building else IndexState.MISSING

    def drop(self, connection: psycopg.Connection) -> None:
        """Drop what is left of an interrupted build, without a lock on writers."""
        connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(self.name)))

    def create(self, connection: psycopg.Connection, vectors: int) -> None:
        """Build the index without a lock on writers. The connection is in autocommit."""
        connection.execute(_MEMORY, (self._memory(vectors),))
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw (({}) halfvec_ip_ops) "
                "WITH (m = {}, ef_construction = {})"
            ).format(
                sql.Identifier(self.name),
                self.table.table,
                self._halved(sql.SQL("l2_normalize(vec)")),
                sql.Literal(_EDGES),
                sql.Literal(_EFFORT),
            )
        )

    def _memory(self, vectors: int) -> int:
        """Return the kB in which the graph fits: halves, edges of two levels, and what a node needs."""
        needed = vectors * (2 * self.table.dimension + 3 * 16 * _EDGES + 256) * 5 // 4
        return min(needed // 1024, _MOST_MEMORY)
