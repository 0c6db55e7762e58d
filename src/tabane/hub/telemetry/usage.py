"""Queries of a hub on its audit log and on usage. Nothing of it is imported before the first query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.audit.index_following import IndexFollowing
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations import Operation

if TYPE_CHECKING:
    from tabane.audit.analysis import OfferedTool
    from tabane.audit.index_process import AuditIndexProcess
    from tabane.audit.index_requests import IndexTask
    from tabane.audit.queries import AuditQueries
    from tabane.catalog.gateway import Gateway
    from tabane.group.group_index import GroupIndex
    from tabane.group.shared_audit import SharedAudit
    from tabane.group.shared_use import SharedUsage

FOLDER = "audit"
BYTES_OF_A_TOKEN = 4
"""Bytes of a definition that are about one token."""


class HubUsage:
    """The index of the audit log of a hub, and the operations that ask it.

    ``zone`` returns the name of the time zone of dates. ``environment`` is the hub's, and ``errors`` the
    descriptor that the index's process writes its stderr to.
    """

    def __init__(
        self,
        home: Path,
        zone: Callable[[], str],
        environment: Mapping[str, str],
        gateway: Gateway,
        errors: int | None = 2,
    ) -> None:
        self._folder, self._zone = str(home / FOLDER), zone
        self._environment, self._gateway, self._errors = environment, gateway, errors
        self._process: AuditIndexProcess | None = None
        self._following: IndexFollowing | None = None
        self._newest: Callable[[], int] = lambda: 0
        self._group: GroupIndex | None = None
        self._queries: AuditQueries | None = None

    def table(self) -> list[Operation]:
        from tabane.audit.table import audit_queries_table

        return audit_queries_table(self._asked)

    def share(self, audit: SharedAudit, usage: SharedUsage, mark: str, address: str) -> None:
        """Give the index of a group of hubs what this hub records, and ask that index from now on.

        ``mark`` names this hub, ``address`` is where it is reached.
        """
        from tabane.group.group_entries import GroupEntries
        from tabane.group.group_index import GroupIndex
        from tabane.group.group_usage import GroupUsage

        entries = GroupEntries(audit, self._folder, lambda: self._newest(), mark, address)
        counted = GroupUsage(usage, self._index, mark, self._folder, lambda: self._newest(), time.monotonic)
        self._group = GroupIndex(entries, counted, self._index)

    async def exchange(self, *, now: bool = False) -> None:
        """Give the group what it lacks; its usage only from time to time, or ``now``. Raises TabaneError."""
        if self._group is not None:
            await self._group.exchange(now=now)

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task, from the index of the group or of this hub. Raises TabaneError."""
        if self._group is not None:
            return await self._group.ask(task)
        from tabane.audit.index_requests import EntryQuery

        if isinstance(task, EntryQuery) and task.filter.hub not in ("", "this"):
            raise BadArguments(say("hub: this hub is in no group of hubs."), "hub")
        return await self._index().ask(task)

    def follow(self, newest: Callable[[], int]) -> None:
        """Keep the index near the log. ``newest`` returns the seq of the newest entry."""
        self._newest = newest
        self._following = IndexFollowing(self._folder, newest, lambda: self._index().catch_up_soon())

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
        if self._process is not None:
            await self._process.close()

    def _index(self) -> AuditIndexProcess:
        if self._process is None:
            from tabane.audit.index_process import AuditIndexProcess

            self._process = AuditIndexProcess(self._folder, self._zone, self._environment, self._errors)
        return self._process

    def _asked(self) -> AuditQueries:
        if self._queries is None:
            from tabane.audit.queries import AuditQueries

            self._queries = AuditQueries(self, self._zone, self._offered)
        return self._queries

    def _offered(self) -> Iterable[OfferedTool]:
        from tabane.audit.analysis import OfferedTool

        for server in self._gateway.enabled():
            for tool in self._gateway.catalogue.of_server(server.name):
                yield OfferedTool(tool.alias, tool.server, len(tool.definition) // BYTES_OF_A_TOKEN)
