"""Facts for the checks of the doctor, and the findings that they report.

The facts are gathered once: settings, servers file, and the running hub.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tabane.errors import HubError, TabaneError
from tabane.hub.context import secret_of
from tabane.hub.doctor.troubles import Trouble
from tabane.hub.local.client import CONNECT_LIMIT, HubClient
from tabane.hub.local.endpoint import Endpoint, home_of
from tabane.hub.servers.configuration import with_inherited
from tabane.hub.servers.recorded_environment import with_recorded
from tabane.messages import Message
from tabane.servers.configuration import ServersConfiguration, read_configuration, written_definitions
from tabane.servers.server import Server
from tabane.servers.variables import variables_of
from tabane.settings import Settings, load_settings
from tabane.settings.files import config_folder
from tabane.settings.option import expanded

Level = Literal["ok", "note", "warning", "fault"]
"""``ok`` is in order, ``note`` good to know, ``warning`` will hurt some day, ``fault`` does not work now."""

Fix = Callable[[], None]
"""Fixes a finding without any loss to the user. May raise OSError."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One sentence of a check-up. ``mend`` says what the user can do, ``fix`` does it if that is safe.

    ``trouble`` is the section of the manual about it, if it is another one than its check has.
    """

    level: Level
    title: Message
    mend: Message | None = None
    fix: Fix | None = None
    trouble: Trouble | None = None

    @property
    def help(self) -> str | None:
        """Return the section of the manual, as `tabane manual` takes it; None if all is in order."""
        return self.trouble.section if self.trouble and self.level != "ok" else None


def ok(title: Message) -> DoctorFinding:
    """Return the finding that something is in order."""
    return DoctorFinding("ok", title)


def note(
    title: Message, mend: Message | None = None, fix: Fix | None = None, trouble: Trouble | None = None
) -> DoctorFinding:
    """Return a finding that needs no action."""
    return DoctorFinding("note", title, mend, fix, trouble)


def warning(
    title: Message, mend: Message | None = None, fix: Fix | None = None, trouble: Trouble | None = None
) -> DoctorFinding:
    """Return a finding that may cause trouble."""
    return DoctorFinding("warning", title, mend, fix, trouble)


def fault(
    title: Message, mend: Message | None = None, fix: Fix | None = None, trouble: Trouble | None = None
) -> DoctorFinding:
    """Return the finding that something does not work."""
    return DoctorFinding("fault", title, mend, fix, trouble)


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveHub:
    """The hub that runs: its version, process, servers file, and what it says of itself and each server."""

    version: str
    pid: int
    servers_file: str | None
    status: Mapping[str, Any]
    rows: Mapping[str, Row]
    stores: Sequence[dict[str, Any]] = ()
    model: Mapping[str, Any] | None = None
    mend_stores: Callable[[], None] | None = None
    watched: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """All facts. If something could not be read, its problem says why.

    ``settings`` are the defaults if those of the user cannot be read. ``environ`` is that of this process;
    ``children`` is the environment that servers are started with. ``online`` is False if nobody answers on
    the network: what needs it is not checked.
    """

    environ: Mapping[str, str]
    endpoint: Endpoint
    settings: Settings
    settings_problem: Message | None = None
    configuration: ServersConfiguration | None = None
    configuration_problem: Message | None = None
    written: Mapping[str, Any] = field(default_factory=dict, repr=False)
    live: LiveHub | None = None
    hub_problem: Message | None = None
    online: bool = True

    @property
    def children(self) -> Mapping[str, str]:
        """The environment that servers are started with, with what is recorded for hubs."""
        return with_recorded(
            self.environ,
            self.settings.home,
            lambda name: secret_of(self.settings, self.environ, name),
        )

    @property
    def servers_path(self) -> Path:
        """Return the path of the servers file in use."""
        served = self.live.servers_file if self.live else None
        return Path(served) if served else self.settings.servers

    @property
    def enabled(self) -> tuple[Server, ...]:
        """Return the servers that may be started."""
        servers = self.configuration.servers if self.configuration else ()
        return tuple(server for server in servers if not server.disabled)

    def switched_off(self, server: Server) -> bool:
        """Return whether the user disabled it in the file. Then nothing is wrong with it."""
        written = self.written.get(server.name)
        off = isinstance(written, dict) and (written.get("enabled") is False or written.get("disabled"))
        return bool(server.disabled and off)


def live(client: HubClient) -> LiveHub:
    """Return the answer of a hub. Raises HubError."""
    rows = client.call("list_servers", limit=CONNECT_LIMIT)["results"]
    return LiveHub(
        client.welcome.version,
        client.welcome.pid,
        client.welcome.servers,
        client.call("hub_status", limit=CONNECT_LIMIT),
        {row["name"]: row for row in rows},
        _rows(client, "check_stores"),
        _answer_of(client, "model_status"),
        lambda: client.call("check_stores", {"mend": True}) and None,
        _rows(client, "list_watched"),
    )


def _rows(client: HubClient, operation: str) -> list[dict[str, Any]]:
    found = _answer_of(client, operation)
    return list(found["results"]) if found else []


def _answer_of(client: HubClient, operation: str) -> dict[str, Any] | None:
    """Return the answer of the hub; None if its version does not have the operation."""
    try:
        found: dict[str, Any] = client.call(operation)
    except HubError:
        raise
    except TabaneError:
        return None
    return found


def examine(environ: Mapping[str, str], hub: HubClient | None, hub_problem: HubError | None) -> Installation:
    """Gather the facts. Problems with them never raise an exception."""
    settings, settings_problem = _settings(environ)
    running = None
    if hub is not None:
        try:
            running = live(hub)
        except HubError as error:
            hub_problem = error
    installation = Installation(
        environ=environ,
        endpoint=Endpoint(home_of(environ), environ),
        settings=settings,
        settings_problem=settings_problem,
        live=running,
        hub_problem=hub_problem.message if hub_problem else None,
    )
    return _with_configuration(installation)


def read_servers(installation: Installation, environ: Mapping[str, str]) -> ServersConfiguration:
    """Read the servers file with the variables of an environment. Raises TabaneError."""
    required = "servers" in installation.settings.sources
    settings = installation.settings
    found = read_configuration(installation.servers_path, variables_of(settings, environ), required=required)
    return with_inherited(found, settings, environ)


def _with_configuration(installation: Installation) -> Installation:
    try:
        configuration = read_servers(installation, installation.environ)
        written = written_definitions(installation.servers_path)
    except TabaneError as error:
        return replace(installation, configuration_problem=error.message)
    return replace(installation, configuration=configuration, written=written)


def _settings(environ: Mapping[str, str]) -> tuple[Settings, Message | None]:
    try:
        return load_settings({}, environ), None
    except TabaneError as error:
        return _defaults(environ), error.message


def _defaults(environ: Mapping[str, str]) -> Settings:
    """Return the default settings, which are needed even if those of the user cannot be read."""
    given = {name: environ.get(f"TABANE_{name.upper()}") for name in ("config", "servers")}
    named = {
        name: expanded(path, environ, os.getcwd())
        for name, path in given.items()
        if path and "\0" not in path
    }
    config = named.get("config", config_folder(environ) / "tabane.toml")
    return Settings(
        home=Path(home_of(environ)),
        config=config,
        servers=named.get("servers", config.parent / "mcp-servers.json"),
    )
