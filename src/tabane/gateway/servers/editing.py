"""Changes to the servers file that the commands `tabane servers add|remove|enable|disable` make.

The file is replaced in one step, mode 0600, and what it was stays beside it as ``….bak``. Keys keep
their order, unknown ones too. A file with comments is never rewritten, since they would be lost: the
user is shown what to write instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.gateway.servers.commented_json import Document, read_document
from tabane.gateway.servers.configuration import TABLES, open_document, server_tables
from tabane.gateway.servers.keys import is_plain
from tabane.messages import Message, say
from tabane.settings.files import write_private
from tabane.settings.spelling import nearest

Table = dict[str, Any]
Change = Callable[[Table], Message]
"""Changes the object of servers in place, and says what a person would have to write by hand."""


def add_server(path: str | os.PathLike[str], name: str, definition: Mapping[str, Any]) -> None:
    """Add a server at the end of the file, which is made where there is none.

    Raises BadArguments where the name is empty or taken, and as :func:`edit_servers`.
    """

    def change(table: Table) -> Message:
        if not name or name in table:
            raise BadArguments(
                say("There is a server {name} already. Choose another name, or remove it first.", name=name)
                if name
                else say("A server needs a name."),
                "name",
            )
        table[name] = dict(definition)
        return say("add: {lines}", lines=_lines(name, table[name]))

    edit_servers(path, change)


def remove_server(path: str | os.PathLike[str], name: str) -> None:
    """Take a server out of the file. Raises UnknownName, and as :func:`edit_servers`."""

    def change(table: Table) -> Message:
        _known(table, name)
        del table[name]
        return say("remove the server {name}", name=name)

    edit_servers(path, change)


def enable_server(path: str | os.PathLike[str], name: str, enabled: bool) -> None:
    """Switch a server on or off in the file. Raises UnknownName, and as :func:`edit_servers`."""

    def change(table: Table) -> Message:
        definition = _known(table, name)
        definition.pop("disabled", None)
        definition.pop("enabled", None)
        if not enabled:
            definition["enabled"] = False
        return say('write "enabled": {value} into the server {name}', value=json.dumps(enabled), name=name)

    edit_servers(path, change)


def edit_servers(path: str | os.PathLike[str], change: Change) -> None:
    """Let ``change`` alter the servers of the file, and write it back with a copy of the old one.

    Raises what ``change`` raises, and ConfigurationError where the file is broken, has comments, names
    a server twice, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        document = open_document(target)
        previous = target.read_bytes()
    except FileNotFoundError:
        document, previous = read_document('{"mcpServers": {}}'), None
    root = document.value
    by_hand = change(_table(target, document))
    _refuse_loss(target, document, by_hand)
    try:
        if previous is None:
            os.makedirs(target.parent, mode=0o700, exist_ok=True)
        else:
            write_private(f"{target}.bak", previous)
        write_private(target, _encoded(root))
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=target, reason=error.strerror)
        ) from None


def _table(path: Path, document: Document) -> Table:
    """The object that holds the servers: where the file has one already, else a new one."""
    tables = server_tables(path, document)
    table: Table = document.value.setdefault(tables[0].key if tables else TABLES[0], {})
    return table


def _known(table: Table, name: str) -> Table:
    definition = table.get(name)
    if isinstance(definition, dict):
        return definition
    near = nearest(name, table)
    if near:
        raise UnknownName(
            say("There is no server {name}. Did you mean {near}?", name=name, near=", ".join(near)), near
        )
    raise UnknownName(say("There is no server {name}.", name=name))


def _refuse_loss(path: Path, document: Document, by_hand: Message) -> None:
    if document.commented:
        raise ConfigurationError(
            say(
                "{path} has comments, which would be lost. Edit it by hand: {change}.",
                path=path,
                change=by_hand,
            )
        )
    if _has_doubles(path, document):
        raise ConfigurationError(
            say(
                "{path} has a key twice, and one of the two would be lost. Edit it by hand: {change}.",
                path=path,
                change=by_hand,
            )
        )


def _has_doubles(path: Path, document: Document) -> bool:
    tables = server_tables(path, document)
    objects = [document.members(), *(document.members(table.start) for table in tables)]
    objects += [document.members(server.start) for server in [m for o in objects[1:] for m in o]]
    return any(len({member.key for member in members}) < len(members) for members in objects)


def _lines(name: str, definition: Table) -> str:
    return f"{_quoted(name)}: {_laid_out(definition)}"


def _encoded(root: Table) -> bytes:
    return (_laid_out(root) + "\n").encode()


def _laid_out(value: Any, margin: str = "") -> str:
    """JSON as people write this file: two spaces, and a list of plain values on one line."""
    inner = margin + "  "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{_quoted(key)}: {_laid_out(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        return "[\n" + ",\n".join(inner + _laid_out(part, inner) for part in value) + f"\n{margin}]"
    if isinstance(value, list):
        return "[" + ", ".join(_laid_out(part) for part in value) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair can only be written as an escape.
    return text if text.isascii() or is_plain(text) else json.dumps(value)
