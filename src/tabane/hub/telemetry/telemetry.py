"""Telemetry of one hub: counters for Prometheus, and traces for OpenTelemetry if they are requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tabane.hub.telemetry.call_counters import CallCounters
from tabane.hub.telemetry.metering import HubMeter

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits
    from tabane.hub.telemetry.tracing import CallTracing
    from tabane.settings import Settings


class HubTelemetry:
    """Measurements of a hub's calls, for others to collect.

    ``tracing`` is None if no collector is configured.
    """

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self.counters = CallCounters()
        self.tracing = _tracing(settings.otel_endpoint, environment)

    def meter(self, limits: Callable[[str], CallLimits | None]) -> HubMeter:
        """Return a meter that feeds both."""
        return HubMeter(limits, count=self.counters.count, trace=self.tracing)

    async def close(self) -> None:
        """Export the spans that wait, at most 2 seconds long."""
        if self.tracing is not None:
            await self.tracing.close()


def _tracing(endpoint: str, environment: Mapping[str, str]) -> CallTracing | None:
    if not endpoint and not any(name.startswith("OTEL_") for name in environment):
        return None
    from tabane.hub.telemetry.collector import open_tracing

    return open_tracing(endpoint, environment)
