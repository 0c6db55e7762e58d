"""Profiles that people changed at the hubs of a group, in the database that the hubs share."""

from __future__ import annotations

import msgspec
import psycopg

from tabane.group.profile_changes import FollowedChanges, ProfileChange
from tabane.group.tables.group_tables import GroupTables

_NUMBER = "UPDATE hub_counter SET last = last + 1 RETURNING last"
_SAVE = """
INSERT INTO hub_profile (name, change, number) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET change = EXCLUDED.change, number = EXCLUDED.number
"""
_CHANGED = "SELECT change FROM hub_profile WHERE number > %s ORDER BY number"
_LAST = "SELECT last FROM hub_counter"


class PostgresProfiles:
    """The changed profiles of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def save(self, change: ProfileChange) -> None:
        def saving(connection: psycopg.Connection) -> None:
            number = connection.execute(_NUMBER).fetchone()
            assert number is not None
            connection.execute(_SAVE, (change.name, msgspec.json.encode(change), number[0]))

        await self._tables.write(saving)

    async def changed(self, after: int) -> FollowedChanges:
        def reading(connection: psycopg.Connection) -> FollowedChanges:
            rows = connection.execute(_CHANGED, (after,)).fetchall()
            last = connection.execute(_LAST).fetchone()
            assert last is not None
            changes = [msgspec.json.decode(bytes(row[0]), type=ProfileChange) for row in rows]
            return FollowedChanges(changes, last[0])

        return await self._tables.read(reading)
