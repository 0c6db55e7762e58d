"""Preflight: the doctor's checks of the configuration, each finding with its file and line, without a hub.

Files are read, and nothing is started, unless servers are to be. What was pinned of the servers' definitions
is read from the home.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from tabane.access.key_store import FILE, KeyStore
from tabane.access.permissions import PermissionPatterns
from tabane.access.profiles import read_profiles
from tabane.catalog.tools.listings import ServerListing
from tabane.errors import TabaneError
from tabane.guard.definitions.definition import KINDS, definition_digest, read_definitions
from tabane.guard.definitions.pins import PINS_FILE, PinState, ServerPins, read_pins
from tabane.hub.doctor import access, configuration, server_starts
from tabane.hub.doctor.installation import DoctorFinding, Installation, examine, fault, warning
from tabane.messages import Lang, Message, say
from tabane.servers.configuration import open_document, server_tables
from tabane.servers.server import Server

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """A problem, and the file and line that it is about; no line if none is known.

    ``changed``: a definition of a server is not as it was pinned.
    """

    severity: Severity
    text: str
    path: str
    line: int | None = None
    advice: str = ""
    changed: bool = False


def check_configuration(environ: Mapping[str, str], lang: Lang, *, start: bool) -> list[PreflightFinding]:
    """Check settings, servers file, keys and pins; with ``start``, also start the servers. Blocks.

    The findings are in the order of their files and lines.
    """
    installation = examine(environ, None, None)
    places = _Places(installation, lang)
    found = [
        *places.found(configuration.settings(installation), in_settings=True),
        *places.found(configuration.servers_file(installation)),
        *places.found(_plain_secrets(installation)),
        *places.found(configuration.commands(installation)),
        *places.found(configuration.urls(installation)),
        *places.found(access.keys(installation), in_settings=True),
        *places.found(_idle_patterns(installation), in_settings=True),
    ]
    try:
        pins = read_pins(installation.settings.home / PINS_FILE)
    except (TabaneError, sqlite3.Error) as error:
        why = error.message if isinstance(error, TabaneError) else str(error)
        found += places.found([fault(say("The pinned definitions cannot be read: {why}", why=why))])
        pins = {}
    found += places.found(_waiting(installation, pins), changed=True)
    if start:
        listings: list[ServerListing] = []
        found += places.found(server_starts.starts(installation, listings.append))
        found += places.found(_differing(listings, pins), changed=True)
    return sorted(found, key=lambda finding: (finding.path, finding.line or 0))


class _Places:
    """Gives findings of the doctor their file and line."""

    def __init__(self, installation: Installation, lang: Lang) -> None:
        self._lang = lang
        self._servers, self._config = str(installation.servers_path), str(installation.settings.config)
        self._lines: dict[str, int] = {}
        try:
            document = open_document(installation.servers_path)
            for table in server_tables(installation.servers_path, document):
                self._lines |= {entry.key: entry.line for entry in document.members(table.start)}
        except (TabaneError, OSError):
            pass  # which is a finding
        servers = installation.configuration.servers if installation.configuration else ()
        for server in servers:
            line = server.disabled.fields.get("line") if server.disabled else None
            if isinstance(line, int):
                self._lines[server.name] = line

    def found(
        self, findings: Iterable[DoctorFinding], *, in_settings: bool = False, changed: bool = False
    ) -> Iterator[PreflightFinding]:
        """Yield what may fail a check: notes and what is in order are left out."""
        for finding in findings:
            if finding.level in ("fault", "warning"):
                path, line, text = self._located(
                    finding.title, self._config if in_settings else self._servers
                )
                severity: Severity = "error" if finding.level == "fault" else "warning"
                advice = finding.mend.render(self._lang) if finding.mend else ""
                yield PreflightFinding(severity, text, path, line, advice, changed)

    def _located(self, title: Message, path: str) -> tuple[str, int | None, str]:
        """Return path, line and the sentence without them."""
        text = title.render(self._lang)
        for known in (self._servers, self._config):
            if head := re.match(rf"{re.escape(known)}:(\d+)(?::\d+)?(: | )", text):
                return known, int(head[1]), text[head.end() :]
        server = title.fields.get("server")
        return path, self._lines.get(str(server)) if path == self._servers else None, text


def _plain_secrets(installation: Installation) -> Iterator[DoctorFinding]:
    for server, keys in configuration.keys_in_plain_text(installation).items():
        yield warning(
            say(
                "{server!n} has keys or passwords in plain text: {keys}", server=server, keys=", ".join(keys)
            ),
            say("Keep them as secrets: tabane secrets adopt"),
        )


def _idle_patterns(installation: Installation) -> Iterator[DoctorFinding]:
    """Report patterns of profiles and keys that name a server which does not exist."""
    servers = installation.configuration.servers if installation.configuration else ()
    if not servers or installation.settings_problem:
        return
    for owner, patterns in _patterns(installation):
        for pattern in (*patterns.allow, *patterns.deny):
            if not _matches_server(pattern, servers):
                yield warning(
                    say("{owner}: the pattern {pattern} matches no server", owner=owner, pattern=pattern)
                )


def _patterns(installation: Installation) -> Iterator[tuple[Message, PermissionPatterns]]:
    try:
        for profile in read_profiles(installation.settings.config).values():
            yield say("The profile {name}", name=profile.name), profile.patterns
        store = KeyStore(installation.settings.home / FILE)
    except (TabaneError, OSError):
        return  # which is a finding, or there are no keys
    try:
        for record in store.active():
            yield say("The key {name}", name=record.name), record.patterns
    finally:
        store.close()


def _matches_server(pattern: str, servers: Iterable[Server]) -> bool:
    """Return whether a pattern may match a tool. What names no server is not judged."""
    name, divided, _ = pattern.partition("__")
    if not divided or pattern.startswith("@"):
        return True
    return any(server.prefix == "" or fnmatchcase(server.prefix or server.name, name) for server in servers)


def _waiting(installation: Installation, pins: Mapping[str, ServerPins]) -> Iterator[DoctorFinding]:
    """Report recorded definitions that changed and that nobody has accepted yet."""
    for server in installation.enabled:
        known = pins.get(server.name)
        waits = [each for each in known.all() if each.pin.state is PinState.OPEN] if known else []
        if waits and known is not None and not known.withdrawn:
            yield fault(
                say(
                    "{waiting} {waiting:definition|definitions} of {server!n} changed and "
                    "{waiting:waits|wait} for acceptance: {names}",
                    waiting=len(waits),
                    server=server.name,
                    names=_named(each.key.name for each in waits),
                ),
                _look_at(server.name),
            )


def _differing(listings: Iterable[ServerListing], pins: Mapping[str, ServerPins]) -> Iterator[DoctorFinding]:
    """Report definitions that a started server lists, and that are not trusted."""
    for listing in listings:
        known = pins.get(listing.server)
        if known is None:
            continue
        names = []
        for list_name, items in listing.lists.items():
            kind = KINDS.get(list_name)
            if kind is None or kind == "resource" or kind not in known.lists:
                continue
            for key, digest, _ in read_definitions(kind, items, definition_digest):
                pin = known.get(key, digest)
                if pin is None or (not pin.is_trusted and pin.state is not PinState.OPEN):
                    names.append(key.name)
        if names:
            yield fault(
                say(
                    "{count} {count:definition|definitions} of {server!n} "
                    "{count:is|are} not as pinned: {names}",
                    count=len(names),
                    server=listing.server,
                    names=_named(names),
                ),
                _look_at(listing.server),
            )


def _look_at(server: str) -> Message:
    return say("Look at them: tabane servers diff {server!c}", server=server)


_MOST_NAMES = 10


def _named(names: Iterable[str]) -> Message | str:
    listed = sorted(set(names))
    if len(listed) <= _MOST_NAMES:
        return ", ".join(listed)
    shown = ", ".join(listed[:_MOST_NAMES])
    return say("{names} and {count} more", names=shown, count=len(listed) - _MOST_NAMES)
