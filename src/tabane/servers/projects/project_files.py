"""Files of projects that define servers: found in a folder, and read without following links.

Nothing in such a file is run or looked up here. It is data of whoever wrote the project.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.servers.assistants.importing import is_tabane
from tabane.servers.configuration import open_document, server_tables
from tabane.servers.foreign_keys import our_definition
from tabane.servers.key_values import is_plain
from tabane.servers.projects.project_folders import PROJECT_FILES
from tabane.servers.redaction import Redactor, written_secrets
from tabane.servers.variables import names_needed
from tabane.settings.files import read_in_folder

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
        return Path(self.folder, self.name)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the file, in hex digits."""
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
    lines = [_runs(definition)]
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


def _runs(definition: Mapping[str, Any]) -> str:
    args = definition.get("args")
    words = [definition.get("command"), *(args if isinstance(args, list) else ())]
    texts = tuple(word for word in words if isinstance(word, str))
    url = definition.get("url", "")
    line = f"{shlex.join(texts)} {url}".strip() if isinstance(url, str) else shlex.join(texts)
    return Redactor(written_secrets(_typed(definition, url))).text(line)


def _typed(definition: Mapping[str, Any], url: object) -> dict[str, Any]:
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
