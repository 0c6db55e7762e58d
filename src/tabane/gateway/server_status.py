"""Servers as rows for people and programs: what is configured, what runs, what is wrong."""

from __future__ import annotations

from typing import Any

from tabane.gateway.gateway import Gateway
from tabane.gateway.servers.server import Server
from tabane.gateway.tools.listings import ServerListing
from tabane.gateway.upstreams.upstream import Upstream, UpstreamState
from tabane.messages import Lang, Message, say

_OFFERED = ("prompts", "resources", "templates")


def server_row(
    gateway: Gateway, server: Server, lang: Lang, obstacle: Message | None = None
) -> dict[str, Any]:
    """Describe one server in a line: name, state, tools, era, process id, and problem.

    ``obstacle`` is why it cannot be started, if it was not tried yet.
    """
    instances = gateway.instances(server.name)
    listing = gateway.listing(server.name)
    listed = listing is not None and "tools" in listing.lists
    return {
        "name": server.name,
        "state": state_of(server, instances),
        "tools": len(gateway.catalogue.of_server(server.name)) if listed else None,
        "era": listing.era.value if listing else None,
        "version": listing.version if listing else None,
        "pids": [i.connection.pid for i in instances if i.connection and i.connection.pid],
        "healthy": obstacle is None and all(instance.vitals.healthy for instance in instances),
        "error": _error(server, instances, lang, obstacle),
    }


def server_detail(
    gateway: Gateway, server: Server, lang: Lang, obstacle: Message | None = None
) -> dict[str, Any]:
    """Return all that is known of one server. Values of its environment and headers are never shown."""
    instances = gateway.instances(server.name)
    listing = gateway.listing(server.name)
    return server_row(gateway, server, lang, obstacle) | {
        "transport": server.transport,
        "description": server.description,
        "tags": list(server.tags),
        "category": server.category,
        "share": gateway.sharing.shared(server).share,
        "timeout": server.timeout,
        "max_concurrency": server.max_concurrency,
        "max_result_tokens": server.max_result_tokens,
        "cwd": server.cwd,
        "about": listing.about if listing else None,
        "listed_at": listing.listed if listing else None,
        **_offered(listing),
        "starts": sum(instance.vitals.starts for instance in instances),
        "deaths": sum(instance.vitals.deaths for instance in instances),
        "failures": max((instance.vitals.failures for instance in instances), default=0),
        "in_flight": sum(instance.in_flight for instance in instances),
        "failed_calls": sum(instance.vitals.failed_calls for instance in instances),
        "last_failure": _last_failure(instances, lang),
        "skipped_lines": sum(i.connection.conversation.garbage for i in instances if i.connection),
    }


def state_of(server: Server, instances: list[Upstream]) -> str:
    """One word for a server: disabled, or the most alive state of its instances."""
    if server.disabled:
        return "disabled"
    states: set[UpstreamState] = {instance.state for instance in instances}
    for state in (
        UpstreamState.READY,
        UpstreamState.STARTING,
        UpstreamState.WAITING,
        UpstreamState.OPEN,
        UpstreamState.STOPPED,
    ):
        if state in states:
            return str(state.value)
    return UpstreamState.IDLE.value


def _offered(listing: ServerListing | None) -> dict[str, int | None]:
    """Return how much else it listed; None for what it was not asked for yet."""
    lists = listing.lists if listing else {}
    return {name: len(lists[name]) if name in lists else None for name in _OFFERED}


def _last_failure(instances: list[Upstream], lang: Lang) -> str | None:
    failures = [i.vitals.last_failure for i in instances if i.vitals.last_failure]
    return failures[0].render(lang) if failures else None


def _error(server: Server, instances: list[Upstream], lang: Lang, obstacle: Message | None) -> str | None:
    if server.disabled:
        return server.disabled.render(lang)
    if obstacle is not None:
        return say("It cannot start: {why}", why=obstacle).render(lang)
    errors: list[Message] = [i.vitals.error for i in instances if i.vitals.error]
    return errors[0].render(lang) if errors else None
