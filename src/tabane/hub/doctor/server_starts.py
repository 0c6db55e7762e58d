"""Starts of each server: whether it starts, how long that takes, and which protocol it speaks.

For servers that the hub already runs, the hub is asked. The others are started here, one by one and only
until their tools are listed, so that nothing continues to run afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabane.errors import TabaneError
from tabane.gateway.processes.processes import ChildProcesses
from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.connector import Connector
from tabane.gateway.upstreams.upstream import Connect
from tabane.hub.doctor.configuration import has_command
from tabane.hub.doctor.installation import DoctorFinding, Installation, Row, fault, note, ok, warning
from tabane.hub.local.endpoint import here
from tabane.hub.servers import limits_of
from tabane.hub.trial import try_server
from tabane.messages import Message, say
from tabane.wire.channel import LineBatch

AT_ONCE = 8
"""Servers that are started at the same time."""


def to_start(installation: Installation) -> list[Server]:
    """Return the servers that a check-up would start: enabled, not running, and their command is found."""
    return [
        server
        for server in installation.enabled
        if (server.transport != "stdio" or has_command(installation, server))
        and _row(installation, server) is None
    ]


def running(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the servers that are not started here, because the hub runs them or a user stopped them."""
    for server in installation.enabled:
        row = _row(installation, server)
        if row is not None and row["state"] == "ready":
            yield _works(
                say(
                    "{server} runs: {count} {count:tool|tools}, protocol {version}",
                    **_words(server, row["tools"] or 0, row),
                )
            )
        elif row is not None:
            yield note(
                say("{server} was stopped by a user", server=server.name),
                say("Start it: tabane servers start {server}", server=server.name),
            )


def starts(installation: Installation) -> list[DoctorFinding]:
    """Start every other server, several at once, and say how each did, in the order of the file.

    Blocks until all have ended again; each start is limited by the settings.
    """
    servers = to_start(installation)
    # What goes wrong is a finding; standard error belongs to the command.
    logging.getLogger("tabane").addHandler(logging.NullHandler())
    return asyncio.run(_all(installation, servers)) if servers else []


async def _all(installation: Installation, servers: Sequence[Server]) -> list[DoctorFinding]:
    processes, places = ChildProcesses(), asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="tabane-") as logs:
        connect = Connector(
            asyncio.get_running_loop(),
            LineBatch(),
            processes,
            Path(logs),
            installation.children,
            installation.settings.max_line,
        )
        try:
            return list(await asyncio.gather(*(_one(installation, s, connect, places) for s in servers)))
        finally:
            await processes.close()


async def _one(
    installation: Installation, server: Server, connect: Connect, places: asyncio.Semaphore
) -> DoctorFinding:
    async with places:
        began = time.monotonic()
        try:
            found = await try_server(server.in_folder(here()), connect, limits_of(installation.settings))
        except TabaneError as error:
            return fault(
                error.message, say("Test it again: tabane servers test {server}", server=server.name)
            )
        seconds = time.monotonic() - began
    count = len(found["tools"])
    trouble = _trouble(installation, server)
    if trouble is not None:
        return trouble
    words = _words(server, count, found) | {"seconds": f"{seconds:.1f}"}
    if server.transport != "stdio":
        return _works(
            say("{server} answers in {seconds} s: {count} {count:tool|tools}, protocol {version}", **words)
        )
    return _works(
        say("{server} starts in {seconds} s: {count} {count:tool|tools}, protocol {version}", **words)
    )


def _works(title: Message) -> DoctorFinding:
    return (
        ok(title) if title.fields["count"] else warning(title, say("The demo needs a server that has tools."))
    )


def _words(server: Server, count: int, row: Row) -> dict[str, object]:
    return {"server": server.name, "count": count, "version": row.get("version") or "?"}


def _trouble(installation: Installation, server: Server) -> DoctorFinding | None:
    """Return why the running hub cannot use a server that starts without problems here."""
    row = installation.live.rows.get(server.name) if installation.live else None
    if row is None or not row.get("error"):
        return None
    return warning(
        say(
            "{server} starts here, but not in the running hub: {error}",
            server=server.name,
            error=row["error"],
        ),
        say("The hub was started in another environment. Restart it from here: tabane restart"),
    )


def _row(installation: Installation, server: Server) -> Row | None:
    """Return the hub's status row of a server that is not started here."""
    row = installation.live.rows.get(server.name) if installation.live else None
    return row if row is not None and row.get("state") in ("ready", "stopped") else None
