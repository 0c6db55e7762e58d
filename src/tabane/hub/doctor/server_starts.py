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
from urllib.parse import urlsplit

from tabane.catalog.tools.listings import ServerListing
from tabane.errors import TabaneError, UpstreamError
from tabane.hub.doctor.configuration import has_command
from tabane.hub.doctor.installation import DoctorFinding, Installation, Row, fault, note, ok, warning
from tabane.hub.doctor.troubles import OF_FAILED_STARTS, Trouble, trouble_of
from tabane.hub.local.endpoint import here
from tabane.hub.servers.configuration import cages_of, limits_of
from tabane.hub.servers.trial import Keep, try_server
from tabane.messages import Message, say
from tabane.net.target import is_loopback
from tabane.servers.server import Server
from tabane.upstreams.connection import UpstreamState
from tabane.upstreams.connector import Connector
from tabane.upstreams.launching.failure_causes import cause_in
from tabane.upstreams.launching.kept_package import in_use, npx_entry, remove
from tabane.upstreams.launching.package_downloads import NetworkProbe, found_hosts
from tabane.upstreams.launching.package_run import package_run
from tabane.upstreams.processes.child_environment import child_environment
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch

LOGIN_REQUIRED = UpstreamState.LOGIN.value

AT_ONCE = 8
"""Servers that are started at the same time."""

OFFLINE = 7.0
"""Seconds for the starts of servers that need the network, if there is none."""


def to_start(installation: Installation) -> list[Server]:
    """Return the servers that a check-up would start: enabled, not running, and their command is found."""
    return [
        server
        for server in installation.enabled
        if (server.transport != "stdio" or has_command(installation, server))
        and _row(installation, server) is None
    ]


def needs_network(installation: Installation) -> bool:
    """Return whether one of the servers that would be started needs the network."""
    return any(map(_needs_network, to_start(installation)))


def _needs_network(server: Server) -> bool:
    """Return whether a server is at a URL elsewhere, or a package that may have to be downloaded."""
    if server.transport == "stdio":
        return package_run(server.command, server.args) is not None
    return not is_loopback(_host(server))


def _host(server: Server) -> str:
    return urlsplit(server.url).hostname or ""


def running(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the servers that are not started here, because the hub runs them or a user stopped them."""
    for server in installation.enabled:
        row = _row(installation, server)
        if row is not None and row["state"] == "ready":
            yield _works(
                say(
                    "{server!n} runs: {count} {count:tool|tools}, protocol {version}",
                    **_words(server, row["tools"] or 0, row),
                )
            )
            yield from _ends(server, row.get("login"))
        elif row is not None and row["state"] == LOGIN_REQUIRED:
            yield warning(
                say("{server!n} requires a login", server=server.name),
                say("Log in: tabane servers login {server!c}", server=server.name),
                trouble=Trouble.LOGIN,
            )
        elif row is not None:
            yield note(
                say("{server!n} was stopped by a user", server=server.name),
                say("Start it: tabane servers start {server!c}", server=server.name),
            )


def definitions(installation: Installation) -> Iterator[DoctorFinding]:
    """Report definitions that wait for a person, as far as the running hub knows them."""
    for server in installation.enabled:
        row = installation.live.rows.get(server.name) if installation.live else None
        found = (row or {}).get("definition_changes") or {}
        what = {"server": server.name, "held": found.get("held"), "waiting": found.get("waiting")}
        look = say("Look at them: tabane servers diff {server!c}", server=server.name)
        if found.get("suspicious") and found.get("held"):
            what["held"] = min(found["suspicious"], found["held"])  # others only wait
            yield warning(
                say(
                    "{held} {held:definition|definitions} of {server!n} {held:looks|look} like an attack and "
                    "{held:is|are} held back",
                    **what,
                ),
                look,
            )
        elif found.get("suspicious"):
            yield warning(say("Definitions of {server!n} look like an attack", **what), look)
        elif found.get("held"):
            yield note(
                say("{held} {held:definition|definitions} of {server!n} {held:is|are} held back", **what),
                look,
            )
        elif found.get("waiting"):
            yield note(say("{waiting} {waiting:definition|definitions} of {server!n} changed", **what), look)


def _ends(server: Server, login: Row | None) -> Iterator[DoctorFinding]:
    """Report a login that ends and that only the user can renew."""
    if not login or login["state"] != "signed_in" or login.get("renewable") or not login.get("expires"):
        return
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(login["expires"]))
    yield note(
        say("The login at {server!n} ends at {until}", server=server.name, until=until),
        say("Then log in again: tabane servers login {server!c}", server=server.name),
        trouble=Trouble.LOGIN,
    )


def _forget(listing: ServerListing) -> None:
    return


def starts(installation: Installation, keep: Keep = _forget) -> list[DoctorFinding]:
    """Start every other server, several at once, and say how each did, in the order of the file.

    ``keep`` gets what each lists. Blocks until all have ended again; each start is limited by the settings.
    """
    servers = to_start(installation)
    # What goes wrong is a finding; standard error belongs to the command.
    logging.getLogger("tabane").addHandler(logging.NullHandler())
    if installation.online:
        return asyncio.run(_all(installation, servers, None, keep)) if servers else []
    needing = [server for server in servers if _needs_network(server)]
    hosts = found_hosts(_host(server) for server in needing if server.transport != "stdio")
    waiting = [server for server in needing if server.transport == "stdio" or _host(server) in hosts]
    found = asyncio.run(_all(installation, waiting, OFFLINE, keep))
    works = [finding for finding in found if finding.level != "fault"]
    works_here = {s.name for s, finding in zip(waiting, found, strict=True) if finding.level != "fault"}
    lost = [server.name for server in needing if server.name not in works_here]
    if lost:
        works.append(note(say("Not started without the network: {names}", names=", ".join(lost))))
    others = [server for server in servers if server not in needing]
    return works + asyncio.run(_all(installation, others, None, keep))


async def _all(
    installation: Installation, servers: Sequence[Server], limit: float | None, keep: Keep
) -> list[DoctorFinding]:
    """Start servers, each for at most ``limit`` seconds. Return a finding for each."""
    processes, places = ChildProcesses(), asyncio.Semaphore(len(servers) + 1 if limit else AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="tabane-") as logs:
        connect = Connector(
            asyncio.get_running_loop(),
            LineBatch(),
            processes,
            Path(logs),
            installation.children,
            installation.settings.max_line,
            limits_of(installation.settings).downloading,
            cages=cages_of(installation.settings, installation.children),
            network=NetworkProbe(installation.children, installation.online),
        )
        try:
            starts = (_one(installation, server, connect, places, limit, keep) for server in servers)
            return list(await asyncio.gather(*starts))
        finally:
            await processes.close()


async def _one(
    installation: Installation,
    server: Server,
    connect: Connector,
    places: asyncio.Semaphore,
    limit: float | None,
    keep: Keep,
) -> DoctorFinding:
    async with places:
        began = time.monotonic()
        try:
            async with asyncio.timeout(limit):
                limits = limits_of(installation.settings)
                found = await try_server(server.in_folder(here()), connect, limits, keep)
        except TimeoutError:
            return fault(say("{server!n} did not start in time.", server=server.name))
        except TabaneError as error:
            return await _failed(installation, server, error)
        seconds = time.monotonic() - began
    count = len(found["tools"])
    trouble = _trouble(installation, server)
    if trouble is not None:
        return trouble
    words = _words(server, count, found) | {"seconds": f"{seconds:.1f}"}
    if server.transport != "stdio":
        return _works(
            say("{server!n} answers in {seconds} s: {count} {count:tool|tools}, protocol {version}", **words)
        )
    return _works(
        say("{server!n} starts in {seconds} s: {count} {count:tool|tools}, protocol {version}", **words)
    )


async def _failed(installation: Installation, server: Server, error: TabaneError) -> DoctorFinding:
    """Return why a server does not start, what to do, and the repair of its npx cache if that is broken."""
    found = cause_in(error.message)
    if found is None or found.cause.fix is None:
        advice = say(
            "Read all it writes: tabane servers test {server!c}, then tabane servers logs {server!c}",
            server=server.name,
        )
        return fault(error.message, advice, trouble=trouble_of(error))
    title = say("{server!n} does not work: {line} ({how})", server=server.name,
                line=found.cause.line.rstrip(" .:"), how=found.how)  # fmt: skip
    trouble = OF_FAILED_STARTS.get(found.cause.kind)
    if found.cause.kind != "cache":
        return fault(title, found.cause.fix, trouble=trouble)
    entry = await asyncio.to_thread(_cache_entry, installation, server)
    return fault(title, found.cause.fix, None if entry is None else lambda: _repair(entry), trouble)


def _cache_entry(installation: Installation, server: Server) -> Path | None:
    """Return the entry of npx's cache that the server runs from, if it exists. Blocks."""
    run = package_run(server.command, server.args)
    if run is None:
        return None
    environment = child_environment(installation.children, server.env, server.inherit)
    entry = npx_entry(run, environment, server.cwd)
    return entry if entry is not None and entry.is_dir() else None


def _repair(entry: Path) -> None:
    """Remove an entry of npx's cache: npx installs it again. Raises UpstreamError if it is in use."""
    if in_use(entry):
        raise UpstreamError(say("{path} is in use. Stop what runs from there, then try again.", path=entry))
    remove(entry)


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
    title = say(
        "{server!n} starts here, but not in the running hub: {error}",
        server=server.name,
        error=row["error"],
    )
    if "tabane servers remove" in row["error"]:  # it leads back to the hub, and says what to do
        return warning(title)
    return warning(
        title, say("The hub was started in another environment. Restart it from here: tabane restart")
    )


def _row(installation: Installation, server: Server) -> Row | None:
    """Return the hub's status row of a server that is not started here."""
    row = installation.live.rows.get(server.name) if installation.live else None
    return row if row is not None and row.get("state") in ("ready", "stopped", LOGIN_REQUIRED) else None
