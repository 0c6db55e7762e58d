"""Audit of a hub: its log and the index that answers queries, the meter of its calls, counters and traces."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tabane.audit.entry import EntryType, Outcome, audit_options, audit_paths
from tabane.audit.log import AuditLog, IndexFollowing
from tabane.errors import AuditError, BadArguments
from tabane.hub.context import HubContext
from tabane.hub.telemetry.live import HubLive
from tabane.hub.telemetry.metering import AuditCounts, CallCounters, HubMeter
from tabane.messages import Message, say
from tabane.operations import Lazy, Operation
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits
    from tabane.audit.index_process import AuditIndexProcess
    from tabane.audit.index_requests import IndexTask
    from tabane.audit.operations import AuditOperations
    from tabane.audit.queries import AuditQueries, OfferedTool
    from tabane.catalog.gateway import Gateway
    from tabane.group.group_index import GroupIndex
    from tabane.group.tables.shared_usage import PostgresAudit, PostgresUsage
    from tabane.guard.definitions.news import DefinitionNews
    from tabane.hub.telemetry.spans import SpanTracing
    from tabane.hub.work.jobs import Jobs

log = logging.getLogger(__name__)


FOLDER = "audit"
BYTES_OF_A_TOKEN = 4
"""Bytes of a definition that are about one token."""


PeopleByHolder = Callable[[Iterable[str]], Awaitable[Mapping[str, str]]]
"""Returns the names of people by the names of holders."""


class HubUsage:
    """The index of the audit log of a hub, and the operations that ask it.

    ``errors`` is the descriptor that the index's process writes its stderr to.
    """

    def __init__(
        self,
        context: HubContext,
        gateway: Gateway,
        people: PeopleByHolder,
        errors: int | None = 2,
    ) -> None:
        self._folder, self._context, self._people = str(context.home / FOLDER), context, people
        self._gateway, self._errors = gateway, errors
        self._zone_name = context.settings.posts_zone  # that of the start
        self._index = Lazy(self._open_index)
        self._following: IndexFollowing | None = None
        self._log: AuditLog | None = None
        self._group: GroupIndex | None = None

    def queries(self) -> AuditQueries:
        """Return the handlers of the operations that ask the index."""
        from tabane.audit.queries import AuditQueries, OfferedTool

        def offered() -> Iterator[OfferedTool]:
            for server in self._gateway.enabled():
                for tool in self._gateway.catalog.of_server(server.name):
                    yield OfferedTool(tool.alias, tool.server, len(tool.definition) // BYTES_OF_A_TOKEN)

        return AuditQueries(self, self._zone, offered, self._people)

    def share(self, audit: PostgresAudit, usage: PostgresUsage, mark: str, address: str) -> None:
        """Give the index of a group of hubs what this hub records, and ask that index from now on.

        ``mark`` names this hub, ``address`` is where it is reached.
        """
        from tabane.group.group_index import GroupEntries, GroupIndex, GroupUsage

        entries = GroupEntries(audit, self._folder, self._newest, mark, address)
        counted = GroupUsage(usage, self._index, mark, self._folder, self._newest, time.monotonic)
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

    def follow(self, log: AuditLog) -> None:
        """Keep the index near the log."""
        self._log = log
        self._following = IndexFollowing(self._folder, self._newest, self._catch_up_soon)

    async def close(self) -> None:
        """End the process of the index."""
        if self._following is not None:
            await self._following.close()
        if self._index.opened is not None:
            await self._index.opened.close()

    def _newest(self) -> int:
        """Return the seq of the newest entry; 0 if there is no log."""
        return self._log.head.seq if self._log is not None else 0

    def _catch_up_soon(self) -> None:
        self._index().catch_up_soon()

    def _zone(self) -> str:
        """Return the name of the time zone of dates."""
        return self._zone_name

    def _open_index(self) -> AuditIndexProcess:
        from tabane.audit.index_process import AuditIndexProcess

        return AuditIndexProcess(self._folder, self._zone, self._context.environment, self._errors)


class HubAudit:
    """The audit log of a hub, if the settings want one, the meter that writes it, and what asks it.

    ``limits`` returns the limits of calls of a tier; None if they do not limit it in any way. ``tracing`` is
    None if no collector is configured.
    """

    def __init__(
        self,
        context: HubContext,
        gateway: Gateway,
        jobs: Jobs,
        limits: Callable[[str], CallLimits | None],
        people: PeopleByHolder,
    ) -> None:
        self._context, settings = context, context.settings
        self.counters = CallCounters()
        self.tracing: SpanTracing | None = None
        if settings.otel_endpoint or any(name.startswith("OTEL_") for name in context.environment):
            from tabane.hub.telemetry.tracing import open_tracing

            self.tracing = open_tracing(settings.otel_endpoint, context.environment)
        self.meter = HubMeter(limits, count=self.counters.count, trace=self.tracing)
        self.live = HubLive(context.loop, self.meter, gateway, jobs, settings.audit_redact)
        gateway.review.watch = gateway.review.watch._replace(news=self._definitions_changed)
        self.usage = HubUsage(context, gateway, people)
        self.log: AuditLog | None = None
        self._not_opened: Message | None = None

    @property
    def problem(self) -> Message | None:
        """Return why calls are not recorded at the moment; None if they are, or shall not be."""
        return self.log.problem if self.log is not None else self._not_opened

    def table(self) -> list[Operation]:
        """Return the operations on the audit log, usage and live calls."""
        from tabane.audit.table import audit_table

        return [*audit_table(self._log_operations, Lazy(self.usage.queries)), *self.live.table()]

    def _log_operations(self) -> AuditOperations:
        from tabane.audit.operations import AuditOperations

        return AuditOperations(audit_paths(str(self._context.home)))

    def open(self, settings: Settings) -> None:
        """Open the log, and record calls from now on.

        If it cannot be opened and nothing may be done without it, raises AuditError.
        """
        if settings.audit == "off":
            return
        try:
            self.log = AuditLog(str(settings.home), audit_options(settings), self._context.loop)
        except AuditError as error:
            if settings.audit_full == "stop":
                raise
            self._not_opened = error.message
            log.error("calls are not recorded: %s", error)
            return
        self.meter.recorder = self.log
        self.usage.follow(self.log)
        self.event("admin", "hub_start")

    def hide(self, secrets: Iterable[str], replaced: Callable[[str], str]) -> None:
        """Hide these secrets in the arguments of calls, wherever they appear."""
        self.live.hide(secrets, replaced)
        if self.log is not None:
            self.log.hide(secrets, replaced)

    def event(
        self,
        type: EntryType,
        action: str,
        outcome: Outcome = "ok",
        detail: str = "",
        *,
        holder: str = "local",
        source: str = "",
    ) -> None:
        """Record something that is not a call. Never raises."""
        if action == "settings_reload":
            self.live.settings_changed()
        if self.log is not None:
            self.log.event(type, holder, action, outcome, detail, source=source)

    def credentials_found(
        self, server: str, name: str, where: str, kinds: tuple[str, ...], holder: str
    ) -> None:
        """Record that a call or its result contains credentials: their kinds, never a value."""
        detail = f"{server}: {where} of {name}: {', '.join(kinds)}"
        self.event("audit", "credentials", "ok", detail, holder=holder or "local")

    def counts(self) -> AuditCounts | None:
        """Return what the metrics show of the log; None if there is none."""
        if self.log is None:
            return None
        return AuditCounts(self.log.head.seq, self.log.dropped, self.log.lag)

    def report(self) -> dict[str, int]:
        """Return what status shows beside the problem: how many entries were lost."""
        return {"audit_lost": self.log.dropped if self.log is not None else 0}

    async def close(self) -> None:
        """Write everything to disk, close the log, and export the spans that wait."""
        await self.usage.close()
        if self.log is not None:
            self.event("admin", "hub_stop")
            self.meter.recorder, closing, self.log = None, self.log, None
            await asyncio.to_thread(closing.close)
        if self.tracing is not None:
            await self.tracing.close()

    def _definitions_changed(self, news: DefinitionNews) -> None:
        self.event("admin", "definitions_changed", detail=news.detail)
