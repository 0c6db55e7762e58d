"""Queries in a group of hubs: answered for all hubs, or for this one alone if the database is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tabane.audit.index_requests import EntryCounts, EntryQuery, IndexTask, UsageQuery
from tabane.errors import StoreError
from tabane.group.group_entries import GroupEntries
from tabane.group.group_usage import GroupUsage, LocalIndex
from tabane.messages import say

log = logging.getLogger(__name__)

THIS = "this"
"""In a filter: the hub that is asked."""


class GroupIndex:
    """Answers tasks as the index of one hub does. ``index`` returns that of this hub.

    Entries then have the member ``hub``. If only this hub is known, the answer has the reason as ``problem``.
    """

    def __init__(self, entries: GroupEntries, usage: GroupUsage, index: Callable[[], LocalIndex]) -> None:
        self._entries, self._usage, self._index = entries, usage, index

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task. Raises TabaneError."""
        try:
            if isinstance(task, UsageQuery):
                return await self._usage.answer(task)
            if isinstance(task, EntryCounts):
                return await self._entries.counts(task)
            if isinstance(task, EntryQuery) and task.filter.hub != THIS:
                return await self._entries.page(task)
        except StoreError as error:
            return await self._of_this_hub(task, error)
        return await self._of_this_hub(task, None)

    async def exchange(self, *, now: bool = False) -> None:
        """Give the group what it lacks of this hub. Raises TabaneError."""
        await self._entries.exchange()
        await self._usage.exchange(now=now)

    async def _of_this_hub(self, task: IndexTask, problem: StoreError | None) -> Any:
        if problem is not None:
            if isinstance(task, EntryQuery) and (task.filter.hub or task.before):
                raise problem  # what is asked for is not of this hub
            log.warning("only the audit log of this hub is searched: %s", problem)
        found = await self._index().ask(task)
        if isinstance(task, EntryQuery):
            for row in found["results"]:
                row["hub"] = self._entries.address
        if problem is not None and isinstance(found, dict):
            found["problem"] = say("Only this hub is included: {problem}", problem=problem.message)
        return found
