"""The sets of one collection in an index outside of the database, and what its follower notes about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
import psycopg

_IDENTITY = (
    "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute') "
    "THEN (SELECT system_identifier::text FROM pg_control_system()) END, current_database(), current_schema()"
)
KEYWORDS = 0  # instead of the number of a space: the set of the texts
_NOTES = msgspec.json.Decoder(dict[str, str])


def set_prefix(connection: psycopg.Connection, collection: int) -> str:
    """Return what the names of the sets of a collection begin with. No other database has the same."""
    found = connection.execute(_IDENTITY).fetchone()
    return f"{hashlib.sha256(repr(found).encode()).hexdigest()[:12]}_{collection}"


def set_name(prefix: str, space: int) -> str:
    return f"{prefix}_{space}"


def written(notes: Mapping[int, str]) -> str:
    """Return a note of the follower: number of a space → what a search of its set has to pass."""
    return msgspec.json.encode({str(number): note for number, note in notes.items()}).decode()


def read(note: str) -> dict[int, str]:
    return {int(number): each for number, each in _NOTES.decode(note).items()} if note else {}
