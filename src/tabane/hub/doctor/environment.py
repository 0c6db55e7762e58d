"""Checks of the variables that servers get: which are passed, which are withheld, and which are recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tabane.errors import TabaneError
from tabane.hub.doctor.installation import DoctorFinding, Fix, Installation, note, ok, warning
from tabane.hub.servers.recorded_environment import forget_recorded, recorded_environment
from tabane.hub.servers.servers import secret_of
from tabane.messages import Message, say
from tabane.servers.variables import load_variables
from tabane.upstreams.processes.child_environment import environment_names
from tabane.upstreams.processes.variable_names import BASIC, CERTIFICATES, ON_TERMINAL

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
