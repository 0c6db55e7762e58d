"""Tabane's entry in an assistant's own file: add, update, remove, without other changes.

The file is replaced in one step and keeps its mode, and a backup is saved as ``….bak``. Comments are
preserved, since the text is edited, not generated again.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tabane.errors import BadArguments, ConfigurationError
from tabane.gateway.servers.clients import Client
from tabane.gateway.servers.commented_json import JsonSyntaxError, read_document
from tabane.gateway.servers.editing import folder_lock
from tabane.gateway.servers.importing import LIMIT, is_tabane
from tabane.gateway.servers.json_edits import NotAnObject, UnsafeJsonEdit, with_member, without_member
from tabane.messages import Message, say
from tabane.settings.files import read_owned, write_private

SEARCHING = frozenset({"claude-code", "vscode"})
"""Assistants that search tools themselves, and so are best given all of them (mode full).

Claude Code defers the tools of MCP servers until its model looks for them, and reads hints for that in
a tool's ``_meta``; VS Code groups what goes beyond its limit of tools a request into virtual tools, found
by embedding. Behind search mode both would search twice. The others hand every tool they are given to
the model: for them the few tools of search mode are the point.
"""

Status = Literal["installed", "updated", "unchanged", "removed", "absent"]
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstallChange:
    """A change that was, or would be, made to a file. ``others`` counts the other servers in it."""

    status: Status
    backup: Path | None = None
    others: int = 0


def entry(client: Client | None, launcher: Sequence[str], arguments: Sequence[str]) -> Entry:
    """Return Tabane's definition for a client; ``launcher`` runs ``tabane``, ``arguments`` follow ``mcp``."""
    command, *first = launcher
    found: Entry = {"command": command, "args": [*first, "mcp", *arguments]}
    return {"type": "stdio", **found} if client is not None and client.typed else found


def present(client: Client, path: Path, home: Path) -> bool:
    """Return whether the client seems to be installed: its file, that file's folder, or a trace exists."""
    if path.exists() or any((home / trace).exists() for trace in client.traces):
        return True
    return path.parent != home and path.parent.is_dir()


def installed(path: Path, key: str) -> dict[str, Any]:
    """Return the servers in an assistant's file by name; empty if there are none.

    Raises ConfigurationError if the file cannot be read.
    """
    try:
        value = read_document(_text(path).removeprefix("\ufeff") or "{}").value
    except FileNotFoundError:
        return {}
    except JsonSyntaxError as broken:
        raise _broken(path, broken) from None
    table = value.get(key) if isinstance(value, dict) else None
    return table if isinstance(table, dict) else {}


def install(
    path: Path, key: str, name: str, wanted: Entry, *, force: bool, dry: bool = False
) -> InstallChange:
    """Add Tabane to an assistant's file under ``name``, or update its entry.

    Additions by the user to the entry are preserved. Raises BadArguments if another server has that name
    (``force`` replaces it). Raises ConfigurationError if the file cannot be read, changed or written; then
    with the lines to add by hand. ``dry`` writes nothing.
    """
    status: list[Status] = []

    def change(text: str, table: Mapping[str, Any]) -> str:
        there = table.get(name)
        if name in table and not _ours(there):
            if not force:
                raise BadArguments(_taken(path, name), "name")
            text = without_member(text, (key, name))
            there = None
        status.append("updated" if there else "installed")
        if not there:
            return with_member(text, (key, name), wanted)
        for part, value in wanted.items():
            text = with_member(text, (key, name, part), value)
        return text

    by_hand = json.dumps({key: {name: wanted}}, ensure_ascii=False)
    return _changed(path, key, name, change, by_hand, lambda: status[-1], dry=dry)


def uninstall(path: Path, key: str, name: str, *, dry: bool = False) -> InstallChange:
    """Remove Tabane from an assistant's file. If only :func:`install` changed the file, it is restored.

    Raises BadArguments if another server has that name, and ConfigurationError as there.
    """
    status: list[Status] = ["absent"]
    if not path.exists():
        return InstallChange("absent")

    def change(text: str, table: Mapping[str, Any]) -> str:
        if name not in table:
            return text
        if not _ours(table[name]):
            raise BadArguments(_taken(path, name), "name")
        status.append("removed")
        return _before(path, text, (key, name), table[name]) or without_member(text, (key, name))

    return _changed(
        path,
        key,
        name,
        change,
        say("remove {name} from {key}", name=name, key=key),
        lambda: status[-1],
        dry=dry,
    )


def _changed(
    path: Path,
    key: str,
    name: str,
    change: Callable[[str, Mapping[str, Any]], str],
    by_hand: Message | str,
    status: Callable[[], Status],
    *,
    dry: bool,
) -> InstallChange:
    target = Path(os.path.realpath(path))
    try:
        if dry and not target.parent.exists():
            return InstallChange("installed")
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        with folder_lock(target):
            before = _read(target)
            mark = "\ufeff" if before.startswith("\ufeff") else ""
            table = installed(target, key)
            after = mark + change(before.removeprefix(mark), table)
            others = len(table.keys() - {name})
            if after == before:
                return InstallChange("absent" if status() == "absent" else "unchanged", None, others)
            backup = None if dry else _write(target, before, after)
            return InstallChange(status(), backup, others)
    except JsonSyntaxError as broken:
        raise _broken(path, broken) from None
    except (NotAnObject, UnsafeJsonEdit):
        raise ConfigurationError(
            say("{path} cannot be changed safely. Edit it yourself: {change}", path=path, change=by_hand)
        ) from None
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None


def _ours(definition: object) -> bool:
    return isinstance(definition, dict) and is_tabane(definition)


def _before(path: Path, text: str, place: tuple[str, str], there: object) -> str | None:
    """Return the content before Tabane was added, if nothing else has changed since."""
    backup = _read(_backup(Path(os.path.realpath(path)))).removeprefix("\ufeff")
    try:
        was = read_document(backup or "{}").value
        table = was.get(place[0]) if isinstance(was, dict) else None
        if isinstance(table, dict) and place[1] in table:
            return None
        return backup if backup and with_member(backup, place, there) == text else None
    except ValueError:
        return None


def _write(target: Path, before: str, after: str) -> Path | None:
    """Replace the file and save a backup; return the backup's path, None if there was no file."""
    mode, backup = 0o600, None
    if target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
        backup = _backup(target)
        write_private(backup, before.encode(), mode)
    write_private(target, after.encode(), mode)
    return backup


def _backup(target: Path) -> Path:
    return target.with_name(f"{target.name}.bak")


def _read(path: Path) -> str:
    try:
        return _text(path)
    except FileNotFoundError:
        return ""


def _text(path: Path) -> str:
    try:
        return read_owned(path, LIMIT).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None


def _broken(path: Path, broken: JsonSyntaxError) -> ConfigurationError:
    return ConfigurationError(
        say(
            "{path}:{line}:{column}: {expected}.",
            path=path,
            line=broken.line,
            column=broken.column,
            expected=broken.expected,
        )
    )


def _taken(path: Path, name: str) -> Message:
    return say(
        "The server {name} in {path} is not Tabane. Choose another name with --name, or replace it with "
        "--force.",
        name=name,
        path=path,
    )
