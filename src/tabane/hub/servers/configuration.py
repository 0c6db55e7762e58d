"""Configuration of a hub's servers: file, variables, limits, environment, cages; and its reload."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from tabane.errors import TabaneError
from tabane.guard.definitions.review import DefinitionScans
from tabane.guard.scanner.scan_pool import ScanPool
from tabane.hub.context import secret_of
from tabane.hub.servers.recorded_environment import with_recorded
from tabane.messages import Message
from tabane.servers.configuration import FileStamp, ServersConfiguration, read_configuration, stamp
from tabane.servers.projects.project_folders import TRUST_FILE
from tabane.servers.server import Server
from tabane.servers.variables import variables_of
from tabane.settings import Settings, load_settings
from tabane.upstreams.connection import UpstreamLimits
from tabane.upstreams.processes.child_environment import environment_secrets

if TYPE_CHECKING:
    from tabane.guard.cages.cages import Cages
    from tabane.guard.definitions.definition import DefinitionJudge

log = logging.getLogger(__name__)


def limits_of(settings: Settings) -> UpstreamLimits:
    """Return the hub's limits for its upstreams: times, sizes and counts."""
    return UpstreamLimits(
        start_timeout=settings.start_timeout,
        download_timeout=settings.download_timeout,
        downloads=settings.downloads,
        probe_timeout=settings.probe_timeout,
        restart_first=settings.restart_first,
        restart_max=settings.restart_max,
        circuit_failures=settings.circuit_failures,
        circuit_wait=settings.circuit_wait,
        queue_length=settings.queue_length,
        list_items=settings.list_items,
        list_size=settings.list_size,
        catalogue_size=settings.catalogue_size,
    )


HOME_FILES = ("secrets.env", "keyring-names", TRUST_FILE)
"""Files of the home that change when a secret does, or what is trusted."""


def hub_environment(settings: Settings, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a hub: its own, and what is recorded for it or kept as a secret."""
    return with_recorded(environment, settings.home, lambda name: secret_of(settings, environment, name))


def read_servers(settings: Settings, environment: Mapping[str, str]) -> ServersConfiguration:
    """Read the servers file, and the trusted files of projects. Raises ConfigurationError."""
    # A named file has to exist; the default one may be missing.
    named = settings.sources.get("servers")
    required = bool(named and named.kind != "default")
    variables = variables_of(settings, environment)
    found = read_configuration(settings.servers, variables, required=required)
    if (settings.home / TRUST_FILE).exists():
        from tabane.servers.projects.project_servers import with_projects  # most hubs have no project

        found = with_projects(found, settings.home, variables)
    return with_inherited(found, settings, environment)


def with_inherited(
    configuration: ServersConfiguration, settings: Settings, environment: Mapping[str, str]
) -> ServersConfiguration:
    """Return the servers with the variables that all of them inherit, and the secrets among these."""
    servers = (_inheriting(server, settings.inherit, environment) for server in configuration.servers)
    return structs.replace(configuration, servers=tuple(servers))


def _inheriting(server: Server, patterns: tuple[str, ...], environment: Mapping[str, str]) -> Server:
    if server.transport != "stdio":
        return server
    inherit = tuple(dict.fromkeys((*server.inherit, *patterns)))
    secrets = (*server.secrets, *environment_secrets(environment, server.env, inherit))
    return structs.replace(server, inherit=inherit, secrets=tuple(dict.fromkeys(secrets)))


def log_warnings(settings: Settings, configuration: ServersConfiguration) -> None:
    """Log what is odd in the settings and the servers file, and does no harm."""
    for warning in (*settings.warnings, *configuration.warnings):
        log.warning("%s", warning)


LOOK = 1.0
"""Seconds between two looks at the files."""

FIXED = (
    *("home", "config", "servers", "keyring", "start_servers", "log_size", "log_files", "stuck_after"),
    *("http", "host", "port", "http_token", "embedding_cache"),
    *("tls_certificate", "tls_key", "tls_client_ca"),
    *("audit", "audit_size", "audit_files", "audit_days", "audit_arguments", "audit_redact"),
    *("audit_sync", "audit_full"),
    *("posts_embeddings", "posts_reasoning", "posts_summary"),
)
"""Settings that a running hub keeps: a change takes effect at the next start."""

_Stamps = tuple[FileStamp, ...]


class FileFollower:
    """Calls ``reload`` when one of ``files`` has changed. ``problem`` is why the last change has no effect.

    ``reload`` raises TabaneError if the files are wrong. Then the configuration before stays in use.

    Each second, the files' inode, size and time of change (of permissions too) are compared. That is one
    call of stat for each file on every platform, and editors that replace a file are no special case.

    ``projects`` are files of projects with the stamps that they had when they were read. They may be on a
    slow network, so a thread looks at them.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, files: Sequence[Path], reload: Callable[[], None]
    ) -> None:
        self._loop, self._files, self._reload = loop, files, reload
        self.projects: tuple[tuple[Path, FileStamp], ...] = ()
        self._state = self._seen()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self.problem: Message | None = None

    def start(self) -> None:
        """Look at the files from now on, once a second."""
        self._timer = self._loop.call_later(LOOK, self._look)

    def close(self) -> None:
        """Look at the files no more."""
        if self._timer:
            self._timer.cancel()
        if self._looking:
            self._looking.cancel()

    def now(self) -> None:
        """Read the files now, changed or not."""
        self._state = self._seen()
        try:
            self._reload()
        except TabaneError as error:
            self.problem = error.message
            log.error("the change has no effect, and the previous configuration stays in use: %s", error)
        else:
            log.info("settings and servers were reloaded")
            if self.problem:
                log.info("the files are valid again")
            self.problem = None

    def follow(self) -> bool:
        """Read the files if one has changed. Return whether one has."""
        changed = self._seen() != self._state
        if changed:
            self.now()
        return changed

    def _look(self) -> None:
        if not self.follow() and self.projects and (self._looking is None or self._looking.done()):
            self._looking = self._loop.create_task(self._look_at_projects())
        self.start()

    async def _look_at_projects(self) -> None:
        read = self.projects
        stamps = await asyncio.to_thread(_stamps, read)
        if stamps != [before for _, before in read] and read is self.projects:
            self.now()

    def _seen(self) -> _Stamps:
        return tuple(stamp(file, links=True) for file in self._files)


def _stamps(files: Iterable[tuple[Path, FileStamp]]) -> list[FileStamp]:
    """Return the stamps that files have now. Blocks."""
    return [stamp(path) for path, _ in files]


def read_again(
    current: Settings, given: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Settings, ServersConfiguration]:
    """Read settings and servers from their files again. Raises TabaneError.

    Flags of the command line and settings in :data:`FIXED` stay as they are. ``given`` is the environment in
    which the hub was started, which names the files, ``environment`` what :func:`hub_environment` made of it.
    """
    flags = {
        name: getattr(current, name) for name, source in current.sources.items() if source.kind == "flag"
    }
    settings = load_settings(flags, given)
    for name in FIXED:
        if getattr(settings, name) != getattr(current, name):
            log.warning("%s takes effect with the next start: tabane restart", name)
    settings = replace(settings, **{name: getattr(current, name) for name in FIXED})
    return settings, read_servers(settings, environment)


_PACKAGE = str(Path(__file__).resolve().parents[3])
_RUN = "import sys; sys.path.append(sys.argv[1]); from tabane.hub.work.caged_network import main; main()"


PROXY = (sys.executable, "-I", "-c", _RUN, _PACKAGE)
"""The command of the proxy to allowed hosts, which is given their names as further arguments."""


def cages_of(settings: Settings, environment: Mapping[str, str]) -> Callable[[], Cages]:
    """Return what returns the builder of cages, the same one each time."""

    @cache
    def cages() -> Cages:
        from tabane.guard.cages.cages import Cages  # most hubs have no caged server

        own = [settings.servers, settings.config]
        return Cages(settings.home, own, environment, PROXY)

    return cages


def definition_scans(environment: Mapping[str, str], errors: int | None = None) -> DefinitionScans:
    """Return scans with a pool for long definitions, to be closed. ``errors`` is the stderr of the pool."""
    return DefinitionScans(_scanner, ScanPool(environment, errors))


def _scanner() -> DefinitionJudge:
    """Return the scanner. It is imported here, in a thread: it has many rules."""
    from tabane.guard.scanner.scanner import DefinitionScanner

    return DefinitionScanner()
