"""Tabane's entry in an assistant's own file: add, update, remove, without other changes.

The file is replaced in one step and keeps its mode, and a backup is saved as ``….bak``. Comments are
preserved, since the text is edited, not generated again.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import Message, say
from tabane.servers.assistants.formats import (
    Entry,
    at_path,
    definition,
    format_of,
    written,
)
from tabane.servers.assistants.importing import LIMIT, broken_file, is_tabane
from tabane.servers.assistants.table import Client, ClientFile, ServersPlace, UserMachine
from tabane.servers.editing import folder_lock
from tabane.settings.editing import FormatSyntaxError, UnsafeTextEdit
from tabane.settings.files import read_owned, write_private

Status = Literal["installed", "updated", "unchanged", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class InstallChange:
    """A change that was, or would be, made to a file. ``others`` counts the other servers in it."""

    status: Status
    backup: Path | None = None
    others: int = 0


class TabaneCommand(Struct, frozen=True):
    """The command that starts this Tabane from any program: its words, and the places of its files."""

    words: tuple[str, ...]
    places: tuple[str, ...] = ()

    def entry(
        self, place: ServersPlace | None, name: str, mode: str | None, options: Sequence[str] = ()
    ) -> Entry:
        """Return the entry of a client's file. ``options`` are further ones of ``tabane mcp``."""
        chosen = ("--mode", mode) if mode else ()
        return entry(place, name, self.words, (*chosen, *self.places, *options))


def launcher(environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts this Tabane from a program with any PATH, as an absolute path.

    The command on PATH if it is this Tabane's (it survives an upgrade), else the one beside the interpreter,
    else the interpreter itself.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "tabane")
    on_path = shutil.which("tabane", path=environ.get("PATH"))
    if on_path and os.path.realpath(on_path) == os.path.realpath(beside):
        return [os.path.abspath(on_path)]
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "tabane"]


def entry(place: ServersPlace | None, name: str, launcher: Sequence[str], arguments: Sequence[str]) -> Entry:
    """Return Tabane's definition for a client's file; ``launcher`` runs ``tabane``.

    ``arguments`` follow ``mcp``. Without a place, it is what most clients understand.
    """
    command, *first = launcher
    return written(place.shape if place else "plain", name, command, [*first, "mcp", *arguments])


def snippet(place: ServersPlace | None, name: str, wanted: Entry) -> str:
    """Return the lines to add to a client's file, in its format."""
    place = place or ServersPlace(())
    return format_of(place.form).snippet((*place.key, name), wanted)


def present(client: Client, machine: UserMachine) -> bool:
    """Return whether the client seems to be installed: see :class:`Client`."""
    if machine.platform not in client.platforms:
        return False
    if any(machine.path(trace).exists() for trace in client.traces):
        return True
    path = machine.environ.get("PATH")
    if any(shutil.which(program, path=path) for program in client.programs):
        return True
    file = client.user_file(machine)
    if file is None:
        return False
    folder = file.path.parent
    return file.path.exists() or (not client.shared_folder and folder != machine.home and folder.is_dir())


def installed(file: ClientFile) -> dict[str, Any]:
    """Return the servers in an assistant's file by name, as written; empty if there are none.

    Raises ConfigurationError if the file cannot be read.
    """
    try:
        return _servers(file, _text(file.path).removeprefix("\ufeff"))
    except FileNotFoundError:
        return {}
    except FormatSyntaxError as broken:
        raise broken_file(file.path, broken) from None


def install(
    file: ClientFile, name: str, wanted: Entry, *, force: bool = False, dry: bool = False
) -> InstallChange:
    """Add Tabane to an assistant's file under ``name``, or update its entry.

    Additions by the user to the entry are preserved. Raises BadArguments if another server has that name
    (``force`` replaces it). Raises ConfigurationError if the file cannot be read, changed or written; then
    with the lines to add by hand. ``dry`` writes nothing.
    """
    editing, path = format_of(file.place.form), (*file.place.key, name)

    def change(text: str, there: object, found: bool) -> tuple[Status, str]:
        if found and not _ours(file.place, there):
            if not force:
                raise BadArguments(_taken(file.path, name), "name")
            text, found = editing.without_entry(text, path), False
        return "updated" if found else "installed", editing.with_entry(text, path, wanted)

    lines = snippet(file.place, name, wanted).rstrip("\n")
    return _changed(file, name, change, say("add these lines:\n{lines}", lines=lines), dry=dry)


def uninstall(file: ClientFile, name: str, *, stop: Path | None = None, dry: bool = False) -> InstallChange:
    """Remove Tabane from an assistant's file. If only :func:`install` changed the file, it is restored.

    A file that has nothing but what :func:`install` wrote is deleted, and so are the empty folders above it,
    below ``stop``. Raises BadArguments if another server has that name, and ConfigurationError as there.
    """
    if not file.path.exists():
        return InstallChange("absent")
    editing, path = format_of(file.place.form), (*file.place.key, name)

    def change(text: str, there: object, found: bool) -> tuple[Status, str | None]:
        if not found:
            return "absent", text
        if not _ours(file.place, there):
            raise BadArguments(_taken(file.path, name), "name")
        assert isinstance(there, dict)
        before = _text_before(file, name, text, there)
        if before is not None:
            return "removed", before
        if editing.with_entry("", path, there) == text:
            return "removed", None
        return "removed", editing.without_entry(text, path)

    by_hand = say("remove {name} from {key}", name=name, key=".".join(file.place.key))
    done = _changed(file, name, change, by_hand, dry=dry)
    if stop is not None and done.status == "removed" and not dry:
        _remove_empty_folders(file.path, stop)
    return done


Change = Callable[[str, object, bool], tuple[Status, str | None]]
"""An edit: from a text, its entry of that name, and whether it has one, to the new text; None for no file."""


def _changed(file: ClientFile, name: str, change: Change, by_hand: Message, *, dry: bool) -> InstallChange:
    target = Path(os.path.realpath(file.path))
    try:
        if not target.parent.exists():
            if dry:
                return InstallChange("installed")
            os.makedirs(target.parent, mode=0o700, exist_ok=True)
        with folder_lock(target):
            before = _read(target)
            mark = "\ufeff" if before.startswith("\ufeff") else ""
            text = before.removeprefix(mark)
            servers = _servers(file, text)
            status, after = change(text, servers.get(name), name in servers)
            others = len(
                [one for one in servers if one != name and definition(file.place.shape, servers[one])]
            )
            if after is not None and mark + after == before and (after or target.exists()):
                return InstallChange("absent" if status == "absent" else "unchanged", None, others)
            if dry:
                return InstallChange(status, None, others)
            if after is None:
                os.unlink(target)
                return InstallChange(status, None, others)
            return InstallChange(status, _write_with_backup(target, before, mark + after), others)
    except FormatSyntaxError as broken:
        raise broken_file(file.path, broken) from None
    except UnsafeTextEdit:
        raise ConfigurationError(
            say("{path} cannot be changed safely. Edit it yourself: {change}", path=file.path, change=by_hand)
        ) from None
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=file.path, reason=error.strerror)
        ) from None


def _servers(file: ClientFile, text: str) -> dict[str, Any]:
    table = at_path(format_of(file.place.form).value(text), file.place.key)
    return table if isinstance(table, dict) else {}


def _ours(place: ServersPlace, there: object) -> bool:
    found = definition(place.shape, there)
    return found is not None and is_tabane(found)


def _text_before(file: ClientFile, name: str, text: str, there: Entry) -> str | None:
    """Return the content before Tabane was added, if nothing else has changed since."""
    backup = _backup_path(Path(os.path.realpath(file.path)))
    if not backup.exists():
        return None
    try:
        was = _read(backup).removeprefix("\ufeff")
        if name in _servers(file, was):
            return None
        added = format_of(file.place.form).with_entry(was, (*file.place.key, name), there)
    except (ConfigurationError, FormatSyntaxError, UnsafeTextEdit):
        return None
    return was if added == text else None


def _write_with_backup(target: Path, before: str, after: str) -> Path | None:
    """Replace the file and save a backup; return the backup's path, None if there was no file."""
    mode, backup = 0o600, None
    if target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
        backup = _backup_path(target)
        write_private(backup, before.encode(), mode)
    write_private(target, after.encode(), mode)
    return backup


def _remove_empty_folders(path: Path, stop: Path) -> None:
    """Remove the folders above a file that is gone, as far as they are empty, and below ``stop``."""
    if path.exists() or not path.is_relative_to(stop):
        return
    for folder in path.parents:
        if folder == stop:
            return
        with suppress(OSError):
            folder.rmdir()


def _backup_path(target: Path) -> Path:
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


def _taken(path: Path, name: str) -> Message:
    return say(
        "The server {name} in {path} is not Tabane. Choose another name with --name, or replace it with "
        "--force.",
        name=name,
        path=path,
    )
