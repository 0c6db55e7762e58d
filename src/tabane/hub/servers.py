"""The servers of a hub: their file and its variables read, their limits, and the gateway over them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from msgspec import Raw

from tabane.errors import ConfigurationError
from tabane.gateway.gateway import Gateway
from tabane.gateway.processes.processes import Processes
from tabane.gateway.servers.configuration import Configuration, read_configuration
from tabane.gateway.servers.secrets import keyring_lookup, load_variables
from tabane.gateway.servers.server import Server
from tabane.gateway.servers.variables import Variables
from tabane.gateway.tools.judging import Judging
from tabane.gateway.tools.validation import Validator
from tabane.gateway.upstreams.connector import Connector
from tabane.gateway.upstreams.upstream import Limits
from tabane.settings import Settings
from tabane.wire.channel import Batch


def limits_of(settings: Settings) -> Limits:
    """Return how patient the hub is with its upstreams, and how much it takes of them."""
    return Limits(
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


def read_servers(settings: Settings, environment: Mapping[str, str]) -> Configuration:
    """Read the servers file. Raises ConfigurationError."""
    # A file that was named has to be there; the default one may not be, yet.
    named = settings.sources.get("servers")
    required = bool(named and named.kind != "default")
    return read_configuration(settings.servers, variables_of(settings, environment), required=required)


def count_servers(configuration: Configuration, gateway: Gateway) -> dict[str, int]:
    """Return the counts of servers and tools that status shows."""
    servers = configuration.servers
    running = [any(one.connection for one in gateway.instances(server.name)) for server in servers]
    return {
        "servers": len(servers),
        "servers_disabled": sum(1 for server in servers if server.disabled),
        "servers_running": sum(running),
        "tools": gateway.catalogue.count,
    }


def gateway_of(
    servers: tuple[Server, ...],
    settings: Settings,
    environment: Mapping[str, str],
    loop: asyncio.AbstractEventLoop,
    batch: Batch,
    processes: Processes,
    *,
    reserved: frozenset[str],
    on_changed: Callable[[str], None],
    on_log: Callable[[str, Raw], None],
) -> Gateway:
    """Return the gateway over the servers. ``reserved`` are names that no server's tool is given."""
    logs = settings.home / "logs" / "servers"
    connector = Connector(loop, batch, processes, logs, environment, settings.max_line)
    return Gateway(
        servers,
        settings.home,
        logs,
        loop,
        connector,
        limits_of(settings),
        reserved=reserved,
        validator=Validator(Judging(environment, errors=2)),
        list_wait=settings.list_wait,
        health_interval=settings.health_interval,
        on_changed=on_changed,
        on_log=on_log,
        obstacle=connector.obstacle,
    )
