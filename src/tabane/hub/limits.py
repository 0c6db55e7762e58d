"""How patient the hub is with its upstreams, as the settings say."""

from __future__ import annotations

from tabane.gateway.upstreams.upstream import UpstreamLimits
from tabane.settings import Settings


def limits_of(settings: Settings) -> UpstreamLimits:
    return UpstreamLimits(
        start_timeout=settings.start_timeout,
        probe_timeout=settings.probe_timeout,
        restart_first=settings.restart_first,
        restart_max=settings.restart_max,
        circuit_failures=settings.circuit_failures,
        circuit_wait=settings.circuit_wait,
        queue_length=settings.queue_length,
        list_items=settings.list_items,
        list_size=settings.list_size,
        catalogue_size=settings.catalogue_size,
    )
