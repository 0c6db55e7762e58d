"""Checks of the configuration: settings, servers file, variables and commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tabane.errors import TabaneError
from tabane.hub.doctor.files import closing
from tabane.hub.doctor.installation import (
    DoctorFinding,
    Fix,
    Installation,
    fault,
    note,
    ok,
    read_servers,
    warning,
)
from tabane.messages import Message, say
from tabane.servers.configuration import why_disabled
from tabane.servers.plain_secrets import plain_secrets
from tabane.servers.server import Server, exposes_secrets
from tabane.servers.variables import PLAIN
from tabane.upstreams.processes.child_environment import child_environment

_INSTALLERS = {
    "npx": say("Install Node.js: https://nodejs.org"),
    "node": say("Install Node.js: https://nodejs.org"),
    "uvx": say("Install uv: https://docs.astral.sh/uv"),
    "uv": say("Install uv: https://docs.astral.sh/uv"),
    "docker": say("Install Docker: https://docs.docker.com"),
}


def settings(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the settings can be read, and report unknown names in them."""
    if installation.settings_problem:
        yield fault(installation.settings_problem, fix=_closing(installation.settings_problem))
    elif installation.settings.config.exists():
        yield ok(say("Settings: {path}", path=installation.settings.config))
    else:
        yield ok(say("Settings: defaults, because {path} does not exist", path=installation.settings.config))
    yield from (warning(message) for message in installation.settings.warnings)


def servers_file(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the servers file can be read and is correct, and that the hub uses its current version."""
    path, found = installation.servers_path, installation.configuration
    if installation.configuration_problem:
        yield fault(installation.configuration_problem, fix=_closing(installation.configuration_problem))
        if installation.live:
            yield note(say("The running hub continues with the last valid version of the file."))
    elif found is not None:
        yield _counted(installation, path, found.servers)
        if path.exists():
            yield from (warning(message) for message in found.warnings)
            yield from _overrides(installation, found.warnings)
        yield from _disabled(installation, found.servers)
    if installation.live and not (installation.configuration_problem or installation.settings_problem):
        yield from _in_force(installation)


def _overrides(installation: Installation, known: Iterable[Message]) -> Iterator[DoctorFinding]:
    """Report overrides that do not fit the tools that their servers list, as the running hub sees it."""
    texts = [message.render() for message in known]
    for name, row in (installation.live.rows if installation.live else {}).items():
        for what in row.get("warnings") or ():
            if not any(str(what) in text for text in texts):
                yield warning(
                    say("{server!n}: {what}", server=name, what=what),
                    say("Correct it: tabane servers override {server!c} TOOL --help", server=name),
                )
        for what in row.get("odd_definitions") or ():
            yield note(
                say("{server!n}: {what}", server=name, what=what),
                say("Everything else of the server can be used. Its makers can correct this."),
            )


def _closing(problem: Message) -> Fix | None:
    """Return a fix that removes others' permissions from a file that was refused because of them."""
    path = problem.fields.get("path")
    if not isinstance(path, str | Path):
        return None
    return closing(Path(path), 0o077 if os.path.basename(path) == "secrets.env" else 0o022)


def _counted(installation: Installation, path: Path, servers: tuple[Server, ...]) -> DoctorFinding:
    if not servers:
        return note(
            say("There are no servers yet in {path}", path=path),
            say(
                "Import your assistants' servers with tabane servers import, or add one with "
                "tabane servers add."
            ),
        )
    off = sum(installation.switched_off(server) for server in servers)
    return ok(
        say(
            "Servers file: {path} (servers: {count}, disabled: {off})",
            path=path,
            count=len(servers),
            off=off,
        )
    )


def _disabled(installation: Installation, servers: tuple[Server, ...]) -> Iterator[DoctorFinding]:
    for server in servers:
        why = why_disabled(server)
        if why is not None and not installation.switched_off(server):
            yield fault(
                say("{server!n} cannot be started: {why}", server=server.name, why=why), _where(installation)
            )


def _where(installation: Installation) -> Message:
    return say("See what is there: {path}", path=installation.servers_path)


def _in_force(installation: Installation) -> Iterator[DoctorFinding]:
    assert installation.live is not None
    problem, served = installation.live.status.get("problem"), installation.live.servers_file
    if problem:
        yield fault(
            say("The running hub did not accept the last change: {problem}", problem=problem),
            say("Restart it: tabane restart"),
        )
    own = installation.settings.servers
    if served and os.path.realpath(served) != os.path.realpath(own):
        yield note(
            say("The running hub uses {served}, not {own}", served=served, own=own),
            say("If this is not what you want: tabane stop, then tabane start"),
        )


def plain_keys(installation: Installation) -> Iterator[DoctorFinding]:
    """Report keys and passwords in plain text in the servers file. They work, and are hidden in logs."""
    found = {
        name: [secret.key for secret in plain_secrets(name, definition)]
        for name, definition in installation.written.items()
        if isinstance(definition, dict)
    }
    listed = ", ".join(f"{name} ({', '.join(keys)})" for name, keys in found.items() if keys)
    if listed:
        yield note(
            say("The servers file has keys or passwords in plain text: {found}", found=listed),
            say("Keep them as secrets: tabane secrets adopt"),
        )


def variables(installation: Installation) -> Iterator[DoctorFinding]:
    """Report variables that this terminal has, and that a hub started by an assistant may not have."""
    bare = {
        name: value for name, value in installation.environ.items() if name in PLAIN or name == "TABANE_HOME"
    }
    try:
        without = read_servers(installation, bare)
    except TabaneError:
        return
    for server in installation.enabled:
        there = without.get(server.name)
        why = why_disabled(there) if there else None
        names = why.fields.get("names") if why else None
        if names and not _runs_disabled(installation, server):
            yield note(
                say(
                    "{server} uses variables of this terminal's environment: {names}. A hub that an "
                    "assistant starts may not have them.",
                    server=server.name,
                    names=names,
                ),
                say("Write it into {path} (mode 0600).", path=installation.settings.home / "secrets.env"),
            )


def _runs_disabled(installation: Installation, server: Server) -> bool:
    row = installation.live.rows.get(server.name) if installation.live else None
    return row is not None and row.get("state") == "disabled"


def commands(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the command of each server is found on the PATH that it is started with."""
    local = [server for server in installation.enabled if server.transport == "stdio"]
    missing = [server for server in local if not has_command(installation, server)]
    for server in missing:
        where = say("Install it, or write its full path in {path}", path=installation.servers_path)
        yield fault(
            say(
                "{server!n}: the command {command} was not found", server=server.name, command=server.command
            ),
            _INSTALLERS.get(os.path.basename(server.command), where),
        )
    if local and not missing:
        yield ok(say("The commands of all servers are found ({count})", count=len(local)))


def urls(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that requests to servers at a URL keep secrets, and that their CA files exist."""
    for server in installation.enabled:
        if exposes_secrets(server):
            yield warning(
                say("Secrets are sent to {server!n} over plain http, where others can read them",
                    server=server.name),
                say("Use its https:// URL in {path}", path=installation.servers_path),
            )  # fmt: skip
        if server.transport != "stdio" and server.ca and not os.access(server.ca, os.R_OK):
            yield fault(
                say(
                    "{server!n}: the certificates in {path} cannot be read",
                    server=server.name,
                    path=server.ca,
                ),
                _where(installation),
            )


def has_command(installation: Installation, server: Server) -> bool:
    """Return whether the command of that server can be found."""
    if server.needs_folder and "${" in server.command:
        return True
    environ = child_environment(installation.children, server.env, server.inherit)
    if "/" in server.command:
        return os.access(os.path.join(server.cwd or "/", server.command), os.X_OK)
    return shutil.which(server.command, path=environ.get("PATH", os.defpath)) is not None
