"""The use of tools in a group of hubs, in the database that the hubs share."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tabane.engine.team.postgres.patterns import storable
from tabane.group.shared_use import MOST_WEIGHTS, ToolWeight
from tabane.group.tables.group_tables import GroupTables

_MINE = "SELECT holder, tool, weight FROM hub_tool_use WHERE hub = %s"
_KEEP = """
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
    """The use of tools at the hubs of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def mine(self, mark: str) -> list[ToolWeight]:
        return await self._tables.read(lambda connection: connection.execute(_MINE, (mark,)).fetchall())

    async def exchange(self, mark: str, weights: Sequence[ToolWeight], least: float) -> list[ToolWeight]:
        holders = [storable(holder) for holder, _, _ in weights]
        tools = [storable(tool) for _, tool, _ in weights]
        amounts = [weight for _, _, weight in weights]

        def exchanging(connection: psycopg.Connection) -> list[ToolWeight]:
            if weights:
                connection.execute(_KEEP, (mark, holders, tools, amounts))
                connection.execute(_FORGET, (mark, mark))
                connection.execute("DELETE FROM hub_tool_use WHERE weight < %s", (least,))
            return connection.execute(_OTHERS, (mark,)).fetchall()

        return await self._tables.write_much(exchanging)
