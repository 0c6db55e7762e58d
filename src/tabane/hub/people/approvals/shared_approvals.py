"""Approvals of calls at the hubs of a group, in the database that the hubs share.

There are few of them, so each change reads all, does what one hub would do, and writes the differences. The
row of the counter is locked meanwhile: an approval is used once, whatever hubs ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
import psycopg

from tabane.errors import TabaneError
from tabane.group.tables.group_tables import GroupTables
from tabane.guard.approvals.approvals import Approval, Approvals

T = TypeVar("T")

_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
_LOCK = "SELECT last FROM hub_counter FOR UPDATE"
_LAST = "SELECT last FROM hub_counter"
_NUMBER = "UPDATE hub_counter SET last = last + 1 RETURNING last"
_ALL = "SELECT approval FROM hub_approval ORDER BY number"
_FORGET = "DELETE FROM hub_approval WHERE id = ANY(%s)"
_SAVE = """
INSERT INTO hub_approval (id, approval) VALUES (%s, %s)
ON CONFLICT (id) DO UPDATE SET approval = EXCLUDED.approval
"""


class GroupApprovals(NamedTuple):
    """All approvals of a group: at which change, and at what time by the shared clock."""

    number: int
    now: float
    approvals: tuple[Approval, ...]


class PostgresApprovals:
    """The approvals of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def read(self) -> GroupApprovals:
        """Return the approvals. Raises StoreError."""
        return await self._tables.read(lambda connection: _found(connection, _LAST))

    async def change(self, work: Callable[[Approvals], T]) -> tuple[T, GroupApprovals]:
        """Change the approvals in one transaction, and return what the work returns, and all of them.

        Raises StoreError, and the errors of the work, which changes nothing then.
        """

        def changing(connection: psycopg.Connection) -> tuple[T | TabaneError, GroupApprovals]:
            found = _found(connection, _LOCK)
            approvals = Approvals(lambda: found.now, found.approvals)
            try:
                result = work(approvals)
            except TabaneError as error:
                return error, found
            return result, _written(connection, found, approvals.whole())

        result, found = await self._tables.write(changing)
        if isinstance(result, TabaneError):
            raise result
        return result, found


def _found(connection: psycopg.Connection, last: str) -> GroupApprovals:
    number, now = connection.execute(last).fetchone(), connection.execute(_NOW).fetchone()
    assert number is not None
    assert now is not None
    rows = connection.execute(_ALL).fetchall()
    approvals = tuple(msgspec.json.decode(bytes(row[0]), type=Approval) for row in rows)
    return GroupApprovals(number[0], now[0], approvals)


def _written(
    connection: psycopg.Connection, before: GroupApprovals, after: tuple[Approval, ...]
) -> GroupApprovals:
    """Write what has changed, so that the other hubs see it with their next heartbeats."""
    known, kept = {one.id: one for one in before.approvals}, {one.id for one in after}
    changed = [one for one in after if known.get(one.id) != one]
    gone = [id for id in known if id not in kept]
    number = before.number
    if gone:
        connection.execute(_FORGET, (gone,))
    for one in changed:
        connection.execute(_SAVE, (one.id, msgspec.json.encode(one)))
    if gone or changed:
        counted = connection.execute(_NUMBER).fetchone()
        assert counted is not None
        number = counted[0]
    return GroupApprovals(number, before.now, after)
