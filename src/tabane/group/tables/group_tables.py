"""Tables of a group of hubs that share one database: members, sessions, leases and jobs.

Each statement takes the time from the database, so the clocks of the machines do not matter.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec
import psycopg

from tabane.engine.input_checks import ALONE
from tabane.engine.team.postgres.database import PostgresDatabase, lock_schema
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.group.membership import (
    GONE_AFTER,
    LARGEST_SESSION,
    MOST_LEASES,
    MOST_MEMBERS,
    REMEMBERED,
    GroupMember,
    GroupState,
    GroupView,
    StoredSession,
)
from tabane.group.shared_records import JOBS_FORGOTTEN_AFTER, MOST_ENDED, SharedJob
from tabane.group.signatures import KEY_BYTES

TABLES = """
CREATE TABLE IF NOT EXISTS hub_group (one boolean PRIMARY KEY DEFAULT true CHECK (one), key bytea NOT NULL);
CREATE TABLE IF NOT EXISTS hub_member (
  id text PRIMARY KEY, mark text NOT NULL, address text NOT NULL, version text NOT NULL, state text NOT NULL,
  heartbeat timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS hub_session (
  digest text PRIMARY KEY, hub text NOT NULL, owner text NOT NULL, mode text NOT NULL,
  messages bytea NOT NULL);
CREATE INDEX IF NOT EXISTS hub_session_hub ON hub_session (hub);
CREATE TABLE IF NOT EXISTS hub_lease (server text PRIMARY KEY, hub text NOT NULL);
CREATE TABLE IF NOT EXISTS hub_counter (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), last bigint NOT NULL);
INSERT INTO hub_counter (last) VALUES (0) ON CONFLICT DO NOTHING;
CREATE UNLOGGED TABLE IF NOT EXISTS hub_bucket (name text PRIMARY KEY, full_at float8 NOT NULL);
CREATE TABLE IF NOT EXISTS hub_key (
  id text PRIMARY KEY, hash bytea NOT NULL, name text NOT NULL, allow text NOT NULL, deny text NOT NULL,
  read_only boolean NOT NULL, profile text NOT NULL, tier text NOT NULL,
  created float8 NOT NULL, expires float8, used float8, revoked float8, number bigint NOT NULL);
CREATE TABLE IF NOT EXISTS hub_key_person (id text PRIMARY KEY, person text NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS hub_key_name ON hub_key (name) WHERE revoked IS NULL;
CREATE INDEX IF NOT EXISTS hub_key_number ON hub_key (number);
CREATE TABLE IF NOT EXISTS hub_job (
  hub text NOT NULL, address text NOT NULL, job text NOT NULL, running boolean NOT NULL, state bytea NOT NULL,
  told timestamptz NOT NULL, cancel boolean NOT NULL DEFAULT false, PRIMARY KEY (hub, job));
CREATE TABLE IF NOT EXISTS hub_tool_use (
  hub text NOT NULL, holder text NOT NULL, tool text NOT NULL, weight float8 NOT NULL,
  PRIMARY KEY (hub, holder, tool));
CREATE TABLE IF NOT EXISTS hub_usage (
  hub text NOT NULL, day text NOT NULL, key text NOT NULL, client text NOT NULL, server text NOT NULL,
  tool text NOT NULL, label text NOT NULL, calls bigint NOT NULL, ok bigint NOT NULL, failed bigint NOT NULL,
  refused bigint NOT NULL, limited bigint NOT NULL, cancelled bigint NOT NULL, timed bigint NOT NULL,
  ms float8 NOT NULL, bytes bigint NOT NULL, saved bigint NOT NULL, buckets integer[] NOT NULL,
  counts bigint[] NOT NULL, PRIMARY KEY (hub, day, key, client, server, tool));
CREATE INDEX IF NOT EXISTS hub_usage_day ON hub_usage (day);
CREATE TABLE IF NOT EXISTS hub_profile (name text PRIMARY KEY, change bytea NOT NULL, number bigint NOT NULL);
CREATE TABLE IF NOT EXISTS hub_approval (
  id text PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, approval bytea NOT NULL);
CREATE TABLE IF NOT EXISTS hub_audit_log (
  hub text PRIMARY KEY, address text NOT NULL, first bigint NOT NULL, identity bytea NOT NULL,
  bytes bigint NOT NULL, oldest bigint NOT NULL, moved timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS hub_audit (
  hub text NOT NULL, seq bigint NOT NULL, number bigint GENERATED ALWAYS AS IDENTITY, time bigint NOT NULL,
  type text NOT NULL, key text NOT NULL, label text NOT NULL, client text NOT NULL, face text NOT NULL,
  server text NOT NULL, name text NOT NULL, outcome text NOT NULL, line text NOT NULL,
  PRIMARY KEY (hub, seq));
CREATE UNIQUE INDEX IF NOT EXISTS hub_audit_number ON hub_audit (number);
CREATE INDEX IF NOT EXISTS hub_audit_time ON hub_audit (time DESC, number DESC);
"""

T = TypeVar("T")

_MAKE_KEY = "INSERT INTO hub_group (key) VALUES (%s) ON CONFLICT DO NOTHING"
_FORGET = f"DELETE FROM hub_member WHERE heartbeat < clock_timestamp() - interval '{REMEMBERED} seconds'"
_FORGET_SESSIONS = "DELETE FROM hub_session WHERE hub NOT IN (SELECT id FROM hub_member)"
_FORGET_LEASES = "DELETE FROM hub_lease WHERE hub NOT IN (SELECT id FROM hub_member)"
_FORGET_BUCKETS = "DELETE FROM hub_bucket WHERE full_at < extract(epoch FROM clock_timestamp())"
_BEAT = """
INSERT INTO hub_member (id, mark, address, version, state, heartbeat)
VALUES (%s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, heartbeat = EXCLUDED.heartbeat
"""
_MEMBERS = f"""
SELECT id, mark, address, version, state, extract(epoch FROM clock_timestamp() - heartbeat)::float8
FROM hub_member ORDER BY heartbeat DESC LIMIT {MOST_MEMBERS}
"""
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8, last FROM hub_counter"
_KEEP = """
INSERT INTO hub_session (digest, hub, owner, mode, messages) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (digest) DO UPDATE SET messages = EXCLUDED.messages WHERE hub_session.hub = EXCLUDED.hub
"""
_CLAIM = f"""
UPDATE hub_session AS kept SET hub = %(hub)s WHERE digest = %(digest)s AND NOT EXISTS (
  SELECT FROM hub_member WHERE id = kept.hub AND state <> 'leaving'
  AND heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds')
"""
_SESSION = "SELECT digest, hub, owner, mode, messages FROM hub_session WHERE digest = %s"
_CLAIM_SERVER = f"""
INSERT INTO hub_lease AS kept (server, hub) VALUES (%(server)s, %(hub)s)
ON CONFLICT (server) DO UPDATE SET hub = EXCLUDED.hub WHERE NOT EXISTS (
  SELECT FROM hub_member WHERE id = kept.hub AND state <> 'leaving'
  AND heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds')
"""
_LEASES = f"SELECT server, hub FROM hub_lease ORDER BY server LIMIT {MOST_LEASES}"
_LOST = "SELECT digest FROM hub_session WHERE digest = ANY(%s) AND hub <> %s"


_LONGEST = 3.0
"""Seconds of a statement. A heartbeat that waits longer comes too late, and a new connection may answer."""


class GroupTables(GroupState):
    """The state of a group in a database, which the caller also closes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._writing, self._copying = CommitThread(database, _LONGEST), CommitThread(database)

    async def join(self, me: GroupMember) -> bytes:
        def joining(connection: psycopg.Connection) -> bytes:
            lock_schema(connection, self._database.schema)
            connection.execute(TABLES)
            connection.execute(_MAKE_KEY, (os.urandom(KEY_BYTES),))
            connection.execute(_FORGET)
            connection.execute(_FORGET_SESSIONS)
            connection.execute(_FORGET_LEASES)
            connection.execute(_FORGET_BUCKETS)
            connection.execute(_BEAT, _row(me))
            found = connection.execute("SELECT key FROM hub_group").fetchone()
            assert found is not None
            return bytes(found[0])

        return await self.write(joining)

    async def beat(self, me: GroupMember) -> GroupView:
        def beating(connection: psycopg.Connection) -> GroupView:
            connection.execute(_BEAT, _row(me))
            rows = connection.execute(_MEMBERS).fetchall()
            now = connection.execute(_NOW).fetchone()
            assert now is not None
            leases: dict[str, str] = dict(connection.execute(_LEASES).fetchall())
            return GroupView(now[0], tuple(GroupMember(*row) for row in rows), now[1], leases)

        return await self.write(beating)

    async def keep_session(self, session: StoredSession) -> None:
        packed = msgspec.msgpack.encode(session.messages)
        if len(packed) > LARGEST_SESSION:
            await self.drop_session(session.digest, session.hub)
            return
        row = (session.digest, session.hub, session.owner, session.mode, packed)
        await self.write(lambda connection: _ignore(connection.execute(_KEEP, row)))

    async def drop_session(self, digest: str, hub: str) -> None:
        statement = "DELETE FROM hub_session WHERE digest = %s AND hub = %s"
        await self.write(lambda connection: _ignore(connection.execute(statement, (digest, hub))))

    async def claim_session(self, digest: str, hub: str) -> StoredSession | None:
        def claiming(connection: psycopg.Connection) -> StoredSession | None:
            connection.execute(_CLAIM, {"digest": digest, "hub": hub})
            found = connection.execute(_SESSION, (digest,)).fetchone()
            if found is None:
                return None
            messages = msgspec.msgpack.decode(found[4], type=tuple[bytes, ...])
            return StoredSession(found[0], found[1], found[2], found[3], messages)

        return await self.write(claiming)

    async def lost_sessions(self, digests: list[str], hub: str) -> list[str]:
        return await self._database.read(
            lambda connection: [name for (name,) in connection.execute(_LOST, (digests, hub))]
        )

    async def claim_server(self, server: str, hub: str) -> str:
        def claiming(connection: psycopg.Connection) -> str:
            connection.execute(_CLAIM_SERVER, {"server": server, "hub": hub})
            found = connection.execute("SELECT hub FROM hub_lease WHERE server = %s", (server,)).fetchone()
            assert found is not None
            return str(found[0])

        return await self.write(claiming)

    async def release_server(self, server: str, hub: str) -> None:
        statement = "DELETE FROM hub_lease WHERE server = %s AND hub = %s"
        await self.write(lambda connection: _ignore(connection.execute(statement, (server, hub))))

    async def close(self) -> None:
        await asyncio.to_thread(self._writing.close)
        await asyncio.to_thread(self._copying.close)

    async def read(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run work in a transaction that sees one moment. Raises StoreError."""
        return await self._database.read(work)

    async def write(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run short work in a transaction of its own. Raises StoreError."""
        return await _do(self._writing, work)

    async def write_much(self, work: Callable[[psycopg.Connection], T]) -> T:
        """As :meth:`write`, for work that takes longer: no heartbeat waits for it."""
        return await _do(self._copying, work)


async def _do(thread: CommitThread, work: Callable[[psycopg.Connection], T]) -> T:
    answer = thread.submit(CommitJob(work, ALONE))
    found: T = await asyncio.shield(asyncio.wrap_future(answer))
    return found


def _row(me: GroupMember) -> tuple[str, ...]:
    return me.id, me.mark, me.address, me.version, me.state


def _ignore(_: object) -> None:
    return


def like(pattern: str) -> str:
    """Return a pattern for LIKE with the escape character ``\\``."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return storable(pattern.replace("*", "%"))


def storable(text: str) -> str:
    """Return a text as PostgreSQL can store it: without NUL and lone surrogates."""
    if "\0" not in text and text.isascii():
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


_TELL = """
INSERT INTO hub_job (hub, address, job, running, state, told)
VALUES (%(hub)s, %(address)s, %(job)s, %(running)s, %(state)s, clock_timestamp())
ON CONFLICT (hub, job) DO UPDATE SET running = EXCLUDED.running, state = EXCLUDED.state, told = EXCLUDED.told
"""
_WANTED = "SELECT job FROM hub_job WHERE hub = %s AND running AND cancel"
_JOBS = f"""
SELECT job.hub, job.address, job.job, job.running, job.state,
  coalesce(member.heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds', false),
  extract(epoch FROM job.told)::float8
FROM hub_job AS job LEFT JOIN hub_member AS member ON member.id = job.hub WHERE job.hub <> %s
"""
_MOST = f" ORDER BY job.told DESC LIMIT {8 * MOST_ENDED}"
_CANCEL = "UPDATE hub_job SET cancel = true WHERE hub = %s AND job = %s AND running"
_FORGET_JOBS = f"""
DELETE FROM hub_job WHERE told < clock_timestamp() - interval '{JOBS_FORGOTTEN_AFTER} seconds'
AND (NOT running OR hub NOT IN (
  SELECT id FROM hub_member WHERE heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds'))
"""
_FORGET_OLDEST = f"""
DELETE FROM hub_job WHERE (hub, job) IN (
  SELECT hub, job FROM hub_job WHERE NOT running ORDER BY told DESC OFFSET {MOST_ENDED})
"""


class PostgresJobs:
    """The jobs of a group. Raises StoreError if the database cannot be reached."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def tell(self, hub: str, jobs: list[SharedJob]) -> list[str]:
        """Keep the states of some of a hub's jobs. Return the keys of its jobs that are to be canceled."""

        def telling(connection: psycopg.Connection) -> list[str]:
            for job in jobs:
                row = {"hub": hub, "address": job.address, "job": job.key}
                connection.execute(_TELL, {**row, "running": job.running, "state": job.state})
            if not all(job.running for job in jobs):
                connection.execute(_FORGET_JOBS)
                connection.execute(_FORGET_OLDEST)
            return [key for (key,) in connection.execute(_WANTED, (hub,))]

        return await self._tables.write(telling)

    async def others(self, hub: str) -> list[SharedJob]:
        """Return the jobs of all other hubs."""

        def reading(connection: psycopg.Connection) -> list[SharedJob]:
            return [SharedJob(*row) for row in connection.execute(_JOBS + _MOST, (hub,))]

        return await self._tables.read(reading)

    async def find(self, hub: str, key: str) -> SharedJob | None:
        """Return a job of another hub; None if there is none with that key."""

        def finding(connection: psycopg.Connection) -> SharedJob | None:
            found = connection.execute(_JOBS + " AND job.job = %s" + _MOST, (hub, key)).fetchone()
            return SharedJob(*found) if found else None

        return await self._tables.read(finding)

    async def cancel(self, job: SharedJob) -> None:
        """Ask its hub to cancel a job."""

        def mark_canceled(connection: psycopg.Connection) -> None:
            connection.execute(_CANCEL, (job.hub, job.key))

        await self._tables.write(mark_canceled)
