"""API keys, tokens and profiles of a group of hubs, in the database that the hubs share.

Each change has a number from the counter of the group, taken inside its transaction. So the order of the
numbers is that of the commits, and a hub that has seen a number has seen every change before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg

from tabane.access.key_store import COLUMNS, FORGOTTEN_AFTER, MOST_KEYS, KeyRecord, record_of, row_of
from tabane.access.keys import SharedChanges, SharedKeys, name_taken
from tabane.access.token_bucket import TokenGrant, TokenLedger, granted
from tabane.errors import StoreFull
from tabane.group.profile_changes import FollowedChanges, ProfileChange, SharedProfiles
from tabane.group.tables.group_tables import GroupTables
from tabane.messages import say
from tabane.settings.limit_rules import CallRate

PAGE = 1000
"""Keys that are copied at once."""

MOST_AT_ONCE = 500
"""Uses of keys with one number: a page holds all of them."""

_NAMES = COLUMNS.split(", ")
_PLACES = ", ".join(["%s"] * len(_NAMES))
_NAMED = "SELECT 1 FROM hub_key WHERE name = %s AND revoked IS NULL"
_NUMBER = "UPDATE hub_counter SET last = last + 1 RETURNING last"
_ADD = f"INSERT INTO hub_key ({COLUMNS}, number) VALUES ({_PLACES}, %s)"
_PERSON = "(SELECT person FROM hub_key_person WHERE hub_key_person.id = hub_key.id)"
_ADD_PERSON = """
INSERT INTO hub_key_person (id, person) VALUES (%s, %s)
ON CONFLICT (id) DO UPDATE SET person = EXCLUDED.person
"""
_CHANGE = f"""
UPDATE hub_key SET
  {", ".join(f"{name} = %({name})s" for name in _NAMES if name not in ("id", "hash", "used", "revoked"))},
  revoked = coalesce(revoked, %(revoked)s), number = %(number)s
WHERE id = %(id)s RETURNING {COLUMNS}, {_PERSON}
"""
_USED = "UPDATE hub_key SET used = greatest(coalesce(used, 0), %s), number = %s WHERE id = %s"
_CHANGED = f"""
SELECT number, {COLUMNS}, {_PERSON} FROM hub_key WHERE number > %s ORDER BY number LIMIT {PAGE + 1}
"""
_LAST = "SELECT last FROM hub_counter"


class PostgresKeys(SharedKeys):
    """The keys of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def add(self, record: KeyRecord) -> bool:
        return await self._tables.write(lambda connection: _add_record(connection, record))

    async def change(self, record: KeyRecord) -> KeyRecord | None:
        def changing(connection: psycopg.Connection) -> KeyRecord | None:
            row = dict(zip(_NAMES, row_of(record), strict=True))
            values = {**row, "number": _number_change(connection)}
            connection.execute(_ADD_PERSON, (record.id, record.person))
            found = connection.execute(_CHANGE, values).fetchone()
            return record_of(found) if found else None

        return await self._tables.write(changing)

    async def record_uses(self, uses: Mapping[str, float]) -> None:
        def recording(connection: psycopg.Connection) -> None:
            number = _number_change(connection)
            for count, (id, when) in enumerate(uses.items(), 1):
                connection.execute(_USED, (when, number, id))
                if count % MOST_AT_ONCE == 0:
                    number = _number_change(connection)

        await self._tables.write(recording)

    async def changed(self, after: int) -> SharedChanges:
        def reading(connection: psycopg.Connection) -> SharedChanges:
            rows = connection.execute(_CHANGED, (after,)).fetchall()
            last = connection.execute(_LAST).fetchone()
            assert last is not None
            page = rows[:PAGE]
            if len(rows) <= PAGE:
                return SharedChanges([record_of(row[1:]) for row in page], last[0], False)
            # Uses that were recorded together have one number: the next page begins with all of them.
            whole = [row for row in page if row[0] < rows[PAGE][0]] or page
            return SharedChanges([record_of(row[1:]) for row in whole], whole[-1][0], True)

        return await self._tables.read(reading)


def _add_record(connection: psycopg.Connection, record: KeyRecord) -> bool:
    number = _number_change(connection)
    connection.execute("DELETE FROM hub_key WHERE revoked < %s", (record.created - FORGOTTEN_AFTER,))
    connection.execute("DELETE FROM hub_key_person WHERE id NOT IN (SELECT id FROM hub_key)")
    if connection.execute("SELECT 1 FROM hub_key WHERE id = %s", (record.id,)).fetchone():
        return False
    # The number is held until the end of the transaction, so no other hub adds a key meanwhile.
    if connection.execute(_NAMED, (record.name,)).fetchone():
        raise name_taken(record.name)
    found: Any = connection.execute("SELECT count(*) FROM hub_key").fetchone()
    if found[0] >= MOST_KEYS:
        raise StoreFull(
            say("There are {count} {count:key|keys}, which is the limit. Revoke some.", count=found[0])
        )
    connection.execute(_ADD, (*row_of(record), number))
    if record.person:
        connection.execute(_ADD_PERSON, (record.id, record.person))
    return True


def _number_change(connection: psycopg.Connection) -> int:
    """Return the number of a change, which is in order with all others until the transaction ends."""
    found = connection.execute(_NUMBER).fetchone()
    assert found is not None
    number: int = found[0]
    return number


_MAKE = "INSERT INTO hub_bucket (name, full_at) VALUES (%s, 0) ON CONFLICT DO NOTHING"
_FIND = """
SELECT full_at, extract(epoch FROM clock_timestamp())::float8 FROM hub_bucket WHERE name = %s FOR UPDATE
"""
_KEEP = "UPDATE hub_bucket SET full_at = %s WHERE name = %s"
_GIVE_BACK = "UPDATE hub_bucket SET full_at = full_at - %s WHERE name = %s"


class PostgresTokens(TokenLedger):
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


_SAVE = """
INSERT INTO hub_profile (name, change, number) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET change = EXCLUDED.change, number = EXCLUDED.number
"""
_CHANGED_PROFILES = "SELECT change FROM hub_profile WHERE number > %s ORDER BY number"


class PostgresProfiles(SharedProfiles):
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
            rows = connection.execute(_CHANGED_PROFILES, (after,)).fetchall()
            last = connection.execute(_LAST).fetchone()
            assert last is not None
            changes = [msgspec.json.decode(bytes(row[0]), type=ProfileChange) for row in rows]
            return FollowedChanges(changes, last[0])

        return await self._tables.read(reading)
