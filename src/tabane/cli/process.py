"""The process of the hub as commands see it: ended, waited for, reached."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tabane.cli.output import lang
from tabane.errors import HubError
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient
    from tabane.hub.local.endpoint import Endpoint

STOP_LIMIT = 60.0
"""Seconds that a hub may take to end, beyond the grace it gives to calls in flight."""

KILL_LIMIT = 10.0
"""Seconds that a hub may take to end after a signal."""

_LOOK = 0.05


def end_hub(endpoint: Endpoint, *, restart: bool) -> bool:
    """End the hub of that home and wait until it is gone. Returns whether one ran. Raises HubError.

    It is asked first; one that does not answer is sent SIGTERM, then SIGKILL: its keeper ends its servers.
    """
    from tabane.hub.local import lock

    if not lock.held(endpoint.lock):
        return False
    pid, limit = _ask_to_end(endpoint, restart)
    if limit and _gone(endpoint, pid, limit):
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or _gone(endpoint, pid, 0):
            return True
        # The lock is held, so the process is the one that wrote its number there.
        os.kill(pid, number)
        if _gone(endpoint, pid, KILL_LIMIT):
            return True
    raise HubError(say("The hub in {home} could not be ended.", home=endpoint.home))


def _ask_to_end(endpoint: Endpoint, restart: bool) -> tuple[int | None, float]:
    """The process of the hub, and the seconds its end may take; 0 where it was not asked."""
    from tabane.cli.way import approach
    from tabane.hub.local import lock
    from tabane.hub.local.client import CONNECT_LIMIT, connect

    try:
        with connect(approach(endpoint, None, anyhow=True), lang()) as client:
            client.call("stop_server", {"restart": restart}, CONNECT_LIMIT)
            return client.welcome.pid, client.welcome.grace + STOP_LIMIT
    except HubError:
        holder = lock.read_holder(endpoint.lock)
        return (holder.pid if holder else None), 0


def _gone(endpoint: Endpoint, pid: int | None, limit: float) -> bool:
    """Whether that hub goes within the limit: nobody holds the lock, or another hub, which a bridge
    started in its place.
    """
    from tabane.hub.local import lock

    deadline = time.monotonic() + limit
    while lock.held(endpoint.lock):
        holder = lock.read_holder(endpoint.lock)
        if holder is not None and holder.pid != pid:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK)
    return True


def reach_hub(
    endpoint: Endpoint, flags: Iterable[str], *, started_by: str = "hand", servers: str | None = None
) -> tuple[bool, HubClient]:
    """Whether a hub ran already, and a connection to the one that does now."""
    from tabane.cli.way import approach
    from tabane.hub.local.client import HubClient, connect, unreachable
    from tabane.hub.local.connector import HubUnreachable

    way = approach(endpoint, tuple(flags), started_by, servers=servers)
    try:
        found = way.connect()
    except HubUnreachable as none:
        raise unreachable(none, lang()) from None
    return (True, HubClient(found)) if found else (False, connect(way, lang()))
