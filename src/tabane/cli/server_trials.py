"""Trials of servers by commands: what they list is scanned for attacks before an assistant sees it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click
from msgspec import Struct, field

from tabane.build import this_build
from tabane.cli.definition_words import KIND_WORDS
from tabane.cli.following import result_of, watched
from tabane.cli.output import INTERRUPTED, Terminal, lang
from tabane.cli.secret_offers import with_values
from tabane.cli.servers_file import ServersFile
from tabane.errors import TabaneError
from tabane.messages import say
from tabane.servers.variables import each_text

FIRST_ANSWER = 4.0
"""Seconds after which a program gets what is known of servers that were just added."""


def tried(
    place: ServersFile,
    name: str,
    wanted: dict[str, Any],
    secrets: Mapping[str, str],
) -> dict[str, Any]:
    """Try a definition with the secrets that are not kept yet, and return what the server lists.

    Raises TabaneError if the server does not work.
    """
    params: dict[str, Any] = {"name": name, "definition": wanted}
    if place.hub and secrets and place.hub.welcome.version != this_build().name:
        # A hub of an earlier version takes no secrets: it gets the values where they belong.
        params["definition"] = each_text(wanted, partial(with_values, values=secrets))
    elif secrets:
        params["secrets"] = dict(secrets)
    if place.hub:
        found: dict[str, Any] = place.hub.call("try_server", params)
        return found
    from tabane.hub.servers.trial import TryServer, try_alone
    from tabane.operations import Caller, Face

    caller = Caller("local", Face.CLI, "", lang(), "tabane", os.getcwd())
    given = TryServer(name, wanted, secrets=dict(secrets))
    return try_alone(place.settings, os.environ, caller, given)


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


class AddedServers(Struct):
    """Servers that were just added, as far as they have started.

    ``job`` is the hub's job that waits for the ``pending`` ones, None if there is none. ``suspicious`` are
    the definitions that look like an attack, by server. ``unscanned`` did not start: why is in ``failed``.
    """

    job: str | None = None
    pending: list[str] = field(default_factory=list)
    tools: dict[str, int] = field(default_factory=dict)
    suspicious: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unscanned: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def tell(self, terminal: Terminal) -> None:
        """Print it: findings, and which servers are scanned later."""
        for server, rows in self.suspicious.items():
            warn_of_findings(terminal, server, rows)
        for server in self.unscanned:
            if server in self.failed:
                why = self.failed[server]
                terminal.note(say("{server!n} does not start yet: {why}", server=server, why=why))
        if self.unscanned:
            terminal.note(
                say(
                    "Not scanned for attacks yet, because they could not be started now: {names}. Their "
                    "definitions are scanned at their first start.",
                    names=", ".join(self.unscanned),
                )
            )


def start_added(terminal: Terminal, place: ServersFile, names: Sequence[str]) -> AddedServers:
    """Have the hub start these servers, which are in the file by now, all at once, and scan what they list.

    Follow that with a bar. After Ctrl+C, and for a program after :data:`FIRST_ANSWER` seconds, it goes on in
    the hub.
    """
    try:
        hub = place.hub or terminal.hub()
        if hub.welcome.servers and os.path.realpath(hub.welcome.servers) != os.path.realpath(place.path):
            return AddedServers(unscanned=list(names))
        wait = FIRST_ANSWER if terminal.json else 0.0
        state = hub.call("start_new_servers", {"names": list(names), "wait": wait})
        if terminal.json:
            return _started(state["job"], state["found"])
        try:
            return _started(None, result_of(watched(hub, state)))
        except KeyboardInterrupt:
            terminal.note(
                say(
                    "The hub goes on starting and scanning them. Watch it with: tabane jobs follow {job}",
                    job=state["job"],
                )
            )
            raise click.exceptions.Exit(INTERRUPTED) from None
    except TabaneError as error:
        failed = error.text(lang())
        return AddedServers(unscanned=list(names), failed=dict.fromkeys(names, failed))


def _started(job: str | None, found: Mapping[str, Any]) -> AddedServers:
    given = {key: found[key] for key in ("pending", "tools", "suspicious", "failed")}
    return AddedServers(job if given["pending"] else None, unscanned=list(given["failed"]), **given)
