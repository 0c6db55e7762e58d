"""The servers file as commands see it: which one is in force, what stands in it, what of that runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tabane.cli.masking import masked, masked_text
from tabane.cli.output import Terminal, keep, lang, text
from tabane.errors import CallerError, ConfigurationError, HubError, UnknownName
from tabane.gateway.servers.configuration import (
    ServersConfiguration,
    open_document,
    read_configuration,
    server_tables,
    why_disabled,
)
from tabane.gateway.servers.redaction import Redactor
from tabane.gateway.servers.server import Server
from tabane.gateway.servers.variables import Variables, keyring_lookup, load_variables
from tabane.hub.local import lock
from tabane.messages import say
from tabane.settings import Settings, load_settings
from tabane.settings.spelling import nearest

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

_Function = TypeVar("_Function", bound=Callable[..., Any])


def file_option(function: _Function) -> _Function:
    """``--servers FILE``, as the parameter ``file``, and ``--config FILE``, which the Terminal keeps."""
    config = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        expose_value=False,
        callback=keep("config"),
        help=text(say("The settings file.")),
    )
    servers = click.option(
        "--servers",
        "file",
        metavar="FILE",
        type=click.Path(),
        help=text(say("The servers file, where it is not the running hub's or your own.")),
    )
    return servers(config(function))


def running_hub(terminal: Terminal) -> HubClient | None:
    """The hub, where one runs; none is started. Raises HubError where it does not serve this caller."""
    return terminal.hub(start=False) if lock.held(terminal.endpoint().lock) else None


@dataclass(frozen=True)
class Place:
    """Which servers file is in force, and the hub that serves it, where one runs."""

    path: Path
    settings: Settings
    hub: HubClient | None

    @classmethod
    def found(cls, terminal: Terminal, file: str | None) -> Place:
        """The file that was named, else that of the running hub, else that of the settings.

        Raises HubError where a hub runs that serves another file than the one named.
        """
        settings = load_settings({"servers": file, "config": terminal.config}, os.environ)
        hub = running_hub(terminal)
        if hub is None or not hub.welcome.servers:
            return cls(settings.servers, settings, hub)
        served = Path(hub.welcome.servers)
        if file and os.path.realpath(served) != os.path.realpath(settings.servers):
            raise HubError(
                say(
                    "The running hub serves the servers file {hub}, not {asked}. Use that one, or stop the "
                    "hub with tabane stop.",
                    hub=served,
                    asked=settings.servers,
                )
            )
        return cls(served, settings, hub)

    def read(self) -> Book:
        """What the file says, and what the hub says of it. Raises ConfigurationError and HubError."""
        live = {row["name"]: row for row in self.hub.call("list_servers")["results"]} if self.hub else None
        return Book(self._configuration(), definitions(self.path), live)

    def problems(self, name: str) -> list[str]:
        """What is wrong with one server as it stands in the file now: warnings, and why it is disabled."""
        book = Book(self._configuration(), {}, None)
        why = book.row(name)["error"]
        return [*book.warnings(name), *([why] if why else [])]

    def _configuration(self) -> ServersConfiguration:
        return read_configuration(self.path, self.variables())

    def variables(self) -> Variables:
        """What variables stand for, as far as this process can say. Raises ConfigurationError."""
        keyring = keyring_lookup() if self.settings.keyring else None
        return load_variables(self.settings.home, os.environ, keyring)


def definitions(path: Path) -> dict[str, Any]:
    """The servers of the file as they stand there, by name; of one that stands twice, the last."""
    try:
        document = open_document(path)
    except FileNotFoundError:
        return {}
    tables = server_tables(path, document)
    return {entry.key: entry.value for table in tables for entry in document.members(table.start)}


def server_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the name of a server for the shell."""
    try:
        path = load_settings({"servers": ctx.params.get("file")}, os.environ).servers
        return [name for name in definitions(path) if name.startswith(incomplete)]
    except ConfigurationError:
        return []


@dataclass(frozen=True)
class Book:
    """The servers of a file. ``live`` has the hub's row of each by name; None where no hub runs."""

    configuration: ServersConfiguration
    written: Mapping[str, Any] = field(repr=False)
    live: Mapping[str, Mapping[str, Any]] | None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each server, in the file's order; no secret stands in it."""
        return [self._row(server) for server in self.configuration.servers]

    def row(self, name: str) -> dict[str, Any]:
        """The row of one server. Raises UnknownName with the nearest."""
        server = self.configuration.get(name)
        if server is None:
            raise self._unknown(name)
        return self._row(server)

    def definition(self, name: str, *, reveal: bool) -> dict[str, Any]:
        """What stands in the file, its secrets hidden unless they are to be revealed."""
        server, written = self.configuration.get(name), self.written.get(name)
        if server is None:
            raise self._unknown(name)
        if not isinstance(written, dict):
            return {}
        return dict(written) if reveal else masked(written, server.secrets)

    def remark(self, row: Mapping[str, Any]) -> str | None:
        """What is wrong with the server of a row, in the words that a table has room for."""
        server = self.configuration.get(row["name"])
        why = why_disabled(server) if server and row["state"] == "disabled" else None
        return why.render(lang()) if why else row["error"]

    def warnings(self, name: str) -> list[str]:
        """The warnings about one server."""
        found = self.configuration.warnings
        return [warning.render(lang()) for warning in found if warning.fields.get("server") == name]

    def _row(self, server: Server) -> dict[str, Any]:
        row = {
            "name": server.name,
            "state": self._state(server),
            "tools": None,
            "transport": server.transport,
            "command": self._command(server),
            "error": server.disabled.render(lang()) if server.disabled else None,
        }
        live = (self.live or {}).get(server.name)
        return row | dict(live) if live else row

    def _state(self, server: Server) -> str:
        if server.disabled:
            return "disabled"
        return "enabled" if self.live is None else "not loaded"

    def _command(self, server: Server) -> str:
        written = self.written.get(server.name)
        given = written if isinstance(written, dict) else {}
        redactor = Redactor(server.secrets)
        if server.transport != "stdio":
            parts = [given.get("url") or given.get("serverUrl") or given.get("httpUrl") or ""]
        else:
            parts = [given.get("command") or "", *(given.get("args") or ())]
        return " ".join(masked_text(part, redactor) for part in parts if isinstance(part, str))

    def _unknown(self, name: str) -> CallerError:
        known = [server.name for server in self.configuration.servers]
        near = nearest(name, known)
        if near:
            message = say("There is no server {name}. Did you mean {near}?", name=name, near=", ".join(near))
        else:
            message = say("There is no server {name}. See them with: tabane servers list", name=name)
        return UnknownName(message, near)
