"""Tables of a group of hubs that share one database. Only hubs of a group create and use them.

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
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.migrations import lock
from tabane.engine.team.postgres.write_thread import CommitJob, CommitThread
from tabane.group.signatures import KEY_BYTES
from tabane.group.state import (
    GONE_AFTER,
    LARGEST_SESSION,
    MOST_LEASES,
    MOST_MEMBERS,
    REMEMBERED,
    GroupMember,
    GroupView,
    StoredSession,
)
from tabane.group.tables.group_schema import TABLES

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


class GroupTables:
    """The state of a group in a database, which the caller also closes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._writing, self._copying = CommitThread(database, _LONGEST), CommitThread(database)

    async def join(self, me: GroupMember) -> bytes:
        def joining(connection: psycopg.Connection) -> bytes:
            lock(connection, self._database.schema)
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
        await self.write(lambda connection: _none(connection.execute(_KEEP, row)))

    async def drop_session(self, digest: str, hub: str) -> None:
        statement = "DELETE FROM hub_session WHERE digest = %s AND hub = %s"
        await self.write(lambda connection: _none(connection.execute(statement, (digest, hub))))

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
        await self.write(lambda connection: _none(connection.execute(statement, (server, hub))))

    async def close(self) -> None:
        await asyncio.to_thread(self._writing.close)
        await asyncio.to_thread(self._copying.close)

    async def read(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run work in a transaction that sees one moment. Raises StoreError."""
        return await self._database.read(work)

    async def write(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run short work in a transaction of its own. Raises StoreError."""
        return await _done(self._writing, work)

    async def write_much(self, work: Callable[[psycopg.Connection], T]) -> T:
        """As :meth:`write`, for work that takes longer: no heartbeat waits for it."""
        return await _done(self._copying, work)


async def _done(thread: CommitThread, work: Callable[[psycopg.Connection], T]) -> T:
    answer = thread.submit(CommitJob(work, ALONE))
    found: T = await asyncio.shield(asyncio.wrap_future(answer))
    return found


def _row(me: GroupMember) -> tuple[str, ...]:
    return me.id, me.mark, me.address, me.version, me.state


def _none(_: object) -> None:
    return
