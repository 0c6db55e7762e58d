"""How a hub takes its place in a group of hubs, if the setting advertise says where the others reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabane.build import this_build
from tabane.hub.hub import Hub

if TYPE_CHECKING:
    from tabane.group.membership import HubGroup
    from tabane.group.state import GroupState
    from tabane.hub.http.shared_servers import SharedServers

UNTIL_KNOWN = 2.5
"""Seconds until the other hubs have seen that this one is leaving: two of their heartbeats."""


def group_of(hub: Hub) -> HubGroup | None:
    """Return the place of a hub in its group, which it joins later; None without the setting.

    The handles that the hub gives to clients have its mark from here on.
    """
    address = hub.settings.advertise
    if not address:
        return None
    from tabane.group.membership import HubGroup  # only needed in a group of hubs

    mark = hub.tools.questions.signer().hub
    hub.long_results.prefix = f"{mark}-"
    hub.tools.tasks.tasks.prefix = f"{mark}."

    async def open_state() -> GroupState:
        database = await hub.stores.database()
        from tabane.postgres.group_tables import GroupTables
        from tabane.postgres.shared_keys import PostgresKeys
        from tabane.postgres.shared_tokens import PostgresTokens

        tables = GroupTables(database)
        hub.access.share(PostgresKeys(tables), PostgresTokens(tables))
        return tables

    group = HubGroup(hub.loop, address, mark, this_build().name, open_state)
    group.follow, group.tidy = hub.access.follow, hub.access.tidy
    return group


def shared_servers_of(hub: Hub, group: HubGroup | None) -> SharedServers | None:
    """Let the hub connect to servers where its group runs them; None if it is in no group."""
    if group is None:
        return None
    from tabane.hub.http.shared_servers import SharedServers  # only needed in a group of hubs

    return SharedServers(group, hub.gateway, hub.settings.max_line)
