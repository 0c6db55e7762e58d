"""Audit of a hub: its log, opened with the hub, and what the hub itself records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from tabane.access.limits import CallLimits
from tabane.audit.entry import EntryType, Outcome
from tabane.audit.log import AuditLog
from tabane.audit.operations import AuditOperations
from tabane.audit.options import audit_options, audit_paths
from tabane.errors import AuditError
from tabane.hub.metering import HubMeter
from tabane.messages import Message
from tabane.operations import Operation
from tabane.settings import Settings

log = logging.getLogger(__name__)


class HubAudit:
    """The audit log of a hub, if the settings want one, and the meter that writes it.

    ``problem`` says why there is no log.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Callable[[], CallLimits]) -> None:
        self._loop, self.meter = loop, HubMeter(limits)
        self.log: AuditLog | None = None
        self.problem: Message | None = None

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
            self.problem = error.message
            log.error("calls are not recorded: %s", error)
            return
        self.meter.recorder = self.log
        self.event("admin", "hub_start")

    def hide(self, secrets: Iterable[str], replaced: Callable[[str], str]) -> None:
        """Hide these secrets in the arguments of calls, wherever they appear."""
        if self.log is not None:
            self.log.redactor.hide(secrets, replaced)

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
        if self.log is not None:
            self.log.event(type, holder, action, outcome, detail, source=source)

    async def close(self) -> None:
        """Write everything to disk, and close the log."""
        if self.log is not None:
            self.event("admin", "hub_stop")
            self.meter.recorder, closing, self.log = None, self.log, None
            await asyncio.to_thread(closing.close)


def audit_table(settings: Settings) -> list[Operation]:
    """Return the operations on the log, which can be verified whether it is written now or not."""
    return AuditOperations(audit_paths(str(settings.home))).table()
