"""The table of the vectors of one space, its approximate index, and searches with that.

A vector is stored as it was given. Where its numbers are so large or small that the server could not
compute its length, the server has the unit vector, and the given one beside it.

The approximate index (HNSW) of the vectors of one space. It holds unit vectors in half precision, so that
it is half as large, and no given number is out of its range. It chooses candidates, whose similarities
are computed from the full vectors. https://github.com/pgvector/pgvector#hnsw

Approximate indexes of vectors, built in the background, one at a time for all hubs of a database. Two
builds in one database would wait for each other. An index is built concurrently, so writers and readers
go on. One whose build was interrupted is invalid: it is dropped, and built again.

A search with the index takes candidates from it, and compares their full vectors. Where a filter leaves so
few records that comparing them all is faster, or the index does not find enough of them, nothing is
answered.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import psycopg
from psycopg import errors, sql

from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.database import MaintenanceThread, PostgresDatabase, WireVector
from tabane.engine.team.postgres.formats import Cell, copy_rows
from tabane.engine.team.postgres.record_table import RecordColumns, SqlCondition, digest_of
from tabane.engine.vector_request import normalized
from tabane.search.engine import EngineHit

_PLAIN = 1900  # dimensions of a vector that fits into a page of the server
_SMALLEST, _LARGEST = 1e-12, 1e12  # lengths whose squares the server can add


class VectorTable:
    """The vectors of the space with that number, of the collection with that number."""

    def __init__(self, collection: int, space: int, dimension: int) -> None:
        self.dimension = dimension
        self.name = f"vector_{collection}_{space}"
        self.table = sql.Identifier(self.name)

    def create(self, connection: psycopg.Connection) -> None:
        """Create the table. Short vectors are stored beside their rows, so that a scan is fast."""
        connection.execute(
            sql.SQL(
                "CREATE TABLE {} (row bigint PRIMARY KEY, digest bytea NOT NULL, vec vector({}) NOT NULL, "
                "given bytea)"
            ).format(self.table, sql.Literal(self.dimension))
        )
        if self.dimension <= _PLAIN:  # beside its row, where a scan does not have to look it up
            alter = sql.SQL("ALTER TABLE {} ALTER COLUMN vec SET STORAGE PLAIN").format(self.table)
            connection.execute(alter)

    def drop(self, connection: psycopg.Connection) -> None:
        """Drop the table, if it exists."""
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.table))

    def digests(self, connection: psycopg.Connection, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the digests of the vectors of rows, by row."""
        query = sql.SQL("SELECT row, digest FROM {} WHERE row = ANY(%s)").format(self.table)
        return dict(connection.execute(query, (list(rows),)).fetchall())

    def insert(self, connection: psycopg.Connection, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Insert vectors of float32, little-endian. No vector's row is in the table yet."""
        rows = (self._encode_cells(row, vector) for row, vector in vectors)
        copy_rows(connection, self.table, sql.SQL("row, digest, vec, given"), rows)

    def delete(self, connection: psycopg.Connection, rows: Sequence[int]) -> int:
        """Delete the vectors of rows. Return how many there were."""
        command = sql.SQL("DELETE FROM {} WHERE row = ANY(%s)").format(self.table)
        return connection.execute(command, (list(rows),)).rowcount

    def given(self, connection: psycopg.Connection, rows: Sequence[int]) -> Mapping[int, bytes]:
        """Return the vectors of rows, as they were given."""
        query = sql.SQL(
            "SELECT row, coalesce(given, vector_send(vec)), given IS NULL FROM {} WHERE row = ANY(%s)"
        )
        found = connection.execute(query.format(self.table), (list(rows),))
        return {row: formats.numbers_of(vector) if sent else vector for row, vector, sent in found}

    def between(self, connection: psycopg.Connection, after: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield the vectors of the rows behind ``after`` up to ``last``, as they were given."""
        query = sql.SQL(
            "SELECT row, coalesce(given, vector_send(vec)), given IS NULL FROM {} "
            "WHERE row > %s AND row <= %s"
        )
        with connection.cursor(binary=True) as cursor:
            for row, vector, sent in cursor.execute(query.format(self.table), (after, last)):
                yield row, formats.numbers_of(vector) if sent else vector

    def _encode_cells(self, row: int, vector: bytes) -> list[Cell]:
        numbers = np.frombuffer(vector, dtype="<f4").astype(np.float64)
        usual = _SMALLEST < math.sqrt(float(numbers @ numbers)) < _LARGEST
        sent = vector if usual else unit(vector, self.dimension)
        return [formats.int8(row), digest_of(vector), formats.vector(sent), None if usual else vector]


def unit(vector: bytes, dimension: int) -> bytes:
    """Return the vector with length 1."""
    return bytes(normalized(vector, dimension)[0].astype("<f4"))


_MOST_INDEXED_DIMENSIONS = 4000  # dimensions of a halfvec that can be indexed
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
        """Return whether vectors of that dimension can be indexed."""
        return self.table.dimension <= _MOST_INDEXED_DIMENSIONS

    def indexed(self, alias: str) -> sql.Composed:
        """Return what is indexed of a row with that alias."""
        return self._as_halfvec(sql.SQL("l2_normalize({}.vec)").format(sql.Identifier(alias)))

    def asked(self) -> sql.Composed:
        """Return what is compared with it: a unit vector as a parameter."""
        return self._as_halfvec(sql.SQL("%s::vector"))

    def _as_halfvec(self, vector: sql.Composable) -> sql.Composed:
        return sql.SQL("({}::halfvec({}))").format(vector, sql.Literal(self.table.dimension))

    def state(self, connection: psycopg.Connection) -> IndexState:
        """Return whether the index can be used, is being built, or is missing."""
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
        needed = vectors * (2 * self.table.dimension + 3 * 16 * _EDGES + 256) * 5 // 4
        connection.execute(_MEMORY, (min(needed // 1024, _MOST_MEMORY),))
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw (({}) halfvec_ip_ops) "
                "WITH (m = {}, ef_construction = {})"
            ).format(
                sql.Identifier(self.name),
                self.table.table,
                self._as_halfvec(sql.SQL("l2_normalize(vec)")),
                sql.Literal(_EDGES),
                sql.Literal(_EFFORT),
            )
        )


log = logging.getLogger(__name__)

_LOCK = "SELECT pg_try_advisory_lock(%s, 0)"
_LOCKED = 0x7ABB
# A build takes as long as it takes. The server ends it if this process has ended.
_PATIENTLY = (
    "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), "
    "set_config('client_connection_check_interval', '2s', false)"
)
_ALONE = "SELECT set_config('max_parallel_maintenance_workers', '0', false)"
_REST, _LONGEST_REST = 1.0, 300.0  # seconds after a failure, doubled with each
_MOST_FAILURES = 10  # that are counted


class ApproximateIndexBuilder:
    """Builds the indexes of spaces with at least ``least`` vectors; None: builds none.

    ``ended`` is called after each build, whether it succeeded or not.
    """

    def __init__(self, database: PostgresDatabase, least: int | None, ended: Callable[[], None]) -> None:
        self.least = least
        self._database, self._ended = database, ended
        self._thread = MaintenanceThread(database, "postgres-indexer")
        self._gate = threading.Lock()
        self._ready: set[str] = set()
        self._waiting: set[str] = set()
        self._failures, self._rested = 0, 0.0

    @property
    def has_iterative_scan(self) -> bool:
        """Return whether the server goes on until enough records match a filter."""
        return self._database.versions.has_iterative_scan

    def wants(self, index: ApproximateIndex, vectors: int) -> bool:
        """Return whether a space with so many vectors has an index, or will have one."""
        return self.least is not None and vectors >= self.least and index.is_possible

    def consider(self, index: ApproximateIndex, vectors: int) -> None:
        """Request the index if it does not exist, unless a build has just failed."""
        if not self.wants(index, vectors):
            return
        with self._gate:
            known = index.name in self._ready or index.name in self._waiting
            if known or not self._thread.is_open or time.monotonic() < self._rested:
                return
            self._waiting.add(index.name)
            self._thread.submit(self._try_build, index, vectors)

    def miss(self, index: ApproximateIndex, vectors: int) -> None:
        """Request an index that a query did not find."""
        with self._gate:
            self._ready.discard(index.name)
        self.consider(index, vectors)

    def close(self) -> None:
        """Cancel a build, and end the thread. A second call does nothing."""
        self._thread.close()

    def _try_build(self, index: ApproximateIndex, vectors: int) -> None:
        ready = failed = False
        try:
            ready = self._build_index(index, vectors)
        except psycopg.Error as error:
            failed = True
            if self._thread.is_open and not isinstance(error, errors.UndefinedTable):  # its space was dropped
                log.warning("the approximate index %s was not built: %s", index.name, error)
        finally:
            self._note_build(index, ready=ready, failed=failed)
        if self._thread.is_open:
            self._ended()

    def _note_build(self, index: ApproximateIndex, *, ready: bool, failed: bool) -> None:
        with self._gate:
            self._waiting.discard(index.name)
            if ready:
                self._ready.add(index.name)
                self._failures = 0
                return
            self._rested = time.monotonic() + min(_REST * 2**self._failures, _LONGEST_REST)
            self._failures = min(self._failures + failed, _MOST_FAILURES)

    def _build_index(self, index: ApproximateIndex, vectors: int) -> bool:
        """Build the index. Return False if another hub builds one."""
        with self._thread.connected() as connection:
            if index.state(connection) is IndexState.READY:
                return True
            connection.limit = None
            connection.execute(_PATIENTLY)
            found = connection.execute(_LOCK, (_LOCKED,)).fetchone()
            if not found or not found[0]:
                return False
            if index.state(connection) is not IndexState.READY:  # nobody builds it now
                if self._failures:  # such as one because of little shared memory, which several workers need
                    connection.execute(_ALONE)
                index.drop(connection)
                began = time.monotonic()
                log.info("building the approximate index %s of %d vectors", index.name, vectors)
                index.create(connection, vectors)
                log.info("built the approximate index %s in %.0f s", index.name, time.monotonic() - began)
            return True


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


_SPACES = (
    "SELECT c.id, s.number, s.dimension, c.domain, c.name, s.name, s.vectors FROM collection c, "
    "jsonb_to_recordset(c.spaces) AS s(name text, number integer, dimension integer, vectors bigint) "
    "WHERE s.vectors >= %s ORDER BY 4, 5, 2"
)

_FOLLOWED = (
    "SELECT c.domain, c.name, f.change, c.changes, f.row, c.next - 1 FROM follower f "
    "JOIN collection c ON c.id = f.collection WHERE f.name = %s ORDER BY 1, 2"
)


def follower_report(connection: psycopg.Connection, follower: str) -> list[dict[str, Any]]:
    """Return each collection that a follower copies, and how far it is.

    ``change`` of ``changes`` changes, and ``row`` of ``rows`` rows.
    """
    names = ("domain", "collection", "change", "changes", "row", "rows")
    found = connection.execute(_FOLLOWED, (follower,)).fetchall()
    return [dict(zip(names, each, strict=True)) for each in found]


def index_report(connection: psycopg.Connection, least: int) -> list[dict[str, Any]]:
    """Return each space with ``least`` vectors or more, and the state of its approximate index."""
    found, rows = [], connection.execute(_SPACES, (least,)).fetchall()
    for *table, domain, collection, space, vectors in rows:
        index = ApproximateIndex(VectorTable(*table))
        if index.is_possible:
            row = {"domain": domain, "collection": collection, "space": space, "vectors": vectors}
            found.append({**row, "state": index.state(connection).value})
    return found
