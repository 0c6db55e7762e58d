"""The table of the vectors of one space.

A vector is stored as it was given. Where its numbers are so large or small that the server could not compute
its length, the server has the unit vector, and the given one beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine.team.postgres import copy_format
from tabane.engine.team.postgres.copy_format import Cell
from tabane.engine.team.postgres.record_table import digest_of
from tabane.engine.unit_vectors import normalised

_PLAIN = 1900  # dimensions of a vector that fits into a page of the server
_SMALLEST, _LARGEST = 1e-12, 1e12  # lengths whose squares the server can add


class VectorTable:
    """The vectors of the space with that number, of the collection with that number."""

    def __init__(self, collection: int, space: int, dimension: int) -> None:
        self.dimension = dimension
        self.name = f"vector_{collection}_{space}"
        self.table = sql.Identifier(self.name)

    def create(self, connection: psycopg.Connection) -> None:
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
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.table))

    def digests(self, connection: psycopg.Connection, rows: Sequence[int]) -> dict[int, bytes]:
        query = sql.SQL("SELECT row, digest FROM {} WHERE row = ANY(%s)").format(self.table)
        return dict(connection.execute(query, (list(rows),)).fetchall())

    def insert(self, connection: psycopg.Connection, vectors: Iterable[tuple[int, bytes]]) -> None:
        command = sql.SQL("COPY {} (row, digest, vec, given) FROM STDIN (FORMAT BINARY)").format(self.table)
        with connection.cursor().copy(command) as copy:
            for block in copy_format.encoded(self._cells(row, vector) for row, vector in vectors):
                copy.write(block)

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
        return {row: copy_format.numbers_of(vector) if sent else vector for row, vector, sent in found}

    def between(self, connection: psycopg.Connection, after: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield the vectors of the rows behind ``after`` up to ``last``, as they were given."""
        query = sql.SQL(
            "SELECT row, coalesce(given, vector_send(vec)), given IS NULL FROM {} "
            "WHERE row > %s AND row <= %s"
        )
        with connection.cursor(binary=True) as cursor:
            for row, vector, sent in cursor.execute(query.format(self.table), (after, last)):
                yield row, copy_format.numbers_of(vector) if sent else vector

    def _cells(self, row: int, vector: bytes) -> list[Cell]:
        numbers = np.frombuffer(vector, dtype="<f4").astype(np.float64)
        usual = _SMALLEST < math.sqrt(float(numbers @ numbers)) < _LARGEST
        sent = vector if usual else unit(vector, self.dimension)
        return [copy_format.int8(row), digest_of(vector), copy_format.vector(sent), None if usual else vector]


def unit(vector: bytes, dimension: int) -> bytes:
    """Return the vector with length 1."""
    return bytes(normalised(vector, dimension)[0].astype("<f4"))
