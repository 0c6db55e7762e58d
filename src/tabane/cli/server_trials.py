"""Trials of servers by commands: what they list is scanned for attacks before an assistant sees it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from tabane.build import this_build
from tabane.cli.definition_words import KIND_WORDS
from tabane.cli.output import Terminal, lang
from tabane.cli.secret_offers import with_values
from tabane.cli.servers_file import ServersFile
from tabane.errors import TabaneError
from tabane.gateway.servers.variables import each_text
from tabane.messages import say

LONGEST_TRIAL, LONGEST_TRIALS = 20.0, 90.0
"""Seconds for one of several servers, and for all of them."""


def tried(
    place: ServersFile,
    name: str,
    wanted: dict[str, Any],
    secrets: Mapping[str, str],
    limit: float | None = None,
) -> dict[str, Any]:
    """Try a definition with the secrets that are not kept yet, and return what the server lists.

    ``limit`` is in seconds. Raises TabaneError if the server does not work.
    """
    params: dict[str, Any] = {"name": name, "definition": wanted}
    if place.hub and secrets and place.hub.welcome.version != this_build().name:
        # A hub of an earlier version takes no secrets: it gets the values where they belong.
        params["definition"] = each_text(wanted, partial(with_values, values=secrets))
    elif secrets:
        params["secrets"] = dict(secrets)
    if place.hub:
        found: dict[str, Any] = place.hub.call("try_server", params, limit)
        return found
    from tabane.hub.trial import TryServer, try_alone
    from tabane.operations import Caller, Face

    caller = Caller("local", Face.CLI, "", lang(), "tabane", os.getcwd())
    given = TryServer(name, wanted, secrets=dict(secrets))
    return try_alone(place.settings, os.environ, caller, given, limit)


def warn_of_findings(terminal: Terminal, server: str, suspicious: Iterable[Mapping[str, Any]]) -> None:
    """Print what a scan found in the definitions of a server."""
    for row in suspicious:
        for finding in row["findings"]:
            terminal.note(
                say(
                    "Warning: the {kind} {name} of {server!n} looks like an attack: {message}",
                    kind=KIND_WORDS.get(row["kind"], row["kind"]),
                    name=row["name"],
                    server=server,
                    message=finding["message"],
                )
            )


class ScannedServers(Struct):
    """Findings in servers that were just added. ``unscanned`` are those that did not start."""

    suspicious: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unscanned: list[str] = field(default_factory=list)

    def tell(self, terminal: Terminal) -> None:
        """Print it: findings, and which servers are scanned later."""
        for server, rows in self.suspicious.items():
            warn_of_findings(terminal, server, rows)
        if self.unscanned:
            terminal.note(
                say(
                    "Not scanned for attacks yet, because they could not be started now: {names}. Their "
                    "definitions are scanned at their first start.",
                    names=", ".join(self.unscanned),
                )
            )


def scan_added(terminal: Terminal, place: ServersFile, definitions: Mapping[str, Any]) -> ScannedServers:
    """Start each of these servers, which are in the file by now, and scan what it lists."""
    found, end = ScannedServers(), time.monotonic() + LONGEST_TRIALS
    for name, wanted in definitions.items():
        left = end - time.monotonic()
        try:
            with terminal.working(say("Testing {name!n}", name=name)):
                listed = tried(place, name, dict(wanted), {}, min(LONGEST_TRIAL, left)) if left > 0 else None
        except TabaneError:
            listed = None
        if listed is None:
            found.unscanned.append(name)
        elif listed.get("suspicious"):
            found.suspicious[name] = listed["suspicious"]
    return found
