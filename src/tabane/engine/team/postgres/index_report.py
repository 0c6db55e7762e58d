"""The state of the approximate indexes of all collections of a database, and how far a follower is."""

from __future__ import annotations

from typing import Any

import psycopg

from tabane.engine.team.postgres.approximate_index import ApproximateIndex
from tabane.engine.team.postgres.vector_table import VectorTable

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
