"""The schema of Tabane in a database, and its versions. Migrations run under a lock, each in one commit."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from tabane.engine.team.postgres import connections
from tabane.engine.team.postgres.formats import signed_number
from tabane.messages import say

OLDEST_SERVER = 150000  # PostgreSQL 15
OLDEST_PGVECTOR = (0, 7)  # halfvec, and casts in indexes
_ITERATIVE = (0, 8)  # hnsw.iterative_scan

MIGRATIONS: Sequence[str] = (
    """
    CREATE TABLE collection (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      domain text NOT NULL,
      name text NOT NULL,
      next bigint NOT NULL DEFAULT 1,
      changes bigint NOT NULL DEFAULT 0,
      next_space integer NOT NULL DEFAULT 1,
      spaces jsonb NOT NULL DEFAULT '[]',
      lexical jsonb NOT NULL DEFAULT '{}',
      UNIQUE (domain, name)
    )
    """,
    # log_from: the change behind which changes are logged; null while nobody follows the collection
    """
    ALTER TABLE collection ADD COLUMN log_from bigint;
    CREATE TABLE follower (
      collection integer NOT NULL REFERENCES collection ON DELETE CASCADE,
      name text NOT NULL,
      change bigint NOT NULL,
      row bigint NOT NULL,
      mark text NOT NULL,
      coming text NOT NULL,
      note text NOT NULL,
      seen timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (collection, name)
    );
    CREATE TABLE change_log (
      collection integer NOT NULL REFERENCES collection ON DELETE CASCADE,
      change bigint NOT NULL,
      space integer NOT NULL,
      first bigint NOT NULL,
      rows bigint[] NOT NULL,
      keys text[] NOT NULL,
      PRIMARY KEY (collection, change, space, first)
    )
    """,
    # Until here, texts in ASCII were missing in the lengths of pairs, but not among the records.
    r"""
    DO $$
    DECLARE stored record; spelt record; average numeric;
    BEGIN
      FOR stored IN SELECT id, (lexical->>'records')::numeric AS records FROM collection
                    WHERE (lexical->>'records')::numeric > 0 LOOP
        FOR spelt IN SELECT attname::text AS name FROM pg_attribute
                     WHERE attrelid = to_regclass('record_' || stored.id)
                       AND attnum > 0 AND NOT attisdropped AND attname LIKE 's\_%' LOOP
          EXECUTE format('SELECT avg(coalesce(char_length(%I), 0)) FROM %I',
                         spelt.name, 'record_' || stored.id) INTO average;
          UPDATE collection SET lexical = jsonb_set(lexical, ARRAY['lengths', spelt.name],
            to_jsonb(round(coalesce(average, 0) * stored.records))) WHERE id = stored.id;
        END LOOP;
      END LOOP;
    END $$
    """,
    # analysis: the version of the analysis that made the lexical index and the spelled texts
    "ALTER TABLE collection ADD COLUMN analysis integer NOT NULL DEFAULT 1",
)
"""The statements that bring the schema from each version to the next. Never change one that was released."""


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """The versions of a server and of its pgvector, and the schema that has pgvector's types."""

    server: str
    pgvector: str
    extension_schema: str

    @property
    def has_iterative_scan(self) -> bool:
        """Return whether an approximate index goes on until enough records match a filter."""
        return _numbers(self.pgvector) >= _ITERATIVE


def prepared(connection: psycopg.Connection, schema: str, place: str) -> ServerVersions:
    """Bring the schema to the current version. Return the versions of the server.

    The connection is in autocommit. Raises StoreError if a permission or the extension is missing.
    """
    _check_server(connection, place)
    with connection.transaction():
        lock(connection, schema)
        _extension(connection, place)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        versions = server_versions(connection)
        find_tables(connection, schema, versions)
        _migrate(connection, place)
    return versions


def lock(connection: psycopg.Connection, schema: str) -> None:
    """Take the lock under which tables are created and changed, until the transaction ends."""
    connection.execute(
        "SELECT pg_advisory_xact_lock(%s, %s)", (0x7ABA, signed_number(zlib.crc32(schema.encode())))
    )


def find_tables(connection: psycopg.Connection, schema: str, versions: ServerVersions) -> None:
    """Set the path by which the connection finds the tables of this schema and the types of pgvector."""
    path = sql.SQL(", ").join(map(sql.Identifier, dict.fromkeys((schema, versions.extension_schema))))
    connection.execute(sql.SQL("SET search_path TO {}").format(path))


def server_versions(connection: psycopg.Connection) -> ServerVersions:
    """Return the versions. The extension is there."""
    found = connection.execute(
        "SELECT current_setting('server_version'), extversion, nspname FROM pg_extension "
        "JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"
    ).fetchone()
    assert found is not None
    return ServerVersions(found[0].split()[0], found[1], found[2])


def _check_server(connection: psycopg.Connection, place: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        found = connection.info.server_version // 10000
        problem = say(
            "PostgreSQL {found} is too old; {least} or newer is needed",
            found=found,
            least=OLDEST_SERVER // 10000,
        )
        raise connections.unfit_server(place, problem)
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        problem = say("the encoding of the database is {found}, and must be UTF8", found=encoding or "?")
        raise connections.unfit_server(place, problem)


def _extension(connection: psycopg.Connection, place: str) -> None:
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is None:
        found = _installed(connection, place)
    if _numbers(found[0]) < OLDEST_PGVECTOR:
        problem = say(
            "pgvector {found} is too old; {least} or newer is needed. Run in that database: ALTER EXTENSION "
            "vector UPDATE",
            found=found[0],
            least=".".join(map(str, OLDEST_PGVECTOR)),
        )
        raise connections.unfit_server(place, problem)


def _installed(connection: psycopg.Connection, place: str) -> tuple[str]:
    """Install the extension, and return its version."""
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION vector")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        problem = say(
            "the extension pgvector is not installed on the server. Install it there, such as the package "
            "postgresql-17-pgvector"
        )
        raise connections.unfit_server(place, problem) from None
    except errors.InsufficientPrivilege:
        problem = say(
            "the extension pgvector is not in the database. Have an administrator run there: "
            "CREATE EXTENSION vector"
        )
        raise connections.unfit_server(place, problem) from None
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert found is not None
    return (found[0],)


def _migrate(connection: psycopg.Connection, place: str) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS format (version integer NOT NULL)")
    found = connection.execute("SELECT max(version) FROM format").fetchone()
    version = (found and found[0]) or 0
    if version > len(MIGRATIONS):
        raise connections.newer(place, version, len(MIGRATIONS))
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    if version < len(MIGRATIONS):
        connection.execute("DELETE FROM format")
        connection.execute("INSERT INTO format (version) VALUES (%s)", (len(MIGRATIONS),))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
