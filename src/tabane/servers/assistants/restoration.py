"""Backups of assistants' files that `tabane setup` changed, and the way back.

A backup holds the text of a file before the first setup and after the last one. If the file is still as setup
left it, it is restored byte for byte. Otherwise setup's changes are taken out of what the user made of it: by
lines if the result has the right value, else entry by entry. A user's newer entry is never replaced.
"""

from __future__ import annotations

import copy
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.assistants.formats import at_path, definition, format_of
from tabane.servers.assistants.importing import LIMIT, broken_file, is_tabane
from tabane.servers.assistants.table import Form, Shape
from tabane.servers.commented_json import JsonSyntaxError, read_document
from tabane.servers.editing import folder_lock
from tabane.settings.editing import FormatSyntaxError, UnsafeTextEdit
from tabane.settings.files import private_folder, read_owned, read_private, write_private

FOLDER = "setup"
"""The folder of the backups in Tabane's home."""

VERSION = 1
_LARGEST = 8 * LIMIT
TRIES = 5
"""Times that a file is read again because its program has just written it."""

_ABANDONED = 10.0
"""Seconds after which a half-written backup is no longer being written."""

_MOST_LINES = 4_000
"""Lines between the first and the last difference of two texts that are compared line by line."""

Keys = tuple[str, ...]
GONE: Any = type("Gone", (), {"__repr__": lambda self: "GONE"})()
"""The value of an entry that is not there."""

Outcome = Literal["restored", "merged", "unchanged", "gone", "failed"]


class EntryChange(Struct, frozen=True):
    """An entry that setup added, changed or moved out. Its texts are in ``before`` and ``after`` of the file.

    ``server`` is the name in Tabane under which a moved entry runs, ``limits`` are the restrictions it had.
    """

    path: Keys
    server: str | None = None
    limits: dict[str, Any] = field(default_factory=dict)


class FileBackup(Struct, frozen=True, kw_only=True):
    """A backup. ``before`` is None if there was no file; ``mode`` are its permissions, in octal.

    ``states`` are hashes of contents for which ``before`` is the exact way back; ``folders`` were made by
    setup. The first change of ``changes`` to a path counts.
    """

    version: int = VERSION
    client: str
    path: str
    form: Form
    shape: Shape
    mode: str | None = None
    before: str | None = None
    after: str
    states: tuple[str, ...] = ()
    changes: tuple[EntryChange, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def moved(self) -> list[str]:
        """The names in Tabane of the entries that were moved out."""
        return [change.server for change in self.changes if change.server is not None]


class Restoration(Struct, frozen=True):
    """The end of an undo of one file. ``remarks`` say what was left as it is, ``kept`` is the backup then."""

    client: str
    path: Path
    outcome: Outcome
    remarks: tuple[Message, ...] = ()
    kept: Path | None = None
    servers: tuple[str, ...] = ()


class MergedText(Struct, frozen=True):
    """A text without setup's changes; None stands for no file. ``remarks`` as of :class:`Restoration`."""

    text: str | None
    remarks: tuple[Message, ...] = ()


# -- the backups of a home -----------------------------------------------------------------------


class Backups:
    """The backups in a home, one for each file."""

    def __init__(self, home: str | os.PathLike[str]) -> None:
        self.folder = Path(home) / FOLDER

    def path_for(self, client: str, target: Path) -> Path:
        """Return the path of the backup of a file."""
        digest = hashlib.sha256(os.fsencode(target)).hexdigest()[:8]
        return self.folder / f"{client}-{digest}.json"

    def find(self, client: str, target: Path) -> FileBackup | None:
        """Return the backup of a file; None if there is none. Raises ConfigurationError."""
        with suppress(FileNotFoundError):
            return _read_backup(self.path_for(client, target))
        return None

    def all(self, clients: Iterable[str] = ()) -> list[FileBackup]:
        """Return all backups, or those of some clients, without those of :meth:`unreadable`."""
        found: list[FileBackup] = []
        for path in self._paths(clients):
            with suppress(ConfigurationError, FileNotFoundError):  # another undo may have been first
                found.append(_read_backup(path))
        return found

    def unreadable(self, clients: Iterable[str] = ()) -> list[Restoration]:
        """Return the backups that cannot be used, such as those of a newer version, and why."""
        found: list[Restoration] = []
        for path in self._paths(clients):
            try:
                with suppress(FileNotFoundError):
                    _read_backup(path)
            except ConfigurationError as error:
                client = path.name.rpartition("-")[0]
                found.append(Restoration(client, path, "failed", (error.message,), path))
        return found

    def _paths(self, clients: Iterable[str]) -> list[Path]:
        chosen = frozenset(clients)
        paths = sorted(self.folder.glob("*-????????.json"))
        return [path for path in paths if not chosen or path.name.rpartition("-")[0] in chosen]

    def save(self, backup: FileBackup) -> Path:
        """Write a backup. It is on disk at the return. Raises ConfigurationError and OSError."""
        private_folder(self.folder.parent)
        private_folder(self.folder)
        path = self.path_for(backup.client, Path(backup.path))
        write_private(path, msgspec.json.format(msgspec.json.encode(backup), indent=2))
        return path

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Let one setup of this home at a time keep secrets and add servers. Raises ConfigurationError.

        Without it, a setup that fails could take back a secret that another one has just used.
        """
        private_folder(self.folder.parent)
        private_folder(self.folder)
        with folder_lock(self.folder / "any"):
            yield

    def remove(self, backup: FileBackup) -> None:
        """Delete a backup, and the folder if it is empty then."""
        with suppress(FileNotFoundError):
            self.path_for(backup.client, Path(backup.path)).unlink()
        for part in self.folder.glob(".*.part"):  # of a setup that was killed: it has keys, too
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED:
                    part.unlink()
        with suppress(OSError):
            self.folder.rmdir()

    def set_aside(self, backup: FileBackup) -> Path:
        """Rename a backup that no undo uses any more, and return its path."""
        path = self.path_for(backup.client, Path(backup.path))
        for number in range(1, 10_000):
            kept = path.with_suffix(f".old{number}.json")
            if not kept.exists():
                os.replace(path, kept)
                return kept
        raise ConfigurationError(say("{path} has too many old backups.", path=self.folder))


def _read_backup(path: Path) -> FileBackup:
    data = read_private(path, _LARGEST)
    try:
        found = msgspec.json.decode(data, type=FileBackup)
    except msgspec.DecodeError:
        raise ConfigurationError(say("{path} is not a backup of tabane setup.", path=path)) from None
    if found.version != VERSION:
        raise ConfigurationError(
            say("{path} was written by a newer version of Tabane. Undo it with that version.", path=path)
        )
    return found


# -- undo ----------------------------------------------------------------------------------------


def undo(backups: Backups, backup: FileBackup, *, dry: bool = False) -> Restoration:
    """Take setup's changes out of one file. What cannot be merged is left alone, and its backup is kept.

    Raises nothing: the outcome says why a file could not be restored, so the others still are.
    """
    target = Path(backup.path)
    kept = backups.path_for(backup.client, target)
    try:
        if not target.parent.exists():  # it may be on a disk or in a home that comes back
            why = say("its folder {folder} is not there now", folder=target.parent)
            return Restoration(backup.client, target, "gone", (why,), kept, tuple(backup.moved))
        with folder_lock(target):
            # another setup or undo may have been at work until now
            there = backups.find(backup.client, target)
            if there is None:
                return Restoration(backup.client, target, "restored", (), None, tuple(backup.moved))
            return _undo_locked(backups, there, target, dry=dry)
    except FormatSyntaxError as broken:
        return _failed(backups, backup, broken_file(target, broken).message)
    except UnsafeTextEdit:
        why = say("its servers were not restored, because it cannot be changed safely")
        return _failed(backups, backup, why)
    except ConfigurationError as error:
        return _failed(backups, backup, error.message)
    except OSError as error:
        why = say("it cannot be written: {reason}", reason=error.strerror)
        return _failed(backups, backup, why)


def _undo_locked(backups: Backups, backup: FileBackup, target: Path, *, dry: bool) -> Restoration:
    for _ in range(TRIES):
        current = read_text(target)
        if current is None:
            if backup.before is None:
                return _finished(backups, backup, "restored", (), dry=dry)
            return _gone(backups, backup, dry=dry)
        merged = merged_text(backup, current)
        if not dry and merged.text != current:
            if read_text(target) != current:  # the program has just written it
                continue
            if merged.text is None:
                target.unlink()
            else:
                write_private(target, merged.text.encode(), stat.S_IMODE(target.stat().st_mode))
        outcome: Outcome = "restored" if merged.text == backup.before else "merged"
        return _finished(backups, backup, outcome, merged.remarks, dry=dry)
    return _failed(backups, backup, say("its program keeps changing it. Close it, and try again"))


def _failed(backups: Backups, backup: FileBackup, why: Message) -> Restoration:
    target = Path(backup.path)
    kept = backups.path_for(backup.client, target)
    return Restoration(backup.client, target, "failed", (why,), kept, tuple(backup.moved))


def _gone(backups: Backups, backup: FileBackup, *, dry: bool) -> Restoration:
    """Leave a file alone that somebody deleted: the program may be gone, too."""
    target = Path(backup.path)
    if backup.before is None:
        return _finished(backups, backup, "restored", (), dry=dry)
    kept = backups.path_for(backup.client, target) if dry else backups.set_aside(backup)
    why = say("it was deleted after the setup, so it was not created again")
    return Restoration(backup.client, target, "gone", (why,), kept, tuple(backup.moved))


def _finished(
    backups: Backups, backup: FileBackup, outcome: Outcome, remarks: tuple[Message, ...], *, dry: bool
) -> Restoration:
    kept = None
    if not dry:
        if not os.path.lexists(backup.path):
            for folder in backup.folders:  # the deepest first
                with suppress(OSError):
                    os.rmdir(folder)
        if remarks:  # an entry that the user's newer one hides is still in there
            kept = backups.set_aside(backup)
        else:
            backups.remove(backup)
    return Restoration(backup.client, Path(backup.path), outcome, remarks, kept, tuple(backup.moved))


def read_text(path: Path) -> str | None:
    """Return the text of a file, with its byte order mark; None if there is none.

    Raises ConfigurationError if it cannot be read or is not UTF-8.
    """
    try:
        return read_owned(path, LIMIT).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders that have to be made for this one, the deepest first."""
    found = []
    while not folder.exists():
        found.append(folder)
        folder = folder.parent
    return found


def state_of(text: str) -> str:
    """Return the hash by which a content is recognized."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- three-way merge -----------------------------------------------------------------------------


def merged_text(backup: FileBackup, current: str) -> MergedText:
    """Return a file without setup's changes and with those that the user made since. Pure.

    Raises FormatSyntaxError if the file is broken, and UnsafeTextEdit if its text cannot be changed safely.
    """
    if state_of(current) in backup.states or current == backup.before:
        return MergedText(backup.before)
    mark = "\ufeff" if current.startswith("\ufeff") else ""
    before, after, now = (
        text.removeprefix("\ufeff") for text in (backup.before or "", backup.after, current)
    )
    editing = format_of(backup.form)
    was, left, value = editing.value(before), editing.value(after), editing.value(now)
    targets, remarks = _targets(backup, was, left, value)
    objects = {change.path[:depth] for change in backup.changes for depth in range(1, len(change.path))}
    # objects of servers that were not there before the setup, the deepest first
    made = sorted((path for path in objects if value_at(was, path) in (GONE, None)), key=len, reverse=True)
    wanted = _pruned(_with_targets(value, targets), made)
    if backup.before is None and not wanted:
        return MergedText(None, tuple(remarks))
    text = _by_lines(before, after, now)
    if text is not None and _means(editing, text, made, wanted):
        return MergedText(mark + text, tuple(remarks))
    text = now
    for path, target in targets:
        text = _with_target(backup.form, text, path, target, before)
    for container in made:
        if at_path(editing.value(text), container) == {}:
            with suppress(UnsafeTextEdit, IndexError):
                text = editing.without_entry(text, container)
    if not _means(editing, text, made, wanted):
        raise UnsafeTextEdit
    return MergedText(mark + text, tuple(remarks))


def value_at(value: Any, path: Keys) -> Any:
    """Return what the keys lead to; :data:`GONE` if they lead nowhere."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return GONE
        value = value[key]
    return value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values of files are the same, also in their types."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(part, other[key]) for key, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def _targets(
    backup: FileBackup, was: Any, left: Any, value: Any
) -> tuple[list[tuple[Keys, Any]], list[Message]]:
    """Return what each entry becomes, where it has to change, and what stays as the user made it."""
    targets: list[tuple[Keys, Any]] = []
    remarks: list[Message] = []
    for path in dict.fromkeys(change.path for change in backup.changes):
        before, ours, now = (value_at(each, path) for each in (was, left, value))
        if same_value(now, before):
            continue
        if same_value(now, ours):
            targets.append((path, before))
        elif now is GONE:  # the user removed our entry: what it replaced comes back
            if before is not GONE and not _is_ours(backup.shape, before):
                targets.append((path, before))
        elif ours is not GONE and _is_ours(backup.shape, now):
            known = _is_ours(backup.shape, before)
            targets.append((path, _member_merge(before, ours, now) if known else before))
            if not known:
                remarks.append(
                    say("Tabane's entry {name} was removed, with your changes to it", name=path[-1])
                )
        else:
            remarks.append(say("your newer entry {name} was kept", name=path[-1]))
    return targets, remarks


def _is_ours(shape: Shape, entry: Any) -> bool:
    found = definition(shape, entry)
    return found is not None and is_tabane(found)


def _member_merge(before: Any, ours: Any, now: Any) -> dict[str, Any]:
    """Return an earlier entry of Tabane with the members that the user changed since the setup."""
    whole = dict(now)
    for key in ours.keys() | before.keys():
        if same_value(now.get(key, GONE), ours.get(key, GONE)):
            whole.pop(key, None)
            if key in before:
                whole[key] = before[key]
    return whole


def _with_targets(value: Any, targets: Sequence[tuple[Keys, Any]]) -> Any:
    whole = copy.deepcopy(value)
    for path, target in targets:
        place = whole
        for key in path[:-1]:
            if place.get(key) is None:
                place[key] = {}
            place = place[key]
            if not isinstance(place, dict):
                raise UnsafeTextEdit
        if target is GONE:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = target
    return whole


def _pruned(value: Any, made: Sequence[Keys]) -> Any:
    for path in made:
        if value_at(value, path) in ({}, None) and value_at(value, path) is not GONE:
            del at_path(value, path[:-1])[path[-1]]
    return value


def _means(editing: Any, text: str, made: Sequence[Keys], wanted: Any) -> bool:
    try:
        found = editing.value(text)
    except FormatSyntaxError:
        return False
    return same_value(_pruned(found, made), wanted)


def _with_target(form: Form, text: str, path: Keys, target: Any, before: str) -> str:
    editing = format_of(form)
    text = editing.without_entry(text, path)
    if target is GONE:
        return text
    text = editing.with_entry(text, path, target)
    if form in ("json", "jsonc") and (written := _json_span(before, path)) is not None:
        span, raw = _json_span(text, path), before[written[0] : written[1]]
        if span is not None and same_value(json_value(raw), target):
            text = text[: span[0]] + raw + text[span[1] :]
    return text


def json_value(text: str) -> Any:
    """Return the value of JSON with comments; GONE if it is not JSON."""
    try:
        return read_document(text).value
    except JsonSyntaxError:
        return GONE


def _json_span(text: str, path: Keys) -> tuple[int, int] | None:
    if not text.strip():
        return None
    document = read_document(text)
    start = len(document.text) - len(document.text.lstrip())
    span = None
    for key in path:
        members = [member for member in document.members(start) if member.key == key]
        if not members:
            return None
        start, span = members[-1].start, (members[-1].start, members[-1].end)
        if not isinstance(members[-1].value, dict):
            return span if key == path[-1] else None
    return span


# -- lines ---------------------------------------------------------------------------------------


class LineChange(Struct, frozen=True, order=True):
    """Lines ``begin`` to ``end`` of a text, counted from 0, and those that are in their place in another."""

    begin: int
    end: int
    lines: tuple[str, ...]


def _by_lines(before: str, after: str, now: str) -> str | None:
    """Return ``now`` with the changes from ``after`` to ``before``; None if both changed the same lines."""
    base = after.splitlines(keepends=True)
    back = line_changes(base, before.splitlines(keepends=True))
    theirs = line_changes(base, now.splitlines(keepends=True))
    if back is None or theirs is None:
        return None
    changes = sorted({*back, *theirs})
    for one, other in pairwise(changes):
        if other.begin < one.end or (other.begin == one.begin and other.end == one.end):
            return None
    made: list[str] = []
    at = 0
    for change in changes:
        made += [*base[at : change.begin], *change.lines]
        at = change.end
    return "".join([*made, *base[at:]])


def line_changes(base: Sequence[str], other: Sequence[str]) -> list[LineChange] | None:
    """Return the changes from ``base`` to ``other``, in order; None if they are too far apart to compare."""
    shared = min(len(base), len(other))
    head = next((at for at in range(shared) if base[at] != other[at]), shared)
    tail = next((at for at in range(shared - head) if base[-1 - at] != other[-1 - at]), shared - head)
    one, two = base[head : len(base) - tail], other[head : len(other) - tail]
    if len(one) + len(two) > _MOST_LINES:
        return None
    codes = SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    return [
        LineChange(head + begin, head + end, tuple(two[start:stop]))
        for kind, begin, end, start, stop in codes
        if kind != "equal"
    ]


def limits_in(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the restrictions of a definition with our keys."""
    found = {key: definition[key] for key in ("allow", "deny", "confirm") if definition.get(key)}
    off = definition.get("enabled") is False or definition.get("disabled") is True
    return found | ({"enabled": False} if off else {})
