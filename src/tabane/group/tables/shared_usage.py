"""Usage by day in a group of hubs, in the database that the hubs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from tabane.engine.team.postgres.patterns import like, storable
from tabane.group.shared_use import UsageConditions, UsageGrouping, UsagePage, UsageRow, UsageSums
from tabane.group.tables.group_tables import GroupTables

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
    """The usage of the hubs of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def days(self, mark: str) -> Mapping[str, int]:
        return await self._tables.read(lambda connection: dict(connection.execute(_DAYS, (mark,)).fetchall()))

    async def keep(self, mark: str, rows: Sequence[UsageRow]) -> None:
        ready = [(mark, *_values(row)) for row in rows]

        def keeping(connection: psycopg.Connection) -> None:
            connection.cursor().executemany(_KEEP, ready)

        await self._tables.write_much(keeping)

    async def forget_before(self, day: str) -> None:
        def forgetting(connection: psycopg.Connection) -> None:
            connection.execute("DELETE FROM hub_usage WHERE day < %s", (day,))

        await self._tables.write_much(forgetting)

    async def page(self, wanted: UsageConditions, by: UsageGrouping, offset: int, limit: int) -> UsagePage:
        return await self._tables.read(lambda connection: _page(connection, wanted, by, offset, limit))

    async def used_tools(self, wanted: UsageConditions) -> list[tuple[str, str, int]]:
        where, values = _conditions(wanted)
        statement = (
            f"SELECT tool, server, sum(calls)::bigint FROM hub_usage WHERE {where} GROUP BY tool, server"
        )
        return await self._tables.read(lambda connection: connection.execute(statement, values).fetchall())


def _page(
    connection: psycopg.Connection, wanted: UsageConditions, by: UsageGrouping, offset: int, limit: int
) -> UsagePage:
    where, values = _conditions(wanted)
    order = "1 DESC" if by == "day" else "sum(calls) DESC, 1"
    rows = connection.execute(
        f"SELECT {by}, max(label), max(server), count(DISTINCT server), {_SUMS} FROM hub_usage "
        f"WHERE {where} GROUP BY 1 ORDER BY {order} LIMIT %s OFFSET %s",
        (*values, limit, offset),
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


def _conditions(wanted: UsageConditions) -> tuple[str, list[Any]]:
    """Return the condition in SQL, and its values."""
    parts, values = ["day BETWEEN %s AND %s"], [wanted.first, wanted.last]
    for column, pattern in (("server", wanted.server), ("tool", wanted.tool), ("client", wanted.client)):
        if pattern:
            parts.append(f"{column} LIKE %s")
            values.append(like(pattern))
    if wanted.key:
        parts.append("(key LIKE %s OR label LIKE %s)")
        values += [like(wanted.key)] * 2
    if wanted.holder is not None:
        parts.append("key = %s")
        values.append(storable(wanted.holder))
    return " AND ".join(parts), values
