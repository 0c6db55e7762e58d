"""The index of the audit logs of a group of hubs, in the database that the hubs share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

from tabane.engine.team.postgres.copy_format import encoded, int8
from tabane.engine.team.postgres.patterns import like, storable
from tabane.group.shared_audit import (
    FORGOTTEN_AFTER,
    MOST_COUNTED,
    EntryConditions,
    EntryGroups,
    FoundLine,
    IndexedEntry,
    LogMark,
    LogPart,
)
from tabane.group.tables.group_tables import GroupTables

_TEXTS = IndexedEntry._fields[2:]
_PROPERTIES = ("type", "outcome", "server", "name", "key", "client", "face")
_MARK = "SELECT first, identity, bytes, oldest FROM hub_audit_log WHERE hub = %s"
_GONE = f"""
DELETE FROM hub_audit_log WHERE moved < clock_timestamp() - interval '{FORGOTTEN_AFTER} days' RETURNING hub
"""
_MOVE = """
INSERT INTO hub_audit_log (hub, address, first, identity, bytes, oldest, moved)
VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (hub) DO UPDATE SET address = EXCLUDED.address, first = EXCLUDED.first,
  identity = EXCLUDED.identity, bytes = EXCLUDED.bytes, oldest = EXCLUDED.oldest, moved = EXCLUDED.moved
"""
_ADD = f"COPY hub_audit (hub, seq, time, {', '.join(_TEXTS)}) FROM STDIN (FORMAT binary)"
_SAME = "DELETE FROM hub_audit WHERE hub = %s AND seq BETWEEN %s AND %s"
_FROM = "FROM hub_audit AS entry JOIN hub_audit_log AS log ON log.hub = entry.hub WHERE"
_PLACE = "SELECT time, number FROM hub_audit WHERE number = %s"
_NEWEST = "ORDER BY time DESC, number DESC"


class PostgresAudit:
    """The index of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def mark(self, hub: str) -> LogMark | None:
        def reading(connection: psycopg.Connection) -> LogMark | None:
            for (gone,) in connection.execute(_GONE).fetchall():
                connection.execute("DELETE FROM hub_audit WHERE hub = %s", (gone,))
            found = connection.execute(_MARK, (hub,)).fetchone()
            return LogMark(*found) if found else None

        return await self._tables.write_much(reading)

    async def add(self, hub: str, address: str, part: LogPart) -> None:
        def adding(connection: psycopg.Connection) -> None:
            if part.begins:
                connection.execute("DELETE FROM hub_audit WHERE hub = %s", (hub,))
            else:
                connection.execute(
                    "DELETE FROM hub_audit WHERE hub = %s AND seq < %s", (hub, part.mark.oldest)
                )
            mark = part.mark
            connection.execute(_MOVE, (hub, address, mark.first, mark.identity, mark.end, mark.oldest))
            if part.entries:
                seqs = [entry.seq for entry in part.entries]
                connection.execute(_SAME, (hub, min(seqs), max(seqs)))
                with connection.cursor().copy(_ADD) as copy:
                    for block in encoded(_cells(hub, part.entries)):
                        copy.write(block)

        await self._tables.write_much(adding)

    async def find(self, wanted: EntryConditions, before: int, offset: int, limit: int) -> list[FoundLine]:
        where, values = _conditions(wanted)

        def finding(connection: psycopg.Connection) -> list[FoundLine]:
            place = connection.execute(_PLACE, (before,)).fetchone() if before else None
            if before and place is None:
                return []  # its log has removed it
            older = " AND (time, number) < (%s, %s)" if place else ""
            statement = f"SELECT number, address, line {_FROM} {where}{older} {_NEWEST} OFFSET %s LIMIT %s"
            rows = connection.execute(statement, (*values, *(place or ()), offset, limit))
            return [FoundLine(*row) for row in rows]

        return await self._tables.read(finding)

    async def count(self, wanted: EntryConditions) -> int:
        where, values = _conditions(wanted)
        statement = f"SELECT count(*) FROM (SELECT 1 {_FROM} {where} LIMIT {MOST_COUNTED + 1}) AS found"

        def counting(connection: psycopg.Connection) -> int:
            found = connection.execute(statement, values).fetchone()
            assert found is not None
            return int(found[0])

        return await self._tables.read(counting)

    async def groups(self, wanted: EntryConditions) -> EntryGroups:
        where, values = _conditions(wanted)
        names = ", ".join((*_PROPERTIES, "address"))
        statement = f"SELECT {names}, count(*), min(time), max(time) {_FROM} {where} GROUP BY {names}"

        def grouping(connection: psycopg.Connection) -> EntryGroups:
            rows = connection.execute(statement, values).fetchall()
            counts = [(tuple(row[:-3]), row[-3]) for row in rows]
            earliest = min((row[-2] for row in rows), default=None)
            return EntryGroups(counts, earliest, max((row[-1] for row in rows), default=None))

        return await self._tables.read(grouping)


def _cells(hub: str, entries: Iterable[IndexedEntry]) -> Iterator[list[bytes]]:
    name, last = hub.encode(), -1
    for seq, time, *texts in entries:
        if seq > last:  # each number is there once, whatever somebody wrote into the log
            last = seq
            yield [name, int8(seq), int8(time), *(storable(text).encode() for text in texts)]


def _conditions(wanted: EntryConditions) -> tuple[str, list[Any]]:
    """Return the condition in SQL, and its values."""
    parts, values = ["true"], list[Any]()
    for condition, given in (
        ("time >= %s", wanted.start),
        ("time <= %s", wanted.end),
        ("seq = %s", wanted.seq),
        ("type = %s", wanted.type or None),
        ("outcome = ANY(%s)", list(wanted.outcomes) or None),
    ):
        if given is not None:
            parts.append(condition)
            values.append(given)
    for condition, pattern in (
        ("client LIKE %s", wanted.client),
        ("server LIKE %s", wanted.server),
        ("type = 'call' AND name LIKE %s", wanted.tool),
        ("name LIKE %s", wanted.action),
        ("address LIKE %s", wanted.hub),
        ("(key LIKE %s OR label LIKE %s)", wanted.key),
        ("(key LIKE %s OR label LIKE %s)", wanted.actor),
    ):
        if pattern:
            parts.append(condition)
            values += [like(pattern)] * condition.count("%s")
    if wanted.needles:
        one = 'strpos(lower(line COLLATE "C"), %s) > 0'
        parts.append(f"({' OR '.join([one] * len(wanted.needles))})")
        values += [storable(needle.decode("utf-8", "replace")) for needle in wanted.needles]
    return " AND ".join(parts), values
