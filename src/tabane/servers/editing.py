"""Changes to the servers file by the commands `tabane servers …` and by the hub.

The file is replaced in one step, with mode 0600, and a backup is saved as ``….bak``. Keys keep their order,
also unknown ones. In a file with comments, only the changed text is replaced. If that is impossible without a
loss, the file stays unchanged and the user is shown what to write.

An edit of the override of one tool changes its entry as a person asks for it.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import Message, say
from tabane.servers.commented_json import JsonDocument, read_document
from tabane.servers.configuration import TABLES, open_document, server_tables
from tabane.servers.json_edits import NotAnObject, UnsafeJsonEdit, has_comments, with_member, without_member
from tabane.servers.plain_secrets import without_secrets
from tabane.servers.server_keys import is_plain
from tabane.servers.tool_overrides import read_overrides
from tabane.settings.files import write_private
from tabane.text.nearest_names import nearest

Table = dict[str, Any]
Change = Callable[[Table], Message]
"""Changes the object of servers in place, and returns what a person would have to write by hand."""


class ReloadableServersFile(Protocol):
    """The servers file of the running hub."""

    @property
    def path(self) -> Path: ...

    def reload(self) -> Message | None:
        """Put the file in force as it is now. Return why it has no effect; None if it has."""
        ...

    def follow(self) -> Message | None:
        """Do the same if a file has changed since it was read."""
        ...


PATIENCE = 10.0
"""Seconds to wait for another command that changes the same file; one takes some milliseconds."""

_LOOK = 0.02
_GONE: Any = object()
_EMPTY = '{"mcpServers": {}}'


def add_server(path: str | os.PathLike[str], name: str, definition: Mapping[str, Any]) -> None:
    """Add a server at the end of the file, which is created if it does not exist.

    Raises BadArguments if the name is empty or taken, and as :func:`edit_servers`.
    """
    add_servers(path, {name: definition})


def add_servers(path: str | os.PathLike[str], definitions: Mapping[str, Mapping[str, Any]]) -> None:
    """Add several servers at once. Raises as :func:`add_server`; then none is added."""
    edit_servers(path, _addition_of(definitions))


def change_servers(
    path: str | os.PathLike[str],
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
) -> None:
    """Replace the definitions of several servers at once. ``before`` are those that the file had.

    Raises ConfigurationError if one of them has changed meanwhile, and as :func:`edit_servers`; then nothing
    is changed. Its message shows the new definitions without secrets.
    """

    def change(table: Table) -> Message:
        for name, definition in after.items():
            if table.get(name) != before[name]:
                raise ConfigurationError(
                    say(
                        "The entry of {name!n} has just been changed by another program. Try again.",
                        name=name,
                    )
                )
            table[name] = dict(definition)
        lines = ",\n".join(_entry_lines(name, without_secrets(name, table[name])) for name in after)
        return say("replace these entries by:\n{lines}", lines=lines)

    edit_servers(path, change)


def check_addable(path: str | os.PathLike[str], definitions: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise what :func:`add_servers` would raise now, without changing anything."""
    target = Path(os.path.realpath(path))
    try:
        document = open_document(target)
    except FileNotFoundError:
        document = read_document(_EMPTY)
    _refuse_loss(target, document, _addition_of(definitions)(_servers_table(target, document)))


def change_server(
    path: str | os.PathLike[str], name: str, edit: Callable[[Table], Mapping[str, Any]], shown: object
) -> None:
    """Replace the definition of a server by what ``edit`` makes of the written one.

    ``shown`` is the new definition as a person may see it. Raises UnknownName, what ``edit`` raises, and as
    :func:`edit_servers`.
    """

    def change(table: Table) -> Message:
        table[name] = dict(edit(copy.deepcopy(_known_server(table, name))))
        entry = f"{_quote_json(name)}: {_format_json(shown)}"
        return say("change the server {name!n} to: {entry}", name=name, entry=entry)

    edit_servers(path, change)


def remove_server(path: str | os.PathLike[str], name: str) -> None:
    """Remove a server from the file. Raises UnknownName, and as :func:`edit_servers`."""

    def change(table: Table) -> Message:
        _known_server(table, name)
        del table[name]
        return say("remove the server {name!n}", name=name)

    edit_servers(path, change)


def enable_server(path: str | os.PathLike[str], name: str, enabled: bool) -> None:
    """Switch a server on or off in the file. Raises UnknownName, and as :func:`edit_servers`."""

    def change(table: Table) -> Message:
        definition = _known_server(table, name)
        definition.pop("disabled", None)
        definition.pop("enabled", None)
        if not enabled:
            definition["enabled"] = False
        return say('set "enabled": {value} in the server {name!n}', value=json.dumps(enabled), name=name)

    edit_servers(path, change)


def edit_servers(path: str | os.PathLike[str], change: Change) -> None:
    """Change the servers of the file with ``change``, write the file, and save a backup.

    Raises what ``change`` raises, and ConfigurationError if the file is broken, names a server twice, cannot
    be changed without losing a comment, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        with folder_lock(target):
            _edit_file(target, change)
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=target, reason=error.strerror)
        ) from None


@contextmanager
def folder_lock(path: Path, limit: float = PATIENCE) -> Iterator[None]:
    """Lock the folder of a file, so that only one program at a time changes the files in it.

    The folder itself is locked, so that no lock file is left behind. Raises ConfigurationError if another
    program holds the lock for ``limit`` seconds, and OSError.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + limit
        while not _lock_folder(folder):
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    say("Another program is changing {path}. Try again when it is done.", path=path)
                )
            time.sleep(_LOOK)
        yield
    finally:
        os.close(folder)


def _lock_folder(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _edit_file(path: Path, change: Change) -> None:
    try:
        document = open_document(path)
        previous = path.read_bytes()
    except FileNotFoundError:
        document, previous = read_document(_EMPTY), None
    root = document.value
    table = _servers_table(path, document)
    before = copy.deepcopy(table)
    by_hand = change(table)
    _refuse_loss(path, document, by_hand)
    if document.commented and previous is not None:
        text = previous.decode("utf-8-sig")
        try:
            for place, value in _differences((_servers_key(path, document),), before, table):
                if value is _GONE:
                    text = without_member(text, place)
                elif has_comments(text, place):
                    raise UnsafeJsonEdit("/".join(place))
                else:
                    text = with_member(text, place, value)
        except (NotAnObject, UnsafeJsonEdit):
            raise ConfigurationError(
                say(
                    "{path} has comments, which would be lost. Edit it yourself: {change}",
                    path=path,
                    change=by_hand,
                )
            ) from None
        written = text.encode()
    else:
        written = (_format_json(root) + "\n").encode()
    if previous is not None:
        write_private(f"{path}.bak", previous)
    write_private(path, written)


def _differences(path: tuple[str, ...], before: Table, after: Table) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the members to set or to remove, only the deepest that differ."""
    for key in before.keys() - after.keys():
        yield (*path, key), _GONE
    for key, value in after.items():
        old = before.get(key, _GONE)
        if isinstance(old, dict) and isinstance(value, dict):
            yield from _differences((*path, key), old, value)
        elif old is _GONE or old != value:
            yield (*path, key), value


def _servers_table(path: Path, document: JsonDocument) -> Table:
    """Return the object with the servers: the file's, or a new one."""
    table: Table = document.value.setdefault(_servers_key(path, document), {})
    return table


def _servers_key(path: Path, document: JsonDocument) -> str:
    tables = server_tables(path, document)
    return tables[0].key if tables else TABLES[0]


def _addition_of(definitions: Mapping[str, Mapping[str, Any]]) -> Change:
    def change(table: Table) -> Message:
        for name, definition in definitions.items():
            check_server_name(name)
            if name in table:
                raise BadArguments(
                    say(
                        "The server {name!n} already exists. Choose another name, or remove it first.",
                        name=name,
                    ),
                    "name",
                )
            table[name] = dict(definition)
        lines = ",\n".join(_entry_lines(name, without_secrets(name, table[name])) for name in definitions)
        return say("add this entry to the servers:\n{lines}", lines=lines)

    return change


def check_server_name(name: str) -> None:
    """Raise BadArguments if a server could hardly be named so in commands, sentences and addresses."""
    if not name:
        raise BadArguments(say("A server needs a name."), "name")
    if name.startswith("-"):
        raise BadArguments(
            say("The name of a server may not begin with -: commands would take it for an option."), "name"
        )
    if name.strip() != name or not name.isprintable():
        raise BadArguments(
            say("The name of a server may not begin or end with a space, or contain control characters."),
            "name",
        )


def _known_server(table: Table, name: str) -> Table:
    definition = table.get(name)
    if isinstance(definition, dict):
        return definition
    near = nearest(name, table)
    if near:
        raise UnknownName(
            say("There is no server {name!n}. Did you mean {near}?", name=name, near=", ".join(near)), near
        )
    raise UnknownName(say("There is no server {name!n}.", name=name))


def _refuse_loss(path: Path, document: JsonDocument, by_hand: Message) -> None:
    tables = server_tables(path, document)
    objects = [document.members(), *(document.members(table.start) for table in tables)]
    objects += [document.members(server.start) for server in [m for o in objects[1:] for m in o]]
    if any(len({member.key for member in members}) < len(members) for members in objects):
        raise ConfigurationError(
            say(
                "{path} has a key twice, and one of the two would be lost. Edit it yourself: {change}",
                path=path,
                change=by_hand,
            )
        )


def _entry_lines(name: str, definition: Table) -> str:
    return f"{_quote_json(name)}: {_format_json(definition)}"


def _format_json(value: Any, margin: str = "") -> str:
    """Return JSON in the layout of this file: two spaces, and a list of plain values on one line."""
    inner = margin + "  "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{_quote_json(key)}: {_format_json(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        return "[\n" + ",\n".join(inner + _format_json(part, inner) for part in value) + f"\n{margin}]"
    if isinstance(value, list):
        return "[" + ", ".join(_format_json(part) for part in value) + "]"
    return _quote_json(value)


def _quote_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair can only be written as an escape.
    return text if text.isascii() or is_plain(text) else json.dumps(value)


class OverrideEdit(Struct, frozen=True):
    """A change of an override. A text that is None stays; an empty one is removed from the override.

    ``restored`` are parameters whose override is removed. ``reset``: the whole override is removed first.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    hidden: bool | None = None
    hide: Iterable[str] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)
    restored: Iterable[str] = ()
    reset: bool = False

    def apply(self, definition: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Return the definition with the changed override. Raises BadArguments if the result is wrong."""
        overrides = definition.get("overrides", {})
        before = overrides.get(tool, {}) if isinstance(overrides, dict) else None
        if not isinstance(before, dict):
            raise BadArguments(
                say('The key "overrides" is not an object of tools. Correct it in the servers file.')
            )
        override = self._change_override({} if self.reset else dict(before))
        left = {name: each for name, each in overrides.items() if name != tool}
        overrides = {**overrides, tool: override} if override else left
        found = {key: value for key, value in definition.items() if key != "overrides" or overrides}
        if overrides:
            found["overrides"] = overrides
        changed = read_overrides({tool: override} if override else {})
        faults = [fault for each in changed for fault in each.faults]
        if faults:
            raise BadArguments(say("The override of {tool} is wrong: {why}", tool=tool, why=faults[0]))
        return found

    def _change_override(self, override: dict[str, Any]) -> dict[str, Any]:
        for key in ("name", "title", "description"):
            text = getattr(self, key)
            if text is not None:
                override[key] = text
            if text == "":
                del override[key]
        if self.hidden is not None:
            override.pop("hidden", None)
            override |= {"hidden": True} if self.hidden else {}
        parameters = self._change_parameters(override.pop("parameters", {}))
        return {**override, "parameters": parameters} if parameters else override

    def _change_parameters(self, given: Any) -> dict[str, Any]:
        parameters = dict(given) if isinstance(given, dict) else {}
        changes: list[tuple[str, dict[str, Any]]] = [(name, {"hidden": True}) for name in self.hide]
        changes += [(name, {"fixed": value}) for name, value in self.fixed.items()]
        changes += [(name, {"default": value}) for name, value in self.defaults.items()]
        changes += [(name, {"description": text}) for name, text in self.described.items()]
        for name in self.restored:
            parameters.pop(name, None)
        for name, change in changes:
            before = parameters.get(name)
            parameters[name] = (before if isinstance(before, dict) else {}) | change
        return parameters
