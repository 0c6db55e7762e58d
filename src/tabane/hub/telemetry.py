"""Telemetry of one hub: counters for Prometheus, and traces for OpenTelemetry if they are requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tabane.hub.call_counters import AuditCounts, CallCounters
from tabane.hub.collector import open_tracing

if TYPE_CHECKING:
    from tabane.hub.tracing import CallTracing
    from tabane.settings import Settings


class HubTelemetry:
    """What a hub measures of its calls, for others to collect.

    ``tracing`` is None if no collector is configured. ``audit`` returns the counts of the audit log, None if
    there is none.
    """

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self.counters = CallCounters()
        self.tracing: CallTracing | None = open_tracing(settings.otel_endpoint, environment)
        self.audit: Callable[[], AuditCounts | None] = lambda: None

    async def close(self) -> None:
        """Export the spans that wait, at most 2 seconds long."""
        if self.tracing is not None:
            await self.tracing.close()
