"""Checks of the configuration: settings, servers file, variables, commands, passed environment and cages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tabane.errors import TabaneError
from tabane.hub.context import secret_of
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
from tabane.hub.doctor.troubles import Trouble
from tabane.hub.servers.configuration import cages_of
from tabane.hub.servers.recorded_environment import forget_recorded, recorded_environment
from tabane.messages import Message, say
from tabane.servers.configuration import why_disabled
from tabane.servers.plain_secrets import plain_secrets
from tabane.servers.server import Server, exposes_secrets
from tabane.servers.variables import PLAIN, load_variables
from tabane.upstreams.processes.child_environment import child_environment, environment_names
from tabane.upstreams.processes.variable_names import BASIC, CERTIFICATES, ON_TERMINAL

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
                say("{server!n} cannot be started: {why}", server=server.name, why=why),
                _where(installation),
                trouble=Trouble.VARIABLE if why.fields.get("names") else None,
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
    found = keys_in_plain_text(installation)
    listed = ", ".join(f"{name} ({', '.join(keys)})" for name, keys in found.items())
    if listed:
        yield note(
            say("The servers file has keys or passwords in plain text: {found}", found=listed),
            say("Keep them as secrets: tabane secrets adopt"),
        )


def keys_in_plain_text(installation: Installation) -> dict[str, list[str]]:
    """Return the places of keys and passwords in plain text, by server."""
    found = {
        name: [secret.key for secret in plain_secrets(name, definition)]
        for name, definition in installation.written.items()
        if isinstance(definition, dict)
    }
    return {name: keys for name, keys in found.items() if keys}


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
        row = installation.live.rows.get(server.name) if installation.live else None
        disabled = row is not None and row.get("state") == "disabled"
        if names and not disabled:
            yield note(
                say(
                    "{server} uses variables of this terminal's environment: {names}. A hub that an "
                    "assistant starts may not have them.",
                    server=server.name,
                    names=names,
                ),
                say("Write it into {path} (mode 0600).", path=installation.settings.home / "secrets.env"),
            )


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


MOST_NAMES = 40
"""Names in one finding. There are more only in an environment that nobody wrote by hand."""


def passed(installation: Installation) -> Iterator[DoctorFinding]:
    """Report which variables servers get, which only downloads get, and which are withheld. Names only."""
    settings = installation.settings
    names = environment_names(installation.children, {}, settings.inherit)
    usual = [name for name in names.passed if name not in BASIC]
    if usual:
        yield ok(say("Servers get these variables: {names}", names=_list(usual)))
    if names.download:
        yield ok(say("Only downloads of servers get these variables: {names}", names=_list(names.download)))
    withheld = _without_secrets(installation, names.withheld)
    if withheld:
        yield note(
            say("Servers do not get these variables: {names}", names=_list(withheld)),
            say(
                'To pass one to all servers: inherit = ["NAME"] in {config}. To pass it to one server: '
                '"inherit": ["NAME"] in {servers}',
                config=settings.config,
                servers=installation.servers_path,
            ),
        )
    yield from _certificates(installation)


def recorded(installation: Installation) -> Iterator[DoctorFinding]:
    """Report what is recorded for hubs that an assistant starts, and what of it is out of date."""
    home = installation.settings.home
    found = recorded_environment(home)
    if found.path:
        yield ok(say("PATH is recorded for hubs that an assistant starts"))
    if found.variables:
        names = _list(sorted(found.variables))
        yield ok(say("Recorded for hubs that an assistant starts: {names}", names=names))
    lost = [name for name in found.credentials if not _kept(installation, name)]
    if lost:
        yield note(
            say(
                "Not recorded, because they contain credentials: {names}. A hub that an assistant starts "
                "downloads servers without them.",
                names=_list(lost),
            ),
            say("Write them as NAME=VALUE into {path} (mode 0600).", path=home / "secrets.env"),
        )
    stale = found.stale(installation.environ)
    # A check-up of a hub has the environment in which that hub was started, which may be older.
    if stale and ON_TERMINAL not in installation.environ:
        yield note(
            say(
                "Recorded, but not set here: {names}. Hubs that an assistant starts still use them.",
                names=_list(stale),
            ),
            say("If they are out of date, remove them with: tabane doctor --fix"),
            _forgetting(installation, stale),
        )


def _without_secrets(installation: Installation, names: Sequence[str]) -> Sequence[str]:
    """Return the names that are not in secrets.env: the user has decided already who gets those."""
    try:
        kept = load_variables(installation.settings.home, {})
    except TabaneError:  # reported with the servers file
        return names
    return [name for name in names if kept.get(name) is None]


def _certificates(installation: Installation) -> Iterator[DoctorFinding]:
    for name in CERTIFICATES:
        value = installation.children.get(name, "")
        if os.path.isabs(value) and os.pathsep not in value and not os.path.exists(value):
            yield warning(
                say("{name} is {path}, which does not exist", name=name, path=value),
                say("Correct it or unset it in your shell, then run: tabane doctor"),
            )


def _forgetting(installation: Installation, names: Sequence[str]) -> Fix | None:
    """Return the fix; None without a terminal: a job of cron, for example, has few variables."""
    if not installation.environ.get("TERM"):
        return None

    def forget() -> None:
        forget_recorded(installation.settings.home, names)

    return forget


def _kept(installation: Installation, name: str) -> bool:
    environ = {key: value for key, value in installation.environ.items() if key != name}
    return secret_of(installation.settings, environ, name) is not None


def _list(names: Sequence[str]) -> Message | str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return say("{names} and {count} more", names=", ".join(names[:MOST_NAMES]), count=len(names) - MOST_NAMES)


def cages(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the cage of each server that has one. Nothing is tried for servers without one."""
    servers = [s for s in installation.enabled if s.sandboxed]
    if not servers:
        return
    builder = cages_of(installation.settings, installation.children)()
    for server in servers:
        found = builder.describe(server)
        if found is None:
            continue
        if found["problem"] is not None:
            yield fault(
                say("{server!n} does not start: {why}", server=server.name, why=found["problem"]),
                say("Fix the entry in {servers}, or what is missing.", servers=installation.servers_path),
            )
            continue
        how = ", ".join(found["mechanism"])
        yield ok(say("{server!n} runs in a sandbox: {how}", server=server.name, how=how))
        for each in found["uncovered"]:
            yield note(say("{server!n}: {what}", server=server.name, what=each))
