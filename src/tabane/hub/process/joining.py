"""How a hub takes its place in a group of hubs, if the setting advertise says where the others reach it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tabane.build import this_build
from tabane.errors import TabaneError
from tabane.hub.hub import Hub

if TYPE_CHECKING:
    from tabane.group.membership import GroupState, HubGroup
    from tabane.hub.group.group_routing import GroupRouting
    from tabane.hub.group.shared_servers import SharedServers
    from tabane.hub.group.shared_state import SharedState
    from tabane.hub.http.gate import HttpGate
    from tabane.hub.http.legacy import HttpSessions
    from tabane.hub.http.routing import RoutingMaker
    from tabane.hub.people.approvals.shared_approvals import PostgresApprovals

Step = Callable[[], Awaitable[None]]

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
        from tabane.hub.group.shared_state import share_state  # its tables need the driver of the database

        exchange.state = share_state(hub, database, group.me)
        return exchange.state.tables

    group = HubGroup(hub.loop, address, mark, this_build().name, open_state)
    exchange = _GroupExchange(hub)
    group.follow, group.tidy, group.part = exchange.follow, exchange.tidy, exchange.tell
    return group


def routing_of(group: HubGroup | None) -> RoutingMaker | None:
    """Return what makes the routing of requests to the other hubs; None without a group."""
    if group is None:
        return None

    def made(gate: HttpGate, sessions: HttpSessions) -> GroupRouting:
        from tabane.hub.group.group_routing import GroupRouting  # with the first connection over HTTP

        return GroupRouting(group, gate, sessions)

    return made


def shared_servers_of(hub: Hub, group: HubGroup | None) -> SharedServers | None:
    """Let the hub connect to servers where its group runs them; None if it is in no group."""
    if group is None:
        return None
    from tabane.hub.group.shared_servers import SharedServers  # only needed in a group of hubs

    return SharedServers(group, hub.gateway, hub.settings.max_line)


class _GroupExchange:
    """Exchanges jobs, counts and limits with the other hubs, after the heartbeats of this one."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._approvals: PostgresApprovals | None = None
        self.state: SharedState | None = None
        """Tables of the group; None until the hub has connected to the database."""

    async def follow(self) -> None:
        """Copy what other hubs have changed: API keys, profiles and approvals. Raises TabaneError."""
        await self._hub.access.follow()
        desk = self._hub.guards.desk()
        if self.state is not None and self._approvals is not self.state.approvals:
            await desk.share(self.state.approvals)
            self._approvals = self.state.approvals
        await desk.follow()

    async def tidy(self) -> None:
        """Tell what is new, and give back what is not used. Raises the first TabaneError, at the end."""
        await _do_each([*self._exchanges(now=False), self._hub.access.tidy])

    async def tell(self) -> None:
        """Tell everything that is new. Raises the first TabaneError, at the end."""
        await _do_each(self._exchanges(now=True))

    def _exchanges(self, *, now: bool) -> list[Step]:
        """Return what tells the news of each part. Counts are told only from time to time, or ``now``."""
        steps: list[Step] = []
        if self.state is not None:
            steps += [self.state.jobs.tell, partial(self.state.tool_use.exchange, now=now)]
        return [*steps, partial(self._hub.audit.usage.exchange, now=now)]


async def _do_each(steps: Iterable[Step]) -> None:
    """Do all of them, one after the other, whatever fails. Raise the first TabaneError at the end."""
    first: TabaneError | None = None
    for step in steps:
        try:
            await step()
        except TabaneError as error:
            first = first or error
    if first is not None:
        raise first
