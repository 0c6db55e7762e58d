"""Servers of the trusted files of projects, beside those of the servers file."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import structs

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.configuration import FileStamp, ServersConfiguration, configuration_in, stamp
from tabane.servers.projects.project_files import definitions_in, read_project_file, visible
from tabane.servers.projects.project_trust import ProjectTrust, TrustedFile
from tabane.servers.server import Server
from tabane.servers.variables import Variables


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
            yield _in_project(server, file.folder)


def changed_since(file: TrustedFile) -> Message:
    """Return that a file is not the one that was trusted, and what to do."""
    return say(
        "{path} has changed since it was trusted, so its servers are not used. See what changed, and trust "
        "it again: tabane projects trust {folder}",
        path=visible(str(file.path)),
        folder=shlex.quote(visible(file.folder)),
    )


def _in_project(server: Server, folder: str) -> Server:
    share = "hub" if server.needs_folder and server.share == "roots" else server.share
    return structs.replace(
        server.in_folder(folder),
        project=folder,
        # Its names could not be told from those of another server's tools, which all clients may see.
        prefix=None,
        share=share,
        roots=("file://" + quote(folder),) if share == "hub" else None,
    )


def _free_name(name: str, folder: str, taken: dict[str, Server]) -> str:
    suffix = re.sub(r"[^\w.-]+", "-", os.path.basename(folder)).strip("-.") or "2"
    candidates = [name, f"{name}-{suffix}"]
    candidates += [f"{candidates[1]}-{number}" for number in range(2, len(taken) + 3)]
    return next(each for each in candidates if each not in taken)
