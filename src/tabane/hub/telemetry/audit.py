"""Audit of a hub: its log, opened with the hub, what the hub itself records, and the meter of its calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from tabane.audit.entry import EntryType, Outcome
from tabane.audit.log import AuditLog
from tabane.audit.options import audit_options, audit_paths
from tabane.errors import AuditError
from tabane.hub.telemetry.call_counters import AuditCounts
from tabane.hub.telemetry.live.live import HubLive
from tabane.hub.telemetry.telemetry import HubTelemetry
from tabane.hub.telemetry.usage import HubUsage
from tabane.messages import Message
from tabane.operations import Operation
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits
    from tabane.catalog.gateway import Gateway
    from tabane.guard.definitions.news import DefinitionNews
    from tabane.hub.work.jobs import Jobs

log = logging.getLogger(__name__)


class LimitsByTier(Protocol):
    """Knows the limits of calls of each tier."""

    def limits_of(self, tier: str) -> CallLimits | None:
        """Return the limits; None if they do not limit the tier in any way."""
        ...


class HubAudit:
    """The audit log of a hub, if the settings want one, the meter that writes it, and what asks it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limited: LimitsByTier,
        settings: Settings,
        environment: Mapping[str, str],
        gateway: Gateway,
        jobs: Jobs,
    ) -> None:
        self._loop, self.telemetry = loop, HubTelemetry(settings, environment)
        self.meter = self.telemetry.meter(limited.limits_of)
        self.live = HubLive(loop, self.meter, gateway, jobs, settings.audit_redact)
        self._home = settings.home
        gateway.review.watch = gateway.review.watch._replace(news=self._definitions_changed)
        self.usage = HubUsage(settings.home, lambda: settings.posts_zone, environment, gateway)
        self.log: AuditLog | None = None
        self._not_opened: Message | None = None

    @property
    def problem(self) -> Message | None:
        """Return why calls are not recorded at the moment; None if they are, or shall not be."""
        return self.log.problem if self.log is not None else self._not_opened

    def table(self) -> list[Operation]:
        from tabane.audit.operations import AuditOperations

        return [
            *AuditOperations(audit_paths(str(self._home))).table(),
            *self.usage.table(),
            *self.live.table(),
        ]

    def open(self, settings: Settings) -> None:
        """Open the log, and record calls from now on.

        If it cannot be opened and nothing may be done without it, raises AuditError.
        """
        if settings.audit == "off":
            return
        try:
            self.log = AuditLog(str(settings.home), audit_options(settings), self._loop)
        except AuditError as error:
            if settings.audit_full == "stop":
                raise
            self._not_opened = error.message
            log.error("calls are not recorded: %s", error)
            return
        self.meter.recorder = self.log
        self.usage.follow(self._newest)
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
        await self.telemetry.close()

    def _definitions_changed(self, news: DefinitionNews) -> None:
        self.event("admin", "definitions_changed", detail=news.detail)

    def _newest(self) -> int:
        """Return the seq of the newest entry."""
        return self.log.head.seq if self.log is not None else 0
