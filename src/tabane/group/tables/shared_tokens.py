"""Token buckets of a group of hubs, in the database that they share. After a crash of it, all are full."""

from __future__ import annotations

import psycopg

from tabane.access.leased_bucket import TokenGrant, granted
from tabane.group.tables.group_tables import GroupTables
from tabane.settings.limit_rules import CallRate

_MAKE = "INSERT INTO hub_bucket (name, full_at) VALUES (%s, 0) ON CONFLICT DO NOTHING"
_FIND = """
SELECT full_at, extract(epoch FROM clock_timestamp())::float8 FROM hub_bucket WHERE name = %s FOR UPDATE
"""
_KEEP = "UPDATE hub_bucket SET full_at = %s WHERE name = %s"
_GIVE_BACK = "UPDATE hub_bucket SET full_at = full_at - %s WHERE name = %s"


class PostgresTokens:
    """The buckets of a group. A bucket that is not kept is full."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def take(self, name: str, calls: CallRate, most: int) -> TokenGrant:
        def taking(connection: psycopg.Connection) -> TokenGrant:
            connection.execute("SET LOCAL synchronous_commit = off")
            connection.execute(_MAKE, (name,))
            found = connection.execute(_FIND, (name,)).fetchone()
            assert found is not None
            grant, full_at = granted(found[0], found[1], calls, most)
            connection.execute(_KEEP, (full_at, name))
            return grant

        return await self._tables.write(taking)

    async def give_back(self, name: str, calls: CallRate, tokens: int) -> None:
        def giving(connection: psycopg.Connection) -> None:
            connection.execute(_GIVE_BACK, (tokens / calls.rate, name))

        await self._tables.write(giving)
