"""Usage in a group of hubs: that of this hub is given to the group, and that of all hubs is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Protocol

from tabane.audit.index_requests import IndexTask, UsageDays, UsageOfDay, UsageQuery
from tabane.audit.usage_figures import KEPT_DAYS, usage_figures, usage_group
from tabane.group.shared_use import SharedUsage, UsageConditions, UsageRow, UsageSums

EVERY = 60.0
"""Seconds between two exchanges that nobody asked for."""

_PAGE = 1000


class LocalIndex(Protocol):
    """The index of this hub's log."""

    async def ask(self, task: IndexTask) -> Any: ...


class GroupUsage:
    """The usage of a group, in which this hub has a mark. ``folder`` is that of its log.

    ``newest`` returns the seq of the newest entry of the log, and ``clock`` seconds.
    """

    def __init__(
        self,
        shared: SharedUsage,
        index: Callable[[], LocalIndex],
        mark: str,
        folder: str,
        newest: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._shared, self._index, self._mark, self._folder = shared, index, mark, folder
        self._newest, self._clock = newest, clock
        self._given = -1
        self._next = 0.0

    async def exchange(self, *, now: bool = False) -> None:
        """Give the group the usage that it lacks, if it is time or ``now`` is set. Raises TabaneError."""
        newest = self._newest()
        if newest == self._given or not await asyncio.to_thread(os.path.isdir, self._folder):
            return
        if not now and self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        counted = await self._index().ask(UsageDays())
        if self._given < 0 and len(counted) >= KEPT_DAYS:
            await self._shared.forget_before(counted[0][0])
        known = await self._shared.days(self._mark)
        for day, calls in counted:
            if calls > known.get(day, 0):
                await self._give(day)
        self._given = newest

    async def answer(self, query: UsageQuery) -> Any:
        """Return the answer to a query from the usage of all hubs. Raises TabaneError."""
        await self.exchange(now=True)
        wanted = UsageConditions(
            query.first, query.last, query.server, query.tool, query.key, query.client, query.holder
        )
        if query.used_tools:
            return [list(row) for row in await self._shared.used_tools(wanted)]
        page = await self._shared.page(wanted, query.by, query.offset, query.limit)
        groups = [_group(query, one) for one in page.groups]
        return {"results": groups, "total": page.total, "sum": usage_figures(page.amounts, page.buckets)}

    async def _give(self, day: str) -> None:
        after = 0
        while True:
            found = await self._index().ask(UsageOfDay(day, after, _PAGE))
            await self._shared.keep(self._mark, [_row(day, each) for each in found])
            if len(found) < _PAGE:
                return
            after = found[-1][0]


def _group(query: UsageQuery, one: UsageSums) -> dict[str, Any]:
    server = one.server if one.servers == 1 else None
    return usage_group(query.by, one.name, one.label, server, one.amounts, one.buckets)


def _row(day: str, found: list[Any]) -> UsageRow:
    _, key, client, server, tool, label, amounts, buckets = found
    return UsageRow(day, key, label, client, server, tool, tuple(amounts), tuple(map(tuple, buckets)))
