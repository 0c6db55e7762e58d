"""Usage by day, the use of tools and the index of the audit logs, in the database that the hubs share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg

from tabane.audit.index_requests import EntryFilter, EntryQuery, UsageQuery
from tabane.audit.log_lines import needles_of
from tabane.audit.lookups import condition as lookup_condition
from tabane.engine.team.postgres.formats import encoded, int8
from tabane.group.shared_records import (
    FORGOTTEN_AFTER,
    MOST_COUNTED,
    MOST_WEIGHTS,
    EntryGroups,
    FoundLine,
    IndexedEntry,
    LogMark,
    LogPart,
    ToolWeight,
    UsagePage,
    UsageRow,
    UsageSums,
)
from tabane.group.tables.group_tables import GroupTables, like, storable

AMOUNTS = ("calls", "ok", "failed", "refused", "limited", "cancelled", "timed", "ms", "bytes", "saved")
"""The columns of the amounts, in the order of :class:`UsageRow`."""

_NAMES = ("day", "key", "client", "server", "tool")
_COLUMNS = (*_NAMES, "label", *AMOUNTS, "buckets", "counts")
_SUMS = ", ".join(f"sum({name})::float8" for name in AMOUNTS)
_KEEP = f"""
INSERT INTO hub_usage (hub, {", ".join(_COLUMNS)}) VALUES (%s, {", ".join(["%s"] * len(_COLUMNS))})
ON CONFLICT (hub, {", ".join(_NAMES)}) DO UPDATE SET
  {", ".join(f"{name} = EXCLUDED.{name}" for name in _COLUMNS if name not in _NAMES)}
WHERE EXCLUDED.calls >= hub_usage.calls
"""
_DAYS = "SELECT day, sum(calls)::bigint FROM hub_usage WHERE hub = %s GROUP BY day"
_BUCKETS = "hub_usage, unnest(buckets, counts) AS latency(bucket, count)"


class PostgresUsage:
    """The usage of the hubs of a group. Raises StoreError if the database cannot be reached."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def days(self, mark: str) -> Mapping[str, int]:
        """Return how many calls of a hub are kept for each day."""
        return await self._tables.read(lambda connection: dict(connection.execute(_DAYS, (mark,)).fetchall()))

    async def keep(self, mark: str, rows: Sequence[UsageRow]) -> None:
        """Keep rows of a hub, if they have more calls than before."""
        ready = [(mark, *_values(row)) for row in rows]

        def keeping(connection: psycopg.Connection) -> None:
            connection.cursor().executemany(_KEEP, ready)

        await self._tables.write_much(keeping)

    async def forget_before(self, day: str) -> None:
        """Forget the earlier days of all hubs, also of those that are gone."""

        def forgetting(connection: psycopg.Connection) -> None:
            connection.execute("DELETE FROM hub_usage WHERE day < %s", (day,))

        await self._tables.write_much(forgetting)

    async def page(self, query: UsageQuery) -> UsagePage:
        """Return groups of the usage of all hubs: days from the latest one, others by their calls."""
        return await self._tables.read(lambda connection: _page(connection, query))

    async def used_tools(self, query: UsageQuery) -> list[tuple[str, str, int]]:
        """Return each tool and server that was called at any hub, and the number of calls."""
        where, values = _conditions(query)
        statement = (
            f"SELECT tool, server, sum(calls)::bigint FROM hub_usage WHERE {where} GROUP BY tool, server"
        )
        return await self._tables.read(lambda connection: connection.execute(statement, values).fetchall())


def _page(connection: psycopg.Connection, query: UsageQuery) -> UsagePage:
    by = query.by
    where, values = _conditions(query)
    order = "1 DESC" if by == "day" else "sum(calls) DESC, 1"
    rows = connection.execute(
        f"SELECT {by}, max(label), max(server), count(DISTINCT server), {_SUMS} FROM hub_usage "
        f"WHERE {where} GROUP BY 1 ORDER BY {order} LIMIT %s OFFSET %s",
        (*values, query.limit, query.offset),
    ).fetchall()
    buckets: dict[str, list[tuple[int, int]]] = {}
    for name, bucket, count in connection.execute(
        f"SELECT {by}, bucket, sum(count)::bigint FROM {_BUCKETS} WHERE {where} AND {by} = ANY(%s) "
        "GROUP BY 1, 2",
        (*values, [row[0] for row in rows]),
    ):
        buckets.setdefault(name, []).append((bucket, count))
    groups = [
        UsageSums(row[0], row[1], row[2], row[3], tuple(row[4:]), buckets.get(row[0], [])) for row in rows
    ]
    total = connection.execute(
        f"SELECT count(DISTINCT {by}), {_SUMS} FROM hub_usage WHERE {where}", values
    ).fetchone()
    assert total is not None
    of_all = connection.execute(
        f"SELECT bucket, sum(count)::bigint FROM {_BUCKETS} WHERE {where} GROUP BY 1", values
    ).fetchall()
    return UsagePage(groups, total[0], tuple(amount or 0.0 for amount in total[1:]), of_all)


def _values(row: UsageRow) -> tuple[Any, ...]:
    names = (row.day, row.key, row.client, row.server, row.tool, row.label)
    buckets, counts = [bucket for bucket, _ in row.buckets], [count for _, count in row.buckets]
    return (*map(storable, names), *row.amounts, buckets, counts)


def _conditions(wanted: UsageQuery) -> tuple[str, list[Any]]:
    """Return the condition in SQL, and its values."""
    parts, values = ["day BETWEEN %s AND %s"], [wanted.first, wanted.last]
    for column, pattern in (("server", wanted.server), ("tool", wanted.tool), ("client", wanted.client)):
        if pattern:
            parts.append(f"{column} LIKE %s")
            values.append(like(pattern))
    if wanted.of_servers:
        parts.append("server <> ''")
    if wanted.key:
        parts.append("(key LIKE %s OR label LIKE %s)")
        values += [like(wanted.key)] * 2
    if wanted.holder is not None:
        parts.append("key = %s")
        values.append(storable(wanted.holder))
    hidden, names = lookup_condition(wanted.lookups, "tool", "server = ''", "%s")
    if hidden:
        parts.append(hidden)
        values += names
    return " AND ".join(parts), values


_MINE = "SELECT holder, tool, weight FROM hub_tool_use WHERE hub = %s"
_KEEP_TOOL_USE = """
INSERT INTO hub_tool_use (hub, holder, tool, weight)
SELECT %s, holder, tool, max(weight)
FROM unnest(%s::text[], %s::text[], %s::float8[]) AS given(holder, tool, weight)
GROUP BY holder, tool
ON CONFLICT (hub, holder, tool) DO UPDATE SET weight = greatest(hub_tool_use.weight, EXCLUDED.weight)
"""
_FORGET = f"""
DELETE FROM hub_tool_use WHERE hub = %s AND weight < (
  SELECT weight FROM hub_tool_use WHERE hub = %s ORDER BY weight DESC OFFSET {MOST_WEIGHTS - 1} LIMIT 1)
"""
_OTHERS = f"""
SELECT holder, tool, sum(weight) FROM hub_tool_use WHERE hub <> %s GROUP BY holder, tool
ORDER BY 3 DESC LIMIT {MOST_WEIGHTS}
"""


class PostgresToolUse:
    """The use of tools at the hubs of a group. Raises StoreError if the database cannot be reached."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def mine(self, mark: str) -> list[ToolWeight]:
        """Return what is kept of a hub."""
        return await self._tables.read(lambda connection: connection.execute(_MINE, (mark,)).fetchall())

    async def exchange(self, mark: str, weights: Sequence[ToolWeight], least: float) -> list[ToolWeight]:
        """Keep weights of a hub, never smaller ones than before. Return the sums of all other hubs.

        Forget weights of any hub that are smaller than ``least``.
        """
        holders = [storable(holder) for holder, _, _ in weights]
        tools = [storable(tool) for _, tool, _ in weights]
        amounts = [weight for _, _, weight in weights]

        def exchanging(connection: psycopg.Connection) -> list[ToolWeight]:
            if weights:
                connection.execute(_KEEP_TOOL_USE, (mark, holders, tools, amounts))
                connection.execute(_FORGET, (mark, mark))
                connection.execute("DELETE FROM hub_tool_use WHERE weight < %s", (least,))
            return connection.execute(_OTHERS, (mark,)).fetchall()

        return await self._tables.write_much(exchanging)


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
    """The index of a group. Raises StoreError if the database cannot be reached."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def mark(self, hub: str) -> LogMark | None:
        """Return how far the log of a hub is in the index; None if nothing of it is."""

        def reading(connection: psycopg.Connection) -> LogMark | None:
            for (gone,) in connection.execute(_GONE).fetchall():
                connection.execute("DELETE FROM hub_audit WHERE hub = %s", (gone,))
            found = connection.execute(_MARK, (hub,)).fetchone()
            return LogMark(*found) if found else None

        return await self._tables.write_much(reading)

    async def add(self, hub: str, address: str, part: LogPart) -> None:
        """Add entries of a hub, forget those that its log has no more, and move its mark."""

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

    async def find(self, query: EntryQuery, before: int, offset: int, limit: int) -> list[FoundLine]:
        """Return matching entries, newest first: those older than the entry ``before``, if it is not 0."""
        where, values = _entry_conditions(query.filter, query.seq)

        def finding(connection: psycopg.Connection) -> list[FoundLine]:
            place = connection.execute(_PLACE, (before,)).fetchone() if before else None
            if before and place is None:
                return []  # its log has removed it
            older = " AND (time, number) < (%s, %s)" if place else ""
            statement = f"SELECT number, address, line {_FROM} {where}{older} {_NEWEST} OFFSET %s LIMIT %s"
            rows = connection.execute(statement, (*values, *(place or ()), offset, limit))
            return [FoundLine(*row) for row in rows]

        return await self._tables.read(finding)

    async def count(self, query: EntryQuery) -> int:
        """Return how many entries match, at most one more than :data:`MOST_COUNTED`."""
        where, values = _entry_conditions(query.filter, query.seq)
        statement = f"SELECT count(*) FROM (SELECT 1 {_FROM} {where} LIMIT {MOST_COUNTED + 1}) AS found"

        def counting(connection: psycopg.Connection) -> int:
            found = connection.execute(statement, values).fetchone()
            assert found is not None
            return int(found[0])

        return await self._tables.read(counting)

    async def groups(self, wanted: EntryFilter) -> EntryGroups:
        """Return the counts of matching entries."""
        where, values = _entry_conditions(wanted, None)
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


def _entry_conditions(wanted: EntryFilter, seq: int | None) -> tuple[str, list[Any]]:
    """Return the condition in SQL, and its values."""
    parts, values = ["true"], list[Any]()
    for condition, given in (
        ("time >= %s", wanted.start),
        ("time <= %s", wanted.end),
        ("seq = %s", seq),
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
    hidden, names = lookup_condition(
        wanted.lookups, "name", "type = 'call' AND server = '' AND outcome = 'ok'", "%s"
    )
    if hidden:
        parts.append(hidden)
        values += names
    if wanted.text:
        needles = needles_of(wanted.text)
        one = 'strpos(lower(line COLLATE "C"), %s) > 0'
        parts.append(f"({' OR '.join([one] * len(needles))})")
        values += [storable(needle.decode("utf-8", "replace")) for needle in needles]
    return " AND ".join(parts), values
