"""Checks of processes: versions, the hub and its lock, a stale socket, hubs whose home was deleted."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tabane.build import newer, this_build
from tabane.errors import TabaneError
from tabane.hub.doctor.installation import DoctorFinding, Installation, LiveHub, fault, note, ok, warning
from tabane.hub.doctor.troubles import Trouble
from tabane.hub.local import endpoint as hang_dumps
from tabane.hub.local import lock
from tabane.hub.local.connector import COMMAND
from tabane.hub.process.home_version import downgrade
from tabane.hub.rpc.tcp_peers import find_occupant, port_is_taken
from tabane.messages import Message, say
from tabane.settings import Settings

_PROC = Path("/proc")
_GONE = " (deleted)"


def versions(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the installed version, and whether the running hub has the same."""
    python = platform.python_version()
    yield ok(
        say(
            "Tabane {version}, Python {python} ({path})",
            version=this_build().name,
            python=python,
            path=sys.executable,
        )
    )
    mine = this_build().name
    serving = installation.live.version if installation.live else mine
    if newer(mine, serving):
        yield warning(
            say("The running hub is the older version {version}", version=serving),
            say("Restart it: tabane restart"),
        )
    elif newer(serving, mine):
        yield note(
            say("The running hub is the newer version {version}: Tabane is installed twice", version=serving),
            say("See which one is used: command -v tabane"),
        )
    elif serving != mine:
        yield note(
            say("The running hub is another build of this version: {version}", version=serving),
            say("To switch to this build: tabane restart"),
        )


def home_version(installation: Installation) -> Iterator[DoctorFinding]:
    """Check whether a newer version has used the home, so that this version does not start there."""
    try:
        found = downgrade(installation.settings.home)
    except TabaneError as error:
        yield fault(error.message, say("Until then, no hub can start in this home"))
        return
    if found is not None:
        yield fault(found.message, say("Update Tabane: tabane update"))


def hub(installation: Installation) -> Iterator[DoctorFinding]:
    """Check whether a hub runs and answers, and what the last one left behind."""
    if installation.live:
        servers = installation.live.status.get("servers_running", 0)
        yield ok(
            say(
                "The hub is running (process {pid}; servers running: {count})",
                pid=installation.live.pid,
                count=servers,
            )
        )
        yield from _over_http(installation.live)
        yield from _offered(installation.live)
    elif installation.hub_problem:
        yield fault(installation.hub_problem, say("Restart it: tabane restart"))
    else:
        yield ok(say("No hub is running. The first assistant or command that needs one starts it"))
        yield from _left_behind(installation)
        yield from _port_taken(installation.settings)
    yield from _stuck(installation)
    yield from _homeless(_PROC)


def _stuck(installation: Installation) -> Iterator[DoctorFinding]:
    for dump in hang_dumps.dumps(installation.endpoint.logs):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(dump.written))
        yield warning(
            say("A hub (process {pid}) stopped responding and was ended on {when}", pid=dump.pid, when=when),
            say(
                "Report it with the stack traces, then delete them: rm {path}",
                path=shlex.quote(dump.path),
            ),
        )


def _over_http(live: LiveHub) -> Iterator[DoctorFinding]:
    if live.status.get("http"):
        yield ok(say("MCP over HTTP: {url}", url=live.status["http"]))
    elif live.status.get("http_problem"):
        yield warning(
            Message(live.status["http_problem"]),
            say("Fix that, then run: tabane restart"),
            trouble=Trouble.HTTP,
        )


def _offered(live: LiveHub) -> Iterator[DoctorFinding]:
    for offer in live.status.get("projects_offered", ()):
        folder = shlex.quote(offer["folder"])
        if offer["servers"]:
            yield note(
                say(
                    "An assistant works in {folder}, which defines {count} MCP {count:server|servers} that "
                    "you have not trusted",
                    folder=folder,
                    count=offer["servers"],
                ),
                say("Look at them and trust them: tabane projects trust {folder}", folder=folder),
                trouble=Trouble.PROJECT,
            )
        elif offer["problem"]:
            yield note(
                say("A file of a project is not used. {why}", why=offer["problem"]), trouble=Trouble.PROJECT
            )


def _port_taken(settings: Settings) -> Iterator[DoctorFinding]:
    if settings.http and port_is_taken(settings.host, settings.port):
        found = find_occupant(settings.port)
        yield warning(
            say(
                "Port {port} of {host} is used by {who}: the next hub cannot serve HTTP there",
                port=settings.port,
                host=settings.host,
                who=found.name if found else say("another process"),
            ),
            say("End that process, or choose another port with the setting port (TABANE_PORT)"),
            trouble=Trouble.HTTP,
        )


def _left_behind(installation: Installation) -> Iterator[DoctorFinding]:
    holder = lock.read_holder(installation.endpoint.lock)
    if holder is not None and holder.ended is None:
        yield note(
            say("The last hub (process {pid}) ended unexpectedly", pid=holder.pid),
            say("See the end of its log: tabane logs"),
        )
    socket = Path(installation.endpoint.socket)
    if socket.is_socket():
        yield warning(
            say("A socket is left over, but no hub listens on it: {path}", path=socket),
            say("Delete it: rm {path}", path=socket),
            lambda: _delete_unless_served(socket, installation.endpoint.lock),
        )


def _delete_unless_served(socket: Path, lock_file: str) -> None:
    # An assistant may have started a hub since it was looked at.
    held = lock.acquire(lock_file)
    if held is not None:
        try:
            if socket.is_socket():
                socket.unlink(missing_ok=True)
        finally:
            held.release()


def _homeless(processes: Path) -> Iterator[DoctorFinding]:
    """Return this user's hubs whose home was deleted, so that no client finds them. Linux only."""
    if not processes.is_dir():
        return
    hubs = [entry for entry in processes.iterdir() if entry.name.isdigit() and _is_hub(entry)]
    lost = {entry.name: home for entry in hubs if (home := _folder_of(entry)).endswith(_GONE)}
    if lost:
        pids = " ".join(lost)
        home = next(iter(lost.values())).removesuffix(_GONE)
        yield warning(
            say(
                "Hubs are running whose home was deleted, such as {home} (processes {pids})",
                home=home,
                pids=pids,
            ),
            say("End them: kill {pids}", pids=pids),
        )


def _is_hub(process: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return process.stat().st_uid == os.geteuid() and {b"tabane", COMMAND.encode()} <= set(words)
    except OSError:
        return False


def _folder_of(process: Path) -> str:
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return ""
