"""The servers file as commands use it: its location, its servers without secrets, and what runs of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.cli.output import Shown, Terminal, lang, unknown_name
from tabane.errors import CallerError, HubError
from tabane.hub.local import lock
from tabane.messages import say
from tabane.servers.configuration import (
    ServersConfiguration,
    read_configuration,
    why_disabled,
    written_definitions,
)
from tabane.servers.foreign_keys import our_definition
from tabane.servers.masking import masked, masked_text
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.servers.variables import Variables, keyring_lookup, load_variables
from tabane.settings import Settings, load_settings

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

TAKEOVER_LIMIT = 30.0
"""Seconds that the running hub has to use a change; it takes some milliseconds unless a disk hangs."""


@contextmanager
def files_changed(terminal: Terminal) -> Iterator[None]:
    """Let the block change files of the hub, and return when the running hub uses them.

    Every command that writes such a file does it in this block, so that its "done" is true: the next call
    meets the new state. Prints a note if no hub runs. Raises HubError if the hub does not use the change.
    """
    yield
    hub = terminal.running_hub()
    if hub is None:
        terminal.note(say("No hub is running. The change takes effect when one starts."))
        return
    try:
        problem = hub.call("reload_files", limit=TAKEOVER_LIMIT)["problem"]
    except HubError as error:
        if not lock.held(terminal.endpoint().lock):
            return  # it has just ended, and the next one reads the files
        problem = error.message
    if problem:
        raise HubError(
            say("The change was written, but the running hub does not use it: {problem}", problem=problem)
        )


class ServersFile(Struct, frozen=True):
    """The servers file in use, and the running hub that serves it, if any."""

    path: Path
    settings: Settings
    hub: HubClient | None

    @classmethod
    def found(cls, terminal: Terminal, file: str | None) -> ServersFile:
        """Return the named file, else that of the running hub, else that of the settings.

        Raises HubError if the running hub serves another file than the named one.
        """
        settings = load_settings({"servers": file, "config": terminal.config}, os.environ)
        hub = terminal.running_hub()
        if hub is None or not hub.welcome.servers:
            return cls(settings.servers, settings, hub)
        served = Path(hub.welcome.servers)
        if file and os.path.realpath(served) != os.path.realpath(settings.servers):
            raise HubError(
                say(
                    "The running hub uses the servers file {hub}, not {asked}. Use that file, or stop "
                    "the hub with tabane stop.",
                    hub=served,
                    asked=settings.servers,
                )
            )
        return cls(served, settings, hub)

    def read(self) -> ServersFileContent:
        """Return the content of the file, and the hub's state. Raises ConfigurationError and HubError."""
        live = {row["name"]: row for row in self.hub.call("list_servers")["results"]} if self.hub else None
        return ServersFileContent(self._configuration(), written_definitions(self.path), live)

    def problems(self, name: str) -> list[str]:
        """Return the problems of a server in the current file: warnings, and why it is disabled."""
        book = ServersFileContent(self._configuration(), {}, None)
        why = book.row(name)["error"]
        return [*book.warnings(name), *([why] if why else [])]

    def _configuration(self) -> ServersConfiguration:
        return read_configuration(self.path, self.variables())

    def variables(self) -> Variables:
        """Return the values of variables as far as this process knows them. Raises ConfigurationError."""
        keyring = keyring_lookup() if self.settings.keyring else None
        return load_variables(self.settings.home, os.environ, keyring)


@dataclass(frozen=True)
class ServersFileContent:
    """The servers of a file. ``live`` has the hub's row of each by name, and is None if no hub runs."""

    configuration: ServersConfiguration
    written: Mapping[str, Any] = field(repr=False)
    live: Mapping[str, Mapping[str, Any]] | None

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each server, in the order of the file, without secrets."""
        return [self._row(server) for server in self.configuration.servers]

    def row(self, name: str) -> dict[str, Any]:
        """Return the row of a server. Raises UnknownName with similar names."""
        server = self.configuration.get(name)
        if server is None:
            raise self._unknown(name)
        return self._row(server)

    def definition(self, name: str, *, reveal: bool) -> dict[str, Any]:
        """Return the definition as written. Secrets are hidden unless ``reveal``."""
        server, written = self.configuration.get(name), self.written.get(name)
        if server is None:
            raise self._unknown(name)
        if not isinstance(written, dict):
            return {}
        return dict(written) if reveal else masked(written, server.secrets)

    def remark(self, row: Mapping[str, Any]) -> str | None:
        """Return the problem of a row's server, short enough for a table."""
        server = self.configuration.get(row["name"])
        why = why_disabled(server) if server and row["state"] == "disabled" else None
        download = row.get("download")
        if why is None and download:
            return str(download["note"])
        return why.render(lang()) if why else row["error"]

    def sandbox(self, row: Mapping[str, Any]) -> Shown | None:
        """Return the sandbox of a row's server as one word; None if it has none."""
        server = self.configuration.get(row["name"])
        if server is None or not server.sandboxed:
            return None
        return say("container") if server.image or server.sandbox is None else server.sandbox.preset

    def warnings(self, name: str) -> list[str]:
        """Return the warnings about a server."""
        found = self.configuration.warnings
        return [warning.render(lang()) for warning in found if warning.fields.get("server") == name]

    def all_warnings(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the warnings about the file, and what the hub found of these rows besides."""
        found = [warning.render(lang()) for warning in self.configuration.warnings]
        return [*found, *self.live_warnings(rows)]

    def live_warnings(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the warnings of the hub that the file alone does not show, each with its server."""
        known = [warning.render(lang()) for warning in self.configuration.warnings]
        return [
            say("{server!n}: {what}", server=row["name"], what=what).render(lang())
            for row in rows
            for what in (*(row.get("warnings") or ()), *(row.get("odd_definitions") or ()))
            if not any(what in each for each in known)
        ]

    def _row(self, server: Server) -> dict[str, Any]:
        written = self.written.get(server.name)
        given = our_definition(written.items()).values if isinstance(written, dict) else {}
        redactor = Redactor(server.secrets)
        if server.transport != "stdio":
            parts = [given.get("url")]
        else:
            args = given.get("args")
            parts = [given.get("image"), given.get("command"), *(args if isinstance(args, list) else (args,))]
        state = "disabled" if server.disabled else "enabled" if self.live is None else "not loaded"
        row = {
            "name": server.name,
            "state": state,
            "tools": None,
            "transport": server.transport,
            "command": " ".join(
                masked_text(part, redactor) for part in parts if part and isinstance(part, str)
            ),
            "sandboxed": server.sandboxed,
            "error": server.disabled.render(lang()) if server.disabled else None,
        }
        live = (self.live or {}).get(server.name)
        return row | dict(live) if live else row

    def _unknown(self, name: str) -> CallerError:
        known = [server.name for server in self.configuration.servers]
        return unknown_name(
            name,
            known,
            say("There is no server {name!n}. Did you mean {near}?"),
            say("There is no server {name!n}. List all servers with: tabane servers list"),
        )
