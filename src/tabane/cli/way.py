"""The way from a command to the hub, as this process and its environment want it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from tabane.build import this_build
from tabane.hub.local import lock
from tabane.hub.local.connector import HubConnector
from tabane.hub.local.endpoint import Endpoint, absolute, here
from tabane.hub.local.handshake import Hello
from tabane.hub.local.localized import spoken


def approach(
    endpoint: Endpoint,
    flags: Sequence[str] | None,
    started_by: str = lock.BRIDGE,
    *,
    named: bool = False,
    anyhow: bool = False,
    servers: str | None = None,
) -> HubConnector:
    """The way to the hub at ``endpoint``; ``flags`` of None starts none.

    ``named`` is a hub that was asked for by its address: its home and servers file are its own affair.
    ``anyhow`` is for who does not mind which servers file it serves.
    """
    wanted = servers or (None if anyhow else os.environ.get("TABANE_SERVERS"))
    hello = Hello(
        version=this_build().name,
        role="rpc",
        home="" if named else endpoint.home,
        pid=os.getpid(),
        cwd=here(),
        lang=spoken(os.environ),
        client=_command(),
        servers=absolute(wanted, os.environ) if wanted and not named else None,
        code=this_build().code,
    )
    return HubConnector(endpoint, hello, os.environ, flags, started_by)


def _command() -> str:
    """Return the words of the running command, such as ``tabane posts import``, without arguments."""
    context = click.get_current_context(silent=True)
    return context.command_path if context else "tabane"
