"""Checks of what the next hub would fail with, made while the running one still serves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tabane.errors import CallerError, HubError
from tabane.hub.local import lock as locks
from tabane.hub.process.home_version import refuse_downgrade
from tabane.hub.servers.servers import hub_environment, read_servers
from tabane.messages import say
from tabane.settings import OPTIONS, Settings, load_settings


def flags_of(arguments: Sequence[str]) -> dict[str, object]:
    """Parse settings: ``--name=value``, ``--switch``, ``--no-switch``. Raises CallerError for others."""
    known = {option.flag: option for option in OPTIONS}
    found: dict[str, object] = {}
    for argument in arguments:
        flag, given, value = argument.partition("=")
        positive = flag.replace("--no-", "--", 1)
        if flag in known and (given or known[flag].kind == "switch"):
            found[known[flag].name] = value if given else True
        elif positive in known and known[positive].kind == "switch" and not given:
            found[known[positive].name] = False
        else:
            raise CallerError(say("There is no flag {flag}.", flag=argument))
    return found


def check_restart(flags: Sequence[str], environ: Mapping[str, str], running: Mapping[str, Any]) -> None:
    """Raise what the next hub would fail with, while the ``running`` one still serves.

    ``running`` is its report, and ``flags`` are its flags. Raises TabaneError that says what to fix:
    settings, profiles, the servers file or secrets that are wrong, another servers file, another port that is
    taken, or a home of a newer version.
    """
    from tabane.access.profile_file import read_profiles  # a start reads flags alone
    from tabane.hub.http.port_occupant import port_is_taken, refusal

    settings = load_settings(flags_of(flags), environ)
    refuse_downgrade(settings.home)
    read_servers(settings, hub_environment(settings, environ))
    read_profiles(settings.config)
    _check_same_servers(settings, running["servers_file"])
    port = urlsplit(running.get("http") or "").port
    asked = running["started_by"] == locks.HAND  # others run without a port, too
    wanted = settings.port if asked and settings.insists_on_http else 0
    if wanted not in (0, port) and port_is_taken(settings.host, wanted):
        raise HubError(refusal(settings.host, wanted))


def _check_same_servers(settings: Settings, served: str) -> None:
    """Raise HubError if the next hub would use another servers file, and no settings file says so."""
    source = settings.sources.get("servers")
    if source is not None and source.kind == "file":
        return
    if os.path.realpath(settings.servers) != os.path.realpath(served):
        raise HubError(
            say(
                "The running hub uses the servers file {hub}, and a restart from here would use {asked}. Set "
                "TABANE_SERVERS to the first. To use the second: tabane stop, then tabane start",
                hub=served,
                asked=settings.servers,
            )
        )
