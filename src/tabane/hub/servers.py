"""The servers file of a hub, the variables in it, and the limits of servers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from tabane.errors import ConfigurationError
from tabane.gateway.servers.configuration import ServersConfiguration, read_configuration
from tabane.gateway.servers.variables import Variables, keyring_lookup, load_variables
from tabane.gateway.upstreams.upstream import UpstreamLimits
from tabane.settings import Settings


def limits_of(settings: Settings) -> UpstreamLimits:
    """Return how patient the hub is with its upstreams, and how much it takes of them."""
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


def variables_of(settings: Settings, environment: Mapping[str, str]) -> Variables:
    """Return what the variables of the servers file stand for. Raises ConfigurationError."""
    return load_variables(settings.home, environment, keyring_lookup() if settings.keyring else None)


def secret_of(settings: Settings, environment: Mapping[str, str], name: str) -> str | None:
    """Return a secret by its name; None if it cannot be read: pages can be read without."""
    with contextlib.suppress(ConfigurationError):
        return variables_of(settings, environment).get(name)
    return None


def read_servers(settings: Settings, environment: Mapping[str, str]) -> ServersConfiguration:
    """Read the servers file. Raises ConfigurationError."""
    # A file that was named has to be there; the default one may not be, yet.
    named = settings.sources.get("servers")
    required = bool(named and named.kind != "default")
    return read_configuration(settings.servers, variables_of(settings, environment), required=required)
