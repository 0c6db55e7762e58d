"""The process of the hub: how a command reaches it, waits for it, and ends it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tabane.build import this_build
from tabane.errors import HubError
from tabane.hub.local import lock
from tabane.hub.local.connector import HubConnector, HubUnreachable
from tabane.hub.local.endpoint import Endpoint, absolute, here
from tabane.hub.local.handshake import Hello, spoken
from tabane.messages import Lang, say
from tabane.upstreams.processes.variable_names import ON_TERMINAL

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

STOP_LIMIT = 60.0
"""Time limit for a hub to end, in seconds, in addition to its grace for calls in flight."""

KILL_LIMIT = 10.0
"""Time limit for a hub to end after a signal, in seconds."""

_POLL = 0.05  # seconds


def end_hub(endpoint: Endpoint, lang: Lang, *, restart: bool) -> bool:
    """End the hub of that home and wait until it has ended. Return whether one ran. Raises HubError.

    The hub is asked to stop. If it does not, it gets SIGTERM, then SIGKILL; its keeper ends the servers.
    """
    if not lock.held(endpoint.lock):
        return False
    pid, limit = _request_stop(endpoint, lang, restart)
    if limit and _gone(endpoint, pid, limit):
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or _gone(endpoint, pid, 0):
            return True
        # the lock is held, so its pid is that of the hub
        os.kill(pid, number)
        if _gone(endpoint, pid, KILL_LIMIT):
            return True
    raise HubError(say("The hub in {home} could not be stopped.", home=endpoint.home))


def running_report(endpoint: Endpoint, lang: Lang) -> dict[str, Any] | None:
    """Return the status of the running hub; None if none runs, or if it does not respond."""
    from tabane.hub.local.client import CONNECT_LIMIT, connect  # loads msgspec; nobody asks if no hub runs

    if not lock.held(endpoint.lock):
        return None
    try:
        with connect(approach(endpoint, None, anyhow=True), lang) as client:
            found: dict[str, Any] = client.call("hub_status", limit=CONNECT_LIMIT)
            return found
    except HubError:
        return None


def _request_stop(endpoint: Endpoint, lang: Lang, restart: bool) -> tuple[int | None, float]:
    """Return the pid of the hub and the time limit for its end, in seconds. 0 if it could not be asked."""
    from tabane.hub.local.client import CONNECT_LIMIT, connect

    try:
        with connect(approach(endpoint, None, anyhow=True), lang) as client:
            client.call("stop_server", {"restart": restart}, CONNECT_LIMIT)
            return client.welcome.pid, client.welcome.grace + STOP_LIMIT
    except HubError:
        holder = lock.read_holder(endpoint.lock)
        return (holder.pid if holder else None), 0


def _gone(endpoint: Endpoint, pid: int | None, limit: float) -> bool:
    """Return whether that hub ends within the limit: the lock is free, or held by another hub."""
    deadline = time.monotonic() + limit
    while lock.held(endpoint.lock):
        holder = lock.read_holder(endpoint.lock)
        if holder is not None and holder.pid != pid:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True


def marked_terminal(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a hub that this command starts, marked if a person types in a terminal.

    In such a hub, what is unset in the terminal stays unset.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        return {**environ, ON_TERMINAL: "1"}
    return environ


def reach_hub(
    endpoint: Endpoint,
    flags: Iterable[str],
    lang: Lang,
    *,
    started_by: str = "hand",
    servers: str | None = None,
) -> tuple[bool, HubClient]:
    """Start a hub if none runs. Return whether one ran already, and the connection to it."""
    from tabane.hub.local.client import HubClient, connect, unreachable

    route = approach(endpoint, tuple(flags), started_by, servers=servers)
    try:
        connection = route.connect()
    except HubUnreachable as none:
        raise unreachable(none, lang) from None
    return (True, HubClient(connection)) if connection else (False, connect(route, lang))


def approach(
    endpoint: Endpoint,
    flags: Sequence[str] | None,
    started_by: str = lock.BRIDGE,
    *,
    named: bool = False,
    anyhow: bool = False,
    servers: str | None = None,
) -> HubConnector:
    """Return how to connect to the hub at ``endpoint``. If ``flags`` is None, no hub is started.

    ``named``: the user named the hub by its address, so its home and servers file are not checked.
    ``anyhow``: the servers file of the hub does not matter.
    """
    wanted = servers or (None if anyhow else os.environ.get("TABANE_SERVERS"))
    context = click.get_current_context(silent=True)  # its path is the command without arguments
    hello = Hello(
        version=this_build().name,
        role="rpc",
        home="" if named else endpoint.home,
        pid=os.getpid(),
        cwd=here(),
        lang=spoken(os.environ),
        client=context.command_path if context else "tabane",
        servers=absolute(wanted, os.environ) if wanted and not named else None,
        code=this_build().code,
    )
    return HubConnector(endpoint, hello, marked_terminal(os.environ), flags, started_by)
