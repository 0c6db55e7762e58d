"""The servers file, mcp-servers.json: the format that assistants use, read into Servers.

Comments, trailing commas and a byte order mark are accepted. A file that is not JSON is refused with line and
column. A single invalid server is disabled with a reason, and the others work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.commented_json import JsonDocument, JsonMember, JsonSyntaxError, read_document
from tabane.servers.key_values import is_plain
from tabane.servers.server import Server
from tabane.servers.server_parser import DefinitionSource, ServerProblem, problems_of, read_server
from tabane.servers.variables import Variables
from tabane.settings.files import read_trusted
from tabane.text.nearest_names import nearest

TABLES = ("mcpServers", "servers")
"""Keys of the objects with servers: ours and most programs', and VS Code's."""

_IGNORED = ("inputs", "$schema", "sandbox")


FileStamp = tuple[int, int, int] | None
"""Inode, size and time of change of a file; None if there is none."""


def stamp(path: Path, *, links: bool = False) -> FileStamp:
    """Return the stamp of a file. ``links``: of the file that a symbolic link leads to."""
    try:
        status = os.stat(path, follow_symlinks=links)
    except OSError:
        return None
    # ctime, since a change of permissions is a change too.
    return status.st_ino, status.st_size, status.st_ctime_ns


class ServersConfiguration(Struct, frozen=True):
    """The content of the servers file: servers in its order, also disabled ones, and warnings.

    ``projects`` are the trusted files of projects whose servers come after them, and the stamp that each file
    had before it was read.
    """

    path: Path
    servers: tuple[Server, ...] = ()
    warnings: tuple[Message, ...] = ()
    projects: tuple[tuple[Path, FileStamp], ...] = ()

    def get(self, name: str) -> Server | None:
        return next((server for server in self.servers if server.name == name), None)


def read_configuration(
    path: str | os.PathLike[str], variables: Variables, *, required: bool = False
) -> ServersConfiguration:
    """Read the servers file. ``required`` is True if the user named the file: then it must exist.

    Raises ConfigurationError if the file is missing though required, writable by others, or not valid JSON;
    for the last with path, line, column and what was expected there.
    """
    path = Path(os.path.abspath(path))
    try:
        document = open_document(path)
    except FileNotFoundError:
        if required:
            raise ConfigurationError(say("There is no servers file {path}.", path=path)) from None
        what = say("There are no servers yet. Add one with tabane servers add, or edit {path}.", path=path)
        return ServersConfiguration(path, (), (what,))
    return _configured(path, document, variables)


def configuration_of(
    path: str | os.PathLike[str], definitions: Mapping[str, object], variables: Variables
) -> ServersConfiguration:
    """Return the content of a servers file at ``path`` with these definitions, without reading it.

    Line numbers in its messages have no meaning.
    """
    path = Path(os.path.abspath(path))
    return _configured(path, read_document(json.dumps({TABLES[0]: definitions})), variables)


def configuration_in(path: Path, folder: str, data: bytes, variables: Variables) -> ServersConfiguration:
    """Return the content of a file of the project in ``folder``. Raises ConfigurationError."""
    document = open_document(path, lambda path: data)
    return _configured(path, document, variables, folder)


def check_definition(
    path: str | os.PathLike[str], name: str, definition: object, variables: Variables
) -> tuple[tuple[ServerProblem, ...], tuple[Message, ...]]:
    """Return the problems and the warnings of a definition that is to be written to the file at ``path``."""
    document = read_document(json.dumps({TABLES[0]: {name: definition}}))
    place = DefinitionSource(os.path.abspath(path), document)
    (table,) = document.members()
    (member,) = document.members(table.start)
    return problems_of(member, place, variables)


def why_disabled(server: Server) -> Message | None:
    """Return why the server may not be started, without file and line; None if it may."""
    why = server.disabled.fields.get("why") if server.disabled else None
    return why if isinstance(why, Message) else server.disabled


def open_document(path: Path, read: Callable[[Path], bytes] = read_trusted) -> JsonDocument:
    """Return the servers file as a document. Raises FileNotFoundError, and ConfigurationError as above."""
    data = read(path)
    try:
        return read_document(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _broken(path, *_place_of_byte(data, error.start), say("expected UTF-8")) from None
    except JsonSyntaxError as broken:
        raise _broken(path, broken.line, broken.column, broken.expected) from None


def written_definitions(path: Path) -> dict[str, Any]:
    """Return the servers of the file as written, by name. Of a repeated name, the last counts.

    Empty if the file does not exist. Raises ConfigurationError.
    """
    try:
        document = open_document(path)
    except FileNotFoundError:
        return {}
    tables = server_tables(path, document)
    return {entry.key: entry.value for table in tables for entry in document.members(table.start)}


def server_tables(path: Path, document: JsonDocument) -> tuple[JsonMember, ...]:
    """Return the file's objects that hold servers. Raises ConfigurationError if one is not an object."""
    if not isinstance(document.value, dict):
        raise _broken(path, 1, 1, say('expected an object such as {"mcpServers": {}}'))
    tables = tuple(member for member in document.members() if member.key in TABLES)
    for member in tables:
        if not isinstance(member.value, dict):
            raise _broken(path, member.line, 1, say('expected an object after "{key}"', key=member.key))
    return tables


def _configured(
    path: Path, document: JsonDocument, variables: Variables, project: str = ""
) -> ServersConfiguration:
    place = DefinitionSource(str(path), document, project)
    tables = server_tables(path, document)
    warnings = list(_strange_keys(path, document))
    servers: dict[str, Server] = {}
    lines: dict[str, int] = {}
    for member in (entry for table in tables for entry in document.members(table.start)):
        if not member.key or not is_plain(member.key):
            warnings.append(say("{path}:{line}: a server has no usable name.", path=path, line=member.line))
            continue
        if member.key in lines:
            warnings.append(_twice(path, member, lines[member.key]))
        lines[member.key] = member.line
        servers[member.key], found = read_server(member, place, variables)
        warnings += found
    return ServersConfiguration(path, tuple(servers.values()), tuple(warnings))


def _twice(path: Path, member: JsonMember, first: int) -> Message:
    return say(
        "{path}:{line}: the server {server!n} is defined here and in line {first}; this one is used.",
        path=path,
        line=member.line,
        server=member.key,
        first=first,
    )


def _strange_keys(path: Path, document: JsonDocument) -> Iterator[Message]:
    members = document.members()
    for member in members:
        if member.key in TABLES or member.key in _IGNORED:
            continue
        near = nearest(member.key, TABLES, 1)
        yield say(
            '{path}:{line}: the key "{key}" is unknown and is ignored. Write servers under {near}.',
            path=path,
            line=member.line,
            key=member.key,
            near=near[0] if near else TABLES[0],
        )
    if not any(member.key in TABLES for member in members):
        yield say('{path} has no servers. Write them in an object under "mcpServers".', path=path)


def _place_of_byte(data: bytes, position: int) -> tuple[int, int]:
    begin = data.rfind(b"\n", 0, position) + 1
    before = data[begin:position].decode("utf-8-sig", "replace")
    return data.count(b"\n", 0, position) + 1, len(before) + 1


def _broken(path: Path, line: int, column: int, expected: Message) -> ConfigurationError:
    return ConfigurationError(
        say("{path}:{line}:{column}: {expected}.", path=path, line=line, column=column, expected=expected)
    )
