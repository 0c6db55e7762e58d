"""Servers that the files of a project define, and the trust of a person in these files.

Files are found in a folder, and read without following links. Nothing in such a file is run or looked up
here: it is data of whoever wrote the project. A file is trusted by its path and the SHA-256 of its bytes, so
a changed file is not trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import structs

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.assistants.importing import is_tabane
from tabane.servers.configuration import (
    FileStamp,
    ServersConfiguration,
    configuration_in,
    open_document,
    server_tables,
    stamp,
)
from tabane.servers.editing import folder_lock
from tabane.servers.foreign_keys import our_definition
from tabane.servers.projects.project_folders import PROJECT_FILES, TRUST_FILE
from tabane.servers.redaction import Redactor, written_secrets
from tabane.servers.server import Server
from tabane.servers.server_keys import is_plain
from tabane.servers.variables import Variables, names_needed
from tabane.settings.files import private_folder, read_in_folder, read_private, write_private

LIMIT = 1 << 20
"""Bytes of such a file."""

MOST_SERVERS = 200
"""Servers of such a file."""

_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project as it was read. ``name`` is its path in the folder, which has no links."""

    folder: str
    name: str
    data: bytes = field(repr=False)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self.folder, self.name)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file, in hex digits."""
        return hashlib.sha256(self.data).hexdigest()


def read_project_file(folder: str, name: str) -> ProjectFile:
    """Return a file of a project. ``folder`` is a path without links.

    Raises FileNotFoundError if there is none. Raises ConfigurationError if it is a link, another user's, too
    large, or cannot be read.
    """
    return ProjectFile(folder, name, read_in_folder(folder, name, LIMIT))


def project_files(folder: str) -> Iterator[ProjectFile | ConfigurationError]:
    """Yield the files of a project, or why one cannot be used."""
    for name in PROJECT_FILES:
        try:
            yield read_project_file(folder, name)
        except FileNotFoundError:
            continue
        except ConfigurationError as error:
            yield error


def definitions_in(file: ProjectFile) -> dict[str, Any]:
    """Return the servers of a file as written, by name, without Tabane itself.

    Raises ConfigurationError if the file is not valid, or has too many servers.
    """
    try:
        document = open_document(file.path, lambda path: file.data)
    except RecursionError:
        raise ConfigurationError(say("{path} is nested too deeply.", path=file.path)) from None
    found = {
        name: value
        for table in server_tables(file.path, document)
        for name, value in table.value.items()
        if name and is_plain(name) and not (isinstance(value, dict) and is_tabane(value))
    }
    if len(found) > MOST_SERVERS:
        raise ConfigurationError(
            say("{path} has {count} {count:server|servers}. At most {most} are used.",
                path=file.path, count=len(found), most=MOST_SERVERS)
        )  # fmt: skip
    return found


# -- what a person is shown ------------------------------------------------------------------------


def described(definition: object) -> list[str]:
    """Return lines that say what a server would run, as written: the command or URL, and names of variables.

    Values of variables and headers are not shown, and secrets in the command are masked. Characters that
    are invisible or control a terminal are replaced.
    """
    if not isinstance(definition, dict):
        return []
    written, definition = definition, our_definition(definition.items()).values
    lines = [_command_line(definition)]
    for place, key in ((definition, "cwd"), (written, "envFile")):
        if isinstance(place.get(key), str):
            lines.append(f"{key}: {place[key]}")
    tables = {key: definition.get(key) for key in ("env", "headers")}
    lines += [
        f"{key}: {', '.join(table)}" for key, table in tables.items() if isinstance(table, dict) and table
    ]
    inherit = definition.get("inherit")
    if isinstance(inherit, list) and inherit:
        lines.append(f"inherit: {', '.join(map(str, inherit))}")
    if variables := dict.fromkeys(names_needed(definition)):
        lines.append(f"variables: {', '.join(variables)}")
    return [visible(line) for line in lines]


def visible(text: str) -> str:
    """Return untrusted text without characters that a person cannot see, cut if it is long."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_LONGEST])
    return shown + "…" if len(text) > _LONGEST else shown


def _command_line(definition: Mapping[str, Any]) -> str:
    args = definition.get("args")
    words = [definition.get("command"), *(args if isinstance(args, list) else ())]
    texts = tuple(word for word in words if isinstance(word, str))
    url = definition.get("url", "")
    line = f"{shlex.join(texts)} {url}".strip() if isinstance(url, str) else shlex.join(texts)
    return Redactor(written_secrets(_secret_members(definition, url))).text(line)


def _secret_members(definition: Mapping[str, Any], url: object) -> dict[str, Any]:
    """Return the parts of a definition that may contain secrets, without those of a wrong type."""
    args = definition.get("args")
    found: dict[str, Any] = {
        "args": tuple(each for each in args if isinstance(each, str)) if isinstance(args, list) else (),
        "url": url if isinstance(url, str) else "",
    }
    for key in ("env", "headers"):
        table = definition.get(key)
        if isinstance(table, dict):
            found[key] = {name: value for name, value in table.items() if isinstance(value, str)}
    return found


MOST_TRUSTED = 100
"""Files that are trusted at the same time: they are watched while the hub runs."""


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """A file that a person has trusted. ``servers`` are the lines that were shown of each server."""

    folder: str
    name: str
    digest: str
    servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self.folder, self.name)

    @property
    def key(self) -> tuple[str, str]:
        """The folder and the name, which no other trusted file has together."""
        return self.folder, self.name


class ProjectTrust:
    """The files that a person has trusted, kept in ``home``. All of it blocks."""

    def __init__(self, home: Path) -> None:
        self._home, self.path = home, home / TRUST_FILE

    def files(self) -> tuple[TrustedFile, ...]:
        """Return the trusted files, in the order in which they were trusted. Raises ConfigurationError."""
        try:
            data = read_private(self.path)
        except FileNotFoundError:
            return ()
        try:
            return tuple(_read_trusted(each) for each in json.loads(data)["files"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigurationError(
                say("{path} is not valid. Delete it, and trust your projects again.", path=self.path)
            ) from None

    def add(self, files: Iterable[ProjectFile]) -> None:
        """Trust these bytes of these files. Raises ConfigurationError."""
        added = {
            file.path: TrustedFile(
                file.folder,
                file.name,
                file.digest,
                {name: tuple(described(value)) for name, value in definitions_in(file).items()},
            )
            for file in files
        }
        private_folder(self._home)
        with folder_lock(self.path):
            kept = {each.path: each for each in self.files()} | added
            if len(kept) > MOST_TRUSTED:
                raise ConfigurationError(
                    say(
                        "{most} project {most:file is|files are} trusted already. "
                        "Forget one: tabane projects forget",
                        most=MOST_TRUSTED,
                    )
                )
            self._write(kept.values())

    def forget(self, folder: str) -> tuple[TrustedFile, ...]:
        """Trust no file of a folder any more. Return those that were trusted. Raises ConfigurationError."""
        if not self.path.exists():
            return ()
        with folder_lock(self.path):
            files = self.files()
            gone = tuple(each for each in files if each.folder == folder)
            if gone:
                self._write(each for each in files if each.folder != folder)
        return gone

    def _write(self, files: Iterable[TrustedFile]) -> None:
        rows = [
            {"folder": each.folder, "name": each.name, "sha256": each.digest, "servers": dict(each.servers)}
            for each in files
        ]
        try:
            write_private(self.path, json.dumps({"version": 1, "files": rows}, indent=1).encode() + b"\n")
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=self.path, reason=error.strerror)
            ) from None


def _read_trusted(row: Any) -> TrustedFile:
    folder, name, digest = row["folder"], row["name"], row["sha256"]
    if not (isinstance(folder, str) and isinstance(digest, str) and name in PROJECT_FILES):
        raise ValueError(row)
    servers = {str(key): tuple(map(str, lines)) for key, lines in row.get("servers", {}).items()}
    return TrustedFile(folder, name, digest, servers)


def with_projects(found: ServersConfiguration, home: Path, variables: Variables) -> ServersConfiguration:
    """Return the servers with those of trusted files. A file that cannot be used is left out with a warning.

    If a name is taken, the server of the project gets the name of its folder as a suffix.
    """
    try:
        trusted = ProjectTrust(home).files()
    except ConfigurationError as error:
        return structs.replace(found, warnings=(*found.warnings, error.message))
    servers = {server.name: server for server in found.servers}
    warnings: list[Message] = []
    stamps: list[tuple[Path, FileStamp]] = []
    for file in trusted:
        stamps.append((file.path, stamp(file.path)))
        try:
            for server in _servers_of(file, variables):
                name = _free_name(server.name, file.folder, servers)
                servers[name] = structs.replace(server, name=name)
        except FileNotFoundError:
            continue
        except ConfigurationError as error:
            warnings.append(error.message)
    every = (*found.warnings, *warnings)
    return structs.replace(found, servers=tuple(servers.values()), warnings=every, projects=tuple(stamps))


def _servers_of(trusted: TrustedFile, variables: Variables) -> Iterator[Server]:
    file = read_project_file(trusted.folder, trusted.name)
    if file.digest != trusted.digest:
        raise ConfigurationError(changed_since(trusted))
    known = definitions_in(file)
    for server in configuration_in(file.path, file.folder, file.data, variables).servers:
        if server.name in known:
            share = "hub" if server.needs_folder and server.share == "roots" else server.share
            yield structs.replace(
                server.in_folder(file.folder),
                project=file.folder,
                # Its names could not be told from those of another server's tools, which all clients may see.
                prefix=None,
                share=share,
                roots=("file://" + quote(file.folder),) if share == "hub" else None,
            )


def changed_since(file: TrustedFile) -> Message:
    """Return that a file is not the one that was trusted, and what to do."""
    return say(
        "{path} has changed since it was trusted, so its servers are not used. See what changed, and trust "
        "it again: tabane projects trust {folder}",
        path=visible(str(file.path)),
        folder=shlex.quote(visible(file.folder)),
    )


def _free_name(name: str, folder: str, taken: dict[str, Server]) -> str:
    suffix = re.sub(r"[^\w.-]+", "-", os.path.basename(folder)).strip("-.") or "2"
    candidates = [name, f"{name}-{suffix}"]
    candidates += [f"{candidates[1]}-{number}" for number in range(2, len(taken) + 3)]
    return next(each for each in candidates if each not in taken)
